"""The scan of all start rows on a GPU: screened in half precision on tensor cores, near pairs computed again.

Nothing of size m x n or m x d is written: a block of rows leaves one bit per pair, and the few words with a bit that is
set become a list of candidates. The screen misses nothing: its level is lower than the one that is asked for by a bound
on the rounding of the product in half precision.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from thresher.devices import device_bytes
from thresher.gpu.hadamard import GROUP
from thresher.gpu.kernels import launch
from thresher.gpu.kernels import lists as list_kernels
from thresher.gpu.kernels import rows as row_kernels
from thresher.gpu.lists import Lists
from thresher.gpu.rows import Rows
from thresher.loops.rounding import guards, of_half_product, of_half_transform
from thresher.model.network import NetworkSettings
from thresher.theory import firing_probability

__all__ = ["DeviceScan"]

_IN_REGISTERS = 128  # columns up to which a screen makes its rows itself
_ROWS, _COLUMNS = 64, 128  # of a tile
_BLOCK = 1 << 25  # rows at most
# A block has a word of bits for each 64 free bytes of the device at most, and a candidate for each 4096.
_PER_WORD, _PER_CANDIDATE = 64, 4096


class DeviceScan:
    """One pass over the start rows of a range of neurons: which pairs fire, and watchlists ``band`` below that."""

    def __init__(self, rows: Rows, settings: NetworkSettings, neurons: range, *, band: float, fixed: float) -> None:
        self._rows, self._settings, self._fixed = rows, settings, fixed
        self._copies = settings.start.copies
        self._range = range(neurons.start // self._copies, neurons.stop // self._copies)
        d, n, b = settings.start.dimension, len(rows.inputs), settings.shift
        self._band = min(band, b + 40.0)
        self._slope = of_half_product(d)
        self._low = b - self._band - 1e-6 * (1 + b + self._band)  # it is passed in float32
        wide = max(16, 1 << (d - 1).bit_length()) if d <= _IN_REGISTERS else -(-d // 64) * 64
        self._half = torch.zeros((-(-n // _COLUMNS) * _COLUMNS, wide), dtype=torch.float16, device=rows.device)
        self._half[:n, :d] = rows.inputs.half()
        self._words = -(-n // 16)
        doubt = self._slope * (math.sqrt(d) + 2) if rows.hadamard is None else of_half_transform(rows.hadamard.p)
        likely = n * firing_probability(max(self._low - doubt, -8.0))
        free = device_bytes(rows.device)
        most = min(_BLOCK, free // _PER_WORD // self._words, int(free / _PER_CANDIDATE / max(likely, 1e-6)))
        tile = _ROWS if rows.hadamard is None else GROUP
        self.size = max(tile, min(most, len(self._range)) // tile * tile)
        column = torch.arange(_COLUMNS, device=rows.device)
        self._powers = torch.zeros((_COLUMNS, 16), dtype=torch.float16, device=rows.device)
        self._powers[column, column // 16] = 2.0 ** (column % 16).half()
        self._powers[:, 15] = 1.0
        # Bounds on the rounding of pre-activations at the start, in float32 and float64, of the rows so far.
        self.guards = (0.0, 0.0) if rows.hadamard is None else rows.hadamard.guards
        self.firing = 0
        self._lists = Lists(rows.device)

    @staticmethod
    def memory(free: float) -> float:
        """Return about how many bytes a scan takes for a block, on a device with so many free ones."""
        return free * (2 / _PER_WORD + 96 / _PER_CANDIDATE)

    def run(self) -> tuple[Lists, Any, int]:
        """Return the watchlists, the outputs (n,) in units of 1 / fixed, and the number of pairs looked at."""
        total = torch.zeros(len(self._rows.inputs), dtype=torch.int64, device=self._rows.device)
        looks = 0
        for first in range(self._range.start, self._range.stop, self.size):
            count = min(self.size, self._range.stop - first)
            looks += count * len(self._rows.inputs) + self._add(first, count, total)
        return self._lists, total, looks

    def _add(self, first: int, count: int, outputs: Any) -> int:
        """Scan a block of rows; return the number of candidates."""
        rows, begin, length, inputs, coarse = self._candidates(first, count)
        if not len(rows):
            return 0
        b, device, lists = self._settings.shift, rows.device, self._lists
        z = self._rows.look_at(rows, begin, length, inputs)
        near = ((z - b).abs() <= coarse + 1e-6 * (1 + b)).nonzero()[:, 0]
        fires = (z >= b).to(torch.uint8)
        row_of_near = rows[torch.searchsorted(begin, near, right=True) - 1]
        fires[near] = (self._rows.look(row_of_near, inputs[near], double=True) >= b).to(torch.uint8)
        fired = torch.empty(len(rows), dtype=torch.int32, device=device)
        margin = torch.empty(len(rows), dtype=torch.float32, device=device)
        shift = torch.tensor([b], dtype=torch.float64, device=device)
        launch(list_kernels.sum_up, len(rows), begin, length, z, fires, shift, fired, margin, len(rows))
        places = fired.nonzero()[:, 0]
        sizes = length[places]
        ends = sizes.cumsum(0)
        to, entries = ends - sizes, int(ends[-1]) if len(ends) else 0
        self.firing += self._copies * int(fired.sum())
        self._make_room(first, len(places), entries)
        soonest = torch.clamp((margin[places] - coarse) * (1 - 2.4e-7), max=self._band * (1 - 2.4e-7))
        for copy in range(self._copies):
            here, there = lists.add(len(places), entries)
            lists.neurons[here] = self._copies * rows[places] + copy
            lists.sign[here] = self._rows.signs(lists.neurons[here])
            lists.begin[here], lists.length[here], lists.fired[here] = there.start + to, sizes, fired[places]
            lists.band[here], lists.soonest[here] = self._band * (1 - 2.4e-7), soonest
            launch(
                list_kernels.write_lists, len(places), places, begin, length, fired, z, fires, inputs,
                lists.begin[here], lists.inputs, lists.start, lists.flags, len(places),
            )  # fmt: skip
            if self._copies == 1:  # those of twins cancel
                signs = torch.repeat_interleave(lists.sign[here].double(), sizes)
                firing = lists.flags[there] != 0
                fixed = signs * (lists.start[there].double() - b) * firing * self._fixed
                outputs.index_add_(0, lists.inputs[there].long(), fixed.round().long())
        return len(inputs)

    def screen(self, first: int, count: int, *, inputs: int | None = None) -> tuple[Any, Any, Any]:
        """Return bits (count, words) of pairs that may reach the level, how many by row, and the longest row's norm.

        ``inputs`` takes part of them only.
        """
        device, (d, wide), words = self._rows.device, (self._settings.start.dimension, self._half.shape[1]), self._words
        n = len(self._rows.inputs) if inputs is None else inputs
        masks = torch.empty((count, words), dtype=torch.int16, device=device)
        counts = torch.empty(count, dtype=torch.int32, device=device)
        if wide > _IN_REGISTERS:
            numbers = torch.arange(first, first + count, device=device)
            rows, norms = self._rows.make_with_norms(numbers, columns=wide, dtype=torch.float16)
            row_kernels.screen_stored[(-(-count // _ROWS),)](
                self._half, self._powers, rows, norms, masks, counts, count, n, words, self._low, self._slope,
                D=wide, M=_ROWS, N=_COLUMNS, num_warps=4, num_stages=2,
            )  # fmt: skip
            return masks, counts, norms.max()
        longest = torch.zeros(1, dtype=torch.float32, device=device)
        row_kernels.screen[(-(-count // _ROWS),)](
            self._half, self._powers, masks, counts, longest, first, count, n, d, words, self._low, self._slope,
            self._rows.key, D=wide, M=_ROWS, N=_COLUMNS, enable_fp_fusion=False, num_warps=4, num_stages=2,
        )  # fmt: skip
        return masks, counts, longest

    def _candidates(self, first: int, count: int) -> tuple[Any, Any, Any, Any, float]:
        """Return rows (k,) with pairs that may reach the level, where their pairs begin and how many they are, inputs.

        The last is a bound on the rounding of their pre-activations in float32.
        """
        if self._rows.hadamard is not None:
            return *self._rows.hadamard.candidates(first, count, self._low), self.guards[0]
        masks, counts, longest = self.screen(first, count)
        flat = masks.reshape(-1)
        index = flat.nonzero()[:, 0]
        word, bits = flat[index], torch.empty(len(index), dtype=torch.int32, device=masks.device)
        launch(row_kernels.count_bits, len(index), word, bits, len(index))
        end = bits.cumsum(0)
        inputs = torch.empty(int(end[-1]) if len(end) else 0, dtype=torch.int32, device=masks.device)
        launch(row_kernels.list_bits, len(index), index, word, end, bits, inputs, len(index), self._words)
        rows = counts.nonzero()[:, 0]
        begin, length = counts.cumsum(0)[rows] - counts[rows], counts[rows]
        longest_here = float(longest) * (1 + 1e-5)
        here = guards(longest_here, self._settings.start.dimension, 2.0**-24)
        self.guards = max(self.guards, here)  # both grow with the longest row
        return first + rows, begin, length, inputs, here[0]

    def _make_room(self, first: int, rows: int, entries: int) -> None:
        """Make room for these; if there is none, for all rows to come, if they are like those so far."""
        done = first - self._range.start
        used, more = self._lists.used, (self._copies * rows, self._copies * entries)
        if all(one + two <= room for one, two, room in zip(used, more, self._lists.room, strict=True)):
            return
        share = min(1.0, (done + self.size) / len(self._range))
        wanted = [int((one + two) / share * (1.02 if share < 1 else 1.0)) for one, two in zip(used, more, strict=True)]
        self._lists.reserve(*wanted)
