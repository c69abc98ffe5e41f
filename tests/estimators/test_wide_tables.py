"""Tables with more columns than rows: fits in the span of the rows say what those of all columns would."""

import numpy as np
import pytest

import thresher
from thresher import SphereLift, ThresherClassifier, ThresherRegressor
from thresher.export import predict_arrays
from thresher.theory import firing_probability, limit_kernel

PLAIN = {"feature_learning": 0, "bias": 0.8, "ridge": 0.05, "target_transform": None, "parts": "all"}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 80)) * rng.uniform(0.1, 5, 80) + rng.normal(size=80)
    return X, X[:, 0] - np.abs(X[:, 1]), np.vstack([X[:4], rng.normal(size=(9, 80)), 40 * rng.normal(size=(5, 80))])


class TestTheSpan:
    @pytest.mark.parametrize("bias", [0.8, 0.0])
    @pytest.mark.parametrize("weighted", [False, True])
    def test_the_limit_is_that_of_all_columns(self, table, bias, weighted):
        X, y, others = table
        weights = 1.0 + np.arange(30) % 2 if weighted else None
        model = ThresherRegressor(**PLAIN | {"bias": bias}).fit(X, y, weights)
        whole = SphereLift(scale="robust", bias=bias).fit(X, sample_weight=weights)
        inputs, new = whole.transform(X), whole.transform(others)
        mean = np.average(y, weights=weights)
        # Whole weights on a third more rows than there are stand for copies, and only ratios of those matter.
        noise = 0.05 * firing_probability(0.0) / (1.0 if weights is None else weights / weights.mean())
        alpha = np.linalg.solve(limit_kernel(inputs @ inputs.T, 0.0) + np.diag(noise * np.ones(30)), y - mean)
        expected = limit_kernel(new @ inputs.T, 0.0, symmetric=False) @ alpha + mean
        np.testing.assert_allclose(model.predict(others), expected, atol=1e-9)

    @pytest.mark.parametrize("parts", ["all", "auto"])
    @pytest.mark.parametrize("feature_learning", [0, 1])
    def test_inputs_have_no_more_coordinates_than_rows_and_two(self, table, parts, feature_learning):
        X, y, _ = table
        model = ThresherRegressor(**PLAIN | {"feature_learning": feature_learning, "parts": parts}).fit(X, y)
        vectors, angles = model.model_.kernel.split(model.model_.inputs)
        assert vectors.shape[1] <= 30 + 2 and angles.shape[1] in (0, 80)
        assert parts == "auto" or not angles.shape[1]
        ours = model.model_.lift.transform(X)
        for one in ours:
            assert np.abs(model.model_.inputs - one).max(axis=1).min() < 1e-9
        assert model.model_.lift.rest == (feature_learning == 0)
        assert model.metric_.shape[0] == 80
        assert model.feature_importances_.shape == (80,)

    @pytest.mark.parametrize("rounds", [1, 3])
    def test_features_are_learnt_in_it(self, table, rounds):
        X, y, _ = table
        X = X / X.std(axis=0)
        scaled = SphereLift(scale="robust").fit(X)
        model = ThresherRegressor(**PLAIN | {"feature_learning": rounds}).fit(X, y)
        plain = ThresherRegressor(**PLAIN).fit(X, y)
        mixed = np.random.default_rng(1).normal(size=(7, 30)) @ X
        assert np.abs(plain.predict(mixed) - model.predict(mixed)).max() > 0.1
        basis = np.linalg.svd((X - scaled.scaling_.mean) / scaled.scaling_.unit, full_matrices=False)[2][:30]
        outside = model.metric_ - basis.T @ (basis @ model.metric_)  # the metric sees nothing beyond the span
        assert np.abs(outside).max() < 1e-8

    def test_rows_without_a_difference_have_a_span(self):
        model = ThresherRegressor(random_state=0).fit(np.ones((9, 20)), np.arange(9.0))
        np.testing.assert_allclose(model.predict(np.zeros((2, 20))), 4, atol=1e-6)

    def test_as_many_rows_as_columns_need_none(self):
        X = np.random.default_rng(0).normal(size=(20, 20))
        model = ThresherRegressor(random_state=0, **PLAIN).fit(X, X[:, 0])
        assert model.model_.lift.metric is None
        assert model.model_.inputs.shape == (20, 21)


class TestFilesAndExports:
    @pytest.mark.parametrize("feature_learning", [0, 1])
    def test_what_is_loaded_predicts_the_same(self, table, tmp_path, feature_learning):
        X, y, others = table
        model = ThresherRegressor(random_state=0, **PLAIN | {"feature_learning": feature_learning}).fit(X, y)
        model.save(tmp_path / "model")
        loaded = thresher.load(tmp_path / "model")
        for told, expected in zip(*(one.predict(others, return_std=True) for one in (loaded, model)), strict=True):
            # Sums of BLAS depend on where arrays stand, and variances are small differences.
            np.testing.assert_allclose(told, expected, rtol=1e-7)
        np.testing.assert_allclose(
            predict_arrays(model.to_numpy(dtype="float64"), others)[:, 0], model.predict(others), rtol=1e-7
        )

    def test_the_file_of_a_very_wide_table_is_small(self, tmp_path):
        X = np.random.default_rng(0).normal(size=(60, 1500))
        model = ThresherClassifier(random_state=0, feature_learning=0).fit(X, X[:, 0] > 0)
        model.save(tmp_path / "model")
        assert model.model_.inputs.shape == (60, 61)
        assert (tmp_path / "model").stat().st_size < 1_000_000  # 8 * 1500 * 60 is most of it
        np.testing.assert_array_equal(thresher.load(tmp_path / "model").predict_proba(X), model.predict_proba(X))
