"""Cells of text as dates: one way of writing them per column, found by looking at all of its cells."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from datetime import datetime

import numpy as np

from thresher.tables.cells import FEW, NO_VALUE, Cells, Read, coded

__all__ = ["ORDERS", "find_date_order", "read_dates"]

ORDERS = {  # in which years, months and days may follow each other, and what is said of them
    "ymd": "the year first",
    "dmy": "the day first",
    "mdy": "the month first",
    "month": "a year and a month",
    "quarter": "a year and a quarter",
    "named": "the month as a word",
}
_YEARS = range(1000, 3000)
_PIVOT = 70  # years of two digits from which on they are of the last century
_LONGEST = 60  # letters of a date
_TIME = (
    r"(?:[T ]+(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?"
    r"(?:[ \u00a0\u202f]?(?P<half>[AaPp])\.?[Mm]\.?)?(?: ?(?:UTC|GMT|[+-]\d{2}(?::?\d{2})?))?)?"
    r"(?:Z|[+-]\d{2}:?\d{2})?"
)
_NUMBERS = re.compile(r"(\d{1,4})([-/.])(\d{1,2})\2(\d{1,4})" + _TIME)
# Without a day, years are those that people write of: 1203-05 and SET 1203 are rather numbers of something.
_YEAR = r"1[89]\d\d|2[01]\d\d"
_MONTH = re.compile(rf"(?P<y>{_YEAR})[-/](?P<m>0[1-9]|1[0-2])")
_QUARTER = re.compile(rf"(?P<y>{_YEAR})[- /]?[Qq](?P<q>[1-4])|[Qq](?P<quarter>[1-4])[- /]?(?P<year>{_YEAR})")
# In English, German, French and Spanish, without accents.
_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan januar janner jaenner janvier janv enero ene",
            "february feb februar feber fevrier fevr fev febrero",
            "march mar marz maerz mrz mars marzo",
            "april apr avril avr abril abr",
            "may mai mayo",
            "june jun juni juin junio",
            "july jul juli juillet juil julio",
            "august aug aout agosto ago",
            "september sep sept septembre septiembre setiembre set",
            "october oct oktober okt octobre octubre",
            "november nov novembre noviembre",
            "december dec dezember dez decembre diciembre dic",
        ),
        start=1,
    )
    for name in names.split()
}
_NAME = rf"(?P<m>{'|'.join(sorted(_MONTHS, key=len, reverse=True))})\.?"
_GAP, _OF = r"\s*[-/.,]?\s*", r"(?:(?:de|del|of)\s+)?"
_DAY, _SHORT, _LONG = r"(?P<d>\d{1,2})(?:st|nd|rd|th|er)?", r"'?(?P<y>\d{4}|\d{2})", r"(?P<y>\d{4})"
_NAMED = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_DAY}\.?{_GAP}{_OF}{_NAME}{_GAP}{_OF}{_SHORT},?{_TIME}",
        rf"{_NAME}{_GAP}{_DAY}(?:\s*[-/.,]\s*|\s+){_SHORT},?{_TIME}",
        rf"{_LONG}{_GAP}{_NAME}{_GAP}{_DAY}\.?,?{_TIME}",
        rf"{_NAME}{_GAP}{_OF}(?P<y>{_YEAR})",
        rf"(?P<y>{_YEAR}){_GAP}{_NAME}",
    )
]


def find_date_order(cells: Iterable[str]) -> str | None:
    """Return how cells of text are dates, one of ``ORDERS``; None if more than a few are none.

    Days, months and years that are numbers have one sign between them. Years of two digits stand after slashes, after
    the name of a month, or after dots if days and months have two digits as well. Where days and months cannot be told
    apart, days come first between dots and months between slashes.

    Cost: O(n), with a closer look at each different cell.
    """
    different = [cell for cell in dict.fromkeys(cells) if cell.lower() not in NO_VALUE]
    for order, find in (("numbers", _NUMBERS.fullmatch), ("month", _MONTH.fullmatch), ("quarter", _QUARTER.fullmatch),
                        ("named", _named)):  # fmt: skip
        found = [one for one in map(find, different) if one is not None]
        if found and len(different) - len(found) < FEW * len(different):
            if order == "month":
                return None if _are_seasons(found) else order
            return _order_of([one.group(1, 2, 3, 4) for one in found]) if order == "numbers" else order
    return None


def _order_of(found: list[tuple[str, ...]]) -> str | None:
    """Return the order of dates as first number, sign, second and third number; None if they are no dates."""
    if len({sign for _, sign, _, _ in found}) > 1:
        return None
    sign, lengths = found[0][1], {(len(first), len(second), len(third)) for first, _, second, third in found}
    if all(first == 4 for first, _, _ in lengths):
        return "ymd"
    if any(first > 2 or third not in (2, 4) for first, _, third in lengths):
        return None
    if any(
        third == 2 and (sign == "-" or (sign == "." and (first, second) != (2, 2))) for first, second, third in lengths
    ):
        return None
    if sum(int(first) > 12 for first, *_ in found) > sum(int(second) > 12 for _, _, second, _ in found):
        return "dmy"
    if any(int(second) > 12 for _, _, second, _ in found):
        return "mdy"
    return "mdy" if sign == "/" else "dmy"


def _are_seasons(found: list[re.Match[str]]) -> bool:
    """Return whether all of several months are but the next year: 2003-04, 2010-11."""
    return len(found) > 1 and all((int(one["y"]) + 1) % 100 == int(one["m"]) for one in found)


def read_dates(cells: Cells, *, order: str) -> Read:
    """Return cells (n,) of text as times, datetime64[us]: those on the clock, whatever their zone. Cost: O(n).

    A month is its first day, and so is a quarter. Dates that begin with a year of four digits, as 2024-12-31, are read
    whatever the order.
    """
    different, codes = coded(cells)
    found = [_date(cell, order) for cell in different]
    values = np.array(found, "datetime64[us]")  # None becomes NaT
    strange = np.array([one is None and cell.lower() not in NO_VALUE
                        for one, cell in zip(found, different, strict=True)], np.bool_)  # fmt: skip
    return Read(values[codes], strange[codes])


def _date(cell: str, order: str) -> datetime | None:
    if (found := _NUMBERS.fullmatch(cell)) is not None:
        first, _, second, third = found.group(1, 2, 3, 4)
        order = "ymd" if len(first) == 4 else order
        if order not in ("ymd", "dmy", "mdy"):
            return None
        parts = dict(zip(order, (first, second, third), strict=True))
        return _time(parts["y"], int(parts["m"]), int(parts["d"]), found)
    if order == "month" and (found := _MONTH.fullmatch(cell)) is not None:
        return datetime(int(found["y"]), int(found["m"]), 1)
    if order == "quarter" and (found := _QUARTER.fullmatch(cell)) is not None:
        return datetime(int(found["year"] or found["y"]), 3 * int(found["quarter"] or found["q"]) - 2, 1)
    if order == "named" and (found := _named(cell)) is not None:
        return _time(found["y"], _MONTHS[found["m"].lower()], int(found.groupdict().get("d") or 1), found)
    return None


def _named(cell: str) -> re.Match[str] | None:
    """Return the parts of a date with the name of a month, if a cell is one."""
    if len(cell) > _LONGEST:
        return None
    if not cell.isascii():
        cell = "".join(one for one in unicodedata.normalize("NFKD", cell) if not unicodedata.combining(one))
    return next((found for pattern in _NAMED if (found := pattern.fullmatch(cell)) is not None), None)


def _time(year: str, month: int, day: int, found: re.Match[str]) -> datetime | None:
    """Return a day with the time that was found with it; None if there is no such day or time."""
    clock = found.groupdict()
    hours, minutes, seconds = (int(clock.get(name) or 0) for name in ("hour", "minute", "second"))
    if half := clock.get("half"):
        if not 1 <= hours <= 12:
            return None
        hours = hours % 12 + 12 * (half in "Pp")
    whole = int(year)
    if len(year) == 2:
        whole += 2000 if whole < _PIVOT else 1900
    rest = int((clock.get("fraction") or "0").ljust(6, "0")[:6])
    try:
        return datetime(whole, month, day, hours, minutes, seconds, rest) if whole in _YEARS else None
    except ValueError:
        return None
