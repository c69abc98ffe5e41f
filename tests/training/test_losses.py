"""Losses in training: outputs that are near enough to the least loss, and networks that are trained towards them."""

import math
import re

import naive
import numpy as np
import pytest
from columns import replay, replay_columns, train_columns
from scipy.optimize import minimize, minimize_scalar

from thresher import (
    Callback,
    CheckTheorems,
    InvalidInput,
    Problem,
    Status,
    load,
    to_sphere,
    train,
)
from thresher.losses import (
    LOSSES,
    Huber,
    Logistic,
    Poisson,
    Quantile,
    Softmax,
    Squared,
    choose_loss,
    describe_loss,
)

N, D, K, SHIFT = 30, 6, 3, 0.7
OPTIONS = {"width": 800, "shift": SHIFT, "seed": 3, "twins": True}


class LogCosh:
    """A loss of a user: log cosh (f - y), with nothing but what is needed."""

    def targets(self, y, tol):
        return y

    def value(self, f, y):
        return np.logaddexp(f - y, y - f) - np.log(2)


class Exponential:
    """Another one, without a least output: exp(-y f) for y of -1 and 1."""

    def targets(self, y, tol):
        return -y * np.log(tol)

    def value(self, f, y):
        return np.exp(-y * f)


OURS = {
    "squared": Squared(), "logistic": Logistic(), "huber": Huber(0.7), "quantile": Quantile(0.7, width=0.1),
    "poisson": Poisson(), "softmax": Softmax(),
}  # fmt: skip
SCALAR = {name: loss for name, loss in OURS.items() if name != "softmax"} | {
    "log cosh": LogCosh(), "exponential": Exponential(),
}  # fmt: skip
of_ours = pytest.mark.parametrize("name", OURS)
every_loss = pytest.mark.parametrize("name", SCALAR)
other_losses = pytest.mark.parametrize("name", list(SCALAR)[1:])


def inputs(n=N):
    return to_sphere(np.random.default_rng(4).normal(size=(n, D)))


def targets(name, n=N):
    rng = np.random.default_rng(5)
    if name == "logistic":
        return (rng.random(n) < 0.5).astype(float)
    if name == "exponential":
        return np.sign(rng.normal(size=n))
    if name == "softmax":
        return np.eye(K)[rng.integers(0, K, n)]
    return rng.poisson(3.0, n).astype(float) if name == "poisson" else rng.normal(size=n)


def least_of(name, y):
    """The least loss of each row, by a search."""
    loss = SCALAR[name]
    search = [
        minimize_scalar(lambda f, at=y[i : i + 1]: loss.value(np.array([f]), at)[0], (-30, 30)) for i in range(len(y))
    ]
    return np.array([one.fun for one in search])


def start_of(result):
    start, m = result.network.settings.start, result.network.width
    return start.block(0, m).astype(float), start.signs(np.arange(m))


def fit(name, **options):
    return train(inputs(), targets(name), loss=SCALAR[name], **OPTIONS | options)


def classes(Y=None):
    return [Problem(inputs(), column) for column in (targets("softmax") if Y is None else Y).T]


def fit_classes(Y=None, **options):
    return train_columns(classes(Y), **{"loss": "log_loss", **OPTIONS, **options})


def outputs_of(results, X):
    return np.column_stack([one.network.predict(X) for one in results])


