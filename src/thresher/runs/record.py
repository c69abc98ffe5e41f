"""What a run holds: how its trainings went, how well its model does, and on which machine; all that a page tells of."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.interfaces import Step
from thresher.model.problem import Problem
from thresher.runs.evaluation import Evaluation
from thresher.runs.later.profile import ColumnProfile
from thresher.runs.scores import GUESS
from thresher.training import History, Status

__all__ = [
    "CATEGORIES",
    "LEFT_OUT",
    "LOSS",
    "OF_TEST",
    "PARTS",
    "WHY",
    "Histogram",
    "Record",
    "Test",
    "Training",
]

WHY = "why this width"  # in ``network``
LOSS = "why this loss"  # in ``network``
PARTS = "what neurons see"  # in ``network``
CATEGORIES = "whole numbers taken as categories"  # in ``network``
LEFT_OUT = "error on rows left out, as a share of a constant guess's"  # in ``network``
OF_TEST = "constant guess from rows of the test"  # in ``data``
_PACKAGES = {"thresher": "thresher-ml"} | {name: name for name in ("numpy", "scipy", "numba", "scikit-learn")}  # to pip


class Histogram(NamedTuple):
    """Counts (k,) of values between edges (k + 1,)."""

    edges: NDArray[np.float64]
    counts: NDArray[np.int64]


class Test(NamedTuple):
    """How well a trained network does on rows it has never seen: ``measure`` is "log loss", "accuracy" or "RMSE"."""

    measure: str
    value: float
    rows: int
    guess: float  # what the best constant answer would get: shares of classes, the commonest class, or the mean

    @classmethod
    def of(cls, scores: Mapping[str, Any], rows: int) -> Test:
        """Return the score of ``score_all`` that a model is judged by: RMSE, or log loss; both are lower if better.

        Classes without probabilities are judged by their accuracy.
        """
        measure = next((name for name in ("RMSE", "log loss") if scores.get(name, math.nan) >= 0), "accuracy")
        return cls(measure, scores[measure], rows, scores[f"{measure}{GUESS}"])


@dataclass(frozen=True)
class Training:
    """The training of one output."""

    name: str
    history: History
    status: Status
    message: str
    audited: int = 0
    histograms: dict[str, Histogram] = field(default_factory=dict)  # "distance" from the start; "band": drift over band
    steps: tuple[Step, ...] = ()  # that were taken: they make the network again


@dataclass(frozen=True)
class Record:
    """What was trained on what, how it went, and on which machine.

    ``options`` are those of :func:`thresher.train`, defaults left out, and ``inputs`` (n, d) and ``targets``
    (outputs, n) those trained on, so that a run can be repeated; all three are empty for an estimator, which has a file
    of its own. ``data`` says in words where the numbers came from.
    """

    what: str  # one sentence
    trainings: list[Training]
    options: dict[str, Any]
    inputs: NDArray[np.float64]
    targets: NDArray[np.float64]
    network: dict[str, Any]  # width, shift, seed, ... and the number of inputs; of the limit, its approximation
    model: dict[str, Any] = field(default_factory=dict)  # how raw rows become inputs, and outputs answers
    test: Test | None = None
    scores: dict[str, Any] = field(default_factory=dict)  # all of them, of the same rows
    folds: dict[str, Any] = field(default_factory=dict)  # of a cross-validation: scores of each, standard errors
    seconds: dict[str, float] = field(default_factory=dict)  # reading, fitting, testing, ...
    seen: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))  # hashes of rows trained on (n,)
    evaluation: Evaluation | None = None  # of the model on the rows of the test; None if there were none
    data: dict[str, Any] = field(default_factory=dict)
    profiles: list[ColumnProfile] = field(default_factory=list)  # of the columns, of rows that are as those to come
    command: str = ""  # that made it
    when: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    environment: dict[str, str] = field(default_factory=lambda: _environment())

    def problems(self) -> list[Problem]:
        """Return the problem of each output."""
        return [Problem(self.inputs, targets) for targets in self.targets]

    @property
    def pairs(self) -> int:
        """Number of pairs of a neuron and an input: the looks of a dense pass."""
        return int(self.network["width"]) * int(self.network["inputs"])


def _environment() -> dict[str, str]:
    found = {"Python": platform.python_version()}
    for name, package in _PACKAGES.items():
        try:
            found[name] = version(package)
        except PackageNotFoundError:
            continue
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {**found, "machine": f"{platform.system()} {platform.machine()}, {cores} cores"}
