"""Certified search: expiry dates instead of updates.

Inputs have unit norm, so a pre-activation moves by at most the distance its neuron travels, its *drift*. A pair seen
with margin |z - b| when its neuron had drifted D cannot flip before the neuron has drifted D + |z - b|: its *expiry*.
Only expired pairs are looked at. Pairs far below the threshold are not even stored: a neuron keeps a *watchlist* of
the inputs it fires on and of those within a *band* below the threshold, and the rest is certified until the neuron
leaves its band; then it is scanned again, exactly. Neurons that fire on nothing never move and need no state at all.

Nor is every neuron asked in every step: the drift of a neuron grows by at most |push| times the number of its firing
inputs for each unit by which a coordinate of the running sum of steps changes (the *clock*). The clock before which
nothing of a neuron can expire, its *wake-up*, is kept in the paper's own tree, one tree in all, and a step visits
those that are due.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.interfaces import Effort, ShardMoved, ShardStarted
from thresher.loops import trees
from thresher.loops.certified.visits import visit
from thresher.loops.certified.watchlists import commit, extract, rebuild, write_wake_ups
from thresher.loops.instructions.butterflies import TILE
from thresher.loops.pairs import counting
from thresher.loops.rounding import of_coefficients
from thresher.loops.structures import Found, Point, Rebuilt, WakeUps
from thresher.model.firing import Pattern
from thresher.model.network import row_blocks
from thresher.model.position import Position
from thresher.model.weights import Floating, Weights
from thresher.shards.pairs import PairShard
from thresher.shards.recipe import Recipe
from thresher.shards.watchlists import StartBlock, StartScan, loop_inputs, shard_constants
from thresher.theory import firing_probability

__all__ = ["BAND_AFTER_FIRST_STEP", "BAND_BEFORE", "Certified"]

# Bands as multiples of the drift that is expected of a neuron: measured, so that both watchlists and new scans are few.
BAND_AFTER_FIRST_STEP, BAND_BEFORE = 0.5, 1.9
_TRUST = 1.0  # share of the drift that is reported: anything below 1 breaks certificates, and the audit says so
_PER_NEURON = 57  # bytes of a watchlist, its place in the tree included
_START_BLOCK = 1024  # start rows per matrix product


class Certified(PairShard):
    """A shard that looks only at pairs whose certificate has expired.

    Cost: ``start`` O(nd) per neuron, weights streamed in blocks and forgotten; ``move`` O(1) per neuron that is due
    plus O(fired inputs) per look, about n sqrt(m) b (relative residual) looks in all. Memory: O(watched pairs).
    """

    def __init__(self, recipe: Recipe, neurons: range) -> None:
        self._settings, self._geometry, self._neurons = recipe.settings, recipe.geometry, neurons
        self._rotated = recipe.rotated_inputs
        self._inputs, self._offsets = recipe.inputs, recipe.offsets
        self._loop_inputs = loop_inputs(recipe.settings, recipe.geometry, recipe.padded_inputs)
        self._extracted: Pattern | None = None  # the firing pairs, if they were asked for since the last linearise
        self._clock = 0.0
        self._anchor = self._now = 0  # snapshots: the point of linearisation, and where the neurons stand
        self._sums = np.zeros((1, len(recipe.inputs)))  # snapshots of the running sum of steps, Gamma

    @staticmethod
    def memory(facts: Any) -> float:
        """Return about how many bytes a network takes: watchlists and weights, or these by shard and as one."""
        share = BAND_BEFORE if facts.first_step == "gram" else BAND_AFTER_FIRST_STEP
        band = min(share * facts.drift * (math.sqrt(facts.pairs / max(facts.awake, 1.0)) + 2), facts.shift + 6)
        beyond = firing_probability(facts.shift - band) - firing_probability(facts.shift)
        watched = 1.25 * facts.pairs + facts.awake * facts.inputs * beyond
        bases = 1.5 * facts.pairs  # of entries that have fired, some of them moved
        lists = watched * (3 + 2 * facts.item) + 8 * bases + facts.awake * _PER_NEURON
        return float(max(lists, facts.weights) + facts.weights)

    @staticmethod
    def block_memory(facts: Any) -> float:
        """Return about how many bytes a thread takes for a block: products, and rows twice or a tile of a transform."""
        rows = max(facts.block, _START_BLOCK)
        made = facts.block * TILE if facts.block else 2 * rows * facts.dimension
        return float((rows + TILE) * (facts.inputs + 2 * TILE) * facts.item + 4 * made)

    @staticmethod
    def start_together(
        shards: Sequence[Certified], first_steps: Sequence[NDArray[np.float64] | None], *, expected: Sequence[float]
    ) -> list[ShardStarted]:
        """Scan the start weights block by block, take the first steps while they are in cache, keep watchlists.

        Start weights and their products are made once for shards of the same neurons, one per output.
        """
        steps = [None if step is None else -step for step in first_steps]  # watchlists count what was subtracted
        scans = [shard._scan(step, drift) for shard, step, drift in zip(shards, steps, expected, strict=True)]
        geometry, start, rotated = shards[0]._geometry, shards[0]._settings.start, shards[0]._rotated
        room = shards[0]._room()
        for block in shards[0]._start_blocks():
            made = StartBlock.make(start, geometry, block, out=room, rotated=rotated)
            for scan in scans:
                scan.add(made)
        return [shard._begin(scan, step) for shard, scan, step in zip(shards, scans, steps, strict=True)]

    def _scan(self, first_step: NDArray[np.float64] | None, expected: float) -> StartScan:
        self._band = expected * (BAND_BEFORE if first_step is None else BAND_AFTER_FIRST_STEP)
        return StartScan(
            self._settings, self._geometry, first_step, neurons=self._neurons, inputs=self._loop_inputs, band=self._band
        )  # fmt: skip

    def _begin(self, scan: StartScan, first_step: NDArray[np.float64] | None) -> ShardStarted:
        lists, self._pending, self._entries_used = scan.watchlists()
        ends = np.cumsum(lists.fired, dtype=np.int64)
        lists.base_begin[:] = ends - lists.fired
        self._bases_used = int(ends[-1]) if len(ends) else 0
        self._lists = lists.with_bases(0, self._entries_used)
        self._constants = shard_constants(
            self._settings, self._geometry, self._neurons, band=self._band, guards=scan.guards, trust=_TRUST
        )
        self._linear_pairs, self._flips = scan.before.firing, scan.after.flips
        if first_step is not None:
            self._take_snapshot(first_step)
            self._lists.seen[:] = self._now
        # The tree of wake-ups: the soonest wins, so it holds them negated.
        self._nodes = np.full((2 * max(len(self._lists.neurons), 1), 1), -np.inf, np.float32)
        self._renew(np.arange(len(self._lists.neurons)))
        return ShardStarted(scan.sums[0], scan.sums[1], scan.before, scan.after)

    def move(self, step: NDArray[np.float64]) -> ShardMoved:
        """Stand at W + Jᵀ v from the last ``linearise``: visit the neurons that are due, look at expired pairs."""
        self._take_snapshot(self._sums[self._anchor] - step)
        places, visits = trees.query(self._nodes, 0, -self._clock)
        forced = np.zeros(len(places), np.bool_)
        if len(self._pending):
            places = np.union1d(places, self._pending)
            forced = np.isin(places, self._pending, assume_unique=True)
        room = np.empty((2, len(places)), np.int64)
        found = Found(np.zeros(len(step)), pending=room[0], left_band=room[1])
        visited = visit(
            self._lists, places, forced, self._wake_ups(), self._point(), self._constants, self._loop_inputs, found
        )
        flipped_again, again = self._scan_again(found.left_band[: visited.n_left_band], found.corrections)
        pending = found.pending[: visited.n_pending]  # ascending, as places are
        self._pending = np.union1d(pending, flipped_again) if len(flipped_again) else pending.copy()
        self._flips = visited.on + visited.off + again.on + again.off
        effort = Effort(
            looks=visited.looks + again.looks,
            visits=visits,
            touches=self._climb(places),
            moved=int(np.count_nonzero(self._lists.linear)),
            rescans=visited.n_left_band,
            flips=self._flips,
            firing=self._linear_pairs + visited.on + again.on - visited.off - again.off,
        )
        return ShardMoved(found.corrections, effort)

    def linearise(self, counts: NDArray[np.int32] | None) -> None:
        """Make the current weights those that steps start from; bring ``counts`` (n, n) up to date, lower triangle."""
        places, self._extracted = self._pending, None
        self._anchor = self._now
        none = np.empty((0, 0), np.int32)
        if counts is None:
            self._commit(places, none)
        else:
            by_bits = counting.cheaper_by_bits(self._lists, places, len(counts))
            few, many = places[~by_bits], places[by_bits]
            self._commit(few, counts)
            if len(many):
                lists = self._lists
                counting.count_bits(lists.begin, lists.linear, lists.inputs, many, -1, counts)
                self._commit(many, none)
                counting.count_bits(lists.begin, lists.linear, lists.inputs, many, 1, counts)
        self._renew(places)
        self._pending, self._flips = np.empty(0, np.int64), 0
        self._linear_pairs = int(self._lists.linear.sum(dtype=np.int64))

    def add_counts(self, counts: NDArray[np.int32]) -> None:
        """Add this shard's share of the co-firing counts to the lower triangle of ``counts`` (n, n)."""
        lists = self._lists
        by_bits = lists.linear.astype(np.int64) ** 2 * counting.BITS_PER_PAIR > len(counts) ** 2
        counting.count_pairs(lists.begin, lists.linear, lists.inputs, np.flatnonzero(~by_bits), counts)
        counting.count_bits(lists.begin, lists.linear, lists.inputs, np.flatnonzero(by_bits), 1, counts)

    def pattern(self) -> Pattern:
        """Return the firing pairs at the last ``linearise``. Cost: O(pairs), once."""
        if self._extracted is None:
            self._extracted = self._extract(self._lists.linear, only_moved=False)[0]
        return self._extracted

    def weights(self) -> Weights:
        """Return the weights at the last ``linearise``. Cost: O(pairs)."""
        support, coefficients = self._extract(self._lists.fired, only_moved=True)
        return Weights(self._settings.start, self._inputs, support, coefficients, self._geometry.dtype)

    def position(self) -> Position:
        """Return the position at the last ``linearise``. Cost: O(pairs)."""
        weights = self.weights()
        support = weights.support
        made = Position.at_start(self._settings.start, self._geometry)
        made = made.with_coefficients(support, weights.coefficients)
        # A coefficient is the difference of its base and the running sum; both may be larger than it, and are rounded.
        longest = int(np.diff(support.bounds).max(initial=0))
        peak = self._settings.scale * float(np.abs(self._sums).max())
        return made._replace(weights=weights, rounding=made.rounding + of_coefficients(longest, peak))

    def drifts(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the drift of each neuron that has fired, at its last visit, and its band, (k,) each. Cost: O(k)."""
        return self._lists.drift.astype(np.float64), self._lists.band.astype(np.float64)

    def _start_blocks(self) -> Iterator[range]:
        copies = self._settings.start.copies
        return row_blocks(self._neurons.start // copies, self._neurons.stop // copies, size=self._block())

    def _block(self) -> int:
        """Return how many start rows are multiplied at a time: whole blocks of Hadamard rows."""
        return _START_BLOCK if self._rotated is None else max(self._rotated.tiles.shape[1], _START_BLOCK)

    def _room(self) -> Floating:
        """Return room for the products of a block."""
        if self._rotated is not None:
            return self._rotated.room(self._block())
        return np.empty((_START_BLOCK, len(self._inputs)), self._geometry.dtype)

    def _take_snapshot(self, running_sum: NDArray[np.float64]) -> None:
        self._clock += float(np.abs(running_sum - self._sums[self._now]).max())
        self._sums = np.vstack([self._sums, running_sum])
        self._now += 1

    def _point(self, snapshot: int | None = None) -> Point:
        snapshot = self._now if snapshot is None else snapshot
        return Point(self._sums, snapshot)

    def _wake_ups(self) -> WakeUps:
        return WakeUps(self._clock, self._nodes[len(self._nodes) // 2 :, 0])

    def _scan_again(
        self, places: NDArray[np.int64], corrections: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], Rebuilt]:
        """Scan neurons that left their band against all inputs and give each a wider band.

        Returns the places of those with pairs that flipped, and what was counted.
        """
        if not len(places):
            return places, Rebuilt(self._entries_used, 0, 0, 0, 0)
        fast = self._geometry.fast_inputs
        self._lists = self._lists.with_room(self._entries_used + len(places) * len(fast))
        start = self._settings.start.rows(self._neurons.start + self._lists.neurons[places].astype(np.int64))
        if self._rotated is not None:  # in working precision these would be off by more than those at the start were
            fast = self._inputs
        products = self._geometry.less_offsets(np.matmul(start.astype(fast.dtype), fast.T))
        found = Found(corrections, pending=np.empty_like(places), left_band=places[:0])
        rebuilt = rebuild(
            self._lists, places, products, self._entries_used, self._point(), self._constants, self._loop_inputs, found
        )
        self._entries_used = rebuilt.entries_used
        write_wake_ups(self._lists, places, self._constants, self._wake_ups())
        return found.pending[: rebuilt.n_pending], rebuilt

    def _commit(self, places: NDArray[np.int64], counts: NDArray[np.int32]) -> None:
        lists = self._lists
        self._lists = lists.with_bases(self._bases_used, int(lists.fired[places].sum(dtype=np.int64)) + self._flips)
        self._bases_used = commit(self._lists, places, self._point(), self._settings.scale, self._bases_used, counts)

    def _renew(self, places: NDArray[np.int64]) -> int:
        """Write the wake-ups of visited neurons to the tree; return the number of nodes written."""
        write_wake_ups(self._lists, places, self._constants, self._wake_ups())
        return self._climb(places)

    def _climb(self, places: NDArray[np.int64]) -> int:
        if len(places) * 8 < len(self._nodes):
            return int(trees.climb(self._nodes, places))
        trees.build(self._nodes)
        return len(self._nodes) - 1

    def _extract(self, zone: NDArray[np.int32], *, only_moved: bool) -> tuple[Pattern, NDArray[np.float64]]:
        """Return entries of a zone and their coefficients at the last ``linearise``."""
        places, bounds, inputs, coefficients = extract(
            self._lists, zone, only_moved, self._point(self._anchor), self._settings.scale
        )
        return Pattern(self._neurons.start + self._lists.neurons[places].astype(np.int64), bounds, inputs), coefficients
