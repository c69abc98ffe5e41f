"""The fits that ``character.py`` writes down: generated tables, and those that scikit-learn ships."""

import math
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine, make_classification

INF = {"width": math.inf}
SMALL_NETWORK = {"width": 2048}


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
    "diabetes limit": regression(lambda: real(load_diabetes, 300, apart=142), **INF),
    "diabetes network": regression(lambda: real(load_diabetes, 300, apart=142), **SMALL_NETWORK),
    "diabetes random network": regression(
        lambda: real(load_diabetes, 200, apart=142), width=1001, start="random", feature_learning=0
    ),
    "50 rows": regression(lambda: friedman(50)),
    "120 rows": regression(lambda: friedman(120, columns=5), **INF),
    "600 rows": regression(lambda: friedman(600), **INF),
    "1500 rows": regression(lambda: friedman(1500), **INF),
    "4096 rows": regression(lambda: friedman(4096, columns=5), **INF),
    "waves": regression(lambda: waves(800), **INF),
    "next to nothing": regression(lambda: noise(300), **INF),
    "growth": regression(lambda: growth(250), **INF),
    "growth network": regression(lambda: growth(250), **SMALL_NETWORK),
    "growth log": regression(lambda: growth(700), target="log", **INF),
    "growth linear": regression(lambda: growth(250), target="linear", **INF),
    "growth weights": regression(lambda: weighted(growth(250)), **INF),
    "not growth log": regression(lambda: friedman(200), target="log", **INF),
    "weights": regression(lambda: weighted(friedman(300)), **INF),
    "whole weights": regression(lambda: weighted(friedman(250), whole=True), **INF),
    "zero weights": regression(lambda: weighted(friedman(300), zeros=True), **SMALL_NETWORK),
    "duplicates": regression(lambda: duplicated(friedman(200)), **INF),
    "duplicates weights": regression(lambda: weighted(duplicated(friedman(200)), zeros=True), **INF),
    "outputs": regression(lambda: outputs(300), **INF),
    "outputs network": regression(lambda: outputs(200), width=1024, feature_learning=0),
    "outputs log": regression(lambda: outputs(250, log=True), target="log", **INF),
    "wide": regression(lambda: wide(60, columns=150), **INF),
    "wide network": regression(lambda: wide(50, columns=90), **SMALL_NETWORK),
    "constant columns": regression(lambda: changed(friedman(200), with_constants), **INF),
    "missing cells": regression(lambda: changed(friedman(250), with_missing), **INF),
    "far cell": regression(lambda: with_far(friedman(250)), **INF),
    "sparse": regression(lambda: changed(friedman(250), thinned), **INF),
    "skewed": regression(lambda: skewed(500), **INF),
    "frame": regression(lambda: frame(400), **INF),
    "frame network": regression(lambda: frame(200), categorical_features=["code"], **SMALL_NETWORK),
    "numbers as names": regression(lambda: skewed(300), categorical_features=[2], **INF),
    "given ridge": regression(lambda: friedman(250), ridge=0.03, **INF),
    "given large ridge": regression(lambda: friedman(250), ridge=30.0, width=1024),
    "given shift and bias": regression(lambda: friedman(250), shift=0.7, bias=1.5, **INF),
    "no bias": regression(lambda: friedman(250), bias=0, **INF),
    "given all": regression(
        lambda: friedman(300), shift=0.3, bias=1, ridge=0.1, scale="standardise", feature_learning=0, target="linear"
    ),
    **{
        f"scale {name}": regression(lambda: skewed(250), scale=name, feature_learning=0, **INF)
        for name in ("log", "quantile", "rank", "common", "centre", "none")
    },
    "no features": regression(lambda: friedman(300), feature_learning=0, **INF),
    "two rounds": regression(lambda: friedman(300), feature_learning=2, **INF),
    "column weights": regression(lambda: friedman(300), feature_learning="columns", **INF),
    "interpolation": regression(lambda: friedman(80, noise=0.0), ridge=0, width=4096),
    "iris": classification(lambda: real(load_iris, 100, apart=50)),
    "iris limit": classification(lambda: real(load_iris, 100, apart=50), **INF),
    "wine network": classification(lambda: real(load_wine, 120, apart=58), **SMALL_NETWORK),
    "breast cancer": classification(lambda: real(load_breast_cancer, 369)),
    "digits": classification(lambda: real(load_digits, 500), **INF),
    "digits network": classification(lambda: real(load_digits, 300), **SMALL_NETWORK),
    "two classes": classification(lambda: blobs(1000, classes=2), **INF),
    "twenty classes": classification(lambda: blobs(800, classes=20), **INF),
    "3000 rows of classes": classification(lambda: blobs(3000, classes=5), **INF),
    "rare class": classification(lambda: blobs(500, classes=2, weights=[0.95]), class_weight="balanced", **INF),
    "class weights": classification(lambda: blobs(300, classes=3), class_weight={0: 3.0, 2: 0.5}, **INF),
    "weights of classes": classification(lambda: weighted(blobs(300, classes=3)), **INF),
    "duplicate classes": classification(lambda: duplicated(blobs(200, classes=3)), **INF),
    "labels": classification(lambda: multilabel(300), **INF),
    "labels network": classification(lambda: multilabel(200), **SMALL_NETWORK),
    "wide classes": classification(lambda: wide(60, columns=150, classes=True), **INF),
    "frame of classes": classification(lambda: frame(400, classes=True), **INF),
    "given features of classes": classification(
        lambda: blobs(300, classes=3), feature_learning=1, ridge=0.1, scale="rank", **INF
    ),
    "interpolated classes": classification(lambda: blobs(60, classes=3), ridge=0, width=4096),
}
LARGE = {
    "exact": regression(lambda: friedman(6000, columns=5)),
    "exact weights": regression(lambda: weighted(duplicated(friedman(5200, columns=5)), zeros=True)),
    "centres": regression(lambda: friedman(12000, columns=5), approximation="centres"),
    "leaves": regression(lambda: waves(12000), approximation="leaves"),
    "either": regression(lambda: friedman(33000, columns=5), feature_learning=0),
    "many rows network": regression(lambda: friedman(5000, columns=5), width=4096),
    "many rows of classes": classification(lambda: blobs(6000, classes=8)),
    "many rows of two classes": classification(lambda: blobs(8000, classes=2), approximation="centres"),
    "many rows growth": regression(lambda: growth(6000)),
    "many rows outputs": regression(lambda: outputs(5000)),
    "many rows given": regression(lambda: skewed(5000), ridge=0.1, bias=1, shift=0.5, scale="rank", feature_learning=1),
    "many rows frame": regression(lambda: frame(5000), feature_learning=0),
}
