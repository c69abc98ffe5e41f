"""Softmax: several outputs with one loss, one line search and one history."""

import naive
import numpy as np
import pytest

from thresher import (
    Callback,
    CheckTheorems,
    InvalidInput,
    Problem,
    Status,
    load,
    replay_together,
    to_sphere,
    train,
    train_together,
)
from thresher.algebra import Cholesky, MatrixGram
from thresher.losses import Softmax, fit_parabolas
from thresher.training.joint import JointGram, JointSolver

N, D, K, SHIFT = 24, 5, 3, 0.5
OPTIONS = {"width": 1 << 12, "shift": SHIFT, "seed": 2, "twins": True, "loss": "softmax"}


def inputs(n=N):
    return to_sphere(np.random.default_rng(1).normal(size=(n, D)))


def classes(n=N):
    return np.random.default_rng(2).integers(0, K, n)


def problems(n=N, targets=None):
    X, Y = inputs(n), np.eye(K)[classes(n)] if targets is None else targets
    return [Problem(X, column) for column in Y.T]


def fit(**options):
    return train_together(problems(), **OPTIONS | options)


def outputs_of(results, X):
    return np.column_stack([one.network.predict(X) for one in results])


class TestLoss:
    def test_slopes_are_differences(self):
        rng = np.random.default_rng(0)
        F, Y, loss = rng.normal(size=(50, K)), rng.dirichlet(np.ones(K), 50), Softmax()
        loss.check(Y)
        for c in range(K):
            small = np.zeros(K)
            small[c] = 1e-6
            slopes = (loss.value(F + small, Y) - loss.value(F - small, Y)) / 2e-6
            np.testing.assert_allclose(loss.slope(F, Y)[:, c], slopes, atol=1e-8)
        assert (loss.value(F, Y) >= loss.least(Y)).all()

    def test_the_curvature_is_above_and_serves_as_an_inverse(self):
        F, Y = np.random.default_rng(0).normal(size=(20, K)), np.eye(K)[classes(20)]
        for p, h, slope in zip(naive.softmax(F), Softmax().curvature(F, Y), Softmax().slope(F, Y), strict=True):
            H = np.diag(p) - np.outer(p, p)
            assert np.linalg.eigvalsh(np.diag(h) - H).min() > -1e-12
            np.testing.assert_allclose(H @ (slope / h), slope, atol=1e-12)

    def test_rows_that_are_sent_too_far_are_held_back_as_a_whole(self):
        F, Y = np.array([[8.0, 0.0, 0.0], [0.0, 0.0, 0.0]]), np.eye(K)[[1, 0]]
        raised = fit_parabolas(Softmax(), F, Y).curvature / Softmax().curvature(F, Y)
        assert (raised[0] > 1).all() and len(set(raised[0])) == 1
        assert (raised[1] == 1).all()


class TestSolve:
    @pytest.mark.parametrize("added", [0.0, 0.3, None])
    def test_solutions_add_up_to_nothing_and_solve_up_to_what_is_the_same(self, added):
        rng = np.random.default_rng(3)
        matrices = [(lambda A: A @ A.T / 30)(rng.normal(size=(15, 30))) for _ in range(K)]
        added = rng.uniform(0.01, 1e4, (15, K)) if added is None else added
        rhs, gram = rng.normal(size=(15, K)), JointGram([MatrixGram(A) for A in matrices])
        found = JointSolver([Cholesky()] * K).prepare(gram, added=added).solve(rhs)
        left = rhs - gram.times(found.value) - added * found.value
        np.testing.assert_allclose(found.value.sum(axis=1), 0, atol=1e-8 * np.abs(found.value).max())
        np.testing.assert_allclose(left - left[:, :1], 0, atol=1e-8 * np.abs(left).max())
        assert found.factored

    def test_equal_matrices_are_factored_once(self):
        one = MatrixGram(np.eye(4))
        factor = JointSolver([Cholesky()] * K).prepare(JointGram([one] * K), added=0.5)
        assert factor.factors[0] is factor.factors[1] is factor.factors[2]


