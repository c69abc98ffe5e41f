"""Kinds of columns: what each was learnt from training rows, and how it makes numbers of new ones."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from thresher.checks import restore
from thresher.errors import InvalidInput
from thresher.tables.cells import NO_VALUE, Read, coded, read_numbers
from thresher.tables.dates import ORDERS, read_dates
from thresher.tables.frame import Column
from thresher.tables.units.amounts import convert, is_scale, read_amounts
from thresher.tables.units.known import MAGNITUDE, MONEY

__all__ = ["ColumnKind", "Dates", "Dropped", "Levels", "Numbers", "OneHot", "Tokens", "Words", "describe_kind",
           "numbers_of", "restore_kind", "say_strange", "time_parts", "times_of", "token_sets",
           "truth_only"]  # fmt: skip

Matrix = NDArray[np.float64]
TRUTH = {"true": 1.0, "false": 0.0}
_OTHER_FORM = {"True": "1", "False": "0", "1": "True", "0": "False"}  # truth values, as numbers and as text
_WORD = re.compile(r"\w+")
_DAY = np.timedelta64(86_400_000_000, "us")
_DECIMALS = 9  # of sines and cosines: those of two days of a week must not differ by rounding alone, or ranks would


class Tokens(NamedTuple):
    """The number of words and the words of each different cell, and the number (n,) of the cell of each row."""

    found: list[tuple[int, frozenset[str]]]
    codes: NDArray[np.int64]


class ColumnKind(Protocol):
    """What was learnt of a column."""

    kind: ClassVar[str]
    strange: ClassVar[str]  # what unseen cells have

    def outputs(self, name: str) -> list[str]:
        """Return the names of the columns of numbers that the column ``name`` becomes."""

    def encode(self, column: Column) -> Matrix:
        """Return these columns (n, outputs) of rows; InvalidInput if the column is of another type."""

    def unseen(self, column: Column) -> NDArray[np.bool_]:
        """Return which cells (n,) have a value that no training row has, where that matters."""


class _Known:
    """Every value is like those of the training rows."""

    strange: ClassVar[str] = "nothing strange"

    def unseen(self, column: Column) -> NDArray[np.bool_]:
        """Return that none is unseen (n,)."""
        return np.zeros(len(column.values), np.bool_)


@dataclass(frozen=True)
class Dropped(_Known):
    """A column that tells nothing, and why; ``own`` if its text is another in nearly every row."""

    kind: ClassVar[str] = "left out"
    why: str
    own: bool = False

    def outputs(self, name: str) -> list[str]:
        """Return no name."""
        return []

    def encode(self, column: Column) -> Matrix:
        """Return (n, 0)."""
        return np.zeros((len(column.values), 0))


class _Written:
    """Cells that are read: they may be missing, or words that cannot be read."""

    indicator: bool
    words: tuple[str, ...]

    def read(self, column: Column) -> Read:
        """Return the values (n,) of a column, and which of its cells (n,) cannot be read."""
        raise NotImplementedError

    def unseen(self, column: Column) -> NDArray[np.bool_]:
        """Return which cells (n,) are words that no training row has, or are missing though none was before."""
        values, strange = self.read(column)
        if not self.indicator:
            return np.isnan(values)
        return strange & ~np.isin(column.values.astype(np.str_), self.words) if strange.any() else strange


class _Named:
    """Cells that are names, each with numbers of its own."""

    strange: ClassVar[str] = "a value that no training row has"
    values: tuple[str, ...]

    def unseen(self, column: Column) -> NDArray[np.bool_]:
        """Return which values (n,) no training row has."""
        return (self.places(column) < 0) & ~column.missing

    def places(self, column: Column) -> NDArray[np.int64]:
        """Return the place (n,) of each value of a column among those known, -1 where it is none of them; True is 1."""
        known = {value: place for place, value in enumerate(self.values)}
        different, codes = coded(column.as_text())
        found = [known.get(cell, known.get(_OTHER_FORM.get(cell, cell), -1)) for cell in different]
        return np.array(found, np.int64)[codes]


@dataclass(frozen=True)
class Numbers(_Written):
    """Numbers. Where one is missing stands a neutral one, and 1 in a column of its own if training rows had some.

    The decimal sign is that of a column's own file, or else that of the training rows. ``words`` are cells of training
    rows that were no numbers, and missing therefore; ``percent`` says whether numbers have percent signs; they are in
    a ``unit`` of a ``quantity``, see :func:`thresher.tables.units.amounts.find_amounts`.
    """

    kind: ClassVar[str] = "number"
    strange: ClassVar[str] = "no number that can be read, where training rows have one"
    fill: float
    indicator: bool
    decimal: str = "."
    percent: bool | None = None
    words: tuple[str, ...] = ()
    unit: str = ""
    quantity: str = ""

    @property
    def in_words(self) -> str:
        """What the numbers are in; "" for plain ones."""
        if self.quantity == MAGNITUDE:
            return "in ones; 1.2k is 1200"
        if not self.quantity or self.quantity == MONEY:
            return self.unit
        return f"in {self.unit}; other units are converted"

    def outputs(self, name: str) -> list[str]:
        """Return the name, and one for what is missing."""
        return [name, f"{name} missing"] if self.indicator else [name]

    def encode(self, column: Column) -> Matrix:
        """Return the numbers, and 1 where they are missing."""
        values = self.read(column).values
        missing = np.isnan(values)
        filled = np.where(missing, self.fill, values)
        return np.column_stack([filled, missing] if self.indicator else [filled])

    def read(self, column: Column) -> Read:
        """Return the numbers (n,) of a column, and which of its cells (n,) are none."""
        how = column.decimal or self.decimal
        return numbers_of(column, decimal=how, percent=self.percent, unit=self.unit, quantity=self.quantity)


@dataclass(frozen=True)
class Dates(_Written):
    """Times, as the parts that differ among training rows. ``words`` are their cells that were no dates."""

    kind: ClassVar[str] = "date"
    strange: ClassVar[str] = "no date that can be read, where training rows have one"
    order: str
    parts: tuple[str, ...]
    fill: tuple[float, ...]
    indicator: bool
    words: tuple[str, ...] = ()

    def outputs(self, name: str) -> list[str]:
        """Return a name for each part, and one for what is missing."""
        return [f"{name} {part}" for part in self.parts] + [f"{name} missing"] * self.indicator

    def encode(self, column: Column) -> Matrix:
        """Return the parts, those of a missing time by their means, and 1 where it is missing."""
        times = self.read(column).values
        found, missing = time_parts(times), np.isnat(times)
        columns = [np.where(missing, fill, found[part]) for part, fill in zip(self.parts, self.fill, strict=True)]
        return np.column_stack([*columns, missing] if self.indicator else columns).astype(np.float64)

    def read(self, column: Column) -> Read:
        """Return the times (n,) of a column, and which of its cells (n,) are none."""
        return times_of(column, order=self.order)


@dataclass(frozen=True)
class OneHot(_Named):
    """A column of zeros and ones for each value; "" is a missing one. Rows with others have zeros only."""

    kind: ClassVar[str] = "category"
    values: tuple[str, ...]

    def outputs(self, name: str) -> list[str]:
        """Return a name for each value."""
        return [f"{name}={value}" if value else f"{name} missing" for value in self.values]

    def encode(self, column: Column) -> Matrix:
        """Return the zeros and ones."""
        return np.vstack([np.eye(len(self.values)), np.zeros(len(self.values))])[self.places(column)]


@dataclass(frozen=True)
class Levels(_Named):
    """Many values, each with numbers of its own: means of the targets, or how often it comes, as a logarithm."""

    kind: ClassVar[str] = "levels"
    values: tuple[str, ...]
    what: tuple[str, ...]  # names of the numbers
    levels: tuple[tuple[float, ...], ...]  # (values, what)
    otherwise: tuple[float, ...]  # of a value that no training row has

    def outputs(self, name: str) -> list[str]:
        """Return a name for each number."""
        return [f"{name} {one}" for one in self.what]

    def encode(self, column: Column) -> Matrix:
        """Return the numbers of the values."""
        return np.array([*self.levels, self.otherwise])[self.places(column)]


@dataclass(frozen=True)
class Words(_Known):
    """Free text, as the logarithm of the number of its words, and whether it has each of the commonest ones."""

    kind: ClassVar[str] = "text"
    words: tuple[str, ...]

    def outputs(self, name: str) -> list[str]:
        """Return names for the number of words and for each word."""
        return [f"{name} length", *(f"{name} has {word!r}" for word in self.words)]

    def encode(self, column: Column) -> Matrix:
        """Return the logarithm of one more than the number of words, then zeros and ones."""
        return self.count(token_sets(column))

    def count(self, tokens: Tokens) -> Matrix:
        """Return the same of the words of rows. Cost: O(1 + words) per different cell."""
        found, codes = tokens
        rows = [[math.log1p(count), *(float(word in words) for word in self.words)] for count, words in found]
        return np.array(rows).reshape(len(found), 1 + len(self.words))[codes]


def numbers_of(
    column: Column, *, decimal: str, percent: bool | None = None, unit: str = "", quantity: str = ""
) -> Read:
    """Return the values (n,) of a column as numbers, NaN where they are missing, and which (n,) are none.

    They are in a unit, if there is one. InvalidInput if they are times, numbers of another unit or of none, or if some
    are infinite. Cost: O(n).
    """
    values = column.values
    if values.dtype.kind == "M":
        raise InvalidInput(f"column {column.name[:40]!r} holds times; expected numbers.")
    strange = np.zeros(len(values), np.bool_)
    if not column.is_text:
        values = _in_unit(column, unit, quantity)
    elif unit or quantity:
        values, strange = read_amounts(column.values, decimal=decimal, unit=unit, quantity=quantity)
    else:
        values, strange = read_numbers(column.values, decimal=decimal, percent=percent)
        if strange.any():
            truths = [TRUTH.get(cell.lower(), np.nan) for cell in column.values]
            values = np.where(strange, truths, values)
            strange = strange & np.isnan(values)
    if np.isinf(values).any():
        raise InvalidInput(say_strange(column, np.isinf(values), "numbers must be finite"))
    return Read(np.asarray(values, np.float64), strange)


def _in_unit(column: Column, unit: str, quantity: str) -> NDArray[Any]:
    """Return the numbers (n,) of a column that is no text in a unit, if one is wanted."""
    given = column.unit
    if quantity in (MAGNITUDE, MONEY) or not (unit or quantity) or np.isnan(column.values).all():
        return column.values
    found = convert(column.values, given=given, unit=unit, quantity=quantity)
    if found is None:
        what = f"in {given}" if given else "without a unit"
        raise InvalidInput(
            f"column {column.name[:40]!r} holds numbers {what}; expected {unit}, as in training rows. Write them as "
            f"text, such as '12 {unit}'."
        )
    return found


def times_of(column: Column, *, order: str) -> Read:
    """Return the values (n,) of a column as times, NaT where they are missing, and which (n,) are none.

    InvalidInput if they are numbers. Cost: O(n).
    """
    none = np.zeros(len(column.values), np.bool_)
    if column.values.dtype.kind == "M":
        return Read(column.values, none)
    if not column.is_text:
        if np.isnan(column.values).all():
            return Read(np.full(len(column.values), np.datetime64("NaT"), "datetime64[us]"), none)
        raise InvalidInput(f"column {column.name[:40]!r} holds numbers; expected dates.")
    return read_dates(column.values, order=order)


def time_parts(times: NDArray[np.datetime64]) -> dict[str, Matrix]:
    """Return the parts (n,) of times: days since 1970, the year, and angles of year, week and day; NaN if missing."""
    days, years = times.astype("datetime64[D]"), times.astype("datetime64[Y]")
    missing = np.isnat(times)

    def number(gaps: Any, unit: np.timedelta64) -> Matrix:
        with np.errstate(invalid="ignore"):
            return np.where(missing, np.nan, gaps / unit)

    angles = {
        "year": number(days - years, np.timedelta64(1, "D")) / 365.25,
        "week": (number(days - np.datetime64("1970-01-05"), np.timedelta64(1, "D")) % 7) / 7,
        "day": number(times - days, _DAY),
    }
    parts = {
        "day": number(times - np.datetime64("1970-01-01T00:00:00", "us"), _DAY),
        "year": np.where(missing, np.nan, years.astype(np.int64) + 1970.0),
    }
    for name, share in angles.items():
        for way, turn in (("sine", np.sin), ("cosine", np.cos)):
            parts[f"{way} of {name}"] = np.round(turn(2 * np.pi * share), _DECIMALS)
    return parts


def token_sets(column: Column) -> Tokens:
    """Return the number of words and the words of each different cell, and the number (n,) of the cell of each row."""
    different, codes = coded(column.as_text())
    found = [_WORD.findall(cell.lower()) for cell in different]
    return Tokens([(len(words), frozenset(words)) for words in found], codes)


def say_strange(column: Column, strange: NDArray[np.bool_], expected: str) -> str:
    """Return a sentence about cells that are not what they should be, with the first rows that have them."""
    places = np.flatnonzero(strange)
    some = ", ".join(f"row {place + 1} is {str(column.values[place])[:20]!r}" for place in places[:3])
    more = f", and {len(places) - 3:,} more rows" if len(places) > 3 else ""
    return f"column {column.name[:40]!r}: {some}{more}; {expected}."


def restore_kind(stored: Mapping[str, Any]) -> ColumnKind:
    """Return what :func:`describe_kind` described; ValueError, TypeError or KeyError if that cannot be."""
    about = dict(stored)
    kind = {one.kind: one for one in (Dropped, Numbers, Dates, OneHot, Levels, Words)}[about.pop("kind")]
    try:
        made: Any = restore(kind, about)
        valid = _valid(made)
    except (TypeError, ValueError):
        valid = False
    if not valid:
        raise ValueError(f"a column of kind {kind.kind!r} cannot be like that")
    return made


def describe_kind(kind: Any) -> dict[str, Any]:
    """Return what was learnt of a column as JSON knows it."""
    return {"kind": kind.kind, **asdict(kind)}


def _valid(made: Any) -> bool:
    """Return whether what was learnt fits together: its types were checked before."""
    listed = [part for part in vars(made).values() if isinstance(part, tuple)]
    numbers = [one for part in vars(made).values() for one in np.ravel(part).tolist() if isinstance(one, float)]
    once = all(len(set(part)) == len(part) for part in listed if all(isinstance(one, str) for one in part))
    if not once or not all(map(math.isfinite, numbers)):
        return False
    if isinstance(made, Numbers):
        return made.decimal in (".", ",") and is_scale(made.unit, made.quantity)
    if isinstance(made, Dates):
        parts = set(time_parts(np.zeros(1, "datetime64[us]")))
        return set(made.parts) <= parts and len(made.parts) == len(made.fill) and made.order in ORDERS
    if isinstance(made, OneHot):
        return len(made.values) > 0
    if isinstance(made, Levels):
        whole = all(len(row) == len(made.what) for row in (*made.levels, made.otherwise))
        return whole and len(made.levels) == len(made.values)
    return True


def truth_only(column: Column) -> bool:
    """Return whether all cells of a text column say true or false, or that there is none, and some say one."""
    different = set(column.values)
    if len(different) > 3 * len(TRUTH) + len(NO_VALUE):
        return False
    different = {cell.lower() for cell in different}
    return bool(different & set(TRUTH)) and different <= {*TRUTH, *NO_VALUE}
