"""The engine: the neurons of one output, as sums over shards which an executor keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Concatenate, ParamSpec, TypeVar
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from thresher.engines.gram import ShardGram
from thresher.errors import BrokenCertificate
from thresher.interfaces import Audit, Effort, Executor, Moved, Progress, Shard, ShardStarted, Started
from thresher.model.weights import DenseWeights, Weights
from thresher.shards import Recipe, Slice
from thresher.shards.pairs import REMEDY

__all__ = ["ShardEngine", "shard_ranges", "start_shards"]

P = ParamSpec("P")
R = TypeVar("R")
_SHARD = 1 << 14  # neurons at least in a shard of the largest kind
_MOST_SHARDS = 64
_MANY_INPUTS = 1000  # with so many times more inputs shards may be that many times smaller


def shard_ranges(neurons: int, *, share: int = 1, inputs: int = 0, devices: int = 1) -> list[range]:
    """Return the slices of neurons that make up a network: a function of their number, the inputs and the kind.

    The order of every sum over neurons is fixed by these slices, so results depend neither on the number of threads nor
    on how slices are dealt out to machines. Slices of an even number are even: twins stay together.
    """
    unit, share = 1 if neurons % 2 else 2, share and max(share, inputs // _MANY_INPUTS)
    count = min(share * neurons // _SHARD, _MOST_SHARDS) if share else devices  # each device holds one
    count = max(min(count, neurons // unit), 1)
    edges = [unit * (neurons // unit * k // count) for k in range(count + 1)]
    return [range(first, last) for first, last in pairwise(edges)]


class ShardEngine:
    """The neurons of one output; engines of several outputs share an executor and start together."""

    def __init__(self, recipe: Recipe, executor: Executor, *, output: int = 0, offset: float = 0.0) -> None:
        self._recipe, self._executor, self._output, self._offset = recipe, executor, output, offset
        self._scale = recipe.settings.scale
        self._counts: NDArray[np.int32] | None = None
        self._gram: Callable[[], ShardGram | None] = lambda: None
        self._firing: NDArray[np.int64] | None = None

    def begin(self, shares: NDArray[np.float64], *, stepped: bool) -> NDArray[np.float64]:
        """Take the sums over shards (2, n) of a start, before and after the first step; return the outputs (2, n)."""
        outputs = shares * self._scale + self._offset
        self._outputs, self._reached = outputs[0], outputs[int(stepped)]
        return outputs

    def linearise(self) -> ShardGram:
        """Make the current weights the point that steps start from, and return the Gram operator there."""
        if self._counts is None:
            list(self._map(Shard.linearise, None))
        else:
            self._counts += self._executor.add_up(Slice.call, self._output, Shard.linearise)
        self._outputs, self._firing = self._reached, None
        self._gram = lambda: None
        return self.gram()

    def gram(self) -> ShardGram:
        """Return the Gram operator at the last ``linearise`` or the start. Cost: O(1).

        Both know each other by weak references alone: in a cycle a network would outlive its training.
        """
        gram = self._gram()
        if gram is None:
            gram = ShardGram(self._recipe, self._total, self._cofiring_counts)
            self._gram = ref(gram)
        return gram

    def move(self, step: NDArray[np.float64]) -> Moved:
        """Put the neurons at D <- D + Jᵀ step and find the outputs there: linear but for the pairs that flip."""
        change, effort, complete = np.zeros(len(self._outputs)), Effort(), False
        for part in self._map(Shard.move, step):
            change += part.change
            effort, complete = effort.plus(part.effort), part.complete
        self._reached = self._outputs + change * self._scale
        if not complete:
            self._reached = self._outputs + self.gram().times(step) + change * self._scale
        return Moved(self._reached, effort)

    def firing_counts(self) -> NDArray[np.int64]:
        """Return how many neurons fire on each input (n,) at the last ``linearise``. Cost: O(pairs), once."""
        if self._firing is None:
            self._firing = self._total(Shard.firing_counts)
        return self._firing

    def weights(self) -> Weights | DenseWeights:
        """Return the weights at the last ``linearise`` for all neurons. Cost: O(pairs), or O(md) if dense."""
        return self._joined(list(self._map(Shard.weights)))

    def drifts(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Return drift and band, (k,) each, of the neurons that certificates are kept for. Cost: O(k)."""
        parts = list(self._map(Shard.drifts))
        if None in parts:
            return None
        drifts, bands = zip(*parts, strict=True)
        return np.concatenate(drifts), np.concatenate(bands)

    def audit(self) -> Audit:
        """Scan every pair and compare firing sets, outputs and counts with the maintained ones. Cost: O(m n d)."""
        n = len(self._outputs)
        outputs, squares, firing, ties, rounding = np.zeros(n), np.zeros(n), np.zeros(n, np.int64), 0, 0.0
        for part in self._map(Shard.audit):
            outputs, squares, firing = outputs + part.outputs, squares + part.squares, firing + part.firing
            ties, rounding = ties + part.ties, max(rounding, part.rounding)
        allowed = 1e-6 if self._recipe.dtype == "float32" else 1e-10
        lost = self._scale * (float(firing.max()) * rounding + np.sqrt(squares))  # large where large weights cancel
        size = 1 + float(np.abs(outputs).max()) * self._scale + lost / allowed
        error = np.abs(self._outputs - outputs * self._scale - self._offset) / size
        worst = int(error.argmax())
        if error[worst] > allowed:
            raise BrokenCertificate(f"the output on input {worst} is off by {error[worst] * size[worst]:.3g}. {REMEDY}")
        if self._counts is not None:
            wrong = np.argwhere(self._executor.add_up(Slice.call, self._output, Shard.add_counts) != self._counts)
            if len(wrong):
                pair = f"inputs {wrong[0][0]} and {wrong[0][1]}"
                raise BrokenCertificate(f"the co-firing count of {pair} is off. {REMEDY}")
        return Audit(self._recipe.settings.neurons * n, float(error[worst]), ties)

    def traffic(self) -> dict[str, float]:
        """Return what the executor has sent, received and waited for since the last time; empty in one process."""
        return self._executor.traffic()

    def finish(self) -> Weights | DenseWeights:
        """Return the weights and forget the neurons; what was returned stays valid. Cost: that of ``weights``.

        The shards are gone before the weights become one: they and two copies of the weights are never held together.
        """
        parts = list(self._map(Shard.weights))
        list(self._executor.map(Slice.release, self._output))
        self._counts = None
        return self._joined(parts)

    @staticmethod
    def _joined(parts: list[Any]) -> Weights | DenseWeights:
        joined: Weights | DenseWeights = parts[0].joined(parts)
        return joined

    def _map(self, method: Callable[Concatenate[Any, P], R], *arguments: P.args, **none: P.kwargs) -> Iterator[R]:
        """Yield what a method of ``Shard`` returns for each shard."""
        return self._executor.map(Slice.call, self._output, method, *arguments)

    def _total(self, method: Callable[..., NDArray[Any]], *arguments: Any) -> NDArray[Any]:
        parts = self._map(method, *arguments)
        total: NDArray[Any] = next(parts)
        for part in parts:  # one at a time: the sketches of many shards would not fit together
            total = total + part
        return total

    def _cofiring_counts(self) -> NDArray[np.int32]:
        """Return the co-firing counts, lower triangle: counted once, then kept up to date by flips."""
        if self._counts is None:
            self._counts = self._executor.add_up(Slice.call, self._output, Shard.add_counts)
        return self._counts


