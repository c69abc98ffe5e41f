"""How much memory training will take, known before it is taken."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.algebra import RandomPivots
from thresher.loops.instructions.butterflies import TILE
from thresher.memory import allowed_bytes, require
from thresher.model.hadamard import block_size, by_additions
from thresher.model.network import NetworkSettings
from thresher.shards import Kind
from thresher.theory import firing_probability

__all__ = ["Facts", "Footprint", "Shares", "matrix_bytes"]

_FIXED = 230 << 20  # interpreter, libraries and compiled code
_PER_STORED_PAIR = 12  # of the weights: input and coefficient


class Facts(NamedTuple):
    """What the memory of a network depends on, for inputs that are spread over the sphere."""

    width: int
    neurons: float  # that exist: the width, or how many are expected to be drawn
    inputs: int
    dimension: int
    shift: float
    item: int  # bytes of a number in working precision
    first_step: str
    pairs: float  # that fire: exact in expectation, however the inputs lie
    awake: float  # neurons that fire on any input
    drift: float  # of the first step, per square root of the inputs that a neuron fires on
    block: int  # start rows whose products are made by one transform, or 0: they are not made like that
    knots: int = 1  # of the activation: shards see each input once for each

    @property
    def at_knots(self) -> Facts:
        """The facts as shards see them."""
        return self._replace(inputs=self.inputs * self.knots)

    @property
    def weights(self) -> float:
        """Bytes of the coefficients of a network."""
        return 1.2 * (self.pairs * _PER_STORED_PAIR + self.awake * 16)

    def part_of(self, workers: int) -> Facts:
        """Return the facts of the neurons that one of several workers holds."""
        return self._replace(**{name: getattr(self, name) / workers for name in ("neurons", "pairs", "awake")})

    @classmethod
    def of(cls, targets: NDArray[np.float64], settings: NetworkSettings, *, dtype: str, first_step: str) -> Facts:
        """Return the facts of a network that is trained on targets (n,). Cost: O(n)."""
        n, width, pieces = len(targets), settings.width, settings.pieces
        firing, usual = settings.share, firing_probability(settings.limit)  # usual: the diagonal of the Gram matrix
        awake = width * -math.expm1(n * math.log1p(-min(firing, 1 - 1e-12)))
        drift = float(np.sqrt(np.mean(targets**2))) / (max(usual, 1 / width) * math.sqrt(width))
        item, d = np.dtype(dtype).itemsize, settings.start.dimension
        neurons = width * n * firing if settings.start.kind == "poisson" else width
        block = block_size(d) if by_additions(settings.start.sequence, dtype) else 0
        knots = 1
        if pieces is not None:
            knots, drift = len(pieces.jumps), drift * max(map(abs, pieces.jumps))
        pairs = width * n * firing
        return cls(width, neurons, n, d, settings.shift, item, first_step, pairs, awake, drift, block, knots)


class Shares(NamedTuple):
    """Bytes of the process that trains, and of each worker which holds a part of the neurons."""

    driver: int
    worker: int


@dataclass(frozen=True)
class Footprint:
    """About how much memory training takes at its peak, for inputs that are spread over the sphere.

    ``targets`` (n,) are those of each network, or how far its outputs are to go otherwise. All networks have the same
    inputs and are trained together; ``matrix`` is whether n x n matrices are made.
    """

    targets: Sequence[NDArray[np.float64]]
    settings: NetworkSettings
    index: str
    kind: Kind
    dtype: str = "float32"
    first_step: str = "limit"
    matrix: bool = True
    threads: int = 1

    def facts(self, inputs: int | None = None) -> list[Facts]:
        """Return the facts of each network, or of one on fewer inputs. Cost: O(n) per problem."""
        targets = [one[:inputs] for one in self.targets]
        return [Facts.of(one, self.settings, dtype=self.dtype, first_step=self.first_step) for one in targets]

    @property
    def farthest(self) -> Facts:
        """The facts of the network that is expected to move farthest."""
        return max(self.facts(), key=lambda facts: facts.drift)

    def here(self, inputs: int | None = None) -> int:
        """Return the bytes that threads of one process take, or would with fewer inputs."""
        each = self.facts(inputs)
        shared = matrix_bytes(each[-1], threads=self.threads) if self.matrix else _pivots_bytes(each[-1])
        shared, each = shared + _rotated_bytes(each[-1].at_knots), [one.at_knots for one in each]
        return int(_FIXED + sum(map(self.kind.memory, each)) + shared + self.threads * self.kind.block_memory(each[-1]))

    def shares(self, *, workers: int, threads: int) -> Shares:
        """Return the bytes where ``workers`` of some ``threads`` hold the neurons.

        At the end the driver receives the weights and joins them.
        """
        each, kind = [one.at_knots for one in self.facts()], self.kind
        facts, n = each[0], each[0].inputs
        weights = sum(one.neurons * one.item * one.dimension if kind.DENSE else one.weights for one in each)
        shared = matrix_bytes(facts, threads=1) if self.matrix else _pivots_bytes(facts)
        products = n * n * (8 + facts.item + 4 * (threads + 1)) if self.matrix else 3 * 8 * n * facts.dimension
        held = sum(map(kind.memory, each)) / workers + products + _rotated_bytes(facts)
        held += threads * kind.block_memory(facts)
        return Shares(int(_FIXED + 3 * weights + shared), int(_FIXED + held))

    def require(self, budget: int | None) -> None:
        """Refuse with MemoryRefused, before anything is allocated, what would take more than the budget here."""
        n, allowed = len(self.targets[0]), allowed_bytes(budget)
        if self.here() > allowed:
            fit = bisect_right(range(1, n), allowed, key=self.here)
            require(
                self.here(),
                budget=budget,
                what=f"training {self.settings.width:,} neurons on {n:,} inputs with index={self.index!r}",
                remedy=f"{self.kind.REMEDY} About {fit:,} inputs would fit.",
                rows=fit,
            )


def matrix_bytes(facts: Facts, *, threads: int) -> float:
    """Return about how many bytes the n x n matrices of a training take: products, Gram, factor, counts per thread."""
    one = facts.inputs**2 * (8 * 4 + facts.item + 4 * (threads + 2))
    return float(one if facts.knots == 1 else 3 * 8 * facts.inputs**2 + one * facts.knots**2)


def _rotated_bytes(facts: Facts) -> float:
    """Return about how many bytes the inputs take in the coordinates of Hadamard rows, in float32; 0 for others."""
    return 4.0 * facts.block * (facts.inputs + TILE)


def _pivots_bytes(facts: Facts) -> float:
    """Return about how many bytes a training without n x n matrices takes instead: two low-rank factors, vectors."""
    return facts.inputs * (2.5 * 4 * RandomPivots.default_rank(facts.inputs) + 3 * 8 * facts.dimension + 40 * 8)
