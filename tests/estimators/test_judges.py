"""One story over every judge: what a kernel and a ridge are worth is what the definition says of rows left out."""

import naive
import numpy as np
import pytest

from thresher.estimators.data.observations import Observations
from thresher.estimators.judging.holdout import HoldOut
from thresher.estimators.judging.leave_one_out import LeaveOneOut
from thresher.estimators.judging.measures import mean_square
from thresher.estimators.judging.ridges import RIDGES
from thresher.estimators.judging.search import SHIFTS, search
from thresher.estimators.kernels.kernel import SphereKernel, Start
from thresher.estimators.processor import Cpu

KERNEL = SphereKernel(0.7, 0.5)
METRIC = np.array([[1.5, 0.2, 0.0], [0.2, 0.8, 0.1], [0.0, 0.1, 0.3]])
SHARE = 0.3  # of the rows that are held out


def observations(n, *, seed=0, noise=0.3, outputs=2):
    """Rows of which two columns matter, with targets, weights, and some rows that are observed twice."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    signal = np.column_stack([np.sin(2 * X[:, 0]) + X[:, 1], X[:, 0] * X[:, 1]])[:, :outputs]
    X, signal = (np.concatenate([one, one[::5]]) for one in (X, signal))
    targets = signal + noise * rng.normal(size=signal.shape)
    return Observations.merged(X, targets, weights=rng.uniform(0.5, 2.0, size=len(X)))


def leave_one_out(data, **more):
    return LeaveOneOut(data, Cpu(1), **more)


def hold_out(data, **more):
    held, kept = np.split(data.random_order(), [int(SHARE * len(data))])
    return HoldOut(data.at(kept), data.at(held), Cpu(1), **more)


JUDGES = {"one at a time": leave_one_out, "together": hold_out}


@pytest.fixture(params=JUDGES)
def judge_of(request):
    return JUDGES[request.param]


def defined(judge, kernel, ridge):
    """What each observation is predicted to be without it, or without all those that are held out."""
    data, held, weights = judge.data, judge.held, judge.data.weights
    turned = data.X if kernel.metric is None else data.X @ kernel.metric
    last = kernel.bias * np.sqrt(np.average((turned**2).sum(axis=1), weights=weights))
    inputs = naive.lifted(data.X, last, kernel.metric)
    K = naive.limit_kernel(inputs, inputs, kernel.shift)
    noise = ridge * naive.limit_kernel(inputs[:1], inputs[:1], kernel.shift)[0, 0]
    if held is data or len(held) == len(data):
        return naive.left_out(K, data.row, data.target, data.weight, data.unit, noise)[0]
    alpha = naive.kernel_ridge(K, data.targets, weights, noise)
    others = naive.limit_kernel(naive.lifted(held.X, last, kernel.metric), inputs, kernel.shift)
    return (others @ alpha)[held.row]


@pytest.mark.parametrize("metric", [None, METRIC])
def test_predictions_and_errors_are_those_of_the_definition(judge_of, metric):
    judge, kernel = judge_of(observations(40, noise=0.05)), KERNEL._replace(metric=metric)
    judged = judge.evaluate(kernel, ridge=1.0)
    expected = defined(judge, kernel, 1.0)
    weight = judge.held.weight
    error = weight @ ((expected - judge.held.target) ** 2).sum(axis=1) / weight.sum()
    exact = judged if judge_of is leave_one_out else judge.evaluate_start(kernel, ridge=1.0, guess=1.0)
    assert judge.left_out(exact) == pytest.approx(expected, abs=1e-6)
    assert exact.error == pytest.approx(error, rel=1e-6)
    # Conjugate gradients stop at the step of the least error.
    assert 0.8 * error < judged.error <= error * (1 + 1e-6)
    assert judged.alpha.shape == judge.data.targets.shape and judged.ridge == 1.0


def test_the_ridge_is_the_best_of_its_neighbours(judge_of):
    judge = judge_of(observations(400, noise=1.0))
    best = judge.evaluate(KERNEL)
    place = RIDGES.index(best.ridge)
    for other in RIDGES[place - 1], RIDGES[place + 1]:
        assert judge.evaluate(KERNEL, ridge=other).error >= 0.998 * best.error


def test_the_guess_does_not_decide(judge_of):
    judge = judge_of(observations(400, noise=1.0))
    ridges = [judge.evaluate(KERNEL, guess=guess).ridge for guess in (1e-5, 1e-2, 100.0)]
    assert max(ridges) <= 3.2 * min(ridges)


def test_another_measure_compares_but_does_not_choose_the_ridge(judge_of):
    def absolute(data, outputs):
        return float(np.abs(outputs - data.target).mean())

    plain, other = judge_of(observations(60)), judge_of(observations(60), measure=absolute)
    one, two = plain.evaluate(KERNEL), other.evaluate(KERNEL)
    assert (one.ridge, one.error) == (two.ridge, two.error)
    assert plain.measured(one) == one.error == pytest.approx(mean_square(plain.held, plain.left_out(one)), rel=1e-9)
    assert other.measured(two) == absolute(other.held, other.left_out(two)) != one.error


def test_the_search_takes_the_least_error(judge_of):
    judge = judge_of(observations(300))
    choice = search(judge, KERNEL, biases=[0.5, 2.0], shifts=SHIFTS, ridge=None, guess=1e-2)
    assert choice.error == min(one.error for one in choice.tried)
    assert (choice.kernel.bias, choice.kernel.shift) in {one[:2] for one in choice.tried}
    assert len(choice.tried) == len(SHIFTS) + 1
    assert judge.evaluate(choice.kernel, ridge=choice.ridge).error == pytest.approx(choice.error, rel=2e-2)


def test_a_network_at_its_start_is_a_noisier_limit():
    """Its kernel is near the limit's; both judges say by how much worse it is."""
    data = observations(120)
    start = Start(width=4096, rows=len(data), seed=0, sequence="random")
    one = leave_one_out(data)
    limit, network = (one.evaluate(kernel) for kernel in (KERNEL, KERNEL._replace(start=start)))
    assert 0.9 * limit.error < network.error < 1.5 * limit.error
    other = hold_out(data)
    network = other.evaluate_start(KERNEL._replace(start=start), ridge=None, guess=1e-2)
    assert 0.9 * other.evaluate(KERNEL).error < network.error < 1.5 * other.evaluate(KERNEL).error


def test_where_both_can_judge_they_agree():
    """On the same rows they choose nearly the same ridge, and rank kernels alike."""
    data = observations(600, noise=0.5, outputs=1)
    judges = [judge(data) for judge in JUDGES.values()]
    ridges = [judge.evaluate(KERNEL).ridge for judge in judges]
    assert max(ridges) <= 3.2 * min(ridges)
    errors = np.array([[judge.evaluate(KERNEL._replace(metric=np.diag(one))).error for judge in judges]
                       for one in ([1.0, 1.0, 1.0], [1.3, 1.1, 0.1], [0.1, 0.1, 2.0])])  # fmt: skip
    assert errors[:, 0].argsort().tolist() == errors[:, 1].argsort().tolist()
    assert errors[0, 0] == pytest.approx(errors[0, 1], rel=0.35)
