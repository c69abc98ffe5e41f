"""Training without n x n matrices: the same steps as with them, and none of them is ever made."""

import tracemalloc
from functools import partial
from unittest import mock

import numpy as np
import pytest
from columns import replay, train_columns
from hypothesis import given
from hypothesis import strategies as st

from thresher import MemoryRefused, Problem, Status, to_sphere, train
from thresher.algebra import Cholesky, ConjugateGradient, RandomPivots, ReusedFactor, cg
from thresher.engines import Facts, Footprint
from thresher.engines.gram import ShardGram
from thresher.engines.threads import Threads
from thresher.model.geometry import Geometry
from thresher.model.network import NetworkSettings
from thresher.shards import SHARDS
from thresher.theory.limit_matrix import LimitMatrix
from thresher.training import solving
from thresher.training.loop import start_together
from thresher.training.options import Setup
from thresher.training.train import complete

every_kind = pytest.mark.parametrize("index", SHARDS)
TOL = 1e-8


def problem_of(n=300, d=20, seed=0):
    rng = np.random.default_rng(seed)
    return Problem(to_sphere(rng.normal(size=(n, d))), rng.normal(size=n))


def over_pairs(problem, settings, *, tol=TOL):
    limit = LimitMatrix(problem.inputs, settings.shift, memory=0, threads=1)
    return ConjugateGradient(tol=tol, preconditioner=RandomPivots(lambda: limit, rank=50))


def forbid(monkeypatch, place, name):
    monkeypatch.setattr(place, name, lambda *_, **__: pytest.fail(f"{name}: an n x n matrix"))


class TestTheTrajectory:
    @every_kind
    @pytest.mark.parametrize("twins", [False, True])
    def test_is_that_of_the_matrix(self, index, twins, monkeypatch):
        """The first step too: it differs by the tolerance of its solve, which is set as fine as the others'."""
        monkeypatch.setattr(solving, "_TOLERANCE", 1e-6)
        monkeypatch.setattr(cg, "_LOOSEST", 1e-6)
        problem = problem_of()
        options = {"width": 4096, "index": index, "twins": twins, "dtype": "float64", "threads": 2, "tol": 1e-9}
        with_matrix = train(problem, solver="cholesky", **options)
        forbid(monkeypatch, ShardGram, "dense")
        forbid(monkeypatch, Threads, "add_up")
        without = train(problem, solver="pivots", max_iterations=len(with_matrix.history) - 1, **options)
        assert len(without.history) == len(with_matrix.history)
        for theirs, ours, before in zip(
            with_matrix.history[1:], without.history[1:], with_matrix.history, strict=False
        ):
            assert ours.residual == pytest.approx(theirs.residual, abs=1e-3 * before.residual)
            assert abs(ours.firing - theirs.firing) <= 2e-3 * theirs.firing
            assert ours.step == theirs.step
        assert all(0 < one.inner_iterations < 60 for one in without.history[1:])

    @every_kind
    def test_a_fine_solve_follows_it_pair_by_pair(self, index):
        problem = problem_of(80, 6)
        settings = NetworkSettings.checked(width=1000, dimension=6)
        options = {"width": 1000, "index": index, "dtype": "float64", "first_step": "gram", "max_iterations": 4}
        exact = train(problem, solver="cholesky", tol=1e-12, **options)
        free = train(problem, solver=over_pairs(problem, settings, tol=1e-13), tol=1e-12, **options)
        for theirs, ours in zip(exact.history, free.history, strict=True):
            assert (ours.firing, ours.flips) == (theirs.firing, theirs.flips)
            assert ours.residual == pytest.approx(theirs.residual, rel=1e-6, abs=1e-8)

    @pytest.mark.parametrize("twins", [False, True])
    def test_loose_solves_lead_to_the_same_residual_with_fewer_products(self, twins, monkeypatch):
        options = {"width": 1024, "solver": "pivots", "twins": twins, "tol": 1e-5, "max_iterations": 40}
        loose = train(problem_of(), **options)
        monkeypatch.setattr(cg, "_LOOSEST", 1e-2)
        fine = train(problem_of(), **options)
        assert loose.status == fine.status == Status.CONVERGED
        assert len(loose.history) <= len(fine.history) + 2
        products = [sum(one.inner_iterations for one in result.history) for result in (loose, fine)]
        assert products[0] < 0.85 * products[1]

    @given(
        contraction=st.floats(0, 10) | st.just(np.nan), tol=st.floats(1e-8, 1e-2), loosest=st.sampled_from([0.02, 0.1])
    )
    def test_no_solve_is_coarser_than_a_quarter_of_the_last_contraction(self, contraction, tol, loosest):
        with mock.patch.object(cg, "_LOOSEST", loosest):
            solver = cg.Loose(tol=tol).after(contraction)
        assert tol <= solver.tol <= loosest
        if contraction < 4 * loosest:
            assert solver.tol == max(tol, contraction / 4)
        assert Cholesky().after(contraction) == Cholesky()

    def test_is_audited(self):
        result = train(problem_of(), width=4096, solver="pivots", audit=True)
        assert result.status == Status.CONVERGED
        assert result.audited == len(result.history) * 4096 * 300 - 4096 * 300

    def test_outputs_are_trained_together_as_alone(self):
        one = problem_of()
        other = Problem(one.inputs, one.targets[::-1].copy())
        together = train_columns([one, other], width=2048, solver="pivots", tol=1e-3)
        for problem, result in zip((one, other), together, strict=True):
            alone = train(problem, width=2048, solver="pivots", tol=1e-3)
            assert [r.residual for r in alone.history] == [r.residual for r in result.history]


