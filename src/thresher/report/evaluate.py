"""Evaluate: how well a fitted model does on rows that it was not fitted to, and why."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thresher.checks import check_number
from thresher.errors import InvalidInput
from thresher.interfaces import Progress
from thresher.report.answers import ask
from thresher.report.details import MOST_ROWS, Details, find_details
from thresher.report.evaluation import CATEGORIES, LEFT_OUT, OF_TEST, PARTS, Choice, Evaluation, Training
from thresher.report.linear import score_linear
from thresher.report.scores import average_folds, score_all
from thresher.tables import INPUT, Frame, read_targets, say_label
from thresher.tables.frame import column_of, in_memory
from thresher.tables.rows_on_disk import Part, on_disk

__all__ = ["Tested", "evaluate", "evaluation_of", "output_names", "test_model"]


class Tested(NamedTuple):
    """How well models do on rows that they were not fitted to; of a cross-validation, the means over its folds."""

    rows: int
    scores: dict[str, Any]
    folds: dict[str, Any]  # of a cross-validation: scores of each fold, and the standard errors of their means
    details: Details | None  # row by row, for the report; of a cross-validation, of its last fold

    @classmethod
    def averaged(cls, folds: Sequence[Tested]) -> Tested:
        """Return the means over the folds of a cross-validation, with their standard errors."""
        means, told = average_folds([one.scores for one in folds])
        return cls(sum(one.rows for one in folds), means, told, folds[-1].details)


def evaluate(
    model: Any,
    X: Any,
    y: ArrayLike,
    *,
    X_train: Any = None,
    y_train: ArrayLike | None = None,
    target: str = "y",
    seconds: float = 5.0,
) -> Evaluation:
    """Return how well a fitted model does on rows that it was not fitted to, and why.

    ``scores`` has all scores, ``test`` the one to judge by beside that of a constant guess, ``details`` what a report
    shows of single rows and columns, and ``report("page.html")`` writes it: the page of ``thresher train --report``.

    Parameters
    ----------
    model : a fitted or loaded :class:`ThresherRegressor` or :class:`ThresherClassifier`, or any other estimator of
        scikit-learn with one target
    X : rows (n, d) as the model takes them: an array, a frame of pandas or polars, a table of pyarrow, a relation of
        DuckDB, a :class:`thresher.tables.Frame`, or rows on disk such as :class:`thresher.tables.ParquetRows`
    y : targets (n,): numbers, or labels
    X_train : the rows (m, d) that the model was fitted to, with ``y_train``: the report compares the model with a
        linear one that is fitted to them. A model does not keep them
    y_train : targets (m,) of the rows that the model was fitted to. Their mean, or the shares of their classes, is the
        constant guess that the model is compared with; without them it is that of ``y``, the best there is for these
        rows
    target : what the target is called; a unit at the end in brackets, ``"price [EUR]"``, goes with every number
    seconds : about how long it may take to find which columns matter

    Cost: one prediction of n rows, a second one of at most 10,000, then about ``seconds``.
    """
    began = time.perf_counter()
    task = _task_of(model)
    check_number(seconds, "seconds", least=0.0)
    if not isinstance(target, str):
        raise InvalidInput(f"target must be what the target is called; got {target!r}.")
    X, X_train, y, y_train = map(in_memory, (X, X_train, y, y_train))
    count = _count_rows(X)
    wanted = _targets(y, "y", model, task)
    known = wanted if y_train is None else _targets(y_train, "y_train", model, task)
    fitted = None if X_train is None else (X_train, known)
    if X_train is not None and (y_train is None or _count_rows(X_train) != len(known)):
        raise InvalidInput("X_train comes with y_train, a target for each of its rows.")
    if len(wanted) != count or not count:
        raise InvalidInput(f"X has {count:,} rows and y {len(wanted):,}; give at least one row, and a target for each.")
    tested = test_model(model, X, wanted, task=task, known=known, target=target, fitted=fitted, seconds=seconds)
    return evaluation_of(
        model,
        tested,
        task=task,
        target=target,
        columns=tested.details.columns if tested.details is not None else [],
        rows=None if y_train is None else len(known),
        seconds={"testing": time.perf_counter() - began},
    )


def test_model(
    model: Any,
    X: Any,
    y: NDArray[Any],
    *,
    task: str,
    known: NDArray[Any],
    target: str,
    numbers: NDArray[np.int64] | None = None,
    by_row: bool = True,
    fitted: tuple[Any, NDArray[Any]] | None = None,
    seconds: float = 5.0,
    progress: Progress | None = None,
) -> Tested:
    """Return how well a model does on rows X with targets y (k,), and what a report shows of it, if asked ``by_row``.

    ``fitted`` are the rows and targets that it was fitted to: a linear model of them is compared with it. The other
    parameters are those of :func:`find_details`. Cost: one prediction, then that of this function.
    """
    answers, classes = ask(model, X, task=task), getattr(model, "classes_", None)
    several = getattr(model, "multilabel_", False) or (answers.chances is not None and answers.chances.ndim != 2)
    if several or answers.predicted.ndim != 1:
        raise InvalidInput("the model has several outputs; a report shows one. Fit and evaluate a model of each.")
    scores = score_all(answers.predicted, y, task=task, known=known, chances=answers.chances, classes=classes)
    told = None
    if by_row:
        linear = None if fitted is None else score_linear(model, fitted, X, y, task=task)
        numbers = np.arange(1, len(y) + 1) if numbers is None else numbers
        some: Any = slice(None)
        if on_disk(X) and not isinstance(X, np.ndarray):  # as many as are looked at are read
            some = np.sort(np.random.default_rng(0).permutation(len(y))[:MOST_ROWS])
            X = Part(X).take(some)
        more: dict[str, Any] = {"target": target, "numbers": numbers[some], "seconds": seconds, "progress": progress}
        more |= {"linear": linear}
        told = find_details(model, X, y[some], task=task, known=known, **more)
    return Tested(len(y), scores, {}, told)


def evaluation_of(
    model: Any,
    tested: Tested | None,
    *,
    task: str,
    target: str,
    columns: list[str],
    rows: int | None = None,
    file: Path | None = None,
    refit: bool = False,
    seconds: Mapping[str, float] | None = None,
    command: str = "",
) -> Evaluation:
    """Return the evaluation of a fitted model.

    Parameters
    ----------
    tested : how well it does, or did before it was fitted again to all rows, if ``refit``; None if that is not known
    columns : their names
    rows : how many it was fitted to, if that is known
    file : that they came from, if they did
    seconds : that the parts of the work took
    command : that was typed
    """
    data: dict[str, Any] = {} if file is None else {"file": str(file)}
    data["target"] = target
    data |= {} if rows is None else {"rows trained on": rows}
    if tested is not None:
        data |= {"rows tested on": tested.rows, "tested": _how_tested(tested, refit=refit)}
        data |= {} if rows is not None else {OF_TEST: "yes"}
    ours, trained = _is_ours(model)
    results = model.results_ if trained else []
    names = output_names(getattr(model, "classes_", None))
    source = "" if file is None else f" of {'standard input' if file == INPUT else file.name}"
    wide = f"{len(columns)} column{'s' if len(columns) != 1 else ''}"
    to_rows = f"rows of {wide}" if rows is None else f"{rows:,} rows{source} ({wide})"
    fitted = "The limit of infinite width was fitted to" if ours else f"{type(model).__name__} was fitted to"
    fitted = f"{results[0].network.settings.width:,} neurons were trained on" if results else fitted
    how = ", to zero loss" if trained else f", with a ridge of {model.ridge_:.2g}" if ours else ""
    return Evaluation(
        f"{fitted} {to_rows} to predict {target!r}{how} ({task}).",
        task,
        target,
        columns,
        **({} if tested is None else tested._asdict()),
        network=_limit(model) if ours else _network(model) if trained else {},
        choices=[Choice(one.name, one.tried, one.taken, one.measure) for one in model.choices_] if ours else [],
        trainings=[Training.of(name, one) for name, one in zip(names, results, strict=bool(results))],
        exact=trained,
        data=data,
        seconds=dict(seconds or {}),
        command=command,
    )


def output_names(classes: NDArray[Any] | None) -> list[str]:
    """Return what the outputs of a model are called: of numbers one, of two classes the second, or all classes."""
    if classes is None:
        return ["output"]
    return [say_label(one) for one in (classes[1:] if len(classes) == 2 else classes).tolist()]


def _is_ours(model: Any) -> tuple[bool, bool]:
    """Return whether an estimator fits the limit of infinite width, and whether it trains networks."""
    from thresher.estimators import NetworkClassifier, NetworkRegressor, ThresherClassifier, ThresherRegressor

    limit = isinstance(model, ThresherRegressor | ThresherClassifier)
    return limit, isinstance(model, NetworkClassifier | NetworkRegressor)


def _limit(model: Any) -> dict[str, Any]:
    """Return what a fit of the limit is."""
    seed = {"seed": model.random_state} if isinstance(model.random_state, int) else {}
    return seed | {
        "loss": getattr(model, "loss_", model.loss),
        "inputs": len(model.model_.inputs), "ridge": model.ridge_, "bias": model.bias_, PARTS: model.parts_.words,
        CATEGORIES: "; ".join(f"{name}: {what}" for name, what in model.categories_.items()) or "none",
        LEFT_OUT: model.loo_share_,
    }  # fmt: skip


def _network(model: Any) -> dict[str, Any]:
    """Return what trained networks are."""
    settings, start = model.results_[0].network.settings, model.results_[0].network.settings.start
    seed = model.random_state if isinstance(model.random_state, int) else start.seed
    return {
        "width": settings.width, "shift": settings.shift, "seed": seed, "seed of the start weights": start.seed,
        "twins": start.twins, "dimension": start.dimension, "inputs": len(model.results_[0].origin.inputs),
        "bias": model.lift_.bias, "scale": model.lift_.scale,
    }  # fmt: skip


def _how_tested(tested: Tested, *, refit: bool) -> str:
    if tested.folds:
        return "by cross-validation, with models fitted to the other folds"
    return "before the fit to all rows" if refit else "with this model"


def _task_of(model: Any) -> str:
    from sklearn.base import is_classifier, is_regressor
    from sklearn.utils.validation import check_is_fitted

    kinds = {"classification": is_classifier, "regression": is_regressor}
    given = f"the class {model.__name__}" if isinstance(model, type) else f"a {type(model).__name__}"
    predicts = hasattr(model, "predict") and not isinstance(model, type)
    found = next((task for task, fits in kinds.items() if predicts and fits(model)), None)
    if found is None:
        raise InvalidInput(
            f"{given} cannot be evaluated; expected a fitted estimator, a regressor or a classifier, such as "
            "ThresherRegressor, or one that thresher.load has read."
        )
    check_is_fitted(model)
    return found


def _count_rows(X: Any) -> int:
    from scipy import sparse

    if sparse.issparse(X) or isinstance(X, Mapping | str):
        raise InvalidInput(
            f"X is a {type(X).__name__}; expected an array (n, d), a frame of pandas, polars, pyarrow or DuckDB, or "
            "thresher's own Frame or ParquetRows."
        )
    try:
        shape = getattr(X, "shape", None) or np.shape(X)
    except ValueError:
        raise InvalidInput("X must have shape (n, d); got rows of different lengths.") from None
    if len(shape) != 2:
        raise InvalidInput(f"X must have shape (n, d), a row for each target; got {tuple(shape)}.")
    return int(shape[0])


def _targets(y: ArrayLike, name: str, model: Any, task: str) -> NDArray[Any]:
    """Return targets (n,), numbers or labels as the model knows them; refuse others."""
    values = np.asarray(y)
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if values.ndim != 1:
        raise InvalidInput(f"{name} must be (n,), one target a row, as a report shows one; got shape {values.shape}.")
    text = _is_text(values)
    if task == "regression" and text:
        values = read_targets(Frame([column_of(name, values)]), name)
        if values.dtype.kind != "f":
            raise InvalidInput(f"{name} is text, such as {str(values[0])[:40]!r}; this model predicts numbers.")
    missing = column_of(name, values).missing
    if missing.any():
        raise InvalidInput(f"{name} is missing in row {missing.argmax() + 1}, counted from 1. Leave such rows out.")
    if task == "regression":
        try:
            numbers = (values if values.dtype.kind != "M" else values.astype(object)).astype(np.float64)
        except (TypeError, ValueError):
            raise InvalidInput(f"{name} must be numbers; got values of type {values.dtype}.") from None
        if not np.isfinite(numbers).all():
            raise InvalidInput(f"{name} has a number that is not finite. Leave such rows out.")
        return numbers
    classes = np.asarray(model.classes_)
    if text != _is_text(classes):
        one, other = (say_label(ones.tolist()[0])[:40] for ones in (values, classes))
        raise InvalidInput(
            f"{name} has labels such as {one!r}, and the model classes such as {other!r}, of another type. Give labels "
            "as at the fit."
        )
    return values.astype(np.str_) if text else np.array(values.tolist())


def _is_text(values: NDArray[Any]) -> bool:
    return values.dtype.kind in "OUS" and any(isinstance(one, str | bytes) for one in values.tolist())
