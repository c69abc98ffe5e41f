"""Exports: plain arrays, ONNX and torch say what the estimator says, for every scale and whatever was learnt."""

import sys

import numpy as np
import pytest
from exported import exports, run_onnx

from thresher import InvalidInput, NotAvailable, ThresherClassifier, ThresherRegressor
from thresher.estimators.data.scaling import SCALES
from thresher.export import classify_arrays, predict_arrays
from thresher.tables import Column, Frame

SMALL = {"width": 512, "random_state": 0}
FIXED = {"width": 64, "random_state": 0, "shift": 0.5, "bias": 1.0, "ridge": 0.1}
LEARNT = {  # what multiplies scaled columns, and how many of them there are
    "nothing": {"feature_learning": 0},
    "weights of columns": {"feature_learning": "columns"},
    "a metric": {"feature_learning": 2},
    "no bias": {"feature_learning": 0, "bias": 0.0},
    "the rest": {"feature_learning": 0, "columns": 50},
    "the rest of weighed columns": {"feature_learning": "columns", "columns": 50},
    "a metric of the span": {"feature_learning": 1, "columns": 50},
}


def classes_by_onnx(model, rows, *, dtype):
    found = run_onnx(model, rows, dtype=dtype)
    return found["label"], found["probabilities"]


def classes_by_torch(model, rows, *, dtype):
    torch = pytest.importorskip("torch", reason="an extra")
    module, given = model.to_torch(dtype=dtype), torch.from_numpy(rows.astype(dtype))
    return module.labels(given), module.probabilities(given).numpy()


def classes_by_arrays(model, rows, *, dtype):
    return classify_arrays(model.to_numpy(dtype=dtype), rows.astype(dtype))


@pytest.fixture(scope="module", params=[(scale, learnt) for scale in SCALES for learnt in LEARNT], ids=str)
def fitted(request):
    """An estimator of one scale, what it had learnt, and rows: trained on, new, and far outside."""
    scale, learnt = request.param
    options = FIXED | LEARNT[learnt] | {"scale": scale}
    columns = options.pop("columns", 4)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, columns))
    X[:, 0], X[:, 1] = rng.integers(2, size=40), rng.integers(4, size=40)
    X[:, 2] = 0.3 if scale != "none" and columns == 4 else X[:, 2]
    y = np.exp(X[:, -1]) + X[:, 0]
    rows = np.vstack([X[:5], 3 * rng.normal(size=(10, columns)), 1e4 * rng.normal(size=(5, columns)), X[:3] + 1e9])
    return ThresherRegressor(**options, target="log" if learnt in ("a metric", "the rest") else "linear").fit(
        X, y
    ), rows


@exports
def test_it_predicts_the_same(fitted, export):
    model, rows = fitted
    expected = model.predict(rows)
    assert np.ptp(expected) > 0.1
    np.testing.assert_allclose(export(model, rows)[:, 0], expected, rtol=1e-7, atol=1e-7)


@exports
def test_single_precision_predicts_the_same_but_for_rounding(fitted, export):
    model, rows = fitted
    rows = rows[:15].astype(np.float32)
    expected = model.predict(rows.astype(np.float64))
    found = export(model, rows, dtype="float32")[:, 0]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=2e-4 * np.ptp(expected))


def test_what_was_to_be_exported_was_there(fitted, request):
    model, _ = fitted
    lift, learnt = model.lift_, request.node.callspec.params["fitted"][1]
    assert (lift.weights is not None) == ("weigh" in learnt)
    assert (lift.metric is not None) == ("metric" in learnt or "rest" in learnt)
    assert lift.rest == ("rest" in learnt)
    assert (lift.scaling_.knots is not None) == (lift.scale in ("quantile", "rank"))


@exports
def test_defaults_predict_the_same(regressor, classifier, logarithmic, diabetes, growth, iris, export):
    assert logarithmic.target_ == "log"
    for model, X in ((regressor, diabetes[2]), (logarithmic, growth[2])):
        np.testing.assert_allclose(export(model, X)[:, 0], model.predict(X), rtol=1e-8)
    np.testing.assert_allclose(export(classifier, iris[0]), classifier.decision_function(iris[0]), atol=1e-8)


@exports
def test_scores_of_several_labels(export):
    X = np.random.default_rng(0).normal(size=(50, 3))
    model = ThresherClassifier(**FIXED, feature_learning=0).fit(X, (X[:, :2] > 0).astype(int))
    np.testing.assert_allclose(export(model, X), model.decision_function(X), atol=1e-9)


classes = pytest.mark.parametrize("export", [classes_by_arrays, classes_by_onnx, classes_by_torch])
precisions = pytest.mark.parametrize(("dtype", "apart"), [("float32", 1e-4), ("float64", 1e-9)])


