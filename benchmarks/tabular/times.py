"""Seconds of a fit, every model on the same rows in one process, in turn.

A set is timed as a whole: figures of two runs are never compared. Before the first set every model is fitted twice
without being timed, on two classes and on three, so that nothing compiles or loads later.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from statistics import median

import numpy as np
from rich.console import Console
from rich.progress import track

from benchmarks.tabular.models import Model
from benchmarks.tabular.protocol import reason_of
from benchmarks.tabular.sets import Part, Set
from benchmarks.tabular.store import TIMES, Row, Store, key_of

REPEATS = 3
LONG = 10.0  # seconds of a fit that is not made again


def run_times(
    models: Sequence[Model],
    data: Sequence[Set],
    *,
    store: Store,
    threads: int,
    again: bool,
    console: Console,
) -> None:
    """Time a fit on the first training split of each set; a set that one run has timed in full is kept."""
    about = {
        one.name: [
            {"kind": TIMES, "suite": "times", "model": model.name, "set": one.name, "split": 0, "data": one.digest}
            | {"inputs": len(one.splits["kf_train"][0]), "dimension": one.inputs.shape[1], "recipe": model.recipe}
            for model in models
        ]
        for one in data
    }
    todo = [one for one in data if again or not timed_together(about[one.name], store)]
    if not todo:
        return
    first = {model.name: warm_up(model, threads=threads) for model in models}
    for one in track(todo, description="times", console=console, transient=True):
        part = one.part(one.splits["kf_train"][0])
        for row, figures in zip(about[one.name], _in_turn(models, part, threads=threads), strict=True):
            store.add({**row, **figures, "threads": threads, "warm_up": first[row["model"]]})
        store.write()


def warm_up(model: Model, *, threads: int) -> float:
    """Fit on two classes and on three, and return the seconds: compiling and loading."""
    inputs = np.random.default_rng(0).standard_normal((90, 5))
    seconds = 0.0
    for classes in (2, 3):
        figures = _in_turn([model], Part(inputs, np.arange(90) % classes), threads=threads, repeats=1)
        seconds += sum(figures[0].get("fits", []))
    return seconds


def _in_turn(models: Sequence[Model], part: Part, *, threads: int, repeats: int = REPEATS) -> list[Row]:
    """Return for each model the median seconds of its fits; the models take turns."""
    seconds: dict[str, list[float]] = {model.name: [] for model in models}
    failed: dict[str, str] = {}
    for repeat in range(repeats):
        for model in models:
            spent = seconds[model.name]
            if model.name in failed or max(spent, default=0.0) > LONG:
                continue
            try:
                spent.append(_fit_seconds(model, part, seed=repeat, threads=threads))
            except Exception as error:  # whatever a library raises belongs into the row
                failed[model.name] = reason_of(error)
    return [
        {"status": "failed", "reason": failed[name]}
        if name in failed
        else {"status": "done", "seconds": median(spent), "fits": spent}
        for name, spent in seconds.items()
    ]


def _fit_seconds(model: Model, part: Part, *, seed: int, threads: int) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = model.make({}, seed=seed, threads=threads)
        began = time.perf_counter()
        estimator.fit(part.inputs, part.targets)
        return time.perf_counter() - began


def timed_together(about: list[Row], store: Store) -> bool:
    """Return whether the store answers all of these questions, by one run."""
    found = [store.get(key_of(row)) for row in about]
    same = all(one is not None and row.items() <= one.items() for one, row in zip(found, about, strict=True))
    return same and len({one["run"] for one in found if one is not None}) == 1