class TestNoMatrix:
    @every_kind
    def test_is_made(self, index, monkeypatch):
        forbid(monkeypatch, ShardGram, "dense")
        forbid(monkeypatch, Threads, "add_up")
        geometries = []
        of = Geometry.of
        monkeypatch.setattr(Geometry, "of", lambda *given, **named: geometries.append(named) or of(*given, **named))
        result = train(problem_of(), width=2048, index=index, solver="pivots", tol=1e-3)
        assert result.status == Status.CONVERGED
        assert all(one["products"] is False for one in geometries)

    @pytest.mark.parametrize("index", ["certified", "dense"])
    def test_memory_stays_below_one(self, index):
        n = 3000
        problem = problem_of(n, 8)
        options = {"width": 64, "shift": 1.5, "index": index, "threads": 1, "max_iterations": 1}
        train(problem_of(60, 8), solver="pivots", **options)  # all is compiled
        solver = over_pairs(problem, NetworkSettings.checked(width=64, dimension=8, shift=1.5))  # of rank 50
        tracemalloc.start()
        try:
            train(problem, solver=solver, memory_budget=400 << 20, **options)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 4 * n * n  # not even in single precision; half of the limit kernel may be kept

    def test_blocks_of_vectors_are_products_of_each(self):
        problem = problem_of(50, 7)
        for index in SHARDS:
            setup = Setup.of([problem], complete({"width": 500, "index": index, "solver": "pivots", "shift": 0.3}))
            gram = start_together(setup, [None])[0][0].linearise()
            vectors = np.random.default_rng(0).normal(size=(50, 3))
            expected = np.stack([gram.times(one) for one in vectors.T], axis=1)
            np.testing.assert_allclose(gram.times(vectors), expected, rtol=1e-12, atol=1e-13)
            np.testing.assert_allclose(gram.dense() @ vectors, expected, rtol=1e-5, atol=1e-6)


class TestResuming:
    def test_a_checkpoint_leads_to_the_same_network(self, tmp_path):
        problem, path = problem_of(), tmp_path / "a.ckpt"
        options = {"width": 2048, "solver": "pivots", "tol": 1e-5}
        whole = train(problem, **options)
        train(problem, max_iterations=2, checkpoint=path, **options)
        resumed = train(problem, resume=path, **options)
        assert [one.residual for one in resumed.history] == [one.residual for one in whole.history]
        again = replay(problem, steps=whole.steps, **options)
        np.testing.assert_array_equal(again.predict(problem.inputs), whole.network.predict(problem.inputs))

    def test_an_interrupt_leaves_the_last_iteration(self):
        def stop(record):
            if record.iteration == 2:
                raise KeyboardInterrupt

        result = train(problem_of(), width=2048, solver="pivots", callbacks=[stop])
        assert result.status == Status.INTERRUPTED
        assert len(result.history) == 3


