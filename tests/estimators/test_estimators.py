"""Estimators as their users meet them: scikit-learn's own checks, parameters, frames, weights, progress."""

import gc
import io
import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from thresher import InvalidInput, SphereLift, ThresherClassifier, ThresherRegressor
from thresher.estimators import intervals, memory
from thresher.estimators.progress import Progress
from thresher.theory import Shares

FIXED = {"bias": 1.0, "ridge": 0.1, "feature_learning": 0}


@parametrize_with_checks([SphereLift(), ThresherRegressor(**FIXED), ThresherClassifier(**FIXED)])
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


@pytest.mark.thorough
@parametrize_with_checks(
    [ThresherRegressor(), ThresherClassifier(), *(ThresherRegressor(loss=one) for one in ("huber", "quantile"))]
)
def test_scikit_learn_accepts_defaults(estimator, check):
    check(estimator)


class TestParameters:
    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"ridge": 0.0}, "ridge must be above 0"),
            ({"ridge": -1.0}, "ridge must be above 0"),
            ({"ridge": "large"}, "ridge must be a number"),
            ({"bias": "big"}, "bias must be a number"),
            ({"bias": -1.0}, "bias must be at least 0"),
            ({"feature_learning": -1}, "feature_learning must be at least 0"),
            ({"feature_learning": 1.5}, "feature_learning must be a whole number"),
            ({"target_transform": "linear"}, "target_transform must be one of"),
            ({"quantiles": [0.5, 1.5], "loss": "quantile"}, "quantiles must be numbers between 0 and 1"),
            ({"n_jobs": 0}, "n_jobs must be a number of threads"),
            ({"bias": 0.0, "parts": "all"}, "has no direction"),
            ({"bias": 0.0, "approximation": "leaves"}, "leaves need a bias above 0"),
        ],
    )
    def test_bad_ones_are_named(self, parameters, message):
        X = np.vstack([np.zeros(2), np.eye(2), -np.eye(2)])
        with pytest.raises(InvalidInput, match=message):
            ThresherRegressor(**parameters).fit(X, [0.0, 1.0, 2.0, 3.0, 4.0])

    def test_choices_are_reported_and_can_be_made_by_hand(self, regressor, diabetes):
        X, y, *_ = diabetes
        assert regressor.loo_error_ < 1
        for choice in regressor.choices_:
            assert not choice.tried or choice.taken in choice.tried, choice
        assert min(regressor.choices_["bias"].tried, key=regressor.choices_["bias"].tried.get) == f"{regressor.bias_:g}"
        said = str(regressor.choices_)
        assert said == repr(regressor.choices_)
        assert [line.split("  ")[0] for line in said.splitlines()] == [choice.name for choice in regressor.choices_]
        fixed = ThresherRegressor(bias=0.7, ridge=0.02, feature_learning=2, target_transform=None, parts="all")
        fixed.fit(X, y)
        assert (fixed.bias_, fixed.ridge_) == (0.7, 0.02)
        assert fixed.parts_ == Shares()
        assert fixed.choices_["rounds of the metric"].taken == "2"
        assert fixed.model_.lift.metric is not None
        assert fixed.predictive_.floor is None

    def test_a_failed_fit_leaves_the_old_model_alone(self, diabetes):
        X, y, others, _ = diabetes
        model = ThresherRegressor(**FIXED).fit(X, y)
        before = model.predict(others)
        with pytest.raises(InvalidInput):
            model.set_params(ridge=-1.0).fit(X, 1e6 * y)
        np.testing.assert_array_equal(model.predict(others), before)

    @pytest.mark.parametrize("options", [{}, {"loss": "quantile"}, {"target_transform": "log"}])
    def test_results_depend_neither_on_the_seed_nor_on_threads(self, options, diabetes):
        X, y, others, _ = diabetes
        first, *rest = (
            ThresherRegressor(random_state=seed, n_jobs=jobs, **options).fit(X, y)
            for seed, jobs in ((0, 1), (0, 2), (1, None))
        )
        for other in rest:
            assert other.choices_ == first.choices_
            np.testing.assert_array_equal(other.model_.alpha, first.model_.alpha)
            np.testing.assert_array_equal(other.predict(others), first.predict(others))


