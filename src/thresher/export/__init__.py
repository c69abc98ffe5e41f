"""Networks and estimators for other programs: plain arrays, torch, ONNX; in single precision, or in double."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from thresher.errors import InvalidInput, not_installed
from thresher.export.arrays import (
    Arrays,
    Neurons,
    classify_arrays,
    limit_arrays,
    make_arrays,
    predict_arrays,
    with_precision,
)
from thresher.export.onnx import to_onnx

__all__ = ["Arrays", "Exports", "Neurons", "classify_arrays", "limit_arrays", "make_arrays", "predict_arrays"]


class Exports:
    """What can be exported: derive, and say what the arrays are.

    ``dtype`` is ``"float32"``, at half the time, or ``"float64"``. ``encoded=True`` is for estimators of tables with
    columns that are not numbers: the export takes what ``encoder_.transform`` returns.
    """

    def _arrays(self, *, encoded: bool) -> Arrays:
        """Return the arrays in double precision."""
        raise NotImplementedError

    def to_numpy(self, *, dtype: str = "float32", encoded: bool = False) -> Arrays:
        """Return plain arrays; :func:`thresher.export.predict_arrays` shows what they mean.

        They give predictions, or the scores of a classifier, for which :func:`thresher.export.classify_arrays` returns
        labels and probabilities. Cost: O(md) per output.
        """
        if dtype not in ("float32", "float64"):
            raise InvalidInput(f"dtype must be 'float32' or 'float64'; got {dtype!r}.")
        return with_precision(self._arrays(encoded=encoded), dtype)

    def to_torch(self, *, dtype: str = "float32", encoded: bool = False) -> Any:
        """Return a ``torch.nn.Module``: rows (k, d) to (k, outputs). Needs torch.

        A classifier's returns scores, and has methods ``probabilities`` and ``labels``.
        """
        try:
            from thresher.export.torch_module import Model
        except ImportError as error:
            raise not_installed("to_torch needs torch", extra="torch") from error
        return Model(self.to_numpy(dtype=dtype, encoded=encoded))

    def to_onnx(self, path: str | Path | None = None, *, dtype: str = "float32", encoded: bool = False) -> Any:
        """Return, and write if a path is given, an ONNX model: ``X`` (k, d) to ``outputs``. Needs onnx.

        A classifier's returns ``label``, ``probabilities`` and ``scores``.
        """
        return to_onnx(self.to_numpy(dtype=dtype, encoded=encoded), path)

    def export(self, to: str, **options: Any) -> Any:
        """Return what ``to_numpy``, ``to_torch`` or ``to_onnx`` does: ``to`` is "numpy", "torch" or "onnx"."""
        ways = {"numpy": self.to_numpy, "torch": self.to_torch, "onnx": self.to_onnx}
        if to not in ways:
            raise InvalidInput(f"export must be to 'numpy', 'torch' or 'onnx'; got {to!r}.")
        return ways[to](**options)
