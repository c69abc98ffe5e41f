"""What a prediction costs: networks as they are, in their compact form, and other people's models; many rows through
default models.

    python -m benchmarks.prediction [--tiny] [--output FILE.json] [--page FILE.md]

The median of three times, on all cores, after a first prediction that is not timed.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_diabetes, load_digits
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.svm import SVC, SVR

from benchmarks import page, results
from benchmarks.environment import environment
from benchmarks.summary import Sheet
from thresher import ThresherClassifier, ThresherRegressor, train
from thresher.datasets import random_problem
from thresher.export import predict_arrays
from thresher.parallel import core_count, in_order

ROWS = 2000  # predicted at a time
MANY = 100_000  # predicted by default models
_DEFAULTS = """**Default models**, ours and gradient boosting of scikit-learn, are fitted to the same rows of ten
columns, three of which matter, and predict the same new rows with the same threads. Where others use the machine,
threads that wait for each other show in these times.
"""


class Case(NamedTuple):
    """A model, how many neurons (or rows, trees) a prediction passes over, and what makes the prediction."""

    problem: str
    model: str
    parts: str
    predict: Callable[[], Any]


def networks(*, shrink: int) -> Iterator[Case]:
    """Yield networks that interpolate, with twins: what never moved is dropped from the compact form. Beside them, what
    it takes to multiply as many stored neurons."""
    for inputs, width in ((20, 2**20), (100, 2**20), (1000, 2**20)):
        problem, width = random_problem(inputs=inputs, dimension=50), width // shrink
        network = train(problem, width=width, twins=True).network
        others, compact = random_problem(inputs=ROWS, dimension=50, seed=1).inputs, network.compact()
        name = f"train, n {inputs}, d 50, m {width:,}"
        yield Case(name, "network", f"{width:,} neurons", partial(network.predict, others))
        yield Case(name, "compact form", f"{len(compact.vectors):,} neurons", partial(compact.predict, others))
        stored = network.weights.block(range(width))
        yield Case(
            name, "a float32 pass", f"{width:,} neurons, stored", partial(float32_pass, stored, others, network.shift)
        )


def estimators(*, shrink: int) -> Iterator[Case]:
    """Yield fitted estimators and their rivals, on data that comes with scikit-learn."""
    trees = {"n_estimators": 500 // shrink, "n_jobs": -1, "random_state": 0}
    forms = (
        ("digits, 10 classes", load_digits, ThresherClassifier, RandomForestClassifier, SVC, MLPClassifier),
        ("diabetes, regression", load_diabetes, ThresherRegressor, RandomForestRegressor, SVR, MLPRegressor),
    )
    for name, load, ours, forest, machine, perceptron in forms:
        X, y = load(return_X_y=True)
        rows = X[:: 2 * shrink], y[:: 2 * shrink]
        others = np.resize(X[1::2], (ROWS, X.shape[1]))
        problem = f"{name}, {len(rows[0])} rows"
        model = ours().fit(*rows)
        parts = f"{len(rows[0])} rows"
        yield Case(problem, "thresher", parts, partial(model.predict, others))
        yield Case(problem, "its arrays, `to_numpy()`", parts, partial(in_blocks, model.to_numpy(), others))
        for rival, parts in (
            (forest(**trees), f"{trees['n_estimators']} trees"),
            (machine(), "support vectors"),
            (perceptron(max_iter=500 // shrink, random_state=0), "100 neurons"),
        ):
            yield Case(problem, type(rival).__name__, parts, partial(_fitted(rival, *rows).predict, others))


def defaults(*, shrink: int) -> Iterator[dict[str, Any]]:
    """Yield what default models, fitted to some rows of ten columns, take for many new rows, and how good they are."""
    rng = np.random.default_rng(0)
    for rows in (300, 1000, 4096, 30_000):
        X = rng.normal(size=(rows // shrink + MANY // shrink, 10))
        signal = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
        noisy, new = signal + 0.3 * rng.normal(size=len(X)), slice(rows // shrink, None)
        for task, y, models in (
            ("regression", noisy, (ThresherRegressor, HistGradientBoostingRegressor)),
            ("3 classes", np.digitize(noisy, (-0.5, 0.5)), (ThresherClassifier, HistGradientBoostingClassifier)),
        ):
            for kind in models:
                model = kind(random_state=0).fit(X[: rows // shrink], y[: rows // shrink])
                score, name = model.score(X[new], y[new]), "thresher" if kind.__module__.startswith("thresher") else ""
                took = seconds(partial(model.predict, X[new]))
                told = {"rows": rows // shrink, "task": task, "model": name or kind.__name__}
                yield told | {"score": float(score), "seconds": took * shrink}


def float32_pass(vectors: np.ndarray, inputs: np.ndarray, shift: float) -> np.ndarray:
    """Return the sum of what all neurons (m, d) say, by products of float32 that are computed in full."""
    X = inputs.T.astype(np.float32)

    def part(first: int) -> np.ndarray:
        active = vectors[first : first + 1024] @ X
        active -= np.float32(shift)
        return np.maximum(active, 0, out=active).sum(axis=0)

    return sum(in_order(part, range(0, len(vectors), 1024), threads=core_count()))


def in_blocks(arrays: dict[str, Any], rows: np.ndarray) -> np.ndarray:
    """Return what exported arrays say, some rows at a time, since `predict_arrays` holds all activations at once."""
    return np.concatenate([predict_arrays(arrays, rows[first : first + 250]) for first in range(0, len(rows), 250)])


def seconds(predict: Callable[[], Any]) -> float:
    """Return the median of three times, after one that is not counted."""
    taken = []
    for _ in range(4):
        began = time.perf_counter()
        predict()
        taken.append(time.perf_counter() - began)
    return median(taken[1:])


def _fitted(model: Any, X: np.ndarray, y: np.ndarray) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a perceptron that has not converged predicts as fast as one that has
        return model.fit(X, y)


def part(found: dict[str, Any]) -> list[str]:
    """Return the tables of the page: what predictions cost, and default models."""
    rows = [[row["problem"], row["model"], row["parts"], f"{row['milliseconds']:.3g}"] for row in found["rows"]]
    many = [
        [f"{row['rows']:,}", row["task"], row["model"], f"{row['score']:.3f}", f"{row['seconds']:.3g}"]
        for row in found["defaults"]
    ]
    return [
        page.machine(found),
        Sheet("", ["problem", "model", "passes over", "ms for 1000 rows"], rows, left=2).markdown(),
        _DEFAULTS,
        Sheet(
            "", ["fitted to, rows", "task", "model", "R2 or accuracy", f"s for {MANY:,} rows"], many, left=3
        ).markdown(),
    ]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="small sizes, to see that it works")
    page.add_options(parser, output="results/prediction.json")
    options = parser.parse_args(arguments)
    shrink, console, rows = 64 if options.tiny else 1, Console(), []
    table = Table("problem", "model", "passes over", "ms for 1000 rows", title="Prediction")
    with console.status("Training and predicting ..."):
        for make in (networks, estimators):
            for case in make(shrink=8 if options.tiny and make is estimators else shrink):
                rows.append({**case._asdict(), "milliseconds": 1e6 * seconds(case.predict) / ROWS})
                del rows[-1]["predict"]
                table.add_row(case.problem, case.model, case.parts, f"{rows[-1]['milliseconds']:.1f}")
        many = list(defaults(shrink=50 if options.tiny else 1))
    console.print(table)
    found = {"environment": environment(), "defaults": many, "rows": rows}
    results.write(options.output, found)
    page.write("prediction", part(found), page=page.page_of(options))


if __name__ == "__main__":
    main()
