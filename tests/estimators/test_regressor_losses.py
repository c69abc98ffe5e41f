"""Losses of the regressor: absurd targets, counts, quantiles; each beside its definition and beside squares."""

import naive
import numpy as np
import pytest
from scipy.stats import nbinom, poisson
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

import thresher
from thresher import InvalidInput, ThresherRegressor
from thresher.cli import options
from thresher.estimators import regressor
from thresher.estimators.counts import count_quantiles, deviance_of, dispersion_of
from thresher.estimators.data.observations import Observations
from thresher.estimators.loss_fits import _working_step
from thresher.estimators.robust import robust_size, weighted_quantile, winsorise
from thresher.losses import Huber, Poisson
from thresher.theory import limit_kernel

LOSSES = ["squared_error", "huber", "poisson", "quantile"]
every_loss = pytest.mark.parametrize("loss", LOSSES)


def smooth(n, *, seed=0, noise=0.3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] / 2 + noise * rng.normal(size=n)


def counts(n, *, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 4))
    means = np.exp(2 * np.sin(4 * X[:, 0]) + X[:, 1])
    return X, rng.poisson(means).astype(float), means


def uneven(n, *, seed=0):
    """Skewed errors, the wider the larger the first column."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    return X, 2 * X[:, 1] + (0.1 + 2 * X[:, 0]) * (rng.gamma(2, 1, size=n) - 2)


def fitted(loss, n=120, **more):
    X, y = counts(n)[:2]
    return ThresherRegressor(random_state=0, loss=loss, **more).fit(X, y), X, y


# Working targets, of fits on centres


@pytest.mark.parametrize("loss", [Poisson(), Huber(0.5)], ids=["poisson", "huber"])
def test_steps_have_the_slope_of_their_loss_and_gain_what_they_promise(loss):
    outputs, y = np.array([-2.0, 0.0, 0.5, 3.0, -3.0]), np.array([0.0, 1.0, 2.0, 1.0, 40.0])
    step, curvature = _working_step(loss, outputs, y)
    np.testing.assert_allclose(curvature * step, loss.slope(outputs, y))
    assert (curvature > 0).all()
    gained = loss.value(outputs, y) - loss.value(outputs - step, y)
    assert (gained >= 0.25 * loss.slope(outputs, y) * step - 1e-12).all()


def test_targets_far_from_all_others_are_pulled_in():
    targets = np.append(np.linspace(-1, 1, 99), 1e300)[:, None]
    found = winsorise(targets, None, reach=6.0)
    np.testing.assert_array_equal(found[:99], targets[:99])
    assert 3 < found[99, 0] < 6
    np.testing.assert_array_equal(winsorise(np.eye(20)[:, :1], None, reach=6.0), np.zeros((20, 1)))


def test_robust_sizes_and_quantiles_with_weights():
    values = np.random.default_rng(0).normal(size=4001)
    assert robust_size(values, None) == pytest.approx(1, rel=0.05)
    spoilt = np.append(values, [1e300] * 40)
    assert robust_size(spoilt, None) == pytest.approx(1, rel=0.06)
    assert robust_size(np.append(np.zeros(60), values[:40]), None) > 0
    twice = weighted_quantile(np.array([3.0, 1.0, 2.0]), 0.5, np.array([1.0, 0.0, 5.0]))
    assert twice == 2


# Huber


@pytest.mark.parametrize("n", [60, 300])
def test_one_absurd_target_in_a_hundred_moves_nothing(n):
    new, later = smooth(500, seed=9)
    errors = {"plain": 0.0, "robust": 0.0, "clean": 0.0, "spoilt": 0.0}
    for seed in range(3):
        X, y = smooth(n, seed=seed)
        spoilt, rows = y.copy(), np.random.default_rng(seed).choice(n, max(n // 100, 1), replace=False)
        spoilt[rows] = 1e6
        cases = {
            "plain": ("squared_error", y),
            "robust": ("huber", spoilt),
            "clean": ("huber", y),
            "spoilt": ("squared_error", spoilt),
        }
        for name, (loss, targets) in cases.items():
            found = ThresherRegressor(random_state=0, loss=loss).fit(X, targets).predict(new)
            errors[name] += np.sqrt(np.mean((found - later) ** 2)) / 3
    assert errors["robust"] < (1.1 if n == 60 else 1.05) * errors["plain"]  # one of sixty chooses the kernel too
    assert errors["clean"] < 1.05 * errors["plain"]
    assert errors["spoilt"] > 10 * errors["plain"]


@pytest.mark.parametrize("absurd", [1e12, -1e12, 1e300])
def test_the_size_of_an_absurd_target_does_not_matter(absurd):
    X, y = smooth(80)
    made = []
    for value in (absurd, 1e3 * np.sign(absurd)):
        spoilt = y.copy()
        spoilt[7] = value
        model = ThresherRegressor(random_state=0, loss="huber").fit(X, spoilt)
        made.append([model.predict(X), *model.predict_interval(X)])
    np.testing.assert_allclose(*made, rtol=1e-6, atol=1e-8)


def test_categories_and_several_targets_are_robust_too():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(3)
    places = rng.integers(0, 30, 200)
    X = pandas.DataFrame({"place": [f"p{one}" for one in places], "size": rng.normal(size=200)})
    y = np.column_stack([places / 10 + X["size"], X["size"]])
    spoilt = y.copy()
    spoilt[5], spoilt[11, 1] = 1e9, -1e7
    model = ThresherRegressor(random_state=0, loss="huber").fit(X, spoilt)
    assert np.abs(model.predict(X) - y).max() < 1.5


def test_most_targets_equal_or_few_rows():
    X = smooth(40)[0]
    y = np.zeros(40)
    y[3] = 1e12
    np.testing.assert_allclose(ThresherRegressor(random_state=0, loss="huber").fit(X, y).predict(X), 0, atol=1e-9)
    for n in (2, 3, 5):
        model = ThresherRegressor(random_state=0, loss="huber").fit(X[:n], np.arange(n))
        assert np.isfinite(model.predict(X)).all()


def test_many_rows_with_absurd_targets(monkeypatch):
    monkeypatch.setattr(ThresherRegressor, "_sizes", ThresherRegressor._sizes._replace(chosen_on=200))
    X, y = smooth(600)
    spoilt = y.copy()
    spoilt[::100] = 1e5
    new, clean = smooth(300, seed=9, noise=0.0)
    plain, robust = (ThresherRegressor(random_state=0, loss=one, target_transform=None).fit(X, targets).predict(new)
                     for one, targets in (("squared_error", y), ("huber", spoilt)))  # fmt: skip
    errors = [np.sqrt(np.mean((one - clean) ** 2)) for one in (plain, robust)]
    assert errors[1] < 1.1 * errors[0]


# Counts


def test_a_fit_to_counts_is_the_minimum_of_the_penalised_loss():
    X, y, _ = counts(60)
    model = ThresherRegressor(random_state=0, loss="poisson", parts="all").fit(X, y)
    made = model.model_
    kernel = limit_kernel(made.inputs @ made.inputs.T, made.kernel.shift)
    place = [int(np.argmin(np.linalg.norm(made.inputs - one, axis=1))) for one in made.lift.transform(X)]
    outputs = (kernel @ made.alpha)[:, 0] + model.predictive_.mean[0]
    np.testing.assert_allclose(np.exp(outputs[place]), model.predict(X), rtol=1e-5)
    ours = naive.penalised_counts(kernel, y[np.argsort(place)], made.alpha[:, 0], model.predictive_.mean[0])
    # the slope by each coefficient: some ridge makes all of them vanish
    slopes, pulls = ours
    ridge = -(slopes @ pulls) / (pulls @ pulls)
    assert ridge > 0
    np.testing.assert_allclose(slopes + ridge * pulls, 0, atol=2e-2 * np.abs(slopes).max())


def test_counts_are_predicted_better_than_by_squares():
    X, y, _ = counts(300)
    new, later, means = counts(2000, seed=1)
    weights = np.ones(len(later))
    model = ThresherRegressor(random_state=0, loss="poisson").fit(X, y)
    squares = np.maximum(ThresherRegressor(random_state=0, loss="squared_error").fit(X, y).predict(new), 0.05)
    ours, best = deviance_of(later, model.predict(new), weights), deviance_of(later, means, weights)
    assert ours < deviance_of(later, squares, weights)
    assert ours < 1.25 * best
    assert model.loo_error_ == pytest.approx(ours, rel=0.25)
    assert 0 < model.loo_share_ < 0.5
    quantiles = model.predict_quantiles(new, [0.05, 0.5, 0.95])
    assert (quantiles == np.rint(quantiles)).all() and (np.diff(quantiles, axis=1) >= 0).all()
    assert 0.9 < np.mean((later >= quantiles[:, 0]) & (later <= quantiles[:, 2])) < 0.99
    mean, deviation = model.predict(new, return_std=True)
    assert np.mean(((later - mean) / deviation) ** 2) == pytest.approx(1, abs=0.3)


def test_weights_of_counts_are_numbers_of_observations():
    X, y, _ = counts(80)
    twice = np.where(np.arange(80) < 40, 2, 1)
    model = ThresherRegressor(random_state=0, loss="poisson", ridge=0.1, parts="all", feature_learning=0, bias=1)
    found = clone(model).fit(X, y, sample_weight=twice).predict(X)
    repeated = clone(model).fit(X.repeat(twice, 0), y.repeat(twice)).predict(X)
    np.testing.assert_allclose(found, repeated, rtol=1e-3)


def test_dispersion_is_found():
    rng = np.random.default_rng(0)
    means = rng.uniform(1, 30, 4000)
    ones = np.ones(4000)
    factor, excess, whole, _ = dispersion_of(rng.poisson(means).astype(float), means, ones)
    assert (factor, whole) == (1, 1) and excess < 0.01
    wide = rng.negative_binomial(1 / 0.3, 1 / (1 + 0.3 * means)).astype(float)
    assert dispersion_of(wide, means, ones)[1] == pytest.approx(0.3, rel=0.1)
    amounts = rng.gamma(means / 2, 2)
    np.testing.assert_allclose(dispersion_of(amounts, means, ones), [2, 0, 0, 0], rtol=0.1)
    levels, some = np.array([0.1, 0.5]), np.array([2.0, 9.0])
    np.testing.assert_array_equal(
        count_quantiles(some, levels, np.array([1, 0, 1.0, 0])), poisson.ppf(levels, some[:, None])
    )
    made = count_quantiles(some, levels, np.array([1, 0.5, 1.0, 0]))
    np.testing.assert_array_equal(made, nbinom.ppf(levels, 2, 1 / (1 + 0.5 * some[:, None])))


def test_amounts_of_which_many_are_nothing():
    rng = np.random.default_rng(0)
    means = rng.uniform(0.2, 4, 4000)
    amounts = rng.gamma(2 * np.maximum(many := rng.poisson(means / 2), 1e-9), 1.0) * (many > 0)
    found = dispersion_of(amounts, means, np.ones(4000))
    assert found[3] == pytest.approx(2, rel=0.1)
    low, high = count_quantiles(means, np.array([0.05, 0.95]), found).T
    assert np.mean((amounts >= low) & (amounts <= high)) == pytest.approx(0.95, abs=0.02)  # nothing is often below 5 %
    assert np.mean(amounts > high) == pytest.approx(0.05, abs=0.01)


@pytest.mark.parametrize("amounts", [np.arange(30) % 4 + 0.5, np.eye(30)[3] * 5, np.full(30, 7.0), 1e6 + np.arange(30)])
def test_strange_counts(amounts):
    X = counts(30)[0]
    model = ThresherRegressor(random_state=0, loss="poisson").fit(X, amounts)
    found = model.predict(X)
    assert np.isfinite(found).all() and (found > 0).all()
    assert found.mean() == pytest.approx(amounts.mean(), rel=0.2)
    assert np.isfinite(model.predict_quantiles(X)).all()


# Quantiles


def test_quantiles_follow_errors_that_are_uneven_and_never_cross():
    X, y = uneven(700)
    new, later = uneven(4000, seed=1)
    levels = np.array([0.05, 0.25, 0.5, 0.75, 0.95])

    def pinball(found):
        rest = later[:, None] - found
        return np.maximum(levels * rest, (levels - 1) * rest).mean()

    model = ThresherRegressor(random_state=0, loss="quantile", quantiles=levels).fit(X, y)
    found = model.predict_quantiles(new, levels)
    assert (np.diff(found, axis=1) >= 0).all()
    plain = ThresherRegressor(random_state=0, loss="squared_error", target_transform=None).fit(X, y)
    assert pinball(found) < 0.98 * pinball(plain.predict_quantiles(new, levels))
    np.testing.assert_allclose((later[:, None] < found).mean(axis=0), levels, atol=0.04)
    np.testing.assert_array_equal(model.predict(new), found[:, 2])
    between = model.predict_quantiles(new, [0.15])
    assert ((between[:, 0] >= found[:, 0]) & (between[:, 0] <= found[:, 1])).all()
    with pytest.raises(InvalidInput, match=r"from 0.05 to 0.95; got 0.99"):
        model.predict_quantiles(new, [0.99])
    np.testing.assert_array_equal(model.predict_interval(new)[0], found[:, 0])  # whatever the rounding of levels


def test_quantiles_of_several_targets():
    X, y = uneven(150)
    model = ThresherRegressor(random_state=0, loss="quantile", quantiles=[0.1, 0.9]).fit(X, np.column_stack([y, -y]))
    found = model.predict_quantiles(X, [0.1, 0.9])
    assert found.shape == (150, 2, 2)
    assert (found[:, :, 0] <= found[:, :, 1]).all()
    assert np.corrcoef(found[:, 0, 1], -found[:, 1, 0])[0, 1] > 0.95


# All of them


@every_loss
def test_files_clones_and_repeats(loss, tmp_path):
    model, X, y = fitted(loss)
    model.save(tmp_path / "model")
    loaded = thresher.load(tmp_path / "model")
    assert loaded.loss == model.loss == loss
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    np.testing.assert_array_equal(loaded.predict_quantiles(X), model.predict_quantiles(X))
    again = clone(model).fit(X, y)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    model.fit(X, y)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@every_loss
def test_rows_without_weight_say_nothing(loss):
    X, y, _ = counts(90)
    spoilt, weights = y.copy(), np.ones(90)
    spoilt[4], weights[4] = 1e9, 0.0
    kept = np.arange(90) != 4
    one = ThresherRegressor(random_state=0, loss=loss).fit(X, spoilt, sample_weight=weights)
    other = ThresherRegressor(random_state=0, loss=loss).fit(X[kept], y[kept])
    np.testing.assert_allclose(one.predict(X), other.predict(X), rtol=1e-6, atol=1e-8)


@every_loss
def test_all_targets_equal(loss):
    X = counts(30)[0]
    model = ThresherRegressor(random_state=0, loss=loss).fit(X, np.full(30, 3.0))
    np.testing.assert_allclose(model.predict(X), 3, rtol=1e-3)


def test_effects_and_exports():
    model, X, _ = fitted("poisson", parts="columns")
    effects = model.effects(X[:5])
    outputs = np.log(model.predict(X[:5]))
    np.testing.assert_allclose(effects.intercept + effects.values.sum(axis=1), outputs, rtol=1e-5)
    arrays = model.to_numpy()
    np.testing.assert_allclose(np.ravel(thresher.export.predict_arrays(arrays, X)), model.predict(X), rtol=1e-4)
    with pytest.raises(InvalidInput, match="no quantiles"):
        fitted("quantile")[0].to_numpy()


def test_larger_ridges_of_many_large_counts_must_predict_better(monkeypatch):
    # Their loss is below zero, where a share of it is above it: any ridge seemed better than the one before.
    monkeypatch.setattr(ThresherRegressor, "_sizes", ThresherRegressor._sizes._replace(chosen_on=300))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 3))
    means = 100 * np.exp(X[:, 0] + np.sin(X[:, 1]))
    model = ThresherRegressor(loss="poisson", parts="all").fit(X, rng.poisson(means).astype(float))
    assert model.model_.pivots is not None
    assert model.ridge_ < 10  # it was 316


@pytest.mark.parametrize(
    "more, words",
    [
        ({"loss": "log"}, "loss must be one of"),
        ({"loss": "huber", "ridge": 0}, "ridge"),
        ({"loss": "poisson", "target_transform": "log"}, "for squares"),
        ({"loss": "quantile", "quantiles": [0.5, 1.0]}, "between 0 and 1"),
        ({"loss": "quantile", "quantiles": 0.5}, "between 0 and 1"),
    ],
)
def test_what_is_refused(more, words):
    X, y, _ = counts(30)
    with pytest.raises(InvalidInput, match=words):
        ThresherRegressor(**more).fit(X, y)


@pytest.mark.parametrize(
    "y, words",
    [
        (-np.ones(30), r"from 0 on and up to 1e\+12; row 0 has -1"),
        (np.zeros(30), "all are 0"),
        (np.ones((30, 2)), "one target"),
        (np.full(30, 1e15), "up to 1e"),
    ],
)
def test_counts_that_are_none(y, words):
    with pytest.raises(InvalidInput, match=words):
        ThresherRegressor(loss="poisson").fit(counts(30)[0], y)


def test_the_command_knows_all_of_them():
    assert options.LOSSES["regression"] == regressor.LOSSES == tuple(LOSSES)


def test_observations_keep_targets_of_their_own():
    X = np.array([[1.0], [2.0], [1.0]])
    data = Observations.merged(X, np.array([[1.0], [2.0], [3.0]]), own=np.array([[7.0], [8.0], [9.0]]))
    assert sorted(data.own[:, 0]) == [7, 8, 9]
    assert (data.own == data.target + 6).all()
    for other in (data.at(np.array([0])), data.with_rows(X[:2]), data.shuffled(1), data.folds(2)[0][0]):
        assert (other.own == other.target + 6).all()


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize("loss", ["huber", "quantile"])
def test_scikit_learn_takes_them(loss):
    check_estimator(ThresherRegressor(loss=loss, random_state=0))
