"""Ordinary tables as numbers: what is done to each column is learnt on training rows and said in words."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from thresher.checks import check_whole, guess_name, name_some, say_all
from thresher.errors import InvalidInput
from thresher.estimators.data.encodings import Made, choose_encodings
from thresher.estimators.data.made import OWN, Known, restore_made
from thresher.tables.frame import Column, Frame, in_memory, is_frame, say_label
from thresher.tables.kinds import ColumnKind, Dates, Dropped, Levels, Numbers, OneHot, describe_kind, restore_kind
from thresher.tables.learning import MOST_VALUES, Targets, learn, learn_means, look
from thresher.tables.text_files import restore_reading

__all__ = ["TableEncoder"]

Matrix = NDArray[np.float64]
_LARGE = ("auto", "target", "count")
_TASKS = ("auto", "regression", "classification")
_LEARNT = "learnt"  # of all columns, in what is pickled
_MOST_MEANS = 8  # classes whose means become columns each
_DONE = {
    "category": "a column of zeros and ones for each value of {}",
    "date": "dates as day, year and angles of year, week and hour: {}",
    "text": "free text as its length and its commonest words: {}",
    "left out": "left out: {}",
}


class TableEncoder(TransformerMixin, BaseEstimator):
    """Columns of any kind as columns of numbers: a frame, as those of pandas and polars, or an array (n, d).

    The kind of a column follows from its type and, for text, from its cells. *Numbers*, also as text with thousands
    separators, decimal commas, signs of currencies or percents, and truth values stay numbers; where one is missing
    stands the median (the mean, if there are two values), and 1 in a column of its own. *Categories* with few values
    become a column of zeros and ones for each value, a missing one included; those with many become means of the
    targets, drawn to the mean of all, or the logarithm of how often they come. *Dates* become the day, the year, and
    sines and cosines of the time of year, the weekday and the hour. *Free text* becomes its length and whether it has
    each of its commonest words. Columns without a value, with the same value in every row, and text with a value of its
    own in nearly every row are left out.

    With targets more is tried, and taken where a ridge regression surely predicts rows left out better: zeros and ones
    for categories with many values (as many as a quarter of the rows, 300 at most); components of the pieces of their
    words, such as misspelt ones need, and of text left out; words of free text; days between dates; numbers as names.

    Values that no training row has become zeros, or the mean of all. Columns are matched by name.

    Parameters
    ----------
    categorical_features : ``"from_dtype"``: text, and columns of type category; or names, places or a mask (d,) of
        further columns that are categories, such as numbers that are names. None for no further ones, as an empty list
    max_one_hot : values of a category up to which each has a column
    high_cardinality : what becomes of categories with more: ``"target"`` means, ``"count"``, or ``"auto"``: means if
        ``fit`` gets targets, of at most eight classes if they are classes, unless rows left out say otherwise. Columns
        are made of others with ``"auto"`` alone
    task : what targets are: ``"regression"``, ``"classification"`` or ``"auto"``, as they look

    Attributes
    ----------
    kinds_ : what was learnt of each column, by its name
    made_ : columns made of others
    notes_ : what is to be said of how a file was read, and of numbers that may be names
    reading_ : how a file of text was read, as which new ones are to be read; None for other tables
    n_features_in_, feature_names_in_ : as in scikit-learn

    Means of targets of the training rows themselves, which :meth:`fit_transform` returns, are made without the fifth of
    the rows that a row is in: its own target is never among them. So they differ from those of :meth:`transform`.

    Cost: O(n) per column.
    """

    def __init__(
        self,
        *,
        categorical_features: Any = "from_dtype",
        max_one_hot: int = MOST_VALUES,
        high_cardinality: str = "auto",
        task: str = "auto",
    ) -> None:
        self.categorical_features, self.max_one_hot = categorical_features, max_one_hot
        self.high_cardinality, self.task = high_cardinality, task

    def fit(self, X: Any, y: ArrayLike | None = None) -> Self:
        """Learn the kinds of columns from training rows X (n, d) and, for means, targets y (n,) or (n, k)."""
        self.fit_transform(X, y)
        return self

    def fit_transform(self, X: Any, y: ArrayLike | None = None) -> Matrix:
        """Learn the kinds of columns, and return the training rows as numbers (n, outputs)."""
        most = check_whole(self.max_one_hot, "max_one_hot", least=1)
        for name, known in (("high_cardinality", _LARGE), ("task", _TASKS)):
            if getattr(self, name) not in known:
                told = ", ".join(map(repr, known))
                raise InvalidInput(f"{name} must be one of {told}; got {getattr(self, name)!r}.")
        frame = self._frame(X, reset=True)
        targets = self._targets(y, len(frame))
        chosen = self._categories(frame)
        kinds: list[ColumnKind] = []
        columns, parts = list[Column](), list[Matrix]()
        wrong, doubts = list[str](), list[str]()
        for one in frame:
            column = Column(one.name, one.as_text(), True) if one.name in chosen else one
            try:
                form = look(column, most=most)
                doubts += [f"Column {one.name[:40]!r} {form.doubt}."] * bool(form.doubt)
                column = column._replace(cell_format=form)
                kind, part = learn(column, most=most, targets=targets)
                columns.append(column)
                kinds.append(kind)
                parts.append(part)
            except InvalidInput as error:
                wrong.append(str(error))
        say_all(wrong)
        made, notes = list[Made](), list[str]()
        if y is not None and self.high_cardinality == "auto":
            wanted, guess = self._numbers_of(y, len(frame)).values, self._names_none
            kinds, parts, made, notes = choose_encodings(columns, kinds, parts, wanted, means=targets, names=guess)
        rows = np.hstack([*parts, *(part for _, part in made)])
        self.kinds_ = dict(zip((column.name for column in columns), kinds, strict=True))
        if not rows.shape[1]:
            dropped = [(name, kind.why) for name, kind in self.kinds_.items() if isinstance(kind, Dropped)]
            why = _first([f"{name[:40]!r} ({why})" for name, why in dropped])
            raise InvalidInput(f"no column of {len(frame)} sample(s) can be used: {why}. Give other columns.")
        self.made_ = [one for one, _ in made]
        self.notes_, self.reading_ = [*frame.notes, *doubts, *notes], frame.reading
        return rows

    def transform(self, X: Any) -> Matrix:
        """Return rows X (n, d) as numbers (n, outputs); columns are matched by name, those of an array by place."""
        check_is_fitted(self)
        made, wrong, known = [], [], self.known(X)
        for one, kind in known.values():
            try:
                made.append(kind.encode(one))
            except InvalidInput as error:
                wrong.append(str(error))
        say_all(wrong)
        return np.hstack([*made, *(one.encode(known) for one in self.made_)])

    def with_means(self, X: Any, rows: Matrix, y: ArrayLike) -> tuple[Self, Matrix]:
        """Return an encoder with means of other targets y (n,) or (n, k), and what training rows X (n, d) become.

        ``rows`` (n, outputs) are what :meth:`fit_transform` made of them. Columns without means stay as they are, and
        a table that has none is returned as it was. Cost: O(n) per column with means.
        """
        targets = self._targets(y, len(rows))
        means = [name for name, kind in self.kinds_.items() if isinstance(kind, Levels) and kind.what != ("count",)]
        if not means or targets is None:
            return self, rows
        found, rows = self._copied(), rows.copy()
        found.kinds_ = dict(self.kinds_)
        for place, (column, kind) in enumerate(self.known(X).values()):
            if column.name in means and isinstance(kind, Levels):
                found.kinds_[column.name], rows[:, self.sources_ == place] = learn_means(kind, column, targets)
        return found, rows

    def unseen(self, X: Any) -> dict[str, int]:
        """Return how many rows of X have cells that training rows tell nothing of, for columns where there are some.

        These are categories that no training row has; and numbers and dates that cannot be read, or are missing though
        every training row has one. The last two become what a missing value becomes.
        """
        check_is_fitted(self)
        counts = {name: int(kind.unseen(one).sum()) for name, (one, kind) in self.known(X).items()}
        return {name: count for name, count in counts.items() if count}

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Return the names of the columns of numbers, such as ``age missing`` or ``colour=red``."""
        check_is_fitted(self)
        given = list(self.kinds_) if input_features is None else [str(one) for one in np.asarray(input_features)]
        if len(given) != len(self.kinds_) or (hasattr(self, "feature_names_in_") and given != list(self.kinds_)):
            raise InvalidInput(f"input_features is not equal to feature_names_in_: {name_some(list(self.kinds_))}.")
        named = [*zip(given, self.kinds_.values(), strict=True), *((one.name, one.kind) for one in self.made_)]
        return np.array([one for name, kind in named for one in kind.outputs(name)], dtype=object)

    @property
    def sources_(self) -> NDArray[np.int64]:
        """For each column of numbers (outputs,), the place of its column: those of X come first, then made ones."""
        check_is_fitted(self)
        counts = [len(kind.outputs("")) for kind in self.all_kinds_]
        return np.repeat(np.arange(len(counts)), counts)

    @property
    def all_kinds_(self) -> list[Any]:
        """What was learnt of each column, those of X first, then those that are made of others."""
        return [*self.kinds_.values(), *(one.kind for one in self.made_)]

    def by_column(self, shares: Matrix) -> Matrix:
        """Return shares (d,) of the columns of X from those (outputs,) of columns of numbers.

        What a column that is made has goes in equal parts to those that it is made of.
        """
        places = {name: place for place, name in enumerate(self.kinds_)}
        found = np.bincount(self.sources_, shares, minlength=len(self.all_kinds_)).astype(np.float64)
        for one, share in zip(self.made_, found[len(places) :], strict=True):
            for name in one.recipe.of:
                found[places[name]] += share / len(one.recipe.of)
        return found[: len(places)]

    @property
    def groups_(self) -> tuple[tuple[int, ...], ...]:
        """Which columns of numbers (outputs,) are the zeros and ones of one category, for each category."""
        places = [np.flatnonzero(self.sources_ == place).tolist() for place in range(len(self.all_kinds_))]
        kinds = zip(self.all_kinds_, places, strict=True)
        return tuple(tuple(mine) for kind, mine in kinds if isinstance(kind, OneHot) and mine)

    @property
    def measured_(self) -> tuple[int, ...]:
        """Which columns of numbers (outputs,) are the numbers of a column of numbers, not made of dates or words."""
        first = np.unique(self.sources_, return_index=True)
        kinds = dict(enumerate(self.kinds_.values()))
        found = zip(*first, strict=True)
        return tuple(int(place) for source, place in found if isinstance(kinds.get(source), Numbers))

    @property
    def is_numeric_(self) -> bool:
        """Whether all columns are numbers, or left out."""
        check_is_fitted(self)
        return not self.made_ and all(isinstance(one, Numbers) or not one.outputs("") for one in self.all_kinds_)

    def summary(self) -> list[str]:
        """Return how a file was read and what is done to columns, a sentence for each; nothing for plain numbers."""
        check_is_fitted(self)
        told: dict[str, list[str]] = {}
        of_pieces = {one.recipe.of[0] for one in self.made_ if one.recipe.what == OWN}
        for name, kind in self.kinds_.items():
            if name in of_pieces:
                continue
            if isinstance(kind, Numbers | Dates) and kind.words:
                what = f"cells that are no {kind.kind}s count as missing: {{}}"
                told.setdefault(what, []).append(f"{_first([repr(one[:20]) for one in kind.words])} in {name!r}")
            if isinstance(kind, Numbers) and kind.in_words:
                told.setdefault("numbers with units: {}", []).append(f"{name!r} ({kind.in_words})")
            if isinstance(kind, Numbers) and kind.indicator:
                told.setdefault("missing numbers replaced by the median, with a column that says so: {}", []).append(
                    f"{name!r} ({kind.fill:.4g})"
                )
            elif isinstance(kind, Levels):
                what = "means of the target, or counts, for the values of {}"
                told.setdefault(what, []).append(f"{name!r} ({len(kind.values)} values)")
            elif kind.kind in _DONE:
                more = f" ({len(kind.values)} values)" if isinstance(kind, OneHot) else ""
                more = f" ({kind.why})" if isinstance(kind, Dropped) else more
                told.setdefault(_DONE[kind.kind], []).append(f"{name!r}{more}")
        if self.made_:
            what = "made of others, as rows left out are predicted better: {}"
            told[what] = [f"'{one.name}'" for one in self.made_]
        return [*self.notes_, *(f"{_capital(what.format(_first(names)))}." for what, names in told.items())]

    def to_json(self) -> list[Any]:
        """Return what was learnt, as lists of words and numbers."""
        check_is_fitted(self)
        columns = [[name, describe_kind(kind)] for name, kind in self.kinds_.items()]
        return [*columns, *(one.describe() for one in self.made_)]

    @classmethod
    def from_json(cls, stored: Any, *, named: bool = True) -> Self:
        """Return an encoder that learnt this; ValueError, TypeError or KeyError if it cannot have."""
        encoder = cls()
        encoder.notes_, encoder.reading_ = [], None
        columns, made = [one for one in stored if len(one) == 2], [one for one in stored if len(one) != 2]
        encoder.kinds_ = {str(name): restore_kind(kind) for name, kind in columns}
        encoder.made_ = [restore_made(one, encoder.kinds_) for one in made]
        if len(encoder.kinds_) != len(columns) or not len(encoder.get_feature_names_out()):
            raise ValueError("columns have the same name, or make no numbers")
        encoder.n_features_in_ = len(encoder.kinds_)
        if named:
            encoder.feature_names_in_ = np.array(list(encoder.kinds_), dtype=object)
        return encoder

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled and copied: lists of words and numbers in the place of what was learnt."""
        state: dict[str, Any] = super().__getstate__()
        if "kinds_" not in state:
            return state
        kept = {name: value for name, value in state.items() if name not in ("kinds_", "made_")}
        return {**kept, _LEARNT: self.to_json(), "reading_": None if self.reading_ is None else self.reading_._asdict()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({name: value for name, value in state.items() if name != _LEARNT})
        if _LEARNT in state:
            learnt, read = type(self).from_json(state[_LEARNT]), state["reading_"]
            self.kinds_, self.made_ = learnt.kinds_, learnt.made_
            self.reading_ = None if read is None else restore_reading(read)

    def _copied(self) -> Self:
        """Return an encoder with the same attributes."""
        found = type(self)()
        found.__dict__.update(self.__dict__)
        return found

    def _frame(self, X: Any, *, reset: bool) -> Frame:
        if not is_frame(X):
            X = validate_data(self, X, dtype=None, ensure_all_finite="allow-nan", reset=reset)
            if X.dtype.kind == "c":
                raise InvalidInput("Complex data not supported: X must hold numbers, text or times.")
            return Frame.of(X)
        X = in_memory(X)
        frame = Frame.of(X)
        if not all(frame.shape):
            raise InvalidInput(f"X must have rows and columns; got shape {frame.shape}.")
        if reset:
            validate_data(self, X, skip_check_array=True)
            if isinstance(X, Frame) and X.has_names:
                self.feature_names_in_ = np.array(frame.columns, dtype=object)
        return frame

    def known(self, X: Any) -> dict[str, Known]:
        """Return the columns of X (n, d) by name, in the order of the fit, each with its kind."""
        frame = self._frame(X, reset=False)
        if not is_frame(X) or not hasattr(self, "feature_names_in_"):
            if frame.shape[1] != self.n_features_in_:
                raise InvalidInput(f"X has {frame.shape[1]} columns; expected the {self.n_features_in_} of the fit.")
            frame = frame.renamed(list(self.kinds_))
        missing = [name for name in self.kinds_ if name not in frame]
        extra = [name for name in frame.columns if name not in self.kinds_]
        if missing or extra:
            told = [f"it lacks {name_some(missing)}"] * bool(missing) + [f"it has also {name_some(extra)}"] * bool(
                extra
            )
            advice = "" if missing else " Leave them out: X[model.feature_names_in_]."
            raise InvalidInput(f"X must have the columns of the fit; {', and '.join(told)}.{advice}")
        return {name: Known(frame[name], kind) for name, kind in self.kinds_.items()}

    @property
    def _names_none(self) -> bool:
        """Whether the caller left it open which numbers are names."""
        asked = self.categorical_features
        return asked is None or (isinstance(asked, str) and asked == "from_dtype")

    def _categories(self, frame: Frame) -> set[str]:
        """Return the names of the columns that are categories because the caller says so."""
        asked, names = self.categorical_features, frame.columns
        if self._names_none:
            return set()
        if isinstance(asked, str):
            raise InvalidInput(f"categorical_features must be 'from_dtype', names, places or a mask; got {asked!r}.")
        given = np.asarray(asked)
        if given.dtype.kind == "b" and given.shape == (len(names),):
            return {name for name, chosen in zip(names, given, strict=True) if chosen}
        if given.dtype.kind in "iu" and (not given.size or (given.min() >= 0 and given.max() < len(names))):
            return {names[place] for place in given}
        if given.dtype.kind in "UO" and set(map(str, given)) <= set(names):
            return set(map(str, given))
        if not given.size:
            return set()
        strange = [one for one in map(str, given.flat) if one not in names] if given.dtype.kind in "UO" else []
        raise InvalidInput(
            f"categorical_features must be columns of X, {name_some(names)}, as names, places or a mask; "
            f"got {str(asked)[:80]}.{''.join(guess_name(one, names) for one in strange)}"
        )

    def _targets(self, y: ArrayLike | None, rows: int) -> Targets | None:
        """Return targets for means (n, k); None for counts."""
        if y is None or self.high_cardinality == "count":
            if self.high_cardinality == "target":
                raise InvalidInput("high_cardinality='target' needs targets: fit(X, y).")
            return None
        found = self._numbers_of(y, rows)
        return None if len(found.names) > _MOST_MEANS and self.high_cardinality == "auto" else found

    def _numbers_of(self, y: ArrayLike, rows: int) -> Targets:
        """Return targets as numbers (n, k): of classes zeros and ones, of two classes those of the second."""
        given = np.asarray(y)
        check_consistent_length(given, np.empty(rows))
        kind = type_of_target(given)
        several = given.ndim == 2 and given.shape[1] > 1
        if several or self.task == "regression" or (self.task == "auto" and kind == "continuous"):
            values = given.reshape(rows, -1).astype(np.float64)
            names = tuple(f"mean {place}" if several else "mean" for place in range(values.shape[1]))
        else:
            classes, codes = np.unique(given.ravel(), return_inverse=True)
            values = np.eye(len(classes))[codes]
            names = tuple(f"share of {say_label(one)}" for one in classes.tolist())
            values, names = (values[:, 1:], names[1:]) if len(classes) == 2 else (values, names)
        return Targets(values, names)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _first(names: list[str]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
