"""What shards are made of, and a slice of neurons with one shard per output. Both can be sent to another process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from thresher.interfaces import Shard, ShardStarted
from thresher.loops.instructions.vectors import padded
from thresher.loops.pairs.bits import panels_of
from thresher.model.activations.knots import Knots
from thresher.model.geometry import Geometry
from thresher.model.hadamard import Rotated, by_additions
from thresher.model.network import NetworkSettings
from thresher.model.weights import Floating

__all__ = ["Kind", "Recipe", "Slice"]


class Kind(Protocol):
    """A kind of shard: the class, with what must be known of it before a shard is made."""

    SHARE: int  # shards of this kind are this many times smaller than the largest; 0: all neurons are in one
    REMEDY: str  # what to do if memory does not suffice
    ON_DEVICE: bool  # whether they live on a GPU
    DENSE: bool  # whether what was added to a neuron is a vector, not coefficients on the inputs it fired on

    def __call__(self, recipe: Recipe, neurons: range) -> Shard:
        """Make a shard of a range of neurons."""

    def memory(self, facts: Any) -> float:
        """Return about how many bytes a network and its shards take, from ``Facts`` of ``engines/footprint.py``."""

    def require_device(self, facts: Any, outputs: int) -> None:
        """Refuse what does not fit into the memory of a device that shards live on, before any work."""

    def block_memory(self, facts: Any) -> float:
        """Return about how many bytes a thread takes for a block of neurons."""

    def start_together(
        self, shards: Sequence[Any], first_steps: Sequence[NDArray[np.float64] | None], *, expected: Sequence[float]
    ) -> list[ShardStarted]:
        """Start shards of the same neurons, one per output: what they share is made once."""


@dataclass(frozen=True, eq=False)
class Recipe:
    """All that a shard is made from: the same recipe and range give the same shard in every process."""

    kind: Kind
    settings: NetworkSettings
    inputs: NDArray[np.float64]  # (n, d)
    dtype: str  # working precision of the bulk products
    outputs: int = 1
    products: bool = True  # whether inner products of the inputs are kept, n x n numbers
    knots: Knots | None = None  # of which these are the inputs, if the activation is not ReLU

    @cached_property
    def geometry(self) -> Geometry:
        """What searches know of the inputs, made once per process, by the first shard that needs it. Cost: O(n²d)."""
        return Geometry.of(self.inputs, dtype=self.dtype, products=self.products, offsets=self.offsets)

    @cached_property
    def offsets(self) -> NDArray[np.float64] | None:
        """How far thresholds of the inputs lie above the shift (n,); None where all are at it."""
        return None if self.knots is None else self.knots.offsets(self.settings.shift)

    def at_knots(self) -> Recipe:
        """Return the recipe of the ReLU network that does what this one does; itself if that is one. Cost: O(Knd)."""
        if self.settings.pieces is None:
            return self
        knots = Knots(self.inputs, self.settings.pieces)
        return replace(self, inputs=knots.inputs, knots=knots)

    @cached_property
    def fast_inputs(self) -> Floating:
        """The inputs in working precision, row by row, made once per process. Cost: O(nd)."""
        return np.ascontiguousarray(self.inputs, self.dtype)

    @cached_property
    def padded_inputs(self) -> Floating:
        """The same with zeros at the ends of rows, made once per process. Cost: O(nd)."""
        return padded(self.inputs, self.dtype)

    @cached_property
    def panels(self) -> Floating:
        """The same as panels of columns, for products over pairs, made once per process. Cost: O(nd)."""
        return panels_of(self.fast_inputs)

    @cached_property
    def rotated_inputs(self) -> Rotated | None:
        """The inputs as Hadamard rows meet them, made once per process; None for other rows. Cost: O(n d log d)."""
        start = self.settings.start
        return Rotated.of(self.inputs, seed=start.seed) if by_additions(start.sequence, self.dtype) else None

    def slice(self, neurons: range) -> Slice:
        """Return the slice of a range of neurons."""
        return Slice(self, neurons)

    def part(self, ranges: Sequence[range]) -> Recipe:
        """Return the recipe itself: all neurons see all inputs."""
        return self

    def __getstate__(self) -> dict[str, Any]:
        made = ("geometry", "offsets", "fast_inputs", "padded_inputs", "panels", "rotated_inputs")
        return {name: value for name, value in self.__dict__.items() if name not in made}


class Slice:
    """A range of neurons with one shard per output."""

    def __init__(self, recipe: Recipe, neurons: range) -> None:
        self._kind = recipe.kind
        self._shards: list[Shard | None] = [recipe.kind(recipe, neurons) for _ in range(recipe.outputs)]

    def start(self, first_steps: Sequence[NDArray[np.float64] | None], expected: Sequence[float]) -> list[ShardStarted]:
        """Start the shards of all outputs in one pass over the start weights."""
        return self._kind.start_together(self._shards, first_steps, expected=expected)

    def call(self, output: int, method: Callable[..., Any], *arguments: Any) -> Any:
        """Call a method of ``Shard``, as the shard of one output has it."""
        return getattr(self._shards[output], method.__name__)(*arguments)

    def release(self, output: int) -> None:
        """Forget the shard of one output."""
        self._shards[output] = None
