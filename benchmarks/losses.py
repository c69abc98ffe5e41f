"""Losses of the regressor beside squares and LightGBM: absurd targets, counts, uneven errors.

Run ``python -m benchmarks.losses``, which
writes its tables into docs/losses.md. LightGBM has 15 leaves and as many trees as a fifth of the training rows says.
With --bike FILE (X, y of ``bike.npz``, y the logarithm of rentals) counts of rentals are predicted too, without the
two columns that add up to them.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import page
from benchmarks.environment import environment
from thresher import ThresherRegressor
from thresher.estimators.counts import deviance_of

Matrix = NDArray[np.float64]
LEVELS = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
NEW, SEEDS = 3000, 3
LEAK = 2  # last columns of bike.npz, which add up to the target


def friedman(rows: int, seed: int, noise: float) -> tuple[Matrix, Matrix]:
    """Return rows (n, 8) and targets (n,) of Friedman's function."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(rows, 8))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X, y + noise * rng.normal(size=rows)


def waves(rows: int, seed: int, noise: float) -> tuple[Matrix, Matrix]:
    """Return rows (n, 3) and targets (n,) of a wave and a product."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] / 2 + noise * rng.normal(size=rows)


def logarithms(kind: str, X: Matrix) -> Matrix:
    """Return the logarithms of means (n,) of generated counts."""
    if kind == "rare counts":
        return np.asarray(-1 + 2 * X[:, 0] + 1.5 * X[:, 1] * X[:, 2])
    if kind == "large counts":
        return np.asarray(3 + 1.5 * np.sin(6 * X[:, 0]) + X[:, 1])
    return np.asarray(0.5 + 0.8 * np.sin(5 * X[:, 0]) + 1.5 * (X[:, 1] - 0.5) * X[:, 2])


def uneven(rows: int, seed: int) -> tuple[Matrix, Matrix]:
    """Return rows (n, 4) and targets (n,) with skewed errors, the wider the larger the first column."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(rows, 4))
    errors = rng.gamma(2, 1, size=rows) - 2
    return X, np.sin(4 * X[:, 0]) + X[:, 1] + (0.2 + 1.5 * X[:, 0]) * errors


def boosted(X: Matrix, y: Matrix, new: Matrix, **more: Any) -> Matrix:
    """Return what LightGBM predicts of new rows, with the number of trees that is best on a fifth of the rows."""
    import lightgbm

    kept = 4 * len(y) // 5
    about = {"learning_rate": 0.05, "num_leaves": 15, "min_child_samples": 10, "verbose": -1, **more}
    first = lightgbm.LGBMRegressor(n_estimators=1000, **about)
    stop = lightgbm.early_stopping(50, verbose=False)
    first.fit(X[:kept], y[:kept], eval_set=[(X[kept:], y[kept:])], callbacks=[stop])
    return np.asarray(
        lightgbm.LGBMRegressor(n_estimators=max(first.best_iteration_, 1), **about).fit(X, y).predict(new)
    )


