"""A trained model as it comes back from disk: how rows of a file become answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import thresher
from thresher.errors import InvalidInput
from thresher.runs.run import read_run
from thresher.tables import Column, Encoding

__all__ = ["MODEL_FILE", "SavedModel", "load_model"]

MODEL_FILE = "model.thresher"


class SavedModel(NamedTuple):
    """A model with ``predict``, and the columns that it was trained on."""

    model: Any
    encoding: Encoding
    target: str
    task: str

    def matrix(self, columns: Sequence[Column], *, source: str) -> NDArray[np.float64]:
        """Return the rows of a file as the model wants them (k, d); columns without names go by their place."""
        names = [name for name, _ in self.encoding.columns]
        if all(one.name.startswith("column ") for one in columns):
            if len(columns) not in (len(names), len(names) + 1):  # the target may be there, as the last one
                raise InvalidInput(
                    f"{source} has {len(columns)} columns without names; the model was trained on {len(names)}."
                )
            columns = [Column(name, one.values) for name, one in zip([*names, self.target], columns, strict=False)]
        return self.encoding.matrix(columns, source=source)


def load_model(path: Path) -> SavedModel:
    """Return the model in a run's folder, or in a file that an estimator's ``save`` has written; to the bit.

    Networks are made again from their steps. Cost: as many passes over all neurons as it takes to make them.
    """
    if path.is_file():
        return _of_estimator(thresher.load(path))
    run = read_run(path)
    stored: Mapping[str, Any] = run.model
    try:
        encoding, target, task = Encoding.from_json(stored["columns"]), str(stored["target"]), str(stored["task"])
        if stored["kind"] == "exact":
            from thresher.runs.exact import load_exact

            model: Any = load_exact(run, stored)
            count = model.lift.n_features_in_
        else:
            model = thresher.load(path / MODEL_FILE)
            count = model.n_features_in_
        if len(encoding.names) != count:
            raise ValueError(f"{len(encoding.names)} columns are encoded for a model of {count}")
        return SavedModel(model, encoding, target, task)
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{path} holds a run without a model. Train with thresher train --save.") from None


def _of_estimator(model: Any) -> SavedModel:
    """Return an estimator that knows the names of its columns, or only how many there are."""
    count = int(model.n_features_in_)
    names = getattr(model, "feature_names_in_", [f"column {place}" for place in range(1, count + 1)])
    task = "classification" if hasattr(model, "classes_") else "regression"
    return SavedModel(model, Encoding(tuple((str(name), None) for name in names)), "y", task)
