"""Watchlists: what a certified shard remembers, and the one scan of the start weights that writes them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.interfaces import Effort
from thresher.loops.certified.start_scan import scan_block
from thresher.loops.rounding import unit_roundoff
from thresher.loops.structures import Guards, Inputs, ShardConstants, StartRows
from thresher.model.geometry import Geometry
from thresher.model.hadamard import Rotated
from thresher.model.network import NetworkSettings
from thresher.model.poisson import AnyStart
from thresher.model.weights import Floating
from thresher.theory import firing_probability

__all__ = ["StartBlock", "StartScan", "Watchlists", "loop_inputs", "shard_constants"]

_OF_ENTRIES = ("inputs", "start", "expiry", "side")
_ROOM = 16  # room for entries at first, in rows that watch all inputs


class Watchlists(NamedTuple):
    """State of the neurons that have fired, (k,) each, and of their watched pairs, (entries,) each."""

    neurons: NDArray[np.int32]  # counted from the first neuron of the shard
    sign: NDArray[np.int8]
    begin: NDArray[np.int64]  # first entry of the row
    base_begin: NDArray[np.int64]  # first of the bases of the row
    length: NDArray[np.int32]  # entries of the row
    linear: NDArray[np.int32]  # of these, first zone: fire at the point of linearisation
    fired: NDArray[np.int32]  # first and second zone: have a coefficient
    drift: Floating  # distance travelled up to the last visit
    band: Floating  # drift at which unwatched inputs may fire
    soonest: Floating  # smallest expiry of the row, the band's included
    seen: NDArray[np.int32]  # snapshot of the last visit
    inputs: NDArray[np.uint16] | NDArray[np.uint32]
    start: Floating  # pre-activation at the start weights
    expiry: Floating
    side: NDArray[np.bool_]  # fires at the last look
    base: NDArray[np.float64]  # of entries that have fired: coefficient, without the running sum of steps in zone one

    @classmethod
    def with_capacity(cls, neurons: int, entries: int, *, dtype: np.dtype[np.floating], inputs: int) -> Watchlists:
        """Return watchlists to be filled. Room that is not used is never touched, so it takes no memory."""
        words, number = np.empty(neurons, np.int32), np.empty(neurons, dtype)
        return cls(
            neurons=words,
            sign=np.empty(neurons, np.int8),
            begin=np.empty(neurons, np.int64),
            base_begin=np.empty(neurons, np.int64),
            length=np.empty_like(words),
            linear=np.empty_like(words),
            fired=np.empty_like(words),
            drift=number,
            band=np.empty_like(number),
            soonest=np.empty_like(number),
            seen=np.empty_like(words),
            inputs=np.empty(entries, np.uint16) if inputs <= 1 << 16 else np.empty(entries, np.uint32),
            start=np.empty(entries, dtype),
            expiry=np.empty(entries, dtype),
            side=np.empty(entries, np.bool_),
            base=np.empty(0),
        )

    def with_room(self, entries: int) -> Watchlists:
        """Return watchlists with room for at least that many entries; the same ones if there is. Cost: O(entries)."""
        if entries <= len(self.inputs):
            return self
        grown = {}
        for name in _OF_ENTRIES:
            old = getattr(self, name)
            grown[name] = np.zeros(max(entries, len(old) * 5 // 4), old.dtype)
            grown[name][: len(old)] = old
        return self._replace(**grown)

    def cut(self, neurons: int) -> Watchlists:
        """Return the watchlists of the first so many neurons."""
        return self._replace(**{name: getattr(self, name)[:neurons] for name in self._of_neurons()})

    @classmethod
    def _of_neurons(cls) -> list[str]:
        return [name for name in cls._fields if name not in (*_OF_ENTRIES, "base")]

    def with_bases(self, used: int, wanted: int) -> Watchlists:
        """Return watchlists with room for that many bases besides those used; the same ones if there is.

        Cost: O(used). Room that is not used is never touched, so it takes no memory.
        """
        if used + wanted <= len(self.base):
            return self
        base = np.zeros(max(used + wanted, len(self.base) * 5 // 4))
        base[:used] = self.base[:used]
        return self._replace(base=base)


def loop_inputs(settings: NetworkSettings, geometry: Geometry, fast_vectors: Floating) -> Inputs:
    """Return what loops over watchlists know of the inputs, which are given in working precision as well."""
    start, (X, products, _, fast_products, max_correlation, offsets) = settings.start, geometry
    offsets = np.zeros(len(X)) if offsets is None else offsets
    return Inputs(X, fast_vectors, products, fast_products, max_correlation, start.bounds, start.turns, offsets)


def shard_constants(
    settings: NetworkSettings,
    geometry: Geometry,
    neurons: range,
    *,
    band: float,
    guards: Guards,
    trust: float = 1.0,
) -> ShardConstants:
    """Return what loops over watchlists know of a shard."""
    start, offsets = settings.start, geometry.offsets
    near = settings.shift if offsets is None else float(np.abs(offsets + settings.shift).max())
    return ShardConstants(
        settings.shift, near, guards, unit_roundoff(geometry.dtype), settings.scale, band, np.uint64(start.seed),
        neurons.start, start.twins, start.tail, trust,
    )  # fmt: skip


class StartBlock(NamedTuple):
    """A block of start rows, made once and scanned for each output: their pre-activations."""

    block: range
    products: Floating  # (rows, at least n)
    guards: Guards

    @classmethod
    def make(
        cls,
        start: AnyStart,
        geometry: Geometry,
        block: range,
        *,
        out: Floating,
        rotated: Rotated | None = None,
    ) -> StartBlock:
        """Make the start weights of a block and multiply them with the inputs, into ``out``. Cost: O(nd) per row.

        Of Hadamard rows products are made from ``rotated`` inputs: O(n log d) per row.
        """
        fast, n = geometry.fast_inputs, len(geometry.inputs)
        if rotated is not None:
            products = rotated.products(block.start, block.stop, out=out)
            geometry.less_offsets(products[:, :n])
            guards = rotated.guards.plus(*geometry.lost(rotated.longest))
            return cls(block, products, guards)
        rows = start.base_block(block.start, block.stop)
        norms = np.sqrt(np.einsum("kr,kr->r", rows, rows))
        working, exact = geometry.guards(norms=norms)
        guards = Guards(working, exact, working)
        products = np.matmul(rows.T.astype(fast.dtype, copy=False), fast.T, out=out[: len(block)])
        geometry.less_offsets(products)
        products[norms == 0] = -np.inf  # rows that were not kept where they were drawn fire on nothing
        return cls(block, products, guards)


class StartScan:
    """One pass over start weights, block by block: which neurons fire, the first step, the watchlists after it.

    ``sums`` (2, n) are the outputs before and after the first step, without the factor 1/sqrt(m); ``before`` and
    ``after`` are what was counted.
    """

    def __init__(
        self,
        settings: NetworkSettings,
        geometry: Geometry,
        first_step: NDArray[np.float64] | None,
        *,
        neurons: range,
        inputs: Inputs,
        band: float,
    ) -> None:
        self._settings, self._geometry = settings, geometry
        self._copies = settings.start.copies
        self._rows = range(neurons.start // self._copies, neurons.stop // self._copies)
        self._inputs = inputs
        self._constants = shard_constants(settings, geometry, neurons, band=band, guards=Guards(0.0, 0.0, 0.0))
        n = len(geometry.inputs)
        self._step = np.zeros(n) if first_step is None else first_step
        self._lists = Watchlists.with_capacity(len(neurons), _ROOM * self._copies * n, dtype=geometry.dtype, inputs=n)
        self._used, self._depth = (0, 0), self._usual_depth()
        self.sums = np.zeros((2, n))
        self.guards = Guards(0.0, 0.0, 0.0)
        self.before = self.after = Effort()

    def _usual_depth(self) -> float:
        """Return how far below the threshold inputs usually are which the first step may bring into the watchlist."""
        settings = self._settings
        usual = len(self._step) * firing_probability(settings.shift)
        many = math.sqrt(usual + math.sqrt(usual))  # rows on which more inputs fire are few, and listed again
        return self._constants.band * (many + 2) + settings.scale * many * math.sqrt(np.mean(self._step**2))

    def add(self, start_block: StartBlock) -> None:
        """Scan a block of start rows. Cost: O(n) per row, and O(firing inputs) per input near the threshold."""
        block, Z, guards = start_block
        self.guards = max(self.guards, guards)  # all of them grow with the longest row
        signs = self._settings.start.signs(np.arange(block.start * self._copies, block.stop * self._copies))
        constants, fired = self._constants._replace(guards=guards), self._used[0]
        change = self._first_step_change(Z)
        place = block.start - self._rows.start
        rows = StartRows(Z, change, signs, self._depth, first=0, place=place)
        while True:
            done, neurons, entries, flips, before, after, looks = scan_block(
                rows, self._step, constants, self._inputs, self.sums, self._lists, self._used
            )
            self._used = neurons, entries
            self.before = self.before.plus(Effort(firing=before))
            self.after = self.after.plus(Effort(looks=looks, flips=flips, firing=after))
            if done == len(block):
                break
            self._make_room(block.start + done)
            rows = rows._replace(first=done)
        moved = self._used[0] - fired if self._step.any() else 0
        self.before = self.before.plus(Effort(looks=len(block) * len(self._step)))
        self.after = self.after.plus(Effort(moved=moved))

    def _first_step_change(self, Z: Floating) -> Floating:
        """Return by how much the first step changes each pre-activation in Z (k, n); nothing, (0, n), if few fire.

        Where many fire, or move far, two matrix products for the whole block cost less than following each firing pair
        to all inputs that may enter the watchlist. Some rows tell.
        """
        fast, threshold = self._geometry.fast_inputs, Z.dtype.type(self._settings.shift)
        n, d = fast.shape
        Z = Z[:, :n]
        if not len(Z) or not self._step.any():
            return Z[:0]
        fires = Z[::64] >= threshold
        if np.count_nonzero(fires) < len(fires) * (1 + d / 25):  # fewer than the bound below, whatever is followed
            return Z[:0]
        count, reach = fires.sum(axis=1), self._settings.scale * np.sqrt(fires @ self._step**2)
        low = self._settings.shift - self._constants.band * (np.sqrt(count) + 2) - reach
        followed = count * (Z[::64] >= low[:, None]).sum(axis=1)
        if float(followed.mean()) < n * (1 + d / 25):
            return Z[:0]
        pushes = np.greater_equal(Z, threshold) * (-self._settings.scale * self._step).astype(Z.dtype)
        return np.matmul(np.matmul(pushes, fast), fast.T)

    def _make_room(self, row: int) -> None:
        """Make room for all rows to come if they are like those scanned so far."""
        done = max(row - self._rows.start, 1)
        forecast = self._used[1] * len(self._rows) / done
        self._lists = self._lists.with_room(int(1.1 * forecast) + _ROOM * self._copies * len(self._step))

    def watchlists(self) -> tuple[Watchlists, NDArray[np.int64], int]:
        """Return the watchlists, the places of neurons with pairs that flipped, and the number of entries in use."""
        neurons, entries = self._used
        lists = self._lists.cut(neurons)
        flipped = np.flatnonzero(lists.seen < 0)
        lists.seen[:] = 0
        return lists, flipped, entries
