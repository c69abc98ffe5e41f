"""Dates as text, and the numbers that become of them, as steps of an ONNX graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from thresher.export.graph import Graph

__all__ = ["PARTS", "add_date"]

_TIME = (
    r"(?:[T ]+\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?:[ \x{a0}\x{202f}]?[AaPp]\.?[Mm]\.?)?(?:Z|[+-]\d{2}:?\d{2})?)?"
)
_SIGNS = ("-", "/", ".")
_PLAIN = "2000-01-01"  # stands for what is no date, until that is told
_MONDAY = 4.0  # days from the beginning of 1970 to the first Monday
_SHARES = ("year", "week", "day")
PARTS = ("day", "year", *(f"{way} of {name}" for name in _SHARES for way in ("sine", "cosine")))


def add_date(graph: Graph, cells: str, about: dict[str, Any]) -> list[str]:
    """Return the parts (k, 1) of dates as text (k, 1), those of what is no date by their means; and which are none.

    Dates are read as :func:`thresher.tables.cells.read_dates` reads them: those on the clock, whatever their zone.
    """
    dates = "|".join(rf"\d{{1,4}}{sign}\d{{1,2}}{sign}\d{{1,4}}" for sign in ("-", "/", r"\."))
    written = graph("RegexFullMatch", cells, pattern=f"(?:{dates}){_TIME}")
    text = graph("Where", written, cells, graph.put([[_PLAIN]]))
    day, time = _day_and_time(graph, text)
    year, month, number, right = _day(graph, day, about["order"])
    share, in_day = _time(graph, text, time)
    valid = graph("And", graph("And", written, right), in_day)
    first = _days(graph, year, graph.double(1), graph.double(1))
    days = _days(graph, year, month, number)
    shares = {
        "year": graph("Div", graph("Sub", days, first), graph.double(365.25)),
        "week": _week(graph, days),
        "day": share,
    }
    parts = {"day": graph("Add", days, share), "year": year}
    for name, one in shares.items():
        angle = graph("Mul", one, graph.double(2 * np.pi))
        for way, value in (("sine", graph("Sin", angle)), ("cosine", graph.cosine(angle))):
            parts[f"{way} of {name}"] = _round(graph, value)
    graph.cells[cells] = parts["day"], valid
    both = zip(about["parts"], about["fill"], strict=True)
    made = [graph("Where", valid, parts[part], graph.double(fill)) for part, fill in both]
    return [*made, graph.cast(graph("Not", valid), np.float64)] if about["indicator"] else made


def _split(graph: Graph, text: str, sign: str, count: int) -> list[str]:
    """Return the first pieces (k, 1) of text (k, 1) between signs; "" where there are fewer."""
    longer = graph("StringConcat", text, graph.put([[sign * (count - 1)]])) if count > 1 else text
    pieces, _ = graph.several("StringSplit", longer, names=2, delimiter=sign)
    return [graph("Gather", pieces, graph.put(place), axis=2) for place in range(count)]


def _before(graph: Graph, text: str, signs: str) -> str:
    """Return what of text (k, 1), of which something is left, stands before all of these signs."""
    for sign in signs:
        text = _split(graph, text, sign, 1)[0]
    return text


def _chosen(graph: Graph, where: str, one: list[str], other: list[str]) -> list[str]:
    return [graph("Where", where, *both) for both in zip(one, other, strict=True)]


def _day_and_time(graph: Graph, text: str) -> tuple[str, str]:
    """Return the texts (k, 1) of the day and of the time, which is "0" where there is none."""
    day, time = _split(graph, text, "T", 2)
    there = graph("RegexFullMatch", time, pattern=".+")
    before, after = _words(graph, day, 2)
    return before, graph("Where", there, _words(graph, time, 1)[0], after)


def _words(graph: Graph, text: str, count: int) -> list[str]:
    """Return the first words (k, 1) of text (k, 1), between any number of spaces; "0" where there are fewer."""
    longer = graph("StringConcat", text, graph.put([[" 0" * count]]))
    pieces, _ = graph.several("StringSplit", longer, names=2)
    return [graph("Gather", pieces, graph.put(place), axis=2) for place in range(count)]


def _numbers(graph: Graph, text: str) -> str:
    """Return text (k, 1) of digits as numbers; 0 where it has none."""
    there = graph("RegexFullMatch", text, pattern=r"\d+(?:\.\d*)?")
    return graph.cast(graph("Where", there, text, graph.put([["0"]])), np.float64)


def _time(graph: Graph, text: str, time: str) -> tuple[str, str]:
    """Return the share of the day that has passed (k, 1), and where the time is one that there is."""
    afternoon = graph("RegexFullMatch", text, pattern=r".*[Pp]\.?[Mm].*")
    halved = graph("RegexFullMatch", text, pattern=r".*[AaPp]\.?[Mm].*")
    clock = _before(graph, time, "AaPpZ+-\u00a0\u202f")
    hour, minute, second = _split(graph, clock, ":", 3)
    whole, rest = _chosen(
        graph,
        graph("RegexFullMatch", second, pattern=".*,.*"),
        _split(graph, second, ",", 2),
        _split(graph, second, ".", 2),
    )
    second = graph("StringConcat", graph("StringConcat", whole, graph.put([["."]])), rest)
    hours, minutes, seconds = (_numbers(graph, one) for one in (hour, minute, second))
    right = _between(
        graph,
        hours,
        graph("Where", halved, graph.double(1), graph.double(0)),
        graph("Where", halved, graph.double(12), graph.double(23)),
    )
    right = graph("And", right, _between(graph, minutes, graph.double(0), graph.double(59)))
    right = graph("And", right, graph("Less", seconds, graph.double(60)))
    twelve = graph("Mul", graph.double(12), graph.cast(afternoon, np.float64))
    hours = graph("Where", halved, graph("Add", graph("Mod", hours, graph.double(12), fmod=1), twelve), hours)
    minutes = graph("Add", graph("Mul", hours, graph.double(60)), minutes)
    share = graph("Div", graph("Add", graph("Mul", minutes, graph.double(60)), seconds), graph.double(86_400))
    return share, right


def _between(graph: Graph, value: str, low: str, high: str) -> str:
    return graph("And", graph("GreaterOrEqual", value, low), graph("LessOrEqual", value, high))


def _day(graph: Graph, text: str, order: str) -> tuple[str, str, str, str]:
    """Return year, month and day (k, 1) of the text of a day, and where there is such a day."""
    first, second, third = _split(graph, text, _SIGNS[0], 3)
    for sign in _SIGNS[1:]:
        there = graph("RegexFullMatch", text, pattern=rf".*\x{{{ord(sign):x}}}.*")
        first, second, third = _chosen(graph, there, _split(graph, text, sign, 3), [first, second, third])
    ordered = dict(zip(order, (first, second, third), strict=True))
    ahead = graph("RegexFullMatch", first, pattern=r"\d{4}")
    year, month, day = _chosen(graph, ahead, [first, second, third], [ordered[one] for one in "ymd"])
    short = graph("RegexFullMatch", year, pattern=r"\d{2}")
    years, months, days = (_numbers(graph, one) for one in (year, month, day))
    century = graph("Where", graph("Less", years, graph.double(70)), graph.double(2000), graph.double(1900))
    years = graph("Where", short, graph("Add", years, century), years)
    right = graph(
        "And",
        _between(graph, years, graph.double(1000), graph.double(2999)),
        _between(graph, months, graph.double(1), graph.double(12)),
    )
    one, december = graph.double(1), graph("GreaterOrEqual", months, graph.double(12))
    next_year = graph("Add", years, graph.cast(december, np.float64))
    next_month = graph("Where", december, one, graph("Add", months, one))
    length = graph("Sub", _days(graph, next_year, next_month, one), _days(graph, years, months, one))
    return years, months, days, graph("And", right, _between(graph, days, one, length))


def _days(graph: Graph, year: str, month: str, day: str) -> str:
    """Return the days from the beginning of 1970 to a day; years begin in March, so that leap days end them."""

    def floor(value: str, by: float) -> str:
        return graph("Floor", graph("Div", value, graph.double(by)))

    early = graph.cast(graph("Less", month, graph.double(3)), np.float64)
    years = graph("Sub", year, early)
    months = graph("Add", graph("Sub", month, graph.double(3)), graph("Mul", early, graph.double(12)))
    before = floor(graph("Add", graph("Mul", months, graph.double(153)), graph.double(2)), 5)
    leap = graph("Add", graph("Sub", floor(years, 4), floor(years, 100)), floor(years, 400))
    found = graph("Add", graph("Mul", years, graph.double(365)), graph("Add", leap, before))
    return graph("Add", found, graph("Sub", day, graph.double(719_469)))


def _round(graph: Graph, value: str) -> str:
    """Return a value with nine decimals, as the encoder does."""
    scale = graph.double(1e9)
    return graph("Div", graph("Round", graph("Mul", value, scale)), scale)


def _week(graph: Graph, days: str) -> str:
    """Return the share of the week (k, 1) that has passed on a day, from Monday on."""
    weeks = graph("Div", graph("Sub", days, graph.double(_MONDAY)), graph.double(7))
    return graph("Sub", weeks, graph("Floor", weeks))
