"""Targets of a regressor: logarithms where they help, several at a time; error bars and how they are calibrated."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from thresher import InvalidInput, ThresherRegressor
from thresher.estimators.intervals import _fit_variances

PLAIN = {"random_state": 0, "feature_learning": 0, "parts": "all"}
FIXED = {"bias": 1.0, "ridge": 0.1, **PLAIN}


class TestLogarithms:
    def test_they_are_taken_where_they_help(self, growth, logarithmic, regressor):
        X, y, others, wanted = growth
        assert [one.choices_["target"].taken for one in (logarithmic, regressor)] == ["logarithms", "targets"]
        plain = ThresherRegressor(target_transform=None).fit(X, y)
        errors = [np.mean((model.predict(others) - wanted) ** 2) for model in (logarithmic, plain)]
        assert errors[0] < errors[1] / 2
        assert 0 < (y.min() - logarithmic.predictive_.floor[0]) / y.std() < 0.2

    @pytest.mark.parametrize("ridge", [1e-300, 1e-200])
    def test_a_ridge_below_rounding_is_refused_without_a_warning(self, ridge):
        X = np.random.default_rng(0).normal(size=(60, 3))
        with warnings.catch_warnings(), pytest.raises(InvalidInput, match="Use a larger ridge"):
            warnings.simplefilter("error")
            ThresherRegressor(ridge=ridge).fit(X, X[:, 0])

    @pytest.mark.parametrize("seed", [1, 4])
    def test_a_few_large_targets_do_not_decide(self, seed):
        """Squared errors of targets that span powers of ten are those of the largest: logarithms seemed no better."""
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(1100, 6))
        y = np.exp(1.25 * (X[:, 0] + np.sin(2 * X[:, 1])) + 0.3 * rng.normal(size=len(X)))
        auto, plain = (ThresherRegressor(target_transform=target).fit(X[:300], y[:300]) for target in ("auto", None))
        assert auto.predictive_.floor is not None
        errors = [np.abs(model.predict(X[300:]) - y[300:]).mean() for model in (auto, plain)]
        assert errors[0] < 0.95 * errors[1]

    def test_they_are_logarithms_of_distances_from_the_floor(self, growth):
        X, y, others, _ = growth
        fixed = {**FIXED, "ridge": 0.01}
        model = ThresherRegressor(target_transform="log", **fixed).fit(X, y)
        by_hand = ThresherRegressor(target_transform=None, **fixed).fit(X, np.log(y - model.predictive_.floor))
        np.testing.assert_allclose(
            model.predict(others), np.exp(by_hand.predict(others)) + model.predictive_.floor, rtol=1e-9
        )
        values, deviations = model.predict(others, return_std=True)
        means, spreads = by_hand.predict(others, return_std=True)
        draws = np.exp(means[:, None] + spreads[:, None] * np.random.default_rng(0).normal(size=20_000))
        np.testing.assert_allclose(values - model.predictive_.floor, np.median(draws, axis=1), rtol=0.02)
        np.testing.assert_allclose(deviations, draws.std(axis=1), rtol=0.1)

    @pytest.mark.parametrize(("unit", "zero"), [(1e-6, 0.0), (1.0, -5.0), (1e6, 3e7)])
    def test_their_unit_and_zero_do_not_matter(self, growth, logarithmic, unit, zero):
        X, y, others, _ = growth
        told = ThresherRegressor().fit(X, unit * y + zero).predict(others)
        np.testing.assert_allclose((told - zero) / unit, logarithmic.predict(others), rtol=2e-3)

    def test_rows_without_weight_do_not_set_the_floor(self, growth, logarithmic):
        X, y, others, _ = growth
        weights = np.append(np.ones(200), 0.0)
        told = ThresherRegressor().fit(np.vstack([X, X[:1]]), np.append(y, -1e3), weights)
        np.testing.assert_allclose(told.predict(others), logarithmic.predict(others), rtol=1e-9)

    def test_several_targets_are_alike(self, growth):
        X, y, others, _ = growth
        both = ThresherRegressor(target_transform="log").fit(X, np.column_stack([y, 1 / y]))
        assert both.predict(others).shape == (100, 2)
        assert (both.predict(others, return_std=True)[1] > 0).all()

    def test_few_or_equal_targets_have_logarithms(self, growth):
        X, y, *_ = growth
        for some in (y[:4], np.full(4, 3.0)):
            few = ThresherRegressor(target_transform="log").fit(X[:4], some)
            assert np.isfinite(few.predict(X[:4])).all()

    @pytest.mark.parametrize(("unit", "zero"), [(1e-5, 1e10), (1.0, -1e15), (0.0, 1e17)])
    @pytest.mark.parametrize("target", ["auto", "log"])
    def test_the_floor_is_below_targets_far_from_zero(self, growth, unit, zero, target):
        X, y, *_ = growth
        told = ThresherRegressor(target_transform=target).fit(X[:30], unit * y[:30] + zero)
        assert told.predictive_.floor is None or (told.predictive_.floor < unit * y[:30].min() + zero).all()
        assert np.isfinite(told.predict(X[:30])).all()

    @pytest.mark.parametrize("noise", [0.5, 1.0, 1.5])
    @pytest.mark.parametrize("seed", range(2))
    def test_amounts_with_much_noise_are_learnt_as_logarithms(self, seed, noise):
        """Medians have larger squares than means, so that they stayed linear: nine of ten lower bounds were below 0."""
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(900, 5))
        y = np.exp(X[:, 0] + np.sin(2 * X[:, 1]) + noise * rng.normal(size=900))
        model = ThresherRegressor(**PLAIN).fit(X[:600], y[:600])
        low, high = model.predict_interval(X[600:])
        assert model.choices_["target"].taken == "logarithms"
        assert (low >= 0).all()
        assert 0.85 < np.mean((low <= y[600:]) & (y[600:] <= high)) < 0.95

    @pytest.mark.parametrize("kind", ["normal", "gamma", "wide", "heavy"])
    def test_other_targets_stay_as_they_are(self, kind):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(600, 5))
        signal, noise = X[:, 0] + np.sin(2 * X[:, 1]), rng.normal(size=600)
        shapes = {
            "normal": noise,
            "gamma": rng.gamma(1, 1, size=600),
            "wide": np.exp(X[:, 0] / 2) * noise,
            "heavy": rng.standard_t(2, size=600),
        }
        assert ThresherRegressor(**PLAIN).fit(X, signal + shapes[kind]).choices_["target"].taken == "targets"

    def test_the_floor_is_below_targets_of_all_rows(self):
        """Also where the smallest is not among those that logarithms are judged by."""
        rng = np.random.default_rng(1)
        X = rng.normal(size=(700, 3))
        y = np.exp(2 * X[:, 0] + 0.1 * rng.normal(size=700)) + 1.0
        for row in range(12):  # 512 of 700 rows are looked at
            some = y.copy()
            some[row] = 0.01
            assert ThresherRegressor(target_transform="log", **FIXED).fit(X, some).predictive_.floor < 0.01

    @pytest.mark.parametrize("seed", range(3))
    @pytest.mark.parametrize("slope", [0.6, 0.8, 1.0])
    def test_counts_of_which_most_are_zero_stay_as_they_are(self, seed, slope):
        """A median of zero has the lowest absolute error, and says nothing of the others: logarithms were taken."""
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(300, 3))
        means = np.minimum(np.exp(slope * X[:, 0] - 2), 20)
        model = ThresherRegressor(feature_learning=0).fit(X, rng.poisson(means))
        assert model.predictive_.floor is None

    @pytest.mark.parametrize("weighted", [False, True])
    def test_means_by_category_are_of_logarithms(self, weighted):
        """Means of targets that span powers of ten were those of the largest: a fifth of the error in logarithms."""
        rng = np.random.default_rng(0)
        codes, effects = rng.integers(60, size=900), 1.5 * rng.normal(size=60)
        table = pd.DataFrame({"a": rng.normal(size=900), "city": [f"c{code}" for code in codes]})
        told = table["a"].to_numpy() + effects[codes] + rng.normal(size=900)
        y = np.exp(told)
        weights = np.where(np.arange(900) % 7 == 6, 0.0, 1.0) if weighted else None
        train, test = slice(0, 600), slice(600, 900)
        model, by_hand = (ThresherRegressor(target_transform=target, **FIXED) for target in ("log", None))
        some = None if weights is None else weights[train]
        model.fit(table[train], y[train], some)
        by_hand.fit(table[train], np.log(y[train] - model.predictive_.floor), some)
        np.testing.assert_allclose(
            model.predict(table[test]), np.exp(by_hand.predict(table[test])) + model.predictive_.floor, rtol=1e-9
        )
        kinds = (one.encoder_.kinds_["city"] for one in (model, by_hand))
        assert next(kinds) == next(kinds)

    def test_other_targets_are_refused(self, growth):
        X, y, *_ = growth
        with pytest.raises(InvalidInput, match="target_transform must be one of"):
            ThresherRegressor(target_transform="square").fit(X, y)


def test_several_targets_are_several_regressions(diabetes):
    X, y, others, _ = diabetes
    both = np.column_stack([y, -2 * y + 1])
    values = ThresherRegressor(**FIXED).fit(X, both).predict(others)
    assert values.shape == (100, 2)
    np.testing.assert_allclose(values[:, 1], -2 * values[:, 0] + 1, rtol=1e-9)
    single = ThresherRegressor(**FIXED).fit(X, y).predict(others)
    np.testing.assert_allclose(values[:, 0], single, rtol=1e-9)


class TestCalibration:
    @pytest.mark.parametrize(("factor", "addend"), [(2.0, 0.5), (3.0, 0.0), (0.0, 1.0)])
    def test_residuals_are_likeliest(self, factor, addend):
        rng = np.random.default_rng(0)
        variances = rng.exponential(size=4000)
        squares = (factor * variances + addend) * rng.normal(size=4000) ** 2
        found = _fit_variances(squares, variances, np.ones(4000))
        np.testing.assert_allclose(found, [factor, addend], atol=0.15)
        np.testing.assert_array_equal(_fit_variances(np.zeros(5), np.ones(5), np.ones(5)), [0, 0])

    @pytest.mark.parametrize("seed", range(40))
    def test_it_does_not_stop_at_a_hill(self, seed):
        rng = np.random.default_rng(seed)
        variances, weights = np.exp(4 * rng.normal(size=50)), np.exp(4 * rng.normal(size=50))
        squares = variances * rng.normal(size=50) ** 2
        squares[0] *= 1e8
        typical = np.average(variances, weights=weights)

        def surprise(factor, addend):
            scaled = factor * variances + addend
            return np.average(np.log(scaled) + squares / scaled, weights=weights)

        found = surprise(*_fit_variances(squares, variances, weights))
        for share in expit(np.linspace(-2, 38, 121)):  # an eighth at least
            size = np.average(squares / (share * variances / typical + 1 - share), weights=weights)
            assert found < surprise(size * share / typical, size * (1 - share)) + 1e-3

    def test_variances_have_an_eighth_at_least(self):
        """Bars that do not depend on the row would be none away from the data."""
        rng = np.random.default_rng(0)
        variances = rng.exponential(size=500)
        for squares in (rng.normal(size=500) ** 2, rng.normal(size=500) ** 2 / variances):
            factor, addend = _fit_variances(squares, variances, np.ones(500))
            part = factor * variances.mean()
            assert part / (part + addend) > 0.119 * (1 - 1e-9)


class TestErrorBars:
    def test_they_have_the_size_they_say(self, diabetes):
        X, y, others, unseen = diabetes
        values, deviations = ThresherRegressor(random_state=0).fit(X, y).predict(others, return_std=True)
        assert (deviations > 0).all()
        assert 0.7 < np.sqrt((((unseen - values) / deviations) ** 2).mean()) < 1.4
        rng = np.random.default_rng(0)
        line = rng.uniform(-1, 1, (40, 1))
        model = ThresherRegressor(feature_learning=0).fit(line, np.sin(3 * line[:, 0]))
        near, far = model.predict([[0.0], [9.0]], return_std=True)[1]
        assert far > 3 * near

    def test_one_heavy_row_does_not_shrink_them(self, diabetes):
        X, y, others, unseen = diabetes
        weights = np.ones(200)
        weights[5] = 20
        options = {**FIXED, "ridge": 1.0}
        values, deviations = ThresherRegressor(**options).fit(X, y, weights).predict(others, return_std=True)
        assert np.sqrt((((unseen - values) / deviations) ** 2).mean()) < 1.4

    def test_a_ridge_too_small_for_deviations_is_refused(self, diabetes):
        X, y, *_ = diabetes
        model = ThresherRegressor(feature_learning=0).fit(X, y)
        assert (model.predict(X, return_std=True)[1] > 0).all()
        model.model_ = model.model_._replace(penalty=-model.model_.penalty)
        model._forget_effects()  # nor what was kept of the error bars
        with pytest.raises(InvalidInput, match="too small for deviations"):
            model.predict(X, return_std=True)


def drawn(n, kind, seed):
    """Rows of five columns, and targets with noise that is normal, wider for some rows than for others, or skewed."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    noise = {
        "normal": rng.normal(size=n),
        "uneven": np.exp(X[:, 0] / 2) * rng.normal(size=n),
        "skewed": rng.gamma(2, 1, size=n) - 2,
    }
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] / 2 + 0.7 * noise[kind]


@pytest.mark.parametrize("rows", [150, 600])
@pytest.mark.parametrize("kind", ["normal", "uneven", "skewed"])
def test_intervals_hold_the_share_of_new_targets_that_they_say(kind, rows):
    """On the mean of four tables: with 150 rows a share is 2.4 % off by chance."""
    shares = []
    for seed in range(4):
        X, y = drawn(rows + 2000, kind, seed=rows + seed)
        low, high = ThresherRegressor().fit(X[:rows], y[:rows]).predict_interval(X[rows:], coverage=0.9)
        shares.append(np.mean((low <= y[rows:]) & (y[rows:] <= high)))
    assert 0.87 < np.mean(shares) < 0.93 and 0.83 < min(shares) <= max(shares) < 0.97
