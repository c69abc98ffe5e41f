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
from thresher.export.table_graph import LearntColumns, check_table

__all__ = ["Arrays", "Exports", "Neurons", "classify_arrays", "limit_arrays", "make_arrays", "predict_arrays"]


class Exports:
    """What can be exported: derive, and say what the arrays are.

    ``dtype`` is ``"float32"``, at half the time, or ``"float64"``. ``encoded=True`` is for estimators of tables with
    columns that are not numbers: the export takes what ``encoder_.transform`` returns. ONNX encodes numbers,
    categories and dates itself.
    """

    def _arrays(self, *, encoded: bool) -> Arrays:
        """Return the arrays in double precision."""
        raise NotImplementedError

    def _table_columns(self) -> LearntColumns | None:
        """Return the columns of a table that is encoded, and what was learnt of each; None if all are numbers."""
        return None

    def to_numpy(self, *, dtype: str = "float32", encoded: bool = False) -> Arrays:
        """Return plain arrays; :func:`thresher.export.predict_arrays` shows what they mean.

        They give predictions, or the scores of a classifier, for which :func:`thresher.export.classify_arrays` returns
        labels and probabilities. Cost: O(md) per output.
        """
        if dtype not in ("float32", "float64"):
            raise InvalidInput(f"dtype must be 'float32' or 'float64'; got {dtype!r}.")
        return with_precision(self._arrays(encoded=encoded), dtype)

    def to_torch(self, *, dtype: str = "float32", encoded: bool = False) -> Any:
        """Return a ``torch.nn.Module``: rows (k, d) to (k, outputs), with a gradient. Needs torch.

        A classifier's returns scores, and has methods ``probabilities`` and ``labels``. What ``torch.save`` writes of
        it, ``torch.load(file, weights_only=False)`` reads where thresher is installed.
        """
        try:
            from thresher.export.torch_module import Model
        except ImportError as error:
            raise not_installed("to_torch needs torch", extra="torch") from error
        return Model(self.to_numpy(dtype=dtype, encoded=encoded))

    def to_onnx(self, path: str | Path | None = None, *, dtype: str = "float32", encoded: bool = False) -> Any:
        """Return, and write if a path is given, an ONNX model: ``X`` (k, d) to ``outputs``. Needs onnx.

        A table with columns that are not numbers has an input (k, 1) for each column instead, by its name: numbers as
        numbers, dates as days since 1970-01-01, NaN where they are missing, and categories as strings; the metadata of
        the model say so. Free text is refused. A classifier's returns ``label``, ``probabilities`` and ``scores``.
        """
        table = None if encoded else self._table_columns()
        if table is not None:
            check_table(table)
        return to_onnx(self.to_numpy(dtype=dtype, encoded=encoded or table is not None), path, table)
