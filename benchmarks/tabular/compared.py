"""What the rows of published tables say: every model on every table, and how often a model is level with the best."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata

from benchmarks.summary import Sheet
from benchmarks.tabular.measured import means
from benchmarks.tabular.models import ADDITIVE, PUBLISHED_CLASSIFIERS, TREES, Model
from benchmarks.tabular.published import PUBLISHED_TABLES
from benchmarks.tabular.store import Row

SUITE = "published-tables"
LEVEL = 0.002  # accuracy or R² below the best that is still level with it
FAILED = -math.inf  # what a fit that failed has reached: it is behind all that did not
ROUNDING = 1e-12
OURS, RIVALS = (
    tuple(model.name for model in PUBLISHED_CLASSIFIERS if (model.source[0] == "thresher") == ours)
    for ours in (True, False)
)
LABELS = {model.name: model.label for model in PUBLISHED_CLASSIFIERS}
TREES_NAMED = ", ".join(LABELS[name].split(",")[0] for name in TREES[:-1]) + f" and {LABELS[TREES[-1]].split(',')[0]}"
_NAMES = {"accuracy": "accuracy", "r2": "R²", "log_loss": "log loss", "rmse": "RMSE", "seconds": "seconds"}
Known = dict[str, dict[str, float]]  # model -> table -> figure


class Standing(NamedTuple):
    """On how many tables a model is level with the best of some rivals; its gap on the others, which is below zero."""

    level: int
    judged: int
    behind: dict[str, float]


def reached(rows: list[Row]) -> Known:
    """Return accuracy or R² by model and table, `FAILED` where a fit failed."""
    found: Known = {}
    for name in ("accuracy", "r2"):
        for model, of in means(rows, SUITE, name).items():
            found.setdefault(model, {}).update(of)
    for row in rows:
        if row["suite"] == SUITE and row["status"] == "failed":
            found.setdefault(row["model"], {})[row["set"]] = FAILED
    return found


def standing(model: str, rivals: Iterable[str], known: Known) -> Standing:
    """Judge a model on the tables that it and all of these rivals have tried."""
    gaps = {}
    for one in _tried([model, *rivals], known):
        best = max(known[rival][one] for rival in rivals)
        gaps[one] = 0.0 if best == FAILED else known[model][one] - best
    behind = {one: gap for one, gap in gaps.items() if gap < -LEVEL - ROUNDING}
    return Standing(len(gaps) - len(behind), len(gaps), behind)


def mean_rank(model: str, known: Known) -> float | None:
    """Return the mean rank among all rivals and one of ours: the model itself, or else the default."""
    names = [model if model in OURS else "thresher", *RIVALS]
    tables = _tried(names, known)
    ranks = [rankdata([-known[name][one] for name in names])[names.index(model)] for one in tables]
    return float(np.mean(ranks)) if ranks else None


def published_tables(rows: list[Row]) -> list[Sheet]:
    """Return the standing of each model, then every figure: accuracy or R², additive models alone, the others."""
    known = reached(rows)
    models = [model for model in PUBLISHED_CLASSIFIERS if model.name in known]
    additive = [model for model in models if model.name in ADDITIVE]
    return [
        Sheet(
            "Standing",
            ["model", f"best or within {LEVEL:g} of the best of {TREES_NAMED}", "of all rivals", "mean rank"],
            [_standing_row(model.name, known) for model in models],
        ),
        _each("Accuracy or R² on the test rows", ("accuracy", "r2"), models, rows),
        _each("Additive models alone, accuracy or R²", ("accuracy", "r2"), additive, rows),
        _each("Log loss or RMSE on the test rows", ("log_loss", "rmse"), models, rows),
        _each("Seconds of the fit", ("seconds",), models, rows),
    ]


def losses(rows: list[Row]) -> tuple[list[tuple[float, str]], int]:
    """Return the tables on which the default is not level with the best rival, with the gap; and how many count."""
    known = reached(rows)
    found, lines = standing("thresher", RIVALS, known), []
    for one, gap in found.behind.items():
        best = max(RIVALS, key=lambda rival: known[rival][one])
        mine = "failed" if gap == FAILED else f"{known['thresher'][one]:.4f}"
        lines.append((-gap, f"- {one}: {mine}, {LABELS[best]} {known[best][one]:.4f}"))
    return lines, found.judged


def _standing_row(model: str, known: Known) -> list[str]:
    cells = []
    for rivals in (TREES, RIVALS):
        found = standing(model, rivals, known)
        cells.append(f"{found.level} of {found.judged}" if found.judged else "-")
    rank = mean_rank(model, known)
    return [LABELS[model], *cells, "-" if rank is None else f"{rank:.2f}"]


def _each(title: str, names: Sequence[str], models: Sequence[Model], rows: list[Row]) -> Sheet:
    """Return a line for each table, small ones first; a table has one of these measures."""
    rows = [row for row in rows if row["suite"] == SUITE]
    sizes = {row["set"]: (row["inputs"], row["dimension"]) for row in rows}
    failed = {(row["model"], row["set"]): row["reason"] for row in rows if row["status"] == "failed"}
    body = []
    for name in names:
        known = means(rows, SUITE, name)
        tables = {row["set"] for row in rows if ("classes" in row) == (name in ("accuracy", "log_loss"))}
        if name == "seconds":
            tables = set(sizes)
        for one in tables:
            values = [known.get(model.name, {}).get(one) for model in models]
            cells = _cells(name, values, [failed.get((model.name, one)) for model in models])
            body.append([one, *map(str, sizes[one]), _NAMES[name], *cells])
    body.sort(key=lambda row: (int(row[1]), row[0]))
    return Sheet(title, ["table", "rows", "columns", "measure", *(model.label for model in models)], body)


def _cells(name: str, values: list[float | None], reasons: list[str | None]) -> list[str]:
    sign = -1 if name in ("accuracy", "r2") else 1
    best = min((sign * value for value in values if value is not None), default=None)
    cells = []
    for value, reason in zip(values, reasons, strict=True):
        if value is None:
            cells.append("-" if reason is None else "too slow" if reason.startswith("TimeoutError") else "failed")
            continue
        text = f"{value:.4f}" if sign < 0 else f"{value:.3g}"
        cells.append(f"**{text}**" if sign * value == best else text)
    return cells


def _tried(names: Iterable[str], known: Known) -> list[str]:
    """Return the tables on which each of these models has a figure or has failed."""
    return sorted(set.intersection(*(set(known.get(name, {})) for name in names)))


def whole(found: Standing) -> bool:
    """Return whether all tables were judged."""
    return found.judged == PUBLISHED_TABLES
