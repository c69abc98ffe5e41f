"""The paper's statements, checked while training goes on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from thresher.checks import check_number
from thresher.theory import Facts, Statement, limit_kernel, smallest_eigenvalue
from thresher.theory.bounds import (
    check_drift,
    check_firing,
    check_first_outputs,
    check_gram,
    check_halving,
    check_kernel,
    check_sandwich,
    check_slopes,
    check_start_eigenvalue,
    check_widths,
)
from thresher.training.history import Callback, Iteration, State

__all__ = ["CheckTheorems"]

_ROUNDING = 1e-6  # share of the first residual below which float32 decides what a step does


class CheckTheorems(Callback):
    """Checks the statements of the paper after every iteration; they are in ``Iteration.statements``.

    Parameters
    ----------
    failure : probability with which chance alone may break a statement about the random start

    What its proofs say of chance needs independent start rows: it is promised with ``start="random"`` alone. With the
    default rows, which share random signs, it is measured against the same bounds, and not promised.

    The paper is about ReLU. Of other activations are checked: the limit kernel, its eigenvalue at the start, and
    whether steps halve the residual, which nobody promises.

    ``facts`` holds what the bounds were made of, after the start. With another loss than squares statements are about
    the squares that take its place: targets are the outputs that are aimed at.

    Cost: O(n³) and O(d) per coefficient of the weights, per iteration. Memory: four matrices (n, n).
    """

    facts: Facts

    def __init__(self, *, failure: float = 1e-3) -> None:
        self._failure = check_number(failure, "failure", above=0.0)

    def certify(self, record: Iteration, state: State) -> Sequence[Statement]:
        """Return the statements about the start, or about the iteration just made."""
        gram = state.engine.gram().dense()
        smallest = smallest_eigenvalue(gram)
        if record.iteration == 0:
            return self._about_start(record, state, gram, smallest)
        return self._about_step(record, state, gram, smallest)

    def _about_start(
        self, record: Iteration, state: State, gram: NDArray[np.float64], smallest: float
    ) -> tuple[Statement, ...]:
        problem, settings = state.problem, state.settings
        products = problem.products
        limit = limit_kernel(products, settings.limit)
        self.facts = facts = Facts.of(problem, settings, limit=limit, failure=self._failure)
        self._gram, self._residual = gram, record.residual
        # The first step may come from the limit kernel, with f taken to be 0; the proof has room for that up to here.
        self._proven = facts.target_norm <= 2 * record.residual
        if settings.pieces is not None:
            steepest = settings.pieces.steepest
            kernel = check_slopes(facts, gram, limit=limit, steepest=steepest)
            return kernel, check_start_eigenvalue(facts, smallest, steepest=steepest)
        silent = settings.shift if settings.activation == "max" else 0.0
        return (
            *check_sandwich(facts),
            check_kernel(facts, gram, limit=limit, products=products),
            *check_firing(facts, _counts(gram, state)),
            check_first_outputs(facts, state.outputs, largest_silent=silent),
            check_start_eigenvalue(facts, smallest),
            *check_widths(facts),
        )

    def _about_step(
        self, record: Iteration, state: State, gram: NDArray[np.float64], smallest: float
    ) -> tuple[Statement, ...]:
        facts, residual = self.facts, self._residual
        if state.settings.pieces is not None:
            return (check_halving(facts, record.contraction, exact=False),)
        firing = check_firing(facts, _counts(gram, state), start=False)
        drift = float(state.engine.weights().distances().max(initial=0.0))  # O(d) per coefficient
        exact = record.step == 1.0 and record.damping == 0 and record.solve.endswith("solved")
        # What the induction needs of this step; of the Gram matrix it came from, the last iteration has seen to it.
        self._proven = self._proven and exact and record.contraction <= 0.5
        statements = (
            check_halving(facts, record.contraction, exact=exact and record.residual > _ROUNDING * residual),
            check_drift(facts, drift, residual=residual, proven=self._proven),
            *check_gram(
                facts,
                change=float(np.linalg.norm(gram - self._gram)),
                smallest=smallest,
                drift=drift,
                residual=residual,
            ),
            *firing,
        )
        self._proven = self._proven and smallest >= facts.smallest / 2
        return statements


def _counts(gram: NDArray[np.float64], state: State) -> NDArray[np.float64]:
    """Return how many neurons fire on each input (n,): m G_ii / ||x_i||²."""
    return np.round(gram.diagonal() * state.settings.width / (state.problem.inputs**2).sum(axis=1))
