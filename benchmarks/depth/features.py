"""The estimators with and without features under the wide layer, on small tables."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.depth.tables import Table
from thresher import ThresherClassifier, ThresherRegressor

_ALONE: dict[str, Any] = {"parts": "all", "categorical_features": []}
MODELS: dict[str, dict[str, Any]] = {
    "no features": {**_ALONE, "feature_learning": 0},
    "metric": {**_ALONE, "feature_learning": "auto"},
    "column layer": {**_ALONE, "feature_learning": 0, "parts": "auto"},
    "both": {**_ALONE, "feature_learning": "auto", "parts": "auto"},
    "default": {},
}


def measure(tables: Sequence[Table]) -> list[dict[str, Any]]:
    """Return, for each table, the mean over its splits of accuracy or R² of each model."""
    found = []
    for table in tables:
        scores = {name: measure_one(table, name) for name in MODELS}
        found.append({"table": table.name, "rows": table.size, "labelled": table.labelled, "scores": scores})
        print(table.name, {name: round(value, 4) for name, value in scores.items()}, flush=True)
    return found


def measure_one(table: Table, model: str) -> float:
    """Return the mean over the splits of a table of accuracy or R² of one model."""
    kind = ThresherClassifier if table.labelled else ThresherRegressor
    scores = []
    for split in table.splits():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of columns with values far outside: the tables are as people have them
            fitted = kind(**MODELS[model]).fit(split.inputs, split.targets)
            scores.append(fitted.score(split.new, split.answers))
    return float(np.mean(scores))
