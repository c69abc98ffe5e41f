"""Tables that are mostly noise: the default beside the plain kernel, given settings and others.

Run ``python -m benchmarks.noisy --rows 2000 8000 --seeds 3``; it prints one line for each table and model.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer

from thresher import ThresherRegressor

__all__ = ["KINDS", "MODELS", "main", "noisy_table"]

Matrix = NDArray[np.float64]
KINDS = ("normal", "skewed", "linear", "steps", "nothing")
_TEST = 20_000  # fresh rows
_COLUMNS, _NOISE = 9, 5.0  # of a table; variance of the noise, where that of the signal is 1


def noisy_table(rows: int, *, kind: str, seed: int) -> tuple[Matrix, Matrix]:
    """Return inputs (n, 9) and targets (n,): a signal of variance 1, and noise of variance 5.

    ``kind``: "normal" has three strong columns that act together; "skewed" is the same with columns that are
    exponentials or have heavy tails; "linear" is skewed with a signal that bends little; "steps" has a step or two in
    each of skewed columns, and some that are codes of categories; "nothing" has no signal at all.
    """
    random = np.random.default_rng(seed)
    hidden = random.normal(size=(rows, _COLUMNS))
    mixed = hidden @ (np.eye(_COLUMNS) + 0.3 * random.normal(size=(_COLUMNS, _COLUMNS)) / np.sqrt(_COLUMNS))
    one, two, three = mixed.T[:3]
    inputs = mixed.copy()
    if kind != "normal":
        inputs[:, ::3] = np.exp(1.5 * mixed[:, ::3])
        inputs[:, 1::3] = np.sinh(2 * mixed[:, 1::3])
    if kind == "linear":
        signal = one - 0.7 * two + 0.4 * np.tanh(three)
    elif kind == "steps":
        inputs[:, 2::3] = codes = np.floor(12 / (1 + np.exp(-1.5 * mixed[:, 2::3])))
        effects = random.normal(size=(codes.shape[1], 12))
        signal = np.sum([effects[k][codes[:, k].astype(int)] for k in range(codes.shape[1])], axis=0)
        for column in mixed.T[[k for k in range(_COLUMNS) if k % 3 < 2]]:
            signal += 1.5 * random.normal() * (column > random.normal()) * (one < random.normal())
    else:
        signal = np.sin(1.5 * one) + np.abs(two) * (three > 0) + 0.5 * one * three
    signal = np.zeros(rows) if kind == "nothing" else (signal - signal.mean()) / signal.std()
    return inputs, signal + np.sqrt(_NOISE) * random.normal(size=rows)


def _fixed(**options: Any) -> Callable[[], Any]:
    return lambda: ThresherRegressor(parts="all", feature_learning=0, **options)


MODELS: dict[str, Callable[[], Any]] = {
    "default": ThresherRegressor,
    "plain kernel": _fixed(),
    "plain, ridge 1": _fixed(ridge=1.0),
    "gradient boosting": HistGradientBoostingRegressor,
    "linear, quantiles": lambda: make_pipeline(QuantileTransformer(output_distribution="normal"), Ridge()),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit every model to every table and print its error on fresh rows. Cost: minutes from 30,000 rows on."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.noisy", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[2_000, 8_000], help="rows to fit")
    parser.add_argument("--seeds", type=int, default=3, help="tables of each kind and size")
    parser.add_argument("--kind", nargs="+", default=KINDS, choices=KINDS, help="kinds of tables")
    parser.add_argument("--model", nargs="+", default=list(MODELS), choices=list(MODELS), help="what is fitted")
    asked = parser.parse_args(arguments)
    warnings.filterwarnings("ignore", message="Values far outside")
    print(f"{'rows':>7} {'kind':8} seed {'model':25} {'RMSE':>8} {'R2':>8} {'seconds':>8}")
    for rows in asked.rows:
        for kind, seed in [(kind, seed) for kind in asked.kind for seed in range(asked.seeds)]:
            X, y = noisy_table(rows + _TEST, kind=kind, seed=seed)
            for name in asked.model:
                begun = time.perf_counter()
                model = MODELS[name]().fit(X[:rows], y[:rows])
                took, error = time.perf_counter() - begun, np.mean((model.predict(X[rows:]) - y[rows:]) ** 2)
                r2 = 1 - error / y[rows:].var()
                print(f"{rows:7} {kind:8} {seed:4} {name:25} {error**0.5:8.4f} {r2:8.4f} {took:8.1f}", flush=True)


if __name__ == "__main__":
    main()
