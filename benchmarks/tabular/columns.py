"""What columns made of others change: ``python -m benchmarks.tabular.columns`` writes the table of docs/tables.md.

Tables are those of ``files.py``, with ten seeds; other rows of the same table are predicted. Both fits see the same
rows; choices are made on training rows alone.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from sklearn.metrics import average_precision_score, log_loss, r2_score, roc_auc_score

from benchmarks import page
from benchmarks.environment import environment
from benchmarks.tabular.files import FILES
from thresher import ThresherClassifier, ThresherRegressor
from thresher.estimators.data import encoder

__all__ = ["compare", "main"]

PAGE = Path(__file__).parents[2] / "docs" / "tables.md"
ROWS = {
    "claims": 4000,
    "shop": 2000,
    "deliveries": 2000,
    "patients": 600,
    "network": 2000,
    "messages": 1500,
}  # trained on
_ASKED = 3000  # rows predicted at most
_SEEDS = 10


def _as_they_are(columns: Any, kinds: Any, parts: Any, *_: Any, **__: Any) -> tuple[Any, Any, list[Any], list[str]]:
    """Choose no other encodings, and make no columns."""
    return kinds, parts, [], []


def compare(name: str, seed: int) -> list[dict[str, float]]:
    """Return the scores without and with columns made of others. Cost: two fits."""
    table, target, task = FILES[name](seed=seed)
    X, y, n = table.drop(columns=target), table[target].to_numpy(), ROWS[name]
    found = []
    for plain in (True, False):
        begin = time.process_time()
        model: Any = (ThresherClassifier if task == "classification" else ThresherRegressor)()
        chosen = _as_they_are if plain else encoder.choose_encodings
        with patch.object(encoder, "choose_encodings", chosen):
            model.fit(X[:n], y[:n])
        scores = {"processor seconds": time.process_time() - begin}
        rest, known = X[n : n + _ASKED], y[n : n + _ASKED]
        if task == "regression":
            scores["R²"] = r2_score(known, model.predict(rest))
        else:
            chances = model.predict_proba(rest)
            scores["log loss"] = log_loss(known, chances, labels=model.classes_)
            if len(model.classes_) > 2:
                scores["accuracy"] = float((model.predict(rest) == known).mean())
                found.append(scores)
                continue
            scores["AUC"] = roc_auc_score(known == model.classes_[1], chances[:, 1])
            scores["average precision"] = average_precision_score(known == model.classes_[1], chances[:, 1])
        found.append(scores)
    return found


def main() -> None:
    """Write the table of the page."""
    where = page.machine({"environment": environment()})
    lines = ["| table | score | without | with | difference |", "| --- | --- | ---: | ---: | ---: |"]
    for name in ROWS:
        both = [compare(name, seed) for seed in range(_SEEDS)]
        for score in both[0][0]:
            before, after = (np.array([one[side][score] for one in both]) for side in (0, 1))
            gain = after - before
            told = f"{gain.mean():+.4f} ± {gain.std(ddof=1) / len(gain) ** 0.5:.4f}"
            lines.append(f"| {name} | {score} | {before.mean():.4f} | {after.mean():.4f} | {told} |")
            print(lines[-1], flush=True)
    page.write("made", [where, *lines], page=PAGE)


if __name__ == "__main__":
    main()
