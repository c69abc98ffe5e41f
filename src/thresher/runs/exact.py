"""Exact training on raw rows: lift to the sphere, train without a penalty until the targets are met, and predict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.checks import check_number
from thresher.errors import InvalidInput
from thresher.estimators import Scaling, SphereLift
from thresher.model.network import Network
from thresher.model.problem import Problem
from thresher.runs.run import Run, Test
from thresher.training import Result, replay_together, train_together

__all__ = ["BIAS", "ExactModel", "Meaning", "baseline", "fit_exact", "load_exact", "say_label", "score"]

BIAS = 0.5  # of the lift, as a multiple of the typical norm of a row: keeps lengths apart, inputs still well spread
Matrix = NDArray[np.float64]


class Meaning(NamedTuple):
    """What outputs mean: scores of classes, or a standardised target."""

    classes: NDArray[Any] | None  # None for regression
    mean: float = 0.0
    unit: float = 1.0

    @classmethod
    def of(cls, y: NDArray[Any], *, task: str) -> Meaning:
        """Return the meaning of targets (n,)."""
        if task == "classification":
            classes = np.unique(y)
            if len(classes) < 2:
                raise InvalidInput(f"the target has one class only, {say_label(classes[0])}; expected two or more.")
            return cls(classes)
        return cls(None, float(y.mean()), float(y.std()) or 1.0)

    def targets(self, y: NDArray[Any]) -> list[Matrix]:
        """Return the targets of each output (n,): one for two classes, else one a class."""
        if self.classes is None:
            return [(y - self.mean) / self.unit]
        chosen = self.classes[1:] if len(self.classes) == 2 else self.classes
        return [np.where(y == one, 1.0, -1.0) for one in chosen]

    def answers(self, outputs: Matrix) -> NDArray[Any]:
        """Return predictions (k,) from outputs (k, networks)."""
        if self.classes is None:
            return outputs[:, 0] * self.unit + self.mean
        if len(self.classes) == 2:
            return self.classes[(outputs[:, 0] > 0).astype(int)]
        return self.classes[outputs.argmax(axis=1)]

    def names(self) -> list[str]:
        """Return what the outputs are called."""
        if self.classes is None:
            return ["output"]
        chosen = self.classes[1:] if len(self.classes) == 2 else self.classes
        return [say_label(one) for one in chosen]


class ExactModel(NamedTuple):
    """A lift, networks, and what their outputs mean."""

    lift: SphereLift
    networks: list[Network]
    meaning: Meaning

    def predict(self, X: Matrix) -> NDArray[Any]:
        """Return predictions (k,) for raw rows (k, d). Cost: O(md) a row and network."""
        inputs = self.lift.transform(X)
        return self.meaning.answers(np.column_stack([network.predict(inputs) for network in self.networks]))

    def to_json(self) -> dict[str, Any]:
        """Return all but the networks, which a run makes again."""
        scaling, meaning = self.lift.scaling_, self.meaning
        return {
            "bias": self.lift.bias,
            "last": self.lift.last_,
            "column means": scaling.mean.tolist(),
            "column units": scaling.unit.tolist(),
            "classes": None if meaning.classes is None else meaning.classes.tolist(),
            "target mean": meaning.mean,
            "target unit": meaning.unit,
        }


def fit_exact(
    X: Matrix, y: NDArray[Any], *, task: str, bias: float = BIAS, options: Mapping[str, Any]
) -> tuple[ExactModel, list[Result]]:
    """Train on raw rows X (n, d) and targets y (n,) with the options of :func:`thresher.train`.

    Cost: that of :func:`thresher.train_together`, one network for two classes or a regression, else one a class.
    """
    meaning = Meaning.of(y, task=task)
    lift = SphereLift(bias=bias).fit(X)
    inputs = lift.transform(X)
    problems = [Problem(inputs, targets) for targets in meaning.targets(y)]
    results = train_together(problems, **options)
    return ExactModel(lift, [result.network for result in results], meaning), results


def load_exact(run: Run, stored: Mapping[str, Any]) -> ExactModel:
    """Return the model of a run, from what ``to_json`` gave; its networks are made again from the steps, to the bit."""
    mean, unit = (np.array(stored[f"column {name}"], dtype=np.float64) for name in ("means", "units"))
    lift = SphereLift(bias=check_number(stored["bias"], "bias", least=0.0))
    lift.scaling_, lift.last_, lift.n_features_in_ = Scaling(mean, unit), float(stored["last"]), len(mean)
    classes = None if stored["classes"] is None else np.array(stored["classes"])
    meaning = Meaning(classes, float(stored["target mean"]), float(stored["target unit"]))
    columns, outputs = run.inputs.shape[1] - bool(lift.bias), len(run.targets)
    labels = 0 if classes is None else 2 if outputs == 1 else outputs
    if mean.shape != (columns,) or unit.shape != (columns,) or (classes is not None and classes.shape != (labels,)):
        raise ValueError("its columns or classes are not those of its inputs and targets")
    numbers: list[Any] = [mean, unit, lift.last_, meaning.mean, meaning.unit]
    if not all(np.isfinite(one).all() for one in numbers) or (unit <= 0).any() or (lift.bias > 0) != (lift.last_ > 0):
        raise ValueError("its scaling is none")
    networks = replay_together(run.problems(), steps=[one.steps for one in run.trainings], **run.options)
    return ExactModel(lift, networks, meaning)


def score(predicted: NDArray[Any], y: NDArray[Any], *, task: str, guess: float) -> Test:
    """Return how well predictions (k,) do: accuracy, or root mean squared error in the target's own units."""
    if task == "classification":
        return Test("accuracy", float(np.mean(predicted == y)), len(y), guess)
    return Test("RMSE", float(np.sqrt(np.mean((predicted - y) ** 2))), len(y), guess)


def baseline(known: NDArray[Any], y: NDArray[Any], *, task: str) -> float:
    """Return what the best constant answer by the rows trained on would get on targets y (k,)."""
    if task == "classification":
        values, counts = np.unique(known, return_counts=True)
        return float(np.mean(y == values[counts.argmax()]))
    return float(np.sqrt(np.mean((y - known.mean()) ** 2)))


def say_label(label: Any) -> str:
    """Return a class as people write it: 3 rather than 3.0."""
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)
