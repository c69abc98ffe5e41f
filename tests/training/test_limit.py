"""The limit of infinite width, several outputs from one start, and factors that are used again."""

import itertools

import numpy as np
import pytest
from columns import train_columns
from scipy import stats

from thresher import InvalidInput, Problem, Status, train
from thresher.algebra import Cholesky, MatrixGram, ReusedFactor, Sketched
from thresher.datasets import random_problem
from thresher.engines import Footprint, start_engine
from thresher.interfaces import SolveStatus
from thresher.model.network import NetworkSettings
from thresher.shards import SHARDS
from thresher.shards.watchlists import StartBlock
from thresher.theory import firing_probability, limit_kernel


@pytest.mark.parametrize("shift", [0.0, 0.7, 2.5])
def test_the_limit_kernel_is_the_probability_that_both_fire(shift):
    for rho in (-0.9, -0.3, 0.0, 0.4, 0.99):
        products = np.array([[1.0, rho], [rho, 1.0]])
        both = stats.multivariate_normal(cov=products).cdf([-shift, -shift])  # P(Z >= b) = P(Z <= -b)
        kernel = limit_kernel(products, shift)
        assert kernel[0, 1] == kernel[1, 0] == pytest.approx(rho * both, abs=1e-6)
        assert kernel[0, 0] == pytest.approx(stats.norm.sf(shift))
        assert firing_probability(shift) == pytest.approx(stats.norm.sf(shift))


def test_equal_and_opposite_inputs_have_a_limit():
    products = np.array([[1.0, 1.0, -1.0], [1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]])
    kernel = limit_kernel(products, 1.0)
    assert np.isfinite(kernel).all()
    assert kernel[0, 1] == pytest.approx(kernel[0, 0])
    assert kernel[0, 2] == 0.0


def test_the_gram_matrix_tends_to_its_limit():
    problem = random_problem(inputs=6, dimension=4)
    errors = []
    for width in (2**10, 2**18):
        settings = NetworkSettings.checked(width=width, dimension=4, shift=1.0)
        engine, _ = start_engine(problem, settings, index="scan")
        errors.append(np.abs(engine.linearise().dense() - limit_kernel(problem.products, 1.0)).max())
    assert errors[1] < errors[0] / 4
    assert errors[1] < 5 / np.sqrt(2**18)


@pytest.mark.parametrize("index", ["scan", "tournament", "certified"])
def test_the_limit_step_means_the_same_for_every_index(index):
    problem = random_problem(inputs=20, dimension=10)
    result = train(problem, width=4000, index=index, dtype="float64")
    reference = train(problem, width=4000, index="scan", dtype="float64")
    assert result.history[1].solve == "limit, solved"
    losses = [[record.loss for record in one.history] for one in (result, reference)]
    np.testing.assert_allclose(*losses, rtol=1e-8, atol=1e-18)


def test_a_limit_step_that_goes_up_is_shortened():
    problem = random_problem(inputs=12, dimension=3)
    shortened = 0
    for seed in range(30):
        for index in ("certified", "scan"):
            result = train(problem, width=6, shift=0.5, seed=seed, index=index, max_iterations=2, audit=True)
            losses = [record.loss for record in result.history]
            assert all(later <= earlier for earlier, later in itertools.pairwise(losses))
            shortened += result.history[1].step < 1
    assert shortened > 0


@pytest.mark.parametrize("index", ["certified", "scan"])
@pytest.mark.parametrize("first_step", ["limit", "gram"])
@pytest.mark.parametrize("start", ["random", "hadamard"])
def test_several_outputs_are_what_each_would_be_alone(index, first_step, start):
    inputs = random_problem(inputs=30, dimension=12).inputs
    problems = [Problem(inputs, np.random.default_rng(seed).normal(size=30)) for seed in range(3)]
    options = {"width": 3000, "index": index, "first_step": first_step, "start": start}
    for problem, together in zip(problems, train_columns(problems, **options), strict=True):
        alone = train(problem, **options)
        assert together.status == Status.CONVERGED
        assert [one.loss for one in together.history] == [one.loss for one in alone.history]
        assert np.array_equal(together.network.predict(inputs), alone.network.predict(inputs))


