"""Tell: a run as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from thresher.errors import NotAvailable
from thresher.figures import Drawn, draw
from thresher.output import write_text
from thresher.pages import render_page, say_number
from thresher.runs.pictures import FIGURES
from thresher.runs.run import Run
from thresher.runs.traffic import TRAFFIC_HEAD, traffic_rows
from thresher.theory import Statement
from thresher.training import Status

__all__ = ["summarise", "write_report"]


def write_report(run: Run, path: Path, *, folder: Path | None = None) -> Path:
    """Write the page of a run; ``folder`` is where the run is, if it was written. Returns the path of the page.

    Without matplotlib the page has no figures, and says how to get them.
    """
    remark, drawn = "", list[Drawn]()
    try:
        drawn = draw(FIGURES, run) if run.trainings else []
    except NotAvailable as error:
        remark = str(error)
    page = render_page(
        "report.html",
        run=run,
        facts=list(summarise(run)),
        rows=_iteration_rows(run),
        traffic_head=TRAFFIC_HEAD,
        traffic=traffic_rows(run),
        statements=_statements(run),
        settings=_settings(run),
        figures=drawn,
        remark=remark,
        folder=str(folder or ""),
    )
    return write_text(path, page, remedy="Choose another file for the report.")


def summarise(run: Run) -> Iterator[tuple[str, str]]:
    """Yield what a run comes to, as pairs of a number and what it means."""
    trainings = run.trainings
    if not trainings:
        yield "infinite", "width: the limit was fitted, no network was trained"
        yield from _tested(run)
        return
    converged = sum(one.status == Status.CONVERGED for one in trainings)
    yield (trainings[0].status.value if len(trainings) == 1 else f"{converged} of {len(trainings)} converged", "status")
    yield from _tested(run)
    yield str(max(len(one.history) - 1 for one in trainings)), "iterations"
    records = [record for one in trainings for record in one.history]
    yield f"{sum(sum(record.seconds.values()) for record in records):.3g} s", "of training"
    shares = (one.history[-1].residual / one.history[0].residual for one in trainings if one.history[0].residual)
    share = max(shares, default=0.0)
    yield f"{share:.1e}", "residual left, of the first"
    later = [record for one in trainings for record in one.history[2:]]
    if later:
        yield f"{sum(r.looks for r in later) / len(later) / run.pairs:.1e}", "of a dense step's looks, per iteration"


def _tested(run: Run) -> Iterator[tuple[str, str]]:
    if run.test is not None:
        value = f"{run.test.value:.1%}" if run.test.measure == "accuracy" else f"{run.test.value:.4g}"
        guess = f"{run.test.guess:.1%}" if run.test.measure == "accuracy" else f"{run.test.guess:.4g}"
        yield value, f"{run.test.measure} on {run.test.rows:,} unseen rows; a constant guess: {guess}"


def _iteration_rows(run: Run) -> list[tuple[str, list[list[str]]]]:
    """Return the table of each training: its name and the cells of its rows."""
    tables = []
    for one in run.trainings:
        rows = [
            [
                str(record.iteration) if record.iteration else "start",
                f"{record.loss:.3g}",
                "" if record.iteration == 0 else f"{record.contraction:.2g}",
                f"{record.looks:,}",
                f"{record.looks / run.pairs:.1e}",
                f"{record.firing:,}",
                f"{record.flips:,}",
                f"{sum(record.seconds.values()):.3f}",
                record.solve,
            ]
            for record in one.history
        ]
        tables.append((one.name, rows))
    return tables


def _statements(run: Run) -> list[tuple[Statement, str]]:
    """Return the worst of each statement over all iterations, and where that was."""
    found: dict[str, tuple[Statement, str]] = {}
    for one in run.trainings:
        for record in one.history:
            place = "start" if record.iteration == 0 else f"iteration {record.iteration}"
            place += f", {one.name}" if len(run.trainings) > 1 else ""
            for statement in record.statements:
                known = found.get(statement.name)
                if known is None or _badness(statement) < _badness(known[0]):
                    found[statement.name] = (statement, place)
    return list(found.values())


def _badness(one: Statement) -> tuple[bool, bool, float]:
    """Sort key: broken ones first, then those that do not hold, then those with the least room."""
    return not one.broken, one.holds, one.slack


def _settings(run: Run) -> list[tuple[str, str]]:
    told = {**run.network, **{key: value for key, value in run.options.items() if key not in run.network}}
    told |= {f"data: {key}": value for key, value in run.data.items()} | dict(run.environment)
    return [(key, say_number(value) if type(value) is float else f"{value}") for key, value in told.items()]
