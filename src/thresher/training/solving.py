"""Which solver? Matrices of n x n numbers where they are cheap and fit, products over firing pairs where not."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from thresher.algebra import SOLVERS, Cholesky, ConjugateGradient, Loose, RandomPivots, ReusedFactor
from thresher.engines import Facts, matrix_bytes
from thresher.errors import InvalidInput
from thresher.interfaces import EVER_FACTOR, Factor, Gram, Sketch, Solver
from thresher.memory import format_bytes
from thresher.theory.limit_matrix import LimitMatrix

__all__ = ["ALWAYS_FACTOR", "EVER_FACTOR", "LimitGram", "Solving", "choose_solving", "first_solver"]

ALWAYS_FACTOR = 1500  # inputs up to which solver="auto" factors every matrix
# Rough costs of a solve in multiplications of a loop over pairs, set from one case (n 4000, d 50, m 2^14): products
# over pairs; what a factorisation, which is used again, co-firing counts by bits, and n x n numbers amount to.
_PRODUCTS, _FACTOR, _COUNTS, _NUMBERS = 20, 1 / 18, 1 / 26, 350.0
_FEW = 6  # dimensions below which inputs are close to each other, and a solve takes far more products
_GROWTH = 2  # pairs fire so many times as often after some steps
_TOLERANCE = 1e-2  # relative residual of solves over pairs where steps are short
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
        return Solving(_over_pairs(near).fresh, False, "solver='pivots': no n x n matrix is made.")
    if isinstance(solver, str):
        if solver not in SOLVERS:
            names = ", ".join(repr(one) for one in (*SOLVERS, MATRIX_FREE, "auto"))
            raise InvalidInput(f"solver must be one of {names}; got {solver!r}.")
        made, why = SOLVERS[solver](), f"solver={solver!r} was asked for."
    elif isinstance(solver, type) or not isinstance(solver, _Prepares):
        raise InvalidInput(f"solver must be a name or an object with a prepare method; got {solver!r}.")
    else:
        made, why = solver if isinstance(solver, Solver) else _Given(solver), f"{type(solver).__name__} was given."
    return Solving(made.fresh, made.needs_matrix(n), why)


@runtime_checkable
class _Prepares(Protocol):
    """What a solver of a user must have."""

    def prepare(self, gram: Gram, *, added: float | NDArray[np.float64] = 0.0, iteration: int = 0) -> Factor: ...


class _Given(Solver):
    """A solver of a user that does not derive from ``Solver``."""

    def __init__(self, solver: _Prepares) -> None:
        self._solver = solver

    def prepare(self, gram: Gram, *, added: float | NDArray[np.float64] = 0.0, iteration: int = 0) -> Factor:
        return self._solver.prepare(gram, added=added, iteration=iteration)

    def __repr__(self) -> str:
        return repr(self._solver)


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
        return Solving(_over_pairs(near).fresh, False, over_pairs + why)
    compared = f"{by_pairs:.1g} multiplications per solve over about {pairs:.1g} firing pairs, {by_matrix:.1g} with"
    if by_pairs < by_matrix:
        return Solving(_over_pairs(near).fresh, False, f"{over_pairs}{compared} the matrix.")
    return Solving(ReusedFactor, True, f"A factor that is used again: {compared} the matrix.")


def _over_pairs(near: Callable[[], LimitMatrix]) -> Solver:
    return Loose(tol=_TOLERANCE, preconditioner=RandomPivots(near), max_iterations=_MOST_PRODUCTS)


def first_solver(solver: Solver, near: Callable[[], LimitMatrix]) -> Solver:
    """Return what solves for the first step without a matrix: with the preconditioner of the solver, if it has one."""
    pivots = solver.pivots() or RandomPivots(near)
    return ConjugateGradient(tol=_TOLERANCE, preconditioner=pivots, max_iterations=_FIRST_ITERATIONS)


class LimitGram(Gram):
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