@pytest.mark.parametrize("twins", [False, True])
def test_start_weights_are_made_once_for_several_outputs(twins, monkeypatch):
    made = []
    make = StartBlock.make.__func__

    def count(cls, start, geometry, block, **more):
        made.append(block)
        return make(cls, start, geometry, block, **more)

    monkeypatch.setattr(StartBlock, "make", classmethod(count))
    inputs = random_problem(inputs=10, dimension=5).inputs
    train_columns([Problem(inputs, np.arange(10.0) + k) for k in range(4)], width=1000, twins=twins)
    assert sum(map(len, made)) == (500 if twins else 1000)


def test_options_of_several_outputs_are_those_of_one():
    with pytest.raises(InvalidInput, match="train has no option 'colour'"):
        train_columns([random_problem(inputs=5, dimension=3)], width=10, colour="red")
    with pytest.raises(InvalidInput, match="width must be given"):
        train_columns([random_problem(inputs=5, dimension=3)])


class TestReusedFactor:
    def matrices(self, change):
        generator = np.random.default_rng(0)
        root = generator.normal(size=(40, 60))
        first = root @ root.T / 60
        moved = generator.normal(size=(40, 40)) * change
        return MatrixGram(first), MatrixGram(first + moved @ moved.T), generator.normal(size=40)

    def test_an_old_factor_serves_a_matrix_nearby(self):
        first, second, rhs = self.matrices(change=0.02)
        solver = ReusedFactor(tol=1e-12)
        one, two = solver.prepare(first).solve(rhs), solver.prepare(second).solve(rhs)
        assert one.factored
        assert not two.factored
        assert 0 < two.inner_iterations <= solver.patience
        np.testing.assert_allclose(two.value, np.linalg.solve(second.matrix, rhs), rtol=1e-8)

    def test_a_new_factor_is_made_when_the_old_one_stops_paying(self):
        first, second, rhs = self.matrices(change=5.0)
        solver = ReusedFactor(patience=3)
        solver.prepare(first).solve(rhs)
        far = solver.prepare(second).solve(rhs)
        assert far.factored
        assert far.inner_iterations == 3
        np.testing.assert_allclose(far.value, np.linalg.solve(second.matrix, rhs), rtol=1e-8)

    def test_training_with_it_is_training(self):
        problem = random_problem(inputs=40, dimension=20)
        ours, theirs = (train(problem, width=4000, dtype="float64", solver=one) for one in (ReusedFactor(), Cholesky()))
        assert ours.status == Status.CONVERGED
        assert [one.factored for one in ours.history[1:]] == [True] + [False] * (len(ours.history) - 2)
        assert ours.history[-1].residual < 1e-6 * ours.history[0].residual
        assert theirs.history[2].loss == pytest.approx(ours.history[2].loss, rel=1e-6)

    def test_products_are_with_the_matrix_not_by_pairs(self, monkeypatch):
        monkeypatch.setattr("thresher.shards.pairs.add_gram_product", lambda *_: pytest.fail("O(d) a firing pair"))
        result = train(random_problem(inputs=40, dimension=20), width=4000, solver=ReusedFactor())
        assert result.status == Status.CONVERGED
        assert sum(one.inner_iterations for one in result.history) > 0


def test_a_bare_matrix_cannot_be_sketched():
    with pytest.raises(InvalidInput, match="cannot be sketched"):
        Sketched().prepare(MatrixGram(np.eye(3))).solve(np.ones(3))
    assert Cholesky().prepare(MatrixGram(np.eye(3))).solve(np.ones(3)).status == SolveStatus.SOLVED


def test_the_memory_estimate_grows_as_it_should():
    problem = random_problem(inputs=100, dimension=10)

    def estimate(width, index):
        settings = NetworkSettings.checked(width=width, dimension=10)
        return Footprint([problem.targets], settings, index, SHARDS[index]).here()

    assert estimate(2**24, "tournament") > 2 * 2**24 * 100 * 4
    assert estimate(2**24, "certified") < estimate(2**24, "tournament") / 4
    assert estimate(2**24, "certified") < 16 * estimate(2**20, "certified")