class TestDerivatives:
    """What the Newton method of the estimators asks for."""

    @pytest.mark.parametrize("name", list(OURS)[:-1])
    def test_slopes_are_differences(self, name):
        loss, f, y = OURS[name], np.linspace(-3, 3, 400), targets(name, 400)
        small = 1e-6
        slopes = (loss.value(f + small, y) - loss.value(f - small, y)) / (2 * small)
        np.testing.assert_allclose(loss.slope(f, y), slopes, atol=1e-6)

    @pytest.mark.parametrize("name", ["squared", "logistic", "poisson"])
    def test_curvatures_are_differences_of_slopes(self, name):
        loss, f, y = OURS[name], np.linspace(-3, 3, 400), targets(name, 400)
        curvatures = (loss.slope(f + 1e-6, y) - loss.slope(f - 1e-6, y)) / 2e-6
        np.testing.assert_allclose(loss.curvature(f, y), curvatures, atol=1e-5)

    @pytest.mark.parametrize("name", ["huber", "quantile"])
    def test_parabolas_lie_above_the_loss(self, name):
        loss, y = OURS[name], np.zeros(1)
        there = np.linspace(-20, 20, 4001)
        for f in np.linspace(-5, 5, 21):
            at = np.full(1, f)
            bow = loss.value(at, y) + loss.slope(at, y) * (there - f) + loss.curvature(at, y) * (there - f) ** 2 / 2
            assert (bow >= loss.value(there, np.zeros(4001)) - 1e-12).all()

    def test_slopes_of_several_outputs(self):
        rng = np.random.default_rng(0)
        F, Y, loss = rng.normal(size=(50, K)), rng.dirichlet(np.ones(K), 50), Softmax()
        loss.check(Y)
        for c in range(K):
            small = np.zeros(K)
            small[c] = 1e-6
            slopes = (loss.value(F + small, Y) - loss.value(F - small, Y)) / 2e-6
            np.testing.assert_allclose(loss.slope(F, Y)[:, c], slopes, atol=1e-8)

    def test_the_curvature_of_several_outputs_is_above_and_serves_as_an_inverse(self):
        F, Y = np.random.default_rng(0).normal(size=(20, K)), targets("softmax", 20)
        for p, h, slope in zip(naive.softmax(F), Softmax().curvature(F, Y), Softmax().slope(F, Y), strict=True):
            H = np.diag(p) - np.outer(p, p)
            assert np.linalg.eigvalsh(np.diag(h) - H).min() > -1e-12
            np.testing.assert_allclose(H @ (slope / h), slope, atol=1e-12)


class TestTargets:
    @pytest.mark.parametrize("tol", [1e-9, 1e-3, 0.3, 2.0])
    @every_loss
    def test_the_loss_there_is_within_the_tolerance_of_the_least(self, name, tol):
        loss, y = SCALAR[name], targets(name)
        above = loss.value(loss.targets(y, tol), y) - least_of(name, y)
        assert (above <= tol * (1 + 1e-9) + 1e-8).all()

    @pytest.mark.parametrize("tol", [1e-12, 1e-3, 0.5])
    def test_classes_are_met_to_the_tolerance(self, tol):
        y = targets("logistic")
        t = Logistic().targets(y, tol)
        np.testing.assert_allclose(t, np.where(y > 0, 1, -1) * math.log(1 / math.expm1(tol)), rtol=1e-9)
        np.testing.assert_allclose(Logistic().value(t, y), tol, rtol=1e-9)
        Y = targets("softmax")
        T = Softmax().targets(Y, tol)
        right, wrong = T[Y > 0], T[Y == 0].reshape(-1, K - 1)
        np.testing.assert_allclose(right[:, None] - wrong, math.log((K - 1) / math.expm1(tol)), rtol=1e-9)
        np.testing.assert_allclose(Softmax().value(T, Y), tol, rtol=1e-9, atol=1e-15)
        np.testing.assert_allclose(T.sum(axis=1), 0, atol=1e-12)

    def test_shares_of_classes_are_met_too(self):
        shares = np.linspace(0, 1, 41)
        entropy = naive_entropy(np.column_stack([shares, 1 - shares]))
        for tol in (1e-6, 1e-2, 0.4):
            above = Logistic().value(Logistic().targets(shares, tol), shares) - entropy
            assert (above > -1e-12).all() and (above <= tol * (1 + 1e-9)).all()
            Y = np.random.default_rng(0).dirichlet(0.3 * np.ones(K), 200)
            above = Softmax().value(Softmax().targets(Y, tol), Y) - naive_entropy(Y)
            assert (above > -1e-12).all() and (above <= tol * (1 + 1e-9)).all()

    def test_two_classes_are_one_output(self):
        y = np.linspace(0, 1, 11)
        T = Softmax().targets(np.column_stack([y, 1 - y]), 1e-3)
        np.testing.assert_allclose(T[:, 0] - T[:, 1], Logistic().targets(y, 1e-3), atol=1e-9)

    def test_a_loss_that_is_reached_at_once_asks_for_nothing(self):
        assert not Logistic().targets(targets("logistic"), math.log(2) * 1.01).any()
        np.testing.assert_allclose(Softmax().targets(targets("softmax"), math.log(K) * 1.01), 0, atol=1e-15)
        result = fit("logistic", tol=1.0)
        assert (result.status, len(result.history)) == (Status.CONVERGED, 2)

    @pytest.mark.parametrize("name", ["squared", "huber", "quantile"])
    def test_those_with_a_least_output_have_it(self, name):
        loss, y = OURS[name], targets(name)
        for i in range(5):
            found = minimize(lambda f, at=y[i : i + 1]: loss.value(f, at)[0], [0.1], method="Nelder-Mead")
            assert loss.targets(y, 1e-3)[i] == pytest.approx(found.x[0], abs=1e-3)

    def test_counts_are_met_nearly_exactly(self):
        y = np.array([0.0, 1e-9, 1.0, 1e6, 1e12])
        above = Poisson().value(Poisson().targets(y, 1e-3), y) - np.where(
            y > 0, y - y * np.log(np.maximum(y, 1e-300)), 0
        )
        np.testing.assert_allclose(above[:4], [1e-3, 1e-3, 5e-7, 0], rtol=2e-2, atol=1e-8)


