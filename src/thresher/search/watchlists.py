"""Watchlists: what a certified shard remembers, and the one scan of the start weights that writes them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.interfaces import Effort
from thresher.kernels import certified as kernels
from thresher.model.network import NetworkSettings
from thresher.model.weights import Floating, Weights

__all__ = ["StartBlock", "StartScan", "Watchlists", "with_room"]


class Watchlists(NamedTuple):
    """State of the neurons that have fired, (k,) each, and of their watched pairs, (entries,) each."""

    neurons: NDArray[np.int32]  # counted from the first neuron of the shard
    sign: NDArray[np.int8]
    begin: NDArray[np.int64]  # first entry of the row
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
    base: NDArray[np.float64]  # coefficient, without the running sum of steps in the first zone
    side: NDArray[np.bool_]  # fires at the last look


_ENTRY_FIELDS = ("inputs", "start", "expiry", "base", "side")


def with_room(lists: Watchlists, entries: int) -> Watchlists:
    """Return watchlists whose entry arrays hold at least that many entries."""
    if entries <= len(lists.inputs):
        return lists
    size = max(entries, len(lists.inputs) * 5 // 4)
    grown = {name: np.zeros(size, getattr(lists, name).dtype) for name in _ENTRY_FIELDS}
    for name, array in grown.items():
        array[: len(lists.inputs)] = getattr(lists, name)
    return lists._replace(**grown)


class StartBlock(NamedTuple):
    """Start weights of a block of rows and their pre-activations, made once and scanned for each output."""

    block: range
    rows: NDArray[np.float32]  # (d, rows)
    products: Floating  # (rows, n)
    guards: tuple[float, float]  # bounds on the rounding of these products, and of looks at them

    @classmethod
    def make(cls, weights: Weights, block: range, *, out: Floating) -> StartBlock:
        """Make the start weights of a block and multiply them with the inputs, into ``out``. Cost: O(nd) a row."""
        rows = weights.start.base_block(block.start, block.stop)
        fast = weights.fast_inputs
        products = np.matmul(rows.T.astype(fast.dtype, copy=False), fast.T, out=out[: len(block)])
        return cls(block, rows, products, weights.guards(norms=np.sqrt(np.einsum("kr,kr->r", rows, rows))))


class StartScan:
    """One pass over start weights, block by block: who fires, the first step, the watchlists after it.

    ``sums`` (2, n) are the outputs before and after the first step, without the factor 1/sqrt(m); ``before`` and
    ``after`` say what was counted.
    """

    def __init__(
        self,
        settings: NetworkSettings,
        weights: Weights,
        first_step: NDArray[np.float64] | None,
        *,
        first_neuron: int,
        band: float,
    ) -> None:
        self._settings, self._weights, self._first = settings, weights, first_neuron
        self._step = np.zeros(len(weights.inputs)) if first_step is None else first_step
        self._band, self._near = band, weights.near
        self._capacity = 16 * 512
        self._out = _buffers(0, 0, weights.fast_inputs.dtype, inputs=0)
        self._found: list[tuple[NDArray[np.generic], ...]] = []
        self.sums = np.zeros((2, len(weights.inputs)))
        self.guards = (0.0, 0.0)
        self.before = self.after = Effort()

    def add(self, start_block: StartBlock) -> None:
        """Scan a block of start rows. Cost: O(n) a row, and O(firing inputs) for each input near the threshold."""
        block, rows, Z, guards = start_block
        start, fast = self._settings.start, self._weights.fast_inputs
        self.guards = max(self.guards, guards)  # both grow with the longest row
        copies = 2 if start.twins else 1
        signs = start.signs(np.arange(block.start * copies, block.stop * copies))
        weights, unit = self._weights, float(np.finfo(fast.dtype).eps) / 2
        while True:
            sums = np.zeros_like(self.sums)
            out = self._buffers(copies * len(block))
            neurons, entries, flips, before, after, looks = kernels.scan_block(
                Z, rows, block.start - self._first // copies, start.twins, signs, self._settings.shift, guards, unit,
                self._settings.scale, self._step, weights.fast_products, weights.inputs, weights.products, self._near,
                self._band, sums, out,
            )  # fmt: skip
            if neurons >= 0:
                break
            self._capacity = 2 * self._capacity + copies * len(self._step)
        self.sums += sums
        self._found.append(tuple(array[: neurons if k < 6 else entries].copy() for k, array in enumerate(out)))
        moved = neurons if self._step.any() else 0
        self.before = self.before.plus(Effort(looks=Z.size, firing=before))
        self.after = self.after.plus(Effort(looks=looks, flips=flips, firing=after, moved=moved))

    def _buffers(self, rows: int) -> tuple[NDArray[np.generic], ...]:
        """Return buffers for a block; the same ones as long as they are large enough."""
        if len(self._out[0]) < rows or len(self._out[-1]) < self._capacity:
            self._out = _buffers(rows, self._capacity, self._weights.fast_inputs.dtype, inputs=len(self._step))
        return self._out

    def watchlists(self) -> tuple[Watchlists, NDArray[np.int64]]:
        """Return the watchlists of all blocks, and the places of neurons with pairs that flipped."""
        found, self._found = self._found, []
        neurons, length, linear, width, soonest, waiting, inputs, start, expiry, side = map(
            np.concatenate, zip(*found, strict=True)
        )
        count = len(neurons)
        lists = Watchlists(
            neurons=neurons,
            sign=self._settings.start.signs(neurons + np.int64(self._first)).astype(np.int8),
            begin=np.cumsum(length, dtype=np.int64) - length,
            length=length,
            linear=linear,
            fired=linear.copy(),
            drift=np.zeros(count, start.dtype),
            band=width,
            soonest=soonest,
            seen=np.zeros(count, np.int32),
            inputs=inputs,
            start=start,
            expiry=expiry,
            base=np.zeros(len(inputs)),
            side=side,
        )
        return lists, np.flatnonzero(waiting)


def _buffers(rows: int, entries: int, dtype: np.dtype[np.floating], *, inputs: int) -> tuple[NDArray[np.generic], ...]:
    by_neuron = (np.int32, np.int32, np.int32, dtype, dtype, np.bool_)
    by_entry = (np.uint16 if inputs <= 1 << 16 else np.uint32, dtype, dtype, np.bool_)
    return (*(np.empty(rows, kind) for kind in by_neuron), *(np.empty(entries, kind) for kind in by_entry))
