"""Hadamard rows on a GPU: made with the bits of the processor, screened and multiplied with inputs by additions."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from thresher.devices import interpreted
from thresher.gpu.kernels import hadamard as kernels
from thresher.gpu.kernels import launch
from thresher.loops.rounding import guards, longest_hadamard, of_half_transform, of_transform
from thresher.model.hadamard import block_size, turns_of
from thresher.model.poisson import AnyStart

__all__ = ["GROUP", "HadamardRows"]

GROUP, _INPUTS, _RUN = 256, 64, 64  # of a program of the screen: rows at a time, inputs, and how often
_LOOKED = 256 if interpreted() else 2  # rows of a program that looks
_NUMBERS = 1 << 24  # of rows in work, at a time


class HadamardRows:
    """Hadamard start rows of a network on a device, and the inputs (n, d) in rotated coordinates."""

    def __init__(self, start: AnyStart, inputs: NDArray[np.float64], key: Any) -> None:
        self._d, self._key, self._device = start.dimension, key, key.device
        self.p = p = block_size(start.dimension)
        turns = turns_of(start.seed, p)
        self._signs, self._own, self._other = (torch.from_numpy(one.copy()).to(self._device) for one in turns)
        self._inputs = np.ascontiguousarray(inputs)
        column = torch.arange(GROUP, device=self._device)
        self._powers = torch.zeros((GROUP, 16), dtype=torch.float16, device=self._device)
        self._powers[column, column // 16] = 2.0 ** (column % 16).half()
        self._matrix = _transformed(torch.eye(64, device=self._device)).half()
        share = np.float32(np.float32(2) / np.float32(9 * p))
        self._spread = float(share), float(np.sqrt(share))
        # A term goes through 66 sums of 256 at most, and those are added up; rows themselves are rounded as well.
        working, _ = guards(longest_hadamard(p), 66 + p // GROUP, 2.0**-24)
        _, exact = guards(longest_hadamard(p), self._d, 2.0**-24)
        self.guards = working + of_transform(p), exact

    @cached_property
    def _rotated(self) -> tuple[Any, Any]:
        """The inputs in rotated coordinates, made when they are first asked for: float32, and half with zeros below."""
        Z = self._rotate()
        half = torch.zeros((-(-len(Z) // _INPUTS) * _INPUTS, self.p), dtype=torch.float16, device=self._device)
        half[: len(Z)] = Z.half()
        return Z.float(), half

    def _rotate(self) -> Any:
        """Return the inputs (n, p) in rotated coordinates, float64: ``model/hadamard.py`` with tensors."""
        rotated = torch.zeros((len(self._inputs), self.p), dtype=torch.float64, device=self._device)
        rotated[:, : self._d] = torch.from_numpy(self._inputs).to(self._device) * self._signs[: self._d]
        rotated = _transformed(rotated)
        beside = torch.arange(self.p, device=self._device) ^ 1
        return _transformed(self._own * rotated + self._other[beside] * rotated[:, beside]) / self.p

    def lengths(self, rows: Any) -> Any:
        """Return the lengths (k,) of rows, with their signs."""
        out = torch.empty(len(rows), dtype=torch.float32, device=self._device)
        launch(kernels.draw_lengths, len(rows), rows, out, len(rows), self._key, *self._spread, enable_fp_fusion=False)
        return out

    def signs(self, blocks: Any, *, dtype: Any = torch.float32) -> tuple[Any, Any]:
        """Return the signs of blocks (k,) of p rows: as bits (k, p / 32), and as numbers (k, p)."""
        words = torch.empty((len(blocks), self.p // 32), dtype=torch.int32, device=self._device)
        numbers = torch.empty((len(blocks), self.p), dtype=dtype, device=self._device)
        launch(
            kernels.draw_blocks, len(blocks) * self.p // 128, blocks, words, numbers, len(blocks), self._key, P=self.p
        )
        return words, numbers

    def make(self, rows: Any, out: Any) -> None:
        """Write start rows by their numbers (k,) to ``out`` (k, at least d). Cost: O(p log p) each."""
        for some, place in zip(*(one.split(_NUMBERS // self.p) for one in (rows, out)), strict=True):
            blocks, which = torch.unique_consecutive(some // self.p, return_inverse=True)
            spread = _transformed(self.signs(blocks)[1])
            c = torch.arange(self.p, device=self._device)[None, :] ^ (some % self.p)[:, None]
            own, other = spread[which[:, None], c], spread[which[:, None], c ^ 1]
            v = self._own * own + self._other * other
            while v.shape[1] >= 2 * self._d:  # later rows are not asked for: sums alone
                half = v.shape[1] // 2
                v = v[:, :half] + v[:, half:]
            v = _transformed(v)[:, : self._d]
            place[:, : self._d] = (self.lengths(some)[:, None] * v) * (self._signs[: self._d] / self.p)

    def look(self, rows: Any, begin: Any, length: Any, inputs: Any) -> Any:
        """Return pre-activations (pairs,) in float32, as ``Rows.look_at`` does. Cost: O(p) additions each."""
        out = torch.empty(len(inputs), dtype=torch.float32, device=self._device)
        if len(rows):
            blocks, where = torch.unique_consecutive(rows // self.p, return_inverse=True)
            words, _ = self.signs(blocks, dtype=torch.int8)
            kernels.look_by_signs[(-(-len(rows) // _LOOKED),)](
                self._rotated[0], words, where, rows, self.lengths(rows), begin, length, inputs, out, len(rows),
                P=self.p, B=_LOOKED, C=256, num_warps=1,
            )  # fmt: skip
        return out

    def draw(self, first: int, count: int, low: float) -> tuple[Any, Any, Any]:
        """Return signs of blocks (blocks, p), levels (rows,) and bits to turn of the groups that rows are in."""
        p, device = self.p, self._device
        begin, end = first // GROUP * GROUP, -(-(first + count) // GROUP) * GROUP
        signs = self.signs(torch.arange(begin // p, (end - 1) // p + 1, device=device), dtype=torch.float16)[1]
        levels = torch.empty(end - begin, dtype=torch.float16, device=device)
        flips = torch.empty((end - begin) // 16, dtype=torch.int16, device=device)
        launch(
            kernels.draw_levels, end - begin, levels, flips, begin, end - begin, first, first + count, self._key,
            *self._spread, low - of_transform(p), of_half_transform(p), enable_fp_fusion=False,
        )  # fmt: skip
        return signs, levels, flips

    def screen(self, first: int, count: int, low: float) -> Any:
        """Return bits (chunks, n), int64, of pairs that may reach a level: 64 rows each, from a multiple of 256 on.

        Cost: O(log p) additions a pair, most of them on tensor cores.
        """
        n, (signs, levels, flips) = len(self._inputs), self.draw(first, count, low)
        groups = len(levels) // GROUP
        masks = torch.empty((4 * groups, n), dtype=torch.int64, device=self._device)
        grid = (-(-n // _INPUTS) * -(-groups // _RUN),)
        # With a single stage Triton 3.6 reads beyond the ends of arrays.
        kernels.screen_by_additions[grid](
            self._rotated[1], self._matrix, self._powers, signs, levels, flips, masks.view(torch.int16),
            first // GROUP, groups, n, _RUN,
            P=self.p, M=_INPUTS, PAIRS=not interpreted(), num_warps=4, num_stages=3,
        )  # fmt: skip
        return masks

    def candidates(self, first: int, count: int, low: float) -> tuple[Any, Any, Any, Any]:
        """Return rows (k,) with pairs that may reach ``low``, where their pairs begin and how many they are, inputs."""
        masks, device = self.screen(first, count, low), self._device
        chunks, n = masks.shape
        flat = masks.reshape(-1)
        index = flat.nonzero()[:, 0]
        bits = flat[index]
        del masks, flat
        edges = torch.searchsorted(index, torch.arange(0, (chunks + 1) * n, n, device=device))
        counts = torch.empty(64 * chunks, dtype=torch.int32, device=device)
        kernels.count_rows[(chunks,)](edges, bits, counts, num_warps=2)
        ends = counts.cumsum(0)
        inputs = torch.empty(int(ends[-1]), dtype=torch.int32, device=device)
        kernels.list_rows[(chunks,)](edges, bits, index, ends, counts, inputs, n, num_warps=2)
        rows = counts.nonzero()[:, 0]
        length = counts[rows]
        return first - first % GROUP + rows, ends[rows] - length, length, inputs


def _transformed(rows: Any) -> Any:
    """Return the transform of rows (k, p): levels from the largest distance to the smallest."""
    k, p = rows.shape
    apart = p // 2
    while apart:
        a, b = rows.reshape(k, p // (2 * apart), 2, apart).unbind(dim=2)
        rows = torch.empty((k, p // (2 * apart), 2, apart), dtype=rows.dtype, device=rows.device)
        torch.add(a, b, out=rows[:, :, 0])
        torch.sub(a, b, out=rows[:, :, 1])
        apart //= 2
    return rows.reshape(k, p)
