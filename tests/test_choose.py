"""Choosing a kernel, and learning features, against their definitions; leave-one-out against leaving one out."""

import naive
import numpy as np
import pytest

from thresher import to_sphere
from thresher.estimators.choose import Choice, choose, fit_kernel, leave_one_out
from thresher.estimators.features import choose_rounds, limit_gradients, mix_outputs, next_metric
from thresher.estimators.lift import lift_rows
from thresher.theory import cofiring_probability, cofiring_slope, firing_probability, limit_kernel


@pytest.mark.parametrize("shift", [0.0, 0.01, 0.5, 2.0])
def test_interpolated_kernel_and_its_slope(shift):
    rho = np.concatenate([np.linspace(-1, 1, 4001), 1 - np.logspace(-15, -3, 50), np.logspace(-15, -3, 50) - 1])
    kernel = limit_kernel(rho[None], shift, symmetric=False)[0]
    np.testing.assert_allclose(kernel, rho * cofiring_probability(rho, shift), atol=1e-12 * firing_probability(shift))
    inside = rho[np.abs(rho) < 0.99][:, None]
    step = 1e-5
    ahead, behind = (limit_kernel(inside + sign * step, shift, symmetric=False) for sign in (1, -1))
    slope = cofiring_slope(inside, limit_kernel(inside, shift, symmetric=False), shift)
    np.testing.assert_allclose(slope, (ahead - behind) / (2 * step), atol=1e-5)
    assert not cofiring_slope(np.array([[1.0, -1.0]]), np.ones((1, 2)), shift).any()


def test_leave_one_out_is_exact():
    rng = np.random.default_rng(0)
    X, Y, weights = to_sphere(rng.normal(size=(25, 4))), rng.normal(size=(25, 2)), np.arange(25) % 3 + 1
    K = limit_kernel(X @ X.T, 0.5)
    fit = leave_one_out(K, Y, weights, ridge=0.03, diagonal=0.3)
    expected = naive.leave_one_out(K, Y, 0.03 * 0.3, weights)
    whole = naive.leave_one_out(K, Y, 0.03 * 0.3, np.ones(25, int))
    single = leave_one_out(K, Y, np.ones(25), ridge=0.03, diagonal=0.3)
    np.testing.assert_allclose(single.residuals, whole, atol=1e-10)
    assert fit.error == pytest.approx(np.average((expected**2).sum(axis=1), weights=weights))
    assert leave_one_out(-K, Y, weights, ridge=1e-6, diagonal=0.3) is None


def test_the_best_ridge_is_a_minimum():
    rng = np.random.default_rng(1)
    X = to_sphere(rng.normal(size=(60, 5)))
    Y, weights = X[:, :1] ** 2 + 0.1 * rng.normal(size=(60, 1)), np.ones(60)
    K = limit_kernel(X @ X.T, 0.5)
    errors = {
        power: leave_one_out(K, Y, weights, ridge=10 ** (power / 2), diagonal=firing_probability(0.5)).error
        for power in range(-16, 5)
    }
    for guess in (1e-8, 1e-2, 10.0):
        fit = fit_kernel(K, Y, weights, shift=0.5, ridge=None, guess=guess)
        assert fit.error == pytest.approx(min(errors.values()))
    assert fit_kernel(K, Y, weights, shift=0.5, ridge=0.5).ridge == 0.5


def test_choice_is_the_least_of_what_was_tried():
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(50, 3))
    choice = choose(rows, np.sin(rows[:, :1]), np.ones(50), biases=(1.0, 0.5), shifts=(0.5, 0.0, 1.0), ridge=None)
    assert len(choice.tried) == 4
    assert choice.error == min(error for *_, error in choice.tried)
    assert (choice.bias, choice.shift, choice.ridge, choice.error) in choice.tried
    fixed = choose(rows, np.sin(rows[:, :1]), np.ones(50), biases=[2.0], shifts=[0.3], ridge=0.1)
    assert fixed[:3] == (2.0, 0.3, 0.1)


