"""The scan of all start rows on a GPU: screened in half precision on tensor cores, near pairs computed again.

Nothing of size m x n or m x d is written: a block of rows leaves one bit per pair, and the few words with a bit that is
set become a list of candidates. The screen misses nothing: its level is lower than the one that is asked for by a bound
on the rounding of the product in half precision.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from thresher.gpu import kernels
from thresher.gpu.kernels import FIRED, LINEAR, SIDE
from thresher.gpu.lists import Lists
from thresher.gpu.rows import Rows
from thresher.loops.rounding import NORM_TOLERANCE, guards
from thresher.model.network import NetworkSettings
from thresher.theory import firing_probability

__all__ = ["Scan", "screen_rows"]

_IN_REGISTERS = 128  # columns up to which a screen makes its rows itself
_ROWS, _COLUMNS = 64, 128  # of a tile
_BLOCK, _WORDS, _CANDIDATES = 1 << 22, 1 << 27, 1 << 24  # at most: rows, words of bits, candidates expected
_HALF, _LEAST_HALF = 2.0**-11, 2.0**-24  # unit roundoff of float16; what it loses below its smallest normal number
_SUM = 2.0**-22  # of a sum in the accumulators of tensor cores, which need not round to nearest


class Scan:
    """One pass over the start rows of a range of neurons: which pairs fire, and watchlists ``band`` below that."""

    def __init__(self, rows: Rows, settings: NetworkSettings, neurons: range, *, band: float, fixed: float) -> None:
        self._rows, self._settings, self._fixed = rows, settings, fixed
        self._copies = 2 if settings.start.twins else 1
        self._range = range(neurons.start // self._copies, neurons.stop // self._copies)
        d, n, b = settings.start.dimension, len(rows.inputs), settings.shift
        self._band = min(band, b + 40.0)
        self._slope = 1.02 * (1 + NORM_TOLERANCE) * (2 * _HALF + math.sqrt(d) * _LEAST_HALF + (d + 32) * _SUM)
        self._low = b - self._band - math.sqrt(d) * _LEAST_HALF - 1e-6 * (1 + b + self._band)  # passed in float32
        wide = max(16, 1 << (d - 1).bit_length()) if d <= _IN_REGISTERS else -(-d // 64) * 64
        self._half = torch.zeros((-(-n // _COLUMNS) * _COLUMNS, wide), dtype=torch.float16, device=rows.device)
        self._half[:n, :d] = rows.inputs.half()
        self._words = -(-n // 32)
        likely = n * firing_probability(max(self._low - self._slope * (math.sqrt(d) + 2), -8.0))
        most = min(_BLOCK, _WORDS // self._words, int(_CANDIDATES / max(likely, 1e-6)))
        self.size = max(_ROWS, min(most, len(self._range)) // _ROWS * _ROWS)
        self.longest = 0.0
        self._lists = Lists(rows.device)

    @staticmethod
    def memory(inputs: int, dimension: int) -> float:
        """Return about how many bytes a scan takes for a block."""
        stored = 2 * dimension if dimension > _IN_REGISTERS else 0
        return min(_BLOCK * (inputs / 8 + stored), 4.0 * _WORDS * (1 + 16 * stored / max(inputs, 1))) + 96 * _CANDIDATES

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
        b, rows, inputs, longest = self._settings.shift, *self._candidates(first, count)
        z = self._rows.look(rows, inputs).double()
        coarse, _ = guards(longest, self._settings.start.dimension, 2.0**-24)
        fires, near = z >= b, ((z - b).abs() <= coarse).nonzero()[:, 0]
        fires[near] = self._rows.look(rows[near], inputs[near], double=True) >= b
        new = torch.ones(len(rows), dtype=torch.bool, device=rows.device)
        new[1:] = rows[1:] != rows[:-1]
        owner, so_far = new.cumsum(0) - 1, fires.cumsum(0)
        begin = new.nonzero()[:, 0]
        end = torch.cat([begin[1:], torch.full_like(begin[:1], len(rows))])
        awake = so_far[end - 1] - so_far[begin] + fires[begin] > 0
        kept = awake[owner].nonzero()[:, 0]
        inputs, z, fires = inputs[kept], z[kept], fires[kept]
        owner = (awake.cumsum(0) - 1)[owner[kept]]
        length = (end - begin)[awake]
        soonest = torch.full((len(length),), self._band, dtype=torch.float64, device=rows.device)
        soonest.scatter_reduce_(0, owner, (z - b).abs() - coarse, "amin")
        neurons = self._copies * rows[begin[awake]]
        self._make_room(first, len(neurons), len(inputs))
        for copy in range(self._copies):
            sign = self._rows.signs(neurons + copy)
            self._lists.add(
                neurons=neurons + copy,
                sign=sign,
                begin=length.cumsum(0) - length,
                length=length.to(torch.int32),
                band=torch.full_like(soonest, self._band * (1 - 2.4e-7)).float(),
                soonest=(soonest * (1 - 2.4e-7)).float(),
                inputs=inputs,
                start=z.float(),
                flags=fires.to(torch.uint8) * (SIDE | LINEAR | FIRED),
            )
            if self._copies == 1:  # those of twins cancel
                fixed = (sign.double()[owner] * (z - b) * fires * self._fixed).long()
                outputs.index_add_(0, inputs.long(), fixed)
        return len(rows)

    def screen(self, first: int, count: int, *, inputs: int | None = None) -> tuple[Any, Any]:
        """Return bits (count, words) of the pairs that may reach the level, and the norm of the longest row."""
        device, (d, wide), words = self._rows.device, (self._settings.start.dimension, self._half.shape[1]), self._words
        masks = torch.empty((count, words), dtype=torch.int32, device=device)
        longest = torch.zeros(1, dtype=torch.float32, device=device)
        stored, norms = masks, longest
        if wide > _IN_REGISTERS:
            numbers = torch.arange(first, first + count, device=device)
            stored, norms = self._rows.make_with_norms(numbers, columns=wide, dtype=torch.float16)
        kernels.screen[(-(-count // _ROWS),)](
            self._half, stored, norms, masks, longest, first, count, len(self._rows.inputs) if inputs is None else inputs, d, words, self._low,
            self._slope, self._rows.key, D=wide, M=_ROWS, N=_COLUMNS, STORED=wide > _IN_REGISTERS,
            enable_fp_fusion=False, num_warps=4, num_stages=2,
        )  # fmt: skip
        return masks, longest

    def _candidates(self, first: int, count: int) -> tuple[Any, Any, float]:
        """Return rows and inputs (k,) of pairs that may reach the level, row by row, and the norm of the longest row."""
        device, words = self._rows.device, self._words
        masks, longest = self.screen(first, count)
        flat = masks.reshape(-1)
        index = flat.nonzero()[:, 0]
        word, bits = flat[index], torch.empty(len(index), dtype=torch.int32, device=device)
        rows = torch.empty(0, dtype=torch.int64, device=device)
        inputs = torch.empty(0, dtype=torch.int32, device=device)
        if len(index):
            grid = (-(-len(index) // 256),)
            kernels.count_bits[grid](word, bits, len(index), B=256)
            end = bits.cumsum(0)
            rows, inputs = rows.new_empty(int(end[-1])), inputs.new_empty(int(end[-1]))
            kernels.list_bits[grid](index, word, end, bits, rows, inputs, first, len(index), words, B=256)
        longest_here = float(longest) * (1 + 1e-5)
        self.longest = max(self.longest, longest_here)
        return rows, inputs, longest_here

    def _make_room(self, first: int, rows: int, entries: int) -> None:
        """Make room for all rows to come if they are like those so far."""
        done = first - self._range.start
        used, more = self._lists.used, (self._copies * rows, self._copies * entries)
        share = min(1.0, (done + self.size) / len(self._range))
        wanted = [int((one + two) / share * (1.02 if share < 1 else 1.0)) for one, two in zip(used, more, strict=True)]
        self._lists.reserve(*wanted)


def screen_rows(scan: Scan, first: int, count: int) -> None:
    """Make the random numbers of a block of rows as a screen does, and no product: what they cost alone."""
    scan.screen(first, count, inputs=0)
