"""Both sides of the paper's inequalities, against the definitions in their slow form; sabotage is noticed."""

import math
from dataclasses import replace

import naive
import numpy as np
import pytest

from thresher import CheckTheorems, Problem, default_shift, to_sphere, train
from thresher.datasets import random_problem
from thresher.engines import start_engine
from thresher.model.network import NetworkSettings
from thresher.theory import (
    Facts,
    Statement,
    check_drift,
    check_firing,
    check_first_outputs,
    check_gram,
    check_growth,
    check_halving,
    check_inner_iterations,
    check_kernel,
    check_limit,
    check_sandwich,
    check_search,
    check_sketch,
    check_start_eigenvalue,
    check_widths,
    firing_probability,
    limit_kernel,
    limit_predictions,
    say_count,
    separability,
    smallest_eigenvalue,
)
from thresher.training.theorems import largest_drift

FACTS = Facts(
    width=2**14,
    shift=default_shift(2**14),
    inputs=10,
    dimension=5,
    smallest=0.01,
    target_norm=3.0,
    spread=2.0,
    separability=0.5,
    draws=2**14,
)


def start_gram(problem, settings):
    engine, _ = start_engine(problem, settings, index="scan")
    return engine.gram().dense()


class TestStatement:
    def statement(self, measured, bound, **other):
        return Statement("name", "label", "Sentence.", measured, bound, **other)

    @pytest.mark.parametrize(
        ("measured", "bound", "upper", "slack", "holds"),
        [
            (1.0, 3.0, True, 2.0, True),
            (3.0, 1.0, True, -2.0, False),
            (3.0, 1.0, False, 2.0, True),
            (1.0, 3.0, False, -2.0, False),
            (2.0, 2.0, True, 0.0, True),
            (math.inf, math.inf, True, 0.0, True),
            (1.0, math.inf, True, math.inf, True),
        ],
    )
    def test_slack_and_holds(self, measured, bound, upper, slack, holds):
        one = self.statement(measured, bound, upper=upper)
        assert (one.slack, one.holds, one.broken) == (slack, holds, not holds)

    def test_nothing_holds_of_nan(self):
        assert not self.statement(math.nan, 1.0).holds
        assert not self.statement(1.0, math.nan).holds

    def test_only_promises_break(self):
        assert self.statement(2.0, 1.0).verdict == "FAILS"
        assert not self.statement(2.0, 1.0, promised=False).broken
        verdicts = [self.statement(value, 1.0, promised=False).verdict for value in (0.0, 2.0)]
        assert verdicts == ["holds, not promised", "not promised"]