def naive_entropy(Y):
    return -np.where(Y > 0, Y * np.log(np.where(Y > 0, Y, 1)), 0).sum(axis=1)


class TestTraining:
    @pytest.mark.parametrize("index", ["certified", "scan", "tournament", "dense"])
    @every_loss
    def test_a_step_goes_towards_the_targets(self, name, index):
        result = fit(name, first_step="gram", dtype="float64", max_iterations=1, index=index, tol=1e-3, width=200)
        (W0, signs), y = start_of(result), targets(name)
        aims = SCALAR[name].targets(y, 0.8e-3)
        J, f = naive.jacobian(W0, signs, inputs(), SHIFT), naive.outputs(W0, signs, inputs(), SHIFT)
        step = -np.linalg.lstsq(J, f - aims, rcond=1e-13)[0].reshape(W0.shape)
        W = W0 + result.history[1].step * step
        np.testing.assert_allclose(result.network.weights.vectors(range(200)), W, atol=1e-7)

    @every_loss
    def test_it_ends_at_the_loss_that_was_asked_for(self, name):
        result = fit(name, tol=1e-3, width=1 << 15, audit=True)
        assert result.status == Status.CONVERGED, result
        loss, y, f = SCALAR[name], targets(name), result.network.predict(inputs())
        above = np.mean(loss.value(f, y) - least_of(name, y))
        if name != "squared":
            assert 1e-9 < above <= 1.001e-3
            assert result.remainder == pytest.approx(above, rel=2e-2)
            assert "mean loss is within 0.001 of the least" in result.message
        assert result.audited > 0
        assert result.history[-1].loss == pytest.approx(loss.value(f, y).sum(), rel=1e-3, abs=1e-6)
        aims = loss.targets(y, 0.8e-3)
        assert result.history[-1].residual == pytest.approx(np.linalg.norm(f - aims), rel=1e-3, abs=1e-5)
        assert result.loss == describe_loss(choose_loss(loss))

    @pytest.mark.thorough
    @pytest.mark.parametrize("name", ["logistic", "poisson", "huber"])
    def test_newtons_method_reaches_the_same_loss_in_no_fewer_steps(self, name):
        """By generalised Gauss-Newton steps on the loss itself."""
        tol, width = 1e-2, 1 << 15
        result = fit(name, tol=tol, width=width, first_step="gram")
        (W0, signs), y, loss = start_of(result), targets(name), SCALAR[name]

        def above(W):
            return np.mean(loss.value(naive.outputs(W, signs, inputs(), SHIFT), y) - least_of(name, y))

        path = naive.loss_steps(W0, signs, inputs(), y, loss, shift=SHIFT, fractions=[1.0] * 5)
        newton = next(k for k, W in enumerate(path, 1) if above(W) <= tol)
        assert above(result.network.weights.vectors(range(width))) <= 1.001 * tol
        assert len(result.steps) <= newton

    @pytest.mark.thorough
    @pytest.mark.parametrize(("loss", "steps", "looks"), [("log_loss", 4, 1.8e7), ("poisson", 5, 1.6e7)])
    def test_few_steps_and_looks(self, loss, steps, looks):
        """As many classes drawn at random as columns: 8 and 10 steps, 2.9e7 and 2.5e7 looks by Newton's method."""
        rng = np.random.default_rng(0)
        X, y = to_sphere(rng.normal(size=(500, 50))), rng.normal(size=500)
        y = y > 0 if loss == "log_loss" else rng.poisson(np.exp(y))
        result = train(X, y, width=1 << 14, loss=loss, tol=1e-3)
        assert (result.status, len(result.steps)) <= (Status.CONVERGED, steps)
        assert sum(record.looks for record in result.history) < looks

    def test_squares_as_a_loss_of_ones_own_walk_the_same_path(self):
        class Own:
            targets, value = Squared().targets, Squared().value

        ours, theirs = fit("squared", tol=1e-3), train(inputs(), targets("squared"), loss=Own(), tol=1e-6, **OPTIONS)
        for one, other in zip(ours.history, theirs.history, strict=False):
            assert (one.flips, one.looks, one.residual) == (other.flips, other.looks, other.residual)

    @pytest.mark.parametrize("solver", ["cholesky", "sketched", "cg", "pivots", "auto"])
    @pytest.mark.parametrize("name", ["logistic", pytest.param("poisson", marks=pytest.mark.thorough)])
    def test_every_solver_ends(self, name, solver):
        assert fit(name, solver=solver, tol=1e-2, width=1 << 13).status == Status.CONVERGED

    @pytest.mark.parametrize("start", ["hadamard", "poisson"])
    def test_every_start(self, start):
        assert fit("logistic", start=start, tol=1e-2, width=4000).status == Status.CONVERGED

    @pytest.mark.parametrize(
        "more",
        [{"twins": False}, {"method": "paper"}, {"first_step": "gram"}, {"damping": 1e-3}, {"activation": "max"}],
    )
    def test_other_options(self, more):
        assert fit("logistic", tol=1e-2, **{"width": 4000, **more}).status == Status.CONVERGED

    @pytest.mark.parametrize("n", [1, 2])
    @other_losses
    def test_few_inputs_and_one_class(self, name, n):
        result = train(inputs(n), np.ones(n), loss=SCALAR[name], tol=1e-2, **OPTIONS)
        assert result.status == Status.CONVERGED