def start_shards(
    recipe: Recipe,
    executor: Executor,
    progress: Progress,
    *,
    ranges: Sequence[range],
    sizes: Sequence[NDArray[np.float64]],
    first_steps: Sequence[NDArray[np.float64] | None],
) -> list[tuple[ShardEngine, Started]]:
    """Start one engine per output: start weights and their products with the inputs are made once for all.

    ``progress`` is told how many neurons are done, and of how many; ``ranges`` are those of the executor's slices.
    ``sizes`` (n,) each are about the steps to come: they tell how far neurons will travel. With first steps engines
    end where those lead, as after ``move``.

    Cost: O(mnd) once, and O(mn) per output.
    """
    settings, n = recipe.settings, len(recipe.inputs)
    with np.errstate(over="ignore"):  # steps that cannot be taken
        expected = [float(np.sqrt(np.mean(size**2))) * settings.scale for size in sizes]
    sums = [_Sums(n) for _ in first_steps]
    for neurons, parts in zip(ranges, executor.map(Slice.start, first_steps, expected), strict=True):
        for total, part in zip(sums, parts, strict=True):
            total.add(part)
        progress(neurons.stop, settings.neurons)
    offset, started = 0.0 if recipe.knots else settings.offset(), []
    for output, (total, step) in enumerate(zip(sums, first_steps, strict=True)):
        engine = ShardEngine(recipe, executor, output=output, offset=offset)
        before, after = engine.begin(total.shares, stepped=step is not None)
        moved = None if step is None else Moved(after, total.effort_after)
        started.append((engine, Started(Moved(before, total.effort_before), moved)))
    return started


class _Sums:
    """Sums of what shards return of their start, in the order of the shards."""

    def __init__(self, inputs: int) -> None:
        self.shares = np.zeros((2, inputs))
        self.effort_before = self.effort_after = Effort()

    def add(self, part: ShardStarted) -> None:
        self.shares += (part.before, part.after)
        self.effort_before = self.effort_before.plus(part.effort_before)
        self.effort_after = self.effort_after.plus(part.effort_after)
