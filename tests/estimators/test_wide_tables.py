"""Tables with more columns than rows: networks of the rows' span say what those of all columns would."""

import numpy as np
import pytest

import thresher
from thresher import SphereLift, ThresherClassifier, ThresherRegressor
from thresher.export import predict_arrays
from thresher.theory import firing_probability, limit_kernel

PLAIN = {"feature_learning": 0, "bias": 0.8, "shift": 0.4, "ridge": 0.05, "target": "linear"}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 80)) * rng.uniform(0.1, 5, 80) + rng.normal(size=80)
    return X, X[:, 0] - np.abs(X[:, 1]), np.vstack([X[:4], rng.normal(size=(9, 80)), 40 * rng.normal(size=(5, 80))])


def inputs_by_hand(X, others, bias):
    """All columns standardised, with a bias, on the sphere."""
    scaled = [(one - X.mean(axis=0)) / X.std(axis=0) for one in (X, others)]
    last = bias * np.sqrt((scaled[0] ** 2).sum(axis=1).mean())
    longer = [np.column_stack([one, np.full(len(one), last)]) for one in scaled]
    return [one / np.linalg.norm(one, axis=1, keepdims=True) for one in longer]


class TestTheSpan:
    @pytest.mark.parametrize("bias", [0.8, 0.0])
    @pytest.mark.parametrize("weighted", [False, True])
    def test_the_limit_is_that_of_all_columns(self, table, bias, weighted):
        X, y, others = table
        weights = 1.0 + np.arange(30) % 2 if weighted else None
        options = PLAIN | {"bias": bias, "scale": "standardise" if not weighted else "none"}
        model = ThresherRegressor(width=float("inf"), **options).fit(X, y, weights)
        if weighted:
            whole = SphereLift(scale="none", bias=bias).fit(X, sample_weight=weights)
            inputs, new = whole.transform(X), whole.transform(others)
        else:
            inputs, new = inputs_by_hand(X, others, bias)
        mean = np.average(y, weights=weights)
        # Whole weights on a third more rows than there are stand for copies, and only ratios of those matter.
        noise = 0.05 * firing_probability(0.4) / (1.0 if weights is None else weights / weights.mean())
        alpha = np.linalg.solve(limit_kernel(inputs @ inputs.T, 0.4) + np.diag(noise * np.ones(30)), y - mean)
        expected = limit_kernel(new @ inputs.T, 0.4, symmetric=False) @ alpha + mean
        np.testing.assert_allclose(model.predict(others), expected, atol=1e-9)

    @pytest.mark.parametrize("scale", ["standardise", "robust", "rank", "none"])
    @pytest.mark.parametrize("feature_learning", [0, 1, "columns"])
    def test_inputs_have_no_more_coordinates_than_rows_and_two(self, table, scale, feature_learning):
        X, y, _ = table
        options = PLAIN | {"scale": scale, "feature_learning": feature_learning}
        model = ThresherRegressor(width=64, random_state=0, **options).fit(X, y)
        assert model.inputs_.shape[1] <= 30 + 2
        assert model.networks_[0].weights.moved.shape == (64, model.inputs_.shape[1])
        np.testing.assert_allclose(model.lift_.transform(X[np.lexsort(X.T[::-1])]), model.inputs_, atol=1e-9)
        assert model.lift_.rest == (feature_learning != 1)
        assert model.metric_.shape[0] == 80
        assert model.feature_importances_.shape == (80,)

    @pytest.mark.parametrize("rounds", [1, 3])
    def test_features_are_learnt_in_it(self, table, rounds):
        X, y, _ = table
        basis = np.linalg.svd(X, full_matrices=False)[2].T
        options = PLAIN | {"scale": "none", "feature_learning": rounds, "width": float("inf")}
        wide, turned = (ThresherRegressor(**options).fit(rows, y) for rows in (X, X @ basis))
        mixed = np.random.default_rng(1).normal(size=(7, 30)) @ X  # in the span
        # Gradients are in single precision.
        np.testing.assert_allclose(wide.predict(mixed), turned.predict(mixed @ basis), rtol=1e-5)
        plain = ThresherRegressor(**options | {"feature_learning": 0}).fit(X, y)
        assert np.abs(plain.predict(mixed) - wide.predict(mixed)).max() > 0.1

    def test_rows_without_a_difference_have_a_span(self):
        model = ThresherRegressor(width=64, random_state=0).fit(np.ones((9, 20)), np.arange(9.0))
        np.testing.assert_allclose(model.predict(np.zeros((2, 20))), 4, atol=1e-6)

    def test_as_many_rows_as_columns_need_none(self):
        X = np.random.default_rng(0).normal(size=(20, 20))
        model = ThresherRegressor(width=64, random_state=0, **PLAIN).fit(X, X[:, 0])
        assert model.lift_.metric is None
        assert model.inputs_.shape == (20, 21)


class TestFilesAndExports:
    @pytest.mark.parametrize("feature_learning", [0, 1])
    @pytest.mark.parametrize("form", ["full", "recipe"])
    def test_what_is_loaded_predicts_the_same(self, table, tmp_path, form, feature_learning):
        X, y, others = table
        options = PLAIN | {"feature_learning": feature_learning}
        model = ThresherRegressor(width=64, random_state=0, **options).fit(X, y)
        model.save(tmp_path / "model", form=form)
        loaded = thresher.load(tmp_path / "model")
        for told, expected in zip(*(one.predict(others, return_std=True) for one in (loaded, model)), strict=True):
            # Sums of BLAS depend on where arrays stand, and variances are small differences.
            np.testing.assert_allclose(told, expected, rtol=1e-7)
        np.testing.assert_allclose(
            predict_arrays(model.to_numpy(dtype="float64"), others)[:, 0], model.predict(others), rtol=1e-7
        )

    def test_the_file_of_a_very_wide_table_is_small(self, tmp_path):
        X = np.random.default_rng(0).normal(size=(60, 1500))
        model = ThresherClassifier(width=2**13, random_state=0, feature_learning=0, scale="standardise")
        model.fit(X, X[:, 0] > 0).save(tmp_path / "model")
        assert model.inputs_.shape == (60, 61)
        assert (tmp_path / "model").stat().st_size < 1_000_000  # 8 * 1500 * 60 is most of it
        np.testing.assert_array_equal(thresher.load(tmp_path / "model").predict_proba(X), model.predict_proba(X))
