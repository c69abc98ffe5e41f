"""A trained model as it comes back from disk: how rows of a file become answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput
from thresher.runs.run import Run, read_run
from thresher.tables import Column, Encoding

__all__ = ["SavedModel", "load_model"]


class SavedModel(NamedTuple):
    """A model with ``predict``, the columns it was trained on, and the run it comes from."""

    model: Any
    encoding: Encoding
    target: str
    task: str
    run: Run

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


def load_model(folder: Path) -> SavedModel:
    """Return the model in a run's folder, to the bit: networks of exact training are made again from their steps.

    Cost: one pass over all neurons and its moves; an estimator is fitted again.
    """
    run = read_run(folder)
    stored: Mapping[str, Any] = run.model
    try:
        encoding, target, task = Encoding.from_json(stored["columns"]), str(stored["target"]), str(stored["task"])
        if stored["kind"] == "exact":
            from thresher.runs.exact import load_exact

            return SavedModel(load_exact(run, stored), encoding, target, task, run)
        return SavedModel(_fit_again(run, stored), encoding, target, task, run)
    except (LookupError, TypeError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{folder} holds a run without a model. Train with thresher train --save.") from None


def _fit_again(run: Run, stored: Mapping[str, Any]) -> Any:
    from thresher.estimators import ThresherClassifier, ThresherRegressor

    if stored["classes"] is None:
        return ThresherRegressor(**stored["parameters"]).fit(run.inputs, run.targets[0])
    labels = np.array(stored["classes"])[run.targets[0].astype(int)]
    return ThresherClassifier(**stored["parameters"]).fit(run.inputs, labels)
