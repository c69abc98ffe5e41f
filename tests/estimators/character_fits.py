"""The fits that ``character.py`` writes down: generated tables, and those that scikit-learn ships."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, make_classification


class Rows(NamedTuple):
    """A table: rows and targets to fit, rows and targets kept apart, and weights of the rows to fit, if any."""

    X: Any
    y: Any
    others: Any
    answers: Any
    weights: Any = None


def split(X, y, rows, *, apart=200, seed=0):
    """Return the first ``rows`` of a shuffled table to fit, and the next to keep apart."""
    order = np.random.default_rng(seed).permutation(len(y))
    kept, other = order[:rows], order[rows : rows + apart]
    if isinstance(X, pd.DataFrame):
        return Rows(X.iloc[kept].reset_index(drop=True), y[kept], X.iloc[other].reset_index(drop=True), y[other])
    return Rows(X[kept], y[kept], X[other], y[other])


def friedman(rows, *, columns=7, noise=1.0, seed=0):
    """Friedman's first function of five columns, and columns that do not matter."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(rows + 200, columns))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return split(X, y + noise * rng.normal(size=len(y)), rows)


def waves(rows, *, columns=3, seed=0):
    """Targets that change over short distances."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows + 200, columns))
    return split(X, np.sin(4 * X[:, 0]) * np.cos(3 * X[:, 1]) + 0.1 * rng.normal(size=len(X)), rows)


def growth(rows, *, columns=3, seed=0):
    """Targets that grow by a thousand from the least to the largest."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(rows + 200, columns))
    return split(X, np.exp(3.5 * X[:, 0] + X[:, 1] ** 2 + 0.1 * rng.normal(size=len(X))), rows)


def outputs(rows, *, log=False, columns=5, seed=0):
    """Three targets for each row."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows + 200, columns))
    Y = np.column_stack([X[:, 0] * X[:, 1], np.abs(X[:, 2]), X[:, 3] - X[:, 0]]) + 0.1 * rng.normal(size=(len(X), 3))
    return split(X, np.exp(1.5 * Y) if log else Y * [1, 10, 100], rows)


def noise(rows, *, columns=6, seed=0):
    """Targets of which next to nothing can be learnt."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows + 200, columns))
    return split(X, 0.2 * X[:, 0] + rng.normal(size=len(X)), rows)


def skewed(rows, *, seed=0):
    """Columns with long tails, codes and tiny units."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(rows + 200, 5))
    X = np.column_stack([np.exp(2 * z[:, 0]), 1e-6 * z[:, 1], np.round(3 * z[:, 2]), z[:, 3] ** 3, 1e4 + z[:, 4]])
    return split(X, z[:, 0] + z[:, 1] * z[:, 2] + 0.2 * rng.normal(size=len(z)), rows)


def wide(rows, *, columns, classes=False, seed=0):
    """More columns than rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows + 200, 8)) @ rng.normal(size=(8, columns)) + 0.3 * rng.normal(size=(rows + 200, columns))
    y = X[:, 0] - np.abs(X[:, 1])
    return split(X, np.where(y > np.median(y), "more", "less") if classes else y, rows)


def blobs(rows, *, classes, columns=6, seed=0, **more):
    """Clusters of some classes, a few of which are mislabelled."""
    X, y = make_classification(
        rows + 200, columns, n_informative=columns - 1, n_redundant=0, n_classes=classes, n_clusters_per_class=1,
        class_sep=0.8, flip_y=0.05, random_state=seed, **more,
    )  # fmt: skip
    return split(X, y, rows)


