"""The tables of the cases, their goals, the figure of growth, and where they stand in docs/many_rows.md."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.many_rows.cases import CASES, JOINTS, NOISE
from benchmarks.page import computer
from benchmarks.summary import Sheet, fit_exponent
from benchmarks.tabular.goals import Goal, goal_sheet
from benchmarks.tabular.store import Row
from thresher import InvalidInput
from thresher.figures import BLUE, INK, ORANGE, Picture, draw
from thresher.memory import format_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAGE = Path("docs/many_rows.md")
BEGIN, END = "<!-- python -m benchmarks.many_rows writes from here -->", "<!-- to here -->"
COMMAND = "`python -m benchmarks.many_rows --data-dir DIR`"
OURS = "thresher"
TIMED = {"file": "command"}  # whose seconds are to be below the goal, if not those of the estimator
MEASURES = {  # what a figure is called, and how it is written
    "rmse": ("RMSE", lambda value: f"{value:.4g}"),
    "beyond": ("RMSE without the noise", lambda value: f"{value:.3g}"),
    "accuracy": ("accuracy in percent", lambda value: f"{100 * value:.2f}"),
    "seconds": ("seconds of a fit", lambda value: f"{value:.3g}" if value < 100 else f"{value:,.0f}"),
    "prediction": ("seconds of prediction", lambda value: f"{value:.2g}"),
    "memory": ("peak memory", format_bytes),
}
# A case, a measure, and its bound or the rival that bounds it. Accuracy is to be above, everything else below.
GOALS: tuple[tuple[str, str, float | str], ...] = (
    ("kin8nm", "seconds", 6.0),
    ("kin8nm", "rmse", 0.067),
    ("plant", "seconds", 4.0),
    ("magic", "seconds", 8.0),
    ("krkopt", "seconds", 20.0),
    ("letters", "seconds", 15.0),
    ("file", "seconds", 25.0),
    ("protein", "rmse", 3.10),
    ("protein", "seconds", 60.0),
    ("protein", "memory", 12 * 2.0**30),
    *(
        goal
        for name, least in (("mnist", 0.985), ("fashion", 0.904))
        for goal in (
            (name, "accuracy", least),
            (name, "seconds", "lightgbm"),
            (name, "seconds", "mlp"),
            (name, "memory", 20 * 2.0**30),
        )
    ),
    ("friedman", "rmse", "lightgbm"),
    ("friedman", "seconds", 300.0),
    ("friedman", "memory", 16 * 2.0**30),
)
EXPONENT = 1.3  # of the seconds of a fit, at most
JUMP = 1.6  # times the seconds of a fit, a little beyond the rows from which on it goes another way, at most


def sheets(rows: list[Row]) -> list[Sheet]:
    """Return the goals and one table for each case that has rows."""
    found = [name for name in CASES if _of(rows, name)]
    return [goal_sheet(goals(rows)), *(case_sheet(name, rows) for name in found)] if found else []


def case_sheet(name: str, rows: list[Row]) -> Sheet:
    """Return one line per model, or per number of rows and model where rows grow; means over splits."""
    reads = [read for read in MEASURES if any(read in row for row in _of(rows, name))]
    grows = name == "growth"
    body = []
    for part in sorted({row["split"] for row in _of(rows, name)}) if grows else [None]:
        for model in CASES[name].models:
            mine = [row for row in _of(rows, name, model.name) if part is None or row["split"] == part]
            if not mine:
                continue
            failed = [f"failed: {row['reason']}" for row in mine if row["status"] == "failed"][:1]
            cells = ["-" if failed else _spread(mine, read) for read in reads]
            body.append([*([f"{part:,}"] if grows else []), model.label, *cells, *failed])
    splits = {row["split"] for row in _of(rows, name)}
    title = CASES[name].title + (f", mean of {len(splits)} splits" if not grows and len(splits) > 1 else "")
    header = [*(["rows"] if grows else []), "model", *(MEASURES[read][0] for read in reads)]
    width = max(map(len, body))
    return Sheet(title, header + [""] * (width - len(header)), [row + [""] * (width - len(row)) for row in body])


def goals(rows: list[Row]) -> list[Goal]:
    """Return how the rows stand against the goals."""
    found = []
    for name, read, bound in GOALS:
        label, write = MEASURES[read]
        mine, most = value_of(rows, name, TIMED.get(name, OURS), read), bound
        rival = ""
        if isinstance(bound, str):
            rival = f" ({next(model.label for model in CASES[name].models if model.name == bound)})"
            most = value_of(rows, name, bound, read)
        sign = ">=" if read == "accuracy" else "<" if rival else "<="
        goal = f"{sign} {'-' if most is None else write(most)}{rival}"
        reached = None
        if _failed(rows, name):
            reached = False
        elif mine is not None and most is not None:
            reached = bool(mine >= most if sign == ">=" else mine < most if sign == "<" else mine <= most)
        found.append(Goal(f"{name}: {label}", "-" if mine is None else write(mine), goal, reached))
    slope = exponent(rows)
    whole = slope is not None and len(_of(rows, "growth", OURS)) == len(CASES["growth"].parts)
    value = "-" if slope is None else f"{slope[0]:.2f} ± {slope[1]:.2f}"
    reached = False if _failed(rows, "growth") else slope[0] <= EXPONENT if slope and whole else None
    found.append(Goal("growth: exponent of the rows in the seconds of a fit", value, f"<= {EXPONENT}", reached))
    return [*found, *jumps(rows)]


def jumps(rows: list[Row]) -> list[Goal]:
    """Return how much longer fits take a little beyond the rows from which on they go another way."""
    found = []
    seconds = {row["split"]: row["seconds"] for row in _of(rows, "growth", OURS) if row["status"] == "done"}
    for joint in JOINTS:
        before, after = (seconds.get(rows) for rows in (joint, joint + joint // 32))
        ratio = None if before is None or after is None else after / before
        what = f"growth: seconds of a fit at {joint + joint // 32:,} rows over those at {joint:,}"
        reached = False if _failed(rows, "growth") else None if ratio is None else ratio <= JUMP
        found.append(Goal(what, "-" if ratio is None else f"{ratio:.2f}", f"<= {JUMP}", reached))
    return found


def exponent(rows: list[Row], model: str = OURS) -> tuple[float, float] | None:
    """Return the exponent of n in the seconds of a fit and its standard error; None with fewer than two sizes."""
    done = [row for row in _of(rows, "growth", model) if row["status"] == "done"]
    return fit_exponent([row["split"] for row in done], [row["seconds"] for row in done]) if len(done) > 1 else None


def value_of(rows: list[Row], name: str, model: str, read: str) -> float | None:
    """Return the mean over the splits that were done, of memory the largest; None if there is none."""
    values = [row[read] for row in _of(rows, name, model) if read in row]
    return (max(values) if read == "memory" else float(np.mean(values))) if values else None


def _of(rows: list[Row], name: str, model: str | None = None) -> list[Row]:
    return [row for row in rows if row["set"] == name and model in (None, row["model"])]


def _failed(rows: list[Row], name: str) -> bool:
    return any(row["status"] == "failed" for row in _of(rows, name, OURS))


def _spread(rows: list[Row], read: str) -> str:
    """Return a figure of a model, with its standard error where several splits have one."""
    write, values = MEASURES[read][1], [row[read] for row in rows if read in row]
    if not values:
        return "-"
    if read == "memory":
        return write(max(values))
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return write(np.mean(values)) + (f" ± {100 * error if read == 'accuracy' else error:.2g}" if error else "")


def draw_growth(axes: Axes, rows: list[Row]) -> str:
    """Draw errors against rows, with the noise and without it."""
    for model, colour in ((OURS, ORANGE), ("lightgbm", BLUE)):
        done = sorted((row["split"], row) for row in _of(rows, "growth", model) if row["status"] == "done")
        label = next(one.label for one in CASES["growth"].models if one.name == model)
        for read, style in (("rmse", "o-"), ("beyond", "o--")) if done else ():
            words = label + (", without the noise" if read == "beyond" else "")
            axes.plot([n for n, _ in done], [row[read] for _, row in done], style, color=colour, label=words)
    if axes.lines:
        axes.axhline(NOISE, color=INK, linestyle=":", label="the noise")
    axes.set(xscale="log", yscale="log", xlabel="rows", ylabel="RMSE on rows never seen")
    axes.set_xscale("log", base=2)
    return "Error against the number of rows, both on logarithmic scales, with the noise and without it."


def draw_seconds(axes: Axes, rows: list[Row]) -> str:
    """Draw seconds and memory of fits against rows."""
    beside = axes.twinx()
    for model, colour in ((OURS, ORANGE), ("lightgbm", BLUE)):
        done = sorted((row["split"], row) for row in _of(rows, "growth", model) if row["status"] == "done")
        label, places = next(one.label for one in CASES["growth"].models if one.name == model), [n for n, _ in done]
        axes.plot(places, [row["seconds"] for _, row in done], "o-", color=colour, label=label)
        beside.plot(places, [row["memory"] / 2**30 for _, row in done], ":", color=colour)
        axes.plot([], [], ":", color=colour, label=f"{label}: memory")
    for joint in JOINTS if _of(rows, "growth") else ():
        axes.axvline(joint, color=INK, linewidth=0.5)
    axes.set(xlabel="rows", ylabel="seconds of a fit (lines)", yscale="log")
    beside.set(ylabel="peak memory in GiB (dotted)", yscale="log")
    axes.set_xscale("log", base=2)
    return (
        "Seconds and peak memory of a fit against the number of rows, all on logarithmic scales. "
        "Upright lines are at the numbers of rows from which on a fit goes another way."
    )


def write_page(path: Path, found: dict[str, Any]) -> None:
    """Write what a store holds between the marks of the page, and the figure beside it."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    if BEGIN not in text or END not in text:
        raise InvalidInput(f"{path} must hold the lines {BEGIN} and {END}, between which tables are written.")
    rows = [row for row in found["rows"] if row["suite"] == "many rows"]
    pictures = {"many_rows": Picture(draw_growth, ""), "many_rows_seconds": Picture(draw_seconds, "")}
    drawn = draw(pictures, rows, background="white", size=(6.4, 3.8)) if rows else []
    parts = [part for sheet in sheets(rows) for part in (f"**{sheet.title}**\n", sheet.markdown())]
    for one in drawn:
        (path.parent / "figures").mkdir(exist_ok=True)
        (path.parent / "figures" / f"{one.name}.svg").write_text(one.svg, encoding="utf-8")
        parts.append(f"![{one.seen}](figures/{one.name}.svg)\n")
    missing = [name for name in CASES if not _of(rows, name)]
    if missing:
        parts.append(f"Not measured yet: {', '.join(missing)}. {COMMAND} measures them and writes their tables here.\n")
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]  # which may hold parts of others
    written = "\n".join([f"{before}{BEGIN}\n", *parts, *([origins(found, rows)] if rows else []), f"{END}{after}"])
    path.write_text(written, encoding="utf-8")


def origins(found: dict[str, Any], rows: list[Row]) -> str:
    """Return the commits that rows were made at, and the machines."""
    lines = ["| case | commits |", "| --- | --- |"]
    for name in CASES:
        if _of(rows, name):
            lines.append(f"| {name} | {', '.join(sorted({row['commit'] for row in _of(rows, name)}))} |")
    made = dict.fromkeys((row["run"], row.get("at_once", 1)) for row in rows)
    runs = [(found["runs"][run], "" if at_once == 1 else f"; {at_once} fits at a time") for run, at_once in made]
    machines = dict.fromkeys(
        f"{computer(run['environment'])}; threads: {run['threads']}{more}.\n" for run, more in runs
    )
    return "\n".join([*lines, "", *machines])
