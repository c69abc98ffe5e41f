"""Every fit ends by checking itself: a solver that fails is noticed, whatever the way, and repaired or refused."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from few import friedman, of_few
from naive import kernel_ridge
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from thresher import InvalidInput, ThresherRegressor
from thresher.algebra.descent import Descent
from thresher.estimators.data.lift import lift_rows
from thresher.estimators.data.observations import Observations
from thresher.estimators.judging.holdout import refine
from thresher.estimators.kernels.kernel import SphereKernel
from thresher.estimators.models import beyond, exact, fit_check, interpolation, networks
from thresher.estimators.models.fit_check import Asked, check_answers
from thresher.estimators.pipeline.few_rows import FewRows
from thresher.estimators.processor import Cpu
from thresher.model.network import Network
from thresher.training import Status

GIVEN = {
    "random_state": 0,
    "shift": 0.5,
    "bias": 1.0,
    "feature_learning": 0,
    "scale": "standardise",
    "target": "linear",
}
RIDGE = 0.01
WAYS = ["few", "network", "exact", "many networks", "centres", "leaves"]
FAULTS = ["zeros", "garbage", "nan", "another ridge"]
CASES = [*((way, fault) for way in WAYS for fault in FAULTS), ("exact", "given up")]  # after no step


@pytest.fixture(scope="module")
def table():
    return friedman(320, noise=1.0)


def model_of(way):
    width = {"network": 256, "many networks": 256}.get(way, math.inf)
    approximation = way if way in ("centres", "leaves") else "exact"
    model = ThresherRegressor(**GIVEN, ridge=RIDGE, width=width, approximation=approximation)
    return model if way in ("few", "network") else of_few(model)


def spoilt(fault, alpha):
    """Coefficients as a failed solver might return them."""
    if fault == "garbage":
        return np.random.default_rng(0).normal(size=alpha.shape) * (np.abs(alpha).max() or 1.0)
    return np.full_like(alpha, math.nan if fault == "nan" else 0.0)


class Sabotage:
    """The last solve of a fit fails some times."""

    def __init__(self, monkeypatch, way, fault, times):
        self.fault, self.left = fault, times
        if way == "few":
            self.wrap(monkeypatch, FewRows, "_solved", self.few)
        elif way == "exact":
            self.wrap(monkeypatch, exact, "refine", self.refine)
        elif way in ("network", "many networks"):
            self.wrap(monkeypatch, networks, "train_penalised", self.network)
        else:
            self.wrap(monkeypatch, beyond, f"fit_{way}", self.approximate)

    def wrap(self, monkeypatch, room, name, wrong):
        right = getattr(room, name)

        def solve(*args, **more):
            if self.left <= 0:
                return right(*args, **more)
            self.left -= 1
            return wrong(right, *args, **more)

        monkeypatch.setattr(room, name, solve)

    def few(self, right, route, judge, matrix, ridge):
        found = right(route, judge, matrix, ridge)
        if self.fault == "another ridge":  # with what the right one claims
            return found._replace(alpha=right(route, judge, matrix, 100 * ridge).alpha)
        alpha, data = spoilt(self.fault, found.alpha), route._at
        return found._replace(alpha=alpha, outputs=data.targets - found.noise / data.weights[:, None] * alpha)

    def refine(self, right, matrix, low, data, **more):
        alpha, residual = right(matrix, low, data, **more)
        if self.fault == "another ridge":
            return right(matrix, low, data, **more | {"ridge": 100 * more["ridge"]})[0], residual
        return (more["start"] if self.fault == "given up" else spoilt(self.fault, alpha)), residual

    def network(self, right, inputs, targets, *, penalty, first=None, **more):
        good = right(inputs, targets, penalty=penalty, first=first, **more)
        if self.fault == "another ridge":
            bad = right(inputs, targets, penalty=100 * penalty, **more | {"near": None})
        elif self.fault == "garbage":
            bad = right(inputs, spoilt("garbage", targets), penalty=penalty, **more | {"near": None})
        else:
            bad = right(inputs, 1e-9 * targets, penalty=penalty, **more | {"near": None})
        factor = math.nan if self.fault == "nan" else 1.0
        worse = [one.network if factor == 1.0 else _not_numbers(one.network) for one in bad]
        return [replace(one, network=network) for one, network in zip(good, worse, strict=True)]

    def approximate(self, right, *args, ridges, **more):
        made = right(*args, ridges=ridges, **more)
        other = right(*args, ridges=[100 * one for one in ridges], **more) if self.fault == "another ridge" else None
        alpha = spoilt(self.fault, made.alpha) if other is None else other.alpha
        return made._replace(alpha=alpha) if hasattr(made, "_replace") else replace(made, alpha=alpha)


def _not_numbers(network):
    weights = network.weights
    return Network(network.settings, weights._replace(moved=np.full_like(weights.moved, math.nan)))


@pytest.mark.parametrize(("way", "fault"), CASES)
def test_a_solver_that_fails_once_is_repaired_and_it_is_said(way, fault, table, monkeypatch):
    sabotage = Sabotage(monkeypatch, way, fault, times=1)
    with pytest.warns(ConvergenceWarning, match="made again with more care, with ridge=0.01"):
        model = model_of(way).fit(*table)
    assert sabotage.left == 0
    assert model.fit_check_.repeated == 1
    healthy = model_of(way).fit(*table)  # the sabotage is over
    assert healthy.fit_check_.repeated == 0
    assert not healthy.fit_check_.failure
    assert model.ridge_ == healthy.ridge_
    expected = healthy.predict(table[0])
    assert np.sqrt(np.mean((model.predict(table[0]) - expected) ** 2)) < 0.15 * table[1].std()


@pytest.mark.parametrize(("way", "fault"), [case for case in CASES if case[1] in ("zeros", "given up")])
def test_a_solver_that_always_fails_is_refused(way, fault, table, monkeypatch):
    Sabotage(monkeypatch, way, fault, times=math.inf)
    model = model_of(way)
    with pytest.raises(InvalidInput, match=r"does not agree with itself on \d+ rows: its .* made again 4 times"):
        model.fit(*table)
    with pytest.raises(NotFittedError):
        model.predict(table[0])


class TestWithoutAnyWorkingSolver:
    """All that is known comes from the same solver: choices too. The fit to few rows is by another."""

    @pytest.mark.parametrize("way", ["exact", "centres", "leaves"])
    def test_conjugate_gradients_that_return_zeros(self, way, table, monkeypatch):
        step = Descent.step

        def nothing(descent):
            step(descent)
            descent.values, descent.images = 0.0 * descent.values, 0.0 * descent.images

        monkeypatch.setattr(Descent, "step", nothing)
        with pytest.raises(InvalidInput, match="does not agree with itself"):
            model_of(way).fit(*table)


class TestInterpolation:
    def fit(self, table):
        return ThresherRegressor(ridge=0, width=4096, random_state=0).fit(table[0][:40], table[1][:40])

    def test_what_was_compared_is_told(self, table):
        check = self.fit(table).fit_check_
        assert check.rows == 40
        assert check.distance <= check.allowed < 1e-3
        assert math.isnan(check.left_out_error)

    def test_another_network_is_refused(self, table, monkeypatch):
        train = interpolation.train

        def swapped(inputs, targets, **options):
            pairs = (train(inputs, some, **options).outputs for some in (targets, targets[::-1]))
            outputs = [replace(right, network=wrong.network) for right, wrong in zip(*pairs, strict=True)]
            return SimpleNamespace(outputs=outputs)

        monkeypatch.setattr(interpolation, "train", swapped)
        with pytest.raises(InvalidInput, match="do not answer as they did in training"):
            self.fit(table)


def test_a_training_that_is_stopped_on_request_is_neither_repeated_nor_refused(table):
    model = model_of("network").set_params(callbacks=[lambda record: True], tol=0.0).fit(*table)
    assert model.results_[0].status is Status.INTERRUPTED
    assert model.fit_check_.repeated == 0
    assert math.isnan(model.fit_check_.distance)


def test_an_interrupt_before_the_check_leaves_no_model(table, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(fit_check, "check_answers", interrupt)
    model = model_of("few")
    with pytest.raises(KeyboardInterrupt):
        model.fit(*table)
    with pytest.raises(NotFittedError):
        model.predict(table[0])


@pytest.mark.parametrize("seed", range(20))
def test_a_ridge_regression_is_nearer_to_rows_it_is_given_than_when_they_are_left_out(seed):
    """What the bound on the error rests on, with weights and targets of any kind."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(30, rng.integers(1, 20)))
    kernel, y = rows @ rows.T, rng.standard_t(1.5, size=30)
    weights, penalty = 10 ** rng.uniform(-3, 3, size=30), 10 ** rng.uniform(-3, 1)
    held = rng.permutation(30)[: rng.integers(1, 29)]
    kept = np.setdiff1d(np.arange(30), held)
    alpha = kernel_ridge(kernel[np.ix_(kept, kept)], y[kept], weights[kept], penalty)
    left_out = y[held] - kernel[np.ix_(held, kept)] @ alpha
    given = y[held] - kernel[held] @ kernel_ridge(kernel, y, weights, penalty)
    assert weights[held] @ given**2 <= weights[held] @ left_out**2 * (1 + 1e-9)


