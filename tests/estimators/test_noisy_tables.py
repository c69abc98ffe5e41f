"""Tables that are mostly noise: what is learnt must not be worse than the plain kernel."""

from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks.noisy import KINDS, noisy_table
from few import of_few

from thresher import ThresherRegressor
from thresher.estimators.data.observations import Observations
from thresher.estimators.data.scaling import Scaling
from thresher.estimators.judging.holdout import HoldOut, Solved
from thresher.estimators.judging.measures import mean_square
from thresher.estimators.judging.ridges import RIDGES
from thresher.estimators.judging.search import Choice
from thresher.estimators.kernels.kernel import SphereKernel
from thresher.estimators.options import Plan
from thresher.estimators.pipeline.columns import ColumnWeights
from thresher.estimators.pipeline.plans import _worthwhile
from thresher.estimators.pipeline.rounds import Rounds
from thresher.estimators.processor import Cpu
from thresher.estimators.sizes import Sizes

pytestmark = pytest.mark.filterwarnings("ignore:Values far outside")  # heavy tails are on purpose
KERNEL = SphereKernel(1.0, 0.5)
NO_WORSE = 1.01  # times the root mean square error of the plain kernel


def root_mean_square(model, rows, targets):
    return np.sqrt(np.mean((model.predict(rows) - targets) ** 2))


def halves(rows, *, kind="skewed", scale="quantile", seed=0):
    X, y = noisy_table(rows, kind=kind, seed=seed)
    data = Observations.merged(Scaling.of(X, scale=scale).apply(X), (y[:, None] - y.mean()) / y.std())
    order = np.random.default_rng(0).permutation(rows)
    return data.at(order[: rows // 2]), data.at(order[rows // 2 :])


@pytest.mark.parametrize("guess", [1e-3, 1e-2, 1e2])
@pytest.mark.parametrize("kind", ["skewed", "nothing"])
def test_rows_left_out_find_the_ridge_from_any_guess(kind, guess):
    """Ridges that are too small, stopped early or not, must not pass for the best: all are solved by hand."""
    hold = HoldOut(*halves(600, kind=kind), Cpu(1))
    found = hold.evaluate(KERNEL, guess=guess)
    inputs, others, _ = hold.lifted(KERNEL)
    matrix = Cpu(1).dense(KERNEL, np.concatenate([inputs, others]).astype(float))
    errors = [
        hold.error(matrix.rest(matrix.solve(np.full(300, ridge * KERNEL.diagonal), hold.data.targets)))
        for ridge in RIDGES
    ]
    assert found.error <= 1.005 * min(errors)


@pytest.mark.parametrize("plain", [0.7, 0.9])
def test_many_rows_decide_between_a_metric_and_none_however_much_few_rows_gain(plain):
    errors = {(50, True): 1.0, (50, False): 0.5, (100, True): plain, (100, False): 0.8}

    class Told(HoldOut):
        def evaluate(self, kernel, **asked):
            error = errors[len(self.data), kernel.metric is None]
            outputs = (1 - error**0.5) * self.held.targets
            return super().evaluate(kernel, **asked)._replace(error=error, outputs=outputs)

    small, large = (Told(*halves(rows), Cpu(1)) for rows in (100, 200))
    options = SimpleNamespace(ridge=None, sizes=Sizes())
    rounds = Rounds(small, large, options, lambda share: None)
    first = Choice(KERNEL, 1.0, np.inf, [])
    choice, learning = rounds.learn(first, lambda kernel, guess: first._replace(kernel=kernel, ridge=guess))
    assert (choice.kernel.metric is None) == (plain < 0.8)
    assert (learning.plan == Plan()) == (plain < 0.8)
    assert [plain] in learning.errors.values()


def test_better_by_chance_is_not_better():
    hold = HoldOut(*halves(400, kind="nothing"), Cpu(1))
    rng, targets = np.random.default_rng(0), hold.held.targets
    plain = Solved(
        1.0, np.zeros((200, 1)), np.zeros_like(targets), mean_square(hold.held, 0 * hold.held.target), 0.0, 1
    )
    lucky = max(rng.normal(size=(20, *targets.shape)), key=lambda noise: float((noise * targets).sum()))
    signal = plain._replace(outputs=0.3 * targets, error=0.49 * plain.error)
    chance = plain._replace(outputs=0.02 * lucky, error=hold.error(0.02 * lucky))
    assert chance.error < plain.error
    assert not hold.surely_better(chance, plain)
    assert hold.surely_better(signal, plain)
    assert not hold.surely_better(plain, signal)
    assert not hold.surely_better(plain, plain)


def test_weights_of_columns_are_shrunk_where_few_rows_overrate_them():
    """Ten columns that matter a little among fifty of noise: cross-validation takes what new rows prefer."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2300, 60))
    y = X[:, :10] @ rng.normal(size=10) + 3 * rng.normal(size=2300)
    options = {"random_state": 0, "target": "linear", "scale": "robust", "bias": 1.0, "shift": 0.5, "width": np.inf}
    model, plain = (
        ThresherRegressor(**options, **more).fit(X[:300], y[:300]) for more in ({}, {"feature_learning": 0})
    )
    assert Plan(True, shrunk=True).name in model.feature_learning_errors_
    assert model.columns_weighed_
    assert root_mean_square(model, X[300:], y[300:]) < 0.985 * root_mean_square(plain, X[300:], y[300:])


def test_shrunk_weights_keep_their_order_and_mean_square():
    found = ColumnWeights(np.array([3.0, 1.0, 0.01]), 1.0, 0.1).shrunk()
    assert np.mean(found.weights**2) == pytest.approx(1.0)
    assert (np.diff(found.weights) < 0).all()
    assert found.weights[0] / found.weights[1] == pytest.approx(3**0.5)


def test_a_round_must_gain_more_than_noise_does():
    assert _worthwhile([0.530, 0.529, 0.535]) == 0
    assert _worthwhile([0.530, 0.500, 0.499]) == 1
    assert _worthwhile([0.530, 0.528, 0.520]) == 2
    assert _worthwhile([0.530]) == 0


@pytest.mark.parametrize("kind", ["linear", "nothing"])
def test_the_default_is_no_worse_than_the_plain_kernel(kind):
    X, y = noisy_table(4000, kind=kind, seed=0)
    options = {"random_state": 0, "target": "linear"}
    model, plain = (
        of_few(ThresherRegressor(**options, **more), held=400, small=400, large=1600).fit(X[:2000], y[:2000])
        for more in ({}, {"feature_learning": 0, "scale": "quantile"})
    )
    assert root_mean_square(model, X[2000:], y[2000:]) < NO_WORSE * root_mean_square(plain, X[2000:], y[2000:])
    if kind == "nothing":
        assert root_mean_square(model, X[2000:], y[2000:]) < 1.002 * y[2000:].std()


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