class TestSeveralOutputs:
    def test_all_end_at_the_loss_that_was_asked_for(self):
        results, Y = fit_classes(tol=1e-3, width=1 << 14, audit=True), targets("softmax")
        F = outputs_of(results, inputs())
        assert {one.status for one in results} == {Status.CONVERGED}
        assert 1e-7 < Softmax().value(F, Y).mean() <= 1.001e-3
        assert (F.argmax(axis=1) == Y.argmax(axis=1)).all()
        assert {one.loss for one in results} == {"Softmax()"}

    def test_records_take_the_others_to_be_at_their_targets(self):
        results, Y = fit_classes(tol=1e-3, width=1 << 14), targets("softmax")
        F, T = outputs_of(results, inputs()), Softmax().targets(Y, 0.8e-3)
        for c, one in enumerate(results):
            alone = T.copy()
            alone[:, c] = F[:, c]
            assert one.history[-1].loss == pytest.approx(Softmax().value(alone, Y).sum(), rel=1e-2)
            alone[:, c] = T[:, c] + K * (F[:, c] - T[:, c])
            assert one.remainder == pytest.approx(Softmax().value(alone, Y).mean(), rel=1e-2)
            assert one.remainder <= 1e-3

    def test_all_together_have_at_most_the_mean_of_what_is_left_of_each(self):
        Y, rng = targets("softmax"), np.random.default_rng(0)
        T = Softmax().targets(Y, 1e-2)
        for size in (0.1, 1.0, 5.0):
            F = T + size * rng.normal(size=T.shape)
            each = []
            for c in range(K):
                alone = T.copy()
                alone[:, c] += K * (F[:, c] - T[:, c])
                each.append(Softmax().value(alone, Y).mean())
            assert Softmax().value(F, Y).mean() <= np.mean(each)

    def test_each_is_trained_as_squares_are(self):
        results, T = fit_classes(tol=1e-3), Softmax().targets(targets("softmax"), 0.8e-3)
        for t, one in zip(T.T, results, strict=True):
            other = train(inputs(), t, **OPTIONS)
            for step, same in zip(one.steps, other.steps, strict=False):
                np.testing.assert_array_equal(step, same)

    def test_shares_are_met(self):
        Y = np.random.default_rng(4).dirichlet(2 * np.ones(K), N)
        results = fit_classes(Y, tol=1e-4, width=1 << 14)
        assert results[0].status == Status.CONVERGED
        np.testing.assert_allclose(Softmax().link(outputs_of(results, inputs())), Y, atol=0.1)

    def test_independent_labels_have_a_loss_each(self):
        Y = (np.random.default_rng(4).random((N, K)) < 0.5).astype(float)
        both = fit_classes(Y, tol=1e-2, loss=Logistic())
        for y, one in zip(Y.T, both, strict=True):
            alone = train(inputs(), y, tol=1e-2, loss="log_loss", **OPTIONS)
            assert [r.loss for r in one.history] == [r.loss for r in alone.history]

    def test_an_own_loss_of_several_outputs(self):
        class Both:
            joint = True

            def targets(self, Y, tol):
                return Y - Y.mean(axis=1, keepdims=True)

            def value(self, F, Y):
                return ((F - Y) ** 2).sum(axis=1)

        Y = np.random.default_rng(0).normal(size=(N, 2))
        results = fit_classes(Y - Y.mean(axis=1, keepdims=True), loss=Both(), tol=1e-3, width=1 << 13)
        assert {one.status for one in results} == {Status.CONVERGED}

    @pytest.mark.parametrize("loss", ["log_loss", Softmax()])
    def test_targets_that_are_no_classes(self, loss):
        with pytest.raises(InvalidInput, match=r"add up to 1; those of row 0 add up to 1\.5.*Logistic"):
            fit_classes(np.full((N, K), 0.5), loss=loss)

    def test_one_output_alone(self):
        with pytest.raises(InvalidInput, match=r"Softmax is one loss of several outputs\. Pass targets \(n, k\)"):
            train(inputs(), targets("logistic"), loss=Softmax(), **OPTIONS)

    def test_threads_and_a_resumed_run_change_no_bit(self, tmp_path):
        options, path = {"tol": 1e-4, "max_iterations": 3}, tmp_path / "checkpoint"
        whole = fit_classes(threads=1, **options)
        fit_classes(threads=2, checkpoint=path, **options | {"max_iterations": 2})
        resumed = fit_classes(threads=3, checkpoint=path, resume=True, **options)
        assert [r.loss for r in resumed[0].history] == [r.loss for r in whole[0].history]
        np.testing.assert_array_equal(outputs_of(resumed, inputs()), outputs_of(whole, inputs()))

    def test_replay_and_files(self, tmp_path):
        results = fit_classes(tol=1e-2)
        again = replay_columns(classes(), steps=[one.steps for one in results], **OPTIONS)
        for one, network in zip(results, again, strict=True):
            np.testing.assert_array_equal(network.predict(inputs()), one.network.predict(inputs()))
            one.save(tmp_path / "result")
            loaded = load(tmp_path / "result")
            np.testing.assert_array_equal(loaded.network.predict(inputs()), network.predict(inputs()))
            assert loaded.loss == "Softmax()"


