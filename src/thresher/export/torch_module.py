"""Exported arrays as a torch module; importing this file needs torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from thresher.export.arrays import Arrays, outputs_of

__all__ = ["Model"]


class Model(torch.nn.Module):
    """Raw rows (k, d) to outputs (k, outputs), in the precision of the arrays; see ``predict_arrays``.

    ``classes`` are the labels of a classifier, else None.
    """

    def __init__(self, arrays: Arrays) -> None:
        super().__init__()
        self.classes = arrays.get("classes")
        for name, array in arrays.items():
            if name != "classes":
                self.register_buffer(name, torch.from_numpy(np.array(array)))

    def forward(self, X: Any) -> Any:
        """Return the outputs for rows X, of a classifier the scores."""
        return outputs_of(torch, dict(self.named_buffers()), X.to(self.input_mean))

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
