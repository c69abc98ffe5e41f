"""Exported arrays as a torch module; importing this file needs torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from thresher.export.arrays import NOTHING

__all__ = ["Model"]


class Model(torch.nn.Module):
    """Raw rows (k, d) to outputs (k, outputs), in double precision; see ``predict_arrays``."""

    def __init__(self, arrays: dict[str, NDArray[np.float64]]) -> None:
        super().__init__()
        for name, array in arrays.items():
            self.register_buffer(name, torch.from_numpy(np.array(array)))

    def forward(self, X: Any) -> Any:
        """Return the outputs for rows X."""
        X = X.to(self.metric)
        inside = torch.minimum(torch.maximum(X, self.input_low), self.input_high)
        out = X - inside
        pulled = inside + torch.sign(out) * self.input_soft * torch.log1p(out.abs() / self.input_soft)
        bent = self.first_level + torch.zeros_like(pulled)
        segments = (self.segment_begin, self.segment_slope, self.segment_low, self.segment_high)
        for begin, slope, low, high in zip(*segments, strict=True):
            bent = bent + slope * torch.minimum(torch.maximum(pulled - begin, low), high)
        weighed = (bent - self.input_mean) / self.input_unit * self.weights
        rows = weighed @ self.metric
        if self.rest:
            whole = (weighed**2).sum(dim=1)
            lost = whole - (rows**2).sum(dim=1)
            lost = torch.where(lost > NOTHING * whole, lost, torch.zeros_like(lost))
            rows = torch.hstack([rows, torch.sqrt(lost)[:, None]])
        rows = torch.hstack([rows, self.last.expand(len(rows), -1)])
        rows = rows / rows.abs().amax(dim=1, keepdim=True)  # so that squares do not overflow
        rows = rows / rows.norm(dim=1, keepdim=True)
        parts = [
            torch.relu(rows @ hidden.T - self.shift) @ factors
            for hidden, factors in zip(self.hidden, self.coefficients, strict=True)
        ]
        told = torch.stack(parts, dim=1) * self.unit + self.mean
        return torch.exp(told) + self.floor if self.logarithmic else told
