"""Certified search on a GPU: the neurons of a network, their watchlists in the memory of the device.

It keeps the certificates of ``shards/certified.py`` and decides by the same rule; what differs follows from a device
that passes over all watchlists in milliseconds. Every neuron is asked in every step whether it is due, so there is no
tree; a neuron that is due has all its watched inputs looked at, so entries have no expiry of their own. Bands count
from the start weights, so that the first step is a step like any other. The state after a step depends on no order:
corrections are added as integers.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from thresher.devices import device_bytes, find_device
from thresher.errors import BrokenCertificate, InvalidInput
from thresher.gpu.audit import audit_device
from thresher.gpu.kernels import launch
from thresher.gpu.kernels import lists as kernels
from thresher.gpu.rows import Rows
from thresher.gpu.scan import DeviceScan
from thresher.gpu.weights import DeviceWeights
from thresher.interfaces import Effort, ShardAudited, ShardMoved, ShardStarted
from thresher.loops.rounding import FINE, STRETCH, of_change, of_coefficients, of_look
from thresher.memory import require
from thresher.model.firing import Pattern
from thresher.model.position import Position
from thresher.model.weights import Weights
from thresher.shards.pairs import REMEDY, PairShard
from thresher.shards.recipe import Recipe
from thresher.theory import firing_probability

__all__ = ["DeviceShard", "expected_band"]

_TRUST = 1.0  # share of the drift that is reported: anything below 1 breaks certificates, and the audit says so
_TOO_FAR = (
    "neurons move too far for device='cuda', whose corrections are integers. Use device='cpu', a larger width, or "
    "smaller targets."
)
_ROOM = 1 << 20  # pairs in doubt that a step has room for, at first
_AGAIN = 1 << 25  # pre-activations of neurons that are scanned again together
_PER_ENTRY, _PER_NEURON = 17, 38  # bytes of a watchlist
_SMALL = 192 << 20  # bytes of what does not grow: torch, its libraries' work space


class DeviceShard(PairShard):
    """A shard of neurons on a GPU that looks only at pairs whose certificate has expired.

    Cost: ``start`` O(nd) per start row, on tensor cores; ``move`` O(1) per watched pair, and O(fired inputs) for each
    watched input of the neurons that are due. Memory: O(watched pairs) and three n x n matrices, on the device.
    """

    SHARE, ON_DEVICE = 0, True

    def __init__(self, recipe: Recipe, neurons: range) -> None:
        self._settings, self._recipe, self._inputs, self._neurons = recipe.settings, recipe, recipe.inputs, neurons
        self._device = find_device("cuda")
        self._rows = Rows(recipe.settings.start, recipe.inputs, self._device)
        X = self._rows.inputs
        self._products = X @ X.T
        n = len(X)
        self._sums = torch.zeros(n, dtype=torch.float64, device=self._device)  # running sum of steps, where they led
        self._anchor = self._sums  # the same at the last linearise
        self._counts: Any = None  # co-firing counts (n, n), lower triangle, once they were asked for
        self._gram: Any = None  # what they make of the products of inputs
        self._fixed = 2.0 ** (52 - math.ceil(math.log2(recipe.settings.width)))
        self._extracted: Pattern | None = None

    @staticmethod
    def memory(facts: Any) -> float:
        """Return about how many bytes of the computer's own memory the network takes when it leaves the device."""
        return float(facts.weights)

    @staticmethod
    def require_device(facts: Any, outputs: int) -> None:
        """Refuse, before any work, what does not fit into the free memory of the device."""
        free = device_bytes(find_device("cuda"))
        require(
            outputs * DeviceShard.device_memory(facts) + DeviceScan.memory(free),
            budget=free,
            what=f"training {facts.width:,} neurons on {facts.inputs:,} inputs on the GPU",
            remedy="Use a larger shift (fewer neurons fire), a smaller width or fewer inputs, or device='cpu'.",
        )

    @staticmethod
    def device_memory(facts: Any) -> float:
        """Return about how many bytes of the device's memory a training takes."""
        fires = facts.pairs / max(facts.awake, 1.0)
        low = facts.shift - expected_band(facts.drift, fires)
        below = facts.inputs * (firing_probability(low) - firing_probability(facts.shift))
        watched = facts.awake * min(facts.inputs, fires + below)
        return float(_SMALL + 1.1 * (watched * _PER_ENTRY + facts.awake * _PER_NEURON) + 48 * facts.inputs**2)

    def _start_alone(self, first_step: NDArray[np.float64] | None, expected: float) -> ShardStarted:
        """Scan the start weights block by block, keep watchlists, and take the first step."""
        settings, n = self._settings, len(self._inputs)
        fires = n * firing_probability(settings.shift)
        self._band = expected_band(expected, fires / max(-math.expm1(-fires), 1e-9))
        scan = DeviceScan(self._rows, settings, self._neurons, band=self._band, fixed=self._fixed)
        self._lists, outputs, looks = scan.run()
        self._guards = coarse, _ = scan.guards
        lost = settings.start.dimension + 8.0  # roundings of a product of inputs, and a few more
        numbers = [settings.shift, self._fixed, _TRUST * STRETCH, lost, coarse]
        self._constants = torch.tensor(numbers, dtype=torch.float64, device=self._device)
        self._firing = self._reached = scan.firing
        before = self._back(outputs)
        began = Effort(looks=looks, firing=self._firing)
        if first_step is None:
            return ShardStarted(before, before, began, Effort())
        moved = self.move(first_step)
        linear = self.gram_times(first_step) * settings.scale
        return ShardStarted(before, before + linear + moved.change, began, moved.effort)

    def move(self, step: NDArray[np.float64]) -> ShardMoved:
        """Stand at W + Jᵀ v from the last ``linearise``: look at the neurons that are due."""
        lists, scale = self._lists, self._settings.scale
        now = self._anchor - torch.from_numpy(step).to(self._device)
        delta = scale * (now - self._sums)
        self._sums = now
        moved = torch.zeros(1, dtype=torch.int64, device=self._device)
        due = torch.empty(len(lists), dtype=torch.int8, device=self._device)
        launch(
            kernels.advance, len(lists), lists.begin, lists.fired, lists.sign, lists.inputs, lists.flags,
            lists.coefficients, delta, lists.drift, lists.soonest, lists.pending, due, moved, self._constants,
            len(lists),
        )  # fmt: skip
        places = due.nonzero()[:, 0]
        n = len(self._inputs)
        launch(
            kernels.travel, len(places), places, lists.begin, lists.fired, lists.inputs, lists.flags, self._products,
            delta, lists.drift, self._constants, len(places), n,
        )  # fmt: skip
        drift, soonest = lists.drift[places], lists.soonest[places]
        left = drift >= lists.band[places]
        looked = places[~left & ((drift >= soonest) | (lists.pending[places] != 0))]
        self._corrections = torch.zeros(n, dtype=torch.int64, device=self._device)
        found = self._judge(looked) + self._scan_again(places[left])
        on, off = int(found.on), int(found.off)
        effort = Effort(
            looks=found.looks, visits=len(lists), moved=int(moved), rescans=int(left.sum()),
            flips=on + off, firing=self._firing + on - off,
        )  # fmt: skip
        self._reached = self._firing + on - off
        return ShardMoved(self._back(self._corrections), effort)

    def linearise(self, counts: NDArray[np.int32] | None) -> None:
        """Make the current weights those that steps start from; bring ``counts`` (n, n) up to date, lower triangle."""
        lists, n = self._lists, len(self._inputs)
        places = lists.pending.nonzero()[:, 0]
        counting = counts is not None or self._counts is not None
        change = torch.zeros((n, n) if counting else (1, 1), dtype=torch.int32, device=self._device)
        launch(
            kernels.commit, len(places), places, lists.begin, lists.length, lists.fired, lists.inputs, lists.start,
            lists.flags, change, len(places), n, COUNTING=counting,
        )  # fmt: skip
        lists.pending.zero_()
        self._gram = None
        self._anchor, self._extracted, self._firing = self._sums, None, self._reached
        if self._counts is not None:
            self._counts += change
        if counts is not None:
            counts += change.cpu().numpy()

    def add_counts(self, counts: NDArray[np.int32]) -> None:
        """Add this shard's share of the co-firing counts to the lower triangle of ``counts`` (n, n)."""
        if self._counts is None:
            self._counts = self._count()
        counts += self._counts.cpu().numpy()

    def firing_counts(self) -> NDArray[np.int64]:
        """Return how many neurons fire on each input (n,). Cost: O(pairs)."""
        if self._counts is not None:
            return self._counts.diagonal().cpu().numpy().astype(np.int64)
        return self._lists.firing_inputs(len(self._inputs)).cpu().numpy()

    def gram_times(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return this shard's share of m G @ vector (n,), or (n, k), from co-firing counts. Cost: O(n²) per vector."""
        columns = torch.from_numpy(np.ascontiguousarray(vector)).to(self._device)
        return np.asarray((self.device_gram() @ columns).cpu())

    def device_gram(self) -> Any:
        """Return this shard's share of m G (n, n), on the device: not to be changed. Cost: O(n²), once."""
        if self._gram is None:
            if self._counts is None:
                self._counts = self._count()
            lower = torch.tril(self._counts)
            self._gram = (lower + torch.tril(lower, -1).T) * self._products
        return self._gram

    def pattern(self) -> Pattern:
        """Return the firing pairs at the last ``linearise``. Cost: O(pairs), once."""
        if self._extracted is None:
            self._extracted = self._lists.extract(kernels.LINEAR, self._ahead(), moved=False)[0]
        return self._extracted

    def position(self) -> Position:
        """Return the position at the last ``linearise``. Cost: O(pairs)."""
        support, coefficients = self._lists.extract(kernels.FIRED, self._ahead(), moved=True)
        made = Position.at_start(self._settings.start, self._recipe.geometry).with_coefficients(support, coefficients)
        return made._replace(rounding=made.rounding + self._rounding())

    def weights(self) -> Weights:
        """Return the weights at the last ``linearise``; they leave the device when they are first asked for."""
        return DeviceWeights(self._lists, self._ahead(), self._settings, self._inputs)  # type: ignore[return-value]

    def drifts(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the drift of each neuron that has fired, and its band, (k,) each. Cost: O(k)."""
        lists = self._lists
        return lists.drift.double().cpu().numpy(), lists.band.double().cpu().numpy()

    def audit(self) -> ShardAudited:
        """Compare all firing pairs with a full scan in float64, on the device. Cost: O(nd) per neuron."""
        if self._counts is not None and not torch.equal(self._counts, self._count()):
            raise BrokenCertificate(f"co-firing counts on the GPU are off. {REMEDY}")
        return audit_device(
            self._lists, self._ahead(), self._rows, self._settings, self._neurons, rounding=self._rounding()
        )

    def _ahead(self) -> Any:
        """Return by how much the last move went beyond the point of the last ``linearise`` (n,)."""
        return self._settings.scale * (self._sums - self._anchor)

    def _rounding(self) -> float:
        longest, total = self._lists.bounds_of_coefficients()
        peak = self._settings.scale * float(self._anchor.abs().max())
        return of_coefficients(longest, peak) + of_look(longest, self._inputs.shape[1], total, 0.0)

    def _count(self) -> Any:
        lists, n = self._lists, len(self._inputs)
        counts = torch.zeros((n, n), dtype=torch.int32, device=self._device)
        launch(
            kernels.count_pairs, len(lists), lists.begin, lists.fired, lists.inputs, lists.flags, counts, len(lists), n
        )
        return counts

    def _back(self, fixed: Any) -> NDArray[np.float64]:
        return fixed.cpu().numpy().astype(np.float64) / self._fixed

    def _judge(self, places: Any) -> _Found:
        """Look at all watched inputs of listed neurons; settle those in doubt in float64."""
        lists, n, room = self._lists, len(self._inputs), _ROOM
        while True:
            corrections = torch.zeros_like(self._corrections)
            found = torch.zeros(5, dtype=torch.int64, device=self._device)
            doubtful = torch.empty((room, 2), dtype=torch.int64, device=self._device)
            changes = torch.empty((room, 2), dtype=torch.float64, device=self._device)
            launch(
                kernels.judge, len(places), places, lists.begin, lists.length, lists.fired, lists.sign, lists.inputs,
                lists.start, lists.coefficients, lists.flags, self._products, lists.drift, lists.band, lists.soonest,
                lists.pending, corrections, found, doubtful, changes, self._constants, room, len(places), n,
            )  # fmt: skip
            on, off, looks, unsure, large = found.tolist()
            if large:
                raise InvalidInput(_TOO_FAR)
            if unsure <= room:
                break
            room = 2 * unsure  # once more: nothing but what is written again has changed
        self._corrections += corrections
        return _Found(on, off, looks + unsure) + self._settle(doubtful[:unsure], changes[:unsure])

    def _settle(self, doubtful: Any, changes: Any) -> _Found:
        """Decide pairs (k, 2) of a neuron's place and an entry in float64, given by how much their value changed."""
        lists, (places, entries) = self._lists, doubtful.T
        rows = self._rows.of_neurons(lists.neurons[places])
        change, lost = changes.T
        margin = self._rows.look(rows, lists.inputs[entries], double=True) + change - self._settings.shift
        now, flag = margin >= 0, lists.flags[entries]
        then = (flag & kernels.LINEAR) != 0
        lists.flags[entries] = (flag & (kernels.LINEAR | kernels.FIRED)) | now.to(torch.uint8)
        slack = (margin.abs() - self._guards[1] - lost).float()
        lists.soonest.scatter_reduce_(0, places, (lists.drift[places] + slack) * (1 - 2.4e-7), "amin")
        flips = (now != then).nonzero()[:, 0]
        lists.pending[places[flips]] = 1
        self._correct(places[flips], lists.inputs[entries[flips]], margin[flips])
        on = int((now & ~then).sum())
        return _Found(on, len(flips) - on, 0)

    def _correct(self, places: Any, inputs: Any, margins: Any) -> None:
        if len(margins) and float(margins.abs().max()) > kernels.FARTHEST:
            raise InvalidInput(_TOO_FAR)
        values = self._lists.sign[places].double() * margins.abs() * self._fixed
        self._corrections.index_add_(0, inputs.long(), values.round().long())

    def _scan_again(self, places: Any) -> _Found:
        """Scan neurons that left their band against all inputs, and give each a wider band."""
        n, found = len(self._inputs), _Found(0, 0, 0)
        for some in places.split(max(_AGAIN // n, 1)):
            found += self._scan_some(some)
        return found

    def _scan_some(self, places: Any) -> _Found:
        lists, shift, n = self._lists, self._settings.shift, len(self._inputs)
        X = self._rows.inputs
        owner, entries = lists.entries(places)
        flags = torch.zeros((len(places), n), dtype=torch.uint8, device=self._device)
        coefficients = torch.zeros((len(places), n), dtype=torch.float64, device=self._device)
        inputs = lists.inputs[entries].long()
        flags[owner, inputs], coefficients[owner, inputs] = lists.flags[entries], lists.coefficients[entries]
        linear = (flags & kernels.LINEAR) != 0
        start = self._rows.make(self._rows.of_neurons(lists.neurons[places])).double() @ X.T
        margin = start + coefficients @ X @ X.T - shift
        now, fired = margin >= 0, (flags & kernels.FIRED) != 0
        drift = lists.drift[places].double()
        width = torch.clamp(drift, min=self._band)
        watched = fired | now | (margin >= -width[:, None])
        flags = (flags & (kernels.LINEAR | kernels.FIRED)) | now.to(torch.uint8)
        # Both products in float64: that with the start, and that of the displacement, a sum over at most n inputs.
        doubt = self._guards[1] + of_change(n, X.shape[1], FINE, coefficients.abs().sum(1)) + 4 * FINE * shift
        slack = torch.where(watched, margin.abs(), torch.inf).amin(1) - doubt
        band = (drift + width - doubt) * (1 - 2.4e-7)
        soonest = torch.minimum(band, drift + slack) * (1 - 2.4e-7)
        lists.replace(places, watched, start.float(), coefficients, flags, band.float(), soonest.float())
        rows, columns = (now != linear).nonzero().T
        lists.pending[places] = (now != linear).any(1).to(torch.int8)
        self._correct(places[rows], columns, margin[rows, columns])
        on = int((now & ~linear).sum())
        return _Found(on, len(rows) - on, margin.numel())


class _Found(NamedTuple):
    """Pairs that began and ceased to fire, and looks."""

    on: int
    off: int
    looks: int

    def __add__(self, other: _Found) -> _Found:  # type: ignore[override]
        return _Found(self.on + other.on, self.off + other.off, self.looks + other.looks)


def expected_band(drift: float, fires: float) -> float:
    """Return how far below the threshold inputs are watched, if neurons fire on so many and drift so far for each."""
    return drift * (1.4 * math.sqrt(fires) + 3.3)
