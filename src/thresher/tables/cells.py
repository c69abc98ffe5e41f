"""Cells of text as numbers and dates: one way of writing them per column, found by looking at all of its cells."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "NO_VALUE",
    "ORDERS",
    "Read",
    "coded",
    "find_date_order",
    "find_decimal",
    "read_dates",
    "read_numbers",
    "read_plain",
]

Cells = NDArray[np.object_]
# What stands for no value among numbers and dates. Among words, only an empty cell does.
NO_VALUE = frozenset({"", "na", "n/a", "#n/a", "nan", "nat", "null", "none", "nil", "?", "-", "--", "."})
_FACE = "€$£¥%"  # signs before or after a number, which are left out
_SPACES = str.maketrans("", "", " \u00a0\u202f\u2009'’")  # between thousands
_WRITTEN = {
    ".": re.compile(r"[+-]?(?:[1-9]\d{0,2}(?:,\d{3})+|\d+)?(?:\.\d*)?(?:[eE][+-]?\d+)?"),
    ",": re.compile(r"[+-]?(?:[1-9]\d{0,2}(?:\.\d{3})+|\d+)?(?:,\d*)?(?:[eE][+-]?\d+)?"),
}
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:[.,]\d{3})+")  # may be thousands, or a number with a decimal sign
_DATE = re.compile(
    r"(\d{1,4})([-/.])(\d{1,2})\2(\d{1,4})(?:[T ]+(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?)?"
    r"(?:Z|[+-]\d{2}:?\d{2})?"
)
ORDERS = ("ymd", "dmy", "mdy")  # of years, months and days


class Read(NamedTuple):
    """Values (n,), with NaN or NaT where there is none, and which cells (n,) could not be read."""

    values: NDArray[Any]
    strange: NDArray[np.bool_]


def coded(cells: Iterable[Any]) -> tuple[list[Any], NDArray[np.int64]]:
    """Return the different cells in the order they are met, and the number (n,) of each cell among them. Cost: O(n)."""
    cells = list(cells)
    known = {cell: place for place, cell in enumerate(dict.fromkeys(cells))}
    return list(known), np.fromiter(map(known.__getitem__, cells), np.int64, len(cells))


def read_plain(cells: Cells) -> NDArray[np.float64] | None:
    """Return cells (n,) of text as numbers if all are written as programs do, which is fast; else None."""
    try:
        return cells.astype(np.float64)
    except ValueError:
        return None


def read_numbers(cells: Cells, *, decimal: str = ".") -> Read:
    """Return cells (n,) of text as numbers. Cost: O(n), with one look at each different cell that is not plain."""
    if decimal == "." and (plain := read_plain(cells)) is not None:
        return Read(plain, np.zeros(len(cells), np.bool_))
    different, codes = coded(cells)
    found = [_number(cell, decimal) for cell in different]
    values = np.array([np.nan if one is None else one for one in found], np.float64)
    strange = np.array([one is None for one in found], np.bool_)
    return Read(values[codes], strange[codes])


def find_decimal(cells: Iterable[str], *, default: str = ".") -> str:
    """Return the decimal sign of cells of numbers: the one under which more can be read; ``default`` if that is open.

    Only ``1,234`` or ``1.234`` in all cells leaves it open.
    """
    sure = [one for cell in set(cells) if not _THOUSANDS.fullmatch(one := _bare(cell))]
    points = sum(_WRITTEN["."].fullmatch(one) is not None for one in sure)
    commas = sum(_WRITTEN[","].fullmatch(one) is not None for one in sure)
    return default if points == commas else "." if points > commas else ","


def _bare(cell: str) -> str:
    """Return a cell without signs of currencies and percents, and without spaces."""
    return cell.strip().strip(_FACE).translate(_SPACES)


def _number(cell: str, decimal: str) -> float | None:
    """Return the number in a cell, NaN for one that says there is none; None for anything else."""
    if cell.strip().lower() in NO_VALUE:
        return float("nan")
    bare = _bare(cell)
    if _WRITTEN[decimal].fullmatch(bare) and any(map(str.isdigit, bare)):
        plain = bare.replace("," if decimal == "." else ".", "")
        return float(plain.replace(",", "."))
    if decimal == "." or not any(sign in bare for sign in ".,"):
        try:
            return float(bare)  # infinity too, which is refused later with its row
        except ValueError:
            return None
    return None


def find_date_order(cells: Iterable[str]) -> str | None:
    """Return how days, months and years follow each other in cells of text; None if some are no dates.

    Where days and months cannot be told apart, days come first between dots and months between slashes.
    """
    parts = []
    for cell in set(cells):
        found = _DATE.fullmatch(cell)
        if found is not None:
            parts.append(found.groups())
        elif cell.lower() not in NO_VALUE:
            return None
    if not parts:
        return None
    if all(len(one[0]) == 4 for one in parts):
        return "ymd"
    if any(len(one[3]) not in (2, 4) or len(one[0]) > 2 for one in parts):
        return None
    if any(int(one[0]) > 12 for one in parts):
        return "dmy"
    if any(int(one[2]) > 12 for one in parts):
        return "mdy"
    return "mdy" if all(one[1] == "/" for one in parts) else "dmy"


def read_dates(cells: Cells, *, order: str) -> Read:
    """Return cells (n,) of text as times, datetime64[us]: those on the clock, whatever their zone. Cost: O(n)."""
    different, codes = coded(cells)
    found = [_date(cell, order) for cell in different]
    values = np.array(found, "datetime64[us]")  # None becomes NaT
    strange = np.array([one is None and cell.lower() not in NO_VALUE
                        for one, cell in zip(found, different, strict=True)], np.bool_)  # fmt: skip
    return Read(values[codes], strange[codes])


def _date(cell: str, order: str) -> datetime | None:
    if order == "ymd":
        try:
            return datetime.fromisoformat(cell).replace(tzinfo=None)
        except ValueError:
            pass
    found = _DATE.fullmatch(cell)
    if found is None:
        return None
    first, _, second, third, hour, minute, moment, fraction = found.groups()
    parts = dict(zip(order, (first, second, third), strict=True))
    year = int(parts["y"])
    if len(parts["y"]) == 2:
        year += 2000 if year < 70 else 1900
    hours, minutes, seconds = (int(one or 0) for one in (hour, minute, moment))
    rest = int((fraction or "0").ljust(6, "0")[:6])
    try:
        return datetime(year, int(parts["m"]), int(parts["d"]), hours, minutes, seconds, rest)
    except ValueError:
        return None
