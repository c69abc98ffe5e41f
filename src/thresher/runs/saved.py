"""A trained model as it comes back from disk: how rows of a file become answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import thresher
from thresher.checks import check_number
from thresher.errors import InvalidInput
from thresher.runs.run import Run, read_run
from thresher.tables import Column, Encoding
from thresher.training import Result, replay_together
from thresher.training.options import Setup
from thresher.training.train import complete

__all__ = ["MODEL_FILE", "SavedModel", "load_model"]

MODEL_FILE = "model.thresher"


class SavedModel(NamedTuple):
    """A model with ``predict``, and the columns that it was trained on."""

    model: Any
    encoding: Encoding
    target: str
    task: str
    error: float = math.nan  # about how far a prediction is off, in units of the target; NaN if that is not known
    seen: NDArray[np.uint64] = np.empty(0, np.uint64)  # hashes of the rows trained on (n,)

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

    Cost: that of :func:`thresher.load`.
    """
    if path.is_file():
        return _of_estimator(thresher.load(path), path)
    run = read_run(path)
    stored: Mapping[str, Any] = run.model
    try:
        encoding, target, task = Encoding.from_json(stored["columns"]), str(stored["target"]), str(stored["task"])
        model: Any = _of_first_version(run) if stored["kind"] == "exact" else thresher.load(path / MODEL_FILE)
        if len(encoding.names) != model.n_features_in_:
            raise ValueError(f"{len(encoding.names)} columns are encoded for a model of {model.n_features_in_}")
        error = run.test.value if run.test is not None and task == "regression" else _error_of(model)
        return SavedModel(model, encoding, target, task, error, run.seen)
    except (LookupError, TypeError, ValueError, OverflowError, AttributeError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{path} holds a run without a model. Train with thresher train --save.") from None


def _of_first_version(run: Run) -> Any:
    """Return the estimator of a run that version 0.1.0 trained with ``--ridge 0`` and wrote without a model file."""
    from thresher.estimators import Scaling, SphereLift
    from thresher.estimators.interpolation import adopt
    from thresher.estimators.model_checks import check_model

    stored = run.model
    lift = SphereLift(bias=check_number(stored["bias"], "bias", least=0.0))
    lift.scaling_ = Scaling(*(np.array(stored[f"column {name}"], np.float64) for name in ("means", "units")))
    lift.last_, lift.n_features_in_ = float(stored["last"]), len(lift.scaling_.mean)
    problems, outputs = run.problems(), len(run.targets)
    steps = [one.steps for one in run.trainings]
    setup = Setup.of(problems, complete(run.options))
    setup.require_memory()
    origin = setup.origin()
    results = [
        Result(network, one.history, one.status, one.message, steps=one.steps, origin=origin)
        for network, one in zip(replay_together(problems, steps=steps, **run.options), run.trainings, strict=True)
    ]
    given: dict[str, Any] = {
        "ridge": 0.0,
        "width": setup.settings.width,
        "shift": setup.settings.shift,
        "bias": lift.bias,
    }
    model: Any
    if stored["classes"] is None:
        model = thresher.ThresherRegressor(**given)
        frame = (np.array([float(stored[f"target {name}"])]) for name in ("mean", "unit"))
        model.target_scaling_, model.single_target_ = Scaling(*frame), True
        model.target_, model.floor_ = "linear", np.zeros(outputs)
    else:
        model = thresher.ThresherClassifier(**given)
        model.classes_, model.multilabel_ = np.array(stored["classes"]), False
        model.prior_, model.temperature_ = np.zeros(outputs), 1.0
    adopt(model, lift, problems[0].inputs, results)
    model.n_features_in_ = lift.n_features_in_
    check_model(model, networks=outputs)
    return model


def _of_estimator(model: Any, path: Path) -> SavedModel:
    """Return an estimator that knows the names of its columns, or only how many there are."""
    if isinstance(model, Result):
        raise InvalidInput(
            f"{path} holds a network, which predicts rows of norm 1, and no estimator. Use thresher.load in Python."
        )
    count = int(model.n_features_in_)
    names = getattr(model, "feature_names_in_", [f"column {place}" for place in range(1, count + 1)])
    task = "classification" if hasattr(model, "classes_") else "regression"
    return SavedModel(model, Encoding(tuple((str(name), None) for name in names)), "y", task, _error_of(model))


def _error_of(model: Any) -> float:
    """Return the error on rows left out of a regressor with one target, in its units; NaN where it is not known."""
    if getattr(model, "target_", "log") == "log" or not model.single_target_:
        return math.nan
    return float(model.target_scaling_.unit[0]) * math.sqrt(max(float(model.loo_error_), 0.0))
