"""Exported arrays as a torch module; importing this file needs torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from thresher.export.arrays import NOTHING, SEGMENTS, Arrays

__all__ = ["Model"]


class Model(torch.nn.Module):
    """Raw rows (k, d) to outputs (k, outputs), in the precision of the arrays; see ``predict_arrays``.

    ``classes`` are the labels of a classifier, else None.
    """

    def __init__(self, arrays: Arrays) -> None:
        super().__init__()
        self.classes = arrays.get("classes")
        self.encodes = "source" in arrays
        for name, array in arrays.items():
            if name != "classes":
                self.register_buffer(name, torch.from_numpy(np.array(array)))

    def forward(self, X: Any) -> Any:
        """Return the outputs for rows X, of a classifier the scores."""
        rows = self._inputs(X.to(self.metric))
        parts = []
        for place, factors in enumerate(self.coefficients):
            hidden = self.hidden[place]
            if self.apart.shape[1]:
                below = self.shift - rows @ hidden.T
                active = torch.maximum(rows @ self.apart[place].T, below).sub_(torch.relu(below))
            else:
                active = torch.relu(rows @ hidden.T - self.shift)
            parts.append(active @ factors)
        told = torch.stack(parts, dim=1) * self.unit + self.mean
        return torch.exp(told) + self.floor if self.logarithmic else told

    def probabilities(self, X: Any) -> Any:
        """Return the probability of each class, or of each label being 1 (k, classes)."""
        if self.classes is None:
            raise AttributeError("a regressor has no probabilities")
        scores = self.forward(X)
        if self.multilabel:
            return torch.sigmoid(self.temperature * scores)
        both = torch.hstack([-scores / 2, scores / 2]) if scores.shape[1] == 1 else scores
        return torch.softmax(self.temperature * both, dim=1)

    def labels(self, X: Any) -> Any:
        """Return the most likely label of each row (k,), an array; 0 and 1 (k, labels) for several labels per row."""
        chances = self.probabilities(X)
        if self.multilabel:
            return (chances > 0.5).long().numpy(force=True)
        return self.classes[chances.argmax(dim=1).numpy(force=True)]  # type: ignore[index]

    def _inputs(self, X: Any) -> Any:
        if self.encodes:
            missing = torch.isnan(X)
            filled = torch.where(missing, self.fill, X)[:, self.source]
            X = torch.where(self.indicator, missing[:, self.source].to(X.dtype), filled)
        inside = torch.minimum(torch.maximum(X, self.input_low), self.input_high)
        out = X - inside
        pulled = inside + torch.sign(out) * self.input_soft * torch.log1p(out.abs() / self.input_soft)
        bent = self.first_level + torch.zeros_like(pulled)
        for begin, slope, low, high in zip(*(getattr(self, name) for name in SEGMENTS), strict=True):
            bent = bent + slope * torch.minimum(torch.maximum(pulled - begin, low), high)
        weighed = (bent - self.input_mean) / self.input_unit * self.weights
        rows = weighed @ self.metric
        if self.rest:
            whole, lost = (weighed**2).sum(dim=1), ((weighed - rows @ self.metric.T) ** 2).sum(dim=1)
            lost = torch.where(lost > NOTHING * whole, lost, torch.zeros_like(lost))
            rows = torch.hstack([rows, torch.sqrt(lost)[:, None]])
        rows = torch.hstack([rows, self.last.expand(len(rows), -1)])
        rows = rows / rows.abs().amax(dim=1, keepdim=True)  # so that squares do not overflow
        return rows / rows.norm(dim=1, keepdim=True)
