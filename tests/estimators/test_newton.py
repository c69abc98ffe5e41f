"""Fits by any loss on a kernel: the minimum, whatever the loss, and what each observation gets when it is left out."""

import naive
import numpy as np
import pytest
from scipy.special import expit, softmax

from thresher import to_sphere
from thresher.estimators.data.observations import Observations
from thresher.estimators.kernel import SphereKernel
from thresher.estimators.newton import LossFit, find_ridge, fit_loss, fit_loss_to_many, mean_loss
from thresher.estimators.processor import Cpu
from thresher.estimators.ridges import RIDGES
from thresher.losses import Huber, Logistic, Poisson, Quantile, Softmax, Squared
from thresher.theory import firing_probability, limit_kernel

DIAGONAL = firing_probability(0.5)
CONSTANT = 100 * DIAGONAL


def inputs_of(n, *, seed=0):
    return to_sphere(np.column_stack([np.random.default_rng(seed).normal(size=(n, 3)), np.ones(n)]))


def kernel_of(X):
    return limit_kernel(X @ X.T, 0.5)


def targets_for(loss, X, *, seed=1):
    rng, signal = np.random.default_rng(seed), 3 * X[:, 0] + X[:, 1]
    if isinstance(loss, Softmax):
        return np.eye(3)[np.argmax(4 * X[:, :3] + rng.gumbel(size=(len(X), 3)), axis=1)]
    if isinstance(loss, Logistic):
        return (rng.random(len(X)) < expit(2 * signal)).astype(float)[:, None]
    if isinstance(loss, Poisson):
        return rng.poisson(np.exp(signal / 2)).astype(float)[:, None]
    return (signal + 0.3 * rng.standard_t(2, size=len(X)))[:, None]


LOSSES = [Squared(), Logistic(), Softmax(), Huber(0.5), Quantile(0.8, 0.1), Poisson()]
everywhere = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)


def observations(loss, n=40, *, weighted=True):
    X = inputs_of(n)
    weights = np.random.default_rng(2).uniform(0.5, 2.0, size=n) if weighted else np.ones(n)
    return Observations.of_rows(X, targets_for(loss, X), weights)


def fit(loss, data, **more):
    offset = np.zeros(data.target.shape[1])
    given = {"ridge": 0.1, "diagonal": DIAGONAL, "offset": offset, "tol": 1e-12, "most": 1000}
    return fit_loss(kernel_of(data.X), data, loss, **{**given, **more})


def slope_of(loss):
    return loss.slope if loss.joint else lambda f, y: loss.slope(f[:, 0], y[:, 0])[:, None]


def curvature_of(loss):
    if not loss.joint:
        return lambda f, y: loss.curvature(f[:, 0], y[:, 0])[:, None, None]
    return lambda f, y: np.array([np.diag(p) - np.outer(p, p) for p in softmax(f, axis=1)])


@everywhere
def test_the_fit_is_the_minimum(loss):
    data = observations(loss)
    found = fit(loss, data, tol=1e-14)
    level, K = 0.1 * DIAGONAL, kernel_of(data.X) + CONSTANT
    alpha, outputs = naive.fit_by_loss(K, data.target, data.weight, slope_of(loss), curvature_of(loss), level)
    assert found.outputs == pytest.approx(outputs, abs=2e-4)
    assert found.alpha == pytest.approx(alpha, rel=1e-3, abs=1e-3)
    assert kernel_of(data.X) @ found.alpha + found.intercept == pytest.approx(found.outputs, abs=1e-6)


@everywhere
def test_rows_left_out_are_near_those_of_fits_without_them(loss):
    data = observations(loss, weighted=False)
    found, level, K = fit(loss, data), 0.1 * DIAGONAL, kernel_of(data.X) + CONSTANT
    outputs = found.left_out(data, loss)
    away, moved = [], []
    for i in range(len(data)):
        kept = np.delete(np.arange(len(data)), i)
        alpha, _ = naive.fit_by_loss(
            K[np.ix_(kept, kept)], data.target[kept], np.ones(len(kept)), slope_of(loss), curvature_of(loss), level
        )
        away.append(outputs[i] - K[i, kept] @ alpha)
        moved.append(found.outputs[i] - K[i, kept] @ alpha)
    exact = found.outputs - np.array(moved)
    share = 1e-6 if isinstance(loss, Squared) else 0.35
    assert np.linalg.norm(away) <= share * np.linalg.norm(moved)
    assert found.error == pytest.approx(mean_loss(loss, data, exact), rel=0.15)
    assert found.error > mean_loss(loss, data, found.outputs)


