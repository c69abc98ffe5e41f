"""What the rows of a run say, as tables for the terminal and for the page."""

from __future__ import annotations

import math
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table
from rich.text import Text

from benchmarks.methods import OURS
from benchmarks.problems import load_problem
from thresher.memory import format_bytes

Row = dict[str, Any]
DENSE = ("cgh19", "bpsw21", "dense_pairs", "dense_hadamard")
FINEST = "1e-06"
_GOALS = {"squared_error": "relative residual", "log_loss": "mean cross-entropy"}


class Sheet(NamedTuple):
    """A table: a title, a header, rows of text; the first ``left`` columns are set left, the others right.

    Where two columns or more name a row, a page shows the first only where it differs from the row above.
    """

    title: str
    header: list[str]
    rows: list[list[str]]
    left: int = 1

    def rich(self) -> Table:
        table = Table(title=self.title, title_justify="left")
        for place, name in enumerate(self.header):
            table.add_column(name, justify="left" if place < self.left else "right")
        for row in self.rows:
            table.add_row(*(Text(cell.replace("**", ""), style="bold" if "**" in cell else "") for cell in row))
        return table

    def markdown(self) -> str:
        rows = [list(row) for row in self.rows]
        for above, row in zip(self.rows, rows[1:], strict=False):
            if self.left > 1 and row[0] == above[0]:
                row[0] = ""
        lines = [self.header, ["---"] * self.left + ["---:"] * (len(self.header) - self.left), *rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def tables(case: str, result: dict[str, Any]) -> list[Sheet]:
    """Return the tables of a case: what was measured, then how it stands against the goals."""
    make = {
        "race": race_tables,
        "cross_entropy": race_tables,
        "width": width_tables,
        "problems": problem_tables,
    }[case]
    return [sheet for sheet in make(result) if sheet.rows]


def race_tables(result: dict[str, Any]) -> list[Sheet]:
    levels = list(next((row["levels"] for row in result["rows"] if row["levels"]), {}))
    finest = levels[-1] if levels else FINEST
    rows = sorted(result["rows"], key=lambda row: (_seconds_to(row, finest), row.get("relative") or math.inf))
    where, goal = _where(rows[0]), _GOALS[rows[0].get("loss", "squared_error")]
    times = [
        [
            row["label"],
            *(_reached(row, level) for level in levels),
            _seconds(row.get("processor_seconds")),
            _passes(row),
            ending(row),
        ]
        for row in rows
    ]
    ran = [row for row in rows if row.get("split")]
    costs = [
        [row["label"], row["cost"], _seconds(row["seconds_per_iteration"]), _memory(row), _counters(row), _split(row)]
        for row in ran
    ]
    return [
        Sheet(f"Seconds (iterations) to a {goal}, {where}", ["method", *levels, "processor s", "passes", "end"], times),
        Sheet(
            f"What an iteration takes, {where}",
            ["method", "cost", "s / iteration", "memory", "operations in total", "where the time goes"],
            costs,
        ),
        _goals(race_goals(result, finest)),
    ]


def race_goals(result: dict[str, Any], finest: str = FINEST) -> list[tuple[str, str, str, bool]]:
    """Return (what, value, goal, reached): how many times faster we are than each kind of rival, by start rows."""
    rows = {row["method"]: row for row in result["rows"]}
    mine = [(rows[name]["label"], _seconds_to(rows[name], finest)) for name in OURS if name in rows]
    first_order = [row for row in rows.values() if row["order"] == "first" and row.get("levels")]
    goals = {"cgh19": 20.0, "bpsw21": 20.0}  # the others are shown without a goal
    rivals = [(rows[name], goals.get(name, 0.0)) for name in DENSE if name in rows]
    if first_order:
        best = min(first_order, key=lambda row: _seconds_to(row, finest))
        rivals.append((best, 100.0 if finest == FINEST else 0.0))
    found = []
    for (label, ours), (rival, goal) in product(mine, rivals):
        theirs = _seconds_to(rival, finest)
        stopped = rival["status"] == "not reached" and rival.get("ended", "").startswith("not reached in")
        more = "" if math.isfinite(theirs) else "more than " if stopped else "not reached; allowed "
        ratio = (theirs if math.isfinite(theirs) else rival["seconds_allowed"]) / ours
        kind = ", the fastest first-order method" if rival["order"] == "first" else ""
        shown = f">= {goal:g}" if goal else ""
        found.append((f"{label}: times faster than {rival['label']}{kind}", f"{more}{ratio:.3g}", shown, ratio >= goal))
    return _only_full(result, found)


def width_tables(result: dict[str, Any]) -> list[Sheet]:
    rows = result["rows"]
    names = list(dict.fromkeys(row["method"] for row in rows))
    labels = {row["method"]: row["label"] for row in rows}
    widths = sorted({row["width"] for row in rows})
    place = {(row["method"], row["width"]): row for row in rows}
    where = f"n = {rows[0]['inputs']}, d = {rows[0]['dimension']}"
    sheets = []
    for what, read, show in (
        ("Seconds per iteration", "seconds_per_iteration", _seconds),
        ("Looks per iteration", "looks_per_iteration", lambda value: f"{value:.3g}"),
        ("Memory beyond an idle process", "memory", format_bytes),
    ):
        body = [[f"{width:,}", *(_cell(place.get((name, width)), read, show) for name in names)] for width in widths]
        fitted = [exponent_of(rows, name, read) for name in names]
        body.append(["exponent", *("" if one is None else f"{one[0]:.2f} ± {one[1]:.2f}" for one in fitted)])
        sheets.append(Sheet(f"{what}, {where}", ["width", *(labels[name] for name in names)], body))
    unknown = [row for row in rows if value_of(row, "seconds_per_iteration") is None]
    capped = [[row["label"], f"{row['width']:,}", ending(row)] for row in unknown]
    return [*sheets, Sheet("Not measured", ["method", "width", "why"], capped), _goals(width_goals(result))]


def width_goals(result: dict[str, Any]) -> list[tuple[str, str, str, bool]]:
    found = []
    for name, least, most in (*((name, -math.inf, 0.6) for name in OURS), *((name, 0.9, 1.1) for name in DENSE)):
        fitted = exponent_of(result["rows"], name, "seconds_per_iteration")
        if fitted is not None:
            slope, error = fitted
            label = next(row["label"] for row in result["rows"] if row["method"] == name)
            goal = f"{least:g} to {most:g}" if math.isfinite(least) else f"<= {most:g}"
            what = f"exponent of the width in seconds per iteration, {label}"
            found.append((what, f"{slope:.2f} ± {error:.2f}", goal, least <= slope <= most))
    return _only_full(result, found)


def problem_tables(result: dict[str, Any]) -> list[Sheet]:
    """Return, for each problem, our seconds beside those of the fastest rival that trains a network.

    The faster of ours is compared with it, as it is the fastest of all others.
    """
    levels = list(next((row["levels"] for row in result["rows"] if row["levels"]), {}))
    labels = dict.fromkeys(row["label"] for row in result["rows"] if row["method"] in OURS)
    body, details = [], []
    for name in dict.fromkeys(row["problem"] for row in result["rows"]):
        rows = [row for row in result["rows"] if row["problem"] == name]
        label, level = load_problem(name).LABEL, FINEST
        mine = [row for row in rows if row["method"] in OURS]
        ours = min(mine, key=lambda row: _seconds_to(row, level))
        rivals = [row for row in rows if row["method"] not in OURS and row["order"] != "none"]
        best = min(rivals, key=lambda row: _seconds_to(row, level))
        a, b = _seconds_to(ours, level), _seconds_to(best, level)
        if math.isfinite(a) and math.isfinite(b):
            standing = f"won, {b / a:.2g} times faster" if a < b else f"**lost**, {a / b:.2g} times slower"
        elif math.isfinite(a) != math.isfinite(b):
            standing = "won: no other method reached it" if math.isfinite(a) else "**lost**: we did not reach it"
        else:
            standing = "no method reached it"
        theirs = f"{_reached(best, level)} {best['label']}" if math.isfinite(b) else "none"
        body.append([label, _where(rows[0]), *(_reached(row, level) for row in mine), theirs, standing])
        details += [[label, row["label"], *(_reached(row, one) for one in levels), ending(row)] for row in rows]
    return [
        Sheet(
            f"Seconds (iterations) to {FINEST}: ours and the fastest rival",
            ["problem", "size", *labels, "rival", ""],
            body,
        ),
        Sheet("Every method", ["problem", "method", *levels, "end"], details, left=2),
    ]


def exponent_of(rows: list[Row], method: str, read: str) -> tuple[float, float] | None:
    """Return the exponent of the width in what was read off one method's rows, and its standard error."""
    points = [(row["width"], value_of(row, read)) for row in rows if row["method"] == method]
    points = [(width, value) for width, value in points if value]
    return fit_exponent(*zip(*points, strict=True)) if len(points) > 2 else None


def fit_exponent(widths: Any, values: Any) -> tuple[float, float]:
    """Return the slope of log(values) over log(widths) by least squares, and its standard error."""
    x, y = np.log(np.asarray(widths, float)), np.log(np.asarray(values, float))
    slope, intercept = np.polyfit(x, y, 1)
    spread = math.sqrt(float(((y - slope * x - intercept) ** 2).sum()) / max(len(x) - 2, 1))
    return float(slope), spread / float(np.linalg.norm(x - x.mean()))


def value_of(row: Row | None, read: str) -> float | None:
    """Return a number of a row; memory is the peak beyond what the process took before the run."""
    if row is None or not row.get(read):
        return None
    if read != "memory":
        return row[read]
    taken = row["memory"]["peak"] - row["memory"]["before"]
    return taken if taken > 0 else None  # what tuning had taken and kept was enough


def ending(row: Row) -> str:
    """Return in words how a run ended."""
    if row["status"] in ("not available", "refused", "failed"):
        return f"{row['status']}: {row['reason']}"
    if row["status"] == "reached":
        return "reached"
    return f"{row['ended']} (lowest: {row['lowest']:.1e})"


def _where(row: Row) -> str:
    power = math.log2(row["width"])
    width = f"2^{power:.0f}" if power.is_integer() else f"{row['width']:,}"
    return f"n = {row['inputs']}, d = {row['dimension']}, m = {width}"


def _seconds_to(row: Row, level: str) -> float:
    crossed = row["levels"].get(level)
    return crossed["seconds"] if crossed else math.inf


def _reached(row: Row, level: str) -> str:
    crossed = row["levels"].get(level)
    return f"{_seconds(crossed['seconds'])} ({crossed['iterations']})" if crossed else "-"


def _passes(row: Row) -> str:
    """Return how often all pre-activations were computed, in all."""
    looks = row.get("counters", {}).get("looks", 0)
    return f"{looks / (row['inputs'] * row['width']):.3g}" if looks else "-"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _memory(row: Row) -> str:
    value = value_of(row, "memory")
    return "-" if value is None else format_bytes(value)


def _cell(row: Row | None, read: str, show: Any) -> str:
    value = value_of(row, read)
    return "-" if value is None else show(value)


def _counters(row: Row) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {count:.2g}" for name, count in row["counters"].items() if count)


def _split(row: Row) -> str:
    total = sum(row["split"].values()) or 1.0
    shares = sorted(row["split"].items(), key=lambda item: -item[1])
    return ", ".join(f"{step} {share / total:.0%}" for step, share in shares if share >= 0.01 * total)


def _goals(found: list[tuple[str, str, str, bool]]) -> Sheet:
    rows = [
        [what, value, goal, "reached" if reached else "**missed**"] if goal else [what, value, "", ""]
        for what, value, goal, reached in found
    ]
    return Sheet("Against the goals", ["measured", "value", "goal", ""], rows)


def _only_full(result: dict[str, Any], found: list[tuple[str, str, str, bool]]) -> list[tuple[str, str, str, bool]]:
    """Goals are for the full sizes; smaller runs show their figures without one."""
    return found if result["tier"] == "full" else [(what, value, "", True) for what, value, _, _ in found]
