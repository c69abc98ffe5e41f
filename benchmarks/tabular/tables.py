"""What the rows say, as tables for the terminal and for the page, and how they stand against the goals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.summary import Sheet
from benchmarks.tabular.cases import CASES
from benchmarks.tabular.compared import published_tables
from benchmarks.tabular.goals import goal_sheet, goals
from benchmarks.tabular.measured import figures, means, percent, timed
from benchmarks.tabular.models import CLASSIFIERS, REGRESSORS, TABLE_CLASSIFIERS, TIMED, Model
from benchmarks.tabular.published import ERRORS, MEANS, REGRESSION_SETS, SETS
from benchmarks.tabular.store import SCORE, TIMES, Row

HERE = "measured here"
CAVEATS = {
    "classification": (
        "The four splits are random 75/25 splits, not a partition: their test rows overlap.",
        "hp_train and hp_val together cover all rows, so tuning sees later test rows; all published figures share "
        "this. Models marked default see only the training rows of their split.",
        "The publishers standardised the inputs over the whole file.",
    ),
    "regression": (
        "The test rows of the 20 splits overlap, so the standard error over splits is too small.",
        "Published figures have two digits; ours are compared with them unrounded.",
        "The Boston set is left out of headlines because of its known ethical problem, and shown last.",
    ),
    "tables": (
        "The cases are made for this page. They show what a property of a table does to a model, not how common it is.",
        "All splits of the digits use the same 1797 images.",
        "Seconds cover one fit and its predictions, not tuning; other programs may have run at the same time.",
    ),
    "published-tables": (
        "Each table has one split. Where the test rows are few (16 of servo, 15 of autos), one of them decides much.",
        "Of more than 60,000 training rows 60,000 were drawn, once for all models; the test rows are all there.",
        "A fit that takes more than 15 minutes is ended, counts as too slow, and ranks last. Seconds are of the fit "
        "alone, after one on 200 rows for compiling and loading; other programs may have run at the same time.",
    ),
    "times": (
        "One fit on the first training split of each classification set; median of three, models in turn, same "
        "threads, one process. Compiling and loading are done before and shown separately.",
    ),
}
# What a figure is called, and what is small when it is good.
MEASURES: dict[str, tuple[str, Callable[[float], float]]] = {
    "accuracy": ("accuracy", lambda value: -value),
    "log_loss": ("log loss", lambda value: value),
    "r2": ("R²", lambda value: -value),
    "coverage": ("inside 95 % error bars", lambda value: abs(value - 0.95)),
    "nll": ("negative log likelihood", lambda value: value),
    "seconds": ("seconds", lambda value: value),
}


def tables(suite: str, rows: list[Row]) -> list[Sheet]:
    """Return the tables of a suite that have something to show: figures, failures, goals."""
    rows = [row for row in rows if row["suite"] == suite and row["kind"] in (SCORE, TIMES)]
    make = {
        "classification": classification_tables,
        "regression": regression_tables,
        "tables": case_tables,
        "published-tables": published_tables,
        "times": times_tables,
    }
    sheets = [*make[suite](rows), failures(rows), goal_sheet(goals(suite, rows))]
    return [sheet for sheet in sheets if sheet.rows]


def classification_tables(rows: list[Row]) -> list[Sheet]:
    known = percent(rows)
    models = [model for model in CLASSIFIERS if known.get(model.name)]
    sets = sorted({one for of in known.values() for one in of})
    sizes = {row["set"]: (row["inputs"], row["dimension"], row["classes"]) for row in rows}
    body = [_mean_row(model, known) for model in models]
    body += [[one.label, f"{one.accuracy:.2f}", str(SETS), "", one.source] for one in MEANS]
    each = []
    for one in sets:
        reached = [known[model.name].get(one) for model in models]
        best = max(value for value in reached if value is not None)
        cells = ["-" if value is None else _bold(f"{value:.2f}", value == best) for value in reached]
        each.append([one, *map(str, sizes[one]), *cells])
    return [
        Sheet("Mean accuracy in percent", ["model", "mean", "sets", "thresher, default, minus it", "source"], body),
        Sheet("Accuracy by set", ["set", "n", "d", "classes", *(model.label for model in models)], each),
    ]


def _mean_row(model: Model, known: dict[str, dict[str, float]]) -> list[str]:
    mine, ours = known[model.name], known.get("thresher", {})
    both = [ours[one] - mine[one] for one in mine if one in ours]
    gap = ""
    if model.name != "thresher" and len(both) > 1:
        gap = f"{np.mean(both):+.2f} ± {np.std(both, ddof=1) / np.sqrt(len(both)):.2f}"
    return [model.label, f"{np.mean(list(mine.values())):.2f}", f"{len(mine)} of {SETS}", gap, HERE]


def regression_tables(rows: list[Row]) -> list[Sheet]:
    sheets = []
    for name, title in (
        ("rmse", "RMSE, mean ± standard error over 20 splits"),
        ("nll", "Mean negative log likelihood"),
        ("coverage", "Share of test targets inside 95 % error bars"),
    ):
        table = figures(rows, "regression", name)
        body = [
            [model.label, *(_spread(table[model.name].get(one)) for one in REGRESSION_SETS), HERE]
            for model in REGRESSORS
            if table.get(model.name)
        ]
        if name == "rmse":
            body += [
                [
                    one.label,
                    *(f"{one.rmse[where]:.2f}" if where in one.rmse else "-" for where in REGRESSION_SETS),
                    one.source,
                ]
                for one in ERRORS
            ]
        sheets.append(Sheet(title, ["model", *REGRESSION_SETS, "source"], body))
    return sheets


def case_tables(rows: list[Row]) -> list[Sheet]:
    """Return one line for each case and measure; models of one name, for classes and for values, share a column."""
    models = [model for model in TABLE_CLASSIFIERS if any(row["model"] == model.name for row in rows)]
    sizes = {row["set"]: (row["inputs"], row["dimension"]) for row in rows}
    known = {name: means(rows, "tables", name) for name in MEASURES}
    body = []
    for one, name in ((one, name) for one, case in CASES.items() for name in case.measures):
        label, badness = MEASURES[name]
        found = [known[name].get(model.name, {}).get(one) for model in models]
        if all(value is None for value in found):
            continue
        best = min(badness(value) for value in found if value is not None)
        cells = ["-" if value is None else _bold(_figure(name, value), badness(value) == best) for value in found]
        body.append([one, *map(str, sizes[one]), label, *cells])
    return [
        Sheet("Mean over five splits", ["case", "rows", "columns", "measure", *(model.label for model in models)], body)
    ]


def times_tables(rows: list[Row]) -> list[Sheet]:
    seconds, warm = timed(rows), {row["model"]: row["warm_up"] for row in rows if row["kind"] == TIMES}
    body = []
    for model in TIMED:
        mine, theirs = seconds.get(model.name, {}), seconds.get("mlp", {})
        both = [one for one in mine if one in theirs]
        if not mine:
            continue
        middle = float(np.median(list(mine.values())))
        ratio = f"{middle / np.median(list(theirs.values())):.2f}" if theirs else "-"
        each = f"{np.median([mine[one] / theirs[one] for one in both]):.2f}" if both else "-"
        total = sum(mine.values())
        body.append(
            [model.label, str(len(mine)), f"{middle:.3g}", ratio, each, f"{total:.3g}", f"{warm[model.name]:.3g}"]
        )
    header = ["model", "sets", "median", "over MLP's", "median of ratios", "all sets", "compiling, loading"]
    sets = sorted({one for of in seconds.values() for one in of})
    names = [model for model in TIMED if model.name in seconds]
    sizes = {row["set"]: (row["inputs"], row["dimension"]) for row in rows}
    each_set = [
        [one, *map(str, sizes[one]), *(_short(seconds[model.name].get(one)) for model in names)] for one in sets
    ]
    return [
        Sheet("Seconds of a fit", header, body),
        Sheet("Seconds of a fit by set", ["set", "n", "d", *(model.label for model in names)], each_set),
    ]


def failures(rows: list[Row]) -> Sheet:
    """Return every row that failed, those of one model and set that failed for the same reason together."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        if row["status"] == "failed":
            found.setdefault((row["model"], row["set"], row["reason"]), []).append(str(row["split"]))
    body = [[model, one, ", ".join(splits), reason] for (model, one, reason), splits in found.items()]
    return Sheet("Failed", ["model", "set", "splits", "why"], body)


def _bold(text: str, strong: bool) -> str:
    return f"**{text}**" if strong else text


def _spread(values: np.ndarray | None) -> str:
    if values is None:
        return "-"
    return f"{np.mean(values):.3g} ± {np.std(values, ddof=1) / np.sqrt(len(values)):.2g}"


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _figure(name: str, value: float) -> str:
    return f"{value:.3g}" if name == "seconds" or abs(value) >= 1000 else f"{value:.3f}"
