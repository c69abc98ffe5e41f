"""Fits with a kernel of parts: judges, ways to fit many rows, error bars, targets, files of fits in progress."""

from dataclasses import replace

import naive
import numpy as np
import pytest
from few import of_few, with_parts
from parted import SHARES, Parted

from thresher import ThresherClassifier, ThresherRegressor
from thresher.errors import InvalidInput
from thresher.estimators import fit as fitting
from thresher.estimators.data.observations import Observations
from thresher.estimators.leave_one_out import leave_one_out
from thresher.estimators.metric import _Fold
from thresher.estimators.model import KernelModel
from thresher.estimators.processor import Cpu
from thresher.estimators.variance import Variance
from thresher.theory import Shares

FIXED = {"random_state": 0, "feature_learning": 0, "bias": 1.0, "target_transform": None, "n_jobs": 1}
MIXED = (0.4, 0.2, 0.2, 0.2)
BEYOND = {"exact": 300, "leaf": 120, "leaves_judged": 40, "centres": 100, "more_centres": 150}


def table(n, seed=0, noise=0.1):
    """A sum of functions of single columns, one of them whole numbers that are names."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(n, 3)), rng.integers(0, 5, size=n)])
    y = np.sin(2 * X[:, 0]) + np.abs(X[:, 1]) + np.array([0.0, 2.0, -1.0, 1.0, -2.0])[X[:, 3].astype(int)]
    return X, y + noise * rng.normal(size=n)


def regressor(**more):
    return with_parts(ThresherRegressor(**{**FIXED, **more}), MIXED)


def parted_observations(n, seed=0):
    one, rng = Parted.drawn(n, seed), np.random.default_rng(seed + 50)
    rows, targets = rng.normal(size=(n, 4)), rng.normal(size=(n, 2))
    twice = np.r_[np.arange(n), np.arange(0, n, 5)]  # some are observed twice
    weights = rng.uniform(0.5, 2.0, size=len(twice))
    return one, Observations.merged(
        np.hstack([rows, one.inputs[:, 4:]])[twice], targets[twice] + 0.1 * rng.normal(size=(len(twice), 2)),
        weights=weights,
    )  # fmt: skip


@pytest.mark.parametrize("shares", SHARES)
@pytest.mark.parametrize("metric", [None, np.diag([1.5, 1.0, 0.3, 0.5]) + 0.1])
def test_judges_leave_out_what_they_say(shares, metric):
    one, data = parted_observations(30)
    kernel = one.kernel(shares)._replace(metric=metric)
    vectors, angles = data.X[:, :4], data.X[:, 4:]
    turned = vectors if metric is None else vectors @ metric

    def defined(rows, others, weights):
        last = kernel.bias * np.sqrt(np.average((turned[others] ** 2).sum(axis=1), weights=weights))
        cells = np.where(one.categories, angles / 4 - 1, 1 / np.tan(angles))
        left, right = (Parted(naive.lifted(turned[k], last), cells[k], one.categories) for k in (rows, others))
        return left.defined(right, shares)

    everything = np.arange(len(data))
    K = defined(everything, everything, data.weights)
    dense = Cpu(1).dense(kernel, kernel.lift(data.X, data.weights).inputs)
    fit = leave_one_out(dense, data, ridge=0.5, diagonal=kernel.diagonal, last=len(data))
    expected = naive.left_out(K, data.row, data.target, data.weight, data.unit, 0.5 * kernel.diagonal)
    np.testing.assert_allclose(fit.left_out(data), expected[0], atol=1e-5)
    np.testing.assert_allclose(fit.left_out_variance(data), expected[1], atol=1e-6)
    kept, held = everything[8:], data.at(everything[:8])
    fold = _Fold(data.at(kept), held, len(one.categories), Cpu(1))
    weights = data.weights[kept]
    alpha = naive.kernel_ridge(defined(kept, kept, weights), data.targets[kept], weights, 0.5 * kernel.diagonal)
    away = (defined(everything[:8], kept, weights) @ alpha)[held.row] - held.target
    found = fold.errors(kernel._replace(parts=None), shares, 0.5)
    np.testing.assert_allclose(found, (away**2).sum(axis=1), atol=1e-5)


def predicted(model, X, rows, y, weights=None):
    """What ridge regression on the kernel of a model says, solved anew in double precision, in units of the targets."""
    inputs, others = model.model_.lift.transform(rows), model.model_.lift.transform(X)
    kernel, law = model.model_.kernel, model.predictive_
    K = Cpu(1).dense(kernel, np.vstack([inputs, others])).dense()
    n = len(rows)
    weights = np.ones(n) if weights is None else weights / weights.mean()
    targets = (y.reshape(n, -1) - law.mean) / law.unit
    alpha = naive.kernel_ridge(K[:n, :n], targets, weights, model.ridge_ * kernel.diagonal)
    return (K[n:, :n] @ alpha) * law.unit + law.mean


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_fit_is_the_ridge_solution(many, outputs, weighted):
    X, y = table(400)
    Y = np.column_stack([y, X[:, 0] * X[:, 1]])[:, :outputs]
    weights = np.random.default_rng(0).uniform(0.5, 2.0, size=400) if weighted else None
    # With a small ridge the steps for many rows stop where errors on rows left out do, before the solution.
    model = (of_few(regressor(ridge=2.0)) if many else regressor()).fit(X, Y, sample_weight=weights)
    assert model.parts_ == Shares(*MIXED) and (model.model_.inputs.dtype == np.float32) == many
    new = table(50, seed=1)[0]
    found = model.predict(new).reshape(50, -1)
    expected = predicted(model, new, X, Y, weights)
    np.testing.assert_allclose(found, expected, atol=(0.03 if many else 1e-6) * y.std())


WAYS = {"few": {}, "exact": {}, "centres": BEYOND, "leaves": BEYOND}


def fitted(way, X, y, **more):
    model = regressor(**({} if way == "few" else {"approximation": way}), **more)
    return (model if way == "few" else of_few(model, **WAYS[way])).fit(X, y)


@pytest.fixture(scope="module", params=WAYS)
def way(request):
    X, y = table(700)
    return request.param, fitted(request.param, X, y)


class TestEveryWay:
    def test_it_learns_sums_of_columns(self, way):
        name, model = way
        X, y = table(300, seed=1)
        assert model.model_.way == ("exact" if name == "few" else name)
        assert np.mean((model.predict(X) - y) ** 2) < 0.12 * y.var()

    def test_error_bars_hold_what_they_promise(self, way):
        _, model = way
        X, y = table(500, seed=2)
        mean, deviation = model.predict(X, return_std=True)
        inside = np.abs(y - mean) < 1.96 * deviation
        assert 0.88 < inside.mean() <= 1.0
        far = X[:5].copy()
        far[:, :3] += 40
        assert model.predict(far, return_std=True)[1].mean() > 1.5 * np.median(deviation)

    def test_files_and_pickles_predict_the_same(self, way, tmp_path):
        import pickle

        import thresher

        _, model = way
        X = table(60, seed=3)[0]
        X[0, 3] = 99  # a whole number that no row had
        model.save(tmp_path / "model")
        for other in (thresher.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
            np.testing.assert_array_equal(other.predict(X), model.predict(X))
            np.testing.assert_allclose(*(one.predict(X, return_std=True)[1] for one in (other, model)), rtol=1e-6)
            assert (other.parts_, other.choices_) == (model.parts_, model.choices_)

    def test_threads_do_not_count(self, way):
        name, model = way
        X, y = table(700)
        other = fitted(name, X, y, n_jobs=2)
        np.testing.assert_allclose(other.predict(X[:40]), model.predict(X[:40]), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("many", [False, True])
def test_the_order_of_rows_does_not_count(many):
    X, y = table(400)
    order = np.random.default_rng(1).permutation(400)
    models = [regressor(ridge=0.01) for _ in range(2)]
    one, other = (of_few(model) if many else model for model in models)
    found = one.fit(X, y).predict(X[:30]), other.fit(X[order], y[order]).predict(X[:30])
    np.testing.assert_allclose(*found, atol=(0.02 if many else 1e-6) * y.std())


@pytest.mark.parametrize("suffix", [".npy", "memmap"])
@pytest.mark.parametrize("size", [500, 250])
def test_rows_on_disk(tmp_path, suffix, size):
    """Those that are read in blocks, and those that are few enough for the memory."""
    X, y = table(500)
    np.save(tmp_path / "rows.npy", X)
    rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    if suffix == "memmap":
        rows = np.memmap(tmp_path / "raw", dtype=np.float64, mode="w+", shape=X.shape)
        rows[:] = X
    sizes = {**BEYOND, "exact": size}
    kept, here = (of_few(regressor(approximation="centres"), **sizes).fit(one, y) for one in (rows, X))
    assert kept.parts_ == here.parts_ == Shares(*MIXED)
    np.testing.assert_allclose(kept.predict(rows[:40]), here.predict(X[:40]), atol=1e-5 * y.std())


def test_logarithms_labels_and_several_of_them():
    X, y = table(200)
    model = ThresherRegressor(**{**FIXED, "target_transform": "log"}, parts="pairs").fit(X, np.exp(y))
    assert model.predictive_.floor is not None and model.parts_ == Shares(0.0, 0.5, 0.5)
    new, truth = table(200, seed=1)
    assert np.corrcoef(np.log(model.predict(new)), truth)[0, 1] > 0.95
    labels = np.digitize(y, [-0.5, 1.5])
    told = {"random_state": 0, "feature_learning": 0, "parts": "pairs"}
    classifier = ThresherClassifier(**told).fit(X, labels)
    assert classifier.score(new, np.digitize(truth, [-0.5, 1.5])) > 0.8
    several = ThresherClassifier(**told).fit(X, np.column_stack([y > 0, X[:, 0] > 0]).astype(int))
    assert several.score(new, np.column_stack([truth > 0, new[:, 0] > 0]).astype(int)) > 0.75


@pytest.mark.parametrize("break_it", ["angles", "shares", "alpha"])
@pytest.mark.parametrize("many", [False, True])
def test_a_fit_that_predicts_something_else_is_refused(monkeypatch, break_it, many):
    """What the check asks goes through the lift and the kernel of parts, as new rows do."""
    X, y = table(400)
    real = KernelModel.of

    def broken(lift, kernel, found):
        model = real(lift, kernel, found)
        if break_it == "angles":
            lift.angles_ = replace(lift.angles_, numbers=lift.angles_.numbers[::-1].copy())
        elif break_it == "shares":
            parts = model.kernel.parts._replace(shares=Shares(0.0, 0.0, 1.0))
            model = model._replace(kernel=model.kernel._replace(parts=parts))
        else:
            model = model._replace(alpha=model.alpha[::-1])
        return model

    monkeypatch.setattr(fitting.KernelModel, "of", broken)
    model = of_few(regressor()) if many else regressor()
    with pytest.raises(InvalidInput, match="the fit does not answer as its solve promised"):
        model.fit(X, y)
    assert not hasattr(model, "model_")


@pytest.mark.parametrize("shares", SHARES)
def test_what_pivots_know(shares):
    """With all rows as pivots, what is known through them is what is known through all rows."""
    one, other = Parted.drawn(60), Parted.drawn(10, 1)
    kernel, penalty = one.kernel(shares), np.full(60, 0.05)
    whole = Variance.exact(one.inputs, penalty, kernel, Cpu(1)).at(other.inputs)
    pivots = Variance.of_pivots(one.inputs, kernel).with_rows(one.inputs, penalty).at(other.inputs)
    np.testing.assert_allclose(pivots, whole, atol=2e-3 * kernel.diagonal)
    K, C = one.defined(one, shares), other.defined(one, shares)
    known = np.einsum("ij,ji->i", C, np.linalg.solve(K + np.diag(penalty), C.T))
    np.testing.assert_allclose(whole, kernel.diagonal - known, atol=1e-6)


@pytest.mark.parametrize("many", [False, True])
def test_whole_weights_are_rows_seen_several_times(many):
    X, y = table(400)
    weights = np.random.default_rng(0).integers(0, 4, size=400)
    models = [of_few(regressor(ridge=0.1), chosen_on=200) if many else regressor(ridge=0.1) for _ in range(2)]
    one = models[0].fit(X, y, sample_weight=weights)
    other = models[1].fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    assert len(one.model_.inputs) == len(other.model_.inputs) == np.count_nonzero(weights)
    np.testing.assert_allclose(one.predict(X[:40]), other.predict(X[:40]), atol=(0.03 if many else 1e-5) * y.std())
