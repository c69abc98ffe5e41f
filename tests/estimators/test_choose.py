"""Choosing a kernel, and learning features, against their definitions."""

import naive
import numpy as np
import pytest
from few import of_few
from sklearn.base import clone

from thresher import ThresherClassifier, ThresherRegressor, to_sphere
from thresher.estimators.choose import choose_bias
from thresher.estimators.data.lift import lift_rows, typical_norm
from thresher.estimators.data.observations import Observations
from thresher.estimators.gradients import (
    limit_gradients,
    mix_outputs,
    next_metric,
    outer_product,
    row_gradients,
    sum_outer_products,
)
from thresher.estimators.kernel import SphereKernel
from thresher.estimators.leave_one_out import fit_kernel, leave_one_out
from thresher.estimators.metric import POWER, learn_metric
from thresher.estimators.processor import ArrayKernel, Cpu
from thresher.theory import Shares, cofiring_probability, firing_probability, limit_kernel, limit_slopes

CPU, KERNEL = Cpu(1), SphereKernel(1.0, 0.5)
PLAIN = {"columns": 0, "shares": (Shares(),), "guess": 1e-2, "one_fold": False, "backend": CPU}


@pytest.mark.parametrize("shift", [0.0, 0.01, 0.5, 2.0])
def test_interpolated_kernel_and_its_slope(shift):
    rho = np.concatenate([np.linspace(-1, 1, 4001), 1 - np.logspace(-15, -3, 50), np.logspace(-15, -3, 50) - 1])
    kernel = limit_kernel(rho[None], shift, symmetric=False)[0]
    np.testing.assert_allclose(kernel, rho * cofiring_probability(rho, shift), atol=1e-12 * firing_probability(shift))
    inside = rho[np.abs(rho) < 0.99][:, None]
    step = 1e-5
    ahead, behind = (limit_kernel(inside + sign * step, shift, symmetric=False) for sign in (1, -1))
    again, slope = limit_slopes(inside, shift, symmetric=False)
    np.testing.assert_array_equal(again, limit_kernel(inside, shift, symmetric=False))
    np.testing.assert_allclose(slope, (ahead - behind) / (2 * step), atol=1e-5)
    assert not limit_slopes(np.array([[1.0, -1.0]]), shift, symmetric=False)[1].any()


def test_the_best_ridge_is_a_minimum():
    rng = np.random.default_rng(1)
    X = to_sphere(rng.normal(size=(60, 5)))
    data = Observations.merged(X, X[:, :1] ** 2 + 0.1 * rng.normal(size=(60, 1)))
    K, asked = CPU.dense(KERNEL, data.X), {"diagonal": firing_probability(0.5), "last": 60}
    errors = {power: leave_one_out(K, data, ridge=10 ** (power / 2), **asked).error for power in range(-16, 5)}
    for guess in (1e-8, 1e-2, 10.0):
        fit = fit_kernel(K, data, ridge=None, guess=guess, **asked)
        assert fit.error == pytest.approx(min(errors.values()))
    fixed = fit_kernel(K, data, ridge=0.5, **asked)
    assert fixed.ridge == 0.5
    np.testing.assert_allclose(K.solve(KERNEL.penalty(0.5, data.weights), data.targets), fixed.alpha)
    assert ArrayKernel(-K.dense()).solve(KERNEL.penalty(1e-6, data.weights), data.targets) is None


@pytest.fixture
def waves():
    rows = np.random.default_rng(2).normal(size=(50, 3))
    return Observations.merged(rows, np.sin(rows[:, :1]))


def test_the_bias_of_the_least_error_is_taken(waves):
    choice = choose_bias(waves, KERNEL, (1.0, 0.5, 2.0), ridge=None, guess=1e-2, backend=CPU)
    assert [*choice.errors] == [1.0, 0.5, 2.0]
    assert choice.error == min(choice.errors.values()) == choice.errors[choice.kernel.bias]
    fixed = choose_bias(waves, KERNEL, [2.0], ridge=0.1, guess=1e-2, backend=CPU)
    assert fixed[:2] == (KERNEL._replace(bias=2.0), 0.1)


