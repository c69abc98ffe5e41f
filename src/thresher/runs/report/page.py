"""Tell: a run as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from thresher.errors import NotAvailable
from thresher.figures import Drawn, draw
from thresher.memory import format_bytes
from thresher.output import write_text
from thresher.pages import find_jinja, render_page, say_number
from thresher.runs.evaluation import MOST_ROWS, Evaluation
from thresher.runs.influence import Effect
from thresher.runs.record import CATEGORIES, LEFT_OUT, LOSS, OF_TEST, PARTS, WHY, Record
from thresher.runs.report import first_screen, words
from thresher.runs.report.effect_pictures import effect_pictures
from thresher.runs.report.model_pictures import model_pictures
from thresher.runs.report.term_pictures import term_pictures
from thresher.runs.report.training_pictures import FIGURES
from thresher.theory import Statement
from thresher.training import Status

__all__ = ["write_report"]

_MEANINGS = {  # of settings of an estimator's network
    "approximation": "how the limit of infinite width was fitted",
    "width": "neurons of each network",
    WHY: "the limit of infinite width, or networks",
    LOSS: "scores of squares, a fit by log loss, or the mean of their log odds",
    "loss": "what is made small, as asked for; loss= (--loss)",
    "inputs": "rows, or centres, that it keeps",
    "ridge": "penalty on the distance from the start weights, relative to the kernel; larger is smoother",
    "shift": "threshold above which a neuron fires; larger makes fewer fire",
    "bias": "bias coordinate of a row; smaller lets directions matter more",
    "scale": "how columns are put on one footing",
    PARTS: "all columns, or few at a time, by rows left out; parts= (--parts) overrules it",
    CATEGORIES: "by rows left out, if not named; categorical_features= (--categorical) overrules it",
    "columns weighed": "whether columns got weights of their own",
    "rounds of feature learning": "rounds in which directions of the inputs were learnt",
    LEFT_OUT: "both squared, on rows left out of the training; the guess is their mean, so it is 1 less their R²",
}


def write_report(run: Record, path: Path, *, folder: Path | None = None) -> Path:
    """Write the page of a run; ``folder`` is where the run is, if it was written. Returns the path of the page.

    Without matplotlib the page has no figures, and says how to get them.

    Raises NotAvailable if Jinja2 is not installed.
    """
    find_jinja()
    remarks, found = list(_remarks(run)), run.evaluation
    drawn: dict[str, list[Drawn]] = {"figures": [], "curves": [], "terms": [], "training": []}
    try:
        if found is not None:
            drawn |= {"figures": draw(model_pictures(found), found), "curves": draw(effect_pictures(found), found)}
            drawn["terms"] = draw(term_pictures(found.terms), found)
        if run.trainings:
            drawn["training"] = draw(FIGURES, run)
    except NotAvailable as error:
        remarks.append(str(error))
    page = render_page(
        "report.html",
        run=run,
        title=words.title(run),
        verdict=first_screen.verdict(found) if found else "",
        facts=[] if found else list(_tested(run)),
        validated=words.validated(run),
        remarks=remarks,
        efforts=list(_efforts(run)),
        rows=_iteration_rows(run),
        traffic=_traffic(run),
        statements=_statements(run),
        settings=_settings(run),
        choices=_choices(run),
        folder=str(folder or ""),
        of_test=OF_TEST in run.data,
        **drawn,
        **_model_parts(found),
    )
    return write_text(path, page, remedy="Choose another file for the report.")


def _model_parts(found: Evaluation | None) -> dict[str, Any]:
    """Return what the page shows of an evaluation, besides figures."""
    if found is None:
        return {"evaluation": None}
    groups = [one for one in found.effects if one.kind in ("category", "words")]
    return {
        "evaluation": found,
        "compared": first_screen.compared(found),
        "used": first_screen.used(found),
        "fails": first_screen.fails(found),
        "sure": first_screen.sure(found),
        "matrix": words.matrix_of(found),
        "classes": words.classes_of(found),
        "thresholds": words.thresholds_of(found),
        "importances": words.bars_of_importance(found),
        "shares": words.bars_of_shares(found),
        "categories": [(_say_group(one), words.bars_of_effect(found, one)) for one in groups],
        "examples": words.examples_of(found),
    }


def _say_group(one: Effect) -> str:
    return f"{one.column}: rows whose text has the word" if one.kind == "words" else one.column


def _remarks(run: Record) -> Iterator[str]:
    """Yield what a reader should know before the details."""
    if run.options:
        for message in sorted({one.message for one in run.trainings if one.status != Status.CONVERGED}):
            yield f"Training did not reach zero loss. {message}"
    if run.folds:
        yield "What follows is of the last fold: its model, on the rows that it had not seen."
    elif str(run.data.get("tested", "")).startswith("before"):
        yield (
            "The numbers are of a model fitted without these rows. The saved model was then fitted to all rows, which "
            "should make it a little better."
        )
    if OF_TEST in run.data:
        yield "The constant guess is the best one for these very rows, since targets of training rows were not given."
    if run.evaluation is None and run.test is not None:
        yield "What the model does row by row was not stored with this run: thresher train does so, since version 0.2."
    elif run.evaluation is None and run.model:
        yield "No rows were kept for testing, so it is not known how good this model is on new ones."
    elif run.evaluation is not None and run.test is not None and MOST_ROWS <= run.evaluation.rows < run.test.rows:
        yield f"{run.evaluation.rows:,} of the {run.test.rows:,} rows that were kept for testing are looked at here."


def _efforts(run: Record) -> Iterator[tuple[str, str]]:
    """Yield what training took, as pairs of a number and what it means."""
    trainings = run.trainings
    if run.seconds:  # as the terminal said
        parts = ", ".join(f"{part} {seconds:.1f}" for part, seconds in run.seconds.items())
        yield f"{sum(run.seconds.values()):.1f} s", f"in all: {parts}"
    if not trainings:
        return
    converged = sum(one.status == Status.CONVERGED for one in trainings)
    yield (trainings[0].status.value if len(trainings) == 1 else f"{converged} of {len(trainings)} converged", "status")
    yield str(max(len(one.history) - 1 for one in trainings)), "iterations"
    records = [record for one in trainings for record in one.history]
    yield f"{sum(sum(record.seconds.values()) for record in records):.1f} s", "of them in iterations"
    shares = (one.history[-1].residual / one.history[0].residual for one in trainings if one.history[0].residual)
    yield f"{max(shares, default=0.0):.1e}", "of the error on training rows is left, relative to the start"
    later = [record for one in trainings for record in one.history[2:]]
    if later:
        share = sum(r.looks for r in later) / len(later) / run.pairs
        yield f"{share:.1e}", "of all pre-activations are computed per iteration"


def _tested(run: Record) -> Iterator[tuple[str, str]]:
    if run.test is not None:
        value = f"{run.test.value:.1%}" if run.test.measure == "accuracy" else f"{run.test.value:.4g}"
        guess = f"{run.test.guess:.1%}" if run.test.measure == "accuracy" else f"{run.test.guess:.4g}"
        yield value, f"{run.test.measure} on {run.test.rows:,} unseen rows; a constant guess: {guess}"


def _choices(run: Record) -> list[tuple[str, str, str]]:
    """Return what an estimator has chosen, and what it means; nothing for exact training, which chooses nothing."""
    if run.options:
        return []
    found = [(name, run.network[name], meaning) for name, meaning in _MEANINGS.items() if name in run.network]
    return [(name, _say(value), meaning) for name, value, meaning in found]


def _iteration_rows(run: Record) -> list[tuple[str, list[list[str]]]]:
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


def _traffic(run: Record) -> list[list[str]]:
    """Return what each iteration sent, received and waited for on a cluster, over all outputs; nothing without one."""
    records = [record for one in run.trainings for record in one.history]
    if not any(record.traffic for record in records):
        return []
    rows = []
    for iteration in range(max(record.iteration for record in records) + 1):
        spent = [record.traffic for record in records if record.iteration == iteration]
        sent, received, compute, wait, restarts = (
            sum(one.get(name, 0.0) for one in spent) for name in ("sent", "received", "compute", "wait", "restarts")
        )
        cells = [format_bytes(sent), format_bytes(received), f"{compute:.3f}", f"{wait:.3f}", f"{restarts:.0f}"]
        rows.append([str(iteration or "start"), *cells])
    return rows


def _statements(run: Record) -> list[tuple[Statement, str]]:
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


def _settings(run: Record) -> list[tuple[str, str]]:
    told = {**run.network, **{key: value for key, value in run.options.items() if key not in run.network}}
    told |= {f"data: {key}": value for key, value in run.data.items()} | dict(run.environment)
    return [(key, _say(value)) for key, value in told.items()]


def _say(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return say_number(value) if isinstance(value, int | float) and abs(value) < 2**53 else f"{value}"
