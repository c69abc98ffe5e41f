"""Losses in training: every loss, every way to train, against the definition."""

import re

import naive
import numpy as np
import pytest
from scipy.optimize import minimize

from thresher import (
    Callback,
    CheckTheorems,
    InvalidInput,
    Problem,
    Status,
    load,
    replay,
    to_sphere,
    train,
    train_together,
)
from thresher.losses import (
    LOSSES,
    Huber,
    Logistic,
    Poisson,
    Quantile,
    Squared,
    choose_loss,
    describe_loss,
    fit_parabolas,
)
from thresher.training.objectives import Interpolation

N, D, SHIFT = 30, 6, 0.7
OPTIONS = {"width": 800, "shift": SHIFT, "seed": 3, "twins": True}


class LogCosh:
    """A loss of a user: log cosh (f - y), with nothing but what is needed."""

    def value(self, f, y):
        return np.logaddexp(f - y, y - f) - np.log(2)

    def slope(self, f, y):
        return np.tanh(f - y)

    def curvature(self, f, y):
        return np.maximum(1 - np.tanh(f - y) ** 2, 1e-6)


SCALAR = {
    "squared": Squared(), "logistic": Logistic(), "huber": Huber(0.7), "quantile": Quantile(0.7, width=0.1),
    "poisson": Poisson(), "log cosh": LogCosh(),
}  # fmt: skip
every_loss = pytest.mark.parametrize("name", SCALAR)
other_losses = pytest.mark.parametrize("name", list(SCALAR)[1:])


def inputs(n=N):
    return to_sphere(np.random.default_rng(4).normal(size=(n, D)))


def targets(name, n=N):
    rng = np.random.default_rng(5)
    if name == "logistic":
        return (rng.random(n) < 0.5).astype(float)
    return rng.poisson(3.0, n).astype(float) if name == "poisson" else rng.normal(size=n)


def start_of(result):
    start, m = result.network.settings.start, result.network.width
    return start.block(0, m).astype(float), start.signs(np.arange(m))


def fit(name, **options):
    return train(inputs(), targets(name), loss=SCALAR[name], **OPTIONS | options)


class TestDerivatives:
    @every_loss
    def test_slopes_are_differences(self, name):
        loss, f, y = choose_loss(SCALAR[name]), np.linspace(-3, 3, 400), targets(name, 400)
        small = 1e-6
        slopes = (loss.value(f + small, y) - loss.value(f - small, y)) / (2 * small)
        np.testing.assert_allclose(loss.slope(f, y), slopes, atol=1e-6)

    @pytest.mark.parametrize("name", ["squared", "logistic", "poisson", "log cosh"])
    def test_curvatures_are_differences_of_slopes(self, name):
        loss, f, y = choose_loss(SCALAR[name]), np.linspace(-3, 3, 400), targets(name, 400)
        curvatures = (loss.slope(f + 1e-6, y) - loss.slope(f - 1e-6, y)) / 2e-6
        np.testing.assert_allclose(loss.curvature(f, y), curvatures, atol=1e-5)

    @pytest.mark.parametrize("name", ["huber", "quantile"])
    def test_parabolas_lie_above_the_loss(self, name):
        loss, y = SCALAR[name], np.zeros(1)
        there = np.linspace(-20, 20, 4001)
        for f in np.linspace(-5, 5, 21):
            at = np.full(1, f)
            bow = loss.value(at, y) + loss.slope(at, y) * (there - f) + loss.curvature(at, y) * (there - f) ** 2 / 2
            assert (bow >= loss.value(there, np.zeros(4001)) - 1e-12).all()

    @every_loss
    def test_no_output_has_less_than_the_least(self, name):
        loss, y = choose_loss(SCALAR[name]), targets(name)
        for f in np.linspace(-8, 8, 65):
            assert (loss.value(np.full(N, f), y) >= loss.least(y) - 1e-12).all()

    @pytest.mark.parametrize("name", ["squared", "huber", "quantile", "log cosh", "poisson", "logistic"])
    def test_the_least_is_reached_or_approached(self, name):
        loss, y = choose_loss(SCALAR[name]), targets(name)[:5]
        for place in range(5):
            found = minimize(lambda f, at=y[place : place + 1]: loss.value(f, at)[0], [0.1], method="Nelder-Mead")
            assert found.fun == pytest.approx(loss.least(y)[place], abs=1e-3)


