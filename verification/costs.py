"""What searches, sketches and iterations may cost, and what the limit of infinite width says of predictions."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from thresher.theory import Facts, Statement, limit_kernel

__all__ = [
    "check_growth",
    "check_inner_iterations",
    "check_limit",
    "check_search",
    "check_sketch",
    "limit_predictions",
]


def check_search(
    *, inputs: int, width: int, wrong: int, answers: int, visits: int, updated: int, touches: int
) -> tuple[Statement, Statement, Statement]:
    """Compare what the n trees answered and took with ``thm:tree_ds``. Cost: O(1).

    Parameters
    ----------
    wrong : pairs on which trees and a full scan disagree
    answers, visits : of one query to each tree: neurons found and nodes examined
    updated, touches : neurons that were moved, and nodes written for them
    """
    depth = math.ceil(math.log2(max(width, 2)))
    return (
        Statement(
            name="trees are exact",
            label="lem:query_correct",
            sentence="The trees find exactly the neurons that fire: none missed, none too many.",
            measured=float(wrong),
            bound=0.0,
        ),
        Statement(
            name="query cost",
            label="lem:query_time",
            sentence="A query examines about K log m nodes for K answers, however many neurons there are.",
            measured=float(visits),
            bound=float(inputs + 2 * answers * depth),
            constant="2, and 1 for each root: a path has log₂ m nodes, and both children of each are examined",
        ),
        Statement(
            name="update cost",
            label="lem:update_time",
            sentence="A neuron that moves is written anew in n log m nodes.",
            measured=float(touches),
            bound=float(updated * inputs * (depth + 1)),
            constant="1: a path has log₂ m + 1 nodes",
        ),
    )


def check_sketch(distortion: float, *, epsilon: float, rows: int, proven: bool) -> Statement:
    """Compare the distortion of a sketch of ``rows`` rows with epsilon. Cost: O(1)."""
    which = "A random projection" if proven else "The cheap random projection that is used"
    return Statement(
        name="sketch" if proven else "sketch, as used",
        label="lem:subspace-embedding",
        sentence=f"{which} keeps the geometry of the Jacobian to ten per cent.",
        measured=distortion,
        bound=epsilon,
        constant=f"s = {rows:,} rows, ((√n + √(2 ln(2n²)))/(√(1+ε) - 1))²; the paper says n poly(1/ε, log n)",
        when="for Gaussian sketches" if proven else "for Gaussian sketches; this is TensorSketch",
        promised=proven,
    )


def check_inner_iterations(facts: Facts, iterations: int, *, proven: bool) -> Statement:
    """Compare the inner iterations of the sketched regression with ln(6n/lambda)/ln(1/0.9). Cost: O(1)."""
    ratio = 6 * facts.inputs / facts.smallest if facts.smallest else math.inf
    return Statement(
        name="inner iterations",
        label="lem:iterative_regression_number_of_iterations",
        sentence="With the sketch, a handful of inner iterations solve for the step.",
        measured=float(iterations),
        bound=math.log(ratio) / math.log(1 / 0.9),
        constant="each multiplies the error by at most 0.9 (lem:regular-regression); 6 from ε_reg",
        when="while λ_min(G_t) >= λ/2 and the sketch is good to a quarter",
        promised=proven,
    )


def check_growth(exponent: float, *, what: str, facts: Facts, why_none: str = "") -> Statement:
    """Compare the exponent of the width in ``what`` a step costs with 1; ``facts`` are those of the widest network.

    ``why_none`` says why the exponent is NaN, if it is; then nothing is promised.
    """
    return Statement(
        name=f"growth, {what}",
        label="thm:running_time_formal",
        sentence=f"A step costs less than in proportion to the width ({what}: {_exponent(why_none)}).",
        measured=exponent,
        bound=1.0,
        constant="the proof has exponent 0.76, and n² before it",
        when="once most neurons fire on nothing, n P(Z >= b) < 1",
        promised=facts.inputs * facts.firing < 1 and not why_none,
    )


def check_limit(exponent: float, *, converged: bool, why_none: str = "") -> Statement:
    """Compare the exponent of the width in the distance to the limit's predictions with -1/4. Cost: O(1).

    ``why_none`` as in :func:`check_growth`.
    """
    return Statement(
        name="infinite width",
        label="lem:small-move_formal",
        sentence=f"On unseen inputs wide networks predict what the limit does (error: {_exponent(why_none)}).",
        measured=exponent,
        bound=-0.25,
        constant="the Jacobian changes by O(m^-1/4); the constant does not matter to an exponent",
        when="if training converged at every width",
        promised=converged and not why_none,
    )


def _exponent(why_none: str) -> str:
    return f"not measured, {why_none}" if why_none else "exponent of the width"


def limit_predictions(
    inputs: NDArray[np.float64], targets: NDArray[np.float64], others: NDArray[np.float64], *, shift: float
) -> NDArray[np.float64]:
    """Return what an infinitely wide network that starts at f = 0 predicts on other inputs (k, d), (k,).

    It is h H⁻¹ y with the limit kernel H of the inputs (n, d) and its values h (k, n) between the others and them; of a
    singular H the directions that carry something are used.

    Cost: O(n³ + nk).
    """
    kernel = limit_kernel(inputs @ inputs.T, shift)
    weights = np.linalg.lstsq(kernel, targets, rcond=1e-12)[0]
    return limit_kernel(others @ inputs.T, shift, symmetric=False) @ weights