@classes
@precisions
@pytest.mark.parametrize("labels", [["no", "yes"], [3, 5], ["a", "bb", "c"], [1.0, 2.0, 7.0], [True, False]], ids=str)
def test_labels_and_probabilities(export, dtype, apart, labels):
    X = np.random.default_rng(0).normal(size=(60, 3)).round(2)
    y = np.array(labels)[(X @ [1.0, 2.0, -1.0] * 0.5).round().astype(int) % len(labels)]
    model = ThresherClassifier(**FIXED, feature_learning=0).fit(X, y)
    told, chances = export(model, X, dtype=dtype)
    np.testing.assert_array_equal(told, model.predict(X))
    np.testing.assert_allclose(chances, model.predict_proba(X), atol=apart)


@classes
@precisions
def test_several_labels_and_their_probabilities(export, dtype, apart):
    X = np.random.default_rng(0).normal(size=(50, 3))
    model = ThresherClassifier(**FIXED, feature_learning=0).fit(X, (X[:, :2] > 0).astype(int))
    told, chances = export(model, X, dtype=dtype)
    np.testing.assert_array_equal(told, model.predict(X))
    np.testing.assert_allclose(chances, model.predict_proba(X), atol=apart)


@exports
@pytest.mark.parametrize(("dtype", "apart"), [("float32", 2e-4), ("float64", 1e-9)])
def test_missing_numbers_are_part_of_an_export(export, dtype, apart):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    X[:, 3] = 1.0
    X[rng.random(X.shape) < 0.2] = np.nan
    X[0] = [1.0, 2.0, 3.0, 1.0]
    model = ThresherRegressor(**FIXED, feature_learning=0).fit(X, np.nan_to_num(X[:, 0]) + np.isnan(X[:, 1]))
    rows = np.vstack([X, np.full((1, 4), np.nan)])
    expected = model.predict(rows)
    np.testing.assert_allclose(export(model, rows, dtype=dtype)[:, 0], expected, atol=apart * np.ptp(expected))


def test_tables_with_words_are_exported_behind_their_encoder():
    table = Frame([Column("a", np.arange(9.0)), Column("b", np.array(list("xyz") * 3, object))])
    model = ThresherRegressor(**FIXED, feature_learning=0).fit(table, np.arange(9.0))
    with pytest.raises(InvalidInput, match=r"takes numbers, and b of the table are not\. Export with encoded=True"):
        model.to_numpy()
    found = predict_arrays(model.to_numpy(dtype="float64", encoded=True), model.encoder_.transform(table))
    np.testing.assert_allclose(found[:, 0], model.predict(table), rtol=1e-9)
    with pytest.raises(InvalidInput, match="dtype must be 'float32' or 'float64'; got 'float16'"):
        model.to_numpy(dtype="float16", encoded=True)


@exports
@pytest.mark.parametrize("scale", SCALES)
def test_one_row_and_no_change(export, scale):
    model = ThresherRegressor(width=16, random_state=0, scale=scale).fit([[1.0, 5.0]], [3.0])
    np.testing.assert_array_equal(export(model, np.array([[1.0, 5.0], [9.0, -1e6]])), [[3.0], [3.0]])


@exports
def test_networks_that_never_moved_are_exported(diabetes, export):
    X, *_ = diabetes
    model = ThresherRegressor(**SMALL).fit(X[:9], np.full(9, 3.0))
    np.testing.assert_array_equal(export(model, X)[:, 0], np.full(200, 3.0))


def test_neurons_that_never_moved_are_dropped(diabetes):
    X, y, others, _ = diabetes
    model = ThresherRegressor(shift=3.0, feature_learning=0, width=2000, random_state=0).fit(X[:20], y[:20])
    arrays = model.to_numpy(dtype="float64")
    assert arrays["hidden"].shape[1] < 100
    np.testing.assert_allclose(predict_arrays(arrays, others)[:, 0], model.predict(others), rtol=1e-9)


@pytest.mark.parametrize("options", [{"bias": 0.0}, {"bias": 1.0}, {"scale": "rank"}, {"scale": "none"}])
def test_onnx_models_hold_nothing_that_is_not_used(diabetes, options, tmp_path):
    onnx = pytest.importorskip("onnx", reason="an extra")
    X, y, *_ = diabetes
    model = ThresherRegressor(**options, **SMALL).fit(X[:20], y[:20])
    graph = model.to_onnx(tmp_path / "model.onnx").graph
    assert {one.name for one in graph.initializer} <= {name for node in graph.node for name in node.input}
    assert onnx.load(tmp_path / "model.onnx").graph == graph


def test_without_the_extras_one_line_says_what_to_do(regressor, monkeypatch):
    for name in ("thresher.export.torch_module", "thresher.export.onnx"):
        monkeypatch.delitem(sys.modules, name, raising=False)  # as if nothing had needed them yet
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(NotAvailable, match=r"pip install 'thresher-ml\[torch\]'"):
        regressor.to_torch()
    with pytest.raises(NotAvailable, match=r"pip install 'thresher-ml\[onnx\]'"):
        regressor.to_onnx()
