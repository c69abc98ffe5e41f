"""Profile: what the columns of some rows look like, in few numbers, and how far those of other rows are from it.

The distance of two columns is the least share of the rows whose cells would have to be others for both to look alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, ndtri

from thresher.checks import restore
from thresher.errors import InvalidInput
from thresher.tables.frame import Column, Frame
from thresher.tables.kinds import ColumnKind, Dates, Dropped, Numbers, Words, describe_kind, restore_kind
from thresher.tables.learning import learn

__all__ = ["ColumnProfile", "Moved", "compare_columns", "profile_columns", "restore_profiles"]

Matrix = NDArray[np.float64]
_POINTS = 64  # of a distribution of numbers that are kept, at most
_VALUES = 200  # of names that are kept, the commonest
_COMMON = 5  # rows of a name that are expected, from which on it counts by itself
_DOUBT = 0.01  # that some column is said to have moved though none did
_DAY = np.timedelta64(86_400_000_000, "us")


@dataclass(frozen=True)
class ColumnProfile:
    """A column of n rows: how it is read, the share that is missing, and what the others are.

    Of numbers, dates (in days since 1970) and texts (their words): ``at`` has values, and ``below`` the shares of the
    rows up to each; they are ``whole`` if no value is left out. Of names: ``counts`` has the commonest, and ``others``
    how many rows have none of these.
    """

    name: str
    kind: dict[str, Any]
    rows: int
    missing: int
    at: list[float] = field(default_factory=list)
    below: list[float] = field(default_factory=list)
    whole: bool = True
    counts: dict[str, int] = field(default_factory=dict)
    others: int = 0

    @property
    def sort(self) -> str:
        """What kind of column it is: "number", "date", "text" or "names"."""
        kind = str(self.kind["kind"])
        return kind if kind in (Numbers.kind, Dates.kind, Words.kind) else "names"


@dataclass(frozen=True)
class Moved:
    """How far a column of new rows is from its profile.

    ``distance`` is a share of the rows that have a value, ``chance`` the distance that rows of the same kind rarely
    exceed. ``outside`` is the share with a value beyond all of the profile, or a name that is not in it; ``new`` are
    the commonest of these names.
    """

    name: str
    sort: str
    distance: float
    chance: float
    missing: float  # share of the new rows
    missing_before: float
    missing_moved: bool  # by more than chance
    outside: float
    before: ColumnProfile
    now: ColumnProfile
    new: dict[str, int] = field(default_factory=dict)

    @property
    def moved(self) -> bool:
        """Whether values or their absence moved by more than chance."""
        return self.distance > self.chance or self.missing_moved

    @property
    def size(self) -> float:
        """The distance, or the change in what is missing if that is larger."""
        return max(self.distance, abs(self.missing - self.missing_before))


def profile_columns(frame: Frame, kinds: Mapping[str, ColumnKind] | None = None) -> list[ColumnProfile]:
    """Return the profiles of the columns of a frame, read by the kinds that are known, or else as they look.

    Columns that tell nothing, and those that cannot be read, have none. Cost: O(n log n) per column.
    """
    found = []
    for column in frame:
        try:
            kind = (kinds or {}).get(column.name) or learn(column, targets=None)[0]
            if not isinstance(kind, Dropped):
                found.append(_profile(column, kind))
        except InvalidInput:
            continue
    return found


def compare_columns(before: Sequence[ColumnProfile], frame: Frame) -> list[Moved]:
    """Return how far the columns of new rows are from profiles, the farthest first. Cost: O(n log n) per column.

    Raises InvalidInput if a column is not there, or is of another type.
    """
    if lacking := [one.name for one in before if one.name not in frame]:
        raise InvalidInput(f"the new rows lack the column {lacking[0][:40]!r}. Give rows with the columns of the fit.")
    doubt = _DOUBT / max(2 * len(before), 1)
    found = [_compare(one, frame[one.name], doubt) for one in before]
    return sorted(found, key=lambda one: (not one.moved, -one.size))


def restore_profiles(stored: Any) -> list[ColumnProfile]:
    """Return profiles from what JSON knows of them; ValueError, TypeError or KeyError if they cannot be that."""
    found = restore(list[ColumnProfile], stored)
    for one in found:
        restore_kind(one.kind)
        numbers = [*one.at, *one.below, *one.counts.values(), one.others, one.missing, one.rows]
        if len(one.at) != len(one.below) or not np.isfinite(numbers).all() or one.rows < max(one.missing, 1):
            raise ValueError(f"the profile of column {one.name[:40]!r} does not fit together")
    return found


def _profile(column: Column, kind: ColumnKind) -> ColumnProfile:
    """Return the profile of a column that is read as a kind."""
    about, n = describe_kind(kind), len(column.values)
    numbers = _numbers(column, kind)
    if numbers is None:
        cells = column.as_text()
        names, counts = np.unique(cells[cells != ""].astype(np.str_), return_counts=True)
        order = np.argsort(-counts, kind="stable")
        kept = {str(names[k]): int(counts[k]) for k in order[:_VALUES]}
        told = int(counts.sum())
        return ColumnProfile(column.name, about, n, n - told, counts=kept, others=told - sum(kept.values()))
    there = np.sort(numbers[~np.isnan(numbers)])
    at = np.unique(there)
    whole = len(at) <= _POINTS
    if not whole:
        at = np.unique(there[np.linspace(0, len(there) - 1, _POINTS).round().astype(np.int64)])
    below = np.searchsorted(there, at, side="right") / max(len(there), 1)
    return ColumnProfile(column.name, about, n, n - len(there), at=at.tolist(), below=below.tolist(), whole=whole)


def _numbers(column: Column, kind: ColumnKind) -> Matrix | None:
    """Return the cells (n,) as numbers, NaN where they are missing: days of dates, words of texts; None for names."""
    if isinstance(kind, Numbers):
        return kind.read(column).values
    if isinstance(kind, Dates):
        times = kind.read(column).values
        with np.errstate(invalid="ignore"):
            return np.where(np.isnat(times), np.nan, (times - np.datetime64("1970-01-01T00:00:00", "us")) / _DAY)
    if isinstance(kind, Words):
        cells = column.as_text()
        return np.where(cells == "", np.nan, np.array([float(len(one.split())) for one in cells]))
    return None


def _compare(before: ColumnProfile, column: Column, doubt: float) -> Moved:
    kind = restore_kind(before.kind)
    now = _profile(column, kind)
    had, have = before.rows - before.missing, now.rows - now.missing
    outside, new = 0.0, dict[str, int]()
    if not had or not have:  # what is missing says all
        distance, chance = 0.0, 0.0
    elif before.sort == "names":
        names = [*before.counts, *(name for name in now.counts if name not in before.counts)]
        old = np.array([*(before.counts.get(name, 0) for name in names), before.others]) / had
        fresh = np.array([*(now.counts.get(name, 0) for name in names), now.others]) / have
        if before.others:  # a name that is not kept may be one of the others
            old, fresh = _as_others(old, len(before.counts)), _as_others(fresh, len(before.counts))
        distance = float(np.abs(old - fresh).sum()) / 2
        chance = _chance_of_names(old, fresh, had, have, distance, doubt)
        if not before.others:
            new = {name: count for name, count in now.counts.items() if name not in before.counts}
            outside = (sum(new.values()) + now.others) / have
    else:
        values = _numbers(column, kind)
        assert values is not None
        there = np.sort(values[~np.isnan(values)])
        at, below = np.array(before.at), np.array([0.0, *before.below])
        up_to, under = (np.searchsorted(there, at, side=side) / have for side in ("right", "left"))
        known = len(at) if before.whole else 1  # points just below which the share of old rows is known
        distance = float(max(np.abs(up_to - below[1:]).max(), np.abs(under - below[:-1])[:known].max()))
        chance = math.sqrt(-math.log(doubt / 2) / 2 * (1 / had + 1 / have))  # Kolmogorov and Smirnov
        outside = float(np.mean((there < at[0]) | (there > at[-1])))
    shares_missing = before.missing / before.rows, now.missing / now.rows
    return Moved(
        before.name, before.sort, distance, chance, shares_missing[1], shares_missing[0],
        _differ(before.missing, before.rows, now.missing, now.rows, doubt), outside, before, now, new,
    )  # fmt: skip


def _as_others(shares: Matrix, kept: int) -> Matrix:
    """Return shares of names (k + others,) with all beyond those kept as one."""
    return np.append(shares[:kept], shares[kept:].sum())


def _chance_of_names(old: Matrix, fresh: Matrix, had: int, have: int, distance: float, doubt: float) -> float:
    """Return the distance in the direction found that samples of the same shares rarely exceed: that of chi square.

    Names that are rare in both count as one.
    """
    shares, gaps = (old * had + fresh * have) / (had + have), old - fresh
    common = shares * min(had, have) >= _COMMON
    shares = np.append(shares[common], shares[~common].sum())
    gaps = np.append(gaps[common], gaps[~common].sum())
    shares, gaps = shares[shares > 0], gaps[shares > 0]
    if len(shares) < 2:
        return distance
    found = float((gaps**2 / shares).sum() / (1 / had + 1 / have))
    return distance * math.sqrt(float(chdtri(len(shares) - 1, doubt)) / found) if found else distance


def _differ(one: int, of: int, other: int, of_other: int, doubt: float) -> bool:
    """Return whether two shares differ by more than chance."""
    if not of or not of_other:
        return False
    share = (one + other + 1) / (of + of_other + 2)
    noise = math.sqrt(share * (1 - share) * (1 / of + 1 / of_other))
    return abs(one / of - other / of_other) > -float(ndtri(doubt / 2)) * noise + 1 / min(of, of_other)
