"""Fits of many rows on a cluster: slices of rows, which workers hold, answer products with the kernel and passes.

Slices follow from the number of rows alone and sums run over slices in their order, so results depend neither on the
number of workers nor on what is lost meanwhile. Everything else is done in this process.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from thresher.engines import Shares
from thresher.estimators.backends.processor import Cpu
from thresher.estimators.models.centres import Sweep
from thresher.interfaces import Executor
from thresher.theory import Limit, Parts, firing_probability
from thresher.theory.limit_matrix import LimitMatrix, limit_block

__all__ = ["Clustered", "KernelRows", "row_ranges"]

Single = NDArray[np.float32]
Matrix = NDArray[np.float64]
_MOST = 64  # slices
_ROWS, _COLUMNS = 256, 8192  # of a tile
_FIXED = 250 << 20  # bytes of a worker: interpreter, libraries and compiled code
_ROOM = 0.6  # share of the memory of a worker that tiles may take


def row_ranges(rows: int) -> list[range]:
    """Return the slices of that many rows: at most 64, of whole tiles, a function of their number alone."""
    tiles = math.ceil(rows / _ROWS)
    count = min(tiles, _MOST)
    edges = [min(_ROWS * (tiles * k // count), rows) for k in range(count + 1)]
    return [range(first, last) for first, last in pairwise(edges)]


class KernelRows:
    """Some rows of the limit kernel (n, n), as tiles that are kept as long as there is memory: a recipe and a slice.

    Parameters
    ----------
    inputs : (n, d), unit norm
    shift : threshold above which a neuron fires
    parts : of the kernel, or None
    memory : bytes that a slice may keep between products; what it keeps changes no bit
    rows : of the slice, from a whole tile on
    """

    UNIT: ClassVar[str] = "rows"
    REMEDY: ClassVar[str] = "Use approximation='centres', or fewer workers with more cpus each."

    def __init__(
        self, inputs: Single, shift: float, parts: Parts | None, *, memory: float, rows: range = range(0)
    ) -> None:
        self.inputs, self.shift, self.parts = inputs, shift, parts
        self._rows, self._memory = rows, memory
        self._tiles = dict[tuple[int, int], Single]()

    def slice(self, rows: range) -> KernelRows:
        """Return the slice of some rows."""
        return KernelRows(self.inputs, self.shift, self.parts, memory=self._memory, rows=rows)

    def part(self, ranges: Sequence[range]) -> KernelRows:
        """Return all of it: a row of the kernel needs all inputs."""
        return self

    def times(self, columns: Single) -> Matrix:
        """Return these rows of the kernel times vectors (r, c), rows beyond r counting as zero: (k, c).

        Cost: O(n) per row and vector, and O(nd) per row for what is not kept.
        """
        total = np.zeros((len(self._rows), columns.shape[1]))
        for first in range(self._rows.start, self._rows.stop, _ROWS):
            here = slice(first - self._rows.start, min(first + _ROWS, self._rows.stop) - self._rows.start)
            for begin in range(0, len(columns), _COLUMNS):
                there = columns[begin : begin + _COLUMNS]
                total[here] += self._tile(first, begin)[:, : len(there)] @ there
        return total

    def _tile(self, first: int, begin: int) -> Single:
        """Return rows from ``first`` on and columns from ``begin`` on, made now or before."""
        if (known := self._tiles.get((first, begin))) is not None:
            return known
        rows, columns = self.inputs[first : min(first + _ROWS, self._rows.stop)], self.inputs[begin : begin + _COLUMNS]
        tile = limit_block(rows, columns, self.shift, parts=self.parts)
        if begin <= first < begin + _COLUMNS:
            np.fill_diagonal(tile[:, first - begin :], firing_probability(self.shift))  # float32 misses it
        if tile.nbytes <= self._memory:
            self._memory -= tile.nbytes
            self._tiles[first, begin] = tile
        return tile


class _ClusterMatrix(LimitMatrix):
    """The limit kernel (n, n), whose products come from a cluster; its columns are made here."""

    def __init__(
        self, begin: Callable[[LimitMatrix], Executor], inputs: NDArray[Any], kernel: Limit, *, threads: int
    ) -> None:
        super().__init__(inputs, kernel.shift, memory=0.0, threads=threads, parts=kernel.parts)
        self._begin_workers = begin
        self._executor: Executor | None = None

    def renewed(self, kernel: Limit, inputs: NDArray[Any]) -> LimitMatrix:
        """Return the matrix of other inputs, for which there will be other workers."""
        self._executor = None
        return super().renewed(kernel, inputs)

    def times(self, vectors: Matrix) -> Matrix:
        """Return the matrix times vectors (r, c), rows beyond r counting as zero: (n, c); workers begin if need be."""
        if self._executor is None:
            self._executor = self._begin_workers(self)
        return np.concatenate(list(self._executor.map(KernelRows.times, np.ascontiguousarray(vectors, np.float32))))


class _ClusterSweep:
    """Passes over rows that workers hold."""

    def __init__(self, executor: Executor, sweep: Sweep, ranges: Sequence[range]) -> None:
        self._executor, self._sweep, self._ranges = executor, sweep, ranges

    def sums(self, alpha: Any, tell: Callable[[float], object]) -> tuple[Matrix, Matrix]:
        """Return what :meth:`Sweep.sums` returns, added up over slices."""
        total, held = self._sweep.zeros(alpha)
        for rows, (added, said) in zip(self._ranges, self._executor.map(type(self._sweep).sums, alpha), strict=True):
            places = self._sweep.places[rows.start : rows.stop]
            total += added
            held[places[places >= 0]] = said
            tell(rows.stop / len(self._sweep.stream))
        return total, held


class Clustered(Cpu):
    """The processor of this machine, and a cluster for products and passes over many rows.

    Parameters
    ----------
    cluster : makes executors; see ``engines/ray_cluster.py``
    threads : of this process
    few : rows that take less time here than workers to begin: those on which everything is chosen
    """

    def __init__(self, cluster: Any, threads: int | None = None, *, few: int) -> None:
        super().__init__(threads)
        self._cluster, self._few = cluster, few

    def operator(self, kernel: Limit, inputs: NDArray[Any], *, memory: float) -> LimitMatrix:
        """Return the kernel, of many rows on the cluster; ``memory`` is that of this process."""
        if len(inputs) <= self._few:
            return super().operator(kernel, inputs, memory=memory)
        return _ClusterMatrix(self._begin, inputs, kernel, threads=self.threads)

    def passes(self, sweep: Sweep) -> Any:
        """Return the sweep, of many rows on the cluster: each worker receives its own rows, once."""
        if len(sweep.stream) <= self._few:
            return sweep
        ranges, (centres, d) = row_ranges(len(sweep.stream)), sweep.centres.shape
        workers = self._cluster.workers(ranges)
        rows, outputs = len(sweep.stream) / workers, sweep.targets.shape[1]
        self._require(rows * (12 * d + 16 * outputs + 32) + 4 * centres * (3 * _ROWS + d), workers, sweep)
        return _ClusterSweep(self._cluster(sweep, ranges, threads=self.threads), sweep, ranges)

    def _begin(self, matrix: LimitMatrix) -> Executor:
        """Return workers that hold the rows of a kernel."""
        ranges = row_ranges(len(matrix))
        workers = self._cluster.workers(ranges)
        needed = self._require(3 * matrix.inputs.nbytes + 16 * _ROWS * _COLUMNS, workers, KernelRows)
        room = _ROOM * (self._cluster.room(workers) - needed) / math.ceil(len(ranges) / workers)
        recipe = KernelRows(matrix.inputs, matrix.shift, matrix.parts, memory=max(room, 0.0))
        return self._cluster(recipe, ranges, threads=self.threads)

    def _require(self, worker: float, workers: int, kind: Any) -> int:
        """Refuse workers that do not fit into the machines; return the bytes of each."""
        needed = int(_FIXED + worker)
        self._cluster.require(Shares(0, needed), workers, facts=None, outputs=0, kind=kind)
        return needed
