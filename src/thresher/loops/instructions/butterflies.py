"""Walsh-Hadamard transforms of rows of numbers, up to four levels at a time in registers.

A level of distance h replaces rows a and a + h by their sum and their difference. Levels run from the largest distance
to the smallest, and each sum is written like that: every result is the same tree of sums, whichever levels are taken
together, so that it has the same bits on every machine.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from thresher.loops import helper
from thresher.loops.instructions import REGISTER, spread

__all__ = ["GROUP", "TILE", "transform_rows", "transform_tile"]

TILE = 32  # inputs whose numbers follow each other in each row
_INT = ir.IntType(64)
_LEVELS, GROUP = 4, 16  # levels at a time, and the rows that they take: so many that they stay in registers


class _Rows:
    """Rows of an array in memory, equally far apart: a vector of each is loaded or stored."""

    def __init__(self, context: Any, builder: Any, kind: Any, array: Any, place: Any, apart: Any) -> None:
        self._builder, self._place, self._apart = builder, place, apart
        self._data = context.make_array(kind)(context, builder, array).data  # of any number of dimensions
        self._number, self._size = context.get_data_type(kind.dtype), kind.dtype.bitwidth // 8
        self.lanes = 4 * REGISTER // self._size

    def _address(self, row: int) -> Any:
        place = self._builder.add(self._place, self._builder.mul(self._apart, ir.Constant(_INT, row)))
        return self._builder.gep(self._data, [place])

    def load(self, row: int) -> Any:
        kind = ir.VectorType(self._number, self.lanes).as_pointer()
        return self._builder.load(self._builder.bitcast(self._address(row), kind), align=self._size)

    def load_one(self, row: int) -> Any:
        """The number of a row, in all lanes."""
        return spread(self._builder, self._builder.load(self._address(row)), self.lanes)

    def store(self, value: Any, row: int) -> None:
        place = self._builder.bitcast(self._address(row), value.type.as_pointer())
        self._builder.store(value, place, align=self._size)


def _transformed(builder: Any, values: list[Any]) -> list[Any]:
    apart = len(values) // 2
    while apart:
        for first in range(len(values)):
            if not first & apart:
                a, b = values[first], values[first + apart]
                values[first], values[first + apart] = builder.fadd(a, b), builder.fsub(a, b)
        apart //= 2
    return values


def _levels_of(count):
    """Return a function that takes so many levels of 2^count rows in place; places and distances count numbers."""

    @intrinsic
    def levels(typing, values, place, apart):
        def generate(context, builder, signature, arguments):
            values, place, apart = arguments
            rows = _Rows(context, builder, signature.args[0], values, place, apart)
            for row, value in enumerate(_transformed(builder, [rows.load(row) for row in range(1 << count)])):
                rows.store(value, row)
            return context.get_dummy_value()

        return types.void(values, types.int64, types.int64), generate

    return levels


_one_level, _two_levels, _three_levels, _four_levels = (_levels_of(count) for count in range(1, _LEVELS + 1))


@intrinsic
def _first_levels(typing, source, place, apart, factors, factor, further, target, there):
    """Take four levels of 16 rows, each times its factor, and write them to as many rows of another array."""

    def generate(context, builder, signature, arguments):
        kinds, (source, place, apart, factors, factor, further, target, there) = signature.args, arguments
        rows = _Rows(context, builder, kinds[0], source, place, apart)
        of_rows = _Rows(context, builder, kinds[3], factors, factor, further)
        out = _Rows(context, builder, kinds[6], target, there, apart)
        values = [builder.fmul(rows.load(row), of_rows.load_one(row)) for row in range(GROUP)]
        for row, value in enumerate(_transformed(builder, values)):
            out.store(value, row)
        return context.get_dummy_value()

    whole = types.int64
    return types.void(source, whole, whole, factors, whole, whole, target, whole), generate


@intrinsic
def _last_levels(typing, source, place, factors, row, target, there, across):
    """Take the last four levels of 16 rows that follow each other, ``TILE`` apart; write them times their factors."""

    def generate(context, builder, signature, arguments):
        kinds, (source, place, factors, row, target, there, across) = signature.args, arguments
        rows = _Rows(context, builder, kinds[0], source, place, ir.Constant(_INT, TILE))
        of_rows = _Rows(context, builder, kinds[2], factors, row, ir.Constant(_INT, 1))
        out = _Rows(context, builder, kinds[4], target, there, across)
        for k, value in enumerate(_transformed(builder, [rows.load(k) for k in range(GROUP)])):
            out.store(builder.fmul(value, of_rows.load_one(k)), k)
        return context.get_dummy_value()

    whole = types.int64
    return types.void(source, whole, factors, whole, target, whole, whole), generate


@njit(inline="always")
def _take_levels(count, values, place, apart):
    if count == 4:
        _four_levels(values, place, apart)
    elif count == 3:
        _three_levels(values, place, apart)
    elif count == 2:
        _two_levels(values, place, apart)
    else:
        _one_level(values, place, apart)


@helper
def transform_rows(values, first, rows, width, least):
    """Transform ``rows`` rows of ``width`` numbers in place, but for levels of distances below ``least``.

    Row ``first`` begins at number ``first`` times ``width``; the width is a multiple of a vector. Cost: O(log rows) a
    number.
    """
    lanes, size = 4 * REGISTER // values.itemsize, rows
    while size > least:
        count = 1
        while count < _LEVELS and size >> (count + 1) >= least:
            count += 1
        apart = size >> count
        for segment in range(0, rows, size):
            for row in range(apart):
                begin = (first + segment + row) * width
                for place in range(begin, begin + width, lanes):
                    _take_levels(count, values, place, apart * width)
        size = apart


@helper
def transform_tile(tile, signs, lengths, room, first, last, column, out):
    """Transform a tile (p, TILE) of numbers times signs (p,); write its rows ``first`` to ``last - 1`` times lengths.

    Row ``first`` is written to ``out`` (rows, columns) from ``column`` on, in row 0; both it and ``last`` are multiples
    of 16, p is at least 256. ``room`` (p, TILE) is used.
    """
    p = signs.size
    lanes, apart, across = 4 * REGISTER // tile.itemsize, p // GROUP, out.shape[1]
    for row in range(apart):
        for lane in range(0, TILE, lanes):
            place = row * TILE + lane
            _first_levels(tile, place, apart * TILE, signs, row, apart, room, place)
    for row in range(first - first % apart, last, apart):
        transform_rows(room, row, apart, TILE, GROUP)
    for row in range(first, last, GROUP):
        for lane in range(0, TILE, lanes):
            _last_levels(room, row * TILE + lane, lengths, row, out, (row - first) * across + column + lane, across)
