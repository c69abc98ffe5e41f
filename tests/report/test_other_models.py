"""Evaluations of models that are not ours, of more rows than are looked at, and of bad tables."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LinearRegression, RidgeClassifier

import thresher
from thresher import InvalidInput
from thresher.report.details import find_details


def test_a_model_without_probabilities(tmp_path):
    X, y = make_classification(400, 6, random_state=0)
    model = RidgeClassifier().fit(X[:200], y[:200])
    run = thresher.evaluate(model, X[200:], y[200:], y_train=y[:200], target="kind")
    assert run.test.measure == "accuracy"
    assert run.test.value == pytest.approx(model.score(X[200:], y[200:]))
    page = run.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "of its answers are right; always giving the commonest answer would get" in page


def test_of_very_many_rows_some_are_looked_at():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12_000, 2))
    y = X[:, 0] + rng.normal(size=12_000)
    found = find_details(LinearRegression().fit(X, y), X, y, known=y, task="regression", seconds=0.1)
    assert found.rows == 10_000
    assert found.scores["RMSE"] == pytest.approx(1, abs=0.05)


def test_rows_must_be_a_table():
    X = np.zeros((4, 3))
    with pytest.raises(InvalidInput, match=r"rows must be columns by name, a frame or \(n, d\) numbers; got shape"):
        find_details(LinearRegression().fit(X, X[:, 0]), X[:, :, None], X[:, 0], known=X[:, 0], task="regression")
