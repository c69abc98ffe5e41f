"""The local engine: shards on the threads of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TypeVar
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from thresher.errors import BrokenCertificate
from thresher.interfaces import Audit, Effort, JacobianSlice, Moved, Progress, Shard, ShardStarted, Sketch, Started
from thresher.loops.pairs import add_gram_product
from thresher.model.firing import Pattern
from thresher.model.network import NetworkSettings
from thresher.model.problem import Problem
from thresher.model.weights import Weights
from thresher.parallel import core_count, in_order
from thresher.shards import INDEXES, Certified, Scan
from thresher.shards.search import SearchShard
from thresher.theory import firing_probability

__all__ = ["LocalEngine", "LocalGram", "shard_ranges"]

Value = TypeVar("Value")
_SHARD = 1 << 14  # neurons at least in a shard
_MOST_SHARDS = 64
_SHARED_COUNTS = 4096  # inputs up to which a thread gets its own copy of the counts to change them
_REMEDY = "This is a fault of thresher: please report it with the seed. index='scan' does without certificates."


def shard_ranges(width: int) -> list[range]:
    """Return the slices of neurons that make up a network: a function of the width alone.

    The order of every sum over neurons is fixed by these slices, so results depend neither on the number of threads nor
    on how shards are dealt out to machines. Slices of an even width are even: twins stay together.
    """
    unit = 1 if width % 2 else 2
    count = min(max(width // _SHARD, 1), width // unit, _MOST_SHARDS)
    edges = [unit * (width // unit * k // count) for k in range(count + 1)]
    return [range(first, last) for first, last in pairwise(edges)]


class LocalEngine:
    """Shards of one machine, worked on by threads.

    Parameters
    ----------
    problem, settings : what is trained
    index : how shards find who fires, a name in ``INDEXES`` or ``"certified"``
    dtype : working precision of the bulk products, "float32" or "float64"
    threads : None for all cores
    """

    def __init__(
        self,
        problem: Problem,
        settings: NetworkSettings,
        *,
        index: str,
        dtype: str = "float32",
        threads: int | None = None,
    ) -> None:
        self._problem, self._settings = problem, settings
        self._threads = core_count() if threads is None else threads
        self._weights = Weights.at_start(settings.start, problem.inputs, dtype=dtype, products=problem.products)
        ranges = shard_ranges(settings.width)
        self._shards: list[Shard] = [make_shard(index, settings, self._weights, neurons) for neurons in ranges]
        self._counts: NDArray[np.int32] | None = None
        self._gram: Callable[[], LocalGram | None] = lambda: None

    def start(self, progress: Progress, *, first_step: NDArray[np.float64] | None = None) -> Started:
        """Make the start weights, find who fires, take the first step. Cost: O(m n d)."""
        return self.start_together([self], progress, first_steps=[first_step])[0]

    @staticmethod
    def start_together(
        engines: Sequence[LocalEngine], progress: Progress, *, first_steps: Sequence[NDArray[np.float64] | None]
    ) -> list[Started]:
        """Start engines that differ in their targets alone: start weights and their products are made once for all.

        Cost: O(m n d) once, and O(m n) an engine.
        """
        leader, width = engines[0], engines[0]._settings.width
        expected = [engine._expected_drift(step) for engine, step in zip(engines, first_steps, strict=True)]

        def start(shards: tuple[Shard, ...]) -> list[ShardStarted]:
            if all(isinstance(shard, Certified) for shard in shards):
                return Certified.start_together(shards, first_steps, expected=expected)  # type: ignore[arg-type]
            steps = zip(shards, first_steps, expected, strict=True)
            return [shard.start(step, expected=drift) for shard, step, drift in steps]

        sums = [_Sums(engine._problem.size) for engine in engines]
        groups = list(zip(*(engine._shards for engine in engines), strict=True))
        for done, parts in enumerate(in_order(start, groups, threads=leader._threads), start=1):
            for total, part in zip(sums, parts, strict=True):
                total.add(part)
            progress(done * width // len(groups), width)
        return [engine._begin(total, step) for engine, total, step in zip(engines, sums, first_steps, strict=True)]

    def _begin(self, sums: _Sums, first_step: NDArray[np.float64] | None) -> Started:
        offset = self._settings.offset()
        before, after = sums.shares * self._settings.scale + offset
        self._offset, self._outputs, self._reached = offset, before, before if first_step is None else after
        started = Moved(before, sums.effort_before)
        return Started(started, None if first_step is None else Moved(after, sums.effort_after))

    def linearise(self) -> LocalGram:
        """Make the current weights the point that steps start from, and return the Gram operator there."""
        if self._counts is None:
            list(self._map(lambda shard: shard.linearise(None)))
        elif len(self._counts) <= _SHARED_COUNTS:
            self._counts += self._sum_counts(lambda shard, counts: shard.linearise(counts))
        else:
            for shard in self._shards:
                shard.linearise(self._counts)
        self._outputs = self._reached
        self._gram = lambda: None
        return self.gram()

    def gram(self) -> LocalGram:
        """Return the Gram operator at the last ``linearise`` or the start. Cost: O(1).

        Known here by a weak reference, since it knows this engine: in a cycle a network would outlive its training.
        """
        gram = self._gram()
        if gram is None:
            gram = LocalGram(self)
            self._gram = ref(gram)
        return gram

    def move(self, step: NDArray[np.float64]) -> Moved:
        """Put the neurons at W - Jᵀ step and find the outputs there: linear but for the pairs that flip."""
        corrections, effort = np.zeros(self._problem.size), Effort()
        for part in self._map(lambda shard: shard.move(step)):
            corrections += part.corrections
            effort = effort.plus(part.effort)
        self._reached = self._outputs - self.gram().times(step) + corrections * self._settings.scale
        return Moved(self._reached, effort)

    def weights(self) -> Weights:
        """Return the weights at the last ``linearise`` for all neurons. Cost: O(pairs)."""
        return self._weights.joined(list(self._map(lambda shard: shard.weights())))

    def drifts(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Return drift and band, (k,) each, of the neurons that certificates are kept for. Cost: O(k)."""
        parts = [shard.drifts() for shard in self._shards if isinstance(shard, Certified)]
        if not parts:
            return None
        drifts, bands = zip(*parts, strict=True)
        return np.concatenate(drifts), np.concatenate(bands)

    def audit(self) -> Audit:
        """Scan every pair and compare firing sets, outputs and counts with the maintained ones. Cost: O(m n d)."""
        ranges = shard_ranges(self._settings.width)
        truths = [SearchShard(self._settings, shard.weights().in_float64(), neurons, index=Scan())
                  for shard, neurons in zip(self._shards, ranges, strict=True)]  # fmt: skip
        outputs = np.zeros(self._problem.size)
        for part in in_order(lambda truth: truth.start(None, expected=0.0), truths, threads=self._threads):
            outputs += part.before
        patterns = [shard.pattern() for shard in self._shards]
        ties = sum(map(_compare, patterns, truths))
        allowed = 1e-6 if self._weights.fast_inputs.dtype == np.float32 else 1e-10
        lost = self._rounding_of_outputs(patterns, truths)
        size = 1 + float(np.abs(outputs).max()) * self._settings.scale + lost / allowed
        error = np.abs(self._outputs - outputs * self._settings.scale - self._offset) / size
        worst = int(error.argmax())
        if error[worst] > allowed:
            raise BrokenCertificate(f"the output on input {worst} is off by {error[worst] * size:.3g}. {_REMEDY}")
        if self._counts is not None:
            counts = np.zeros_like(self._counts)
            for pattern in patterns:
                pattern.count_cofiring(pattern.neurons, counts, sign=1)
            wrong = np.argwhere(counts != self._counts)
            if len(wrong):
                raise BrokenCertificate(
                    f"the co-firing count of inputs {wrong[0][0]} and {wrong[0][1]} is off. {_REMEDY}"
                )
        return Audit(self._settings.width * self._problem.size, float(error[worst]), ties)

    def _rounding_of_outputs(self, patterns: list[Pattern], truths: list[SearchShard]) -> float:
        """Return a bound on what float64 loses in an output: large where large coefficients cancel."""
        firing = sum(np.bincount(pattern.inputs, minlength=self._problem.size) for pattern in patterns)
        return float(np.max(firing)) * self._settings.scale * max(truth.weights().rounding for truth in truths)

    def _expected_drift(self, first_step: NDArray[np.float64] | None) -> float:
        """Return the first step's drift per square root of firing inputs: of the step, or guessed from the targets."""
        if first_step is None:
            firing = max(firing_probability(self._settings.shift), 1 / self._settings.width)
            first_step = self._problem.targets / firing
        return float(np.sqrt(np.mean(first_step**2))) * self._settings.scale

    def _map(self, task: Callable[[Shard], Value]) -> Iterator[Value]:
        return in_order(task, self._shards, threads=self._threads)

    def _count_cofiring(self) -> NDArray[np.int32]:
        """Return the co-firing counts, lower triangle: counted once, then kept up to date by flips."""
        if self._counts is None:
            self._counts = self._sum_counts(lambda shard, counts: shard.count_cofiring(counts))
        return self._counts

    def _sum_counts(self, add: Callable[[Shard, NDArray[np.int32]], None]) -> NDArray[np.int32]:
        """Return the sum over shards of what ``add`` adds to counts (n, n): a copy for each thread."""
        threads = min(self._threads, len(self._shards))
        groups = [self._shards[k::threads] for k in range(threads)]

        def work(group: list[Shard]) -> NDArray[np.int32]:
            counts = np.zeros((self._problem.size, self._problem.size), np.int32)
            for shard in group:
                add(shard, counts)
            return counts

        first, *others = in_order(work, groups, threads=threads)
        for counts in others:
            first += counts
        return first