def absurd(sizes: list[int]) -> list[str]:
    """Return errors on clean rows after a fit to spoilt ones, beside those of squares on clean ones."""
    lines = [
        "| rows | target | squares, clean | Huber, clean | Huber, spoilt | squares, spoilt |",
        "|---|---|---|---|---|---|",
    ]
    for rows in sizes:
        for name, make, noise in (
            ("Friedman", friedman, 1.0),
            ("Friedman, no noise", friedman, 0.0),
            ("waves", waves, 0.3),
        ):
            found = []
            for seed in range(SEEDS if rows <= 1000 else 1):
                X, y = make(rows, seed, noise)
                new, later = make(NEW, 1000, noise)
                spoilt, rng = y.copy(), np.random.default_rng(seed)
                some = rng.choice(rows, max(rows // 100, 1), replace=False)
                spoilt[some] += 1e4 * y.std() * rng.choice([-1, 1], size=len(some))
                cases = (("squared_error", y), ("huber", y), ("huber", spoilt), ("squared_error", spoilt))
                fits = (ThresherRegressor(loss=one, target_transform=None).fit(X, to) for one, to in cases)
                found.append([np.sqrt(np.mean((fit.predict(new) - later) ** 2)) for fit in fits])
            plain, clean, robust, bad = np.mean(found, axis=0)
            lines.append(
                f"| {rows:,} | {name} | {plain:.3f} | {clean / plain:.3f} | {robust / plain:.3f} | {bad / plain:,.0f} |"
            )
            print(lines[-1], flush=True)
    return lines


def counted(sizes: list[int], bike: Path | None) -> list[str]:
    """Return deviances of new counts."""
    lines = [
        "| rows | counts | loss='poisson' | squares | LightGBM, Poisson | the true mean |",
        "|---|---|---|---|---|---|",
    ]
    for rows in sizes:
        for name in ("rare counts", "small counts", "large counts", "rentals")[: 4 if bike else 3]:
            found = []
            for seed in range(SEEDS if rows <= 1000 else 1):
                X, y, new, later, means = _counts(name, rows, seed, bike)
                ones = np.ones(len(later))
                fits = [ThresherRegressor(loss=one).fit(X, y).predict(new) for one in ("poisson", "squared_error")]
                told = [fits[0], np.maximum(fits[1], 0.05), boosted(X, y, new, objective="poisson")]
                found.append(
                    [deviance_of(later, one, ones) for one in (*told, later.mean() if means is None else means)]
                )
            ours, plain, trees, best = np.mean(found, axis=0)
            known = "" if name == "rentals" else f"{best:.3f}"
            lines.append(f"| {rows:,} | {name} | {ours:.3f} | {plain:.3f} | {trees:.3f} | {known} |")
            print(lines[-1], flush=True)
    return lines


def _counts(name: str, rows: int, seed: int, bike: Path | None) -> tuple[Matrix, Matrix, Matrix, Matrix, Matrix | None]:
    rng = np.random.default_rng(seed)
    if name == "rentals":
        stored = np.load(bike)
        X, y = stored["X"][:, :-LEAK].astype(float), np.rint(np.exp(stored["y"] - stored["y"].min()))
        order = rng.permutation(len(y))
        some, others = order[:rows], order[-NEW:]
        return X[some], y[some], X[others], y[others], None
    X, new = rng.uniform(size=(rows, 6)), rng.uniform(size=(NEW, 6))
    means = np.exp(logarithms(name, new))
    return X, rng.poisson(np.exp(logarithms(name, X))).astype(float), new, rng.poisson(means).astype(float), means


def bounded(sizes: list[int]) -> list[str]:
    """Return pinball losses of new rows, and which share of them lies below."""
    lines = [
        "| rows | quantiles | pinball loss | share below 0.05 | 0.95 | 0.05 where errors are wide |",
        "|---|---|---|---|---|---|",
    ]
    for rows in sizes:
        X, y = uneven(rows, 0)
        new, later = uneven(NEW, 1000)
        fits = {
            "by their own loss": ("quantile", {"quantiles": LEVELS}),
            "from the posterior": ("squared_error", {"target_transform": None}),
        }
        told = {
            name: ThresherRegressor(loss=loss, **more).fit(X, y).predict_quantiles(new, LEVELS)
            for name, (loss, more) in fits.items()
        }
        told["LightGBM"] = np.column_stack([boosted(X, y, new, objective="quantile", alpha=one) for one in LEVELS])
        for name, found in told.items():
            rest = later[:, None] - found
            loss = np.maximum(LEVELS * rest, (LEVELS - 1) * rest).mean()
            below, wide = later[:, None] < found, new[:, 0] > 0.8
            shares = f"{below[:, 0].mean():.3f} | {below[:, -1].mean():.3f} | {below[wide, 0].mean():.3f}"
            lines.append(f"| {rows:,} | {name} | {loss:.4f} | {shares} |")
            print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Measure, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bike", type=Path, help="bike.npz, for counts of rentals")
    parser.add_argument("--rows", type=int, nargs="+", default=[50, 300, 3000], help="training rows")
    parser.add_argument("--parts", nargs="+", default=["absurd", "counts", "quantiles"])
    parser.add_argument("--page", type=Path, default=Path("docs/losses.md"))
    options = parser.parse_args()
    where = page.machine({"environment": environment()})
    made = {
        "absurd": lambda: absurd(options.rows),
        "counts": lambda: counted(options.rows, options.bike),
        "quantiles": lambda: bounded([one for one in options.rows if one >= 100]),
    }
    for part in options.parts:
        page.write(f"losses-{part}", [where, *made[part]()], page=options.page)


if __name__ == "__main__":
    main()