@everywhere
def test_equal_observations_at_a_row_are_left_out_one_by_one(loss):
    data = observations(loss, 20, weighted=False)
    again = np.repeat(np.arange(20), 3)
    apart = Observations(
        data.X, row=again, target=data.target[again], unit=np.full(60, 1 / 3), count=np.ones(60)
    )  # three of a third
    pooled = Observations(data.X, row=data.row, target=data.target, unit=np.full(20, 1 / 3), count=np.full(20, 3.0))
    whole, parts, one = fit(loss, data), fit(loss, apart), fit(loss, pooled)
    assert parts.outputs == pytest.approx(whole.outputs, abs=1e-6)
    assert parts.left_out(apart, loss)[::3] == pytest.approx(one.left_out(pooled, loss), abs=1e-6)
    gone = np.abs(whole.left_out(data, loss) - whole.outputs).sum()
    assert np.abs(one.left_out(pooled, loss) - one.outputs).sum() < gone


@everywhere
def test_the_intercept_is_free_and_an_offset_changes_nothing(loss):
    data = observations(loss)
    plain = fit(loss, data, ridge=1e3, tol=1e-14)
    moved = fit(loss, data, ridge=1e3, tol=1e-14, offset=np.linspace(0.5, -0.5, data.target.shape[1]))
    assert moved.outputs == pytest.approx(plain.outputs, abs=0.02)
    slopes = slope_of(loss)(plain.outputs, data.target)
    assert np.abs(data.weight @ slopes).max() < 0.01 * np.abs(data.weight @ np.abs(slopes)).max() + 1e-9


@everywhere
def test_a_fit_may_begin_from_another(loss):
    data = observations(loss)
    first = fit(loss, data, ridge=0.3)
    begun = fit(loss, data, start=(first.alpha, first.intercept))
    assert begun.outputs == pytest.approx(fit(loss, data).outputs, abs=1e-4)
    assert fit(loss, data, start=(begun.alpha, begun.intercept), tol=1e-6).steps <= 2


@everywhere
def test_only_the_last_rows_are_left_out_if_that_is_asked_for(loss):
    data = observations(loss)
    whole, some = fit(loss, data), fit(loss, data, last=10)
    assert some.left_out(data.last(10), loss) == pytest.approx(whole.left_out(data, loss)[-10:], abs=1e-6)
    assert len(fit(loss, data, last=0).slack) == 0


@everywhere
def test_the_ridge_is_better_than_its_neighbours(loss):
    data = observations(loss, 60)
    K, offset = kernel_of(data.X), np.zeros(data.target.shape[1])
    best = find_ridge(K, data, loss, guess=1e-3, diagonal=DIAGONAL, offset=offset)
    place = RIDGES.index(best.ridge)
    for other in (place - 1, place + 1):
        if 0 <= other < len(RIDGES):
            near = fit_loss(K, data, loss, ridge=RIDGES[other], diagonal=DIAGONAL, offset=offset)
            assert near.error > best.error * (1 - 1e-3)


def test_separable_classes_and_no_noise_stay_finite():
    X = inputs_of(40)
    for ridge in (RIDGES[0], RIDGES[-1]):
        for loss, y in ((Logistic(), X[:, :1] > 0), (Softmax(), np.eye(2)[(X[:, 0] > 0).astype(int)])):
            data = Observations.of_rows(X, y.astype(float), np.ones(40))
            found = fit(loss, data, ridge=ridge, tol=1e-9)
            assert isinstance(found, LossFit)
            assert np.isfinite(found.outputs).all() and np.isfinite(found.left_out(data, loss)).all()


def test_a_kernel_that_is_not_positive_has_no_fit():
    data = observations(Logistic())
    assert fit_loss(-kernel_of(data.X), data, Logistic(), ridge=1e-5, diagonal=DIAGONAL, offset=np.zeros(1)) is None


KERNEL, CPU = SphereKernel(1.0, 0.5), Cpu(1)
of_many_rows = pytest.mark.parametrize("loss", [Logistic(), Softmax(), Poisson(), Huber(0.5)],
                                       ids=lambda loss: type(loss).__name__)  # fmt: skip