class TestParabolas:
    @pytest.mark.parametrize("name", ["squared", "huber", "quantile"])
    def test_those_above_the_loss_are_believed(self, name):
        f, y = np.linspace(-50, 50, N), targets(name)
        np.testing.assert_array_equal(fit_parabolas(SCALAR[name], f, y).curvature, SCALAR[name].curvature(f, y))

    @pytest.mark.parametrize(
        ("name", "f", "y"), [("logistic", -8.0, 1.0), ("poisson", 0.0, 1000.0), ("log cosh", 6.0, 0.0)]
    )
    def test_a_step_that_goes_too_far_is_shortened_until_the_row_gains(self, name, f, y):
        loss, f, y = choose_loss(SCALAR[name]), np.full(1, f), np.full(1, float(y))
        plain, step = loss.slope(f, y) / loss.curvature(f, y), fit_parabolas(loss, f, y).step
        assert abs(step[0]) < abs(plain[0]) / 2
        assert loss.value(f - step, y) < loss.value(f, y)
        assert loss.value(f - step, y) < 0.5 * loss.value(f, y)

    @every_loss
    def test_against_the_definition(self, name):
        loss, f, y = choose_loss(SCALAR[name]), np.linspace(-9, 9, N), targets(name)
        slope, curvature = naive.narrow(loss, f, y)
        found = fit_parabolas(loss, f, y)
        np.testing.assert_allclose(found.slope, slope)
        np.testing.assert_allclose(found.curvature, curvature)


class TestSteps:
    @every_loss
    @pytest.mark.parametrize("index", ["certified", "scan", "tournament", "dense"])
    def test_one_step_is_that_of_the_definition(self, name, index):
        options = {
            "first_step": "gram",
            "dtype": "float64",
            "max_iterations": 1,
            "index": index,
            "tol": 1e-9,
            "width": 200,
        }
        result = fit(name, **options)
        W0, signs = start_of(result)
        fraction = result.history[1].step
        (W,) = naive.loss_steps(
            W0,
            signs,
            inputs(),
            targets(name),
            choose_loss(SCALAR[name]),
            shift=SHIFT,
            fractions=[fraction],
        )
        np.testing.assert_allclose(result.network.weights.vectors(range(200)), W, atol=1e-8)

    @every_loss
    def test_it_ends_at_the_loss_that_was_asked_for(self, name):
        result = fit(name, tol=1e-3, width=1 << 15, audit=True)
        assert result.status == Status.CONVERGED, result
        loss, y, f = choose_loss(SCALAR[name]), targets(name), result.network.predict(inputs())
        if name != "squared":
            assert 1e-9 < np.mean(loss.value(f, y) - loss.least(y)) <= 1.001e-3
            assert result.remainder == pytest.approx(np.mean(loss.value(f, y) - loss.least(y)), rel=1e-2)
        assert result.audited > 0
        assert result.history[-1].loss == pytest.approx(loss.value(f, y).sum(), rel=1e-3, abs=1e-6)
        assert result.history[-1].residual == pytest.approx(np.linalg.norm(loss.slope(f, y)), rel=1e-3, abs=1e-5)
        assert result.loss == describe_loss(loss)

    def test_inputs_with_little_enough_loss_stay_where_they_are(self):
        aim = Interpolation(Problem(inputs(), targets("logistic")), loss=Logistic(), enough=0.01)
        f = (2 * targets("logistic") - 1) * np.where(np.arange(N) % 2, 5.0, 4.0)
        assert (np.flatnonzero(aim.right_hand_side(f) == 0) == np.arange(1, N, 2)).all()

    def test_squares_as_a_loss_of_ones_own_walk_the_same_path(self):
        class Own:
            value, slope, curvature = Squared().value, Squared().slope, Squared().curvature

        ours, theirs = fit("squared", tol=1e-3), train(inputs(), targets("squared"), loss=Own(), tol=1e-6, **OPTIONS)
        for one, other in zip(ours.history[:2], theirs.history[:2], strict=True):
            assert (one.flips, one.looks, one.residual) == (other.flips, other.looks, other.residual)

    @pytest.mark.parametrize("solver", ["cholesky", "sketched", "cg", "pivots", "auto"])
    @pytest.mark.parametrize("name", ["logistic", pytest.param("poisson", marks=pytest.mark.thorough)])
    def test_every_solver_ends(self, name, solver):
        assert fit(name, solver=solver, tol=1e-2, width=1 << 13).status == Status.CONVERGED

    @pytest.mark.parametrize("start", ["hadamard", "poisson"])
    def test_every_start(self, start):
        assert fit("logistic", start=start, tol=1e-2, width=4000).status == Status.CONVERGED

    @pytest.mark.parametrize("more", [{"twins": False}, {"method": "paper"}, {"first_step": "gram"}, {"damping": 1e-3}])
    def test_other_options(self, more):
        assert fit("logistic", tol=1e-2, **{"width": 4000, **more}).status == Status.CONVERGED


