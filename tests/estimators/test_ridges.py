"""One grid of ridges: every search chooses from it, and can reach both of its ends."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thresher.estimators import centres, conjugate_gradients, fit, leave_one_out, leaves, ridges, solve
from thresher.estimators.centres import fit_centres
from thresher.estimators.data.lift import lift_rows
from thresher.estimators.data.observations import Observations
from thresher.estimators.kernel import SphereKernel
from thresher.estimators.leave_one_out import fit_kernel
from thresher.estimators.leaves import fit_leaves
from thresher.estimators.processor import Cpu
from thresher.estimators.ridges import RIDGES, best_ridge, nearest, ridge_beyond, ridges_near
from thresher.estimators.settings import Sizes
from thresher.estimators.solve import ManyRows, solve_by_gradients

LEAST, LARGEST = RIDGES[0], RIDGES[-1]
KERNEL = SphereKernel(1.0, 0.5)


def test_there_is_one_grid_and_one_way_to_go_beyond_what_was_tried():
    assert leave_one_out.RIDGES is RIDGES
    assert {one.best_ridge for one in (conjugate_gradients, centres, leaves)} == {ridges.best_ridge}
    assert solve.search_ridges is conjugate_gradients.search_ridges
    assert fit.ridges_near is ridges.ridges_near
    assert (LEAST, LARGEST) == (1e-5, 1e3)
    assert all(nearest(ridge) == place for place, ridge in enumerate(RIDGES))


@given(best=st.integers(0, len(RIDGES) - 1), guess=st.floats(1e-9, 1e9))
def test_from_any_guess_the_search_reaches_any_ridge(best, guess):
    def error(ridge):
        return abs(nearest(ridge) - best)

    errors = {ridge: error(ridge) for ridge in ridges_near(guess)}
    assert best_ridge(errors, error) == RIDGES[best]
    assert len(errors) == len(set(map(nearest, errors)))


def test_a_ridge_that_was_asked_for_stays():
    assert ridge_beyond(0.07, [0.07]) is None
    assert best_ridge({0.07: 1.0}, lambda ridge: pytest.fail("tried another")) == 0.07


def test_where_no_kernel_is_positive_larger_ridges_are_tried():
    assert best_ridge(dict.fromkeys(ridges_near(1e-4), math.inf), lambda r: math.inf if r < 1e-2 else r) == RIDGES[6]


def noise_only():
    """Return observations of noise, and which of them are left out; those are 0: their error falls with the ridge."""
    rng = np.random.default_rng(0)
    rows, targets = rng.normal(size=(400, 4)), rng.normal(size=(400, 1))
    targets[:100] = 0.0
    data = Observations.merged(rows, targets)
    return data, np.flatnonzero(data.targets[:, 0]), np.flatnonzero(data.targets[:, 0] == 0)


@pytest.mark.parametrize("guess", [1e-5, 1e-2, 1e3])
@pytest.mark.parametrize("way", ["exact", "centres", "leaves"])
def test_every_search_reaches_the_ridge_for_noise(guess, way):
    data, kept, held = noise_only()
    order, weights, cpu = np.concatenate([kept, held]), np.ones(400), Cpu(1)
    some = {"kernel": KERNEL, "ridges": ridges_near(guess), "backend": cpu}
    inputs = lift_rows(data.X, 1.0)[0].astype(np.float32)
    if way == "exact":
        given = ManyRows(data, kept, held, sizes=Sizes(), **some)
        found = solve_by_gradients(inputs, given, tell=lambda share: None).ridge
    elif way == "centres":
        made = fit_centres(inputs, data.targets, weights, kept=kept, held=held, **some, centres=100)
        assert np.mean(made.held_outputs**2) == pytest.approx(made.errors[made.ridge])
        found = made.ridge
    else:
        made = fit_leaves(data.X[order], data.targets[order], weights, held=100, **some, size=150)
        assert made.ridge == min(made.errors, key=made.errors.get)
        found = made.ridge
    assert found == LARGEST


def of_few_rows(targets, guess, **more):
    rows = np.random.default_rng(2).normal(size=(60, 3))
    data = Observations.merged(rows, targets(rows))
    matrix, asked = Cpu(1).dense(KERNEL, lift_rows(data.X, 1.0)[0]), {"diagonal": KERNEL.diagonal, "last": 60}
    return fit_kernel(matrix, data, guess=guess, **asked, **{"ridge": None, **more})


def test_few_rows_reach_both_ends():
    noise = np.random.default_rng(3).normal(size=(60, 1))
    for guess in (LEAST, LARGEST):
        assert of_few_rows(lambda rows: noise, guess).ridge == LARGEST
        found = of_few_rows(lambda rows: rows[:, :1], guess)
        assert (
            found.ridge <= 1e-4
            and found.error < 1.001 * of_few_rows(lambda rows: rows[:, :1], LEAST, ridge=LEAST).error
        )


def test_ridges_that_change_nothing_are_not_tried():
    tried = []
    found = of_few_rows(lambda rows: np.sign(rows[:, :1] * rows[:, 1:2]), 1e-3, tell=tried.append)
    least = of_few_rows(lambda rows: np.sign(rows[:, :1] * rows[:, 1:2]), 1e-3, ridge=LEAST)
    assert found.ridge > LEAST and least.error < found.error < 1.001 * least.error
    assert tried == list(range(1, 2 + nearest(1e-3) - nearest(found.ridge)))


def test_ridges_near_an_end_are_the_last_three():
    assert ridges_near(RIDGES[0] / 10) == list(RIDGES[:3]) and ridges_near(RIDGES[-1] * 10) == list(RIDGES[-3:])


@pytest.mark.parametrize(("ratio", "goes_on"), [(1.005, True), (1.05, False)])
def test_from_the_least_ridge_a_flat_error_leads_upwards(ratio, goes_on):
    """Errors of fits that follow noise hardly differ; those that rise clearly say that less is better."""
    errors, tried = dict(zip(RIDGES[:3], (1.0, ratio, ratio), strict=True)), []
    best = best_ridge(errors, lambda ridge: tried.append(ridge) or (0.5 if ridge == RIDGES[4] else ratio))
    assert bool(tried) == goes_on and best == (RIDGES[4] if goes_on else RIDGES[0])
