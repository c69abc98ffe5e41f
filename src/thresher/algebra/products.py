"""Gauss-Newton steps for a model of one's own, of which products with the Jacobian are known.

The solvers need G = J Jᵀ as an operator alone, so anything that can multiply by J and by Jᵀ will do: an array, a
``LinearOperator`` of SciPy, or two functions, such as those of automatic differentiation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from thresher.algebra.cg import ConjugateGradient, Jacobi
from thresher.algebra.direct import Cholesky, Direct
from thresher.algebra.gram import MatrixGram, relative_damping
from thresher.algebra.near import RandomPivots
from thresher.algebra.system import EPS, Apply, Preconditioner, Vector, norm, ratio
from thresher.checks import check_number, check_values, check_whole
from thresher.errors import InvalidInput
from thresher.interfaces import Gram, Sketch, Solution, Solver, SolveStatus

__all__ = ["ProductGram", "gauss_newton_step"]

_FEW = 1500  # rows up to which solver="auto" makes the matrix
_PROBES = 100  # random products from which the diagonal of G is estimated, if there are more rows than three times that
_KEPT = 1 << 27  # numbers of J that are kept while the matrix is made: 1 GiB
_TRANSPOSED = 1e-2  # by how much two sides of an equation may differ where products are not exact
_NAMES = ("auto", "cholesky", "cg", "pivots")


@dataclass(frozen=True)
class ProductGram(Gram):
    """G = J Jᵀ from products with J (n, p) and with its transpose, both divided by a ``unit``."""

    jvp: Callable[[Vector], Any]  # of (p,): J v (n,)
    vjp: Callable[[Vector], Any]  # of (n,): Jᵀ u (p,)
    rows: int  # of J
    parameters: int  # columns of J
    seed: int = 0
    unit: float = 1.0  # a power of two

    @property
    def size(self) -> int:
        """Number of inputs, n."""
        return self.rows

    def forward(self, vector: Vector) -> Vector:
        """Return J v (n,)."""
        return _product(self.jvp, vector, "jvp, the product with J,", self.size, self.unit)

    def backward(self, vector: Vector) -> Vector:
        """Return Jᵀ u (p,)."""
        return _product(self.vjp, vector, "vjp, the product with Jᵀ,", self.parameters, self.unit)

    def times(self, vector: Vector) -> Vector:
        """Return J (Jᵀ u), (n,) or (n, k). Cost: two products for each vector."""
        if vector.ndim == 1:
            return self.forward(self.backward(vector))
        return np.stack([self.times(one) for one in vector.T], axis=1)

    def dense(self) -> NDArray[np.float64]:
        """Return G (n, n). Cost: n products with Jᵀ and O(n²p); twice the products if J takes more than 1 GiB."""
        if self.size * self.parameters <= _KEPT:
            rows = np.stack([self.backward(self._unit(row)) for row in range(self.size)])
            made = rows @ rows.T
        else:
            made = np.stack([self.times(self._unit(row)) for row in range(self.size)])
        return np.asarray((made + made.T) / 2)

    def diagonal(self) -> Vector:
        """Return the diagonal (n,), estimated from 100 random directions where there are more than 300 rows.

        Each estimate is a mean of squares, above zero wherever J is not zero, and within about 14 % of its entry.
        Cost: a product for each row, or for each direction.
        """
        if self.size <= 3 * _PROBES:
            return np.array([float(row @ row) for row in map(self.backward, np.eye(self.size))])
        rng, total = np.random.default_rng(self.seed), np.zeros(self.size)
        for _ in range(_PROBES):
            total += self.forward(rng.normal(size=self.parameters)) ** 2
        return total / _PROBES

    def sketch(self, sketch: Sketch) -> NDArray[np.float64]:
        """Refuse: a sketch has more rows than J, so it takes more products than the whole matrix."""
        raise InvalidInput(
            "a sketch takes more products with J than the whole of J Jᵀ. Use solver='cholesky', 'cg' or 'pivots'."
        )

    def _unit(self, row: int) -> Vector:
        vector = np.zeros(self.size)
        vector[row] = 1.0
        return vector


@dataclass(frozen=True)
class _Scaled:
    """G with rows and columns divided by the root of its diagonal: what pivots are drawn from."""

    gram: ProductGram
    scale: Vector  # (n,), 0 where G has nothing
    diagonal: float = 1.0

    def columns(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the columns of some rows (k,), as (k, n)."""
        units = np.zeros((len(self.scale), len(rows)))
        units[rows, np.arange(len(rows))] = self.scale[rows]
        return (self.scale[:, None] * self.gram.times(units)).T.astype(np.float32)


