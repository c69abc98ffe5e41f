"""Parts of times that pictures show: years, months, weekdays and hours; what recurs apart from what passes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["calendar"]

_PERIODS = 12  # of the time itself, about
_LONG, _MEDIUM, _SHORT = 3.0, 0.4, 1.0  # years
_LEAST = 5  # times a month, a weekday or an hour, else nothing is said of them
_ENOUGH = 36  # times in an hour or a month, else several are one group
_DAY = 86_400_000_000  # microseconds
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_QUARTERS = ("Jan-Mar", "Apr-Jun", "Jul-Sep", "Oct-Dec")
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def calendar(times: NDArray[Any]) -> Iterator[tuple[str, NDArray[np.int64], list[float], list[str]]]:
    """Yield parts of times (n,): name, the group (n,) of each time, and the groups' mean days since 1970 and names.

    The time itself goes by years, quarters, months or days; by the whole of it if that is shorter. Parts that recur are
    the month of times over more than a year, the weekday, and the hour where times have some.
    """
    days = times.astype(np.int64) / _DAY
    months = times.astype("datetime64[M]").astype(np.int64)
    years = float(days.max() - days.min()) / 365.25
    yield ("time", *_periods(days, months, years))
    weekday = (times.astype("datetime64[D]").astype(np.int64) + 3) % 7
    hour = np.floor(days % 1 * 24 + 1e-6).astype(np.int64) % 24
    named: list[tuple[str, NDArray[np.int64], tuple[str, ...]]] = []
    if years > _SHORT:
        step = 1 if len(times) >= 12 * _ENOUGH else 3
        named.append(("month", months % 12 // step, _MONTHS if step == 1 else _QUARTERS))
    if years * 365.25 > 7:
        named.append(("weekday", weekday, _WEEKDAYS))
    if len(np.unique(hour)) > 1:
        step = next((one for one in (1, 2, 3) if len(times) * one >= 24 * _ENOUGH), 6)
        named.append(("hour", hour // step, tuple(f"{one}:00" for one in range(0, 24, step))))
    for part, numbers, words in named:
        groups, codes = np.unique(numbers, return_inverse=True)
        if len(groups) > 1 and len(times) >= _LEAST * len(groups):
            yield part, codes, groups.astype(float).tolist(), [words[k] for k in groups]


def _periods(
    days: NDArray[np.float64], months: NDArray[np.int64], years: float
) -> tuple[NDArray[np.int64], list[float], list[str]]:
    """Return the period (n,) of each time, and where periods are and what they are called.

    Of long times they are whole years, so that no season is in one and not in another; the last may be longer.
    """
    step = 1
    if years >= _LONG:
        step = 12 * max(1, round(years / _PERIODS))
        numbers = np.minimum((months - months.min()) // step, int(years * 12 + 0.5) // step - 1)
    elif years >= _MEDIUM:
        likely = (one for one in ((3, 6) if years > 1.1 else (1, 3)) if len(months) * one >= _ENOUGH * 12 * years)
        step = next(likely, 6)
        numbers = (months - months.min()) // step
    else:
        low, high = days.min(), days.max()
        numbers = np.minimum((days - low) / (high - low or 1.0) * _PERIODS, _PERIODS - 1).astype(np.int64)
    groups, codes = np.unique(numbers, return_inverse=True)
    at = [float(days[codes == k].mean()) for k in range(len(groups))]
    if years >= _MEDIUM:
        ends = [[str(np.datetime64(int(side(months[codes == k])), "M")) for side in (min, max)] for k in range(len(at))]
        words = [first if first == last else f"{first} to {last}" for first, last in ends]
    else:
        words = [str(np.datetime64(round(one * _DAY), "us").astype("datetime64[D]")) for one in at]
    return codes, at, words
