"""Estimators as their users meet them: scikit-learn's own checks, choices, files, exports, error bars."""

import json
import tracemalloc
import warnings

import naive
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import thresher
from thresher import InvalidInput, MemoryRefused, NotAvailable, SphereLift, ThresherClassifier, ThresherRegressor
from thresher.estimators import base, choose, export, model_files
from thresher.estimators import regressor as regressor_module
from thresher.estimators.export import predict_arrays
from thresher.estimators.regressor import _calibrate
from thresher.files import read_file, write_file
from thresher.training.dense import start_gram
from thresher.training.ridge import RidgeStart

SMALL = {"width": 512, "random_state": 0}


@parametrize_with_checks(
    [SphereLift(), ThresherRegressor(width=128), ThresherClassifier(width=128), ThresherRegressor(width=float("inf"))]
)
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return X[:200], y[:200], X[200:300], y[200:300]


@pytest.fixture(scope="module")
def regressor(diabetes):
    X, y, *_ = diabetes
    return ThresherRegressor(**SMALL).fit(X, y)


@pytest.fixture(scope="module")
def classifier():
    X, y = load_iris(return_X_y=True)
    return ThresherClassifier(**SMALL).fit(X[::2], np.array(["setosa", "versicolor", "virginica"])[y[::2]])