def fit_many(loss, data, *, offset, kept, **more):
    """The fit of all rows, those after the ``kept`` ones held out at first."""
    matrix, n = CPU.operator(KERNEL, data.X.astype(np.float32), memory=np.inf), len(data)
    given = {"ridge": 0.1, "larger": False, **more}
    low = CPU.pivots(matrix, rank=n // 4)
    return fit_loss_to_many(matrix, low, data, loss, kept=kept, offset=offset, backend=CPU, **given)


def objective(loss, data, alpha, intercept, ridge):
    """The mean loss and its share of the penalty."""
    inner = kernel_of(data.X) @ alpha
    penalty = ridge * DIAGONAL * (alpha * inner).sum() / 2
    return mean_loss(loss, data, (inner + intercept)[data.row]) + penalty / data.weight.sum()


def spread(outputs):
    return np.sqrt(np.mean((outputs - outputs.mean(axis=0)) ** 2))


class TestManyRows:
    """With the intercept of the fit of few rows as the offset, coefficients that are at its minimum are the same."""

    @of_many_rows
    @pytest.mark.parametrize("ridge", [1.0, 0.1, 0.01])
    def test_the_fit_is_that_of_few_rows(self, loss, ridge):
        data = observations(loss, 200)
        few = fit(loss, data, ridge=ridge, tol=1e-10)
        many = fit_many(loss, data, ridge=ridge, offset=few.intercept, kept=160)
        outputs = kernel_of(data.X) @ many.alpha + few.intercept
        assert spread(outputs - few.outputs) < 0.15 * spread(few.outputs)
        least, found = (objective(loss, data, one.alpha, few.intercept, ridge) for one in (few, many))
        assert least - 1e-6 < found < least + 2e-3
        assert many.ridge == ridge and (many.curvature > 0).all()

    @of_many_rows
    def test_rows_held_out_are_predicted_by_the_others_alone(self, loss):
        data, kept = observations(loss, 200), 150
        few = fit(loss, data.at(np.arange(kept)), tol=1e-10)
        many = fit_many(loss, data, kept=kept, offset=few.intercept)
        away = kernel_of(data.X)[kept:, :kept] @ few.alpha + few.intercept
        assert spread(many.held - away) < 0.15 * spread(away)

    @of_many_rows
    def test_weights_are_numbers_of_observations(self, loss):
        data = observations(loss, 120, weighted=False)
        twice = Observations.of_rows(data.X, data.target, np.full(120, 2.0))
        asked = {"offset": np.zeros(data.target.shape[1]), "kept": 100}
        one, other = (fit_many(loss, rows, ridge=r, **asked) for rows, r in ((data, 0.05), (twice, 0.1)))
        assert other.alpha == pytest.approx(one.alpha, rel=1e-3, abs=1e-3)

    @of_many_rows
    def test_each_observation_at_a_row_is_seen_by_the_loss(self, loss):
        data, rng = observations(loss, 80, weighted=False), np.random.default_rng(5)
        again = np.repeat(np.arange(80), 3)
        targets = targets_for(loss, data.X[again], seed=8)
        if isinstance(loss, Huber):
            targets[::40] = 1e4  # of which a mean would be as absurd
        unit = rng.uniform(0.5, 2, size=240)
        several = Observations(data.X, row=again, target=targets, unit=unit, count=np.ones(240))
        few = fit(loss, several, tol=1e-10)
        many = fit_many(loss, several, offset=few.intercept, kept=60)
        outputs = kernel_of(data.X) @ many.alpha + few.intercept
        assert spread(outputs - few.outputs) < 0.15 * spread(few.outputs)

    @of_many_rows
    def test_larger_ridges_are_taken_while_rows_held_out_gain(self, loss):
        data = observations(loss, 200, weighted=False)
        order = np.random.default_rng(3).permutation(200)
        noise = Observations.of_rows(data.X, data.target[order], np.ones(200))
        asked = {"kept": 150, "offset": np.zeros(data.target.shape[1]), "ridge": 1e-3}
        stays, grows = (fit_many(loss, noise, larger=one, **asked) for one in (False, True))
        assert stays.ridge == 1e-3 < grows.ridge
        held = noise.at(np.arange(150, 200))
        assert mean_loss(loss, held, grows.held) < mean_loss(loss, held, stays.held)

    @of_many_rows
    def test_what_is_not_finite_is_no_fit(self, loss):
        data = observations(loss, 60)
        with np.errstate(invalid="ignore"):
            assert fit_many(loss, data, offset=np.full(data.target.shape[1], np.nan), kept=40) is None