class TestKernel:
    def test_closed_form_against_monte_carlo(self):
        generator, draws = np.random.default_rng(0), 400_000
        for shift, rho in [(0.0, -0.6), (1.0, 0.3), (2.0, 0.9), (2.0, -0.2)]:
            first, other = generator.normal(size=(2, draws))
            second = rho * first + math.sqrt(1 - rho**2) * other
            share = np.mean((first >= shift) & (second >= shift))
            error = math.sqrt(max(share * (1 - share), 1 / draws) / draws)
            exact = limit_kernel(np.array([[1.0, rho], [rho, 1.0]]), shift)[0, 1] / rho
            assert abs(exact - share) < 4 * error

    def test_a_kernel_between_other_inputs_is_a_part_of_the_whole(self):
        X = random_problem(inputs=90, dimension=6).inputs
        whole = limit_kernel(X @ X.T, 0.8)
        np.testing.assert_allclose(limit_kernel(X[70:] @ X[:70].T, 0.8, symmetric=False), whole[70:, :70], atol=1e-15)

    def test_predictions_on_training_inputs_are_the_targets(self):
        problem = random_problem(inputs=20, dimension=10)
        found = limit_predictions(problem.inputs, problem.targets, problem.inputs, shift=1.0)
        np.testing.assert_allclose(found, problem.targets, atol=1e-10)

    @pytest.mark.parametrize("size", [1, 7, 600])  # 600 takes the way of Lanczos
    def test_smallest_eigenvalue(self, size):
        root = np.random.default_rng(size).normal(size=(size, size + 40))
        matrix = root @ root.T
        assert smallest_eigenvalue(matrix) == pytest.approx(np.linalg.eigvalsh(matrix)[0], rel=1e-6)

    @pytest.mark.parametrize("size", [7, 600])
    def test_a_singular_matrix_has_the_eigenvalue_zero(self, size):
        root = np.random.default_rng(size).normal(size=(size, size - 3))
        assert smallest_eigenvalue(root @ root.T) == 0.0
        assert smallest_eigenvalue(np.zeros((size, size))) == 0.0

    @pytest.mark.parametrize("seed", range(3))
    def test_separability_against_loops(self, seed):
        X = random_problem(inputs=12, dimension=3, seed=seed).inputs
        expected = min(
            min(np.linalg.norm(X[i] - X[j]), np.linalg.norm(X[i] + X[j])) for i in range(12) for j in range(i)
        )
        found = separability(X)
        i, j = found.pair
        assert found.value == pytest.approx(expected, rel=1e-12)
        assert np.linalg.norm(X[i] + X[j] if found.opposite else X[i] - X[j]) == pytest.approx(expected)

    def test_separability_over_blocks(self, monkeypatch):
        X = random_problem(inputs=50, dimension=4).inputs
        whole = separability(X)
        monkeypatch.setattr("thresher.theory.kernel._INPUT_BLOCK", 7)
        assert separability(X).value == whole.value

    @pytest.mark.parametrize("sign", [1.0, -1.0])
    def test_equal_and_opposite_inputs_are_not_apart(self, sign):
        X = random_problem(inputs=9, dimension=4).inputs
        X[7] = sign * X[2]
        assert separability(X) == (0.0, (2, 7), sign < 0)

    def test_orthogonal_inputs(self):
        assert separability(np.eye(3)).value == pytest.approx(math.sqrt(2))


