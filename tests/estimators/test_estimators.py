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

from thresher import Callback, InvalidInput, SphereLift, ThresherClassifier, ThresherRegressor
from thresher.estimators.models import intervals
from thresher.estimators.pipeline import budget
from thresher.estimators.progress import Progress

SMALL = {"width": 512, "random_state": 0}
TWICE = "the same row comes with different targets, which ridge=0 refuses"
EXACT = {
    **dict.fromkeys([f"check_estimator_sparse_{one}" for one in ("tag", "array", "matrix")], TWICE),
    **dict.fromkeys(
        ["check_classifiers_multilabel_representation_invariance"]
        + [
            f"check_classifiers_multilabel_output_format_{one}"
            for one in ("predict", "predict_proba", "decision_function")
        ],
        TWICE,
    ),
    "check_class_weight_classifiers": "every row is met, whatever its class counts",
    "check_methods_subset_invariance": "outputs are in single precision, as those of thresher.train",
}
FIXED = {"shift": 0.5, "bias": 1.0, "ridge": 0.1, "feature_learning": 0, "width": 128, "random_state": 0}


@parametrize_with_checks([SphereLift(), ThresherRegressor(**FIXED), ThresherClassifier(**FIXED)])
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


@pytest.mark.thorough
@parametrize_with_checks(
    [
        ThresherRegressor(width=128),
        ThresherClassifier(width=128),
        ThresherRegressor(width=float("inf")),
        ThresherRegressor(width=1024, ridge=0, max_iterations=30),
        ThresherClassifier(width=1024, ridge=0, max_iterations=30),
    ],
    expected_failed_checks=lambda estimator: EXACT if getattr(estimator, "ridge", "auto") == 0 else {},
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # of narrow networks with ridge=0
def test_scikit_learn_accepts_defaults(estimator, check):
    check(estimator)


class TestParameters:
    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"width": 0}, "width must be at least 1"),
            ({"width": "wide"}, "width must be a whole number"),
            ({"shift": -1.0}, "shift must be at least 0"),
            ({"ridge": -1.0}, "ridge must be at least 0"),
            ({"bias": "big"}, "bias must be a number"),
            ({"feature_learning": -1}, "feature_learning must be at least 0"),
            ({"scale": "log10"}, "scale must be one of"),
            ({"max_iterations": 0}, "max_iterations must be at least 1"),
            ({"n_jobs": 0}, "n_jobs must be a number of threads"),
            ({"bias": 0.0, "scale": "none"}, "has no direction"),
        ],
    )
    def test_bad_ones_are_named(self, parameters, message):
        X = np.vstack([np.zeros(2), np.eye(2), [[1, 2]]])
        with pytest.raises(InvalidInput, match=message):
            ThresherRegressor(**{"width": 64, **parameters}).fit(X, [0.0, 1.0, 2.0, 3.0])

    def test_choices_are_reported_and_can_be_made_by_hand(self, regressor, diabetes):
        X, y, *_ = diabetes
        assert regressor.loo_error_ < 1
        assert (regressor.bias_, regressor.shift_) in {(bias, shift) for bias, shift, *_ in regressor.tried_}
        options = {"shift": 0.3, "bias": 0.7, "ridge": 0.02, "feature_learning": 2, "scale": "rank"}
        fixed = ThresherRegressor(**options, **SMALL).fit(X, y)
        assert {name: getattr(fixed, f"{name}_") for name in options} == options
        assert fixed.lift_.metric is not None
        assert not fixed.columns_weighed_
        weighed = ThresherRegressor(feature_learning="columns", **SMALL).fit(X, y)
        assert weighed.columns_weighed_
        assert weighed.lift_.weights.shape == (10,)

    def test_a_failed_fit_leaves_the_old_model_alone(self, diabetes):
        X, y, others, _ = diabetes
        model = ThresherRegressor(**FIXED).fit(X, y)
        before = model.predict(others)
        with pytest.raises(InvalidInput):
            model.set_params(ridge=-1.0).fit(X, 1e6 * y)
        np.testing.assert_array_equal(model.predict(others), before)

    def test_results_depend_on_the_seed_and_not_on_threads(self, diabetes):
        X, y, others, _ = diabetes
        first, again, other = (
            ThresherRegressor(random_state=seed, n_jobs=jobs, feature_learning=0, width=4096).fit(X, y).predict(others)
            for seed, jobs in ((0, 1), (0, 2), (1, 2))
        )
        np.testing.assert_array_equal(first, again)
        assert not np.array_equal(first, other)

    @pytest.mark.parametrize("sequence", ["random", "hadamard"])
    def test_start_rows_come_from_where_they_were_asked_for(self, diabetes, sequence):
        X, y, *_ = diabetes
        model = ThresherRegressor(start=sequence, **FIXED).fit(X, y)
        assert model.networks_[0].settings.start.sequence == sequence