@dataclass(frozen=True)
class _Given:
    """A function that nearly applies (G + added)⁻¹ to a vector (n,), as a preconditioner."""

    apply: Apply

    def prepare(self, gram: Gram, *, added: float | Vector, iteration: int) -> Apply:
        """Return the function."""
        return lambda vector: _product(self.apply, vector, "preconditioner", gram.size)


def gauss_newton_step(
    residual: ArrayLike,
    jacobian_products: Any,
    *,
    damping: float | ArrayLike = 0.0,
    solver: str | Solver = "auto",
    preconditioner: Preconditioner | Apply | None = None,
    tol: float = 1e-6,
    seed: int = 0,
) -> tuple[NDArray[np.float64], Solution]:
    """Return the Gauss-Newton step of any model: the change (p,) of its parameters, and how the system was solved.

    With J the Jacobian of the model's n outputs by its p parameters, the step is -Jᵀ g with
    (J Jᵀ + added) g = residual. Without damping it is the shortest of those that leave the least of the linearised
    residual, whether n or p is larger; a singular matrix is no error, and no number of the step is NaN. Where the
    solver is of conjugate gradients and no g leaves nothing, products with J and Jᵀ find that step, without a
    preconditioner.

    Parameters
    ----------
    residual : outputs minus targets (n,). For another loss: slopes divided by curvatures
    jacobian_products : two functions ``(jvp, vjp)``, the first of a vector (p,) returns J v (n,), the second of a
        vector (n,) returns Jᵀ u (p,); or an object with ``matvec`` and ``rmatvec``, such as SciPy's
        ``LinearOperator``; or J itself (n, p)
    damping : what is added to the diagonal, times the mean diagonal of J Jᵀ: a number, or one for each row (n,). For
        another loss: the damping divided by the curvatures
    solver : ``"cholesky"`` makes the matrix with n products and factors it; ``"cg"`` needs products alone, two for each
        inner iteration; ``"pivots"`` is the same with a preconditioner that looks at some columns of the matrix;
        ``"auto"`` is the first up to 1,500 rows, the second beyond; or an object of ``thresher.algebra``
    preconditioner : for ``"cg"``: an object with ``prepare``, or a function of a vector (n,) that nearly applies the
        inverse of the matrix, symmetric and positive definite; None divides by the diagonal
    tol : ``"cg"`` and ``"pivots"`` stop where this share of the right-hand side is left
    seed : of random directions and pivots

    Returns
    -------
    step : (p,), to be added to the parameters
    solution : a :class:`~thresher.interfaces.Solution`: g, its status, inner iterations, and the residual that is left

    Cost: four products to see how long vectors are and whether one product is the other's transpose, one for the step,
    and those of the solver.
    """
    rhs = check_values(residual, "residual", shape="(n,)")
    gram = _in_units(_gram(jacobian_products, rhs, check_whole(seed, "seed", least=0)))
    chosen = _choose(solver, preconditioner, gram, check_number(tol, "tol", above=0.0))
    asked: Gram = MatrixGram(gram.dense()) if isinstance(chosen, Direct) else gram
    solution = _solve(chosen, asked, gram, rhs, _added(damping, asked))
    unit, value, most = gram.unit, solution.value, np.finfo(np.float64).max
    with np.errstate(over="ignore", under="ignore"):  # where g has no room in float64, the step may have
        step = np.clip(gram.backward(-value) / unit, -most, most)
        value, damping = np.clip(value / unit / unit, -most, most), min(solution.damping * unit * unit, most)
    return step, solution._replace(value=value, damping=float(damping))