class TestBounds:
    def test_facts_are_what_they_say(self):
        problem = random_problem(inputs=10, dimension=5)
        settings = NetworkSettings.checked(width=1000, dimension=5, twins=True)
        facts = Facts.of(problem, settings)
        X = problem.inputs
        assert (facts.inputs, facts.dimension, facts.width, facts.draws) == (10, 5, 1000, 500)
        assert facts.smallest == pytest.approx(np.linalg.eigvalsh(limit_kernel(X @ X.T, settings.shift))[0])
        assert facts.spread == pytest.approx(np.linalg.eigvalsh(X @ X.T)[-1])
        assert facts.separability == separability(X).value
        assert facts.alpha_bar == pytest.approx(0.04)

    def test_widths_are_those_of_the_paper(self):
        n, d, lam, delta, rho = 10, 5, 0.01, 0.5, 1e-3
        first = max((n / lam) ** 4, (n / lam) ** 2 * d * math.log(16 * n / rho))
        second = (delta**-4 * n**12 * math.log(n / rho) ** 4) ** (1 / 0.04 / 25)  # the 25th root: no overflow
        by_eigenvalue, by_separability = check_widths(FACTS)
        assert 10**by_eigenvalue.bound == pytest.approx(first)
        assert 10 ** (by_separability.bound / 25) == pytest.approx(second)
        assert 10**by_eigenvalue.measured == pytest.approx(2**14)
        assert not by_eigenvalue.promised

    def test_widths_from_which_promises_are_made(self):
        n, lam, b, rho, radius = 10, 0.01, FACTS.shift, 1e-3, FACTS.radius(1.5)
        start = 32 * 2.0 * math.log(n / rho) / lam
        assert FACTS.start_width == pytest.approx(start)
        assert FACTS.perturbation_width(1.5) == pytest.approx(
            max((b * radius) ** 2, (12 * n * radius / lam) ** 2, start)
        )
        p = firing_probability(b)
        assert FACTS.practical_width == pytest.approx(b**2 * 3.0**2 / (lam * n * p))
        assert replace(FACTS, inputs=1000).practical_width == pytest.approx(b**2 * 3.0**2 / lam)  # n p is over 1

        def promised(width):
            facts = replace(FACTS, width=width, draws=width)
            *_, near, invertible = check_gram(facts, change=0.0, smallest=1.0, drift=0.1, residual=1.5)
            return near.promised, invertible.promised, check_start_eigenvalue(facts, 1.0).promised

        perturbation = math.ceil(FACTS.perturbation_width(1.5))
        assert promised(perturbation) == (True, True, True)
        assert promised(perturbation - 1) == (False, False, True)
        assert promised(math.ceil(start)) == (False, False, True)
        assert promised(math.ceil(start) - 1) == (False, False, False)

    def test_first_outputs(self):
        plain = check_first_outputs(FACTS, np.zeros(10)).bound
        assert plain == pytest.approx(math.sqrt(math.log(2 * 10 / 1e-3)))
        with_offset = check_first_outputs(FACTS, np.zeros(10), largest_silent=2.0).bound
        assert with_offset == pytest.approx(plain * math.sqrt((0.5 + 2 + 4) / 0.5))

    def test_what_chance_can_do(self):
        draws, p = FACTS.draws, firing_probability(FACTS.shift)
        logarithm = math.log(2 * 10 / 1e-3)
        _, expected = check_firing(FACTS, np.full(10, draws * p + 3.0))
        off = expected.bound
        # Bernstein: P(|sum - mean| >= off) <= 2 exp(-off² / (2 (variance + off / 3))), and that is rho / n.
        assert off**2 / (2 * (draws * p * (1 - p) + off / 3)) == pytest.approx(logarithm)
        assert expected.measured == pytest.approx(3.0)

    def test_counts_become_words(self):
        said = [say_count(value) for value in (0.0, math.log10(12345), 15.4, math.inf)]
        assert said == ["1", "12,345", "10^15", "infinitely many"]

    def test_widths_of_a_singular_kernel_are_infinite(self):
        facts = replace(FACTS, smallest=0.0, separability=0.0)
        assert facts.convergence_width == facts.combined_width == facts.practical_width == math.inf
        assert facts.radius(1.0) == facts.perturbation_width(1.0) == facts.start_width == math.inf
        statements = [*check_widths(facts), *check_gram(facts, change=0.1, smallest=0.0, drift=0.1, residual=1.0)]
        statements += [check_halving(facts, 0.9), check_start_eigenvalue(facts, 0.0), *check_sandwich(facts)]
        assert not any(one.broken for one in statements)

    def test_sandwich(self):
        low, high = check_sandwich(FACTS)
        assert low.bound == pytest.approx(math.exp(-(FACTS.shift**2) / 2) * 0.5 / (100 * 10**2))
        assert high.bound == pytest.approx((2**14) ** -0.24)
        assert low.holds
        assert high.holds
        assert check_sandwich(replace(FACTS, smallest=low.bound / 2))[0].broken
        assert check_sandwich(replace(FACTS, smallest=high.bound * 2))[1].broken

    def test_drift(self):
        radius = sum(  # the proof, iteration by iteration
            math.sqrt(10) * (2 / 0.01 + 2 / math.sqrt(10 * 0.01)) * 3.0 * 0.5**t for t in range(60)
        )
        one = check_drift(FACTS, 0.7, residual=3.0, proven=True)
        assert one.bound == pytest.approx(radius / math.sqrt(2**14))
        assert check_drift(FACTS, one.bound * 1.01, residual=3.0, proven=True).broken
        assert not check_drift(FACTS, one.bound * 1.01, residual=3.0, proven=False).broken

    def test_gram(self):
        by_drift, near, invertible = check_gram(FACTS, change=0.004, smallest=0.006, drift=0.1, residual=1.0)
        assert (by_drift.bound, near.bound, invertible.bound) == (pytest.approx(3.0), 0.005, 0.005)
        assert [one.promised for one in (by_drift, near, invertible)] == [True, False, False]
        wide = replace(FACTS, width=2**62, draws=2**62)
        *_, near, invertible = check_gram(wide, change=0.006, smallest=0.004, drift=0.1, residual=1.0)
        assert near.broken
        assert invertible.broken
        assert check_gram(FACTS, change=3.1, smallest=1.0, drift=0.1, residual=1.0)[0].broken

    def test_halving_is_promised_in_practice_before_it_is_proven(self):
        assert FACTS.practical_width < 10**FACTS.convergence_width
        assert not check_halving(FACTS, 0.6).promised
        wide = replace(FACTS, width=math.ceil(FACTS.practical_width))
        assert check_halving(wide, 0.6).broken
        assert not check_halving(wide, 0.6, exact=False).broken
        assert check_halving(wide, 0.4).holds

    def test_start(self):
        assert check_first_outputs(FACTS, np.array([1.0, -2.0])).measured == 2.0
        assert check_first_outputs(FACTS, np.array([9.0])).broken
        assert not check_start_eigenvalue(FACTS, 0.001).broken  # too narrow to be promised
        assert check_start_eigenvalue(replace(FACTS, draws=2**30), 0.001).broken

    def test_search(self):
        counts = {"wrong": 0, "answers": 100, "visits": 10 + 2 * 100 * 14, "updated": 5, "touches": 5 * 10 * 15}
        assert all(one.slack == 0 for one in check_search(inputs=10, width=2**14, **counts))
        for worse, place in (("wrong", 0), ("visits", 1), ("touches", 2)):
            statements = check_search(inputs=10, width=2**14, **{**counts, worse: counts[worse] + 1})
            assert [one.broken for one in statements] == [k == place for k in range(3)]

    def test_sketch_growth_limit_and_inner_iterations(self):
        assert check_sketch(0.11, epsilon=0.1, rows=5, proven=True).broken
        assert not check_sketch(0.11, epsilon=0.1, rows=5, proven=False).broken
        assert check_limit(-0.1, converged=True).broken
        assert check_growth(1.1, what="looks", facts=replace(FACTS, inputs=3)).broken
        most = math.log(6 * 10 / 0.01) / -math.log(0.9)
        assert check_inner_iterations(FACTS, 5, proven=True).bound == pytest.approx(most)
        assert check_inner_iterations(FACTS, math.ceil(most), proven=True).broken