def test_frames_names_pipelines_and_searches(diabetes):
    X, y, others, _ = diabetes
    names = [f"column{k}" for k in range(X.shape[1])]
    plain = ThresherRegressor(**FIXED).fit(X, y).predict(others)
    for frame in (pd.DataFrame, pl.DataFrame):
        model = ThresherRegressor(**FIXED).fit(frame(dict(zip(names, X.T, strict=True))), y)
        assert list(model.feature_names_in_) == names
        np.testing.assert_allclose(model.predict(frame(dict(zip(names, others.T, strict=True)))), plain)
    chain = make_pipeline(StandardScaler(), ThresherRegressor(feature_learning=0, **SMALL))
    assert cross_val_score(chain, X, y, cv=3).mean() > 0.2
    options = {**FIXED, "ridge": "auto"}
    search = GridSearchCV(ThresherRegressor(**options), {"shift": [0.0, 1.0]}, cv=2).fit(X, y)
    assert search.best_params_["shift"] in (0.0, 1.0)
    assert clone(search.best_estimator_).get_params()["width"] == 128
    lifted = SphereLift().set_output(transform="pandas").fit_transform(pd.DataFrame(X, columns=names))
    assert lifted.shape == (200, 11)


class TestWeights:
    def test_they_are_repetitions(self, diabetes):
        X, y, others, _ = diabetes
        X, y, times = X[:60], y[:60], np.arange(60) % 3
        weighted = ThresherRegressor(**SMALL).fit(X, y, sample_weight=times)
        repeated = ThresherRegressor(**SMALL).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
        for one, other in zip(*(model.predict(others, return_std=True) for model in (weighted, repeated)), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5)
        assert not np.allclose(weighted.predict(others), ThresherRegressor(**SMALL).fit(X, y).predict(others))

    def test_large_ones_do_not_make_a_model_sure(self, diabetes):
        """Rows would be known from their own copies: noise learnt by heart, errors of nothing, no error bars."""
        X, y, others, _ = diabetes
        plain, weighted = (ThresherRegressor(**SMALL).fit(X, y, weight) for weight in (None, np.full(len(X), 100)))
        assert weighted.loo_error_ == pytest.approx(plain.loo_error_)
        np.testing.assert_allclose(weighted.predict(others, return_std=True), plain.predict(others, return_std=True))

    @pytest.mark.parametrize("factor", [1e-9, 0.3])
    def test_only_ratios_of_those_below_one_matter(self, diabetes, factor):
        X, y, others, _ = diabetes
        weights = 0.5 + 0.5 * (np.arange(100) % 2)
        plain, scaled = (
            ThresherRegressor(**SMALL).fit(X[:100], y[:100], times * weights).predict(others, return_std=True)
            for times in (1.0, factor)
        )
        np.testing.assert_allclose(plain, scaled, rtol=1e-4)

    def test_the_order_of_rows_does_not_matter(self, diabetes):
        X, y, others, _ = diabetes
        order = np.random.default_rng(0).permutation(100)
        one, other = (ThresherRegressor(**SMALL).fit(X[:100][some], y[:100][some]) for some in (slice(None), order))
        np.testing.assert_allclose(one.predict(others), other.predict(others), rtol=1e-6)

    @pytest.mark.parametrize("weight", [1e-320, 1e308])
    @pytest.mark.parametrize("kind", [ThresherRegressor, ThresherClassifier])
    def test_those_too_far_apart_are_refused_as_such(self, kind, weight):
        X, weights = np.arange(10.0)[:, None], np.append(np.ones(9), weight)
        with pytest.raises(InvalidInput, match="sample weights must be at most"):
            kind(**SMALL).fit(X, np.arange(10) % 2, sample_weight=weights)

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
    monkeypatch.setattr(budget, "require", lambda taken, **_: asked.append(taken))
    monkeypatch.setattr(intervals, "_fit_variances", lambda *_: np.ones(2))  # takes time, not memory
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(n, 3)), rng.normal(size=(n, outputs))
    model = ThresherRegressor(width=float("inf"), feature_learning=0)
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
    @pytest.mark.parametrize("feature_learning", ["auto", 0, "columns", 1])
    def test_the_column_that_matters_is_found(self, feature_learning):
        X = np.random.default_rng(0).normal(size=(100, 5)) * [1, 100, 1, 0.01, 1]
        options = {"width": 64, "random_state": 0, "feature_learning": feature_learning}
        model = ThresherRegressor(**options).fit(X, np.sin(200 * X[:, 3]) + 0.003 * X[:, 1])
        assert model.feature_importances_.shape == (5,)
        assert model.feature_importances_.sum() == pytest.approx(1)
        assert (model.feature_importances_ >= 0).all()
        np.testing.assert_array_equal(np.argsort(model.feature_importances_)[:2:-1], [3, 1])
        assert model.metric_.shape == (5, 5)

    def test_they_are_those_of_a_classifier_too(self, classifier):
        assert np.argmax(classifier.feature_importances_) in (2, 3)  # petals tell irises apart
        assert classifier.metric_.shape == (4, 4)

    def test_nothing_matters_for_targets_that_do_not_vary(self):
        model = ThresherRegressor(width=64, random_state=0).fit(np.arange(20.0).reshape(10, 2), np.ones(10))
        np.testing.assert_allclose(model.feature_importances_, 0.5)