def _solve(solver: Solver, asked: Gram, gram: ProductGram, rhs: Vector, added: float | Vector) -> Solution:
    """Return what a solver finds; of conjugate gradients, where no g leaves nothing, the g that leaves the least."""
    least = solver.tol if isinstance(solver, ConjugateGradient) and not np.any(added) else None
    if least is not None and gram.size > gram.parameters:  # singular
        return _least_squares(gram, rhs, least)
    found = solver.prepare(asked, added=added, iteration=0).solve(rhs)
    if least is None or found.status != SolveStatus.INEXACT:
        return found
    more = _least_squares(gram, rhs, least)
    return more._replace(inner_iterations=found.inner_iterations + more.inner_iterations)


def _least_squares(gram: ProductGram, rhs: Vector, tol: float) -> Solution:
    """Return g of the shortest step that leaves the least, by conjugate gradients for JᵀJ s = Jᵀ rhs with s = Jᵀ g.

    They go on until ``tol`` squared of Jᵀ rhs is left, and are enough where ``tol`` of it is.
    """
    unit, few = math.ldexp(1.0, math.frexp(norm(rhs))[1]), min(gram.size, gram.parameters)
    left, value = rhs / unit, np.zeros_like(rhs)
    slope, found, count = gram.backward(left), left, 0
    direction, first, energy = slope, norm(slope), float(slope @ slope)
    best = (first, value, left)  # beyond what rounding allows the slope grows again
    while count < 10 * few + 100 and norm(slope) > max(tol**2 * first, gram.size * EPS * norm(left)):
        change = gram.forward(direction)
        length = ratio(energy, float(change @ change))
        if not length:
            break
        value, left, count = value + length * found, left - length * change, count + 1
        slope = gram.backward(left)
        previous, energy = energy, float(slope @ slope)
        found, direction = left + energy / previous * found, slope + energy / previous * direction
        best = min(best, (norm(slope), value, left), key=lambda one: one[0])
    size, value, left = best
    share = norm(left) / norm(rhs / unit) if rhs.any() else 0.0
    if share <= tol:
        status, rank = SolveStatus.SOLVED, gram.size
    else:
        status, rank = (SolveStatus.TRUNCATED, few) if size <= tol * first else (SolveStatus.INEXACT, gram.size)
    return Solution(unit * value, status, count, share, damping=0.0, rank=rank)


def _gram(products: Any, rhs: Vector, seed: int) -> ProductGram:
    """Return the operator behind what was given; the first product says how many parameters there are."""
    if isinstance(products, tuple) and len(products) == 2 and all(callable(one) for one in products):
        jvp, vjp = products
    elif callable(getattr(products, "matvec", None)) and callable(getattr(products, "rmatvec", None)):
        jvp, vjp = products.matvec, products.rmatvec
    elif callable(products) or isinstance(products, tuple) or issparse(products) or np.ndim(products) != 2:
        raise InvalidInput(
            "jacobian_products must be two functions (jvp, vjp), an object with matvec and rmatvec, or an array "
            f"(n, p), not {type(products).__name__}. Of a sparse matrix pass scipy.sparse.linalg.aslinearoperator(J)."
        )
    else:
        J = check_values(products, "jacobian_products", shape="(n, p)")
        if len(J) != len(rhs):
            raise InvalidInput(
                f"jacobian_products must have a row for each of {len(rhs)} residuals; got {len(J)} rows."
            )
        jvp, vjp = J.__matmul__, J.T.__matmul__
    first = np.asarray(vjp(np.zeros(len(rhs))))
    if first.ndim != 1 or not len(first):
        raise InvalidInput(
            f"vjp, the product with Jᵀ, must return a vector (p,) for one of {len(rhs)} numbers; "
            f"got shape {first.shape}."
        )
    return ProductGram(jvp, vjp, len(rhs), len(first), seed)


