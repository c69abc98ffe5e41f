"""Intervals and quantiles of new targets: ordered, in the targets' own space, and as wide as they say."""

import naive
import numpy as np
import pytest
from few import friedman, of_few
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri

import thresher
from thresher import InvalidInput, ThresherRegressor
from thresher.estimators.intervals import LEVELS, _quantiles_of, residuals_at

FIXED = {"bias": 1.0, "ridge": 0.1, "feature_learning": 0, "parts": "all"}
QUANTILES = np.array([1e-6, 0.001, 0.02, 0.05, 0.25, 0.4, 0.5, 0.6, 0.75, 0.95, 0.98, 0.999, 1 - 1e-6])


def noisy(rows, seed=0, noise="normal"):
    """Rows, targets, and others of the same kind to compare with."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows + 1000, 3))
    draws = {
        "normal": lambda: rng.normal(size=len(X)),
        "heavy": lambda: rng.standard_t(2, size=len(X)),
        "skewed": lambda: rng.exponential(size=len(X)) - 1,
        "uneven": lambda: np.exp(X[:, 0]) * rng.normal(size=len(X)),
        "tiny": lambda: 1e-6 * rng.normal(size=len(X)),
    }
    y = X[:, 0] + np.sin(2 * X[:, 1]) + 0.5 * draws[noise]()
    return X[:rows], y[:rows], X[rows:], y[rows:]


def weights_of(kind, rows):
    rng = np.random.default_rng(1)
    return {"none": None, "whole": rng.integers(0, 4, rows), "any": rng.uniform(0.2, 3.0, rows)}[kind]


class TestOrder:
    @pytest.mark.parametrize("rows", [2, 6, 40, 400])
    @pytest.mark.parametrize("weights", ["none", "whole", "any"])
    @pytest.mark.parametrize("outputs", [None, 1, 2])
    @pytest.mark.parametrize("target", [None, "log"])
    def test_quantiles_ascend_and_intervals_are_nested(self, rows, weights, outputs, target):
        X, y, others, _ = noisy(rows)
        Y = np.exp(y) if outputs is None else np.column_stack([np.exp(y), y**2])[:, :outputs]
        given_weights = weights_of(weights, rows)
        if weights == "whole":
            given_weights[:2] = 1
        model = of_few(ThresherRegressor(target_transform=target, **FIXED)).fit(X, Y, given_weights)  # 400 are many
        others = np.vstack([others[:20], 50 * others[:5], X[:2]])
        found = model.predict_quantiles(others, QUANTILES)
        assert found.shape == (27, *(() if outputs is None else (outputs,)), len(QUANTILES))
        assert np.isfinite(found).all()
        assert (np.diff(found, axis=-1) >= 0).all()
        values = model.predict(others)
        inner, outer = np.array([0.0, 0.0]), None
        for coverage in (0.01, 0.5, 0.9, 0.99):
            outer = model.predict_interval(others, coverage)
            assert outer[0].shape == outer[1].shape == values.shape
            if coverage > 0.01:
                assert (outer[0] <= inner[0]).all()
                assert (inner[1] <= outer[1]).all()
            inner = outer
        bounds = np.stack(model.predict_interval(others, 0.9), axis=-1)
        np.testing.assert_allclose(bounds, found[..., [3, 9]], rtol=1e-9)
        if target == "log":
            np.testing.assert_array_equal(found[..., 6], values)
            above = np.moveaxis(found, -1, 0) - model.predictive_.floor
            assert (above >= 0).all()
            assert rows < 40 or (above[3] > 0).all()
            assert (outer[0] <= values).all()
            assert (values <= outer[1]).all()

    def test_they_are_logarithms_of_what_is_learnt_by_hand(self):
        X, y, others, _ = noisy(200, noise="skewed")
        model = ThresherRegressor(target_transform="log", **FIXED).fit(X, np.exp(y))
        by_hand = ThresherRegressor(target_transform=None, **FIXED).fit(X, np.log(np.exp(y) - model.predictive_.floor))
        np.testing.assert_array_equal(model.predictive_.residuals, by_hand.predictive_.residuals)
        expected = np.exp(by_hand.predict_quantiles(others, [0.05, 0.25, 0.75, 0.95])) + model.predictive_.floor
        np.testing.assert_allclose(model.predict_quantiles(others, [0.05, 0.25, 0.75, 0.95]), expected, rtol=1e-9)

    def test_equal_targets_have_bars_of_no_width_where_they_are(self):
        X = np.random.default_rng(0).normal(size=(30, 2))
        lower, upper = ThresherRegressor(**FIXED).fit(X, np.full(30, 3.0)).predict_interval(X)
        np.testing.assert_array_equal(lower, 3.0)
        np.testing.assert_array_equal(upper, 3.0)


class TestCoverage:
    @pytest.mark.parametrize("target", [None, "log"])
    @pytest.mark.parametrize("noise", ["normal", "heavy", "skewed", "uneven", "tiny"])
    @pytest.mark.parametrize("rows", [250, 400])
    def test_as_many_targets_are_inside_as_should_be(self, noise, target, rows):
        """Bars of a normal distribution held 96 % of errors with heavy tails."""
        found = []
        for seed in range(4):
            X, y, others, wanted = noisy(rows, seed=seed, noise=noise)
            if target == "log":
                y, wanted = np.exp(np.minimum(y, 5)), np.exp(np.minimum(wanted, 5))
            options = {**FIXED, "ridge": 1e-3} if noise == "tiny" else FIXED
            model = of_few(ThresherRegressor(target_transform=target, **options)).fit(X, y)  # 400 are many
            places = model.predict_quantiles(others, [0.05, 0.25, 0.75, 0.95])
            found.append((wanted[:, None] < places).mean(axis=0))
        left_out = 4 * (80 if rows == 400 else 250)
        for share, level in zip(np.mean(found, axis=0), (0.05, 0.25, 0.75, 0.95), strict=True):
            assert abs(share - level) < 3.3 * np.sqrt(level * (1 - level) * (1 / left_out + 1 / 4000)) + 0.01

    @pytest.mark.parametrize("rows", [10, 20, 40])
    def test_few_rows_have_bars_that_are_wide_enough(self, rows):
        """What is chosen on few rows is chosen by their errors: 82 to 91 % were within two deviations."""
        found = []
        for seed in range(30):
            X, y, others, wanted = noisy(rows, seed=seed)
            model = ThresherRegressor(target_transform=None, feature_learning=0).fit(X, y)
            values, deviations = model.predict(others, return_std=True)
            lower, upper = model.predict_interval(others, 0.9)
            inside = np.abs(values - wanted) < 2 * deviations, (lower <= wanted) & (wanted <= upper)
            found.append(np.mean(inside, axis=1))
        two, nine = np.mean(found, axis=0)
        assert 0.92 < two < 0.985
        assert 0.865 < nine < 0.955

    def test_one_huge_target_does_not_move_all_bounds_to_one_side_of_the_others(self):
        """Most targets are zero, as of claims; their mean is that of one: quantiles are far below predictions."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(1150, 4))
        y = np.where(rng.random(1150) < 0.8, 0.0, rng.uniform(0, 20, 1150))
        y[0] = 1e5
        options = {**FIXED, "ridge": 1e3, "bias": "auto", "target_transform": None}
        lower, upper = ThresherRegressor(**options).fit(X[:150], y[:150]).predict_interval(X[150:])
        assert np.mean((lower <= y[150:]) & (y[150:] <= upper)) > 0.8

    def test_rows_that_are_fitted_in_the_end_make_bars_shorter(self):
        (X, y), (others, wanted) = friedman(750, noise=0.0), friedman(2000, seed=1, noise=0.0)
        model = of_few(ThresherRegressor(**FIXED | {"ridge": 1e-4}))
        lower, upper = model.fit(X, y).predict_interval(others)
        assert 0.86 < np.mean((lower <= wanted) & (wanted <= upper)) < 0.935  # 0.94 to 0.95 without


