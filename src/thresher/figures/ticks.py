"""Ticks: where an axis of numbers or dates has labels, which ones, and whether it is logarithmic.

Labels are whole: never multiples of a number, or differences from one, that stands elsewhere. Those of dates are where
years, months, days or hours begin.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Ticks", "date_ticks", "log_ticks", "number_ticks", "scale_of", "set_axis"]

_HEAVY = 20.0  # times the median: the largest of numbers that need a logarithmic axis
_CUT = 0.5  # of that, where the ends of the tails are cut off
_LONG = 7  # letters of a label, of which an axis has few
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_YEARS, _MONTHS, _DAYS = (1, 2, 5, 10, 20, 25, 50, 100, 200, 500), (1, 2, 3, 6), (1, 2, 5, 10, 15)
_MINUTES = (1, 5, 15, 30, 60, 120, 180, 360, 720)
_DAY = 86_400_000_000  # microseconds


class Ticks(NamedTuple):
    """Places of an axis, and their labels."""

    places: list[float]
    words: list[str]


def scale_of(values: Any, *, cut: bool = False) -> str:
    """Return the scale that shows values best: "log" for a heavy tail, "zero log" if 0 is among them, or "linear".

    ``cut`` says that the largest values are left out.
    """
    found = np.asarray(values, np.float64)
    found = found[np.isfinite(found)]
    if not len(found) or found.min() < 0 or found.max() <= 0:
        return "linear"
    above = found[found > 0]
    middle = float(np.median(above))
    heavy = _HEAVY * _CUT if cut else _HEAVY
    if found.max() < heavy * middle or found.max() < 10 * heavy * above.min():
        return "linear"
    return "log" if len(above) == len(found) else "zero log"


def number_ticks(low: float, high: float, most: int = 5) -> Ticks:
    """Return ticks at round numbers between the ends, all with the same number of decimals."""
    if not (math.isfinite(low) and math.isfinite(high)) or high - low <= 1e-12 * max(abs(low), abs(high)):
        return Ticks([(low + high) / 2], [f"{(low + high) / 2:.6g}"])
    found = _evenly(low, high, most)
    if most <= 3 or max(map(len, found.words)) <= _LONG:
        return found
    return next(one for one in (_evenly(low, high, 3), _evenly(low, high, 4), found) if len(one.places) > 1)


def _evenly(low: float, high: float, most: int) -> Ticks:
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * next((one for one in (1, 2, 5, 10) if one * power >= 0.9 * rough), 10)
    numbers = np.arange(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    largest = max(abs(low), abs(high))
    tens = math.floor(math.log10(largest)) if not 1e-3 <= largest < 1e7 else 0
    places = max(0, tens - math.floor(math.log10(step) + 1e-9))
    words = [_times_ten(one * step, places, tens) for one in numbers.tolist()]
    return Ticks((numbers * step).tolist(), words)


def _times_ten(value: float, places: int, tens: int) -> str:
    """Return a number as a multiple of a power of ten, written whole where that is 0; years have no comma."""
    if not tens:
        return f"{value + 0.0:,.{places}f}" if abs(value) >= 1e4 else f"{value + 0.0:.{places}f}"
    said = f"{value / 10.0**tens + 0.0:.{places}f}"
    return "0" if not value else f"{said} × 10{str(tens).translate(_RAISED)}"


def log_ticks(low: float, high: float, most: int = 5) -> Ticks:
    """Return ticks of a logarithmic axis between two numbers above 0: powers of ten, or 1, 2 and 5 times these."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for digits in ((1, 2, 5), (1, 3), (1,)):
        places = [digit * 10.0**power for power in range(first, last + 1) for digit in digits]
        places = [one for one in places if low * (1 - 1e-9) <= one <= high * (1 + 1e-9)]
        if len(places) <= most:
            break
    apart = -(-len(places) // most)
    places = places[:: max(apart, 1)]
    if len(places) < 2:
        return number_ticks(low, high, 3)
    return Ticks(places, [_power(one) for one in places])


def _power(value: float) -> str:
    if 1e-3 * (1 - 1e-9) <= value < 1e6 * (1 - 1e-9):
        return f"{value:,.10g}"
    digits, power = f"{value:.0e}".split("e")
    return ("" if digits == "1" else f"{digits} × ") + f"10{str(int(power)).translate(_RAISED)}"


def date_ticks(first: float, last: float, most: int = 5) -> Ticks:
    """Return ticks of days since 1970 where years begin, or months, days or hours if the time is short."""
    low, high = (np.datetime64(round(one * _DAY), "us") for one in (first, last))
    choices: list[tuple[str, int, str]] = [
        *(("m", step, "") for step in _MINUTES),
        *(("D", step, "D") for step in _DAYS),
        *(("M", step, "M") for step in _MONTHS),
        *(("Y", step, "Y") for step in _YEARS),
    ]
    likely = (one for one in choices if _length(high, low, one[0]) / one[1] <= 4 * most)
    tried = ((_multiples(low, high, unit, step), shown) for unit, step, shown in likely)
    times, shown = next((one for one in tried if len(one[0]) <= most), (np.array([low]), "D"))
    if not len(times):  # a time so short that nothing begins in it
        times, shown = np.array([low]), "D"
    days = times.astype("datetime64[us]").astype(np.int64) / _DAY
    return Ticks(days.tolist(), [_say_time(one, shown) for one in times])


def _length(high: np.datetime64, low: np.datetime64, unit: str) -> float:
    days = float((high - low) / np.timedelta64(1, "D"))
    return days * {"m": 1440.0, "D": 1.0, "M": 1 / 30.4, "Y": 1 / 365.25}[unit]


def _multiples(low: np.datetime64, high: np.datetime64, unit: str, step: int) -> NDArray[Any]:
    """Return the beginnings of every so many minutes, days, months or years between two times."""
    kind = f"datetime64[{unit}]"
    every = np.arange(low.astype(kind), high.astype(kind) + np.timedelta64(1, unit))  # type: ignore[call-overload]
    if unit == "D":  # of the month: the first, and others that do not come close to the next
        month_day = (every - every.astype("datetime64[M]").astype(kind)).astype(np.int64)
        kept = (month_day % step == 0) & ((month_day <= 31 - step) | (step == 1))
    else:
        number = every.astype(np.int64) + (1970 if unit == "Y" else 0)
        kept = number % step == 0
    return np.asarray([one for one in every[kept] if low <= one <= high], kind)


def _say_time(time: np.datetime64, shown: str) -> str:
    if shown:
        return str(time.astype(f"datetime64[{shown}]"))
    day, hour = str(time.astype("datetime64[m]")).split("T")
    return day if hour == "00:00" else hour


def set_axis(
    axes: Axes, side: Literal["x", "y"], *, scale: str = "linear", at: Any = (), dates: bool = False, most: int = 5
) -> None:
    """Give an axis that has its data a scale, ticks and labels; "zero log" is linear up to the least ``at`` above 0."""
    axis = axes.xaxis if side == "x" else axes.yaxis
    set_scale, set_limits = (axes.set_xscale, axes.set_xlim) if side == "x" else (axes.set_yscale, axes.set_ylim)
    least = 0.0
    if scale == "log":
        set_scale("log")
    elif scale == "zero log":
        found = np.asarray(at, np.float64)
        least = float(found[found > 0].min())
        set_scale("symlog", linthresh=least, linscale=0.4)
    low, high = sorted(map(float, axis.get_view_interval()))
    if dates:
        ticks = date_ticks(low, high, most)
    elif scale == "log":
        ticks = log_ticks(low, high, most)
    elif scale == "zero log":
        ticks = log_ticks(least, high, most - 1)
        ticks = Ticks([0.0, *ticks.places], ["0", *ticks.words])
    else:
        ticks = number_ticks(low, high, most)
    axis.set_ticks([], minor=True)
    axis.set_ticks(ticks.places, ticks.words)
    set_limits(low, high)
