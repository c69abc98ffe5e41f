"""Watchlists in the memory of a device: see ``loops/certified/watchlists.py`` for what they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from thresher.gpu.kernels.lists import FIRED, LINEAR
from thresher.model.firing import Pattern

__all__ = ["Lists"]

_OF_NEURON = {
    "neurons": torch.int64,  # numbers
    "sign": torch.int8,
    "begin": torch.int64,  # the first entry
    "length": torch.int32,  # how many entries
    "fired": torch.int32,  # how many of them have fired before: they stand first
    "drift": torch.float32,
    "band": torch.float32,  # the drift that the watchlist covers
    "soonest": torch.float32,  # the drift at which the first certificate expires
    "pending": torch.int8,  # whether a pair has flipped since the last linearise
}
_OF_ENTRY = {
    "inputs": torch.int32,
    "start": torch.float32,  # the pre-activation at the start
    "coefficients": torch.float64,  # where the last move led
    "flags": torch.uint8,
}
_CHUNK = 1 << 24  # neurons or entries at a time


class Lists:
    """One watchlist per neuron that has fired; arrays are larger than what is used of them."""

    neurons: Any
    sign: Any
    begin: Any
    length: Any
    fired: Any
    drift: Any
    band: Any
    soonest: Any
    pending: Any
    inputs: Any
    start: Any
    coefficients: Any
    flags: Any

    def __init__(self, device: Any) -> None:
        self.device = device
        self._store = {
            name: torch.empty(0, dtype=kind, device=device) for name, kind in (_OF_NEURON | _OF_ENTRY).items()
        }
        self._rows = self._entries = 0
        self._show()

    def __len__(self) -> int:
        return self._rows

    def _show(self) -> None:
        for name, array in self._store.items():
            setattr(self, name, array[: self._rows if name in _OF_NEURON else self._entries])

    def reserve(self, rows: int, entries: int) -> None:
        """Make room for so many neurons and entries in all."""
        for name in self._store:
            wanted, used = (rows, self._rows) if name in _OF_NEURON else (entries, self._entries)
            if wanted > len(self._store[name]):
                larger = torch.empty(wanted, dtype=self._store[name].dtype, device=self.device)
                larger[:used] = self._store[name][:used]
                self._store[name] = larger
                self._show()  # so that nothing holds the old one any more

    def add(self, rows: int, entries: int) -> tuple[slice, slice]:
        """Take so many neurons and entries, for which room must have been made; return their places."""
        taken = slice(self._rows, self._rows + rows), slice(self._entries, self._entries + entries)
        self._rows, self._entries = taken[0].stop, taken[1].stop
        self._show()
        self.drift[taken[0]] = 0.0
        self.pending[taken[0]] = 0
        self.coefficients[taken[1]] = 0.0
        return taken

    @property
    def room(self) -> tuple[int, int]:
        """Numbers of neurons and of entries that there is room for."""
        return len(self._store["neurons"]), len(self._store["inputs"])

    @property
    def used(self) -> tuple[int, int]:
        """Numbers of neurons and of entries, those that are no longer in use among them."""
        return self._rows, self._entries

    def entries(self, places: Any) -> tuple[Any, Any]:
        """Return for the entries of neurons at some places (k,) to which of the k they belong, and where they are."""
        lengths = self.length[places].long()
        owner = torch.repeat_interleave(torch.arange(len(places), device=self.device), lengths)
        before = (lengths.cumsum(0) - lengths)[owner]
        return owner, torch.arange(len(owner), device=self.device) - before + self.begin[places][owner]

    def replace(
        self, places: Any, watched: Any, start: Any, coefficients: Any, flags: Any, band: Any, soonest: Any
    ) -> None:
        """Give neurons at some places (k,) new watchlists: the inputs marked in ``watched`` (k, n), with their values.

        ``start``, ``coefficients`` and ``flags`` are (k, n); ``band`` and ``soonest`` (k,).
        """
        self.flags[self.entries(places)[1]] = 0  # what nobody looks at any more
        fired = (flags & FIRED) != 0
        rows, columns = torch.cat([fired.nonzero(), (watched & ~fired).nonzero()]).T
        rows, order = rows.sort(stable=True)  # by neuron, those that have fired before the others
        columns = columns[order]
        first = self._entries
        if first + len(rows) > len(self._store["inputs"]):
            self.reserve(0, first + max(len(rows), first // 8))
        self._entries = first + len(rows)
        self._show()
        self.inputs[first:] = columns.to(torch.int32)
        for name, values in (("start", start), ("coefficients", coefficients), ("flags", flags)):
            getattr(self, name)[first:] = values[rows, columns]
        lengths = (watched | fired).sum(1)
        self.begin[places] = first + lengths.cumsum(0) - lengths
        self.length[places], self.fired[places] = lengths.to(torch.int32), fired.sum(1).to(torch.int32)
        self.band[places], self.soonest[places] = band, soonest

    def firing_inputs(self, inputs: int) -> Any:
        """Return how many neurons fire on each input (n,) at the last linearise. Cost: O(entries)."""
        total = torch.zeros(inputs, dtype=torch.int64, device=self.device)
        for some, flags in zip(self.inputs.split(_CHUNK), self.flags.split(_CHUNK), strict=True):
            total.index_add_(0, some.long(), ((flags & LINEAR) != 0).long())
        return total

    def coefficients_before(self, entries: Any, signs: Any, delta: Any) -> Any:
        """Return coefficients (k,) of entries before a move by ``delta`` (n,); signs (k,) are those of the neurons."""
        linear = (self.flags[entries] & LINEAR) != 0
        return self.coefficients[entries] + linear * signs.double() * delta[self.inputs[entries].long()]

    def bounds_of_coefficients(self) -> tuple[int, float]:
        """Return bounds on how many coefficients a neuron has, and on the sum of their sizes."""
        if not len(self):
            return 0, 0.0
        longest = int(self.fired.max())
        return longest, longest * max(float(some.abs().max()) for some in self.coefficients.split(_CHUNK))

    def extract(self, flag: int, delta: Any, *, moved: bool) -> tuple[Pattern, NDArray[np.float64]]:
        """Return entries with a flag by ascending neuron and input, and their coefficients; ``moved``: if not 0.

        The coefficients are those before a move by ``delta`` (n,).

        Cost: O(entries), and their way to the processor.
        """
        neurons, counts = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        inputs, values = [np.empty(0, np.int32)], [np.empty(0)]
        for places in torch.argsort(self.neurons).split(_CHUNK // 8):
            owner, entries = self.entries(places)
            coefficients = self.coefficients_before(entries, self.sign[places][owner], delta)
            chosen = (self.flags[entries] & flag) != 0
            chosen = (chosen & (coefficients != 0) if moved else chosen).nonzero()[:, 0]
            by_input = (owner[chosen] * (1 << 32) + self.inputs[entries[chosen]]).argsort()
            chosen = chosen[by_input]
            found = torch.bincount(owner[chosen], minlength=len(places))
            neurons.append(self.neurons[places][found > 0].cpu().numpy())
            counts.append(found[found > 0].cpu().numpy())
            inputs.append(self.inputs[entries[chosen]].cpu().numpy())
            values.append(coefficients[chosen].cpu().numpy())
        bounds = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
        return Pattern(np.concatenate(neurons), bounds, np.concatenate(inputs)), np.concatenate(values)
