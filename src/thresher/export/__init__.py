"""Networks and estimators for other programs: plain arrays, torch, ONNX. All compute in double precision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from thresher.errors import InvalidInput, NotAvailable
from thresher.export.arrays import Arrays, Neurons, make_arrays, predict_arrays
from thresher.export.onnx import to_onnx

__all__ = ["Arrays", "Exports", "Neurons", "make_arrays", "predict_arrays"]


class Exports:
    """What can be exported: derive, and say what the arrays are."""

    def to_numpy(self) -> Arrays:
        """Return plain arrays; :func:`thresher.export.predict_arrays` shows what they mean."""
        raise NotImplementedError

    def to_torch(self) -> Any:
        """Return a ``torch.nn.Module`` in double precision: rows (k, d) to (k, outputs). Needs torch."""
        try:
            from thresher.export.torch_module import Model
        except ImportError as error:
            raise NotAvailable("to_torch needs torch. Install it with: pip install 'thresher[torch]'") from error
        return Model(self.to_numpy())

    def to_onnx(self, path: str | Path | None = None) -> Any:
        """Return, and write if a path is given, an ONNX model: ``X`` (k, d) double to ``outputs``. Needs onnx."""
        return to_onnx(self.to_numpy(), path)

    def export(self, to: str) -> Any:
        """Return what ``to_numpy``, ``to_torch`` or ``to_onnx`` does: ``to`` is "numpy", "torch" or "onnx"."""
        if to not in ("numpy", "torch", "onnx"):
            raise InvalidInput(f"export must be to 'numpy', 'torch' or 'onnx'; got {to!r}.")
        return getattr(self, f"to_{to}")()
