"""Fits of networks: what they have of their limit, what they choose on their own kernel, how they move."""

import warnings

import naive
import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

import thresher
from thresher import MemoryRefused, ThresherRegressor, TooNarrow
from thresher.estimators import options as options_module
from thresher.estimators import processor
from thresher.estimators.models import networks
from thresher.shards.dense import start_gram

SMALL = {"width": 512, "random_state": 0}
FIXED = {"shift": 0.5, "bias": 1.0, "ridge": 0.1, "feature_learning": 0, "parts": "all"}


@pytest.fixture(scope="module")
def narrow(diabetes):
    """A fit whose ridge was chosen, and the kernel of its network by definition."""
    X, y, *_ = diabetes
    model = ThresherRegressor(feature_learning=0, width=128, random_state=0).fit(X[:60], y[:60])
    network = model.networks_[0]
    W, signs = network.settings.start.block(0, 128).astype(float), network.settings.start.signs(np.arange(128))
    return model, y[:60], naive.gram(W, signs, model.inputs_, network.shift)


class TestTheLimit:
    def test_a_wide_network_says_what_its_limit_says(self, diabetes):
        X, y, others, _ = diabetes
        options = FIXED | {"feature_learning": 1}
        limit = ThresherRegressor(width=float("inf"), **options).fit(X, y).predict(others)
        errors = [
            np.abs(ThresherRegressor(width=width, random_state=1, **options).fit(X, y).predict(others) - limit).mean()
            for width in (2**8, 2**12, 2**16)
        ]
        assert errors[2] < errors[1] / 2 < errors[0] / 4
        assert errors[2] < 0.03 * y.std()

    def test_neurons_travel_no_farther_than_they_should(self, regressor):
        moved = regressor.networks_[0].weights.moved
        assert np.sqrt((moved**2).sum(axis=1).mean()) < 1.5 * networks._DRIFT
        assert regressor.gains_[0] > 1


class TestTheirOwnKernel:
    def test_the_ridge_is_the_best_for_it(self, narrow):
        model, y, gram = narrow
        standard = (y - y.mean()) / y.std()
        targets = model.results_[0].steps[0] @ (gram + np.diag(model.penalty_)) * model.gains_[0]
        np.testing.assert_allclose(np.sort(targets), np.sort(standard), atol=1e-6)
        errors, ones = {}, np.ones(60)
        for power in (-1, 0, 1):
            noise = model.penalty_[0] * 10 ** (power / 2)
            outputs, _ = naive.left_out(gram, np.arange(60), targets[:, None], ones, ones, noise)
            errors[power] = ((outputs[:, 0] - targets) ** 2).mean()
        assert min(errors, key=errors.get) == 0
        assert errors[0] == pytest.approx(model.loo_error_, rel=1e-4)

    def test_gains_are_those_of_its_first_step(self, narrow):
        model, _, gram = narrow
        travelled = model.alpha_[:, 0] @ gram @ model.alpha_[:, 0]
        assert model.gains_[0] == pytest.approx(np.sqrt(travelled / 128) / networks._DRIFT, rel=1e-6)

    def test_what_is_chosen_on_some_rows_is_as_noisy_as_the_network(self, monkeypatch):
        asked = []

        def spy(inputs, settings, *, threads):
            asked.append((len(inputs), settings.width))
            return start_gram(inputs, settings, threads=threads)

        monkeypatch.setattr(processor, "start_gram", spy)
        X = np.random.default_rng(0).normal(size=(1024, 3))
        options = {"feature_learning": 0, "scale": "standardise", "target": "linear"}
        model = ThresherRegressor(width=3000, random_state=0, **options).fit(X, np.sin(2 * X[:, 0]))
        *tried, last = asked
        assert set(tried) == {(512, 1500)}
        assert last == (1024, 3000)  # the network itself
        assert len(model.tried_) == len(tried)

    def test_it_has_the_last_word_on_shift(self, diabetes, monkeypatch):
        X, y, *_ = diabetes

        def partial_to_zero(inputs, settings, *, threads):
            gram = start_gram(inputs, settings, threads=threads)
            return gram if settings.shift == 0 else np.eye(len(gram)) * gram.diagonal().mean()

        monkeypatch.setattr(options_module, "SHIFTS", (1.0,))
        assert ThresherRegressor(feature_learning=0, width=float("inf")).fit(X, y).shift_ == 1
        monkeypatch.setattr(processor, "start_gram", partial_to_zero)
        assert ThresherRegressor(feature_learning=0, **SMALL).fit(X, y).shift_ == 0
        assert ThresherRegressor(feature_learning=0, shift=1.0, **SMALL).fit(X, y).shift_ == 1


class TestWhatAReviewFound:
    """Each was wrong once."""

    def test_a_failed_training_leaves_the_old_model(self, diabetes, monkeypatch):
        X, y, others, _ = diabetes
        model = ThresherRegressor(**FIXED, **SMALL).fit(X, y)
        before = model.predict(others)

        def refuse(*_, **__):
            raise MemoryRefused("no room")

        monkeypatch.setattr(networks, "train_penalised", refuse)
        with pytest.raises(MemoryRefused):
            model.fit(X, 1000 * np.exp(y / 50))
        np.testing.assert_array_equal(model.predict(others), before)

    def test_a_start_that_is_the_minimum_is_no_failure(self, diabetes):
        X, y, *_ = diabetes
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            constant = ThresherRegressor(**SMALL).fit(np.ones((50, 3)), y[:50])
        assert constant.results_[0].status == thresher.Status.CONVERGED
        np.testing.assert_allclose(constant.predict(X[:5, :3]), y[:50].mean(), rtol=1e-6)

    def test_a_step_beyond_single_precision_is_not_taken(self, diabetes):
        X, y, *_ = diabetes
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", TooNarrow)
            model = ThresherRegressor(shift=20.0, feature_learning=0, **SMALL).fit(X, y)
        assert model.results_[0].status == thresher.Status.STALLED

    def test_nobody_fires_and_it_is_said(self, diabetes):
        X, y, *_ = diabetes
        with pytest.warns(ConvergenceWarning, match="Lower the shift"):
            model = ThresherRegressor(shift=5.0, feature_learning=0, **SMALL).fit(X[:50], y[:50])
        assert model.results_[0].status == thresher.Status.STALLED

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
        moments = np.column_stack([X, 1.7e18 + np.round(rng.uniform(0, 1e6, 60))])
        assert ThresherRegressor(**SMALL).fit(moments, y).score(moments, y) > 0.5

    def test_many_columns_do_not_take_forever(self, monkeypatch):
        """Features of a wide table are learnt in the span of its rows: no matrix has columns times columns."""
        largest = []

        def spy(matrix):
            largest.append(len(matrix))
            return eigh(matrix)

        eigh = np.linalg.eigh
        monkeypatch.setattr(np.linalg, "eigh", spy)
        X = np.random.default_rng(0).normal(size=(40, 600))
        model = ThresherRegressor(width=64, random_state=0, target="linear", scale="standardise").fit(X, X[:, 0])
        assert max(largest, default=0) <= 40
        assert not model.columns_weighed_

    def test_names_of_columns_are_known_to_error_bars(self, diabetes):
        X, y, *_ = diabetes
        frame = pd.DataFrame(X).add_prefix("c")
        ThresherRegressor(**FIXED, **SMALL).fit(frame, y).predict(frame, return_std=True)  # a warning would be an error