class TestRuns:
    @other_losses
    def test_threads_and_together_change_no_bit(self, name):
        options, problem = {"tol": 1e-2, "max_iterations": 4}, Problem(inputs(), targets(name))
        both = train_together([problem] * 2, loss=SCALAR[name], threads=1, **OPTIONS, **options)
        alone = fit(name, threads=3, **options)
        for one in both:
            assert [r.loss for r in one.history] == [r.loss for r in alone.history]
            np.testing.assert_array_equal(one.network.predict(inputs()), alone.network.predict(inputs()))

    @other_losses
    def test_a_resumed_run_is_the_same(self, name, tmp_path):
        options, path = {"tol": 1e-2}, tmp_path / "checkpoint"
        whole = fit(name, **options, max_iterations=5)
        fit(name, **options, checkpoint=path, max_iterations=2)
        resumed = fit(name, **options, checkpoint=path, resume=True, max_iterations=5)
        assert [r.loss for r in resumed.history] == [r.loss for r in whole.history]
        np.testing.assert_array_equal(resumed.network.predict(inputs()), whole.network.predict(inputs()))

    @pytest.mark.parametrize("other", ["squared", "quantile", Huber(0.5)])
    def test_a_checkpoint_of_another_loss_is_refused(self, other, tmp_path):
        path = tmp_path / "checkpoint"
        train(inputs(), targets("huber"), loss="huber", checkpoint=path, max_iterations=1, **OPTIONS)
        with pytest.raises(InvalidInput, match="loss"):
            train(inputs(), targets("huber"), loss=other, checkpoint=path, resume=True, **OPTIONS)

    def test_replay_and_files(self, tmp_path):
        result = fit("logistic", tol=1e-2)
        again = replay(Problem(inputs(), targets("logistic")), steps=result.steps, **OPTIONS)
        np.testing.assert_array_equal(again.predict(inputs()), result.network.predict(inputs()))
        for form in ("full", "recipe"):
            result.save(tmp_path / form, form=form)
            loaded = load(tmp_path / form)
            assert loaded.loss == "Logistic()"
            assert [r.loss for r in loaded.history] == [r.loss for r in result.history]
            np.testing.assert_array_equal(loaded.network.predict(inputs()), result.network.predict(inputs()))

    def test_statements_about_squares_are_not_made_of_other_losses(self):
        names = {}
        for loss in ("squared", "logistic"):
            result = train(inputs(), targets("logistic"), loss=loss, tol=1e-1, callbacks=[CheckTheorems()], **OPTIONS)
            names[loss] = [{one.name for one in record.statements} for record in result.history]
        assert names["squared"][0] == names["logistic"][0]
        assert names["logistic"][1] < names["squared"][1]
        assert all("firing" in name for name in names["logistic"][1])

    def test_callbacks_see_outputs_and_slopes(self):
        seen = []

        class Look(Callback):
            def certify(self, record, state):
                seen.append((record, state))
                return ()

        fit("logistic", tol=1e-1, callbacks=[Look()])
        for record, state in seen:
            np.testing.assert_array_equal(state.loss.slope(state.outputs, targets("logistic")), state.residual)
            assert record.residual == np.linalg.norm(state.residual)


