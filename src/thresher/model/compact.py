"""The compact form of a network: only the neurons that count."""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thresher.checks import check_whole
from thresher.model.outputs import few_vectors_near, sum_vectors
from thresher.model.problem import check_inputs
from thresher.model.weights import Floating
from thresher.parallel import core_count, in_order

__all__ = ["CompactNetwork"]

_NEURONS, _INPUTS = 1024, 512  # of one matrix product: it fits the second-level cache
_INPUTS_NEAR = 4096  # for which pairs near the threshold are searched at a time


class _Arrays(NamedTuple):
    vectors: Floating
    coefficients: Floating
    shift: float
    offset: float = 0.0  # what is added to every output


class CompactNetwork(_Arrays):
    """f(x) = offset + sum of coefficients[r] max(<vectors[r], x> - shift, 0), with vectors (k, d), coefficients (k,).

    A named tuple of vectors, coefficients, shift and offset. What predictions need to know of all neurons is found
    once: do not change its arrays, make another one.
    """

    @cached_property
    def _longest(self) -> float:
        """The largest norm of a vector. Cost: O(kd), once."""
        return math.sqrt(np.einsum("ij,ij->i", self.vectors, self.vectors).max(initial=0.0))

    @cached_property
    def _twins(self) -> bool:
        """Whether coefficients that follow each other are opposite. Cost: O(k), once."""
        c = self.coefficients
        return len(c) > 0 and len(c) % 2 == 0 and np.array_equal(c[::2], -c[1::2])

    def predict(self, inputs: ArrayLike, *, threads: int | None = None) -> NDArray[np.float64]:
        """Return the outputs on unit-norm inputs (rows, d): (rows,).

        It equals that of :meth:`Network.predict` up to rounding, and does not depend on ``threads``. Cost: O(kd) per
        row, half of it for twins that are close to each other.
        """
        X = check_inputs(inputs, dimension=self.vectors.shape[1])
        threads = core_count() if threads is None else check_whole(threads, "threads", least=1)
        if few_vectors_near(self.vectors, self.shift, twins=self._twins):
            parts = [X[first : first + _INPUTS_NEAR] for first in range(0, len(X), _INPUTS_NEAR)]
            return self.offset + np.concatenate([self._sum_near(part, threads) for part in parts])
        parts = [X[first : first + _INPUTS] for first in range(0, len(X), _INPUTS)]
        return np.concatenate([self._outputs(part, threads) for part in parts])

    def _sum_near(self, inputs: NDArray[np.float64], threads: int) -> NDArray[np.float64]:
        arrays, longest, twins = (self.vectors, self.coefficients), self._longest, self._twins
        return sum_vectors(*arrays, inputs, self.shift, longest=longest, twins=twins, threads=threads)

    def _outputs(self, inputs: NDArray[np.float64], threads: int) -> NDArray[np.float64]:
        X: Floating = inputs.T.astype(self.vectors.dtype)  # type: ignore[assignment]

        def part(first: int) -> NDArray[np.float64]:
            rows = slice(first, first + _NEURONS)
            active = self.vectors[rows] @ X
            active -= active.dtype.type(self.shift)
            return (self.coefficients[rows] @ np.maximum(active, 0, out=active)).astype(np.float64)

        first = np.full(len(inputs), self.offset)
        return sum(in_order(part, range(0, len(self.vectors), _NEURONS), threads=threads), first)