class TestRuns:
    @other_losses
    def test_threads_and_together_change_no_bit(self, name):
        options, problem = {"tol": 1e-2, "max_iterations": 4}, Problem(inputs(), targets(name))
        both = train_columns([problem] * 2, loss=SCALAR[name], threads=1, **OPTIONS, **options)
        alone = fit(name, threads=3, **options)
        for one in both:
            assert [r.loss for r in one.history] == [r.loss for r in alone.history]
            np.testing.assert_array_equal(one.network.predict(inputs()), alone.network.predict(inputs()))

    @other_losses
    def test_a_resumed_run_is_the_same(self, name, tmp_path):
        options, path = {"tol": 1e-6}, tmp_path / "checkpoint"
        whole = fit(name, **options, max_iterations=3)
        fit(name, **options, checkpoint=path, max_iterations=2)
        resumed = fit(name, **options, checkpoint=path, resume=True, max_iterations=3)
        assert [r.loss for r in resumed.history] == [r.loss for r in whole.history]
        np.testing.assert_array_equal(resumed.network.predict(inputs()), whole.network.predict(inputs()))

    @pytest.mark.parametrize("other", ["squared_error", "quantile", Huber(0.5)])
    def test_a_checkpoint_of_another_loss_is_refused(self, other, tmp_path):
        path = tmp_path / "checkpoint"
        train(inputs(), targets("huber"), loss="huber", checkpoint=path, max_iterations=1, **OPTIONS)
        with pytest.raises(InvalidInput, match="loss"):
            train(inputs(), targets("huber"), loss=other, checkpoint=path, resume=True, **OPTIONS)

    def test_a_checkpoint_that_went_to_another_loss_is_refused(self, tmp_path):
        path = tmp_path / "checkpoint"
        fit("logistic", tol=1e-2, checkpoint=path, max_iterations=1)
        with pytest.raises(InvalidInput, match=r"was written with tol=0\.01; this run has tol=0\.001"):
            fit("logistic", tol=1e-3, checkpoint=path, resume=True)

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

    def test_statements_are_about_the_squares_that_take_the_place_of_a_loss(self):
        names = {}
        for loss in ("squared_error", "log_loss"):
            result = train(inputs(), targets("logistic"), loss=loss, tol=1e-1, callbacks=[CheckTheorems()], **OPTIONS)
            names[loss] = [{one.name for one in record.statements} for record in result.history]
            assert all(not one.broken for record in result.history for one in record.statements)
        assert names["squared_error"][:2] == names["log_loss"][:2]

    def test_callbacks_see_outputs_and_what_they_are_to_be(self):
        seen = []

        class Look(Callback):
            def certify(self, record, state):
                seen.append((record, state))
                return ()

        result = fit("logistic", tol=1e-2, callbacks=[Look()])
        aims = Logistic().targets(targets("logistic"), 0.8e-2)
        for record, state in seen:
            np.testing.assert_array_equal(state.problem.targets, aims)
            np.testing.assert_array_equal(state.outputs - aims, state.residual)
            assert record.residual == np.linalg.norm(state.residual)
        assert len(seen) == len(result.history)


