"""A statement of the paper with both sides of its inequality, and the facts that the sides are made of."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thresher.model.network import NetworkSettings
from thresher.model.problem import Problem
from thresher.theory.kernel import firing_probability, limit_kernel, separability, smallest_eigenvalue

__all__ = ["Facts", "Statement", "say_count"]

FAILURE = 1e-3  # probability that chance alone breaks a statement about random start weights, at the most


@dataclass(frozen=True)
class Statement:
    """One inequality of the paper, measured.

    ``promised`` says whether its hypotheses are met at this size, ``when`` what they are. A statement that is not
    promised may hold all the same; one that is promised and does not hold is ``broken``.
    """

    name: str
    label: str  # in the paper
    sentence: str  # what it says, in plain words
    measured: float
    bound: float
    upper: bool = True  # the bound is an upper one: measured <= bound
    constant: str = "none hidden"  # the paper's hidden constants, as used here
    when: str = "always"
    promised: bool = True

    @property
    def slack(self) -> float:
        """How far the measured side is on the right side of the bound; negative if it is not."""
        if self.measured == self.bound:
            return 0.0  # two infinities included
        return self.bound - self.measured if self.upper else self.measured - self.bound

    @property
    def holds(self) -> bool:
        """Whether the inequality is true; never with a NaN."""
        return self.slack >= 0

    @property
    def broken(self) -> bool:
        """Whether it was promised and is not true."""
        return self.promised and not self.holds

    @property
    def verdict(self) -> str:
        """In a word or two: holds, FAILS, or what happened without a promise."""
        if math.isnan(self.measured) and not self.promised:
            return "not measured"
        if self.promised:
            return "holds" if self.holds else "FAILS"
        return "holds, not promised" if self.holds else "not promised"


@dataclass(frozen=True)
class Facts:
    """What the bounds are made of: sizes, and what the limit kernel and the inputs say."""

    width: int  # m
    shift: float  # b
    inputs: int  # n
    dimension: int  # d
    smallest: float  # lambda, the smallest eigenvalue of the limit kernel; 0 if it is singular
    target_norm: float  # ||y||
    spread: float  # the largest eigenvalue of X Xᵀ: at most n, and n only if all inputs are the same
    separability: float  # delta
    draws: int  # start vectors: the width, or half of it for twins
    failure: float = FAILURE  # rho
    independent: bool = True  # whether start vectors are, as the proofs of statements about chance need

    @classmethod
    def of(
        cls,
        problem: Problem,
        settings: NetworkSettings,
        *,
        limit: NDArray[np.float64] | None = None,
        failure: float = FAILURE,
    ) -> Facts:
        """Return the facts of a problem and a network; ``limit`` is its limit kernel (n, n), made here if not given.

        Cost: O(n³/3 + n²d), memory for two matrices (n, n).
        """
        limit = limit_kernel(problem.products, settings.limit) if limit is None else limit
        return cls(
            width=settings.width,
            shift=settings.shift,
            inputs=problem.size,
            dimension=problem.dimension,
            smallest=smallest_eigenvalue(limit),
            target_norm=float(np.linalg.norm(problem.targets)),
            spread=float(np.linalg.norm(problem.inputs, 2)) ** 2,
            separability=separability(problem.inputs) if problem.size > 1 else math.sqrt(2),
            draws=settings.width // 2 if settings.start.twins else settings.width,
            failure=failure,
            independent=settings.start.sequence == "random",
        )

    @property
    def firing(self) -> float:
        """P(Z >= b): the share of neurons that fire on an input at the start."""
        return firing_probability(self.shift)

    @property
    def alpha_bar(self) -> float:
        """The paper's exponent for this shift: b = sqrt(0.5 (1 - alpha_bar) ln m)."""
        return 1 - 2 * self.shift**2 / math.log(self.width) if self.width > 1 else 1.0

    @property
    def start_width(self) -> float:
        """Width from which lambda_min(G_0) >= 3/4 lambda is certain up to ``failure``: 32 ||X Xᵀ|| ln(n/rho) / lambda.

        The constant is that of the matrix Chernoff inequality; the paper has n for ||X Xᵀ||.
        """
        return _ratio(32 * self.spread * math.log(self.inputs / self.failure), self.smallest)

    @property
    def convergence_width(self) -> float:
        """Base-10 logarithm of the width of ``thm:correctness``, with constant 1."""
        first = 4 * _log10(_ratio(self.inputs, self.smallest))
        second = 2 * _log10(_ratio(self.inputs, self.smallest)) + _log10(
            self.dimension * math.log(16 * self.inputs / self.failure)
        )
        return max(first, second)

    @property
    def combined_width(self) -> float:
        """Base-10 logarithm of the width of ``thm:neural_network_sparisity``, with constant 1."""
        if self.separability == 0 or self.alpha_bar <= 0:
            return math.inf
        logs = 4 * math.log10(math.log(self.inputs / self.failure))
        return (-4 * math.log10(self.separability) + 12 * math.log10(self.inputs) + logs) / self.alpha_bar

    @property
    def practical_width(self) -> float:
        """Width from which steps are near enough to linear to halve the residual: ours, not the paper's.

        b² ||y||² / (lambda min(1, n P(Z >= b))): then the drift of a neuron that fires, in a first step along the worst
        direction of the kernel, is on average at most 1/b, which is how far beyond the shift it fires. A rule of thumb:
        generous on the problems we have tried, random and real.
        """
        moves = min(1.0, self.inputs * self.firing)  # share of neurons that fire on anything, at the most
        return _ratio((self.shift * self.target_norm) ** 2, self.smallest * moves)

    def radius(self, residual: float) -> float:
        """Return R_0, from the first ||f - y||: the paper's n/lambda before its constants are dropped.

        4 sqrt(n) (1/lambda + 1/sqrt(n lambda)) ||f_0 - y||: the sum over the iterations of ``lem:induction_part2``.
        """
        n, smallest = self.inputs, self.smallest
        if smallest == 0:
            return math.inf
        return 4 * math.sqrt(n) * (1 / smallest + 1 / math.sqrt(n * smallest)) * residual

    def perturbation_width(self, residual: float) -> float:
        """Return the width of ``lem:shifted_small_move_eigenvalue_formal``; 3nR <= lambda/4 gives the 144."""
        radius = self.radius(residual)
        near = 144 * _ratio(self.inputs * radius, self.smallest) ** 2
        return max((self.shift * radius) ** 2, near, self.start_width)


def say_count(logarithm: float) -> str:
    """Return a number of neurons in words from its base-10 logarithm: 12,345, 10^15, or infinitely many."""
    if math.isinf(logarithm):
        return "infinitely many"
    return f"{10**logarithm:,.0f}" if logarithm < 7 else f"10^{logarithm:.0f}"


def _ratio(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator > 0 else math.inf


def _log10(value: float) -> float:
    return math.log10(value) if math.isfinite(value) else math.inf
