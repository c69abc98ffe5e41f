"""From what a caller gives to rows of numbers: plain arrays as they are, all else by an encoder."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import validate_data

from thresher.checks import name_some, say_all
from thresher.errors import InvalidInput
from thresher.estimators.data.encoder import TableEncoder
from thresher.estimators.data.encodings import FEWEST
from thresher.memory import require
from thresher.tables.frame import Column, Frame, column_of, in_memory, is_frame, is_numeric
from thresher.tables.kinds import numbers_of, say_strange
from thresher.tables.targets import read_targets

__all__ = ["names_categories", "new_rows", "numeric_targets", "some_cells", "training_rows"]

Matrix = NDArray[np.float64]
_COLUMNS = 512  # of numbers up to which some may be names
_CHECKS: dict[str, Any] = {"accept_sparse": "csr", "dtype": np.float64, "ensure_all_finite": "allow-nan"}


def training_rows(estimator: Any, X: Any, *, task: str, weights: Any, **more: Any) -> tuple[Matrix, Any]:
    """Return training rows (n, d), dense, and targets, checked as scikit-learn does.

    Where there is anything but numbers, the estimator gets an ``encoder_``, fitted to rows with a weight above 0; None
    where all are numbers.

    Cost: O(nd).
    """
    if _is_numeric(X) and not names_categories(estimator):
        rows, targets = _validated(estimator, X, **more)
        plain = _dense(rows)
        whole = not _has_holes(plain)
        if whole and not (is_frame(X) and len(plain) >= FEWEST and plain.shape[1] <= _COLUMNS):
            estimator.encoder_ = None
            return plain, targets
        X = X if is_frame(X) else plain
    else:
        whole = False
        targets = validate_data(estimator, "no_validation", **more)
    encoder = TableEncoder(categorical_features=estimator.categorical_features, task=task)
    kept = np.ones(len(X), np.bool_) if weights is None else np.ravel(weights) > 0
    check_consistent_length(X if not isinstance(X, Frame) else np.empty(len(X)), targets, kept)
    if kept.all():
        rows = encoder.fit_transform(X, targets)
    else:
        some = encoder.fit_transform(some_cells(X, kept), targets[kept])
        rows = np.zeros((len(kept), some.shape[1]))
        rows[kept] = some
    if whole and not encoder.made_:  # of numbers that may be names
        estimator.encoder_ = None
        return plain, targets
    estimator.encoder_, estimator.n_features_in_ = encoder, encoder.n_features_in_
    if hasattr(encoder, "feature_names_in_"):
        estimator.feature_names_in_ = encoder.feature_names_in_
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_
    return rows, targets


def numeric_targets(y: Any) -> Any:
    """Return targets with text read as numbers, as columns of X and of files are: ``6,854`` is 6854.

    Others come back as they are. Refuses text that is no number. Cost: O(n).
    """
    values = np.asarray(y)
    if values.dtype.kind not in "OU" or not any(isinstance(one, str) for one in values.flat):
        return y
    columns = values.reshape(len(values), -1).T
    read = [read_targets(Frame([column_of("y", one)]), "y") for one in columns]
    for one in read:
        if one.dtype.kind != "f":
            raise InvalidInput(
                f"y is text, such as {str(one[0])[:40]!r}; expected numbers. For classes use ThresherClassifier."
            )
    return np.column_stack(read).reshape(values.shape)


def some_cells(X: Any, kept: NDArray[np.bool_]) -> Any:
    """Return the rows of a table, before it is numbers, that a mask (n,) keeps."""
    if sparse.issparse(X):
        return X.tocsr()[kept]
    return Frame.of(X).take(kept) if is_frame(X) else np.asarray(X)[kept]


def names_categories(estimator: Any) -> bool:
    """Return whether the caller named columns that are categories."""
    asked = estimator.categorical_features
    return not (asked is None or (isinstance(asked, str) and asked == "from_dtype"))


def new_rows(estimator: Any, X: Any) -> Matrix:
    """Return rows (k, d), dense, as the fitted estimator wants them; refuse other columns. Cost: O(kd)."""
    X = in_memory(X)
    if estimator.encoder_ is not None:
        return estimator.encoder_.transform(_dense(X) if sparse.issparse(X) else X)
    found_by_name = isinstance(X, Frame) and hasattr(estimator, "feature_names_in_")
    X = _numbers(estimator, X) if isinstance(X, Frame) else X
    rows = _dense(check_array(X, **_CHECKS) if found_by_name else _validated(estimator, X, reset=False))
    for row, column in np.argwhere(np.isnan(rows))[:1]:
        names = getattr(estimator, "feature_names_in_", None)
        raise InvalidInput(
            f"row {row} of X, column {column if names is None else repr(names[column][:40])}, contains NaN, and no "
            "training row did: there is nothing to put in its place. Fill it in, or fit on rows of which some have "
            "missing values."
        )
    return rows


def _validated(estimator: Any, X: Any, **more: Any) -> Any:
    """Return what scikit-learn makes of a table of numbers; of a frame, refuse what is none by its column."""
    try:
        found = validate_data(estimator, X, **_CHECKS, **more)
    except (ValueError, TypeError, OverflowError):
        if is_frame(X):
            _read_known(estimator, X)
        raise
    if is_frame(X) and not is_numeric(X):  # times of polars would be numbers
        _read_known(estimator, X)
    return found


def _read_known(estimator: Any, X: Any) -> None:
    """Refuse a frame in which columns of the fit hold anything but numbers."""
    names = getattr(estimator, "feature_names_in_", None)
    _read([one for one in Frame.of(X) if names is None or one.name in names])


def _is_numeric(X: Any) -> bool:
    """Return whether a table is numbers only, which need no encoder unless some are missing."""
    if isinstance(X, Frame):
        return False
    if is_frame(X):
        return is_numeric(X)
    kind = getattr(X, "dtype", None)
    if kind is None and not sparse.issparse(X):
        try:
            kind = np.asarray(X).dtype
        except ValueError:  # rows of different lengths, which scikit-learn refuses
            return True
    if getattr(kind, "kind", "f") == "O":
        return not any(isinstance(cell, str) for cell in np.asarray(X).flat)
    return getattr(kind, "kind", "f") != "U"


def _dense(rows: Any) -> Matrix:
    if not sparse.issparse(rows):
        return np.asarray(rows, np.float64)
    n, d = rows.shape
    what = f"{n:,} sparse rows of {d:,} columns, made dense,"
    require(8 * n * d * 3, budget=None, what=what, remedy="Use fewer rows, or fewer columns.")
    return np.asarray(rows.toarray(), np.float64)


def _has_holes(rows: Matrix) -> bool:
    return bool(np.isnan(rows).any())


def _numbers(estimator: Any, frame: Frame) -> Matrix:
    """Return the columns of a file that a model of plain numbers wants (k, d): by name, or by place without names."""
    names = list(getattr(estimator, "feature_names_in_", frame.columns))
    missing = [name for name in names if name not in frame]
    if missing:
        raise InvalidInput(f"X must have the columns of the fit; it lacks {name_some(missing)}.")
    return np.column_stack(_read([frame[name] for name in names]))


def _read(columns: Iterable[Column]) -> list[Matrix]:
    """Return the numbers (n,) of columns; InvalidInput if some cells are none."""
    read = [(one, numbers_of(one, decimal=one.decimal or ".")) for one in columns]
    say_all([say_strange(one, found.strange, "expected numbers") for one, found in read if found.strange.any()])
    return [found.values for _, found in read]