@pytest.fixture(scope="module")
def growth():
    """Rows whose targets grow exponentially, by a thousand from the least to the largest."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(300, 3))
    y = np.exp(3.5 * X[:, 0] + X[:, 1] ** 2 + 0.02 * rng.normal(size=300))
    return X[:200], y[:200], X[200:], y[200:]


@pytest.fixture(scope="module")
def logarithmic(growth):
    return ThresherRegressor(**SMALL).fit(*growth[:2])


class TestTargets:
    def test_logarithms_are_taken_where_they_help(self, growth, logarithmic, regressor):
        X, y, others, wanted = growth
        assert (logarithmic.target_, regressor.target_) == ("log", "linear")
        plain = ThresherRegressor(target="linear", **SMALL).fit(X, y)
        errors = [np.mean((model.predict(others) - wanted) ** 2) for model in (logarithmic, plain)]
        assert errors[0] < errors[1] / 2
        by_hand = ThresherRegressor(target="linear", **SMALL).fit(X, np.log(y - logarithmic.floor_)).predict(others)
        np.testing.assert_allclose(logarithmic.predict(others), np.exp(by_hand) + logarithmic.floor_, rtol=1e-9)
        assert 0 < (y.min() - logarithmic.floor_[0]) / y.std() < 0.2

    @pytest.mark.parametrize(("unit", "zero"), [(1e-6, 0.0), (1.0, -5.0), (1e6, 3e7)])
    def test_their_unit_and_zero_do_not_matter(self, growth, logarithmic, unit, zero):
        X, y, others, _ = growth
        told = ThresherRegressor(**SMALL).fit(X, unit * y + zero).predict(others)
        np.testing.assert_allclose((told - zero) / unit, logarithmic.predict(others), rtol=2e-3)

    def test_rows_without_weight_do_not_set_the_floor(self, growth, logarithmic):
        X, y, others, _ = growth
        weights = np.append(np.ones(200), 0.0)
        told = ThresherRegressor(**SMALL).fit(np.vstack([X, X[:1]]), np.append(y, -1e3), weights)
        np.testing.assert_allclose(told.predict(others), logarithmic.predict(others), rtol=1e-9)

    def test_deviations_are_those_of_a_log_normal_variable(self, growth, logarithmic):
        X, y, others, _ = growth
        values, deviations = logarithmic.predict(others, return_std=True)
        model = ThresherRegressor(target="linear", **SMALL).fit(X, np.log(y - logarithmic.floor_))
        means, spreads = model.predict(others, return_std=True)
        draws = np.exp(means[:, None] + spreads[:, None] * np.random.default_rng(0).normal(size=20_000))
        np.testing.assert_allclose(values - logarithmic.floor_, np.median(draws, axis=1), rtol=0.02)
        np.testing.assert_allclose(deviations, draws.std(axis=1), rtol=0.1)

    def test_several_targets_are_alike(self, growth):
        X, y, others, _ = growth
        both = ThresherRegressor(target="log", **SMALL).fit(X, np.column_stack([y, 1 / y]))
        assert both.predict(others).shape == (100, 2)
        assert (both.predict(others, return_std=True)[1] > 0).all()

    def test_few_or_equal_targets_have_logarithms(self, growth):
        X, y, *_ = growth
        for some in (y[:4], np.full(4, 3.0)):
            few = ThresherRegressor(target="log", **SMALL).fit(X[:4], some)
            assert np.isfinite(few.predict(X[:4])).all()

    @pytest.mark.parametrize(("unit", "zero"), [(1e-5, 1e10), (1.0, -1e15), (0.0, 1e17)])
    @pytest.mark.parametrize("target", ["auto", "log"])
    def test_the_floor_is_below_targets_far_from_zero(self, growth, unit, zero, target):
        X, y, *_ = growth
        told = ThresherRegressor(target=target, width=float("inf")).fit(X[:30], unit * y[:30] + zero)
        assert (told.floor_ < unit * y[:30].min() + zero).all() or told.target_ == "linear"
        assert np.isfinite(told.predict(X[:30])).all()

    def test_copies_do_not_make_few_targets_many(self, growth):
        X, y, others, _ = growth
        for target in ("auto", "log"):
            model = ThresherRegressor(target=target, width=float("inf"))
            doubled, plain = (clone(model).fit(np.tile(X[:5], (n, 1)), np.tile(y[:5], n)) for n in (2, 1))
            np.testing.assert_allclose(doubled.predict(others), plain.predict(others), rtol=1e-6)

    def test_a_ridge_too_small_for_the_limit_leaves_targets_as_they_are(self, growth):
        X, y, *_ = growth
        twice, close = np.vstack([X[:30], X[:30] + 1e-9]), np.append(y[:30], y[:30] + 0.1)
        model = ThresherRegressor(ridge=1e-12, width=256, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            assert model.fit(twice, close).target_ == "linear"

    def test_other_targets_are_refused(self, growth):
        X, y, *_ = growth
        with pytest.raises(InvalidInput, match="target must be one of"):
            ThresherRegressor(target="square").fit(X, y)


@pytest.mark.parametrize(("factor", "addend"), [(2.0, 0.5), (3.0, 0.0), (0.0, 1.0)])
def test_error_bars_are_those_under_which_residuals_are_likeliest(factor, addend):
    rng = np.random.default_rng(0)
    variances = rng.exponential(size=4000)
    squares = (factor * variances + addend) * rng.normal(size=4000) ** 2
    found = _calibrate(squares, variances, np.ones(4000))
    np.testing.assert_allclose(found, [factor, addend], atol=0.15)
    np.testing.assert_array_equal(_calibrate(np.zeros(5), np.ones(5), np.ones(5)), [0, 0])


@pytest.mark.parametrize("seed", range(40))
def test_error_bars_do_not_stop_at_a_hill(seed):
    rng = np.random.default_rng(seed)
    variances, weights = np.exp(4 * rng.normal(size=50)), np.exp(4 * rng.normal(size=50))
    squares = variances * rng.normal(size=50) ** 2
    squares[0] *= 1e8

    def surprise(factor, addend):
        scaled = factor * variances + addend
        return np.average(np.log(scaled) + squares / scaled, weights=weights)

    found = surprise(*_calibrate(squares, variances, weights))
    for share in 1 / (1 + np.exp(np.linspace(-30, 30, 121))):
        size = np.average(squares / (share * variances + 1 - share), weights=weights)
        assert found < surprise(size * share, size * (1 - share)) + 1e-3


def test_a_wide_network_says_what_its_limit_says(diabetes):
    X, y, others, _ = diabetes
    options = {"shift": 0.5, "ridge": 0.1, "bias": 1.0, "feature_learning": 1}
    limit = ThresherRegressor(width=float("inf"), **options).fit(X, y).predict(others)
    errors = [
        np.abs(ThresherRegressor(width=width, random_state=1, **options).fit(X, y).predict(others) - limit).mean()
        for width in (2**8, 2**12, 2**16)
    ]
    assert errors[2] < errors[1] / 2 < errors[0] / 4
    assert errors[2] < 0.03 * y.std()


def test_neurons_travel_no_farther_than_they_should(diabetes):
    X, y, *_ = diabetes
    model = ThresherRegressor(**SMALL).fit(X, y)
    moved = model.networks_[0].weights.moved
    assert np.sqrt((moved**2).sum(axis=1).mean()) < 1.5 * base._DRIFT
    assert model.gains_[0] > 1


def test_choices_are_reported_and_can_be_made_by_hand(regressor, diabetes):
    X, y, *_ = diabetes
    assert regressor.loo_error_ < 1
    assert (regressor.bias_, regressor.shift_) in {(bias, shift) for bias, shift, *_ in regressor.tried_}
    fixed = ThresherRegressor(shift=0.3, bias=0.7, ridge=0.02, feature_learning=2, **SMALL).fit(X, y)
    assert (fixed.shift_, fixed.bias_, fixed.ridge_, fixed.feature_learning_) == (0.3, 0.7, 0.02, 2)
    assert fixed.lift_.metric is not None


def test_the_ridge_is_that_of_the_networks_own_kernel(regressor, diabetes):
    _, y, *_ = diabetes
    network, d = regressor.networks_[0], regressor.inputs_.shape[1]
    W, signs = network.settings.start.block(0, 512).astype(float), network.settings.start.signs(np.arange(512))
    assert W.shape == (512, d)
    gram = naive.gram(W, signs, regressor.inputs_, network.shift)
    standard = (y - y.mean()) / y.std()
    targets = regressor.results_[0].steps[0].alpha @ (gram + np.diag(regressor.penalty_)) * regressor.gains_[0]
    np.testing.assert_allclose(np.sort(targets), np.sort(standard), atol=1e-6)
    errors = {}
    for power in (-1, 0, 1):
        ridge = regressor.ridge_ * 10 ** (power / 2)
        left = naive.leave_one_out(gram, targets[:, None], regressor.penalty_[0] * 10 ** (power / 2), np.ones(200, int))
        errors[ridge] = (left**2).mean()
    assert min(errors, key=errors.get) == regressor.ridge_
    assert errors[regressor.ridge_] == pytest.approx(regressor.loo_error_, rel=1e-4)


def test_a_lift_does_not_see_rows_without_weight():
    lift = SphereLift().fit([[1.0, 3.0], [1.0, 4.0], [2.0, 9.0]], sample_weight=[1, 1, 0])
    expected = SphereLift().fit([[1.0, 3.0], [1.0, 4.0]])
    np.testing.assert_array_equal(lift.transform([[3.0, 5.0]]), expected.transform([[3.0, 5.0]]))


@pytest.mark.parametrize("weight", [1e-320, 1e308])
@pytest.mark.parametrize("kind", [ThresherRegressor, ThresherClassifier])
def test_weights_too_far_apart_are_refused_as_such(kind, weight):
    X, weights = np.arange(10.0)[:, None], np.append(np.ones(9), weight)
    with pytest.raises(InvalidInput, match="sample weights must be at most"):
        kind(**SMALL).fit(X, np.arange(10) % 2, sample_weight=weights)


def test_the_estimate_of_memory_counts_outputs(monkeypatch):
    asked = []
    monkeypatch.setattr(base, "require", lambda taken, **_: asked.append(taken))
    monkeypatch.setattr(regressor_module, "_calibrate", lambda *_: np.ones(2))  # takes time, not memory
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(100, 3)), rng.normal(size=(100, 1000))
    tracemalloc.start()
    try:
        ThresherRegressor(width=float("inf"), feature_learning=0).fit(X, Y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < asked[0] < 4 * peak


def test_weights_are_repetitions(diabetes):
    X, y, others, _ = diabetes
    X, y, times = X[:60], y[:60], np.arange(60) % 3
    weighted = ThresherRegressor(**SMALL).fit(X, y, sample_weight=times)
    repeated = ThresherRegressor(**SMALL).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(weighted.predict(others), repeated.predict(others), rtol=1e-6)
    assert not np.allclose(weighted.predict(others), ThresherRegressor(**SMALL).fit(X, y).predict(others))


def test_error_bars_have_the_size_they_say(diabetes):
    X, y, others, unseen = diabetes
    values, deviations = ThresherRegressor(random_state=0).fit(X, y).predict(others, return_std=True)
    assert (deviations > 0).all()
    assert 0.7 < np.sqrt((((unseen - values) / deviations) ** 2).mean()) < 1.4
    rng = np.random.default_rng(0)
    line = rng.uniform(-1, 1, (40, 1))
    model = ThresherRegressor(feature_learning=0, **SMALL).fit(line, np.sin(3 * line[:, 0]))
    near, far = model.predict([[0.0], [9.0]], return_std=True)[1]
    assert far > 3 * near


def test_probabilities_are_calibrated_and_agree_with_labels():
    X, y = make_moons(2000, noise=0.35, random_state=0)
    model = ThresherClassifier(**SMALL).fit(X[:300], y[:300])
    chances = model.predict_proba(X[300:])
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    np.testing.assert_array_equal(model.classes_[chances.argmax(axis=1)], model.predict(X[300:]))
    sure = chances.max(axis=1)
    right = model.predict(X[300:]) == y[300:]
    for low, high in ((0.5, 0.65), (0.65, 0.8), (0.8, 1.0)):
        group = (sure >= low) & (sure < high)
        assert abs(right[group].mean() - sure[group].mean()) < 0.1


def test_several_targets_are_several_regressions(diabetes):
    X, y, others, _ = diabetes
    both = np.column_stack([y, -2 * y + 1])
    options = {"shift": 0.5, "bias": 1.0, "ridge": 0.1, "feature_learning": 0, "width": 2**14, "random_state": 0}
    values = ThresherRegressor(**options).fit(X, both).predict(others)
    assert values.shape == (100, 2)
    assert np.abs(values[:, 1] - (-2 * values[:, 0] + 1)).mean() < 0.05 * both[:, 1].std()
    single = ThresherRegressor(**options).fit(X, y).predict(others)
    np.testing.assert_allclose(values[:, 0], single, rtol=1e-6)


def test_a_hundred_classes_share_the_neurons():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(100, 16))
    y = np.repeat(np.arange(100), 4)
    X = centres[y] + 0.3 * rng.normal(size=(400, 16))
    model = ThresherClassifier(random_state=0, feature_learning=0).fit(X, y)
    assert len(model.networks_) == 100
    assert sum(network.width for network in model.networks_) <= base._MOST_NEURONS
    assert len({network.settings for network in model.networks_}) == 1
    assert model.score(centres, np.arange(100)) > 0.9


def test_frames_names_pipelines_and_searches(diabetes):
    X, y, others, _ = diabetes
    names = [f"column{k}" for k in range(X.shape[1])]
    plain = ThresherRegressor(**SMALL).fit(X, y).predict(others)
    for frame in (pd.DataFrame, pl.DataFrame):
        model = ThresherRegressor(**SMALL).fit(frame(dict(zip(names, X.T, strict=True))), y)
        assert list(model.feature_names_in_) == names
        np.testing.assert_allclose(model.predict(frame(dict(zip(names, others.T, strict=True)))), plain)
    chain = make_pipeline(StandardScaler(), ThresherRegressor(feature_learning=0, **SMALL))
    assert cross_val_score(chain, X, y, cv=3).mean() > 0.2
    search = GridSearchCV(ThresherRegressor(feature_learning=0, **SMALL), {"shift": [0.0, 1.0]}, cv=2).fit(X, y)
    assert search.best_params_["shift"] in (0.0, 1.0)
    assert clone(search.best_estimator_).get_params()["width"] == 512
    lifted = SphereLift().set_output(transform="pandas").fit_transform(pd.DataFrame(X, columns=names))
    assert lifted.shape == (200, 11)


def test_results_depend_on_the_seed_and_not_on_threads(diabetes):
    X, y, others, _ = diabetes
    options = {"width": 4096, "feature_learning": 0}
    first, again, other = (
        ThresherRegressor(random_state=seed, n_jobs=jobs, **options).fit(X, y).predict(others)
        for seed, jobs in ((0, 1), (0, 2), (1, 2))
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("bias", [1.0, 0.0])
def test_lifting_can_be_undone_unless_lengths_are_lost(bias):
    X = np.random.default_rng(0).normal(size=(20, 4)) * [1, 10, 0.1, 3] + 5
    metric = np.diag([1.0, 2.0, 0.5, 1.0])
    lift = SphereLift(bias=bias, metric=metric).fit(X)
    lifted = lift.transform(X)
    np.testing.assert_allclose(np.linalg.norm(lifted, axis=1), 1)
    if bias:
        np.testing.assert_allclose(lift.inverse_transform(lifted), X)
    else:
        with pytest.raises(InvalidInput, match="lost their lengths"):
            lift.inverse_transform(lifted)


class TestTheNetworksOwnKernel:
    def test_what_is_chosen_on_some_rows_is_as_noisy_as_the_network(self, monkeypatch):
        asked = []

        def spy(inputs, settings):
            asked.append((len(inputs), settings.width))
            return start_gram(inputs, settings)

        monkeypatch.setattr(base, "start_gram", spy)
        rng = np.random.default_rng(0)
        X = rng.normal(size=(1024, 3))
        model = ThresherRegressor(width=3000, feature_learning=0, random_state=0).fit(X, np.sin(2 * X[:, 0]))
        assert set(asked) == {(512, 1500)}
        assert len(model.tried_) == len(asked)

    def test_it_has_the_last_word_on_shift(self, diabetes, monkeypatch):
        X, y, *_ = diabetes

        def partial_to_zero(inputs, settings):
            gram = start_gram(inputs, settings)
            return gram if settings.shift == 0 else np.eye(len(gram)) * gram.diagonal().mean()

        monkeypatch.setattr(choose, "SHIFTS", (1.0,))
        assert ThresherRegressor(feature_learning=0, width=float("inf")).fit(X, y).shift_ == 1
        monkeypatch.setattr(base, "start_gram", partial_to_zero)
        assert ThresherRegressor(feature_learning=0, **SMALL).fit(X, y).shift_ == 0
        assert ThresherRegressor(feature_learning=0, shift=1.0, **SMALL).fit(X, y).shift_ == 1

    def test_gains_are_those_of_its_first_step(self, regressor):
        network = regressor.networks_[0]
        start, m = network.settings.start, network.width
        gram = naive.gram(start.block(0, m).astype(float), start.signs(np.arange(m)), regressor.inputs_, network.shift)
        travelled = regressor.alpha_[:, 0] @ gram @ regressor.alpha_[:, 0]
        assert regressor.gains_[0] == pytest.approx(np.sqrt(travelled / m) / base._DRIFT, rel=1e-6)

    def test_a_recipe_of_many_classes_passes_over_the_start_once(self, classifier, tmp_path, monkeypatch):
        made = []
        monkeypatch.setattr(model_files, "RidgeStart", lambda *a, **k: made.append(1) or RidgeStart(*a, **k))
        classifier.save(tmp_path / "model", form="recipe")
        thresher.load(tmp_path / "model")
        assert len(made) == 1


class TestWhatAReviewFound:
    """Each was wrong once."""

    def test_a_failed_fit_leaves_the_old_model(self, diabetes, monkeypatch):
        X, y, others, _ = diabetes
        model = ThresherRegressor(feature_learning=0, **SMALL).fit(X, y)
        before = model.predict(others)

        def refuse(*_, **__):
            raise MemoryRefused("no room")

        monkeypatch.setattr(base, "train_ridge", refuse)
        with pytest.raises(MemoryRefused):
            model.fit(X, 1000 * np.exp(y / 50))
        np.testing.assert_array_equal(model.predict(others), before)

    def test_a_start_that_is_the_minimum_is_no_failure(self, diabetes):
        X, y, *_ = diabetes
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            constant = ThresherRegressor(**SMALL).fit(np.ones((50, 3)), y[:50])
            torn = ThresherClassifier(**SMALL).fit(np.repeat(X[:40], 2, axis=0), np.tile([0, 1], 40))
        assert {constant.results_[0].status, torn.results_[0].status} == {thresher.Status.CONVERGED}
        np.testing.assert_allclose(constant.predict(X[:5, :3]), y[:50].mean(), rtol=1e-6)

    def test_a_step_beyond_single_precision_is_not_taken(self, diabetes):
        X, y, *_ = diabetes
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = ThresherRegressor(shift=20.0, feature_learning=0, **SMALL).fit(X, y)
        assert model.results_[0].status == thresher.Status.STALLED

    def test_a_ridge_too_small_for_the_limit_is_no_lost_training(self, diabetes, monkeypatch):
        X, y, *_ = diabetes
        monkeypatch.setattr(regressor_module, "leave_one_out", lambda *_, **__: None)  # not positive
        model = ThresherRegressor(feature_learning=0, **SMALL).fit(X, y)
        assert (model.predict(X, return_std=True)[1] > 0).all()
        model.penalty_ = -model.penalty_
        with pytest.raises(InvalidInput, match="too small for deviations"):
            model.predict(X, return_std=True)

    def test_the_limit_of_several_outputs_is_the_same_from_its_file(self, tmp_path):
        rng = np.random.default_rng(0)
        X, Y, others = rng.normal(size=(150, 4)), rng.normal(size=(150, 3)), rng.normal(size=(500, 4))
        model = ThresherRegressor(width=float("inf")).fit(X, Y)
        model.save(tmp_path / "model")
        np.testing.assert_array_equal(thresher.load(tmp_path / "model").predict(others), model.predict(others))

    def test_error_bars_do_not_shrink_with_one_heavy_row(self, diabetes):
        X, y, others, unseen = diabetes
        weights = np.ones(200)
        weights[5] = 20
        options = {"ridge": 1.0, "shift": 0.5, "bias": 1.0, "feature_learning": 0, **SMALL}
        values, deviations = ThresherRegressor(**options).fit(X, y, weights).predict(others, return_std=True)
        assert np.sqrt((((unseen - values) / deviations) ** 2).mean()) < 1.4

    @pytest.mark.parametrize("factor", [1e-9, 10.0])
    def test_the_size_of_weights_does_not_matter(self, diabetes, factor):
        X, y, others, _ = diabetes
        weights = 1.0 + np.arange(200) % 2
        plain, scaled = (
            ThresherRegressor(**SMALL).fit(X, y, sample_weight=times * weights).predict(others, return_std=True)
            for times in (1.0, factor)
        )
        np.testing.assert_allclose(plain, scaled, rtol=1e-4)

    def test_every_row_twice_is_every_row_once(self, diabetes):
        X, y, others, _ = diabetes
        once = ThresherRegressor(**SMALL).fit(X, y)
        twice = ThresherRegressor(**SMALL).fit(np.repeat(X, 2, axis=0), np.repeat(y, 2))
        assert twice.ridge_ == once.ridge_
        np.testing.assert_allclose(
            twice.predict(others, return_std=True), once.predict(others, return_std=True), rtol=1e-3
        )

    def test_columns_of_any_size(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(60, 3))
        y = np.sin(2 * X[:, 0])
        plain = ThresherRegressor(**SMALL).fit(X, y).predict(X)
        for times in (1e200, 1e-170):
            found = ThresherRegressor(**SMALL).fit(X * times, y).predict(X * times)
            np.testing.assert_allclose(found, plain, atol=5e-3)
        constant = np.column_stack([X, np.full(60, 1e30)])
        np.testing.assert_allclose(ThresherRegressor(**SMALL).fit(constant, y).predict(constant), plain, atol=0.3)
        moments = 1.7e18 + np.round(rng.uniform(0, 1e6, 60))
        assert (
            ThresherRegressor(**SMALL).fit(np.column_stack([X, moments]), y).score(np.column_stack([X, moments]), y)
            > 0.5
        )

    def test_a_failed_fit_leaves_the_old_model_alone(self, diabetes):
        X, y, others, _ = diabetes
        model = ThresherRegressor(**SMALL).fit(X, y)
        before = model.predict(others)
        with pytest.raises(InvalidInput):
            model.set_params(ridge=-1.0).fit(X, 1e6 * y)
        np.testing.assert_array_equal(model.predict(others), before)

    def test_nobody_fires_and_it_is_said(self, diabetes):
        X, y, *_ = diabetes
        with pytest.warns(ConvergenceWarning, match="Lower the shift"):
            model = ThresherRegressor(shift=5.0, feature_learning=0, **SMALL).fit(X[:50], y[:50])
        assert model.results_[0].status == thresher.Status.STALLED

    def test_probabilities_are_never_certain(self):
        X, y = load_iris(return_X_y=True)
        chances = ThresherClassifier(**SMALL).fit(X[::5], y[::5]).predict_proba(X)
        assert chances.max() < 1 - 1e-6

    def test_many_columns_do_not_take_forever(self):
        X = np.random.default_rng(0).normal(size=(40, 2000))
        assert ThresherRegressor(**SMALL).fit(X, X[:, 0]).feature_learning_ == 0

    def test_names_of_columns_are_known_to_error_bars(self, diabetes):
        X, y, *_ = diabetes
        frame = pd.DataFrame(X).add_prefix("c")
        ThresherRegressor(**SMALL).fit(frame, y).predict(frame, return_std=True)  # a warning would be an error

    def test_what_numpy_counts_is_saved(self, diabetes, tmp_path):
        X, y, *_ = diabetes
        model = ThresherRegressor(width=np.int64(64), random_state=np.int64(3), shift=np.float32(0.5)).fit(X, y)
        model.save(tmp_path / "model")
        loaded = thresher.load(tmp_path / "model")
        assert (loaded.width, loaded.random_state, loaded.tried_) == (64, 3, model.tried_)
        assert loaded.feature_learning_errors_ == model.feature_learning_errors_

    @pytest.mark.parametrize("form", ["full", "recipe"])
    def test_a_model_without_steps_is_saved(self, tmp_path, form):
        model = ThresherRegressor(**SMALL).fit(np.arange(12.0).reshape(6, 2), np.full(6, 2.0))
        model.save(tmp_path / "model", form=form)
        np.testing.assert_array_equal(thresher.load(tmp_path / "model").predict([[1.0, 2.0]]), [2.0])


class TestFiles:
    @pytest.mark.parametrize("form", ["full", "recipe"])
    def test_what_is_loaded_predicts_the_same(self, regressor, classifier, diabetes, tmp_path, form):
        X, _, others, _ = diabetes
        path = tmp_path / "model.thresher"
        regressor.save(path, form=form)
        loaded = thresher.load(path)
        np.testing.assert_array_equal(loaded.predict(others), regressor.predict(others))
        deviations = [model.predict(others, return_std=True)[1] for model in (loaded, regressor)]
        np.testing.assert_array_equal(*deviations)
        assert loaded.get_params() == regressor.get_params()
        classifier.save(path, form=form)
        loaded, X = thresher.load(path), load_iris().data
        np.testing.assert_array_equal(loaded.predict_proba(X), classifier.predict_proba(X))
        np.testing.assert_array_equal(loaded.predict(X), classifier.predict(X))
        assert [len(result.history) for result in loaded.results_] == [len(one.history) for one in classifier.results_]
        assert [path.name for path in tmp_path.iterdir()] == ["model.thresher"]

    @pytest.mark.parametrize("form", ["full", "recipe"])
    def test_logarithms_stay_logarithms(self, logarithmic, growth, tmp_path, form):
        logarithmic.save(tmp_path / "model", form=form)
        loaded = thresher.load(tmp_path / "model")
        for told, expected in zip(
            *(one.predict(growth[2], return_std=True) for one in (loaded, logarithmic)), strict=True
        ):
            np.testing.assert_array_equal(told, expected)

    def test_a_recipe_does_not_grow_with_the_width(self, diabetes, tmp_path):
        X, y, *_ = diabetes
        sizes = []
        for width in (2**8, 2**14):
            model = ThresherRegressor(width=width, feature_learning=0, random_state=0).fit(X, y)
            model.save(tmp_path / "recipe", form="recipe")
            model.save(tmp_path / "full")
            sizes.append([(tmp_path / name).stat().st_size for name in ("recipe", "full")])
        assert sizes[1][0] < 1.2 * sizes[0][0] < 100_000
        assert sizes[1][1] > 20 * sizes[1][0] / 5

    def test_the_limit_has_a_file_too(self, diabetes, tmp_path):
        X, y, others, _ = diabetes
        model = ThresherRegressor(width=float("inf"), feature_learning=1).fit(pd.DataFrame(X).add_prefix("c"), y)
        model.save(tmp_path / "model")
        loaded = thresher.load(tmp_path / "model")
        others = pd.DataFrame(others).add_prefix("c")
        np.testing.assert_array_equal(loaded.predict(others), model.predict(others))
        assert list(loaded.feature_names_in_) == list(model.feature_names_in_)

    @pytest.mark.parametrize("form", ["full", "recipe"])
    @pytest.mark.parametrize(
        "damage",
        [
            "estimator",
            "parameters",
            "networks",
            "last",
            "values",
            "width",
            "steps",
            "shift",
            "none",
            "mean",
            "gains_",
            "inputs_",
            "target_",
            "floor_",
            "noise_",
        ],
    )
    def test_files_that_lie_are_refused(self, regressor, tmp_path, damage, form):
        path = tmp_path / "model"
        regressor.save(path, form=form)
        stored = read_file(path, kind="model", newest=1)
        about, tensors = json.loads(json.dumps(stored.metadata)), dict(stored.tensors)
        if damage == "width":
            about["networks"][0]["width"] = 10**15
        elif damage == "steps":
            tensors["steps0"] = tensors["steps0"][:, :5]
        elif damage == "estimator":
            about["estimator"] = "os.system"
        elif damage == "shift":
            about["networks"][0]["shift"] = 99.0
        elif damage == "none":
            about["networks"] = []
        elif damage == "mean":
            tensors["mean"] = tensors["mean"][:1]
        elif damage == "gains_":
            tensors["gains_"] = tensors["gains_"] * np.nan
        elif damage == "target_":
            about["values"]["target_"] = "square"
        elif damage == "floor_":
            about["values"]["target_"] = "log"
            tensors["floor_"] = np.full(1, np.nan)
        elif damage == "noise_":
            tensors["noise_"] = -tensors["noise_"]
        elif damage == "inputs_":
            tensors["inputs_"] = 9 * tensors["inputs_"]
        else:
            del about[damage]
        write_file(path, tensors, about, kind="model", version=1)
        with pytest.raises((InvalidInput, MemoryRefused)):
            thresher.load(path)

    def test_bad_requests_are_refused(self, regressor, tmp_path):
        with pytest.raises(InvalidInput, match="form must be 'full' or 'recipe'"):
            regressor.save(tmp_path / "model", form="pickle")
        with pytest.raises(InvalidInput, match="cannot write"):
            regressor.save(tmp_path / "nowhere" / "model")
        with pytest.raises(InvalidInput):
            thresher.load(tmp_path / "model")


class TestExport:
    def test_arrays_predict_the_same(self, regressor, classifier, diabetes):
        _, _, others, _ = diabetes
        found = predict_arrays(regressor.to_numpy(), others)
        np.testing.assert_allclose(found[:, 0], regressor.predict(others), rtol=1e-9)
        X = load_iris().data
        np.testing.assert_allclose(predict_arrays(classifier.to_numpy(), X), classifier.decision_function(X), atol=1e-9)

    def test_arrays_of_logarithms_predict_the_same(self, logarithmic, growth):
        found = predict_arrays(logarithmic.to_numpy(), growth[2])
        np.testing.assert_allclose(found[:, 0], logarithmic.predict(growth[2]), rtol=1e-9)

    def test_neurons_that_never_moved_are_dropped(self, diabetes):
        X, y, others, _ = diabetes
        model = ThresherRegressor(shift=3.0, feature_learning=0, width=2000, random_state=0).fit(X[:20], y[:20])
        arrays = model.to_numpy()
        assert arrays["hidden"].shape[1] < 200
        np.testing.assert_allclose(predict_arrays(arrays, others)[:, 0], model.predict(others), rtol=1e-9)

    @pytest.mark.parametrize("bias", [0.0, 1.0])
    def test_onnx_models_hold_nothing_that_is_not_used(self, diabetes, bias):
        pytest.importorskip("onnx", reason="an extra")
        X, y, *_ = diabetes
        graph = ThresherRegressor(bias=bias, **SMALL).fit(X[:20], y[:20]).to_onnx().graph
        assert {one.name for one in graph.initializer} <= {name for node in graph.node for name in node.input}

    def test_networks_that_never_moved_are_exported(self, diabetes):
        onnxruntime = pytest.importorskip("onnxruntime", reason="an extra")
        X, *_ = diabetes
        model = ThresherRegressor(**SMALL).fit(X[:9], np.full(9, 3.0))
        np.testing.assert_array_equal(predict_arrays(model.to_numpy(), X)[:, 0], np.full(200, 3.0))
        session = onnxruntime.InferenceSession(model.to_onnx().SerializeToString())
        np.testing.assert_array_equal(session.run(None, {"X": X})[0][:, 0], np.full(200, 3.0))

    def test_onnx_predicts_the_same(self, regressor, classifier, logarithmic, diabetes, growth, tmp_path):
        onnxruntime = pytest.importorskip("onnxruntime", reason="an extra")
        for model, X in ((regressor, diabetes[2]), (classifier, load_iris().data), (logarithmic, growth[2])):
            model.to_onnx(tmp_path / "model.onnx")
            session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
            found = session.run(None, {"X": X})[0]
            np.testing.assert_allclose(found, predict_arrays(model.to_numpy(), X), rtol=1e-5, atol=1e-5)

    def test_torch_predicts_the_same(self, regressor, classifier, logarithmic, diabetes, growth):
        torch = pytest.importorskip("torch", reason="an extra")
        for model, X in ((regressor, diabetes[2]), (classifier, load_iris().data), (logarithmic, growth[2])):
            found = model.to_torch()(torch.from_numpy(X)).numpy()
            np.testing.assert_allclose(found, predict_arrays(model.to_numpy(), X), rtol=1e-5, atol=1e-5)

    def test_without_the_extras_one_line_says_what_to_do(self, regressor, monkeypatch):
        monkeypatch.setitem(__import__("sys").modules, "torch", None)
        monkeypatch.setitem(__import__("sys").modules, "onnx", None)
        with pytest.raises(NotAvailable, match=r"pip install 'thresher\[torch\]'"):
            regressor.to_torch()
        with pytest.raises(NotAvailable, match=r"pip install 'thresher\[onnx\]'"):
            regressor.to_onnx()
        with pytest.raises(InvalidInput, match="no neurons to export"):
            export.to_numpy(ThresherRegressor(width=float("inf")).fit([[0.0], [1.0], [2.0]], [0, 1, 2]), mean=0, unit=1)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"width": 0}, "width must be at least 1"),
        ({"width": "wide"}, "width must be a whole number"),
        ({"shift": -1.0}, "shift must be at least 0"),
        ({"ridge": 0.0}, "ridge must be above 0"),
        ({"bias": "big"}, "bias must be a number"),
        ({"feature_learning": -1}, "feature_learning must be at least 0"),
        ({"scale": "log"}, "scale must be one of"),
        ({"max_iterations": 0}, "max_iterations must be at least 1"),
        ({"n_jobs": 0}, "n_jobs must be a number of threads"),
        ({"bias": 0.0, "scale": "none"}, "has no direction"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    X = np.vstack([np.zeros(2), np.eye(2), [[1, 2]]])
    with pytest.raises(InvalidInput, match=message):
        ThresherRegressor(**{"width": 64, **parameters}).fit(X, [0.0, 1.0, 2.0, 3.0])


def test_lines_are_printed_when_asked_for(capsys, diabetes):
    ThresherRegressor(verbose=1, **SMALL).fit(*diabetes[:2])
    assert "output 0, iteration 1: residual" in capsys.readouterr().err