class TestRandomStart:
    """Statements about the start, on a real start; and with a kernel or a shift that is not that of the network."""

    problem = random_problem(inputs=15, dimension=6)
    settings = NetworkSettings.checked(width=2**13, dimension=6, shift=1.2)
    facts = Facts.of(problem, settings)

    def counts(self, settings):
        return start_gram(self.problem, settings).diagonal() * settings.width

    def compare(self, facts, settings, limit=None):
        products = self.problem.products
        limit = limit_kernel(products, facts.shift) if limit is None else limit
        return check_kernel(facts, start_gram(self.problem, settings), limit=limit, products=products)

    @pytest.mark.parametrize("twins", [False, True])
    @pytest.mark.parametrize("seed", range(4))
    def test_chance_stays_within_what_it_can_do(self, twins, seed):
        settings = NetworkSettings.checked(width=2**13, dimension=6, shift=1.2, seed=seed, twins=twins)
        facts = Facts.of(self.problem, settings)
        kernel = self.compare(facts, settings)
        bound, expected = check_firing(facts, self.counts(settings))
        assert kernel.holds
        assert kernel.measured > 0.05  # the bound is within reach of chance, so it says something
        assert bound.holds
        assert expected.holds
        assert expected.bound < 0.2 * 2**13 * firing_probability(1.2)

    def test_blocks_change_nothing(self, monkeypatch):
        whole = self.compare(self.facts, self.settings)
        monkeypatch.setattr("thresher.theory.bounds._ROWS", 4)
        assert self.compare(self.facts, self.settings) == whole

    @pytest.mark.parametrize("factor", ["both fire as if independent", "one fires"])
    def test_a_wrong_kernel_fails(self, factor):
        p = firing_probability(1.2)
        wrong = self.problem.products * (p if factor == "one fires" else p**2)
        assert self.compare(self.facts, self.settings, limit=wrong).broken

    @pytest.mark.parametrize("shift", [1.1, 1.3])
    def test_a_wrong_shift_fails(self, shift):
        wrong = self.settings._replace(shift=shift)
        assert self.compare(self.facts, wrong).broken
        assert check_firing(self.facts, self.counts(wrong))[1].broken

    def test_far_too_small_a_shift_breaks_the_sparsity_bound(self):
        sparse = Facts.of(self.problem, self.settings._replace(shift=3.0))
        assert check_firing(sparse, self.counts(self.settings))[0].broken
        assert not check_firing(replace(sparse, draws=100), self.counts(self.settings))[0].promised


