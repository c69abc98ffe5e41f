"""Monotone columns of additive models: monotone everywhere, unchanged where nothing was against it, kept by files."""

import numpy as np
import pandas as pd
import pytest
from few import of_few
from sklearn.base import clone
from sklearn.isotonic import isotonic_regression

import thresher
from thresher import InvalidInput, ThresherRegressor
from thresher.files import read_file, write_file
from thresher.theory.parts import column_kernel
from thresher.training.result_files import KIND, VERSION

LIMIT = {"bias": 1.0, "shift": 0.0, "ridge": 0.02, "scale": "standardise", "feature_learning": 0, "random_state": 0}
ADDITIVE = {"parts": "columns", "target": "linear", **LIMIT}


def table(n=150, noise=1.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X[:, 2] = np.round(X[:, 2])  # some values come often
    return X, np.tanh(X[:, 0]) + np.sin(2 * X[:, 1]) - 0.5 * X[:, 2] + noise * rng.normal(size=n)


def steps(model, column, rows=1000):
    """Differences of predictions along a column, within and beyond the training values, at several places of others."""
    found = []
    for at in np.random.default_rng(1).normal(size=(5, 3)):
        X = np.tile(at, (rows, 1))
        X[:, column] = np.linspace(-6, 6, rows)
        found.append(np.diff(model.predict(X), axis=0))
    return np.array(found)


class TestShape:
    @pytest.mark.parametrize("direction", [1, -1])
    @pytest.mark.parametrize("sharpness", [1.0, 8.0])
    def test_predictions_are_monotone(self, direction, sharpness):
        X, y = table()
        plain = ThresherRegressor(**{**ADDITIVE, "parts": (0, 1, 0, 0, sharpness)}).fit(X, direction * y)
        assert (direction * steps(plain, 0)).min() < -1e-3
        model = clone(plain).set_params(monotone={0: direction}).fit(X, direction * y)
        assert (direction * steps(model, 0)).min() >= -1e-13
        assert np.ptp(model.predict(X)) > 1.0
        assert (direction * steps(model, 1)).min() < -1e-3  # others need not be

    def test_no_step_goes_back_by_rounding(self):
        """What other columns add must be the same number in all rows, however a product is rounded."""
        rng = np.random.default_rng(2)
        X = rng.normal(size=(300, 3))
        X[:, 2] = rng.integers(0, 6, 300)
        y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + X[:, 2] % 3 + 0.2 * rng.normal(size=300)
        for direction in (1, -1):
            model = ThresherRegressor(monotone={0: direction}, **{**ADDITIVE, "ridge": 1e-4}).fit(X, y)
            assert (direction * steps(model, 0, rows=1001)).min() >= 0
            logs = ThresherRegressor(monotone={0: direction}, **{**ADDITIVE, "ridge": 1e-4, "target": "log"})
            assert (direction * steps(logs.fit(X, np.exp(y)), 0, rows=1001)).min() >= 0

    def test_constant_beyond_the_training_values(self):
        X, y = table()
        model = ThresherRegressor(monotone={0: 1}, **ADDITIVE).fit(X, y)
        rows = np.tile(X[:1], (3, 1))
        rows[:, 0] = [X[:, 0].max(), X[:, 0].max() + 1, 1e6]
        np.testing.assert_allclose(model.predict(rows), model.predict(rows)[0], atol=1e-12)

    def test_straight_between_training_values_of_the_angle(self):
        X, y = table(40)
        model = ThresherRegressor(monotone={0: 1}, **ADDITIVE).fit(X, y)
        (knots,) = [model._monotone.at]
        assert len(knots) == len(np.unique(X[:, 0]))
        middle = (knots[1:] + knots[:-1]) / 2
        angles = np.zeros((len(middle), 3))
        angles[:, 0] = middle
        values = model._monotone.values[:, 0]
        np.testing.assert_allclose(model._monotone.apply(angles)[:, 0, 0], (values[1:] + values[:-1]) / 2)

    def test_several_columns_outputs_and_logarithms(self):
        X, y = table()
        model = ThresherRegressor(monotone={0: 1, 2: -1}, **ADDITIVE).fit(X, np.column_stack([y, 2 * y + X[:, 1]]))
        assert steps(model, 0).min() >= -1e-13
        assert steps(model, 2).max() <= 1e-13
        logs = ThresherRegressor(monotone={0: 1}, **{**ADDITIVE, "target": "log"}).fit(X, np.exp(y))
        assert logs.target_ == "log"
        assert steps(logs, 0).min() >= -1e-12

    def test_all_columns(self):
        X, y = table()
        model = ThresherRegressor(monotone={0: 1, 1: 1, 2: -1}, **ADDITIVE).fit(X, y + 7)
        assert not model.alpha_.any()
        assert steps(model, 1).min() >= 0
        assert model.predict(X).mean() == pytest.approx((y + 7).mean(), abs=1e-3)


class TestFit:
    def test_effects_that_are_monotone_stay_as_they_are(self):
        X, _ = table()
        y = 2 * X[:, 0] - X[:, 2]
        plain = ThresherRegressor(**ADDITIVE).fit(X, y)
        order = np.argsort(X[:, 0])
        assert (np.diff(plain.effects(X).values[order, 0]) > -1e-12).all()
        model = ThresherRegressor(monotone={0: 1}, **ADDITIVE).fit(X, y)
        np.testing.assert_allclose(model.predict(X), plain.predict(X), atol=1e-9 * np.ptp(y))

    def test_each_function_is_what_the_others_leave(self):
        """At the end, others are the fit of targets less the function, and that is the projection of the smooth fit."""
        X, y = table()
        model = ThresherRegressor(monotone={0: 1}, **ADDITIVE).fit(X, y)
        plain = ThresherRegressor(**ADDITIVE).fit(X, y)
        angles, penalty, weights = model.inputs_[:, -3:], model.penalty_, 1 / model.penalty_
        single = model._kernel.diagonal / 3
        kernels = [single * column_kernel(one, one) for one in angles.T]
        targets = sum(kernels) @ plain.alpha_ + penalty[:, None] * plain.alpha_
        function = model._monotone.apply(model.inputs_)[:, 0]
        others = kernels[1] + kernels[2]
        alpha = np.linalg.solve(others + np.diag(penalty), targets - function)
        np.testing.assert_allclose(model.alpha_, alpha, rtol=1e-6, atol=1e-6 * np.abs(alpha).max())
        left = targets - others @ alpha
        smooth = (kernels[0] @ np.linalg.solve(kernels[0] + np.diag(penalty), left))[:, 0]
        order = np.argsort(angles[:, 0])
        expected = isotonic_regression(smooth[order], sample_weight=weights[order], increasing=False)
        mean = np.average(kernels[0] @ plain.alpha_, weights=weights, axis=0)  # which stays
        expected += mean - np.average(expected, weights=weights[order])
        np.testing.assert_allclose(function[order, 0], expected, atol=1e-6)

    def test_a_truth_that_is_monotone_is_learnt_better(self):
        X, y = table(noise=2.0)
        new, truth = table(1000, noise=0.0, seed=1)
        plain, model = (ThresherRegressor(monotone=one, **ADDITIVE).fit(X, y) for one in (None, {0: 1, 2: -1}))
        errors = [np.mean((one.predict(new) - truth) ** 2) for one in (plain, model)]
        assert errors[1] < 0.9 * errors[0]

    def test_weights(self):
        X, y = table()
        weights = np.random.default_rng(0).uniform(0.1, 3, len(y))
        model = ThresherRegressor(monotone={0: 1}, **ADDITIVE).fit(X, y, weights)
        assert steps(model, 0).min() >= -1e-13
        effects = model.effects(X)
        np.testing.assert_allclose(np.average(effects.values, axis=0, weights=weights), 0, atol=1e-12)


class TestUse:
    @pytest.fixture
    def frame(self):
        rng = np.random.default_rng(0)
        X = pd.DataFrame(
            {
                "income": np.where(rng.random(120) < 0.2, np.nan, rng.normal(size=120)),
                "town": rng.choice(["a", "b"], 120),
                "rooms": rng.integers(1, 6, 120),
            }
        )
        return X, X["income"].fillna(2.0).to_numpy() + (X["town"] == "a") + rng.normal(size=120)

    def test_effects_add_up_and_shares_and_explanations_follow(self, frame):
        X, y = frame
        model = ThresherRegressor(monotone={"income": 1, "rooms": -1}, **ADDITIVE).fit(X, y)
        effects = model.effects(X, return_std=True)
        np.testing.assert_allclose(effects.intercept + effects.values.sum(axis=1), model.predict(X), atol=1e-12)
        np.testing.assert_allclose(effects.values.mean(axis=0), 0, atol=1e-12)
        assert (effects.std[:, :3] > 0).all()
        there = X["income"].notna().to_numpy()
        order = np.argsort(X["income"][there])
        assert (np.diff(effects.values[there, 0][order]) >= -1e-13).all()
        np.testing.assert_allclose(model.explain(X).prediction, model.predict(X), atol=1e-12)
        variances = dict(zip(effects.names, effects.values.var(axis=0), strict=True))
        shares = {name: value / sum(variances.values()) for name, value in variances.items()}
        assert model.effect_shares_ == pytest.approx(shares, abs=1e-9)

    def test_intervals_have_the_prediction_as_their_middle(self, frame):
        X, y = frame
        model = ThresherRegressor(monotone={"income": 1}, **ADDITIVE).fit(X, y)
        prediction, deviations = model.predict(X, return_std=True)
        low, high = model.predict_interval(X, 0.9)
        assert ((low < prediction) & (prediction < high)).all()
        assert (deviations > 0).all()

    def test_a_file_keeps_it(self, frame, tmp_path):
        X, y = frame
        model = ThresherRegressor(monotone={"income": 1, 2: -1}, **ADDITIVE).fit(X, y)
        model.save(tmp_path / "model")
        other = thresher.load(tmp_path / "model")
        assert other.monotone == {"income": 1, 2: -1}
        np.testing.assert_array_equal(other.predict(X), model.predict(X))
        np.testing.assert_allclose(other.effects(X).values, model.effects(X).values, atol=1e-13)

    @pytest.mark.parametrize(
        ("name", "change"),
        [
            ("units", lambda one: one - 9),
            ("units", lambda one: one + 1.0),
            ("ends", lambda one: one + 1),
            ("at", lambda one: one[::-1].copy()),
            ("values", lambda one: one * np.nan),
            ("values", lambda one: one[:-1]),
        ],
    )
    def test_a_file_that_lies_is_refused(self, frame, tmp_path, name, change):
        ThresherRegressor(monotone={"income": 1, 2: -1}, **ADDITIVE).fit(*frame).save(tmp_path / "model")
        stored = read_file(tmp_path / "model", kind=KIND, version=VERSION)
        tensors = {**stored.tensors, f"monotone.{name}": change(stored.tensors[f"monotone.{name}"])}
        write_file(tmp_path / "bad", tensors, stored.metadata, kind=KIND, version=VERSION)
        with pytest.raises(InvalidInput, match="monotone columns"):
            thresher.load(tmp_path / "bad")

    def test_another_fit_forgets_it(self, frame):
        X, y = frame
        model = ThresherRegressor(monotone={"income": 1}, **ADDITIVE).fit(X, y)
        again = model.set_params(monotone=None).fit(X, y)
        np.testing.assert_allclose(again.predict(X), ThresherRegressor(**ADDITIVE).fit(X, y).predict(X))


class TestRefusals:
    @pytest.mark.parametrize(
        ("monotone", "more", "said"),
        [
            ({0: 2}, {}, "1 or -1"),
            ([0], {}, "must be a dict"),
            ({0: 1}, {"parts": "pairs"}, "parts='columns'"),
            ({0: 1}, {"parts": "auto"}, "parts='columns'"),
            ({7: 1}, {}, "There are 3 columns"),
            ({"incme": 1}, {}, "not a column of X"),
        ],
    )
    def test_what_cannot_be(self, monotone, more, said):
        with pytest.raises(InvalidInput, match=said):
            ThresherRegressor(monotone=monotone, **{**ADDITIVE, **more}).fit(*table(30))

    def test_columns_that_are_no_numbers(self):
        X = pd.DataFrame({"town": ["a", "b"] * 15, "size": np.arange(30.0)})
        with pytest.raises(InvalidInput, match="no column of numbers"):
            ThresherRegressor(monotone={"town": 1}, **ADDITIVE).fit(X, X["size"])
        model = ThresherRegressor(monotone={"size": 1}, **ADDITIVE).fit(X.assign(same=1.0), X["size"])
        assert model._monotone is not None

    def test_many_rows(self):
        with pytest.raises(InvalidInput, match="up to 300 distinct rows"):
            of_few(ThresherRegressor(monotone={0: 1}, **ADDITIVE)).fit(*table(400))
