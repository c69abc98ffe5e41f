"""The limit kernel of many inputs, in single precision: half of the matrix, as much of it as fits, the rest made anew.

A matrix of n² numbers is the bound on how many inputs a method can take. It is symmetric, so half of it will do;
single precision halves it again; and an entry takes some nanoseconds to make, so that what does not fit is
computed again for each product.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from thresher.loops.limit import FAR, NEAR, differentiate, evaluate_slope, multiply_both, multiply_kernel
from thresher.model.activations import Pieces
from thresher.parallel import core_count, in_order
from thresher.theory.kernel import Limit, cofiring_probability, firing_probability, limit_kernel, write_kernel
from thresher.theory.parts import Parts

__all__ = [
    "KINK",
    "LimitInputs",
    "LimitMatrix",
    "half_bytes",
    "limit_block",
    "limit_cross",
    "limit_gradients_at",
    "limit_product",
    "polynomials",
]

Single = NDArray[np.float32]
Matrix = NDArray[np.float64]
_ROWS, _COLUMNS = 256, 1024  # of a tile: a megabyte
_TASK = 1 << 21  # numbers of a matrix that a thread multiplies at a time
_TILE = 1 << 17  # of them, those that stay in the cache from the product to the kernel and to its product with vectors
_FEW = 6  # vectors up to which a loop of ours multiplies a tile faster than BLAS
_EDGE = 1 - 2e-4  # inner products above this are computed again, from the distance
KINK = 5e-7  # 1 - |rho| below which a product in single precision says nothing of the slope
_CLOSE = 5e-6  # error of the polynomials at most, relative to the diagonal; else the table of the double kernel is used


@lru_cache(maxsize=32)
def polynomials(shift: float | Pieces) -> tuple[Single, Single] | None:
    """Return the coefficients that ``multiply_kernel`` takes; None if they are not close enough to the probability.

    For the pieces of other activations there are none.
    """
    if isinstance(shift, Pieces):
        return None
    found = []
    for sign, degree in ((1.0, NEAR), (-1.0, FAR)):
        places = np.cos(np.pi * (np.arange(degree + 1) + 0.5) / (degree + 1))
        fitted = chebyshev.chebfit(places, _probability(places, sign, shift), degree)
        between = np.linspace(-1.0, 1.0, 4001)
        error = np.abs(chebyshev.chebval(between, fitted) - _probability(between, sign, shift)).max()
        if not error <= _CLOSE * firing_probability(shift):
            return None
        found.append(chebyshev.cheb2poly(fitted)[::-1].astype(np.float32))
    return found[0], found[1]


def _probability(places: Matrix, sign: float, shift: float) -> Matrix:
    return cofiring_probability(sign * (1 - ((places + 1) / 2) ** 2), shift)


def limit_block(
    left: Single, right: Single, shift: float | Pieces, out: Single | None = None, *, parts: Parts | None = None
) -> Single:
    """Return the limit kernel (k, n) between inputs (k, d) and (n, d), float32; with parts, that of the sum of them.

    Errors are below 2e-6 of the diagonal, but for pairs that are all but opposite, and without polynomials for those
    that are all but equal: there the kernel has a kink, and the rounding of their product counts up to 2e-4.

    Cost: O(d) and a nanosecond or two per entry, on the calling thread.
    """
    block = np.empty((len(left), len(right)), np.float32) if out is None else out
    room, nothing = np.empty(len(left) * min(_COLUMNS, len(right)), np.float32), np.zeros((len(left), 0))
    rows = _Side.of(left, parts)
    for first in range(0, len(right), _COLUMNS):  # in the cache from the product to the kernel
        some = _Side.of(right[first : first + _COLUMNS], parts, across=True)
        tile = room[: len(left) * len(some.inputs)].reshape(len(left), -1)
        _add_single(rows, some, np.zeros((0, tile.shape[1]), np.float32), shift, parts, tile, nothing)
        block[:, first : first + _COLUMNS] = tile
    return block


def limit_cross(others: Matrix, inputs: Matrix, shift: float | Pieces, *, parts: Parts | None = None) -> Matrix:
    """Return the limit kernel (k, n) between others (k, d) and inputs (n, d), in double precision. Cost: O(d) each."""
    left, right = _Side.of(others, parts), _Side.of(inputs, parts, across=True)
    kernel = limit_kernel(left.inputs @ right.inputs.T, shift, symmetric=False, overwrite=True)
    if parts is not None:
        parts.add(kernel, left.angles, right.angles, firing_probability(shift))
    return kernel


class _Side(NamedTuple):
    """Inputs on one side of a block: unit vectors (n, d), and the angles (n, columns) of parts, or their transpose."""

    inputs: NDArray[Any]
    angles: NDArray[Any] | None

    @classmethod
    def of(cls, inputs: NDArray[Any], parts: Parts | None, *, across: bool = False) -> _Side:
        if parts is None:
            return cls(inputs, None)
        vectors, angles = parts.split(inputs)
        return cls(vectors, np.ascontiguousarray(angles.T) if across else angles)

    def some(self, rows: slice) -> _Side:
        return _Side(self.inputs[rows], None if self.angles is None else self.angles[rows])


def limit_product(
    others: NDArray[Any],
    inputs: NDArray[Any],
    vectors: NDArray[Any],
    shift: float | Pieces,
    *,
    threads: int | None = None,
    double: bool = False,
    parts: Parts | None = None,
) -> Matrix:
    """Return the limit kernel between others (k, d) and inputs (n, d), times vectors (n, c), (k, c).

    In single precision entries are those of :func:`limit_block`.

    Cost: O(nd) per row of the others, in blocks and on all threads; memory for a block per thread. An entry takes a
    nanosecond, in double precision several.
    """
    kind: Any = np.float64 if double else np.float32
    left, right = (np.ascontiguousarray(one, kind) for one in (others, inputs))
    (n, c), add = vectors.shape, _add_double if double else _add_single
    some = [slice(first, first + _COLUMNS) for first in range(0, n, _COLUMNS)]
    columns = [np.ascontiguousarray(vectors[one].T, kind) for one in some]
    lefts, rights = _Side.of(left, parts), [_Side.of(right[one], parts, across=True) for one in some]
    size, height = max(_ROWS, _TASK // max(1, n)), _TILE // max(1, min(_COLUMNS, n))

    def rows_of(first: int) -> Matrix:
        rows = lefts.some(slice(first, first + size))
        total, room = np.zeros((len(rows.inputs), c)), np.empty(_TILE, kind)
        for place in range(0, len(total), height):
            few = rows.some(slice(place, place + height))
            for other, times in zip(rights, columns, strict=True):
                tile = room[: len(few.inputs) * times.shape[1]].reshape(len(few.inputs), -1)
                add(few, other, times, shift, parts, tile, total[place : place + height])
        return total

    made = in_order(rows_of, range(0, len(left), size), threads=core_count() if threads is None else threads)
    return np.concatenate([np.zeros((0, c)), *made])


def _add_single(
    left: _Side, right: _Side, columns: Single, shift: float | Pieces, parts: Parts | None, tile: Single, total: Matrix
) -> None:
    """Write the kernel (k, n) between inputs to a tile; add it times columns (c, n), transposed, to a total (k, c)."""
    np.matmul(left.inputs, right.inputs.T, out=tile)
    known, few = polynomials(shift), False
    if known is None:
        tile[:] = limit_kernel(tile.astype(np.float64), shift, symmetric=False)
    else:
        few = len(columns) <= _FEW and parts is None
        edge = np.float32(_EDGE)
        multiply_kernel(tile, *known, edge, left.inputs, right.inputs, columns if few else columns[:0], total)
    if parts is not None:
        parts.add(tile, left.angles, right.angles, firing_probability(shift))
    if not few:
        total += tile @ columns.T


def _add_double(
    left: _Side, right: _Side, columns: Matrix, shift: float | Pieces, parts: Parts | None, tile: Matrix, total: Matrix
) -> None:
    np.matmul(left.inputs, right.inputs.T, out=tile)
    write_kernel(tile, shift, tile)
    if parts is not None:
        parts.add(tile, left.angles, right.angles, firing_probability(shift))
    total += tile @ columns.T


def limit_gradients_at(
    others: Single, inputs: Single, alpha: Matrix, shift: float, *, threads: int | None = None
) -> NDArray[np.float64]:
    """Return the gradients (c, k, d) of the limit, with coefficients alpha (n, c), at other inputs (k, d).

    Pairs that are all but equal count nothing: the kernel has a kink there. Cost: O(nd) per output and row.
    """
    columns = alpha.T.astype(np.float32)

    def part(first: int) -> NDArray[np.float32]:
        rows = others[first : first + _ROWS]
        total = np.zeros((len(columns), len(rows), inputs.shape[1]), np.float32)
        for begin in range(0, len(inputs), _COLUMNS):
            some = inputs[begin : begin + _COLUMNS]
            slopes = _slopes(rows, some, shift)
            for place, one in enumerate(columns[:, begin : begin + _COLUMNS]):
                total[place] += slopes @ (one[:, None] * some)
        return total

    parts = in_order(part, range(0, len(others), _ROWS), threads=core_count() if threads is None else threads)
    return np.concatenate(list(parts), axis=1).astype(np.float64)


def _slopes(left: Single, right: Single, shift: float) -> Single:
    """Return the derivative of the limit kernel (k, n) by the inner product of inputs (k, d) and (n, d)."""
    products, known = left @ right.T, polynomials(shift)
    if known is None:
        slopes = limit_block(left, right, shift)
        differentiate(products, shift, slopes, 2 * KINK)
        return slopes
    near, far = known
    ranks = [np.arange(len(one) - 1, 0, -1, dtype=np.float32) for one in known]
    evaluate_slope(products, near, far, near[:-1] * ranks[0], far[:-1] * ranks[1], np.float32(KINK))
    return products


class LimitInputs:
    """What a limit kernel is made from: inputs (n, d), float32, the shift, and parts; n is its length."""

    inputs: Single
    shift: Any  # a number, or the pieces of another activation
    parts: Parts | None

    def _take(self, inputs: NDArray[Any], shift: float | Pieces, parts: Parts | None) -> None:
        self.inputs, self.shift, self.parts = np.ascontiguousarray(inputs, np.float32), shift, parts

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def diagonal(self) -> float:
        """Every entry of the diagonal: the probability that a neuron fires."""
        return firing_probability(self.shift)


class LimitMatrix(LimitInputs):
    """The limit kernel (n, n) of inputs (n, d), as an operator.

    Parameters
    ----------
    inputs : (n, d), unit norm
    shift : threshold above which a neuron fires
    memory : bytes that may be kept, of 2 n² for the whole; what was made for one product is kept for the next
    threads : None for all cores
    parts : of the kernel, whose angles are the last coordinates of inputs; None for that of all columns
    """

    def __init__(
        self,
        inputs: NDArray[Any],
        shift: float | Pieces,
        *,
        memory: float,
        threads: int | None = None,
        parts: Parts | None = None,
    ) -> None:
        self._take(inputs, shift, parts)
        self.threads = core_count() if threads is None else threads
        firsts = range(0, len(self.inputs), _ROWS)
        ends = np.cumsum([_ROWS * (first + _ROWS) for first in firsts])
        self._tasks = [list(some) for _, some in groupby(firsts, lambda first: ends[first // _ROWS] // _TASK)]
        self._whole, kept = int(ends[-1]), int(np.searchsorted(ends, memory / 4, side="right"))
        size = int(ends[kept - 1]) if kept else 0
        self._store = np.empty(size, np.float32)  # in one piece: faster to get than many; untouched, it takes nothing
        self._begin = {
            first: int(end) - _ROWS * (first + _ROWS) for first, end in zip(firsts[:kept], ends[:kept], strict=True)
        }
        self._made = dict[int, int]()  # columns of each panel that are kept

    def renewed(self, kernel: Limit, inputs: NDArray[Any]) -> LimitMatrix:
        """Return the matrix of other inputs, as many, in the memory of this one, which is lost."""
        self._take(inputs, kernel.shift, kernel.parts)
        self._made.clear()
        return self

    @property
    def kept(self) -> float:
        """The share of the matrix that is kept between products."""
        return len(self._store) / self._whole

    def columns(self, rows: NDArray[np.int64]) -> Single:
        """Return some rows of the matrix (k, n), which are its columns too. Cost: O(nd) each."""
        some = self.inputs[rows]
        out = np.empty((len(some), len(self)), np.float32)

        def fill(first: int) -> None:
            part = slice(first, first + 8 * _COLUMNS)
            limit_block(some, self.inputs[part], self.shift, out[:, part], parts=self.parts)

        list(in_order(fill, range(0, len(self), 8 * _COLUMNS), threads=self.threads))
        out[np.arange(len(some)), rows] = self.diagonal
        return out

    def times(self, vectors: Matrix) -> Matrix:
        """Return the matrix times vectors (r, c), rows beyond r counting as zero: (n, c).

        Cost: O(nr) per vector, and O(nrd) for what is not kept; of rows up to r half of that.
        """
        columns = np.ascontiguousarray(vectors.T, np.float32)
        total = np.zeros((len(columns), len(self)))

        def part(panels: list[int]) -> tuple[int, Matrix, Matrix]:  # the same for any number of threads
            before = np.zeros((len(columns), min(panels[-1], columns.shape[1])))
            own = [self._add_panel(first, columns, before) for first in panels]
            return panels[0], np.concatenate(own, axis=1), before

        for first, own, before in in_order(part, self._tasks, threads=self.threads):
            total[:, first : first + own.shape[1]] += own
            total[:, : before.shape[1]] += before
        return np.ascontiguousarray(total.T)

    def _panel(self, first: int, until: int) -> Single:
        """Return rows of the matrix (k, first + k), whose columns from ``until`` on may say nothing."""
        rows = self.inputs[first : first + _ROWS]
        shape, begin, known = (len(rows), first + len(rows)), self._begin.get(first), self._made.get(first, 0)
        if begin is None:
            panel = np.empty(shape, np.float32)
        else:
            panel = self._store[begin : begin + shape[0] * shape[1]].reshape(shape)
        until = min(until, shape[1])
        if known < until:
            limit_block(rows, self.inputs[known:until], self.shift, panel[:, known:until], parts=self.parts)
            if until > first:  # products of float32 miss 1 by 1e-7, the kernel by 1e-4
                np.fill_diagonal(panel[: until - first, first:until], self.diagonal)
            if begin is not None:
                self._made[first] = until
        return panel

    def _add_panel(self, first: int, columns: Single, before: Matrix) -> Matrix:
        """Return what a panel times columns (c, r) gives for its own rows (c, k); add what it gives for those before.

        Half of the matrix stands for both.
        """
        panel = self._panel(first, columns.shape[1])
        until, inside = min(first, columns.shape[1]), columns[:, first : first + len(panel)]  # none beyond the vectors
        own = (inside @ panel[:, first : first + inside.shape[1]].T).astype(np.float64)
        here, added = (np.zeros((len(columns), size), np.float32) for size in (len(panel), until))
        here[:, : inside.shape[1]] = inside
        multiply_both(panel, until, _COLUMNS, columns, here, own, added)
        before[:, :until] += added
        return own


def half_bytes(inputs: int) -> float:
    """Return the bytes of half of the matrix for that many inputs."""
    panels = math.ceil(inputs / _ROWS)
    return 4.0 * _ROWS**2 * panels * (panels + 1) / 2