class _Sums:
    """Sums of what shards say of their start, in the order of the shards."""

    def __init__(self, inputs: int) -> None:
        self.shares = np.zeros((2, inputs))
        self.effort_before = self.effort_after = Effort()

    def add(self, part: ShardStarted) -> None:
        self.shares += (part.before, part.after)
        self.effort_before = self.effort_before.plus(part.effort_before)
        self.effort_after = self.effort_after.plus(part.effort_after)


class LocalGram:
    """G = (X Xᵀ) o C / m at the engine's point of linearisation; C counts the neurons that fire on both of two inputs.

    Valid until the engine's next ``linearise``.
    """

    def __init__(self, engine: LocalEngine) -> None:
        self._engine, self._problem, self._settings = engine, engine._problem, engine._settings

    @property
    def size(self) -> int:
        """Number of inputs, n."""
        return self._problem.size

    def dense(self) -> NDArray[np.float64]:
        """Return the matrix (n, n), from exact co-firing counts. Cost: O(n²), and once the counting."""
        return self._dense

    @cached_property
    def _dense(self) -> NDArray[np.float64]:
        lower = self._engine._count_cofiring()
        both = lower + np.tril(lower, -1).T
        return self._problem.products * both / self._settings.width

    def times(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return G @ vector (n,). Cost: O(d) a firing pair, or O(n²) once the matrix has been formed."""
        if "_dense" in self.__dict__:
            return self._dense @ vector

        def share(pattern: Pattern) -> NDArray[np.float64]:
            out = np.zeros(self.size)
            add_gram_product(pattern.bounds, pattern.inputs, self._problem.inputs, vector, out)
            return out

        total = sum(self._over_patterns(share), start=np.zeros(self.size))
        return np.asarray(total) / self._settings.width

    def diagonal(self) -> NDArray[np.float64]:
        """Return the diagonal of G (n,). Cost: O(pairs), or O(n) once the matrix has been formed."""
        if "_dense" in self.__dict__:
            return self._dense.diagonal().copy()
        shares = self._over_patterns(lambda pattern: np.bincount(pattern.inputs, minlength=self.size))
        counts = sum(shares, start=np.zeros(self.size, np.int64))
        return self._problem.products.diagonal() * counts / self._settings.width

    def sketch(self, sketch: Sketch) -> NDArray[np.float64]:
        """Return S Jᵀ (s, n); see the sketch for its cost."""
        shares = self._over_patterns(lambda pattern: sketch.gather(self._piece(pattern)))
        total = sum(shares, start=np.zeros((self.size, sketch.rows)))
        return sketch.finish(np.asarray(total), self._piece(self._patterns[0]))

    @cached_property
    def _patterns(self) -> list[Pattern]:
        return [shard.pattern() for shard in self._engine._shards]

    def _piece(self, pattern: Pattern) -> JacobianSlice:
        settings = self._settings
        signs = settings.start.signs(pattern.neurons)
        return JacobianSlice(pattern, signs, self._problem.inputs, settings.scale, settings.width)

    def _over_patterns(self, task: Callable[[Pattern], Value]) -> Iterator[Value]:
        return in_order(task, self._patterns, threads=self._engine._threads)


def make_shard(index: str, settings: NetworkSettings, weights: Weights, neurons: range) -> Shard:
    """Return a shard that finds who fires in the named way."""
    if index == "certified":
        return Certified(settings, weights, neurons)
    return SearchShard(settings, weights, neurons, index=INDEXES[index]())


def _compare(maintained: Pattern, truth: SearchShard) -> int:
    """Refuse patterns that differ in more than ties; return the number of ties."""
    ties = 0
    for pattern, other, verb in (
        (maintained, truth.pattern(), "does not fire"),
        (truth.pattern(), maintained, "fires"),
    ):
        places = pattern.without(other)
        neurons, inputs = pattern.per_pair(pattern.neurons)[places], pattern.inputs[places]
        wrong = np.flatnonzero(~truth.are_ties(neurons, inputs))
        ties += len(places) - len(wrong)
        if len(wrong):
            raise BrokenCertificate(
                f"neuron {neurons[wrong[0]]} {verb} on input {inputs[wrong[0]]}, against what is maintained "
                f"({len(wrong)} such pairs in its shard). {_REMEDY}"
            )
    return ties
