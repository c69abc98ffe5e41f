"""An executor: slices of neurons in this process, worked on by threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from thresher.parallel import Pool

__all__ = ["Sliced", "Threads"]

_SHARED_COUNTS = 4096  # inputs up to which each thread gets its own copy of the counts to change them


class Sliced(Protocol):
    """A recipe of slices of neurons that can be sent to another process."""

    @property
    def inputs(self) -> NDArray[Any]:
        """The inputs (n, d)."""

    def slice(self, numbers: range) -> Any:
        """Return the slice of some neurons: the same in every process."""

    def part(self, ranges: Sequence[range]) -> Sliced:
        """Return what a worker needs to make these slices, which are neighbours."""


class Threads:
    """Slices of one process, dealt out to threads."""

    def __init__(self, recipe: Sliced, ranges: Sequence[range], *, threads: int) -> None:
        self._inputs, self._threads, self._pool = len(recipe.inputs), threads, Pool(threads)
        self._slices = [recipe.slice(some) for some in ranges]

    def map(self, function: Callable[..., Any], *arguments: Any) -> Iterator[Any]:
        """Yield what a function returns for every slice, in their order."""
        return self._pool.in_order(lambda one: function(one, *arguments), self._slices)

    def traffic(self) -> dict[str, float]:
        """Return nothing: nothing travels."""
        return {}

    def add_up(self, function: Callable[..., Any], *arguments: Any) -> NDArray[np.int32]:
        """Return the sum over slices of what a function adds to counts (n, n). Memory: a copy for each thread."""
        n = self._inputs
        threads = min(self._threads, len(self._slices)) if n <= _SHARED_COUNTS else 1

        def work(first: int) -> NDArray[np.int32]:
            counts = np.zeros((n, n), np.int32)
            for one in self._slices[first::threads]:
                function(one, *arguments, counts)
            return counts

        first, *others = self._pool.in_order(work, range(threads))
        for counts in others:
            first += counts
        return first
