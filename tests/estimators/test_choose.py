"""Choosing a kernel, and learning features, against their definitions."""

import numpy as np
import pytest
from sklearn.base import clone

from thresher import ThresherClassifier, ThresherRegressor, to_sphere
from thresher.estimators.data.lift import lift_rows, typical_norm
from thresher.estimators.data.observations import Observations
from thresher.estimators.judging.leave_one_out import LeaveOneOut, fit_kernel, leave_one_out
from thresher.estimators.judging.search import search
from thresher.estimators.kernels.gradients import (
    MILD,
    limit_gradients,
    mix_outputs,
    next_metric,
    outer_product,
    row_gradients,
    sum_outer_products,
)
from thresher.estimators.kernels.kernel import SphereKernel
from thresher.estimators.options import Plan
from thresher.estimators.pipeline.plans import STRONG, choose_plan
from thresher.estimators.processor import ArrayKernel, Cpu
from thresher.theory import cofiring_probability, firing_probability, limit_kernel, limit_slopes

CPU, KERNEL = Cpu(1), SphereKernel(1.0, 0.5)


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


def test_choice_is_the_least_of_what_was_tried(waves):
    judge = LeaveOneOut(waves, CPU)
    choice = search(judge, KERNEL, biases=(1.0, 0.5), shifts=(0.5, 0.0, 1.0), ridge=None, guess=1e-2)
    assert len(choice.tried) == 4
    assert choice.error == min(error for *_, error in choice.tried)
    assert (choice.kernel.bias, choice.kernel.shift, choice.ridge, choice.error) in choice.tried
    fixed = search(judge, KERNEL, biases=[2.0], shifts=[0.3], ridge=0.1, guess=1e-2)
    assert fixed[:2] == (SphereKernel(2.0, 0.3), 0.1)


def test_a_favourite_keeps_its_place_unless_another_is_clearly_better(waves):
    lists = {"biases": (1.0, 0.5, 2.0), "shifts": (0.5, 0.0, 1.0), "ridge": None, "guess": 1e-2}
    plain = search(LeaveOneOut(waves, CPU), KERNEL, **lists)
    worst = max(plain.tried, key=lambda one: one.error)
    assert plain.error < 0.99 * worst.error
    favourite = SphereKernel(worst.bias, worst.shift)
    over = search(LeaveOneOut(waves, CPU), KERNEL, **lists, favourite=favourite)
    assert over.tried[0][:2] == worst[:2]
    assert over.kernel != favourite

    class Alike(Cpu):
        def dense(self, kernel, inputs, *, gradients=False):  # kernels that hardly differ, others a little better
            known = 1e-4 * (kernel != favourite) * waves.targets @ waves.targets.T
            return ArrayKernel(kernel.diagonal * (np.eye(50) + known))

    kept = search(LeaveOneOut(waves, Alike(1)), KERNEL, **lists, favourite=favourite)
    assert 0.99 * kept.error < min(one.error for one in kept.tried) < kept.error
    assert kept.kernel == favourite


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
    learning = choose_plan(data, KERNEL, ridge=None, guess=1e-2, columns=False, backend=CPU)
    assert learning.plan.rounds >= 1
    assert not learning.plan.columns
    errors = learning.errors[learning.plan.name]
    assert errors[learning.plan.rounds] == min(map(min, learning.errors.values())) < 0.7 * errors[0]
    assert learning.error == min(errors)
    inputs, norms = lift_rows(data.X, 2.0)
    fit = fit_kernel(CPU.dense(KERNEL, inputs), data, diagonal=KERNEL.diagonal, ridge=None, last=200)
    metric = metric_after_a_round(inputs, norms, fit.alpha, power=0.25, metric=np.eye(6))
    assert (metric**2).sum() == pytest.approx(6)
    assert metric[0, 0] > 1.5 * np.diag(metric)[1:].max()


def test_columns_are_weighed_where_few_of_them_matter():
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(200, 10))
    data = Observations.merged(rows, np.sin(2 * rows[:, :1]) * np.sign(rows[:, 1:2]))
    asked = {"kernel": KERNEL, "ridge": None, "guess": 1e-2, "backend": CPU}
    learning = choose_plan(data, columns=True, **asked)
    assert learning.plan.columns
    assert Plan(columns=True).name in learning.errors
    assert Plan().name in learning.errors
    assert learning.error < 0.95 * min(learning.errors[Plan().name])
    assert not choose_plan(data, columns=False, **asked).plan.columns


@pytest.mark.parametrize(("bias", "ridge"), [(1.0, 0.03), (0.5, 1.0)])
def test_the_error_without_learning_is_that_of_the_folds(bias, ridge):
    """Cross-validation by hand: each fold fitted to the others, all its observations asked."""
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(25, 3))[rng.integers(25, size=60)]
    targets = np.sin(rows[:, :1]) + rng.normal(size=(60, 1))
    data = Observations.merged(rows, targets, weights=rng.choice([0.2, 1.0, 3.0], 60))
    learning = choose_plan(data, SphereKernel(bias, 0.5), ridge=ridge, guess=1e-2, columns=False, backend=CPU)
    squares = 0.0
    for kept, held in data.folds(4):
        last = bias * typical_norm(kept.X, kept.weights)
        (inputs, _), (others, _) = lift_rows(kept.X, last), lift_rows(held.X[held.row], last)
        noise = ridge * firing_probability(0.5) / kept.weights
        alpha = np.linalg.solve(limit_kernel(inputs @ inputs.T, 0.5) + np.diag(noise), kept.targets)
        outputs = limit_kernel(others @ inputs.T, 0.5, symmetric=False) @ alpha
        squares += held.weight @ (outputs - held.target)[:, 0] ** 2
    assert learning.errors[Plan().name][0] == pytest.approx(squares / data.weight.sum())


def test_plans_have_names():
    names = {Plan(columns, 3, power).name for columns in (False, True) for power in (MILD, STRONG)}
    assert len(names) == 4
    assert Plan(rounds=2).name == Plan().name


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
    for columns in (False, True):
        learning = choose_plan(nothing, KERNEL, ridge=None, guess=1e-2, columns=columns, backend=CPU)
        assert learning.plan == Plan()


class TestShareOfAGuess:
    """The error on rows left out means the same for every kind of target: 1 is what their mean as a guess gets."""

    OPTIONS = {"width": float("inf"), "shift": 0.5, "bias": 1.0, "feature_learning": 0, "scale": "standardise"}  # noqa: RUF012

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

    @pytest.mark.parametrize("target", ["linear", "log"])
    def test_it_is_1_less_r2_in_units_of_the_target(self, target):
        rng = np.random.default_rng(1)
        X = rng.normal(size=(40, 2))
        y = np.exp(2 * X[:, 0] + 0.3 * rng.normal(size=40))
        made = ThresherRegressor(ridge=0.1, target=target, **self.OPTIONS)
        predicted = [clone(made).fit(np.delete(X, k, 0), np.delete(y, k)).predict(X[[k]])[0] for k in range(40)]
        expected = np.sum((y - predicted) ** 2) / np.sum((y - y.mean()) ** 2)
        assert made.fit(X, y).loo_share_ == pytest.approx(expected, rel=0.25)  # scales are those of all rows

    def test_without_a_ridge_it_is_not_known(self):
        X = np.random.default_rng(0).normal(size=(10, 2))
        assert np.isnan(ThresherRegressor(ridge=0, width=512).fit(X, X[:, 0]).loo_share_)
