"""Tables that are mostly noise: what is learnt must not be worse than the plain kernel."""

import numpy as np
import pytest
from benchmarks.noisy import KINDS, noisy_table
from few import of_few

from thresher import ThresherRegressor
from thresher.estimators.conjugate_gradients import Stop, search_ridges, solve_ridges
from thresher.estimators.data.observations import Observations
from thresher.estimators.data.scaling import Scaling
from thresher.estimators.kernel import SphereKernel
from thresher.estimators.leave_one_out import mean_square
from thresher.estimators.metric import learn_metric
from thresher.estimators.processor import Cpu
from thresher.estimators.ridges import RIDGES, ridges_near
from thresher.theory import Shares

pytestmark = pytest.mark.filterwarnings("ignore:Values far outside")  # heavy tails are on purpose
KERNEL = SphereKernel(1.0, 0.5)
NO_WORSE = 1.01  # times the root mean square error of the plain kernel


def root_mean_square(model, rows, targets):
    return np.sqrt(np.mean((model.predict(rows) - targets) ** 2))


def observed(rows, *, kind="skewed", seed=0):
    X, y = noisy_table(rows, kind=kind, seed=seed)
    data = Observations.merged(Scaling.of(X, scale="robust").apply(X), (y[:, None] - y.mean()) / y.std())
    return data.at(np.random.default_rng(0).permutation(len(data)))


@pytest.mark.parametrize("guess", [1e-3, 1e-2, 1e2])
@pytest.mark.parametrize("kind", ["skewed", "nothing"])
def test_rows_left_out_find_the_ridge_from_any_guess(kind, guess):
    """Ridges that are too small, stopped early or not, must not pass for the best: all are solved by hand."""
    data, cpu = observed(600, kind=kind), Cpu(1)
    kept, held = data.at(np.arange(300)), data.at(np.arange(300, 600))
    inputs = KERNEL.lift(data.X, data.weights).inputs
    operator, dense = cpu.operator(KERNEL, inputs.astype(np.float32), memory=np.inf), cpu.dense(KERNEL, inputs)
    low = cpu.pivots(operator, rank=75)

    def error(outputs):
        return mean_square(held, outputs[held.row])

    def solve(ridges, start):
        asked = {"backend": cpu, "ridges": ridges, "error_of": error, "stop": Stop()}
        return solve_ridges(operator, low, kept, start=None if start is None else start.alpha, **asked)

    found = search_ridges(solve, ridges_near(guess))
    errors = [
        error(dense.dense()[len(kept) :, : len(kept)] @ dense.solve(KERNEL.penalty(ridge, kept.weights), kept.targets))
        for ridge in RIDGES
    ]
    assert found.error <= 1.005 * min(errors)


@pytest.mark.parametrize("one_fold", [False, True])
@pytest.mark.parametrize("kind", ["nothing", "linear"])
def test_a_round_must_gain_more_than_noise_does(kind, one_fold):
    """A round that leaves as much error as the one before is no reason for another; where it is made, it gains."""
    data = observed(800, kind=kind)
    found = learn_metric(
        data, KERNEL, columns=0, shares=(Shares(),), ridge=None, guess=1e-2, rounds=None, judged=True,
        one_fold=one_fold, backend=Cpu(1),
    )  # fmt: skip
    assert found.rounds <= len(found.errors) - 1
    assert found.rounds == 0 or found.errors[found.rounds] < 0.99 * found.errors[0]
    assert kind != "nothing" or found.rounds == 0
    assert (found.kernel.metric is None) == (found.rounds == 0)


def test_columns_of_noise_are_left_aside():
    """Ten columns that matter a little among fifty of noise: the metric is no worse than none on new rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2300, 60))
    y = X[:, :10] @ rng.normal(size=10) + 3 * rng.normal(size=2300)
    options = {"random_state": 0, "target_transform": None, "bias": 1.0}
    model, plain = (
        ThresherRegressor(**options, **more).fit(X[:300], y[:300]) for more in ({}, {"feature_learning": 0})
    )
    assert root_mean_square(model, X[300:], y[300:]) < NO_WORSE * root_mean_square(plain, X[300:], y[300:])


@pytest.mark.parametrize("kind", ["linear", "nothing"])
def test_the_default_is_no_worse_than_the_plain_kernel(kind):
    X, y = noisy_table(4000, kind=kind, seed=0)
    options = {"random_state": 0, "target_transform": None}
    model, plain = (
        of_few(ThresherRegressor(**options, **more), held=400, chosen_on=1000).fit(X[:2000], y[:2000])
        for more in ({}, {"feature_learning": 0})
    )
    assert root_mean_square(model, X[2000:], y[2000:]) < NO_WORSE * root_mean_square(plain, X[2000:], y[2000:])
    if kind == "nothing":
        assert root_mean_square(model, X[2000:], y[2000:]) < 1.003 * y[2000:].std()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [2_000, 8_000, 30_000, 100_000])
def test_at_every_size_the_default_is_no_worse_than_the_plain_kernel(rows, kind):
    X, y = noisy_table(rows + 20_000, kind=kind, seed=rows)
    errors = []
    for options in ({}, {"feature_learning": 0}):
        model = ThresherRegressor(random_state=0, **options).fit(X[:rows], y[:rows])
        errors.append(root_mean_square(model, X[rows:], y[rows:]))
    assert errors[0] < NO_WORSE * errors[1]
