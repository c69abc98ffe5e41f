"""Statements about random starts and about trainings hold, and fail where they should."""

import math
from dataclasses import replace

import naive
import numpy as np
import pytest
from test_theory import start_gram

from thresher import CheckTheorems, Problem, to_sphere, train
from thresher.datasets import random_problem
from thresher.model.network import NetworkSettings
from thresher.theory import Facts, firing_probability, limit_kernel, separability, smallest_eigenvalue
from thresher.theory.bounds import check_firing, check_kernel


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
            result = train(problem, width=2**18, seed=seed, start="random", callbacks=[CheckTheorems()])
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

    def test_what_needs_independent_rows_is_not_promised_without_them(self):
        problem = random_problem(inputs=8, dimension=16)
        result = train(problem, width=2**18, callbacks=[CheckTheorems()])
        statements = [one for record in result.history for one in record.statements]
        assert {one.name for one in statements if one.promised} == {"λ from below", "λ from above", "halving", "drift"}
        assert not any(one.broken for one in statements)
        of_chance = [one for one in statements if one.name in ("limit kernel", "firing, expected", "λ at the start")]
        assert {one.verdict for one in of_chance} == {"holds, not promised"}

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
        whole = result.network.weights.distances().max()
        monkeypatch.setattr("thresher.model.weights._BLOCK", 17)
        assert result.network.weights.distances().max() == pytest.approx(whole, rel=1e-14)

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
    assert 0 < separability(X) < math.sqrt(2)
