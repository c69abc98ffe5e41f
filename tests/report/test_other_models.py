"""Evaluations of models that are not ours, of more rows than are looked at, and of bad tables."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LinearRegression, Ridge, RidgeClassifier

import thresher
from thresher import InvalidInput, ThresherRegressor
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


def test_a_target_in_a_column_of_its_own_is_one_target():
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = X[:, :1] + 1.0
    run = thresher.evaluate(Ridge().fit(X, y), X, y, X_train=X, y_train=y, seconds=0.1)
    assert run.scores["R2"] > 0.9


@pytest.mark.parametrize("size", [1e-300, 1e200, 1e306])
def test_numbers_of_any_size_are_compared_with_a_linear_model(size):
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = X[:, 0] + 0.1 * X[:, 1] ** 2
    usual, run = (
        thresher.evaluate(
            ThresherRegressor().fit(unit * X, unit * y),
            unit * X, unit * y, X_train=unit * X, y_train=unit * y, seconds=0.1,
        )
        for unit in (1.0, size)
    )  # fmt: skip
    assert run.details.linear["R2"] == pytest.approx(usual.details.linear["R2"], rel=1e-6)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"model": Ridge}, "the class Ridge cannot be evaluated; expected a fitted estimator"),
        ({"seconds": "5"}, "seconds must be a number; got '5'"),
        ({"seconds": -1}, "seconds must be at least 0; got -1"),
        ({"target": 3}, "target must be what the target is called; got 3"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(changed, message):
    X = np.random.default_rng(0).normal(size=(20, 2))
    given = {"model": Ridge().fit(X, X[:, 0]), "X": X, "y": X[:, 0]}
    with pytest.raises(InvalidInput, match=message):
        thresher.evaluate(**(given | changed))


def test_targets_come_from_frames_of_any_library():
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    X = np.random.default_rng(0).normal(size=(40, 2))
    table = polars.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": X[:, 0] - X[:, 1] ** 2})
    asked, values = table.to_arrow(), table["y"].to_numpy()
    model = LinearRegression().fit(table.select("a", "b").to_pandas(), values)
    base = str(thresher.evaluate(model, table.select("a", "b"), values, seconds=0.1))
    frames = [table, table.lazy(), asked, duckdb.sql("select * from asked")]
    for one in frames:
        columns = (one.select("a", "b"), one.select("y")) if one is not asked else (one.select(["a", "b"]), one["y"])
        assert str(thresher.evaluate(model, *columns, seconds=0.1)) == base
        ours = ThresherRegressor().fit(*columns)
        assert thresher.evaluate(ours, *columns, seconds=0.1).test.rows == 40