def _product(function: Callable[[Vector], Any], vector: Vector, name: str, length: int, unit: float = 1.0) -> Vector:
    """Return what a function of the user makes of a vector, in units, as finite numbers; refuse anything else."""
    with np.errstate(over="ignore", invalid="ignore"):
        made = np.asarray(function(vector), dtype=np.float64) / unit
    if made.shape != (length,):
        raise InvalidInput(f"{name} must return a vector of {length} numbers; got shape {made.shape}.")
    if not np.isfinite(made).all():
        raise InvalidInput(f"{name} must return finite numbers; got {made[~np.isfinite(made)][0]} for a finite vector.")
    return made


def _in_units(gram: ProductGram) -> ProductGram:
    """Return the operator with products near 1; refuse those of which one is not the other's transpose.

    For any u, uᵀ J Jᵀ u is ‖Jᵀ u‖².
    """
    vector = np.random.default_rng(gram.seed).normal(size=gram.size)
    size = norm(gram.backward(vector)) / norm(vector)
    gram = replace(gram, unit=math.ldexp(1.0, math.frexp(size)[1]) if size > 0 else 1.0)
    back = gram.backward(vector)
    image = gram.forward(back)
    left, right = float(vector @ image), float(back @ back)
    if abs(left - right) > _TRANSPOSED * max(abs(left), abs(right)):
        raise InvalidInput(
            f"vjp is not the product with the transpose of what jvp multiplies by: for a random u, uᵀ J Jᵀ u is "
            f"{left / right if right else left:.3g} times the square of Jᵀ u, not 1. Check signs, scales and the order "
            "of parameters."
        )
    return gram


def _choose(
    solver: str | Solver, preconditioner: Preconditioner | Apply | None, gram: ProductGram, tol: float
) -> Solver:
    if solver == "auto":
        solver = "cg" if gram.size > _FEW or preconditioner is not None else "cholesky"
    if preconditioner is not None and solver != "cg":
        raise InvalidInput("a preconditioner goes with solver='cg'; an object that solves brings its own.")
    if solver == "cholesky":
        return Cholesky()
    if solver == "cg":
        return ConjugateGradient(tol=tol, preconditioner=_prepares(preconditioner))
    if solver == "pivots":
        return ConjugateGradient(tol=tol, preconditioner=RandomPivots(lambda: _scaled(gram), seed=gram.seed))
    if isinstance(solver, str | type) or not callable(getattr(solver, "prepare", None)):
        names = ", ".join(repr(one) for one in _NAMES)
        raise InvalidInput(f"solver must be one of {names}, or an object with a prepare method; got {solver!r}.")
    return solver


def _prepares(preconditioner: Preconditioner | Apply | None) -> Preconditioner:
    if preconditioner is None:
        return Jacobi()
    if isinstance(preconditioner, type) or not (hasattr(preconditioner, "prepare") or callable(preconditioner)):
        raise InvalidInput(
            f"preconditioner must be a function of a vector or an object with prepare; got {preconditioner!r}."
        )
    return preconditioner if hasattr(preconditioner, "prepare") else _Given(preconditioner)


def _scaled(gram: ProductGram) -> _Scaled:
    diagonal = gram.diagonal()
    return _Scaled(gram, np.divide(1.0, np.sqrt(diagonal), out=np.zeros_like(diagonal), where=diagonal > 0))


def _added(damping: float | ArrayLike, gram: Gram) -> float | Vector:
    """Return what damping adds to the diagonal: a number, or one for each row (n,)."""
    if np.ndim(damping) == 0:
        return relative_damping(gram, check_number(damping, "damping", least=0.0))
    shares = check_values(damping, "damping", shape="(n,)")
    if len(shares) != gram.size or shares.min() < 0:
        raise InvalidInput(f"damping must be a number, or one for each of {gram.size} rows, at least 0.")
    return shares * relative_damping(gram, 1.0)