def test_frames_names_pipelines_and_searches(diabetes):
    X, y, others, _ = diabetes
    names = [f"column{k}" for k in range(X.shape[1])]
    plain = ThresherRegressor(**FIXED).fit(X, y).predict(others)
    for frame in (pd.DataFrame, pl.DataFrame):
        model = ThresherRegressor(**FIXED).fit(frame(dict(zip(names, X.T, strict=True))), y)
        assert list(model.feature_names_in_) == names
        np.testing.assert_allclose(model.predict(frame(dict(zip(names, others.T, strict=True)))), plain)
    chain = make_pipeline(StandardScaler(), ThresherRegressor(feature_learning=0))
    assert cross_val_score(chain, X, y, cv=3).mean() > 0.2
    options = {**FIXED, "ridge": "auto"}
    search = GridSearchCV(ThresherRegressor(**options), {"parts": ["all", "pairs"]}, cv=2).fit(X, y)
    assert search.best_params_["parts"] in ("all", "pairs")
    assert clone(search.best_estimator_).get_params()["bias"] == 1.0
    lifted = SphereLift().set_output(transform="pandas").fit_transform(pd.DataFrame(X, columns=names))
    assert lifted.shape == (200, 11)


class TestWeights:
    def test_they_are_repetitions(self, diabetes):
        X, y, others, _ = diabetes
        X, y, times = X[:60], y[:60], np.arange(60) % 3
        weighted = ThresherRegressor().fit(X, y, sample_weight=times)
        repeated = ThresherRegressor().fit(np.repeat(X, times, axis=0), np.repeat(y, times))
        for one, other in zip(*(model.predict(others, return_std=True) for model in (weighted, repeated)), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5)
        assert not np.allclose(weighted.predict(others), ThresherRegressor().fit(X, y).predict(others))

    @pytest.mark.parametrize("rows", [40, 60])  # of about so many observations on logarithms are tried
    def test_logarithms_are_chosen_as_if_they_were_repetitions(self, rows):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(rows, 2))
        y, times = np.exp(1.5 * X[:, 0] + 0.3 * rng.normal(size=rows)), np.tile([1, 3], rows // 2)
        weighted = ThresherRegressor().fit(X, y, times).choices_
        repeated = ThresherRegressor().fit(np.repeat(X, times, axis=0), np.repeat(y, times)).choices_
        assert [(one.name, one.taken) for one in weighted] == [(one.name, one.taken) for one in repeated]
        for one, other in zip(weighted, repeated, strict=True):
            assert one.tried == pytest.approx(other.tried, rel=1e-6)

    def test_large_ones_do_not_make_a_model_sure(self, diabetes):
        """Rows would be known from their own copies: noise learnt by heart, errors of nothing, no error bars."""
        X, y, others, _ = diabetes
        plain, weighted = (ThresherRegressor().fit(X, y, weight) for weight in (None, np.full(len(X), 100)))
        assert weighted.loo_error_ == pytest.approx(plain.loo_error_)
        np.testing.assert_allclose(weighted.predict(others, return_std=True), plain.predict(others, return_std=True))

    @pytest.mark.parametrize("factor", [1e-9, 0.3])
    def test_only_ratios_of_those_below_one_matter(self, diabetes, factor):
        X, y, others, _ = diabetes
        weights = 0.5 + 0.5 * (np.arange(100) % 2)
        plain, scaled = (
            ThresherRegressor().fit(X[:100], y[:100], times * weights).predict(others, return_std=True)
            for times in (1.0, factor)
        )
        np.testing.assert_allclose(plain, scaled, rtol=1e-4)

    def test_the_order_of_rows_does_not_matter(self, diabetes):
        X, y, others, _ = diabetes
        order = np.random.default_rng(0).permutation(100)
        one, other = (ThresherRegressor().fit(X[:100][some], y[:100][some]) for some in (slice(None), order))
        np.testing.assert_allclose(one.predict(others), other.predict(others), rtol=1e-6)

    @pytest.mark.parametrize("weight", [1e-320, 1e308])
    @pytest.mark.parametrize("kind", [ThresherRegressor, ThresherClassifier])
    def test_those_too_far_apart_are_refused_as_such(self, kind, weight):
        X, weights = np.arange(10.0)[:, None], np.append(np.ones(9), weight)
        with pytest.raises(InvalidInput, match="sample weights must be at most"):
            kind().fit(X, np.arange(10) % 2, sample_weight=weights)

    def test_a_lift_does_not_see_rows_without_weight(self):
        lift = SphereLift().fit([[1.0, 3.0], [1.0, 4.0], [2.0, 9.0]], sample_weight=[1, 1, 0])
        expected = SphereLift().fit([[1.0, 3.0], [1.0, 4.0]])
        np.testing.assert_array_equal(lift.transform([[3.0, 5.0]]), expected.transform([[3.0, 5.0]]))


@pytest.mark.parametrize("bias", [1.0, 0.0])
def test_lifting_can_be_undone_unless_lengths_are_lost(bias):
    X = np.random.default_rng(0).normal(size=(20, 4)) * [1, 10, 0.1, 3] + 5
    metric = np.diag([1.0, 2.0, 0.5, 1.0])
    lift = SphereLift(bias=bias, weights=[1.0, 3.0, 1.0, 0.2], metric=metric).fit(X)
    lifted = lift.transform(X)
    np.testing.assert_allclose(np.linalg.norm(lifted, axis=1), 1)
    if bias:
        np.testing.assert_allclose(lift.inverse_transform(lifted), X)
    else:
        with pytest.raises(InvalidInput, match="lost their lengths"):
            lift.inverse_transform(lifted)


@pytest.mark.parametrize(("n", "outputs"), [(100, 1000), (400, 3)])
def test_the_estimate_of_memory_covers_what_is_taken(monkeypatch, n, outputs):
    asked = []
    monkeypatch.setattr(memory, "require", lambda taken, **_: asked.append(taken))
    monkeypatch.setattr(intervals, "_fit_variances", lambda *_: np.ones(2))  # takes time, not memory
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(n, 3)), rng.normal(size=(n, outputs))
    model = ThresherRegressor(feature_learning=0)
    model.fit(X, Y[:, :2])  # loads and compiles, whichever test is first
    asked.clear()
    gc.disable()  # what waits for the collector is memory too
    tracemalloc.start()
    try:
        model.fit(X, Y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        gc.enable()
    assert peak < max(asked) < 4 * peak


class TestImportances:
    @pytest.mark.parametrize("feature_learning", ["auto", 0, 1])
    def test_the_column_that_matters_is_found(self, feature_learning):
        X = np.random.default_rng(0).normal(size=(100, 5)) * [1, 100, 1, 0.01, 1]
        model = ThresherRegressor(feature_learning=feature_learning).fit(X, np.sin(200 * X[:, 3]) + 0.003 * X[:, 1])
        assert model.feature_importances_.shape == (5,)
        assert model.feature_importances_.sum() == pytest.approx(1)
        assert (model.feature_importances_ >= 0).all()
        np.testing.assert_array_equal(np.argsort(model.feature_importances_)[:2:-1], [3, 1])
        assert model.metric_.shape == (5, 5)

    def test_they_are_those_of_a_classifier_too(self, classifier):
        assert np.argmax(classifier.feature_importances_) in (2, 3)  # petals tell irises apart
        assert classifier.metric_.shape == (4, 4)

    def test_nothing_matters_for_targets_that_do_not_vary(self):
        model = ThresherRegressor().fit(np.arange(20.0).reshape(10, 2), np.ones(10))
        np.testing.assert_allclose(model.feature_importances_, 0.5)


class TestProgress:
    @pytest.mark.parametrize("kind", [ThresherRegressor, ThresherClassifier])
    def test_stages_are_printed_when_asked_for(self, kind, capsys, diabetes):
        X, y, *_ = diabetes
        y = np.digitize(y, [100, 150]) if kind is ThresherClassifier else y
        kind(verbose=1).fit(X[:60], y[:60])
        out, error = capsys.readouterr()
        assert not out
        for stage in ("choosing columns", "learning features", "fitting all rows"):
            assert stage in error
        kind(**FIXED).fit(X[:60], y[:60])
        assert capsys.readouterr() == ("", "")

    def test_a_bar_is_shown_on_a_terminal_and_gone_at_the_end(self, monkeypatch):
        class Terminal(io.StringIO):
            def isatty(self):
                return True

        screen = Terminal()
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setattr("sys.stderr", screen)
        with Progress(verbose=True) as progress:
            progress.plan({"first": 1.0, "second": 3.0})
            progress.begin("first")
            progress.begin("second")
            progress._console.draw()
        assert "second" in screen.getvalue()
        assert "25% 0:00:00 left 0:00:00" in screen.getvalue()
        assert screen.getvalue().endswith("\x1b[J")
