"""The local engine: shards on the threads of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from thresher.engines.shard import Shard, ShardMoved
from thresher.interfaces import Effort, Index, Moved, Progress, Sketch
from thresher.memory import require
from thresher.model.firing import Pattern
from thresher.model.network import NetworkSettings
from thresher.model.problem import Problem
from thresher.model.weights import Weights
from thresher.parallel import core_count, in_order

__all__ = ["LocalEngine", "shard_ranges"]

Value = TypeVar("Value")
_SHARD = 1 << 14  # neurons at least in a shard
_MOST_SHARDS = 64


def shard_ranges(width: int) -> list[range]:
    """Return the slices of neurons that make up a network: a function of the width alone.

    The order of every sum over neurons is fixed by these slices, so results depend neither on the number of threads nor
    on how shards are dealt out to machines.
    """
    count = min(max(width // _SHARD, 1), _MOST_SHARDS)
    edges = [width * k // count for k in range(count + 1)]
    return [range(first, last) for first, last in pairwise(edges)]


class LocalEngine:
    """Shards of one machine, worked on by threads.

    Parameters
    ----------
    problem, settings : what is trained
    index : class of the threshold search, one per shard
    dtype : working precision of the products, "float32" or "float64"
    threads : None for all cores
    memory_budget : bytes that may be taken, None for 90 % of what is free
    """

    def __init__(
        self,
        problem: Problem,
        settings: NetworkSettings,
        *,
        index: type[Index],
        dtype: str = "float32",
        threads: int | None = None,
        memory_budget: int | None = None,
    ) -> None:
        self._problem, self._settings = problem, settings
        self._threads = core_count() if threads is None else threads
        itemsize = np.dtype(dtype).itemsize
        require(
            index.bytes_needed(settings.width, problem.size, itemsize) + 6 * 8 * problem.size**2,
            budget=memory_budget,
            what=f"index {index.__name__.lower()!r} for {settings.width} neurons and {problem.size} inputs",
            remedy="Use a smaller width, fewer inputs, or index='scan', which stores nothing.",
        )
        self._shards = [
            Shard(settings, problem.inputs, neurons, index=index(), dtype=dtype)
            for neurons in shard_ranges(settings.width)
        ]
        self._offset = settings.offset()

    def start(self, progress: Progress) -> Moved:
        """Make the start weights, find who fires. Cost: O(m n d)."""
        return self._sum(Shard.start, progress)

    def linearise(self) -> LocalGram:
        """Make the current weights the point that steps start from, and return the Gram operator there."""
        for shard in self._shards:
            shard.linearise()
        return LocalGram(self._problem, self._settings, self._shards, self._threads)

    def move(self, step: NDArray[np.float64]) -> Moved:
        """Put the neurons at W - Jᵀ step and find the outputs there."""
        return self._sum(lambda shard: shard.move(step), lambda done, total: None)

    def weights(self) -> Weights:
        """Return the weights at the last ``linearise`` for all neurons. Cost: O(pairs)."""
        parts = [shard.weights for shard in self._shards]
        sizes = np.cumsum([0] + [part.support.pairs for part in parts])
        bounds = [part.support.bounds[:-1] + size for part, size in zip(parts, sizes, strict=False)]
        support = Pattern(
            np.concatenate([part.support.neurons for part in parts]),
            np.concatenate([*bounds, sizes[-1:]]),
            np.concatenate([part.support.inputs for part in parts]),
        )
        coefficients = np.concatenate([part.coefficients for part in parts])
        return parts[0]._replace(support=support, coefficients=coefficients)

    def _sum(self, task: Callable[[Shard], ShardMoved], progress: Progress) -> Moved:
        outputs, effort = np.zeros(self._problem.size), Effort()
        for done, part in enumerate(in_order(task, self._shards, threads=self._threads), start=1):
            outputs += part.outputs
            effort = effort.plus(part.effort)
            progress(done * self._settings.width // len(self._shards), self._settings.width)
        return Moved(outputs * self._settings.scale + self._offset, effort)


class LocalGram:
    """G = (X Xᵀ) o C / m as sums over shards; C counts the neurons that fire on both of two inputs."""

    def __init__(self, problem: Problem, settings: NetworkSettings, shards: list[Shard], threads: int) -> None:
        self._problem, self._settings, self._shards, self._threads = problem, settings, shards, threads

    @property
    def size(self) -> int:
        """Number of inputs, n."""
        return self._problem.size

    def dense(self) -> NDArray[np.float64]:
        """Return the matrix (n, n), from exact co-firing counts. Cost: O(n² + squared row lengths) a shard, once."""
        return self._dense

    @cached_property
    def _dense(self) -> NDArray[np.float64]:
        counts = sum(self._map(Shard.count_cofiring), start=np.zeros((self.size, self.size), np.int64))
        return self._problem.products * counts / self._settings.width

    def times(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return G @ vector (n,). Cost: O(d) a firing pair, or O(n²) once the matrix has been formed."""
        if "_dense" in self.__dict__:
            return self._dense @ vector
        total = sum(self._map(lambda shard: shard.gram_times(vector)), start=np.zeros(self.size))
        return np.asarray(total) / self._settings.width

    def diagonal(self) -> NDArray[np.float64]:
        """Return the diagonal of G (n,). Cost: O(pairs)."""
        counts = sum(self._map(Shard.count_firing), start=np.zeros(self.size, np.int64))
        return np.einsum("ik,ik->i", self._problem.inputs, self._problem.inputs) * counts / self._settings.width

    def sketch(self, sketch: Sketch) -> NDArray[np.float64]:
        """Return S Jᵀ (s, n); see the sketch for its cost."""
        shares = self._map(lambda shard: shard.gather(sketch))
        total = sum(shares, start=np.zeros((self.size, sketch.rows)))
        return sketch.finish(np.asarray(total), self._shards[0].jacobian())

    def _map(self, task: Callable[[Shard], Value]) -> Iterator[Value]:
        return in_order(task, self._shards, threads=self._threads)
