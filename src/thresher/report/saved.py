"""A run: a folder with a model and how it was made; and a model as it comes back from there, or from a file.

``model.thresher`` is the model, ``run.json`` all that a page tells of it: an evaluation, and the checksum of the model
that it belongs to.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.checks import name_some
from thresher.errors import InvalidInput
from thresher.files import header_of
from thresher.output import make_folder, to_json, writing
from thresher.report.evaluation import Evaluation
from thresher.tables.cells import find_decimal
from thresher.tables.dates import ORDERS, find_date_order, read_dates
from thresher.tables.frame import Frame, Reading, places_as_names, say_label
from thresher.tables.table import read_blocks
from thresher.tables.targets import read_targets
from thresher.tables.text_files import ITSELF, Like
from thresher.training import Result

__all__ = ["MODEL_FILE", "RUN_FILE", "NewRows", "SavedModel", "load", "load_model", "read_run", "save_run", "seal_run"]

MODEL_FILE, RUN_FILE = "model.thresher", "run.json"
_VERSION = 1  # of the layout of a run
_REMEDY = "Give a folder that thresher train --save has written."

BLOCK = 1 << 16  # rows of a Parquet file that are read at a time
_SIGNS = {".": "point", ",": "comma"}


class NewRows(NamedTuple):
    """Rows of a file as a model takes them, and their targets (k,), if the file has them."""

    X: Frame
    targets: NDArray[Any] | None
    notes: list[str]  # on how the file was read
    others: list[str]  # columns of the file that the model does not know


class SavedModel(NamedTuple):
    """An estimator, the name of its target, its task, and how far it is off."""

    model: Any
    target: str
    task: str
    error: float  # about how far a prediction is off, in units of the target; NaN if that is not known

    @classmethod
    def of(cls, model: Any) -> SavedModel:
        """Return a fitted estimator as if it came from a file."""
        from sklearn.base import is_classifier
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(model)
        task = "classification" if is_classifier(model) else "regression"
        return cls(model, "y", task, _error_of(model))

    def errors(self, predicted: NDArray[Any]) -> NDArray[np.float64]:
        """Return about how far predictions (k, outputs) are off, each; NaN where that is not known.

        Where logarithms were learnt, that is a share of the distance from their floor, at most half of it.
        """
        model, law = self.model, getattr(self.model, "predictive_", None)
        if law is None or law.floor is None or not model.single_target_:
            return np.full(predicted.shape, self.error)
        share = min(float(law.unit[0]) * math.sqrt(max(float(model.loo_error_), 0.0)), 0.5)
        return share * np.abs(predicted - law.floor)

    @property
    def classes(self) -> NDArray[Any] | None:
        """The labels of a classifier; None of a regressor, and of a classifier whose rows have several labels."""
        return None if self.task == "regression" or self.model.multilabel_ else self.model.classes_

    @property
    def names(self) -> list[str]:
        """The names of the columns that the model wants."""
        model = self.model
        return list(getattr(model, "feature_names_in_", places_as_names(int(model.n_features_in_))))

    @property
    def like(self) -> Like | None:
        """The file of text that the model was trained on, as which new ones are read; None if that is not known."""
        encoder = self.model.encoder_
        return None if encoder is None or encoder.reading_ is None else Like(encoder.reading_, self.names)

    def read(self, file: Path, *, how: Reading = ITSELF, size: int = BLOCK) -> Iterator[NewRows]:
        """Yield the rows of a file as the model takes them, a Parquet file ``size`` rows at a time.

        A file that is plainly written in another way than that of the training rows is refused, where ``how`` leaves
        that open. Cost: O(nd); memory for one block.
        """
        for frame in read_blocks(file, how=how, like=self.like, size=size):
            X = self.frame(frame)
            if how.decimal is None:
                self._check_decimals(X, source=str(file))
            if self.model.encoder_ is not None:
                self._check_dates(X, source=str(file))
            yield NewRows(X, self._targets(frame), frame.notes, self._others(frame))

    def _targets(self, frame: Frame) -> NDArray[Any] | None:
        """Return the targets in a file (k,), as the model knows them; None if there are none that can be compared."""
        if self.target not in frame:
            return None
        try:
            found = read_targets(frame, self.target, missing=True)
        except InvalidInput:
            found = frame[self.target].as_text().astype(np.str_)
        if self.classes is not None and self.classes.dtype.kind in "UO" and found.dtype.kind == "f":
            return np.array(["" if np.isnan(one) else say_label(one) for one in found.tolist()])
        return found

    def frame(self, frame: Frame) -> Frame:
        """Return the columns of a file that the model was trained on, by name; those of a file without names by place.

        The target may be there too, in a file without names as the last column.
        """
        names = self.names
        count = len(names)
        if self._goes_by_place(frame):
            if frame.shape[1] not in (count, count + 1):
                raise InvalidInput(f"the table has {frame.shape[1]} columns without names; the model wants {count}.")
            if any(name not in frame for name in names):
                frame = frame.renamed([*names, self.target][: frame.shape[1]])
        if missing := [name for name in names if name not in frame]:
            raise InvalidInput(
                f"the table lacks columns that the model was trained on: {name_some(missing)}; "
                f"it has {name_some(frame.columns)}. Add them, or train without them."
            )
        return frame.only(names)

    def _others(self, frame: Frame) -> list[str]:
        """Return the columns of a file that are neither the target nor among those the model was trained on."""
        names = self.names
        by_place = self._goes_by_place(frame)
        return [] if by_place else [one for one in frame.columns if one not in {*names, self.target}]

    def _check_decimals(self, frame: Frame, *, source: str) -> None:
        """Refuse a file of text whose columns of numbers have the other decimal sign than that of the training rows."""
        if self.like is None or (expected := self.like.reading.decimal) is None:
            return
        kinds = self.model.encoder_.kinds_
        signs = {one.name: find_decimal(one.values) for one in frame
                 if one.is_text and kinds[one.name].kind == "number"}  # fmt: skip
        others = [name for name, sign in signs.items() if sign not in (None, expected)]
        if len(others) <= list(signs.values()).count(expected):
            return
        found = signs[others[0]]
        cell = next(one for one in frame[others[0]].values if find_decimal(np.array([one], object)) == found)
        raise InvalidInput(
            f"{source}: column {others[0][:40]!r} has {cell[:20]!r}, with a decimal {_SIGNS[str(found)]}; expected "
            f"decimal {_SIGNS[expected]}s, as in the file that the model was trained on. Add --decimal {found} to read "
            f"it so, or --decimal {expected}."
        )

    def _check_dates(self, frame: Frame, *, source: str) -> None:
        """Refuse dates as text whose days, months and years plainly follow each other as in no training row."""
        for one, kind in zip(frame, map(self.model.encoder_.kinds_.__getitem__, frame.columns), strict=True):
            order = find_date_order(one.values) if kind.kind == "date" and one.is_text else None
            if order is None or order == kind.order:
                continue
            (expected, found) = (read_dates(one.values, order=way).strange for way in (kind.order, order))
            if len(places := np.flatnonzero(expected & ~found)):
                raise InvalidInput(
                    f"{source}: column {one.name[:40]!r} has {one.values[places[0]][:20]!r}, with {ORDERS[order]}; "
                    f"expected {ORDERS[kind.order]}, as in training rows. Write dates as 2024-12-31."
                )

    def _goes_by_place(self, frame: Frame) -> bool:
        """Whether a file has no names of columns, and the names of the model do not say otherwise."""
        if frame.has_names:
            return False
        names = self.names
        known = set(places_as_names(len(names) + 1))  # of a table without names and its target, wherever that stood
        return names == places_as_names(len(names)) or {*names, self.target} == known or not known & set(names)


def save_run(folder: Path, model: Any, found: Evaluation) -> Path:
    """Write a model and how it was made to a folder, which is made if there is none; return it.

    Both are written under other names before the first takes its place: what was there is readable until then. Raises
    InvalidInput if a file cannot be written. Cost: O(bytes).
    """
    remedy = "Choose another folder with --save."
    make_folder(folder, remedy=remedy)
    for name in (RUN_FILE, MODEL_FILE):
        for left in folder.glob(f"{name}.*.unfinished"):  # by a kill
            left.unlink(missing_ok=True)
    with writing(folder / RUN_FILE, remedy=remedy) as told, writing(folder / MODEL_FILE, remedy=remedy) as file:
        model.save(file)
        told.write_text(seal_run(header_of(file)["checksum"], found.to_json()), encoding="utf-8")
    return folder


def seal_run(model: str, evaluation: dict[str, Any]) -> str:
    """Return the text of ``run.json``: an evaluation, the checksum of the model that it is of, and that of itself."""
    about = {"version": _VERSION, "model": model, "evaluation": evaluation}
    return to_json(about | {"checksum": _checksum(about)}, indent=1) + "\n"


def _checksum(about: dict[str, Any]) -> str:
    return hashlib.sha256(to_json(about).encode()).hexdigest()


def read_run(folder: Path) -> Evaluation:
    """Return how the model in a folder was made; InvalidInput if there is no run, or if it is not of the model there.

    Cost: O(bytes) of ``run.json``.
    """
    try:
        told = json.loads((folder / RUN_FILE).read_bytes())
    except OSError:
        alone = f" Its model can be used alone: {folder / MODEL_FILE}." if (folder / MODEL_FILE).is_file() else ""
        raise InvalidInput(f"{folder} holds no run. {_REMEDY}{alone}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{folder / RUN_FILE} is damaged: {str(error)[:200]}. {_REMEDY}") from None
    try:
        if told["version"] != _VERSION:
            raise ValueError(f"it has version {str(told['version'])[:20]}, and this is {_VERSION}")
        if told.pop("checksum") != _checksum(told):
            raise ValueError("its checksum does not fit")
        found = Evaluation.from_json(told["evaluation"])
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        why = f"it lacks {error}" if isinstance(error, KeyError) else str(error)[:200]
        raise InvalidInput(f"{folder / RUN_FILE} cannot be understood: {why}. {_REMEDY}") from None
    model = header_of(folder / MODEL_FILE).get("checksum")
    if model is not None and model != told.get("model"):
        raise InvalidInput(
            f"{folder}: {RUN_FILE} is of another model than {MODEL_FILE}; one of them was replaced. Train again with "
            f"--force, or use {folder / MODEL_FILE} alone."
        )
    return found


def load(path: str | Path, *, threads: int | None = None) -> Any:
    """Return the estimator, or the :class:`Result`, that ``save`` or ``thresher train --save`` wrote.

    ``path`` is a file, or the folder of a run. An estimator predicts tables with the columns that it was trained on,
    categories, dates and missing values among them. Nothing in a file is executed.

    Cost: O(bytes); for a recipe also the passes of training, O(mnd) per step and output.
    """
    path = Path(path)
    return load_model(path, threads=threads).model if path.is_dir() else _load_file(path, threads)


def load_model(path: Path, *, threads: int | None = None) -> SavedModel:
    """Return the model in a run's folder, or in a file that an estimator's ``save`` has written; to the bit.

    Cost: that of :func:`load`.
    """
    if path.is_file():
        model = _load_file(path, threads)
        if isinstance(model, Result):
            raise InvalidInput(
                f"{path} holds a network, which predicts rows of norm 1, and no estimator. Use thresher.load in Python."
            )
        return SavedModel.of(model)
    run = read_run(path)
    model = _load_file(path / MODEL_FILE, threads)
    error = run.test.value if run.test is not None and run.task == "regression" else _error_of(model)
    return SavedModel(model, run.target, run.task, error)


def _error_of(model: Any) -> float:
    """Return the error on rows left out of a regressor with one target, in its units; NaN where it is not known."""
    law = getattr(model, "predictive_", None)  # networks that meet every row leave none out
    if law is None or law.floor is not None or not model.single_target_:
        return math.nan
    return float(law.unit[0]) * math.sqrt(max(float(model.loo_error_), 0.0))


def _load_file(path: Path, threads: int | None) -> Any:
    from thresher.estimators import (
        NetworkClassifier,
        NetworkRegressor,
        ThresherClassifier,
        ThresherRegressor,
        load_model,
    )

    kinds = ThresherClassifier, ThresherRegressor, NetworkClassifier, NetworkRegressor
    return load_model(path, kinds, threads=threads)
