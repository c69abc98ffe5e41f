"""Start rows on a GPU: made there, with the bits that the processor gives them, and multiplied with inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from thresher.devices import interpreted
from thresher.gpu.hadamard import HadamardRows
from thresher.gpu.kernels import rows as kernels
from thresher.model.poisson import AnyStart

__all__ = ["Rows"]

# Of a program: rows to write or to look at, and groups of four numbers. The interpreter is slow to begin one.
_PAIRS = 1 << 20  # in float64, at a time: of Hadamard rows
_MADE, _ROWS, _QUADS = 512 if interpreted() else 8, 32, 16


class Rows:
    """Start rows of a network on a device, and the inputs (n, d) there in float64."""

    def __init__(self, start: AnyStart, inputs: NDArray[np.float64], device: Any) -> None:
        self.start, self.device = start, device
        self.inputs = torch.from_numpy(np.ascontiguousarray(inputs)).to(device)
        self.key = torch.tensor([start.seed & 0xFFFFFFFF, start.seed >> 32], dtype=torch.int64, device=device)
        self.hadamard = HadamardRows(start, inputs, self.key) if start.sequence == "hadamard" else None
        if self.hadamard is None:
            self._double = _by_fours(self.inputs)
            self._single = self._double.float()

    def of_neurons(self, neurons: Any) -> Any:
        """Return the numbers of the start rows of neurons (k,): twins share one."""
        return neurons >> 1 if self.start.twins else neurons

    def signs(self, neurons: Any) -> Any:
        """Return the signs (k,) of neurons, int8."""
        if self.start.twins:
            return (1 - 2 * (neurons & 1)).to(torch.int8)
        out = torch.empty(len(neurons), dtype=torch.int8, device=self.device)
        if len(neurons):
            kernels.draw_signs[(-(-len(neurons) // 256),)](neurons, out, len(neurons), self.key, B=256)
        return out

    def make(self, rows: Any, *, columns: int | None = None, dtype: Any = torch.float32) -> Any:
        """Return start rows (k, d) by their numbers, int64; with more columns the rest is 0. Cost: O(d) per row."""
        return self.make_with_norms(rows, columns=columns, dtype=dtype)[0]

    def make_with_norms(self, rows: Any, *, columns: int | None = None, dtype: Any = torch.float32) -> tuple[Any, Any]:
        """Return start rows (k, d) and their norms (k,)."""
        d = self.start.dimension
        out = torch.zeros((len(rows), d if columns is None else columns), dtype=dtype, device=self.device)
        norms = torch.empty(len(rows), dtype=torch.float32, device=self.device)
        if self.hadamard is not None:
            self.hadamard.make(rows, out)
            torch.linalg.vector_norm(out.float(), dim=1, out=norms)
        elif len(rows):
            grid = (-(-len(rows) // _MADE),)
            kernels.fill[grid](
                rows, out, norms, len(rows), d, out.shape[1], self.key, R=_MADE, Q=_QUADS, enable_fp_fusion=False
            )
        return out, norms

    def look(self, rows: Any, inputs: Any, *, double: bool = False) -> Any:
        """Return pre-activations (k,) of pairs of a start row and an input, in float32 or float64. Cost: O(d) each."""
        if double and self.hadamard is not None:
            parts = zip(rows.split(_PAIRS), inputs.split(_PAIRS), strict=True)
            sums = [(self.make(some).double() * self.inputs[which.long()]).sum(1) for some, which in parts]
            return torch.cat(sums)
        begin = torch.arange(len(rows), device=self.device)
        return self.look_at(rows, begin, torch.ones_like(begin, dtype=torch.int32), inputs, double=double)

    def look_at(self, rows: Any, begin: Any, length: Any, inputs: Any, *, double: bool = False) -> Any:
        """Return pre-activations (p,) of pairs that are listed row by row; a row is made once.

        Row k takes part in ``length[k]`` pairs, from number ``begin[k]`` on; ``inputs`` (p,) are theirs. Of Hadamard
        rows these are in float32.
        """
        if self.hadamard is not None:
            return self.hadamard.look(rows, begin, length, inputs)
        X = self._double if double else self._single
        out = torch.empty(len(inputs), dtype=X.dtype, device=self.device)
        if len(rows):
            grid = (-(-len(rows) // _ROWS),)
            kernels.look[grid](
                X, rows, begin, length, inputs, out, len(rows), X.shape[1], self.key, B=_ROWS, Q=_QUADS,
                enable_fp_fusion=False,
            )  # fmt: skip
        return out


def _by_fours(X: Any) -> Any:
    """Return inputs (n, d) with their columns in the order in which a program of ``look`` makes numbers."""
    n, d = X.shape
    wide = -(-d // (4 * _QUADS)) * 4 * _QUADS
    filled = torch.zeros((n, wide), dtype=X.dtype, device=X.device)
    filled[:, :d] = X
    return filled.reshape(n, -1, _QUADS, 4).transpose(2, 3).reshape(n, wide).contiguous()
