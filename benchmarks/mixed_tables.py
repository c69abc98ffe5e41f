"""Generated tables of mixed columns: categories of many values, misspelt ones, dates, text; scores on new rows.

Run ``python -m benchmarks.mixed_tables --rows 1500 --seeds 3``; it prints one line for each table: the mean error on
5,000 new rows, as a share of a constant guess's (of numbers 1 - R2, of classes the log loss), its standard error over
the seeds, the same as the fit itself estimates it from rows left out (``loo_share_``), and seconds.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import log_loss

from thresher import ThresherClassifier, ThresherRegressor

__all__ = ["TABLES", "main", "mixed_table"]

_TEST = 5_000  # new rows
_LETTERS = list("abcdefghijklmnopqrstuvwxyz")
_TITLES = ("nurse", "teacher", "engineer", "manager", "driver", "analyst", "officer", "clerk", "mechanic", "technician")
_LEVELS = ("senior", "junior", "assistant", "chief", "deputy")
_WORDS = ("broken", "excellent", "scratched", "original", "rare", "cheap", "heavy", "blue", "large", "used")


def _named(random: Any, rows: int, values: int, *, even: bool = False) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return a category (n,) of so many values, some commoner than others, and the effect (n,) of each row's value."""
    shares = np.ones(values) if even else 1 / np.arange(1, values + 1) ** 0.7
    codes = random.choice(values, rows, p=shares / shares.sum())
    names = np.array([f"{''.join(random.choice(_LETTERS, 6))}" for _ in range(values)])
    return names[codes], random.normal(size=values)[codes]


def _misspelt(random: Any, cells: NDArray[Any], share: float) -> NDArray[Any]:
    """Return cells (n,) of which a share has one letter that is left out, doubled or another."""
    found = []
    for cell, wrong in zip(cells.tolist(), random.random(len(cells)) < share, strict=True):
        place, letter = random.integers(len(cell)), random.choice(_LETTERS)
        other = random.choice(["", 2 * cell[place], letter])
        found.append(cell[:place] + other + cell[place + 1 :] if wrong else cell)
    return np.array(found, object)


def mixed_table(rows: int, *, kind: str, seed: int) -> tuple[pd.DataFrame, NDArray[Any]]:
    """Return a frame (n, d) and targets (n,): two numbers that count, one that does not, and columns of a kind."""
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(random.normal(size=(rows, 3)), columns=["size", "age", "nothing"])
    signal, noise = np.sin(2 * frame["size"]) + 0.5 * frame["age"], 0.3
    if kind in ("many values", "even values", "classes"):
        frame["shop"], effect = _named(random, rows, 60 if kind == "classes" else 120, even=kind == "even values")
        signal = signal + effect * (1 + 0.5 * frame["age"])
    elif kind == "very many values":
        frame["shop"], effect = _named(random, rows, rows // 4)
        signal = signal + effect
    elif kind == "no effect":
        frame["shop"], _ = _named(random, rows, 120)
    elif kind in ("misspelt", "rarely misspelt"):
        titles = np.array([f"{level} {title}" for level in _LEVELS for title in _TITLES])
        codes = random.integers(len(titles), size=rows)
        frame["title"] = _misspelt(random, titles[codes], 0.7 if kind == "misspelt" else 0.1)
        signal = signal + random.normal(size=len(_TITLES))[codes % len(_TITLES)] + 0.5 * (codes // len(_TITLES) - 2)
    elif kind == "dates":
        days = random.integers(0, 900, (2, rows))
        frame["ordered"] = pd.Timestamp("2021-01-01") + pd.to_timedelta(days[0], "D")
        frame["paid"] = frame["ordered"] + pd.to_timedelta(days[1] // 15, "D")
        frame["shop"], effect = _named(random, rows, 80)
        signal = signal + np.sin(2 * np.pi * days[0] / 365) + days[1] / 900 + effect
    elif kind == "text":
        has = random.random((rows, len(_WORDS))) < 0.3
        order = random.permuted(np.tile(np.arange(len(_WORDS)), (rows, 1)), axis=1)
        words = [[_WORDS[k] for k in row if has[place, k]] for place, row in enumerate(order)]
        frame["about"] = [" ".join(["a", *row, "thing", "for", str(place)]) for place, row in enumerate(words)]
        frame["shop"], effect = _named(random, rows, 50)
        signal = signal + has @ random.normal(size=len(_WORDS)) + effect
    else:  # "few values"
        frame["colour"], effect = _named(random, rows, 8)
        signal = signal + effect * frame["size"]
    target = np.asarray(signal + noise * random.normal(size=rows))
    return frame, np.digitize(target, [-0.5, 0.7]) if kind == "classes" else target


TABLES = ("few values", "many values", "even values", "very many values", "no effect", "misspelt", "rarely misspelt",
          "dates", "text", "classes")  # fmt: skip


def _score(kind: str, model: Any, rows: int, seed: int) -> tuple[float, float, float]:
    """Return the error on new rows, and as rows left out have it, as shares of a constant guess's, and the seconds."""
    frame, y = mixed_table(rows + _TEST, kind=kind, seed=seed)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(frame[:rows], y[:rows])
    seconds, new, wanted = time.perf_counter() - began, frame[rows:], y[rows:]
    if kind == "classes":
        shares = np.bincount(y[:rows]) / rows
        error = log_loss(wanted, model.predict_proba(new)) / log_loss(wanted, np.tile(shares, (_TEST, 1)))
    else:
        error = ((model.predict(new) - wanted) ** 2).mean() / wanted.var()
    return float(error), float(model.loo_share_), seconds


def main(
    arguments: Sequence[str] | None = None,
    *,
    make: Callable[[bool], Any] | None = None,
    say: Callable[[str], None] = print,
) -> None:
    """Print the scores of the default; ``make`` returns another estimator, of classes or not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1500, help="fitted")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--table", choices=TABLES, action="append", help="default: all of them")
    given = parser.parse_args(arguments)
    make = make or (lambda classes: (ThresherClassifier if classes else ThresherRegressor)(random_state=0))
    say("table              new rows          left out   seconds")
    for kind in given.table or TABLES:
        found = np.array([_score(kind, make(kind == "classes"), given.rows, seed) for seed in range(given.seeds)])
        (error, left_out, seconds), spread = found.mean(axis=0), found[:, 0].std() / max(given.seeds - 1, 1) ** 0.5
        say(f"{kind:18} {error:.4f} +- {spread:.4f}  {left_out:.4f} {seconds:9.1f}")


if __name__ == "__main__":
    main()
