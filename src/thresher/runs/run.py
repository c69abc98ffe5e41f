"""A run as a value, and as a file in a folder: written whole or not at all, checked when read, without pickle."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thresher.checks import check_fields, restore
from thresher.errors import InvalidInput
from thresher.files import read_file, write_file
from thresher.interfaces import Step
from thresher.output import make_folder
from thresher.runs.evaluation import Evaluation
from thresher.runs.later.comparing import Comparison, compare
from thresher.runs.later.profile import restore_profiles
from thresher.runs.pair import RUN_FILE, find_run, replace_pair
from thresher.runs.record import Histogram, Record, Test, Training
from thresher.runs.report import write_report
from thresher.runs.scores import say_scores
from thresher.training import Callback, History, Iteration, Status, train_together

__all__ = ["RUN_FILE", "Run", "read_run", "write_run"]

_VERSION = 4
_JUDGED = {"test": Test, "evaluation": Evaluation}  # fields that may be None
_APART = ("inputs", "targets", "seen", "source")  # fields that are arrays, or not written
_SAME = 1e-5  # times the first residual: what rounding may change from one machine to another
_REMEDY = "Give a folder that thresher train --save has written."


@dataclass(frozen=True)
class Run(Record):
    """What was trained on what, how well it does, and on which machine; the fields are those of a :class:`Record`.

    :func:`thresher.evaluate`, :meth:`Recorder.run` and :func:`read_run` return one. ``source`` is the model itself, or
    the folder that it is in, where that is known; it is not written.
    """

    source: Any = field(default=None, repr=False, compare=False)

    def compare(self, X: Any, y: ArrayLike | None = None) -> Comparison:
        """Return how rows X differ from those that the run knows, and what its model does there.

        Which columns moved, by how much, beyond chance; how sure the model is beside rows of its test; with targets y
        (n,) its scores beside those of the test. ``print(comparison)`` says it, ``comparison.report("page.html")``
        writes a page.

        Cost: O(n log n) per column, and one prediction.
        """
        return compare(self, X, y, source=self.source)

    def report(self, path: str | Path) -> Path:
        """Write the run as one HTML page that needs no network, as ``thresher train --report`` does; return its path.

        A page that is there is replaced. Needs Jinja2, and matplotlib for figures: ``pip install 'thresher-ml[plot]'``.

        Cost: seconds for the figures.
        """
        return write_report(self, Path(path))

    def summary(self) -> str:
        """Return how well the model does, in a sentence, beside the best constant guess; "" if it was not tested."""
        test = self.test
        if test is None:
            return ""
        scores, verdict = say_scores(self.scores, self.folds.get("standard errors")), ""
        if test.measure == "RMSE":
            scores += f" (the mean as a guess: {say_scores({'RMSE': test.guess})})"
        elif test.measure == "log loss" and test.value < test.guess:
            verdict = f" The log loss is {100 * (1 - test.value / test.guess):.2g}% below the base rate's."
        elif test.measure == "log loss" or test.value <= test.guess:
            verdict = " That is no better than a constant guess."
        count = len(next(iter(self.folds["scores"].values()))) if self.folds else 0
        how = f"Cross-validated in {count} folds, on" if count else "Test on"
        return f"{how} {test.rows:,} unseen rows: {scores}.{verdict}"

    def audit(self, *, callbacks: Sequence[Callback] = ()) -> tuple[int, list[str]]:
        """Train to zero loss once more, and compare every certificate with a full scan after every iteration.

        Returns how many pairs were compared, and where residuals are not those of this run. Raises BrokenCertificate
        if a certificate is wrong. Only a run with ``options`` can be repeated. Cost: O(mnd) per iteration.
        """
        repeated = train_together(self.problems(), **{**self.options, "audit": True, "callbacks": list(callbacks)})
        differences = []
        for training, result in zip(self.trainings, repeated, strict=True):
            first = training.history[0].residual
            for old, new in zip(training.history, result.history, strict=False):
                if abs(old.residual - new.residual) > _SAME * first:
                    differences.append(
                        f"{training.name}, iteration {old.iteration}: residual {new.residual:.6g}; "
                        f"the saved run has {old.residual:.6g}."
                    )
        return sum(result.audited for result in repeated), differences

    def save(self, folder: str | Path, model: Any) -> Path:
        """Write the run and its model, a fitted estimator, to a folder, as ``thresher train --save`` does; return it.

        :func:`thresher.load` opens it. What was there stays readable until both new files are on the disk. Raises
        InvalidInput if a file cannot be written.
        """
        folder = make_folder(Path(folder), remedy="Choose another folder.")

        def write(place: Path, checksum: str) -> None:
            write_run(replace(self, model=self.model | {"checksum": checksum}), folder, file=place)

        replace_pair(folder, model.save, write)
        return folder


class _Sizes(TypedDict):
    """What a run must know of its network."""

    width: int
    inputs: int
    shift: float
    seed: int


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
    plain = {one.name: getattr(run, one.name) for one in fields(run) if one.name not in _APART}
    plain |= {"trainings": told, "test": run.test._asdict() if run.test else None}
    plain["evaluation"] = asdict(run.evaluation) if run.evaluation else None
    plain["profiles"] = [asdict(one) for one in run.profiles]
    write_file(file or folder / RUN_FILE, tensors, _finite(plain), kind="run", version=_VERSION)
    return folder


def read_run(folder: Path) -> Run:
    """Return the run in a folder; InvalidInput if there is none, if it is damaged, or not that of the model there."""
    if not (file := find_run(folder)).exists():
        raise InvalidInput(f"{folder} holds no run. {_REMEDY}")
    tensors, plain = read_file(file, kind="run", version=_VERSION)
    try:
        trainings = [_training(one, place, tensors) for place, one in enumerate(plain.pop("trainings"))]
        judged = {name: restore(kind | None, plain.pop(name)) for name, kind in _JUDGED.items()}
        plain |= {name: _float(plain[name]) for name in ("scores", "folds")}
        profiles = restore_profiles(plain.pop("profiles", []))
        check_fields(Run, plain)
        run = Run(
            **plain,
            trainings=trainings,
            inputs=tensors["inputs"],
            targets=tensors["targets"],
            seen=tensors["seen"],
            profiles=profiles,
            source=folder,
            **judged,
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
    if not whole and (trainings or ("approximation" not in run.network and run.evaluation is None)):
        raise InvalidInput(f"{folder} holds a run without a training. {_REMEDY}")
    return run


def _training(one: dict[str, Any], place: int, arrays: Mapping[str, NDArray[Any]]) -> Training:
    histograms = {
        name: Histogram(arrays[f"{name} edges {place}"], arrays[f"{name} counts {place}"]) for name in one["histograms"]
    }
    if any(edges.ndim != 1 or counts.shape != (len(edges) - 1,) for edges, counts in histograms.values()):
        raise ValueError("its histograms are not valid")
    history = History(restore(list[Iteration], one["history"]))
    if not len(history):
        raise ValueError("its history is empty")
    rows: Any = arrays.get(f"steps {place}", ())
    keeps: Any = arrays.get(f"keeps {place}", ())
    steps = tuple(Step(row, float(keep)) for row, keep in zip(rows, keeps, strict=True))
    check_fields(Training, {**one, "history": history, "status": Status(one["status"]), "histograms": histograms})
    return Training(one["name"], history, Status(one["status"]), one["message"], one["audited"], histograms, steps)


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
