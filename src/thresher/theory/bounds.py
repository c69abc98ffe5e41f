"""The paper's inequalities, one function each: facts and what was measured go in, statements come out.

Where the paper hides a constant, the one that its proof gives is used; where the proof gives none, 1. ``constant`` says
which. Statements about random start weights allow for chance up to ``Facts.failure``, and are promised where start rows
are independent.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from thresher.theory.statements import Facts, Statement, say_count

__all__ = [
    "check_drift",
    "check_firing",
    "check_first_outputs",
    "check_gram",
    "check_halving",
    "check_kernel",
    "check_sandwich",
    "check_slopes",
    "check_start_eigenvalue",
    "check_widths",
]

Matrix = NDArray[np.float64]
_ROWS = 512  # of a matrix that are compared at a time
_ALWAYS = "with independent start rows"
_TINY_PRODUCT = 1e-9  # inner products below this say nothing about how often two inputs fire together


def check_sandwich(facts: Facts) -> tuple[Statement, Statement]:
    """Return both sides of the sandwich of lambda, exp(-b²/2) delta / (100 n²) <= lambda <= exp(-b²/2). Cost: O(1)."""
    top = math.exp(-(facts.shift**2) / 2)
    low = Statement(
        name="λ from below",
        label="thm:sep",
        sentence="Inputs that are apart keep the limit kernel away from singular.",
        measured=facts.smallest,
        bound=top * facts.separability / (100 * facts.inputs**2),
        upper=False,
        constant="1/100, as printed",
        when="if no two inputs are equal or opposite, nor all orthogonal",
        promised=0 < facts.separability < math.sqrt(2),
    )
    high = Statement(
        name="λ from above",
        label="thm:sep",
        sentence="The smallest eigenvalue of the limit kernel shrinks with the shift.",
        measured=facts.smallest,
        bound=top,
        constant="1, as printed",
    )
    return low, high


def check_kernel(facts: Facts, gram: Matrix, *, limit: Matrix, products: Matrix) -> Statement:
    """Compare the Gram matrix at the start with the limit kernel, entry by entry; all matrices (n, n).

    Cost: O(n²) time, memory for some rows.
    """
    n, worst = len(gram), 0.0
    for first in range(0, n, _ROWS):
        rows = slice(first, first + _ROWS), slice(0, first + _ROWS)  # up to the diagonal and a little beyond
        told = np.abs(products[rows]) > _TINY_PRODUCT
        both = np.clip(limit[rows][told] / products[rows][told], 0.0, 1.0)  # P(two inputs fire together)
        counted = facts.draws * gram[rows][told] / products[rows][told]
        allowed = _chance(facts.draws * both * (1 - both), events=n * (n + 1) // 2, failure=facts.failure)
        worst = max(worst, float((np.abs(counted - facts.draws * both) / allowed).max(initial=0.0)))
    return Statement(
        name="limit kernel",
        label="eq:kernel",
        sentence="At the start the Gram matrix is the closed-form kernel but for chance (1: all that chance can do).",
        measured=worst,
        bound=1.0,
        constant="Bernstein's inequality for each entry",
        when=_ALWAYS,
        promised=facts.independent,
    )


def check_slopes(facts: Facts, gram: Matrix, *, limit: Matrix, steepest: float) -> Statement:
    """Compare the Gram matrix at the start with the limit kernel where slopes are not 0 or 1; matrices (n, n).

    Entries are means over start vectors of products of two slopes, none of which is above ``steepest``. Cost: O(n²).
    """
    n = len(gram)
    chance = 2 * steepest**2 * math.sqrt(math.log(n * (n + 1) / facts.failure) / (2 * facts.draws))
    return Statement(
        name="limit kernel",
        label="eq:kernel",
        sentence="At the start the Gram matrix is the limit kernel but for chance (the largest difference).",
        measured=float(np.abs(gram - limit).max()),
        bound=chance,
        constant="Hoeffding's inequality for each entry, of products of slopes",
        when=_ALWAYS,
        promised=facts.independent,
    )


def check_firing(facts: Facts, counts: NDArray[np.float64], *, start: bool = True) -> tuple[Statement, ...]:
    """Compare how many neurons fire on each input, counts (n,), with the bound and at the start with the expectation.

    Cost: O(n).
    """
    p, tail = facts.firing, math.exp(-(facts.shift**2) / 2)
    bound = Statement(
        name="firing, at most" if start else "firing in training",
        label="cor:sparse",
        sentence=f"Only about m^0.76 of the m neurons fire on any one input{'' if start else ', in training too'}.",
        measured=float(counts.max()),
        bound=2 * facts.width * tail,
        constant="2, as printed: 2 m exp(-b²/2), which is 2 m^0.76 for the paper's shift",
        when="at the start, if m exp(-b²/2) >= ln(n/ρ)" if start else "never: the corollary is about the start",
        promised=start and facts.independent and facts.draws * tail >= math.log(facts.inputs / facts.failure),
    )
    if not start:
        return (bound,)
    off = np.abs(counts - facts.width * p).max() * facts.draws / facts.width
    expected = Statement(
        name="firing, expected",
        label="lem:sparse_initial",
        sentence="On each input m P(Z >= b) neurons fire, but for chance (how far off, and what chance can do).",
        measured=float(off),
        bound=float(_chance(np.array(facts.draws * p * (1 - p)), events=facts.inputs, failure=facts.failure)),
        constant="Bernstein's inequality for each input",
        when=_ALWAYS,
        promised=facts.independent,
    )
    return bound, expected


def check_first_outputs(facts: Facts, outputs: NDArray[np.float64], *, largest_silent: float = 0.0) -> Statement:
    """Bound the outputs (n,) at the start; a silent neuron gives ``largest_silent``, b for ``"max"``. Cost: O(n)."""
    moment = 0.5 + largest_silent + largest_silent**2  # of phi(Z)²
    return Statement(
        name="first outputs",
        label="lem:shifted_initialization_formal",
        sentence="An untrained network answers with small numbers.",
        measured=float(np.abs(outputs).max()),
        bound=math.sqrt(2 * moment * math.log(2 * facts.inputs / facts.failure)),
        constant="Hoeffding's: sqrt(2 E[φ²] ln(2n/ρ)) with E[φ²] <= 1/2; the paper's O(1) hides the logarithm",
        when=_ALWAYS,
        promised=facts.independent,
    )


def check_start_eigenvalue(facts: Facts, smallest: float, *, steepest: float = 1.0) -> Statement:
    """Compare the smallest eigenvalue of the Gram matrix at the start with 3/4 of lambda. Cost: O(1).

    The share of a neuron in the Gram matrix grows with the square of its ``steepest`` slope, and so does the width.
    """
    enough = facts.start_width * steepest**2
    return Statement(
        name="λ at the start",
        label="lem:lemma_C.1_in_syz21",
        sentence="At the start the Gram matrix is nearly as far from singular as its limit.",
        measured=smallest,
        bound=0.75 * facts.smallest,
        upper=False,
        constant="32 ‖XXᵀ‖ ln(n/ρ)/λ neurons, by the matrix Chernoff inequality",
        when=f"from {_say(enough)} neurons on",
        promised=facts.independent and facts.draws >= enough,
    )


def check_halving(facts: Facts, contraction: float, *, exact: bool = True) -> Statement:
    """Compare the residual after a step, over that before it, with 1/2. Cost: O(1).

    The theorem's width is out of reach; in practice we promise it from ``Facts.practical_width`` on, of ``exact``
    steps: full ones, solved for without damping, and not of those that only clear up rounding.
    """
    theorem, practice = say_count(facts.convergence_width), _say(facts.practical_width)
    enough = math.log10(facts.width) >= facts.convergence_width or facts.width >= facts.practical_width
    return Statement(
        name="halving",
        label="thm:correctness",
        sentence="Every step at least halves the distance between outputs and targets.",
        measured=contraction,
        bound=0.5,
        constant="1 for the theorem's width; in practice b²‖y‖²/(λ min(1, n P(Z >= b))), a rule of thumb of ours",
        when=f"from {theorem} neurons on by the theorem; in practice from {practice} on, with the shift kept at "
        f"{facts.shift:.3g}",
        promised=enough and exact,
    )


def check_drift(facts: Facts, drift: float, *, residual: float, proven: bool) -> Statement:
    """Compare the largest distance of a neuron from its start with R_0/sqrt(m). Cost: O(1).

    ``residual`` is ||f - y|| at the start; ``proven`` says whether the hypotheses of the induction held so far: full
    steps that halve the residual, and lambda_min(G_t) >= lambda/2.
    """
    return Statement(
        name="drift",
        label="lem:induction_part2",
        sentence="No neuron ever travels far from where it started.",
        measured=drift,
        bound=facts.radius(residual) / math.sqrt(facts.width),
        constant="4 sqrt(n) (1/λ + 1/sqrt(nλ)) ‖f₀ - y‖ for R₀, the sum of the proof's series; the paper: about n/λ",
        when="while steps halve the residual and λ_min(G_t) >= λ/2",
        promised=proven,
    )


def check_gram(facts: Facts, *, change: float, smallest: float, drift: float, residual: float) -> tuple[Statement, ...]:
    """Compare ||G_t - G_0||_F with what the drift allows and with lambda/2, and lambda_min(G_t) with lambda/2.

    Cost: O(1).
    """
    enough = facts.perturbation_width(residual)
    known = facts.draws * drift / 10 >= math.log(facts.inputs**2 / facts.failure)
    by_drift = Statement(
        name="Gram change by drift",
        label="lem:boundary_of_G",
        sentence="If no neuron travels further than R, the Gram matrix changes by at most 3nR.",
        measured=change,
        bound=3 * facts.inputs * drift,
        constant="3, as printed; the other branch, c exp(-b²/2), is left out, for c is not given, and R <= 1/b with it",
        when="if there are neurons enough for the law of large numbers: m R >= 10 ln(n²/ρ)",
        promised=facts.independent and known,
    )
    near = Statement(
        name="Gram change",
        label="lem:shifted_small_move_eigenvalue_formal",
        sentence="Training hardly changes the Gram matrix.",
        measured=change,
        bound=facts.smallest / 2,
        constant="144 (n R₀/λ)² neurons, which makes 3nR at most λ/4",
        when=f"from {_say(enough)} neurons on",
        promised=facts.independent and facts.width >= enough,
    )
    invertible = replace(
        near,
        name="λ in training",
        sentence="The Gram matrix stays away from singular, so every step can be computed.",
        measured=smallest,
        upper=False,
    )
    return by_drift, near, invertible


def check_widths(facts: Facts) -> tuple[Statement, Statement]:
    """Compare the width with what the two theorems ask for, all as base-10 logarithms: they overflow. Cost: O(1)."""
    by_eigenvalue = Statement(
        name="width, by λ",
        label="thm:correctness",
        sentence="So many neurons make the proof of convergence work (powers of 10).",
        measured=math.log10(facts.width),
        bound=facts.convergence_width,
        upper=False,
        constant="1: max(λ⁻⁴n⁴, λ⁻²n²d ln(16n/ρ))",
        when="never: it is a hypothesis of other statements",
        promised=False,
    )
    by_separability = replace(
        by_eigenvalue,
        name="width, by δ",
        label="thm:neural_network_sparisity",
        sentence="So many do when all that is known of the inputs is how far apart they are (powers of 10).",
        bound=facts.combined_width,
        constant="1: (δ⁻⁴n¹² ln⁴(n/ρ))^(1/α-bar)",
    )
    return by_eigenvalue, by_separability


def _chance(variance: NDArray[np.float64], *, events: int, failure: float) -> NDArray[np.float64]:
    """Return how far sums of independent 0/1 variables stray at the most (Bernstein), all ``events`` of them."""
    logarithm = math.log(2 * events / failure)
    return logarithm / 3 + np.sqrt(logarithm**2 / 9 + 2 * variance * logarithm)


def _say(width: float) -> str:
    return say_count(math.log10(width) if width > 0 else 0.0)