class Watch(Callback):
    def __init__(self):
        self.progress, self.iterations = [], []

    def on_progress(self, done, total):
        self.progress.append((done, total))

    def on_iteration(self, record):
        self.iterations.append(record.iteration)


class TestProgress:
    @pytest.mark.parametrize("width", [128, float("inf")])
    @pytest.mark.parametrize("kind", [ThresherRegressor, ThresherClassifier])
    def test_it_rises_to_the_whole(self, kind, width, diabetes):
        X, y, *_ = diabetes
        watch, told = Watch(), []
        y = np.digitize(y, [100, 150]) if kind is ThresherClassifier else y
        kind(width=width, callbacks=[watch, told.append]).fit(X[:60], y[:60])
        done = [part for part, _ in watch.progress]
        assert {total for _, total in watch.progress} == {1000}
        assert done[0] == 0
        assert done == sorted(done)
        assert len(set(done)) > 4
        assert done[-1] == 1000
        networks = 0 if width == float("inf") else 3 if kind is ThresherClassifier else 1
        assert watch.iterations.count(0) == networks
        assert [record.iteration for record in told] == watch.iterations
        assert len(watch.iterations) >= 2 * networks

    def test_a_callback_may_stop_the_training(self, diabetes):
        X, y, *_ = diabetes
        options = {**FIXED, "tol": 0.0, "max_iterations": 5}
        stopped = ThresherRegressor(callbacks=[lambda record: record.iteration >= 1], **options).fit(X, y)
        assert stopped.n_iter_ == 1
        assert ThresherRegressor(**options).fit(X, y).n_iter_ > 1

    def test_lines_are_printed_when_asked_for(self, capsys, diabetes):
        X, y, *_ = diabetes
        ThresherRegressor(verbose=1, **SMALL).fit(X[:60], y[:60])
        out, error = capsys.readouterr()
        assert not out
        assert "output 0, iteration 1: residual" in error
        assert "choosing bias and shift" in error
        assert "training" in error
        ThresherRegressor(**FIXED).fit(X[:60], y[:60])
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