def test_a_favourite_keeps_its_place_unless_another_is_clearly_better():
    rng = np.random.default_rng(2)
    rows, weights = rng.normal(size=(50, 3)), np.ones(50)
    targets = np.sin(rows[:, :1])
    lists = {"biases": (1.0, 0.5, 2.0), "shifts": (0.5, 0.0, 1.0), "ridge": None}
    plain = choose(rows, targets, weights, **lists)
    worst = max(plain.tried, key=lambda one: one[3])
    assert plain.error < 0.99 * worst[3]
    over = choose(rows, targets, weights, **lists, favourite=Choice(*worst, []))
    assert over.tried[0][:2] == worst[:2]
    assert (over.bias, over.shift) != worst[:2]

    def alike(inputs, shift):  # kernels that hardly differ
        return np.eye(50) * firing_probability(shift) * (1 + 1e-5 * shift)

    kept = choose(rows, targets, weights, **lists, favourite=Choice(*worst, []), kernel_of=alike)
    assert (kept.bias, kept.shift) == worst[:2]


def test_gradients_of_the_limit():
    rng = np.random.default_rng(3)
    X, alpha = to_sphere(rng.normal(size=(12, 4))), rng.normal(size=(12, 2))
    step = 1e-6
    for output, found in enumerate(limit_gradients(X, alpha, kernel=limit_kernel(X @ X.T, 0.5), shift=0.5)):
        for i in range(12):
            others = np.arange(12) != i  # the kernel bends at its own input
            for k in range(4):
                moves = np.array([X[i] + sign * step * np.eye(4)[k] for sign in (1, -1)])
                ahead, behind = limit_kernel(moves @ X[others].T, 0.5, symmetric=False) @ alpha[others, output]
                assert found[i, k] == pytest.approx((ahead - behind) / (2 * step), abs=1e-5)


def test_the_metric_finds_the_direction_that_matters():
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(200, 6))
    targets = np.sin(2 * rows @ np.array([1.0, 0, 0, 0, 0, 0]))[:, None]
    rounds = choose_rounds(rows, targets, np.ones(200), bias=1.0, shift=0.5, ridge=None, guess=1e-2)
    assert rounds.chosen >= 1
    errors = rounds.errors[rounds.power]
    assert errors[rounds.chosen] == min(map(min, rounds.errors.values())) < 0.7 * errors[0]
    inputs, norms = lift_rows(rows, 2.0)
    kernel = limit_kernel(inputs @ inputs.T, 0.5)
    fit = fit_kernel(kernel, targets, np.ones(200), shift=0.5, ridge=None)
    gradients = limit_gradients(inputs, fit.alpha, kernel=kernel, shift=0.5)
    metric = next_metric(gradients, inputs=inputs, norms=norms, weights=np.ones(200), metric=np.eye(6), power=0.25)
    assert (metric**2).sum() == pytest.approx(6)
    assert metric[0, 0] > 1.5 * np.diag(metric)[1:].max()


def test_sums_of_outputs_lead_to_nearly_the_same_metric():
    rng = np.random.default_rng(7)
    rows = rng.normal(size=(150, 4)) * [3.0, 1.0, 1.0, 0.3]
    inputs, norms = lift_rows(rows, 2.0)
    alpha, kernel = rng.normal(size=(150, 60)), limit_kernel(inputs @ inputs.T, 0.5)
    np.testing.assert_array_equal(mix_outputs(alpha[:, :16]), alpha[:, :16])
    assert mix_outputs(alpha).shape == (150, 16)
    metrics = [
        next_metric(
            limit_gradients(inputs, one, kernel=kernel, shift=0.5),
            inputs=inputs,
            norms=norms,
            weights=np.ones(150),
            metric=np.eye(4),
            power=0.25,
        )
        for one in (alpha, mix_outputs(alpha))
    ]
    np.testing.assert_allclose(metrics[1], metrics[0], atol=0.2)


def test_noise_is_not_learnt():
    rng = np.random.default_rng(6)
    rows = rng.normal(size=(80, 5))
    nothing = np.zeros((80, 1))
    still = {
        "inputs": np.zeros((80, 6)),
        "norms": np.ones(80),
        "weights": np.ones(80),
        "metric": np.eye(5),
        "power": 0.25,
    }
    metric = next_metric(iter([np.zeros((80, 6))]), **still)
    np.testing.assert_array_equal(metric, np.eye(5))
    assert choose_rounds(rows, nothing, np.ones(80), bias=1.0, shift=0.5, ridge=None, guess=1e-2).chosen == 0