class TestRefusals:
    @pytest.mark.parametrize("loss", ["hinge", "squared", "softmax", None, 3, Logistic, LogCosh, object()])
    def test_what_is_no_loss(self, loss):
        with pytest.raises(
            InvalidInput, match=r"loss must be one of 'squared_error', .* methods targets and value; got"
        ):
            train(inputs(), targets("huber"), loss=loss, **OPTIONS)

    @pytest.mark.parametrize(
        ("name", "loss", "wrong"),
        [
            ("logistic", "log_loss", -1.0),
            ("logistic", "log_loss", 2.0),
            ("poisson", "poisson", -1.0),
            ("poisson", "poisson", 1e15),
        ],
    )
    def test_targets_that_have_no_loss(self, name, loss, wrong):
        y = targets(name)
        y[3] = wrong
        with pytest.raises(InvalidInput, match=f"loss='{loss}' takes .* row 3 has {re.escape(f'{wrong:g}')}"):
            train(inputs(), y, loss=loss, **OPTIONS)

    @pytest.mark.parametrize(
        ("method", "returned", "message"),
        [
            (
                "targets",
                lambda y, tol: np.full_like(y, np.inf),
                "targets of a loss must be finite; that of row 0 is inf",
            ),
            ("targets", lambda y, tol: y[:-1], r"targets of a loss must return shape \(30,\); it returned \(29,\)"),
            (
                "value",
                lambda f, y: np.full_like(f, np.nan),
                "value of a loss must be finite at its targets; .* row 0 is nan",
            ),
            (
                "value",
                lambda f, y: np.sum((f - y) ** 2),
                r"value of a loss must return shape \(30,\); it returned \(\)",
            ),
        ],
    )
    def test_numbers_that_cannot_be_used(self, method, returned, message):
        loss = LogCosh()
        setattr(loss, method, returned)
        with pytest.raises(InvalidInput, match=message):
            train(inputs(), targets("huber"), loss=loss, **OPTIONS)

    def test_lists_in_place_of_arrays(self):
        loss, plain = LogCosh(), LogCosh()
        loss.targets = lambda y, tol: plain.targets(y, tol).tolist()
        loss.value = lambda f, y: plain.value(f, y).tolist()
        found, wanted = (
            train(inputs(), targets("huber"), loss=one, max_iterations=2, **OPTIONS) for one in (loss, plain)
        )
        assert found.history[-1].loss == wanted.history[-1].loss

    @pytest.mark.parametrize("method", ["targets", "value"])
    def test_a_loss_that_writes_to_what_it_is_given(self, method):
        loss = LogCosh()

        def write(f, y):
            f += 1
            return f

        setattr(loss, method, write)
        with pytest.raises(ValueError, match="read-only"):
            train(inputs(), targets("huber"), loss=loss, **OPTIONS)

    def test_numbers_that_end_far_away_do_no_harm(self):
        loss, plain = LogCosh(), LogCosh().value
        loss.value = lambda f, y: np.where(np.abs(f - y) > 1e-2, np.nan, plain(f, y))
        result = train(inputs(), 0.5 * targets("logistic"), loss=loss, tol=1e-2, **OPTIONS)
        assert result.status == Status.CONVERGED
        assert math.isnan(result.history[0].loss) and result.history[-1].loss < 1e-2


def test_losses_say_what_they_are():
    assert {describe_loss(choose_loss(name)) for name in LOSSES} == {
        "Squared()", "Logistic()", "Huber(knee=1.0)", "Quantile(q=0.5, width=0.001)", "Poisson()",
    }  # fmt: skip
    assert describe_loss(choose_loss("log_loss", outputs=2)) == "Softmax()"
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
