"""A run as a value, and as a file in a folder: written whole or not at all, checked when read, without pickle."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from thresher.checks import check_fields
from thresher.errors import InvalidInput
from thresher.files import read_file, write_file
from thresher.interfaces import Step
from thresher.model.problem import Problem
from thresher.output import make_folder
from thresher.runs.evaluation import Evaluation, evaluation_of
from thresher.runs.pair import RUN_FILE, find_run
from thresher.runs.scores import GUESS
from thresher.theory import Statement
from thresher.training import History, Iteration, Status

__all__ = ["RUN_FILE", "Histogram", "Run", "Test", "Training", "read_run", "write_run"]

_VERSION = 4
_PACKAGES = ("thresher", "numpy", "scipy", "numba", "scikit-learn")
_REMEDY = "Give a folder that thresher train --save has written."


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


class _Sizes(TypedDict):
    """What a run must know of its network."""

    width: int
    inputs: int
    shift: float
    seed: int


@dataclass(frozen=True)
class Run:
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


def write_run(run: Run, folder: Path, *, file: Path | None = None) -> Path:
    """Write a run to a folder, which is made if there is none; a run that was there is replaced.

    ``file`` is another place to write it to.
    """
    make_folder(folder, remedy="Choose another folder.")
    tensors: dict[str, NDArray[Any]] = {"inputs": run.inputs, "targets": run.targets, "seen": run.seen}
    told = []
    for place, one in enumerate(run.trainings):
        for name, (edges, counts) in one.histograms.items():
            tensors |= {f"{name} edges {place}": edges, f"{name} counts {place}": counts}
        if one.steps:
            tensors[f"steps {place}"] = np.array([step.v for step in one.steps])
            tensors[f"keeps {place}"] = np.array([step.keep for step in one.steps])
        told.append(
            {
                "name": one.name, "status": one.status.value, "message": one.message, "audited": one.audited,
                "histograms": list(one.histograms), "history": [asdict(record) for record in one.history],
            }
        )  # fmt: skip
    plain = {one.name: getattr(run, one.name) for one in fields(run) if one.name not in ("inputs", "targets", "seen")}
    plain |= {"trainings": told, "test": run.test._asdict() if run.test else None}
    plain["evaluation"] = asdict(run.evaluation) if run.evaluation else None
    write_file(file or folder / RUN_FILE, tensors, _finite(plain), kind="run", version=_VERSION)
    return folder


def read_run(folder: Path) -> Run:
    """Return the run in a folder; InvalidInput if there is none, if it is damaged, or not that of the model there."""
    if not (file := find_run(folder)).exists():
        raise InvalidInput(f"{folder} holds no run. {_REMEDY}")
    tensors, plain = read_file(file, kind="run", version=_VERSION)
    try:
        trainings = [_training(one, place, tensors) for place, one in enumerate(plain.pop("trainings"))]
        test, evaluated = plain.pop("test"), plain.pop("evaluation")
        test = test and {key: _float(value) for key, value in test.items()}
        check_fields(Test, test or {})
        plain |= {name: _float(plain[name]) for name in ("scores", "folds")}
        check_fields(Run, plain)
        run = Run(
            **plain,
            trainings=trainings,
            inputs=tensors["inputs"],
            targets=tensors["targets"],
            seen=tensors["seen"],
            test=Test(**test) if test else None,
            evaluation=None if evaluated is None else evaluation_of(evaluated),
        )
        check_fields(_Sizes, run.network)
        whole = trainings and set(_Sizes.__annotations__) <= set(run.network)
        if (
            run.inputs.ndim != 2
            or run.targets.ndim != 2
            or run.seen.dtype != np.uint64
            or (whole and not run.pairs > 0)
        ):
            raise ValueError("its sizes are not valid")
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        raise InvalidInput(f"{folder} holds a run that cannot be understood: {str(error)[:200]}. {_REMEDY}") from None
    if not whole and (trainings or "approximation" not in run.network):
        raise InvalidInput(f"{folder} holds a run without a training. {_REMEDY}")
    return run


def _training(one: dict[str, Any], place: int, arrays: Mapping[str, NDArray[Any]]) -> Training:
    histograms = {
        name: Histogram(arrays[f"{name} edges {place}"], arrays[f"{name} counts {place}"]) for name in one["histograms"]
    }
    if any(edges.ndim != 1 or counts.shape != (len(edges) - 1,) for edges, counts in histograms.values()):
        raise ValueError("its histograms are not valid")
    history = History([_iteration(record) for record in one["history"]])
    if not len(history):
        raise ValueError("its history is empty")
    rows: Any = arrays.get(f"steps {place}", ())
    keeps: Any = arrays.get(f"keeps {place}", ())
    steps = tuple(Step(row, float(keep)) for row, keep in zip(rows, keeps, strict=True))
    check_fields(Training, {**one, "history": history, "status": Status(one["status"]), "histograms": histograms})
    return Training(one["name"], history, Status(one["status"]), one["message"], one["audited"], histograms, steps)


def _iteration(record: dict[str, Any]) -> Iteration:
    statements = tuple(_statement({key: _float(value) for key, value in one.items()}) for one in record["statements"])
    plain = {key: _float(value) for key, value in record.items() if key != "statements"}
    check_fields(Iteration, plain)
    return Iteration(**plain, statements=statements)


def _statement(one: dict[str, Any]) -> Statement:
    check_fields(Statement, one)
    return Statement(**one)


def _float(value: Any) -> Any:
    """Return the number that JSON has no way to write, also inside others, or the value as it is."""
    if isinstance(value, dict):
        return {key: _float(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_float(one) for one in value]
    return float(value) if value in ("nan", "inf", "-inf") else value


def _finite(value: Any) -> Any:
    """Return the value with words for numbers that JSON does not know, and plain numbers for NumPy's."""
    if isinstance(value, Mapping):
        return {str(key): _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, str | int | float | None) else repr(value)


def _environment() -> dict[str, str]:
    found = {"Python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {**found, "machine": f"{platform.system()} {platform.machine()}, {cores} cores"}
