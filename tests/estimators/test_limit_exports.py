"""Exports of the limit of infinite width say what the estimator says: few rows, centres, leaves, and parts."""

import naive
import numpy as np
import pytest
from exported import by_arrays, by_onnx, exports, run_onnx
from scipy.special import owens_t

from thresher import InvalidInput, ThresherClassifier, ThresherRegressor
from thresher.estimators.data.scaling import SCALES
from thresher.estimators.sizes import Sizes
from thresher.export import classify_arrays, predict_arrays
from thresher.theory.kernel import firing_probability, probability_cubics

LIMIT = {"width": float("inf"), "shift": 0.4, "bias": 1.0, "ridge": 0.01, "feature_learning": 0}
PARTS = ("all", "columns", "pairs", "mixed", "layer", "sharp")


class Few(ThresherRegressor):
    """Sixty rows are many here."""

    _sizes = Sizes(one_by_one=40, exact=60, exact_cheap=60, centres=20, more_centres=30, leaf=25)


precisions = pytest.mark.parametrize(("dtype", "apart"), [("float64", 1e-7), ("float32", 2e-5)])


def table(rows=70, columns=4, seed=0):
    """Rows of which the first columns are whole numbers, all exact in single precision, and targets."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns))
    X[:, 0], X[:, 1] = rng.integers(3, size=rows), rng.integers(5, size=rows)
    X = X.astype(np.float32).astype(np.float64)
    return X, np.sin(2 * X[:, 2]) + X[:, 2] * X[:, 3] + (X[:, 0] == 1) + 0.1 * rng.normal(size=rows)


def rows_like(X):
    """Rows that were fitted, new ones, and some far outside."""
    return np.vstack([X[:30], table(seed=1, columns=X.shape[1])[0][:20], np.float32(100) * X[:3]])


def same(export, model, rows, *, dtype, apart):
    expected = model.predict(rows) if hasattr(model, "target_") else model.decision_function(rows)
    found = export(model, rows, dtype=dtype)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected.reshape(found.shape), atol=apart * np.ptp(expected))


def test_the_table_is_the_probability():
    t = np.sqrt(np.random.default_rng(0).uniform(size=2000))
    for shift in (0.0, 1e-3, 0.3, 2.0):
        for side, rho in zip(probability_cubics(shift), (1 - t**4, t**4 - 1), strict=True):
            node = (t * len(side)).astype(int)
            u = (t * len(side) - node)[:, None]
            slope = np.sqrt((1 - rho) / np.maximum(1 + rho, 1e-300))
            expected = firing_probability(shift) - 2 * owens_t(shift, slope)
            found = (side[node] * u ** np.arange(4)).sum(axis=1)
            np.testing.assert_allclose(found, expected, atol=2e-8 * firing_probability(shift))


@exports
@precisions
@pytest.mark.parametrize("parts", PARTS)
def test_every_part_of_the_kernel(export, dtype, apart, parts):
    X, y = table()
    model = ThresherRegressor(**LIMIT, parts=parts).fit(X, y)
    same(export, model, rows_like(X), dtype=dtype, apart=apart)


def test_what_is_added_up_is_the_kernel_of_the_definition():
    X, y = table()
    X, rows = X[:, 2:], rows_like(X)[:, 2:]
    model = ThresherRegressor(**LIMIT, parts="layer").fit(X, y)
    arrays, shares = model.to_numpy(dtype="float64"), model._kernel.parts.shares
    vectors, angles = zip(*map(model._kernel.split, (model.lift_.transform(rows), model.inputs_)), strict=True)
    cells = [1 / np.tan(one) for one in angles]
    kernel = naive.kernel_of_parts(*vectors, *cells, categories=[False] * 2, shift=0.4, shares=shares)
    expected = kernel @ model.alpha_ * arrays["unit"] + arrays["mean"]
    np.testing.assert_allclose(predict_arrays(arrays, rows), expected, atol=2e-5)


@exports
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("shift", [0.0, 0.01, 3.0])
def test_every_scale_and_shift(export, scale, shift):
    X, y = table()
    model = ThresherRegressor(**LIMIT | {"shift": shift, "scale": scale}, parts="all").fit(X, y)
    same(export, model, rows_like(X), dtype="float64", apart=1e-7)


@exports
@precisions
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"feature_learning": 2},
        {"feature_learning": "columns"},
        {"bias": 0.0},
        {"parts": "columns", "monotone": {2: 1, 3: -1}},
    ],
    ids=str,
)
def test_what_was_chosen_or_learnt(export, dtype, apart, options):
    X, y = table()
    model = ThresherRegressor(**LIMIT | options).fit(X, y)
    assert (model._monotone is not None) == ("monotone" in options)
    same(export, model, rows_like(X), dtype=dtype, apart=apart)


@exports
@precisions
def test_logarithms_several_outputs_and_more_columns_than_rows(export, dtype, apart):
    X, y = table(columns=90)
    model = ThresherRegressor(**LIMIT, target="log", parts="all").fit(X[:40], np.exp(np.c_[y, -y])[:40])
    assert model.lift_.rest and model.target_ == "log"
    same(export, model, rows_like(X), dtype=dtype, apart=apart)


@exports
@pytest.mark.parametrize("parts", ["all", "columns", "mixed", "layer"])
@pytest.mark.parametrize("way", ["centres", "leaves", "exact"])
def test_many_rows(export, way, parts):
    X, y = table(150)
    model = Few(**LIMIT, approximation=way, parts=parts).fit(X, y)
    assert model.approximation_ == way
    assert way != "leaves" or len(model.leaves_.lasts) > 3
    rows, expected = rows_like(X), model.predict(rows_like(X))  # in single precision
    np.testing.assert_allclose(export(model, rows)[:, 0], expected, atol=2e-4 * np.ptp(expected))
    np.testing.assert_allclose(export(model, rows, dtype="float32")[:, 0], expected, atol=2e-4 * np.ptp(expected))


@exports
def test_whole_numbers_that_became_categories(export):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(8, size=200), rng.normal(size=200)])
    model = ThresherRegressor(width=float("inf")).fit(X, np.array([3, -1, 2, 5, -4, 0, 1, 7.0])[X[:, 0].astype(int)])
    assert model.categories_ and model.lift_.indicators_ is not None
    same(export, model, np.vstack([X[:20], [[9, 0.0]]]), dtype="float64", apart=1e-7)


@exports
def test_blocks_of_rows_say_what_single_rows_say(export, monkeypatch):
    X, y = table()
    model = ThresherRegressor(**LIMIT, parts="mixed").fit(X, y)
    whole = export(model, X)
    monkeypatch.setattr("thresher.export.arrays._BLOCK", 9 * 4 * len(X))
    np.testing.assert_allclose(export(model, X), whole, atol=1e-7)
    np.testing.assert_allclose(export(model, X[:1]), whole[:1], atol=1e-7)
    assert export(model, X[:0]).shape == (0, 1)


@precisions
@pytest.mark.parametrize("classes", [2, 3])
def test_classes(dtype, apart, classes):
    X, y = table()
    model = ThresherClassifier(**LIMIT).fit(X, np.array(["no", "yes", "maybe"])[np.digitize(y, (0, 1)) % classes])
    rows = rows_like(X)
    told = run_onnx(model, rows, dtype=dtype)
    for label, chances in ((told["label"], told["probabilities"]), classify_arrays(model.to_numpy(dtype=dtype), rows)):
        np.testing.assert_array_equal(label, model.predict(rows))
        np.testing.assert_allclose(chances, model.predict_proba(rows), atol=10 * apart)


def test_files_are_small_and_hold_what_is_used(tmp_path):
    onnx = pytest.importorskip("onnx", reason="an extra")
    X, y = table()
    for parts in ("columns", "all"):
        model = ThresherRegressor(**LIMIT, parts=parts).fit(X, y).to_onnx(tmp_path / "model.onnx")

        def names(graph):
            inner = [one.g for node in graph.node for one in node.attribute if one.HasField("g")]
            return {name for node in graph.node for name in node.input}.union(*map(names, inner))

        assert {one.name for one in model.graph.initializer} <= names(model.graph)
        assert (tmp_path / "model.onnx").stat().st_size < 80_000
        assert onnx.load(tmp_path / "model.onnx").graph == model.graph


@pytest.mark.parametrize("loss", ["squared", "log"])
def test_probabilities_by_either_loss(loss):
    X, y = table()
    for labels in (y > 0, np.digitize(y, (-0.5, 0.5))):
        model = ThresherClassifier(width=float("inf"), loss=loss).fit(X, labels)
        label, chances = classify_arrays(model.to_numpy(dtype="float64"), X)
        np.testing.assert_array_equal(label, model.predict(X))
        np.testing.assert_allclose(chances, model.predict_proba(X), atol=1e-6)
        told = run_onnx(model, X, dtype="float64")
        np.testing.assert_allclose(told["probabilities"], chances, atol=1e-6)


@pytest.mark.parametrize("loss", ["huber", "poisson"])
def test_other_losses_of_the_regressor(loss):
    X, y = table()
    target = np.random.default_rng(0).poisson(np.exp(y / 2)) if loss == "poisson" else y
    model = ThresherRegressor(**LIMIT, loss=loss).fit(X, target)
    for export in (by_arrays, by_onnx):
        same(export, model, X, dtype="float64", apart=1e-7)


def test_quantiles_of_their_own_are_refused():
    X, y = table()
    with pytest.raises(InvalidInput, match="one prediction for a row, and no quantiles"):
        ThresherRegressor(**LIMIT, loss="quantile").fit(X, y).to_onnx()
