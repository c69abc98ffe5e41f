"""Fits of rows that stay in a file: the same models as from memory, and few rows in memory at a time."""

import tracemalloc

import numpy as np
import pytest
from few import with_sizes
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import examples
from sklearn.datasets import make_friedman1

from thresher import InvalidInput, ThresherClassifier, ThresherRegressor
from thresher.estimators import fit
from thresher.estimators.data import observations, scaling, streams
from thresher.estimators.data.observations import Observations
from thresher.estimators.data.streams import hash_rows
from thresher.tables import rows_on_disk
from thresher.tables.rows_on_disk import Part

OPTIONS = {"random_state": 0, "feature_learning": 1, "target_transform": None}


SIZES = {
    "chosen_on": 200,
    "exact": 600,
    "held": 150,
    "scaled": 200,
    "sorted": 10_000,
    "centres": 40,
    "more_centres": 60,
    "sample": 200,
    "leaf": 200,
    "pivots": 20,
    "known": 200,
}


@pytest.fixture(autouse=True)
def blocks_are_small(monkeypatch):
    for module in (rows_on_disk, streams, scaling, observations, fit):
        monkeypatch.setattr(module, "BLOCK", 64)
    monkeypatch.setattr(scaling, "_FEWEST", 200)
    monkeypatch.setattr(scaling, "_SORTED", 20_000)


def regressor(**options):
    return with_sizes(ThresherRegressor(**options), **SIZES)


def classifier(**options):
    return with_sizes(ThresherClassifier(**options), **SIZES)


def table(n=1200, d=6, seed=0):
    return make_friedman1(n, d, noise=0.5, random_state=seed)


def mapped(path, X):
    np.save(path, X)
    return np.load(path, mmap_mode="r")


def in_parquet(path, X):
    pyarrow = pytest.importorskip("pyarrow", reason="the extra 'parquet'")
    from pyarrow import parquet

    from thresher.tables import ParquetRows

    parquet.write_table(pyarrow.table({f"c{k}": one for k, one in enumerate(X.T)}), path, row_group_size=70)
    return ParquetRows(path)