class TestRefusals:
    @pytest.mark.parametrize("loss", ["hinge", None, 3, Logistic, LogCosh, object()])
    def test_what_is_no_loss(self, loss):
        with pytest.raises(InvalidInput, match=r"loss must be one of 'squared', .* value, slope and curvature; got"):
            train(inputs(), targets("huber"), loss=loss, **OPTIONS)

    @pytest.mark.parametrize(
        ("name", "wrong"), [("logistic", -1.0), ("logistic", 2.0), ("poisson", -1.0), ("poisson", 1e15)]
    )
    def test_targets_that_have_no_loss(self, name, wrong):
        y = targets(name)
        y[3] = wrong
        with pytest.raises(InvalidInput, match=f"loss='{name}' takes .* row 3 has {re.escape(f'{wrong:g}')}"):
            train(inputs(), y, loss=name, **OPTIONS)

    @pytest.mark.parametrize(
        ("method", "returned", "message"),
        [
            ("curvature", 0.0, "curvature of a loss must be above 0; that of row 0 is 0.0. Hold it above"),
            ("curvature", -1.0, "curvature of a loss must be above 0; that of row 0 is -1"),
            ("curvature", np.nan, "curvature of a loss must be finite; that of row 0 is nan"),
            ("slope", np.inf, "slope of a loss must be finite; that of row 0 is inf"),
            ("value", np.nan, "value of a loss must be finite; that of row 0 is nan"),
        ],
    )
    def test_numbers_that_cannot_be_used(self, method, returned, message):
        loss = LogCosh()
        setattr(loss, method, lambda f, y: np.full_like(f, returned))
        with pytest.raises(InvalidInput, match=message):
            train(inputs(), targets("huber"), loss=loss, **OPTIONS)

    def test_lists_in_place_of_arrays(self):
        loss, plain = LogCosh(), LogCosh()
        for name in ("value", "slope", "curvature"):
            setattr(loss, name, lambda f, y, name=name: getattr(plain, name)(f, y).tolist())
        found, wanted = (
            train(inputs(), targets("huber"), loss=one, max_iterations=2, **OPTIONS) for one in (loss, plain)
        )
        assert found.history[-1].loss == wanted.history[-1].loss

    @pytest.mark.parametrize(
        ("least", "message"),
        [(np.nan * np.ones(30), "must be finite"), (np.zeros(3), "shape"), (0.0, "shape")],
    )
    def test_a_least_that_cannot_be_used(self, least, message):
        loss = LogCosh()
        loss.least = lambda y: least
        with pytest.raises(InvalidInput, match=f"least of a loss must .*{message}|least of a loss {message}"):
            train(inputs(), targets("huber"), loss=loss, **OPTIONS)

    def test_an_own_loss_of_all_outputs_is_named(self):
        loss = LogCosh()
        loss.joint = True
        with pytest.raises(InvalidInput, match=r"softmax' alone; got .*LogCosh"):
            train(inputs(), targets("huber"), loss=loss, **OPTIONS)

    def test_a_sum_in_place_of_values(self):
        loss = LogCosh()
        loss.value = lambda f, y: np.sum((f - y) ** 2)
        with pytest.raises(InvalidInput, match=r"value of a loss must return shape \(30,\); it returned \(\)"):
            train(inputs(), targets("huber"), loss=loss, **OPTIONS)

    def test_a_loss_that_writes_to_outputs(self):
        loss = LogCosh()

        def slope(f, y):
            f -= y
            return np.tanh(f)

        loss.slope = slope
        with pytest.raises(ValueError, match="read-only"):
            train(inputs(), targets("huber"), loss=loss, **OPTIONS)

    def test_values_below_the_least(self):
        loss, plain = LogCosh(), LogCosh().value
        loss.value = lambda f, y: plain(f, y) - 1
        with pytest.raises(InvalidInput, match=r"the loss of row \d+ fell to .*, below 0, .* method least"):
            train(inputs(), targets("huber"), loss=loss, **OPTIONS)

    def test_numbers_that_end_far_away_shorten_the_step(self):
        loss, plain = LogCosh(), LogCosh().value
        loss.value = lambda f, y: np.where(np.abs(f) > 1.5, np.nan, plain(f, y))
        result = train(inputs(), 0.5 * targets("logistic"), loss=loss, tol=1e-2, **OPTIONS)
        assert result.status == Status.CONVERGED

    @pytest.mark.parametrize("n", [1, 2])
    @other_losses
    def test_few_inputs_and_one_class(self, name, n):
        y = np.ones(n)
        result = train(inputs(n), y, loss=SCALAR[name], tol=1e-2, **OPTIONS)
        assert result.status == Status.CONVERGED


def test_losses_say_what_they_are():
    assert {describe_loss(choose_loss(name)) for name in LOSSES} == {
        "Squared()", "Logistic()", "Softmax()", "Huber(knee=1.0)", "Quantile(q=0.5, width=0.001)", "Poisson()",
    }  # fmt: skip
    own = LogCosh()
    assert describe_loss(choose_loss(own)) == "LogCosh()"
    own.width = 2
    assert describe_loss(choose_loss(own)) == "LogCosh(width=2)"
    long = np.arange(5000.0)
    own.width = long
    told = describe_loss(choose_loss(own))
    own.width = long.copy()
    assert describe_loss(choose_loss(own)) == told and len(told) < 100
    own.width[2500] += 1e-9
    assert describe_loss(choose_loss(own)) != told
