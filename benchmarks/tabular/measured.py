"""Numbers out of the rows: what was measured for each model and set, where all of it is there."""

from __future__ import annotations

import numpy as np

from benchmarks.tabular import cases
from benchmarks.tabular.store import SCORE, TIMES, Row

SPLITS = {"classification": 4, "regression": 20, "tables": cases.SPLITS, "published-tables": 1}
Table = dict[str, dict[str, np.ndarray]]  # model -> set -> a figure for each split


def figures(rows: list[Row], suite: str, name: str) -> Table:
    """Return what was measured where every split of a set is done."""
    found: dict[str, dict[str, dict[int, float]]] = {}
    for row in rows:
        if row["kind"] == SCORE and row["suite"] == suite and row["status"] == "done" and name in row:
            found.setdefault(row["model"], {}).setdefault(row["set"], {})[row["split"]] = row[name]
    return {
        model: {
            one: np.array([splits[split] for split in sorted(splits)])
            for one, splits in sets.items()
            if len(splits) == SPLITS[suite]
        }
        for model, sets in found.items()
    }


def means(rows: list[Row], suite: str, name: str) -> dict[str, dict[str, float]]:
    """Return the mean over splits by model and set."""
    table = figures(rows, suite, name)
    return {model: {one: float(np.mean(splits)) for one, splits in of.items()} for model, of in table.items()}


def percent(rows: list[Row]) -> dict[str, dict[str, float]]:
    """Return the mean accuracy in percent by model and set."""
    table = means(rows, "classification", "accuracy")
    return {model: {one: 100 * value for one, value in of.items()} for model, of in table.items()}


def timed(rows: list[Row]) -> dict[str, dict[str, float]]:
    """Return seconds by model and set, for each set from its last run alone."""
    rows = [row for row in rows if row["kind"] == TIMES]
    last = {row["set"]: max(one["run"] for one in rows if one["set"] == row["set"]) for row in rows}
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        if row["run"] == last[row["set"]] and row["status"] == "done":
            found.setdefault(row["model"], {})[row["set"]] = row["seconds"]
    return found