@pytest.mark.parametrize("kind", ["residuals that grow", "not a number"])
def test_a_solve_never_ends_farther_off_than_it_began(kind, monkeypatch):
    """Rows all but equal and a tiny ridge: in single precision the system has eigenvalues below zero."""
    rng = np.random.default_rng(0)
    rows = np.repeat(rng.normal(size=(100, 3)), 6, axis=0) + 1e-6 * rng.normal(size=(600, 3))
    inputs = lift_rows(rows, 1.0)[0].astype(np.float32)
    data = Observations(rows, row=np.arange(600), target=np.sin(rows[:, :1]), unit=np.ones(600), count=np.ones(600))
    backend = Cpu(1)
    matrix = backend.operator(SphereKernel(1.0, 0.5), inputs, memory=math.inf)
    low = backend.pivots(matrix, rank=60)
    if kind == "not a number":
        step = Descent.step

        def broken(descent):
            step(descent)
            descent.values, descent._residual = math.nan * descent.values, math.nan * descent._residual

        monkeypatch.setattr(Descent, "step", broken)
    solve = {"backend": backend, "residual": 1e-9, "steps": 60, "ridge": 1e-5}
    start = np.zeros((600, 1))
    for _ in range(3):  # goes on from where it ended
        alpha, claimed = refine(matrix, low, data, start=start, **solve)
        left = [
            np.linalg.norm(data.targets - matrix.times(one) - 1e-5 * matrix.diagonal * one) for one in (start, alpha)
        ]
        assert left[1] <= left[0] * 1.01
        assert claimed * np.linalg.norm(data.targets) == pytest.approx(left[1], rel=0.2, abs=1e-4)
        start = alpha


