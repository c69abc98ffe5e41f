"""One fit in a process of its own: ``python -m benchmarks.many_rows.fit TASK``, TASK in JSON; prints its row."""

from __future__ import annotations

import gc
import json
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import memory
from benchmarks.many_rows.cases import CASES, QUICK, Data, generated
from benchmarks.tabular.models import Model
from benchmarks.tabular.protocol import reason_of
from benchmarks.tabular.store import Row
from thresher.estimators import Sizes

SMALL = {"feature_learning": 0}  # of ours, to see that it works


def measure(task: dict[str, Any]) -> Row:
    """Return error, seconds and memory of one fit; one that fails gives a row that says why."""
    case = CASES[task["case"]]
    model = next(one for one in case.models if one.name == task["model"])
    try:
        data = case.load(Path(task["folder"]), task["part"])
        if task["quick"]:
            model = replace(model, fixed=SMALL) if model.name == "thresher" else model
            return {"status": "done", "warm_up": 0.0, **_fitted(model, data.first(QUICK), threads=task["threads"])}
        warm = warm_up(model, threads=task["threads"])
        return {"status": "done", "warm_up": warm, **_fitted(model, data, threads=task["threads"])}
    except Exception as error:  # whatever a library raises belongs into the row
        return {"status": "failed", "reason": reason_of(error)}


def warm_up(model: Model, *, threads: int) -> float:
    """Fit rows enough for the path of many rows; return the seconds, which are not charged: compiling and loading."""
    train = generated(Path(), Sizes().chosen_on + 200, columns=5, judged=1).train
    targets = train.targets > 14 if model.classifies else train.targets
    return _timed(model, train.inputs, targets, threads=threads)[1]


def _timed(model: Model, inputs: np.ndarray, targets: np.ndarray, *, threads: int) -> tuple[Any, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a perceptron that has not converged
        estimator, began = model.make({}, seed=0, threads=threads), time.perf_counter()
        estimator.fit(inputs, targets)
        return estimator, time.perf_counter() - began


def _fitted(model: Model, data: Data, *, threads: int) -> Row:
    gc.collect()
    before = memory.reset_peak()
    estimator, seconds = _timed(model, *data.train, threads=threads)
    began = time.perf_counter()
    told = estimator.predict(data.test.inputs)
    row = {"seconds": seconds, "prediction": time.perf_counter() - began, "memory": max(before, memory.peak())}
    row["inputs"], row["dimension"] = data.train.inputs.shape
    if data.test.targets.dtype.kind == "i":
        return {**row, "accuracy": float(np.mean(told == data.test.targets))}
    row["rmse"] = _root_mean_square(told - data.test.targets)
    return row if data.clean is None else {**row, "beyond": _root_mean_square(told - data.clean)}


def _root_mean_square(gaps: np.ndarray) -> float:
    return float(np.sqrt(np.mean(gaps**2)))


def main() -> None:
    lines, sys.stdout = sys.stdout, sys.stderr  # what models print must not stand between the lines
    print(json.dumps({"row": measure(json.loads(sys.argv[1]))}), file=lines, flush=True)


if __name__ == "__main__":
    main()