class TestSteps:
    @pytest.mark.parametrize("index", ["certified", "dense"])
    @pytest.mark.parametrize("steps", [1, 2])
    def test_against_the_definition(self, index, steps):
        few = problems(8)
        options = {"first_step": "gram", "dtype": "float64", "index": index, "tol": 1e-9, "width": 40}
        results = train_together(few, max_iterations=steps, **OPTIONS | options)
        start = results[0].network.settings.start
        W0, signs = start.block(0, 40).astype(float), start.signs(np.arange(40))
        before = [W0] * K
        if steps == 2:
            path = [one.steps[:1] for one in results]
            done = replay_together(few, steps=path, **OPTIONS | options)
            before = [one.weights.vectors(range(40)) for one in done]
        Y = np.column_stack([one.targets for one in few])
        full = naive.softmax_step(before, signs, inputs(8), Y, shift=SHIFT)
        fraction = results[0].history[steps].step
        for one, start_at, there in zip(results, before, full, strict=True):
            W = one.network.weights.vectors(range(40))
            np.testing.assert_allclose(W, start_at + fraction * (there - start_at), atol=1e-6)

    def test_it_ends_at_the_loss_that_was_asked_for(self):
        results = fit(tol=1e-3, width=1 << 14, audit=True)
        F, Y = outputs_of(results, inputs()), np.eye(K)[classes()]
        assert {one.status for one in results} == {Status.CONVERGED}
        value = Softmax().value(F, Y)
        assert 1e-7 < value.mean() <= 1.001e-3
        assert (F.argmax(axis=1) == classes()).all()
        history = results[0].history
        assert all(one.history is history for one in results)
        assert history[-1].loss == pytest.approx(value.sum(), rel=1e-2)
        assert history[-1].residual == pytest.approx(np.linalg.norm(Softmax().slope(F, Y)), rel=1e-2)
        assert results[0].audited == K * (len(history) - 1) * N * (1 << 14)
        assert results[0].loss == "Softmax()"

    def test_shares_are_met(self):
        Y = np.random.default_rng(4).dirichlet(2 * np.ones(K), N)
        results = train_together(problems(targets=Y), tol=1e-4, **OPTIONS | {"width": 1 << 14})
        assert results[0].status == Status.CONVERGED
        np.testing.assert_allclose(Softmax().link(outputs_of(results, inputs())), Y, atol=0.1)

    def test_two_classes_are_the_logistic_loss(self):
        X, y = inputs(), classes() % 2
        both = train_together([Problem(X, y == 0), Problem(X, y == 1)], tol=1e-2, **OPTIONS | {"width": 1 << 15})
        one = train(X, y, tol=1e-2, **OPTIONS | {"loss": "logistic", "width": 1 << 15})
        assert both[0].history[1].loss == pytest.approx(one.history[1].loss, rel=0.2)  # each moves half
        assert abs(len(both[0].history) - len(one.history)) <= 1

    @pytest.mark.parametrize("solver", ["cholesky", "cg", "sketched", "pivots"])
    def test_every_solver_ends(self, solver):
        assert fit(tol=5e-2, solver=solver, width=1 << 12)[0].status == Status.CONVERGED

    @pytest.mark.parametrize("more", [{"method": "paper"}, {"twins": False}, {"start": "poisson"}, {"damping": 1e-3}])
    def test_other_options(self, more):
        assert fit(tol=5e-2, **{"width": 1 << 12} | more)[0].status == Status.CONVERGED


class TestRuns:
    def test_threads_change_no_bit_and_a_resumed_run_is_the_same(self, tmp_path):
        options, path = {"tol": 1e-3, "max_iterations": 5}, tmp_path / "checkpoint"
        whole = fit(threads=1, **options)
        fit(threads=2, checkpoint=path, **options | {"max_iterations": 2})
        resumed = fit(threads=3, checkpoint=path, resume=True, **options)
        assert [r.loss for r in resumed[0].history] == [r.loss for r in whole[0].history]
        np.testing.assert_array_equal(outputs_of(resumed, inputs()), outputs_of(whole, inputs()))

    def test_replay_and_files(self, tmp_path):
        results = fit(tol=1e-2)
        again = replay_together(problems(), steps=[one.steps for one in results], **OPTIONS)
        for one, network in zip(results, again, strict=True):
            np.testing.assert_array_equal(network.predict(inputs()), one.network.predict(inputs()))
            one.save(tmp_path / "result")
            loaded = load(tmp_path / "result")
            np.testing.assert_array_equal(loaded.network.predict(inputs()), network.predict(inputs()))
            assert loaded.loss == "Softmax()"

    def test_callbacks_are_told_once_of_all_outputs(self):
        seen, ended = [], []

        class Look(Callback):
            def on_iteration(self, record):
                seen.append(record)

            def on_end(self, result):
                ended.append(result)

        results = fit(tol=1e-2, callbacks=[Look()])
        assert seen == list(results[0].history)
        assert ended == results
        stopped = fit(tol=1e-2, callbacks=[lambda record: record.iteration == 1])
        assert stopped[0].status == Status.INTERRUPTED


class TestRefusals:
    def test_one_output(self):
        with pytest.raises(InvalidInput, match=r"one loss of several outputs. Use train_together .* loss='logistic'"):
            train(inputs(), classes() == 0, **OPTIONS)

    def test_targets_that_are_no_shares(self):
        with pytest.raises(InvalidInput, match=r"a target for each class: .* row 0 add up to 2"):
            train_together([Problem(inputs(), np.ones(N))] * 2, **OPTIONS)

    def test_a_class_without_rows(self):
        Y = np.column_stack([np.eye(K)[classes()], np.zeros(N)])
        assert train_together(problems(targets=Y), tol=1e-2, **OPTIONS)[0].status == Status.CONVERGED

    def test_a_joint_loss_of_ones_own(self):
        class Other:
            joint, value, slope, curvature = True, Softmax().value, Softmax().slope, Softmax().curvature

        with pytest.raises(InvalidInput, match="of losses of several outputs together train has loss='softmax' alone"):
            train_together(problems(), **OPTIONS | {"loss": Other()})

    def test_theorems(self):
        with pytest.raises(InvalidInput, match="CheckTheorems is about one output"):
            fit(callbacks=[CheckTheorems()])

    def test_a_checkpoint_of_separate_outputs(self, tmp_path):
        fit(tol=1e-2, max_iterations=1, checkpoint=tmp_path / "c")
        with pytest.raises(InvalidInput, match="loss"):
            fit(loss="logistic", resume=tmp_path / "c")
