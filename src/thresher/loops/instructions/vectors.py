"""Loops over short rows of numbers in whole vectors: sums of rows, inner products, expiries that have passed.

Rows are :func:`padded` with zeros to a multiple of ``LANES`` numbers. Written as instructions: a compiler
that does not know how long rows are spends more time around such loops than in them. The order of every sum is as
written, and products are not fused with sums: the bits are the same wherever and however this is compiled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic
from numpy.typing import DTypeLike, NDArray

from thresher.loops.instructions import spread

__all__ = ["COMPARED", "LANES", "dot_pairs", "dot_rows", "padded", "passed", "prefetch", "sum_rows"]

LANES = 8
COMPARED = 16  # expiries that are compared at a time
_INT = ir.IntType(64)


def padded(rows: NDArray[np.floating], dtype: DTypeLike) -> NDArray[Any]:
    """Return rows (k, d) in a precision, with zeros at their ends, so that whole vectors hold them. Cost: O(kd)."""
    k, d = rows.shape
    out = np.zeros((k, -(-d // LANES) * LANES), dtype)
    out[:, :d] = rows
    return out


def _require_one_type(*arrays: Any) -> None:
    if len({array.dtype for array in arrays}) > 1:
        raise TypingError(f"arrays must have one type of number; got {', '.join(map(str, arrays))}.")


class _Code:
    """What the functions below write: loads, stores and sums of vectors of one type of number."""

    def __init__(self, context: Any, builder: Any, number: Any) -> None:
        self._context, self.builder = context, builder
        self.number = context.get_data_type(number)
        self.block = 1024 // number.bitwidth  # numbers that are kept in registers while rows are added

    def array(self, kind: Any, value: Any) -> Any:
        return self._context.make_array(kind)(self._context, self.builder, value).data

    def whole(self, value: int) -> Any:
        return ir.Constant(_INT, value)

    def zeros(self, lanes: int) -> Any:
        return ir.Constant(ir.VectorType(self.number, lanes), [0.0] * lanes)

    def variable(self, value: Any) -> Any:
        return cgutils.alloca_once_value(self.builder, value)

    def load(self, data: Any, place: Any, lanes: int) -> Any:
        kind = ir.VectorType(self.number, lanes).as_pointer()
        return self.builder.load(self.builder.bitcast(self.builder.gep(data, [place]), kind), align=4)

    def store(self, value: Any, data: Any, place: Any) -> None:
        kind = value.type.as_pointer()
        self.builder.store(value, self.builder.bitcast(self.builder.gep(data, [place]), kind), align=4)

    def add_product(self, variable: Any, a: Any, b: Any) -> None:
        product = self.builder.fmul(a, b)
        self.builder.store(self.builder.fadd(self.builder.load(variable), product), variable)

    def folded(self, value: Any) -> Any:
        """A block of numbers, as the sum of its parts of ``LANES``."""
        undefined, total = ir.Constant(value.type, ir.Undefined), None
        for first in range(0, self.block, LANES):
            places = ir.Constant(ir.VectorType(ir.IntType(32), LANES), list(range(first, first + LANES)))
            part = self.builder.shuffle_vector(value, undefined, places)
            total = part if total is None else self.builder.fadd(total, part)
        return total

    def total(self, value: Any) -> Any:
        """The sum of a vector: of its halves, then of the halves of these, and so on."""
        lanes, undefined = LANES, ir.Constant(value.type, ir.Undefined)
        while lanes > 1:
            lanes //= 2
            places = [*range(lanes, 2 * lanes), *range(LANES - lanes)]
            order = ir.Constant(ir.VectorType(ir.IntType(32), LANES), places)
            upper = self.builder.shuffle_vector(value, undefined, order)
            value = self.builder.fadd(value, upper)
        return self.builder.extract_element(value, ir.Constant(ir.IntType(32), 0))

    def row(self, listed: Any, place: Any, d: Any) -> Any:
        """Where the row begins that is listed at a place."""
        number = self.builder.zext(self.builder.load(self.builder.gep(listed, [place])), _INT)
        return self.builder.mul(number, d)

    def dot(self, first: Any, a: Any, second: Any, b: Any, d: Any) -> Any:
        """The inner product of d numbers from place a of one array on with those from place b of another."""
        (_, begin, whole), (_, _, end) = self.blocks(d)
        block, rest = self.variable(self.zeros(self.block)), self.variable(self.zeros(LANES))
        self.builder.store(self.zeros(self.block), block)
        for lanes, sums, here, there in ((self.block, block, begin, whole), (LANES, rest, whole, end)):
            if lanes == LANES:
                self.builder.store(self.folded(self.builder.load(block)), rest)
            with cgutils.for_range_slice(self.builder, here, there, self.whole(lanes), inc=True) as (place, _):
                one, other = (
                    self.load(data, self.builder.add(start, place), lanes) for data, start in ((first, a), (second, b))
                )
                self.add_product(sums, one, other)
        return self.total(self.builder.load(rest))

    def blocks(self, d: Any) -> Any:
        """The lengths of vectors, and the range of places in a row that are worked on with that length."""
        whole = self.builder.and_(d, self.whole(-self.block))
        return (self.block, self.whole(0), whole), (LANES, whole, d)


@intrinsic
def sum_rows(typing, steps, coefficients, listed, first, count, X, vector):
    """Set ``vector`` (d,) to the sum of coefficients[q] X[listed[first + q]] over q < count.

    Returns the square of the same sum with ``steps`` for coefficients. Both, X and the vector have one type of number.
    """
    _require_one_type(steps, coefficients, X, vector)

    def generate(context, builder, signature, arguments):
        code = _Code(context, builder, signature.args[0].dtype)
        kinds = signature.args
        steps, coefficients, listed, X, vector = (code.array(kinds[k], arguments[k]) for k in (0, 1, 2, 5, 6))
        first, count = arguments[3:5]
        d = builder.extract_value(context.make_array(kinds[6])(context, builder, arguments[6]).shape, 0)
        square = code.variable(code.zeros(LANES))
        for lanes, begin, end in code.blocks(d):
            step = code.whole(lanes)
            with cgutils.for_range_slice(builder, begin, end, step, inc=True) as (place, _):
                one, other = code.variable(code.zeros(lanes)), code.variable(code.zeros(lanes))
                builder.store(code.zeros(lanes), one)
                builder.store(code.zeros(lanes), other)
                with cgutils.for_range(builder, count) as loop:
                    row = code.row(listed, builder.add(first, loop.index), d)
                    x = code.load(X, builder.add(row, place), lanes)
                    for factors, sums in ((steps, one), (coefficients, other)):
                        factor = builder.load(builder.gep(factors, [loop.index]))
                        code.add_product(sums, spread(builder, factor, lanes), x)
                code.store(builder.load(other), vector, place)
                value = builder.load(one)
                if lanes == LANES:
                    code.add_product(square, value, value)
                else:
                    product = code.folded(builder.fmul(value, value))
                    builder.store(builder.fadd(builder.load(square), product), square)
        return code.total(builder.load(square))

    return steps.dtype(steps, coefficients, listed, types.int64, types.int64, X, vector), generate


@intrinsic
def dot_rows(typing, vector, X, listed, count, out):
    """Write the inner products of a vector (d,) with the first ``count`` listed rows of X, of its type, to ``out``."""
    _require_one_type(vector, X)

    def generate(context, builder, signature, arguments):
        code = _Code(context, builder, signature.args[0].dtype)
        kinds = signature.args
        vector, X, listed, out = (code.array(kinds[k], arguments[k]) for k in (0, 1, 2, 4))
        d = builder.extract_value(context.make_array(kinds[0])(context, builder, arguments[0]).shape, 0)
        with cgutils.for_range(builder, arguments[3]) as loop:
            total = code.dot(vector, code.whole(0), X, code.row(listed, loop.index, d), d)
            total = context.cast(builder, total, kinds[0].dtype, kinds[4].dtype)
            builder.store(total, builder.gep(out, [loop.index]))
        return context.get_dummy_value()

    return types.void(vector, X, listed, types.int64, out), generate


@intrinsic
def dot_pairs(typing, vectors, base, X, first, width, listed, count, out):
    """Write inner products of pairs of a row of ``vectors`` and a row of X, (rows, d) each, to ``out``.

    The first ``count`` numbers in ``listed`` name the pairs: number ``width`` r + i is row ``base`` + r with row
    ``first`` + i of X.
    """
    _require_one_type(vectors, X)

    def generate(context, builder, signature, arguments):
        code = _Code(context, builder, signature.args[0].dtype)
        kinds = signature.args
        vectors, X, listed, out = (code.array(kinds[k], arguments[k]) for k in (0, 2, 5, 7))
        _, base, _, first, width, _, count, _ = arguments
        shape = context.make_array(kinds[0])(context, builder, arguments[0]).shape
        d = builder.extract_value(shape, 1)
        with cgutils.for_range(builder, count) as loop:
            pair = builder.zext(builder.load(builder.gep(listed, [loop.index])), _INT)
            a = builder.mul(builder.add(base, builder.udiv(pair, width)), d)
            b = builder.mul(builder.add(first, builder.urem(pair, width)), d)
            builder.store(code.dot(vectors, a, X, b, d), builder.gep(out, [loop.index]))
        return context.get_dummy_value()

    whole = types.int64
    return types.void(vectors, whole, X, whole, whole, listed, whole, out), generate


@intrinsic
def passed(typing, expiry, place, first, last, level):
    """Return which of ``COMPARED`` expiries from ``place`` on are at most ``level``, as bits, and the least other one.

    Only those from ``first`` to ``last`` - 1 count; the least of none is infinite.
    """

    def generate(context, builder, signature, arguments):
        code = _Code(context, builder, signature.args[0].dtype)
        _, place, first, last, level = arguments
        values = code.load(code.array(signature.args[0], arguments[0]), place, COMPARED)
        lanes = ir.VectorType(_INT, COMPARED)
        numbers = ir.Constant(lanes, list(range(COMPARED)))
        low, high = (spread(builder, builder.sub(edge, place), COMPARED) for edge in (first, last))
        counts = builder.and_(builder.icmp_signed(">=", numbers, low), builder.icmp_signed("<", numbers, high))
        due = builder.and_(counts, builder.fcmp_ordered("<=", values, spread(builder, level, COMPARED)))
        others = builder.and_(counts, builder.not_(due))
        infinite = ir.Constant(values.type, [float("inf")] * COMPARED)
        kind = ir.FunctionType(code.number, [values.type])
        name = f"llvm.vector.reduce.fmin.v{COMPARED}{'f32' if code.number == ir.FloatType() else 'f64'}"
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        least = builder.call(function, [builder.select(others, values, infinite)], fastmath=("nnan",))
        word = builder.zext(builder.bitcast(due, ir.IntType(COMPARED)), _INT)
        return context.make_tuple(builder, signature.return_type, [word, least])

    answer = types.Tuple((types.uint64, expiry.dtype))
    return answer(expiry, types.int64, types.int64, types.int64, expiry.dtype), generate


@intrinsic
def prefetch(typing, values, place):
    """Have a number of an array brought into the cache."""

    def generate(context, builder, signature, arguments):
        code = _Code(context, builder, types.float32)
        address = builder.gep(code.array(signature.args[0], arguments[0]), [arguments[1]])
        text, small = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [text, small, small, small])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        hints = [ir.Constant(small, one) for one in (0, 3, 1)]
        builder.call(function, [builder.bitcast(address, text), *hints])
        return context.get_dummy_value()

    return types.void(values, types.int64), generate
