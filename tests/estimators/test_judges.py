"""Two solvers, one story: what a kernel and a ridge are worth is what the definition says of rows left out."""

import naive
import numpy as np
import pytest

from thresher.estimators.data.observations import Observations
from thresher.estimators.kernel import SphereKernel
from thresher.estimators.processor import Cpu
from thresher.estimators.ridges import RIDGES, ridges_near
from thresher.estimators.settings import Sizes
from thresher.estimators.solve import ManyRows, solve_by_gradients, solve_directly

KERNEL, CPU = SphereKernel(0.7, 0.5), Cpu(1)
METRIC = np.array([[1.5, 0.2, 0.0], [0.2, 0.8, 0.1], [0.0, 0.1, 0.3]])


def observations(n, *, seed=0, noise=0.3, outputs=2):
    """Rows of which two columns matter, with targets, weights, and some rows that are observed twice."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    signal = np.column_stack([np.sin(2 * X[:, 0]) + X[:, 1], X[:, 0] * X[:, 1]])[:, :outputs]
    X, signal = (np.concatenate([one, one[::5]]) for one in (X, signal))
    targets = signal + noise * rng.normal(size=signal.shape)
    return Observations.merged(X, targets, weights=rng.uniform(0.5, 2.0, size=len(X)))


def one_at_a_time(data, kernel, *, ridge=None, guess=1e-2):
    return solve_directly(data, kernel, ridge=ridge, guess=guess, most=len(data), backend=CPU)


def together(data, kernel, *, ridge=None, guess=1e-2):
    held, kept = data.held_out(len(data))
    inputs = kernel.lift(data.X, last=last_of(data.at(kept), kernel)).inputs.astype(np.float32)
    ridges = ridges_near(guess) if ridge is None else [ridge]
    given = ManyRows(data, kept, held, kernel._replace(metric=None), ridges, CPU, Sizes())
    return solve_by_gradients(inputs, given, tell=lambda share: None)


SOLVERS = {"one at a time": one_at_a_time, "together": together}


@pytest.fixture(params=SOLVERS)
def solve(request):
    return SOLVERS[request.param]


def last_of(data, kernel):
    turned = data.X if kernel.metric is None else data.X @ kernel.metric
    return kernel.bias * np.sqrt(np.average((turned**2).sum(axis=1), weights=data.weights))


def defined(solve, data, kernel, ridge):
    """What each observation is predicted to be without it, or without all those that are held out."""
    held, kept = data.held_out(len(data))
    among = data if solve is one_at_a_time else data.at(kept)
    inputs = naive.lifted(data.X, last_of(among, kernel), kernel.metric)
    K = naive.limit_kernel(inputs, inputs, kernel.shift)
    noise = ridge * K[0, 0]
    if solve is one_at_a_time:
        return naive.left_out(K, data.row, data.target, data.weight, data.unit, noise)[0]
    alpha = naive.kernel_ridge(K[np.ix_(kept, kept)], among.targets, among.weights, noise)
    return (K[np.ix_(held, kept)] @ alpha)[data.at(held).row]


@pytest.mark.parametrize("metric", [None, METRIC])
def test_predictions_and_errors_are_those_of_the_definition(solve, metric):
    data, kernel = observations(40, noise=0.05), KERNEL._replace(metric=metric)
    found, expected = solve(data, kernel, ridge=1.0), defined(solve, data, kernel, 1.0)
    held = found.left_out.data
    error = held.weight @ ((expected - held.target) ** 2).sum(axis=1) / held.weight.sum()
    # Conjugate gradients stop at the step of the least error.
    exact = solve is one_at_a_time
    away = np.sqrt(np.mean((found.left_out.outputs - expected) ** 2))
    assert away < (1e-6 if exact else 0.15 * np.sqrt(error))
    assert (1 if exact else 0.8) * error * (1 - 1e-6) < found.error <= error * (1 + 1e-5)
    assert found.alpha.shape == data.targets.shape and found.ridge == 1.0


def test_the_solution_is_that_of_all_rows(solve):
    data = observations(40, noise=0.05)
    found = solve(data, KERNEL, ridge=1.0)
    K = naive.limit_kernel(*[found.inputs.astype(np.float64)] * 2, KERNEL.shift)
    expected = naive.kernel_ridge(K, data.targets, data.weights, K[0, 0])
    away = np.linalg.norm(K @ (found.alpha - expected)) / np.linalg.norm(K @ expected)
    assert away < (1e-6 if solve is one_at_a_time else 1e-2)
    np.testing.assert_allclose(found.penalty, K[0, 0] / data.weights, rtol=1e-6)


def test_the_ridge_is_the_best_of_its_neighbours(solve):
    data = observations(400, noise=1.0)
    best = solve(data, KERNEL)
    place = RIDGES.index(best.ridge)
    for other in RIDGES[place - 1], RIDGES[place + 1]:
        assert solve(data, KERNEL, ridge=other).error >= 0.998 * best.error


def test_the_guess_does_not_decide(solve):
    data = observations(400, noise=1.0)
    ridges = [solve(data, KERNEL, guess=guess).ridge for guess in (1e-5, 1e-2, 100.0)]
    assert max(ridges) <= 3.2 * min(ridges)


def test_where_both_can_judge_they_agree():
    """On the same rows they choose nearly the same ridge, and rank kernels alike."""
    data = observations(600, noise=0.5, outputs=1)
    ridges = [solve(data, KERNEL).ridge for solve in SOLVERS.values()]
    assert max(ridges) <= 3.2 * min(ridges)
    metrics = [1.0, 1.0, 1.0], [1.3, 1.1, 0.1], [0.1, 0.1, 2.0]
    errors = np.array(
        [[solve(data, KERNEL._replace(metric=np.diag(one))).error for solve in SOLVERS.values()] for one in metrics]
    )
    assert errors[:, 0].argsort().tolist() == errors[:, 1].argsort().tolist()
    assert errors[0, 0] == pytest.approx(errors[0, 1], rel=0.35)