def multilabel(rows, *, seed=0):
    """Three labels for each row, which may all hold."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows + 200, 5))
    z = np.column_stack([X[:, 0] + X[:, 1], X[:, 2] * X[:, 3], X[:, 4] - 1]) + 0.3 * rng.normal(size=(len(X), 3))
    return split(X, (z > 0).astype(int), rows)


def frame(rows, *, classes=False, seed=0):
    """Text, categories, dates, truth values, missing cells and numbers."""
    rng = np.random.default_rng(seed)
    n = rows + 200
    town = rng.choice(["Bern", "Jena", "Lund", "Nice", "Ulm"], size=n, p=[0.4, 0.3, 0.15, 0.1, 0.05])
    size, day, flag = rng.gamma(2.0, 30.0, size=n), rng.integers(0, 900, size=n), rng.random(n) < 0.3
    code = rng.integers(0, 40, size=n)
    value = {"Bern": 3.0, "Jena": 1.0, "Lund": 2.0, "Nice": 5.0, "Ulm": 0.0}
    y = size / 30 + np.array([value[one] for one in town]) + 0.002 * day + flag + (code % 7) / 3
    y = y + 0.3 * rng.normal(size=n)
    table = pd.DataFrame({
        "town": pd.Series(town, dtype="category"), "size": np.where(rng.random(n) < 0.1, np.nan, size),
        "day": pd.Timestamp("2021-01-01") + pd.to_timedelta(day, unit="D"), "flag": flag,
        "code": [f"c{one:02}" for one in code],
    })  # fmt: skip
    return split(table, np.where(y > np.median(y), "dear", "cheap") if classes else y, rows)


def real(load, rows, **more):
    """A set that scikit-learn ships."""
    X, y = load(return_X_y=True)
    return split(X, y, rows, **more)


def weighted(data, *, whole=False, zeros=False, seed=1):
    """The same rows with weights, whole numbers or not, some of them zero if wanted."""
    rng = np.random.default_rng(seed)
    n = len(data.y)
    weights = rng.integers(1, 5, size=n).astype(float) if whole else rng.gamma(2.0, size=n)
    return data._replace(weights=np.where(rng.random(n) < 0.2, 0.0, weights) if zeros else weights)


def duplicated(data, times=3):
    """Rows of which every other one stands there several times, with other targets."""
    X, y, rng = data.X, data.y, np.random.default_rng(2)
    again = np.repeat(np.arange(0, len(y), 2), times)
    more = y[again] + y.std() * 0.1 * rng.normal(size=len(again)) if y.dtype.kind == "f" else rng.permutation(y[again])
    more = np.where(rng.random(len(again)) < 0.7, y[again], more)
    return data._replace(X=np.concatenate([X, X[again]]), y=np.concatenate([y, more]))


def changed(data, change):
    """Both parts of a table with their rows changed."""
    return data._replace(X=change(data.X), others=change(data.others))


def with_constants(X):
    return np.column_stack([X, np.full(len(X), 3.0), np.zeros(len(X)), X[:, 0]])


def with_missing(X):
    holes = np.random.default_rng(len(X)).random(X.shape) < 0.1
    return np.where(holes, np.nan, X)


def with_far(data):
    """One cell far outside all others."""
    X = data.X.copy()
    X[0, 1] = 1e6
    return data._replace(X=X)


def thinned(X):
    return sparse.csr_matrix(np.where(X > 0.5, X, 0.0))


def counted(rows, *, seed=0):
    """Counts whose mean depends on the rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows + 200, 3))
    return split(X, rng.poisson(np.exp(np.sin(2 * X[:, 0]) + 0.5 * X[:, 1])).astype(float), rows)


def wild(data):
    """The same rows with a few targets far from all others."""
    y = data.y.copy()
    y[::40] += 30 * y.std()
    return data._replace(y=y)


class Fit(NamedTuple):
    """One fit: which estimator, the table, and its parameters."""

    kind: str  # "regressor" or "classifier"
    data: Any  # a function that makes the table
    options: dict[str, Any]


def regression(make, **options):
    return Fit("regressor", make, options)


def classification(make, **options):
    return Fit("classifier", make, options)