def facts_of(n, *, d=50, width=1 << 14, shift=None):
    settings = NetworkSettings.checked(width=width, dimension=d, shift=shift)
    return Facts.of(np.ones(n), settings, dtype="float32", first_step="limit")


def chosen(facts, *, solver="auto", allowed=1e12):
    return solving.choose_solving(solver, facts, lambda: pytest.fail("too early"), threads=1, allowed=lambda: allowed)


class TestTheChoice:
    def test_few_inputs_are_factored_every_time(self):
        made = chosen(facts_of(1500))
        assert isinstance(made.make(), Cholesky)
        assert made.matrix
        assert "1,500 inputs are few" in made.why

    def test_the_cheaper_one_is_taken_and_said(self):
        dear = chosen(facts_of(2000, d=2000))  # products over pairs cost O(d) each
        assert isinstance(dear.make(), ReusedFactor)
        assert dear.matrix
        cheap = chosen(facts_of(15_000, d=4))
        assert not cheap.matrix
        assert cheap.make().preconditioner.rank is None
        for made in (dear, cheap):
            assert "multiplications per solve" in made.why

    def test_few_dimensions_are_factored(self):
        """Inputs are close to each other there: at n 1600, d 3, a factor is twelve times as fast."""
        assert chosen(facts_of(1600, d=3)).matrix
        assert not chosen(facts_of(1600, d=20)).matrix

    def test_a_matrix_that_does_not_fit_is_not_made(self):
        facts = facts_of(2000, d=2000)
        made = chosen(facts, allowed=1e6)
        assert not made.matrix
        assert "2,000 x 2,000 numbers would take" in made.why
        assert not chosen(facts_of(20_001, d=20_000)).matrix

    def test_solvers_that_were_asked_for_are_taken(self):
        assert chosen(facts_of(10), solver="pivots").matrix is False
        assert chosen(facts_of(10), solver="cg").matrix
        assert chosen(facts_of(10), solver=ReusedFactor()).matrix
        assert not chosen(facts_of(30_000), solver="cg").matrix
        assert chosen(facts_of(30_000), solver="cholesky").matrix

    def test_it_stands_in_the_result(self):
        result = train(problem_of(60), width=512)
        assert result.solver == "Cholesky: 60 inputs are few, every matrix is factored."
        assert result.solver in result._repr_html_()

    @pytest.mark.parametrize(("width", "index"), [(1 << 14, "dense"), (1 << 22, "certified")])
    def test_neurons_that_move_far_are_searched_in_bulk(self, width, index):
        problem = problem_of(2000, 4)
        assert Setup.of([problem], complete({"width": width})).index == index
        few = Problem(problem.inputs[:1500], problem.targets[:1500])
        assert Setup.of([few], complete({"width": width})).index == "certified"


class TestMemory:
    def test_a_refusal_says_how_many_inputs_would_fit(self):
        problem = problem_of(2000, 5)
        options = {"width": 4096, "memory_budget": 300 << 20}
        with pytest.raises(MemoryRefused, match=r"About [\d,]+ inputs would fit") as refused:
            train(problem, solver="cholesky", **options)
        fit = int(str(refused.value).split("About ")[1].split(" inputs")[0].replace(",", ""))
        settings = NetworkSettings.checked(width=4096, dimension=5)

        def estimate(n):
            return Footprint([problem.targets], settings, "dense", SHARDS["dense"], threads=2).here(n)

        assert 100 < fit < 2000
        assert estimate(fit) <= 1.1 * (300 << 20)
        assert estimate(fit + 100) >= 0.9 * (300 << 20)

    def test_without_matrices_many_inputs_fit(self):
        problem = problem_of(30_000, 3)
        settings = NetworkSettings.checked(width=4096, dimension=3)
        dense = partial(Footprint, [problem.targets], settings, "dense", SHARDS["dense"])
        free, whole = (dense(matrix=one).here() for one in (False, True))
        assert free < 2 << 30
        assert whole > 40 << 30