class TestCertify:
    def by_name(self, record):
        assert len({one.name for one in record.statements}) == len(record.statements)
        return {one.name: one for one in record.statements}

    @pytest.mark.parametrize("index", ["certified", "tournament"])
    @pytest.mark.parametrize("first_step", ["gram", "limit"])
    def test_agrees_with_dense_gauss_newton(self, index, first_step):
        problem = random_problem(inputs=12, dimension=6)
        options = {"width": 600, "shift": 1.0, "index": index, "first_step": first_step, "dtype": "float64"}
        result = train(problem, max_iterations=3, callbacks=[CheckTheorems()], **options)
        history = result.history
        start = result.network.settings.start
        W0, signs = start.block(0, 600).astype(float), start.signs(np.arange(600))
        G0 = naive.gram(W0, signs, problem.inputs, 1.0)
        at_start = self.by_name(history[0])
        assert at_start["λ at the start"].measured == pytest.approx(np.linalg.eigvalsh(G0)[0])
        assert at_start["firing, at most"].measured == naive.firing(W0, problem.inputs, 1.0).sum(axis=0).max()
        outputs = naive.outputs(W0, signs, problem.inputs, 1.0)
        assert at_start["first outputs"].measured == pytest.approx(np.abs(outputs).max())
        W = result.network.weights.vectors(range(600))
        G = naive.gram(W, signs, problem.inputs, 1.0)
        found = self.by_name(history[-1])
        assert found["Gram change"].measured == pytest.approx(np.linalg.norm(G - G0))
        assert found["λ in training"].measured == pytest.approx(np.linalg.eigvalsh(G)[0])
        assert found["drift"].measured == pytest.approx(np.linalg.norm(W - W0, axis=1).max())
        assert found["halving"].measured == history[-1].contraction
        if first_step == "gram":
            states = naive.gauss_newton(W0, signs, problem.inputs, problem.targets, shift=1.0, iterations=3)
            for record, state in zip(history[1:], states[1:], strict=True):
                change = np.linalg.norm(state["gram"] - G0)
                assert self.by_name(record)["Gram change"].measured == pytest.approx(change)

    def test_training_is_the_same_with_it(self):
        problem = random_problem(inputs=30, dimension=10)
        alone, certified = (train(problem, width=4000, callbacks=one) for one in ([], [CheckTheorems()]))
        assert [one.loss for one in alone.history] == [one.loss for one in certified.history]
        assert not any(one.statements for one in alone.history)
        assert all(one.statements for one in certified.history)

    def test_nothing_promised_fails(self):
        for seed in range(3):
            problem = random_problem(inputs=8, dimension=16, seed=seed)
            result = train(problem, width=2**18, seed=seed, callbacks=[CheckTheorems()])
            promised = {one.name for record in result.history for one in record.statements if one.promised}
            assert {
                "λ from below",
                "limit kernel",
                "firing, expected",
                "λ at the start",
                "halving",
                "drift",
            } <= promised
            assert not [one for record in result.history for one in record.statements if one.broken]

    def test_equal_inputs_are_no_accident(self):
        X = random_problem(inputs=6, dimension=4).inputs
        X[3] = X[1]
        result = train(Problem(X, np.arange(6.0)), width=500, max_iterations=3, callbacks=[CheckTheorems()])
        statements = [one for record in result.history for one in record.statements]
        assert statements
        assert not any(one.broken for one in statements)
        assert self.by_name(result.history[0])["λ from below"].measured == 0.0

    def test_drift_over_blocks(self, monkeypatch):
        result = train(random_problem(inputs=20, dimension=5), width=3000)
        whole = largest_drift(result.network.weights)
        monkeypatch.setattr("thresher.model.weights._BLOCK", 17)
        assert largest_drift(result.network.weights) == pytest.approx(whole, rel=1e-14)

    def test_one_input(self):
        problem = Problem(to_sphere([[1.0, 2.0]]), [1.0])
        result = train(problem, width=500, callbacks=[CheckTheorems()])
        assert not any(one.broken for record in result.history for one in record.statements)


@pytest.mark.slow
def test_ten_thousand_inputs():
    X = random_problem(inputs=10_000, dimension=30).inputs
    kernel = limit_kernel(X @ X.T, 1.0)
    least = smallest_eigenvalue(kernel)
    assert 0 < least < firing_probability(1.0)
    assert 0 < separability(X).value < math.sqrt(2)
