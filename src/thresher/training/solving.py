"""Which solver? Matrices of n x n numbers where they are cheap and fit, products over firing pairs where not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.algebra import SOLVERS, Cholesky, ConjugateGradient, RandomPivots, ReusedFactor
from thresher.engines import Facts, matrix_bytes
from thresher.errors import InvalidInput
from thresher.interfaces import Sketch, Solver
from thresher.memory import format_bytes
from thresher.theory.limit_matrix import LimitMatrix

__all__ = ["ALWAYS_FACTOR", "EVER_FACTOR", "LimitGram", "Solving", "choose_solving", "first_solver", "loosened"]

# Inputs up to which solver="auto" factors every matrix, and up to which it makes any.
ALWAYS_FACTOR, EVER_FACTOR = 1500, 20_000
# Rough costs of a solve in multiplications of a loop over pairs, set from one case (n 4000, d 50, m 2^14): products
# over pairs; what a factorisation, which is used again, co-firing counts by bits, and n x n numbers amount to.
_PRODUCTS, _FACTOR, _COUNTS, _NUMBERS = 20, 1 / 18, 1 / 26, 350.0
_FEW = 6  # dimensions below which inputs are close to each other, and a solve takes far more products
_GROWTH = 2  # pairs fire so many times as often after some steps
# Relative residual of solves over pairs: as fine as the first where steps are short, never coarser than the second.
_TOLERANCE, _LOOSEST = 1e-2, 0.1
_SHARE = 0.25  # of the last contraction that the next solve may leave
_MOST_PRODUCTS = 200  # of a solve over pairs: a step that is not exact is shorter, not wrong
_FIRST_ITERATIONS = 100  # of the first step's solve: any step is legal, and the limit is not the network's own matrix
_LEAST_COLUMNS = 64  # of inputs, that a product over a pair takes at least
MATRIX_FREE = "pivots"


class Solving(NamedTuple):
    """A solver, whether n x n matrices are made for it, and why it was chosen."""

    make: Callable[[], Solver]  # a new one for each output: it may remember
    matrix: bool
    why: str


def choose_solving(
    solver: str | Solver, facts: Facts, near: Callable[[], LimitMatrix], *, threads: int, allowed: Callable[[], float]
) -> Solving:
    """Return what a name, or the object that was given, stands for on these inputs.

    ``facts`` are those of the network, ``near`` returns the limit kernel, ``allowed`` the bytes that may be taken.
    """
    n = facts.inputs
    if solver == "auto":
        return _automatic(facts, near, threads=threads, allowed=allowed)
    if solver == MATRIX_FREE:
        return Solving(lambda: _over_pairs(near), False, "solver='pivots': no n x n matrix is made.")
    why = f"solver={solver!r} was asked for." if isinstance(solver, str) else f"{type(solver).__name__} was given."
    if isinstance(solver, str):
        if solver not in SOLVERS:
            names = ", ".join(repr(one) for one in (*SOLVERS, MATRIX_FREE, "auto"))
            raise InvalidInput(f"solver must be one of {names}; got {solver!r}.")
        return Solving(SOLVERS[solver], n <= EVER_FACTOR or solver == "cholesky", why)
    if isinstance(solver, type) or not hasattr(solver, "prepare"):
        raise InvalidInput(f"solver must be a name or an object with a prepare method; got {solver!r}.")
    if isinstance(solver, ReusedFactor):
        old = solver  # what one training learns must not change another
        return Solving(lambda: replace(old, factor=None), True, why)
    matrix = not _is_over_pairs(solver) and (n <= EVER_FACTOR or isinstance(solver, Cholesky))
    return Solving(lambda: solver, matrix, why)


def _is_over_pairs(solver: Solver) -> bool:
    return isinstance(solver, ConjugateGradient) and isinstance(solver.preconditioner, RandomPivots)


def _automatic(facts: Facts, near: Callable[[], LimitMatrix], *, threads: int, allowed: Callable[[], float]) -> Solving:
    n = facts.inputs
    if n <= ALWAYS_FACTOR:
        return Solving(Cholesky, True, f"Cholesky: {n:,} inputs are few, every matrix is factored.")
    bytes_, pairs = matrix_bytes(facts, threads=threads), _GROWTH * facts.pairs
    by_matrix = n * n * (_FACTOR * n + _COUNTS * facts.neurons + _NUMBERS)
    products = min(_PRODUCTS * (1 + (_FEW / facts.dimension) ** 5), _MOST_PRODUCTS)
    by_pairs = products * 2 * pairs * max(facts.dimension, _LEAST_COLUMNS)
    over_pairs = "Conjugate gradients over firing pairs, preconditioned by random pivots of the limit kernel: "
    if n > EVER_FACTOR or bytes_ > allowed():
        why = f"matrices of {n:,} x {n:,} numbers would take {format_bytes(bytes_)}."
        return Solving(lambda: _over_pairs(near), False, over_pairs + why)
    compared = f"{by_pairs:.1g} multiplications per solve over about {pairs:.1g} firing pairs, {by_matrix:.1g} with"
    if by_pairs < by_matrix:
        return Solving(lambda: _over_pairs(near), False, f"{over_pairs}{compared} the matrix.")
    return Solving(ReusedFactor, True, f"A factor that is used again: {compared} the matrix.")


@dataclass(frozen=True)
class Loose(ConjugateGradient):
    """Conjugate gradients as exact as the next step can use; ``tol`` is the least that is asked of them.

    A solve with the relative residual t leaves t of what is to be learnt, and the pairs that flip on the way leave a
    share c: after the step at most c + t is left. Nobody knows c before, but as steps get shorter it falls, so the last
    contraction is above it. With t a quarter of that a step is nearly as good as an exact one, for far fewer products.
    """

    def after(self, contraction: float) -> ConjugateGradient:
        """Return the solver for a step after one that left this share of the residual; NaN if there was none."""
        return replace(self, tol=max(self.tol, _SHARE * contraction if _SHARE * contraction < _LOOSEST else _LOOSEST))


def loosened(solver: Solver, contraction: float) -> Solver:
    """Return the solver for the step after one that left this share of the residual."""
    return solver.after(contraction) if isinstance(solver, Loose) else solver


def _over_pairs(near: Callable[[], LimitMatrix]) -> ConjugateGradient:
    return Loose(tol=_TOLERANCE, preconditioner=RandomPivots(near), max_iterations=_MOST_PRODUCTS)


def first_solver(solver: Solver, near: Callable[[], LimitMatrix]) -> ConjugateGradient:
    """Return what solves for the first step without a matrix: with the preconditioner of the solver, if it has one."""
    pivots = solver.preconditioner if _is_over_pairs(solver) else RandomPivots(near)  # type: ignore[attr-defined]
    return ConjugateGradient(tol=_TOLERANCE, preconditioner=pivots, max_iterations=_FIRST_ITERATIONS)


class LimitGram:
    """The limit kernel of many inputs as a Gram operator, in single precision; what fits of half of it is kept."""

    def __init__(self, limit: LimitMatrix) -> None:
        self._limit = limit

    @property
    def size(self) -> int:
        """Number of inputs, n."""
        return len(self._limit)

    def dense(self) -> NDArray[np.float64]:
        """Refuse: that is what this class is there to avoid."""
        raise InvalidInput("the limit kernel of many inputs is never made as a whole. Use ConjugateGradient().")

    def times(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the product with a vector, (n,) or (n, k). Cost: O(n²) per vector, O(n²d) for what is not kept."""
        return self._limit.times(vector.reshape(len(vector), -1)).reshape(vector.shape)

    def diagonal(self) -> NDArray[np.float64]:
        """Return the diagonal."""
        return np.full(self.size, self._limit.diagonal)

    def sketch(self, sketch: Sketch) -> NDArray[np.float64]:
        """Refuse: there is no Jacobian behind this matrix."""
        raise InvalidInput("the limit kernel has no Jacobian to sketch. Use ConjugateGradient().")