@pytest.mark.parametrize("way", ["exact", "centres", "leaves"])
@pytest.mark.parametrize("part", ["left out", "kept"])
@pytest.mark.parametrize("others", ["noisy", "equal"])
def test_one_target_far_from_all_others_is_no_fault(way, part, others):
    """It affects its neighbours, and a fit to few rows may not have it."""
    X, y = friedman(600, noise=1.0)
    y = (y - y.mean()) / y.std() if others == "noisy" else np.zeros_like(y)
    data = Observations.merged(X, y[:, None])
    place = data.random_order()[110 if part == "left out" else -1]  # 120 are left out
    y[np.flatnonzero((data.X[place] == X).all(axis=1))] = 1e3
    model = of_few(ThresherRegressor(**GIVEN, width=math.inf, approximation=way), few_rows=64).fit(X, y)
    assert model.fit_check_.repeated == 0


@pytest.mark.parametrize(("size", "wrong"), [(0.01, True), (1.0, False)])
def test_few_rows_are_compared_where_they_explain_something_of_all_targets(size, wrong):
    """One target far from all others is most of the variance: what few rows know of the rest is next to nothing."""
    targets = np.full((50, 1), 0.01)
    data = Observations.merged(np.arange(50.0)[:, None], targets)
    asked = Asked(data.X, data, targets + 0.03, None, 0.0, 0.0, few_rows=data.targets, size=size)
    assert bool(check_answers(asked, data.targets + 0.03).failure) == wrong


def test_a_solve_may_leave_a_share_of_all_targets_where_those_asked_about_are_small():
    data = Observations.merged(np.arange(50.0)[:, None], np.full((50, 1), 0.05))
    asked = Asked(data.X, data, data.targets + 0.9, data.targets, 0.4, 0.0, size=1.0)
    assert not check_answers(asked, data.targets + 0.07).failure
    assert check_answers(asked._replace(size=math.nan), data.targets + 0.07).failure
