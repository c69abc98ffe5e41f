"""Both sides of the paper's inequalities, against the definitions in their slow form."""

import math
from dataclasses import replace

import numpy as np
import pytest
from verification.costs import (
    check_growth,
    check_inner_iterations,
    check_limit,
    check_search,
    check_sketch,
    limit_predictions,
)

from thresher import default_shift
from thresher.datasets import random_problem
from thresher.engines import start_engine
from thresher.model.network import NetworkSettings
from thresher.theory import (
    Facts,
    Statement,
    firing_probability,
    limit_kernel,
    say_count,
    separability,
    smallest_eigenvalue,
)
from thresher.theory.bounds import (
    check_drift,
    check_firing,
    check_first_outputs,
    check_gram,
    check_halving,
    check_sandwich,
    check_start_eigenvalue,
    check_widths,
)

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
        assert separability(X) == pytest.approx(expected, rel=1e-12)

    def test_separability_over_blocks(self, monkeypatch):
        X = random_problem(inputs=50, dimension=4).inputs
        whole = separability(X)
        monkeypatch.setattr("thresher.theory.kernel._INPUT_BLOCK", 7)
        assert separability(X) == whole

    @pytest.mark.parametrize("sign", [1.0, -1.0])
    def test_equal_and_opposite_inputs_are_not_apart(self, sign):
        X = random_problem(inputs=9, dimension=4).inputs
        X[7] = sign * X[2]
        assert separability(X) == 0.0

    def test_orthogonal_inputs(self):
        assert separability(np.eye(3)) == pytest.approx(math.sqrt(2))


class TestBounds:
    def test_facts_are_what_they_say(self):
        problem = random_problem(inputs=10, dimension=5)
        settings = NetworkSettings.checked(width=1000, dimension=5, twins=True)
        facts = Facts.of(problem, settings)
        X = problem.inputs
        assert (facts.inputs, facts.dimension, facts.width, facts.draws) == (10, 5, 1000, 500)
        assert facts.smallest == pytest.approx(np.linalg.eigvalsh(limit_kernel(X @ X.T, settings.shift))[0])
        assert facts.spread == pytest.approx(np.linalg.eigvalsh(X @ X.T)[-1])
        assert facts.separability == separability(X)
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