SMALL = {
    "diabetes": regression(lambda: real(load_diabetes, 300, apart=142)),
    "50 rows": regression(lambda: friedman(50)),
    "120 rows": regression(lambda: friedman(120, columns=5)),
    "600 rows": regression(lambda: friedman(600)),
    "1500 rows": regression(lambda: friedman(1500)),
    "4096 rows": regression(lambda: friedman(4096, columns=5)),
    "waves": regression(lambda: waves(800)),
    "next to nothing": regression(lambda: noise(300)),
    "growth": regression(lambda: growth(250)),
    "growth log": regression(lambda: growth(700), target_transform="log"),
    "growth linear": regression(lambda: growth(250), target_transform=None),
    "growth weights": regression(lambda: weighted(growth(250))),
    "not growth log": regression(lambda: friedman(200), target_transform="log"),
    "weights": regression(lambda: weighted(friedman(300))),
    "whole weights": regression(lambda: weighted(friedman(250), whole=True)),
    "zero weights": regression(lambda: weighted(friedman(300), zeros=True)),
    "duplicates": regression(lambda: duplicated(friedman(200))),
    "duplicates weights": regression(lambda: weighted(duplicated(friedman(200)), zeros=True)),
    "outputs": regression(lambda: outputs(300)),
    "outputs log": regression(lambda: outputs(250, log=True), target_transform="log"),
    "wide": regression(lambda: wide(60, columns=150)),
    "constant columns": regression(lambda: changed(friedman(200), with_constants)),
    "missing cells": regression(lambda: changed(friedman(250), with_missing)),
    "far cell": regression(lambda: with_far(friedman(250))),
    "sparse": regression(lambda: changed(friedman(250), thinned)),
    "skewed": regression(lambda: skewed(500)),
    "frame": regression(lambda: frame(400)),
    "numbers as names": regression(lambda: skewed(300), categorical_features=[2]),
    "given ridge": regression(lambda: friedman(250), ridge=0.03),
    "given large ridge": regression(lambda: friedman(250), ridge=30.0),
    "no bias": regression(lambda: friedman(250), bias=0),
    "given all": regression(
        lambda: friedman(300), bias=1, ridge=0.1, feature_learning=0, parts="all", target_transform=None
    ),
    "no features": regression(lambda: friedman(300), feature_learning=0),
    "two rounds": regression(lambda: friedman(300), feature_learning=2),
    "columns": regression(lambda: friedman(300), parts="columns"),
    "pairs": regression(lambda: friedman(300), parts="pairs"),
    "huber": regression(lambda: wild(friedman(300)), loss="huber"),
    "quantile": regression(lambda: skewed(300), loss="quantile"),
    "poisson": regression(lambda: counted(300), loss="poisson"),
    "weights poisson": regression(lambda: weighted(counted(250), zeros=True), loss="poisson"),
    "iris": classification(lambda: real(load_iris, 100, apart=50)),
    "breast cancer": classification(lambda: real(load_breast_cancer, 369)),
    "digits": classification(lambda: real(load_digits, 500)),
    "two classes": classification(lambda: blobs(1000, classes=2)),
    "twenty classes": classification(lambda: blobs(800, classes=20)),
    "3000 rows of classes": classification(lambda: blobs(3000, classes=5)),
    "rare class": classification(lambda: blobs(500, classes=2, weights=[0.95]), class_weight="balanced"),
    "class weights": classification(lambda: blobs(300, classes=3), class_weight={0: 3.0, 2: 0.5}),
    "weights of classes": classification(lambda: weighted(blobs(300, classes=3))),
    "duplicate classes": classification(lambda: duplicated(blobs(200, classes=3))),
    "squares of classes": classification(lambda: blobs(300, classes=3), loss="squared_error"),
    "columns of classes": classification(lambda: blobs(300, classes=2), parts="columns"),
    "labels": classification(lambda: multilabel(300)),
    "wide classes": classification(lambda: wide(60, columns=150, classes=True)),
    "frame of classes": classification(lambda: frame(400, classes=True)),
    "given features of classes": classification(lambda: blobs(300, classes=3), feature_learning=1, ridge=0.1),
}
LARGE = {
    "exact": regression(lambda: friedman(6000, columns=5)),
    "exact weights": regression(lambda: weighted(duplicated(friedman(5200, columns=5)), zeros=True)),
    "centres": regression(lambda: friedman(12000, columns=5), approximation="centres"),
    "leaves": regression(lambda: waves(12000), approximation="leaves"),
    "either": regression(lambda: friedman(33000, columns=5), feature_learning=0),
    "many rows of classes": classification(lambda: blobs(6000, classes=8)),
    "many rows of two classes": classification(lambda: blobs(8000, classes=2), approximation="centres"),
    "many rows of squares": classification(lambda: blobs(6000, classes=3), loss="squared_error"),
    "many rows huber": regression(lambda: wild(friedman(5000, columns=5)), loss="huber"),
    "many rows poisson": regression(lambda: counted(5000), loss="poisson"),
    "many rows growth": regression(lambda: growth(6000)),
    "many rows outputs": regression(lambda: outputs(5000)),
    "many rows given": regression(lambda: skewed(5000), ridge=0.1, bias=1, feature_learning=1),
    "many rows frame": regression(lambda: frame(5000), feature_learning=0),
}