@pytest.mark.parametrize("ridge", [0.03, 1.0])
def test_errors_of_biases_are_those_of_refits_without_each_observation(ridge):
    data = crowded(seed=3)
    choice = choose_bias(data, KERNEL, (1.0, 0.3), ridge=ridge, guess=1e-2, backend=CPU)
    for bias, error in choice.errors.items():
        inputs = naive.lifted(data.X, bias * typical_norm(data.X, data.weights))
        K = naive.limit_kernel(inputs, inputs, 0.5)
        said, _ = naive.left_out(K, data.row, data.target, data.unit, data.unit, ridge * K[0, 0])
        expected = data.weight @ ((said - data.target) ** 2).sum(axis=1) / data.weight.sum()
        assert error == pytest.approx(expected, rel=1e-6)


def crowded(seed, observations=30, outputs=1):
    """Rows of which some come several times, with targets of their own, and weights that differ."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(20, 3))[rng.integers(20, size=observations)]
    targets = np.sin(rows[:, :1]) + rng.normal(size=(observations, outputs))
    return Observations.merged(rows, targets, weights=rng.choice([0.2, 1.3, 2.9], observations))


def slopes_of(inputs):
    return limit_slopes(inputs @ inputs.T, 0.5)[1]


def test_gradients_of_the_limit():
    rng = np.random.default_rng(3)
    X, alpha = to_sphere(rng.normal(size=(12, 4))), rng.normal(size=(12, 2))
    step = 1e-6
    for output, found in enumerate(limit_gradients(X, alpha, slopes_of(X))):
        for i in range(12):
            others = np.arange(12) != i  # the kernel bends at its own input
            for k in range(4):
                moves = np.array([X[i] + sign * step * np.eye(4)[k] for sign in (1, -1)])
                ahead, behind = limit_kernel(moves @ X[others].T, 0.5, symmetric=False) @ alpha[others, output]
                assert found[i, k] == pytest.approx((ahead - behind) / (2 * step), abs=1e-5)


def test_gradients_by_rows_are_those_through_the_lift():
    rng = np.random.default_rng(4)
    rows, metric, alpha, step = rng.normal(size=(9, 3)), rng.normal(size=(3, 2)), rng.normal(size=(9, 1)), 1e-6
    inputs, norms = lift_rows(rows @ metric, 1.5)
    gradients = limit_gradients(inputs, alpha, slopes_of(inputs))
    found = next(row_gradients(gradients, inputs=inputs, norms=norms, columns=2)) @ metric.T
    for i in range(9):
        others = np.arange(9) != i
        for k in range(3):
            moves = np.array([rows[i] + sign * step * np.eye(3)[k] for sign in (1, -1)])
            lifted, _ = lift_rows(moves @ metric, 1.5)
            ahead, behind = limit_kernel(lifted @ inputs[others].T, 0.5, symmetric=False) @ alpha[others, 0]
            assert found[i, k] == pytest.approx((ahead - behind) / (2 * step), abs=1e-5)


@pytest.mark.parametrize(("outputs", "columns"), [(1, 3), (40, 3), (12, 2)])  # one by one, all at once, before a metric
def test_outer_products_are_those_of_the_gradients(outputs, columns):
    rng = np.random.default_rng(outputs)
    rows, alpha, weights = rng.normal(size=(20, 3)), rng.normal(size=(20, outputs)), rng.uniform(0.1, 2.0, 20)
    inputs, norms = lift_rows(rows, 1.5)
    products, slopes, expected = inputs @ inputs.T, slopes_of(inputs), np.zeros((columns, columns))
    gradients = limit_gradients(inputs, alpha, slopes)
    for one in row_gradients(gradients, inputs=inputs, norms=norms, columns=columns):
        expected += sum(weight * np.outer(row, row) for weight, row in zip(weights, one, strict=True))
    found = sum_outer_products(
        inputs, alpha, products=products, slopes=slopes, scale=weights / norms**2, columns=columns
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def metric_after_a_round(inputs, norms, alpha, *, power, metric):
    gradients = limit_gradients(inputs, alpha, slopes_of(inputs))
    by_row = row_gradients(gradients, inputs=inputs, norms=norms, columns=len(metric))
    inner = outer_product(by_row, weights=np.ones(len(inputs)))
    return next_metric(metric @ inner @ metric.T, metric=metric, power=power)


def test_the_metric_finds_the_direction_that_matters():
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(200, 6))
    data = Observations.merged(rows, np.sin(2 * rows[:, :1]))
    learnt = learn_metric(data, KERNEL, ridge=None, rounds=None, judged=True, **PLAIN)
    assert learnt.rounds >= 1
    assert learnt.errors[learnt.rounds] < 1.01 * min(learnt.errors)  # one more round must gain a hundredth
    assert min(learnt.errors) < 0.7 * learnt.errors[0]
    assert len(learnt.errors) - learnt.rounds <= 2  # it ends with a round that gains nothing
    for metric in (
        learnt.kernel.metric,
        learn_metric(data, KERNEL, ridge=None, rounds=1, judged=False, **PLAIN).kernel.metric,
    ):
        assert (metric**2).sum() == pytest.approx(6)
        assert metric[0, 0] > 1.5 * np.diag(metric)[1:].max()


def test_rounds_that_were_asked_for_are_made_whether_they_are_judged_or_not():
    data = Observations.merged(np.random.default_rng(0).normal(size=(60, 3)), np.ones((60, 1)) * np.arange(60)[:, None])
    shares = {**PLAIN, "shares": (Shares(), Shares.of_columns(0.5)), "columns": 1}
    data = data.with_rows(np.hstack([data.X, np.arctan2(1.0, data.X[:, :1])]))
    for rounds in (1, 2):
        made = [learn_metric(data, KERNEL, ridge=None, rounds=rounds, judged=one, **shares) for one in (True, False)]
        assert [one.rounds for one in made] == [rounds, rounds]
        np.testing.assert_array_equal(made[0].kernel.metric, made[1].kernel.metric)
        assert set(made[0].by_shares) == set(shares["shares"])
        assert not made[1].by_shares


@pytest.mark.parametrize(("bias", "ridge"), [(1.0, 0.03), (0.5, 1.0)])
def test_errors_of_rounds_are_those_of_the_folds(bias, ridge):
    """Cross-validation by hand: each fold is asked of a fit to the others, with its own metric."""
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(25, 3))[rng.integers(25, size=60)]
    targets = np.sin(rows[:, :1]) + rng.normal(size=(60, 1))
    data = Observations.merged(rows, targets, weights=rng.choice([0.2, 1.0, 3.0], 60))
    learnt = learn_metric(data, SphereKernel(bias, 0.5), ridge=ridge, rounds=2, judged=True, **PLAIN)
    squares, metrics = np.zeros(3), [np.eye(3)] * 4
    for place in range(3):
        for fold, (kept, held) in enumerate(data.folds(4)):
            last = bias * typical_norm(kept.X @ metrics[fold], kept.weights)
            (inputs, norms), (others, _) = (lift_rows(one @ metrics[fold], last) for one in (kept.X, held.X[held.row]))
            noise = ridge * firing_probability(0.5) / kept.weights
            alpha = np.linalg.solve(limit_kernel(inputs @ inputs.T, 0.5) + np.diag(noise), kept.targets)
            outputs = limit_kernel(others @ inputs.T, 0.5, symmetric=False) @ alpha
            squares[place] += held.weight @ (outputs - held.target)[:, 0] ** 2
            by_row = row_gradients(
                limit_gradients(inputs, alpha, slopes_of(inputs)), inputs=inputs, norms=norms, columns=3
            )
            outer = outer_product(by_row, weights=kept.weights)
            metrics[fold] = next_metric(metrics[fold] @ outer @ metrics[fold].T, metric=metrics[fold], power=POWER)
    assert learnt.errors == pytest.approx(squares / data.weight.sum(), rel=1e-5)


def test_sums_of_outputs_lead_to_nearly_the_same_metric():
    rng = np.random.default_rng(7)
    rows = rng.normal(size=(150, 4)) * [3.0, 1.0, 1.0, 0.3]
    inputs, norms = lift_rows(rows, 2.0)
    alpha = rng.normal(size=(150, 60))
    np.testing.assert_array_equal(mix_outputs(alpha[:, :16]), alpha[:, :16])
    assert mix_outputs(alpha).shape == (150, 16)
    one, other = (
        metric_after_a_round(inputs, norms, some, power=0.25, metric=np.eye(4)) for some in (alpha, mix_outputs(alpha))
    )
    np.testing.assert_allclose(other, one, atol=0.2)


def test_noise_is_not_learnt():
    rows = np.random.default_rng(6).normal(size=(80, 5))
    np.testing.assert_array_equal(next_metric(np.zeros((5, 5)), metric=np.eye(5), power=0.25), np.eye(5))
    nothing = Observations.merged(rows, np.zeros((80, 1)))
    learnt = learn_metric(nothing, KERNEL, ridge=None, rounds=None, judged=True, **PLAIN)
    assert learnt.rounds == 0
    assert learnt.kernel == KERNEL


class TestOrder:
    """Rows are a set: neither choices nor the model depend on their order."""

    @staticmethod
    def tables():
        rng = np.random.default_rng(0)
        X = np.column_stack([rng.normal(size=(400, 2)), rng.integers(0, 6, size=400), rng.exponential(size=400)])
        y = np.exp(np.sin(2 * X[:, 0]) + X[:, 1] * (X[:, 2] % 2) + 0.3 * rng.normal(size=400))
        return X, y, rng.integers(1, 4, size=400).astype(float)

    @pytest.mark.parametrize("options", [{}, {"loss": "huber"}, {"loss": "quantile"}, {"loss": "poisson"}], ids=str)
    @pytest.mark.parametrize("way", ["few", "exact", "centres"])
    def test_a_regressor_does_not_depend_on_it(self, way, options):
        X, y, weights = self.tables()
        order = np.random.default_rng(1).permutation(400)
        model = ThresherRegressor(**options, approximation="centres" if way == "centres" else "auto")
        model = model if way == "few" else of_few(model, chosen_on=200, held=60, bias_rows=100)
        self.check(model, X, y, weights, order, lambda one: one.predict(X))

    @pytest.mark.parametrize("way", ["few", "exact"])
    def test_a_classifier_does_not_depend_on_it(self, way):
        X, y, weights = self.tables()
        order = np.random.default_rng(1).permutation(400)
        model = ThresherClassifier() if way == "few" else of_few(ThresherClassifier(), chosen_on=200, held=60)
        self.check(model, X, np.digitize(y, [0.5, 2.0]), weights, order, lambda one: one.predict_proba(X))

    def check(self, model, X, y, weights, order, predict):
        one = model.fit(X, y, weights)
        before, said, told = one.choices_, predict(one), one.model_.inputs
        other = model.fit(X[order], y[order], weights[order])
        assert [(choice.name, choice.taken) for choice in other.choices_] == [
            (choice.name, choice.taken) for choice in before
        ]
        for choice, same in zip(before, other.choices_, strict=True):
            assert choice.tried == pytest.approx(same.tried, rel=1e-4)
        np.testing.assert_allclose(other.model_.inputs, told, atol=1e-5)  # metrics are learnt in single precision
        np.testing.assert_allclose(predict(other), said, rtol=1e-3, atol=1e-3 * np.std(said))


class TestShareOfAGuess:
    """The error on rows left out means the same for every kind of target: 1 is what their mean as a guess gets."""

    OPTIONS = {"bias": 1.0, "feature_learning": 0}  # noqa: RUF012

    @pytest.mark.parametrize(
        "kind", ["one target", "three targets", "two classes", "rare class", "four classes", "labels"]
    )
    def test_a_model_that_learns_nothing_has_the_error_of_a_guess(self, kind):
        rng = np.random.default_rng(0)
        X, chance = rng.normal(size=(80, 3)), rng.uniform(size=80)
        y = {
            "one target": chance, "three targets": np.column_stack([chance, 1e5 * chance[::-1], rng.normal(size=80)]),
            "two classes": chance < 0.5, "rare class": chance < 0.1, "four classes": (4 * chance).astype(int),
            "labels": (np.column_stack([chance, chance[::-1]]) < 0.3).astype(int),
        }[kind]  # fmt: skip
        estimator = ThresherRegressor if "target" in kind else ThresherClassifier
        model = estimator(ridge=1e4, **self.OPTIONS).fit(X, y)
        assert model.loo_share_ == pytest.approx(1.0, rel=0.05)

    @pytest.mark.parametrize("target", [None, "log"])
    def test_it_is_1_less_r2_in_units_of_the_target(self, target):
        rng = np.random.default_rng(1)
        X = rng.normal(size=(40, 2))
        y = np.exp(2 * X[:, 0] + 0.3 * rng.normal(size=40))
        made = ThresherRegressor(ridge=0.1, target_transform=target, **self.OPTIONS)
        predicted = [clone(made).fit(np.delete(X, k, 0), np.delete(y, k)).predict(X[[k]])[0] for k in range(40)]
        expected = np.sum((y - predicted) ** 2) / np.sum((y - y.mean()) ** 2)
        assert made.fit(X, y).loo_share_ == pytest.approx(expected, rel=0.25)  # scales are those of all rows