@pytest.mark.parametrize("kind", [mapped, in_parquet])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_model_of_a_file_is_that_of_its_rows(kind, dtype, tmp_path):
    X, y = table()
    X = X.astype(dtype)
    stored = kind(tmp_path / "X.npy", X)
    expected = regressor(**OPTIONS, approximation="centres").fit(X, y)
    model = regressor(**OPTIONS).fit(stored, y)
    assert model.model_.way == "centres"
    assert model.n_features_in_ == 6
    for one, other in zip(model.predict(stored, return_std=True), expected.predict(X, return_std=True), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    np.testing.assert_array_equal(model.model_.alpha, expected.model_.alpha)
    assert np.mean((model.predict(stored) - y) ** 2) < 0.2 * y.var()


def test_a_classifier(tmp_path):
    X, y = table()
    labels = np.digitize(y, np.quantile(y, [0.3, 0.6]))
    stored = mapped(tmp_path / "X.npy", X)
    model = classifier(random_state=0, feature_learning=0, class_weight="balanced").fit(stored, labels)
    expected = classifier(random_state=0, feature_learning=0, class_weight="balanced", approximation="centres").fit(
        X, labels
    )
    np.testing.assert_allclose(model.predict_proba(stored), expected.predict_proba(X), rtol=1e-6)
    assert model.score(stored, labels) > 0.7


@pytest.mark.thorough
def test_few_rows_are_in_memory_at_a_time(tmp_path):
    X, y = table(20_000, 200)
    stored = mapped(tmp_path / "X.npy", X)
    size, few = X.nbytes, mapped(tmp_path / "few.npy", X[:800])
    options = {**OPTIONS, "feature_learning": 0, "n_jobs": 1}
    regressor(**options).fit(few, y[:800])  # all is compiled
    del X
    tracemalloc.start()
    try:
        model = regressor(**options).fit(stored, y)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        model.predict(stored)
        predicting = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < size / 4
    assert predicting < size / 4


@pytest.mark.parametrize("kind", [mapped, in_parquet])
def test_the_row_that_is_not_finite_is_named(kind, tmp_path):
    X, y = table()
    X[1100, 3] = np.nan
    with pytest.raises(InvalidInput, match=r"row 110\d.*column ('c3'|3)"):
        regressor().fit(kind(tmp_path / "X.npy", X), y)
    model = regressor(**OPTIONS).fit(X[:300], y[:300])
    with pytest.raises(InvalidInput, match=r"row 110\d.*column ('c3'|3)"):
        model.predict(kind(tmp_path / "X.npy", X))


def test_what_does_not_fit_together_is_refused(tmp_path):
    X, y = table()
    stored = in_parquet(tmp_path / "X.parquet", X)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        regressor().fit(stored, y[1:])
    model = regressor(**OPTIONS).fit(stored, y)
    assert list(model.feature_names_in_) == stored.names
    stored.names = stored.names[::-1]
    with pytest.raises(InvalidInput, match="columns of the fit"):
        model.predict(stored)
    with pytest.raises(InvalidInput, match="columns of the fit"):
        model.predict(mapped(tmp_path / "less.npy", X[:, 1:]))
    with pytest.raises(InvalidInput, match="must be numbers"):
        regressor().fit(mapped(tmp_path / "text.npy", X.astype("U5")), y)


def test_what_needs_all_rows_reads_them(tmp_path):
    X, y = table(800)
    stored = mapped(tmp_path / "X.npy", X)
    for way in ("leaves", "exact"):
        model = regressor(**OPTIONS, approximation=way).fit(stored, y)
        assert model.model_.way == way
        expected = regressor(**OPTIONS, approximation=way).fit(X, y)
        np.testing.assert_allclose(model.predict(X[:50]), expected.predict(X[:50]), rtol=1e-6)


def test_the_order_of_rows_does_not_matter_and_equal_ones_are_one(tmp_path):
    X, y = table()
    order = np.random.default_rng(0).permutation(np.repeat(np.arange(len(X)), 2))
    models = [
        regressor(**OPTIONS).fit(mapped(tmp_path / f"{k}.npy", rows), targets, sample_weight=weights)
        for k, (rows, targets, weights) in enumerate(
            [(X, y, np.full(len(X), 2.0)), (X[order], y[order], None), (X[::-1], y[::-1], np.full(len(X), 2.0))]
        )
    ]
    for model in models[1:]:
        np.testing.assert_allclose(model.predict(X[:50]), models[0].predict(X[:50]), rtol=1e-4)
        assert model.loo_error_ == pytest.approx(models[0].loo_error_, rel=1e-4)


@settings(max_examples=examples(30))
@given(seed=st.integers(0, 1000), values=st.integers(1, 6), d=st.integers(1, 3))
def test_streamed_observations_are_merged_ones(seed, values, d):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, values, size=(60, d)) * rng.choice([-1.0, 0.5], size=(1, d))
    targets, weights = rng.normal(size=(60, 2)), rng.uniform(0.5, 2.0, size=60)
    streamed, merged = (
        make(rows, targets, weights=weights)
        for make, rows in ((Observations.streamed, Part(X)), (Observations.merged, X))
    )
    rows = streamed.X[np.arange(len(streamed))]
    order = np.lexsort(rows.T[::-1])
    np.testing.assert_array_equal(rows[order], merged.X)
    np.testing.assert_allclose(streamed.weights[order], merged.weights)
    np.testing.assert_allclose(streamed.targets[order], merged.targets, atol=1e-12)
    assert sorted(streamed.random_order()) == list(range(len(streamed)))
    assert sorted(merged.random_order()) == list(range(len(merged)))


def test_a_hash_tells_rows_apart():
    grid = np.stack(np.meshgrid(*[np.arange(16.0)] * 4), axis=-1).reshape(-1, 4)
    marks = hash_rows(np.concatenate([grid, -grid[1:], grid[:1] + 1e-300]))
    assert len(np.unique(marks)) == len(marks)
    np.testing.assert_array_equal(hash_rows(-np.zeros((1, 2))), hash_rows(np.zeros((1, 2))))
    shares = [np.mean(marks >> np.uint64(bit) & np.uint64(1)) for bit in range(64)]
    assert np.abs(np.array(shares) - 0.5).max() < 0.02


def test_weights_of_zero_may_leave_few_rows(tmp_path):
    X, y = table(1200)
    weight = (np.arange(len(y)) < 300) * 1.0
    few = regressor(**OPTIONS).fit(mapped(tmp_path / "rows.npy", X), y, sample_weight=weight)
    same = regressor(**OPTIONS).fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(few.predict(X), same.predict(X))


def test_two_columns_of_one_name_are_refused(tmp_path):
    arrow = pytest.importorskip("pyarrow", reason="the extra 'parquet'")
    from pyarrow import parquet

    from thresher.tables import ParquetRows

    columns = [arrow.array(np.arange(5.0)) for _ in range(3)]
    parquet.write_table(arrow.table(columns, names=["a", "a", "y"]), tmp_path / "twice.parquet")
    with pytest.raises(InvalidInput, match="several columns have the same name: a"):
        ParquetRows(tmp_path / "twice.parquet")


def test_predictions_check_what_they_get(tmp_path):
    X, y = table(1200)
    fitted = regressor(**OPTIONS).fit(mapped(tmp_path / "rows.npy", X), y)
    odd = np.memmap(tmp_path / "odd", np.complex128, mode="w+", shape=X.shape)
    with pytest.raises(InvalidInput, match="must be numbers"):
        fitted.predict(odd)