class TestResiduals:
    @given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=60), st.integers(0, 99))
    @settings(max_examples=60, deadline=None)
    def test_the_share_below_is_that_of_a_new_one(self, errors, seed):
        """By the slow definition; counts are observations that came so often."""
        rng = np.random.default_rng(seed)
        count = rng.integers(1, 4, len(errors)).astype(float)
        every = np.repeat(errors, count.astype(int))
        ones = np.ones(len(errors))
        found = _quantiles_of(np.array(errors), 2 * ones, ones, count, 5.0)
        assert (np.diff(found) >= 0).all()
        for level, one in zip(LEVELS, found, strict=True):
            if 1 / (len(every) + 1) <= level <= len(every) / (len(every) + 1):
                assert one == pytest.approx(naive.conformal_quantile(every, level) / 2, abs=1e-6)
        np.testing.assert_allclose(_quantiles_of(np.array(errors), 2 * ones, 7 * ones, count, 5.0), found, atol=1e-9)

    def test_beyond_the_last_error_tails_go_on(self):
        few = _quantiles_of(np.array([-1.0, 0.0, 2.0]), np.ones(3), np.ones(3), np.ones(3), 5.0)
        assert few[-1] > 2 + 3
        assert few[0] < -1 - 3
        inside = (LEVELS >= 0.25) & (LEVELS <= 0.75)
        assert -1 <= few[inside].min() <= few[inside].max() <= 2

    def test_kept_levels_tell_those_between(self):
        quantiles = np.array([1e-5, 0.01, 0.05, 0.3, 0.5, 0.9, 0.975, 0.99999])
        np.testing.assert_allclose(
            residuals_at(quantiles, np.stack([LEVELS, ndtri(LEVELS)], axis=1))[:, 1], ndtri(quantiles), atol=0.01
        )


class TestFiles:
    @pytest.mark.parametrize("target", [None, "log"])
    def test_they_are_kept(self, tmp_path, target):
        X, y, others, _ = noisy(60)
        model = ThresherRegressor(target_transform=target, **FIXED).fit(X, np.column_stack([np.exp(y), y**2]))
        model.save(tmp_path / "model")
        loaded = thresher.load(tmp_path / "model")
        np.testing.assert_array_equal(loaded.predictive_.residuals, model.predictive_.residuals)
        np.testing.assert_allclose(loaded.predict_quantiles(others), model.predict_quantiles(others), rtol=1e-10)


@pytest.fixture(scope="module")
def model():
    X, y, *_ = noisy(30)
    return ThresherRegressor(**FIXED).fit(X, y)


class TestRefusals:
    @pytest.mark.parametrize("coverage", [0, 1, -0.1, 90, float("nan"), "0.9", None, True])
    def test_coverage(self, model, coverage):
        with pytest.raises(InvalidInput, match="coverage must"):
            model.predict_interval(np.zeros((1, 3)), coverage)

    @pytest.mark.parametrize("quantiles", [[], [0.0], [0.5, 1.0], 0.5, [[0.1]], ["a"], [float("nan")], None, [50]])
    def test_quantiles(self, model, quantiles):
        with pytest.raises(InvalidInput, match="quantiles must be numbers between 0 and 1"):
            model.predict_quantiles(np.zeros((1, 3)), quantiles)
