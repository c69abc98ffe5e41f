"""Ridge regression on the limit kernel with coefficients on chosen centres: prediction does not grow with n.

Of n rows, M are centres: pivots of a Cholesky factor with random pivots of a sample. With K (n, M) the kernel between
rows and centres, C (M, M) that of the centres, W the weights and l the penalty, the coefficients solve

    (Kᵀ W K + l C) alpha = Kᵀ W y,

the objective of all rows restricted to the span of the centres. K is never there at once: a pass makes it block
by block. The system is solved by conjugate gradients, one pass per step for all penalties and outputs.

The preconditioner is the same matrix with the sum over rows replaced by that over the sample. As with Falkon it costs
no pass; Falkon sums over the centres alone, which stand for the rows only if they are drawn evenly. The factor F (M, s)
of the sample, which the pivots come from, is K in coordinates in which C is the identity. To add up the matrix over all
rows costs M² per row instead of M per row and step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.algebra.pivots import LowRank
from thresher.errors import InvalidInput
from thresher.estimators.data.streams import Stream
from thresher.estimators.interfaces import Backend
from thresher.estimators.processor import Cpu, descend
from thresher.estimators.ridges import best_ridge
from thresher.parallel import in_order
from thresher.tables.rows_on_disk import Rows
from thresher.theory import Limit

__all__ = ["Centres", "Sweep", "fit_centres"]

Single = NDArray[np.float32]
Matrix = NDArray[np.float64]
Numbers = NDArray[np.int64]
_SAMPLE = 8  # rows of the sample per centre
_NOISE = 1e-5  # eigenvalue of the kernel of centres, relative to its diagonal, below which there is only rounding
_STEPS = 30
_BETTER = 0.999  # share of the error on held-out rows that a step must come below for another to follow
_DONE = 1e-5  # share of the right-hand sides that is left when all is done


class Centres(NamedTuple):
    """A model with coefficients on centres, and what it says of the rows that were held out."""

    inputs: Single  # (M, d)
    alpha: Matrix  # (M, k)
    ridge: float
    held_outputs: Matrix  # (held, k)
    errors: dict[float, float]  # of each ridge: weighted mean of squares on held-out rows, summed over outputs


def fit_centres(
    inputs: NDArray[Any] | Rows | Stream,
    targets: Matrix,
    weights: Matrix,
    *,
    kept: Numbers,
    held: Numbers,
    kernel: Limit,
    ridges: Sequence[float],
    centres: int = 4096,
    sample: int = 40_000,
    backend: Backend | None = None,
    seed: int = 0,
    tell: Callable[[float], object] = lambda share: None,
) -> Centres:
    """Return ridge regression on the limit kernel in the span of centres; held-out rows choose ridge and steps.

    Parameters
    ----------
    inputs : (n, d) unit norm, an array (memory-mapped if too large), or a stream of rows to be lifted
    targets : (n, k)
    weights : (n,), above 0, of rows
    kept, held : numbers of the rows to fit, in random order, and of those that are left out; others are passed over
    kernel : the limit kernel of inputs
    ridges : penalties to choose from, relative to the diagonal of the kernel; while the best is at an end of several,
        the one beyond is tried too. Without held-out rows only one
    centres : how many at most
    sample : rows at most that they are drawn from
    backend : None for all cores
    tell : called with the share that is done

    Cost: O(nMd) per pass, about five passes; before them O(sM²) for a sample of s = 8 M rows, at most 40,000.
    Memory: 4 s M bytes, 8 M² per ridge, and a block of the kernel per thread.
    """
    if not len(held) and len(ridges) != 1:
        raise InvalidInput(f"without held-out rows there must be one ridge; got {len(ridges)}. Hold some rows out.")
    stream = inputs if isinstance(inputs, Stream) else Stream(inputs)
    backend = Cpu() if backend is None else backend
    fit = _CentresFit(stream, targets, weights, kept, held, kernel, centres, sample, backend, seed)
    found = fit.descend(list(ridges), tell)
    errors = dict(found.errors)

    def attempt(ridge: float) -> float:
        nonlocal found
        other = fit.descend([ridge], lambda share: None)
        found = other if other.errors[ridge] < min(errors.values()) else found
        return other.errors[ridge]

    best_ridge(errors, attempt)
    return found._replace(errors=errors)


class _CentresFit:
    """Centres with a preconditioner, and what makes passes over the rows."""

    def __init__(
        self,
        stream: Stream,
        targets: Matrix,
        weights: Matrix,
        kept: Numbers,
        held: Numbers,
        kernel: Limit,
        centres: int,
        sample: int,
        backend: Backend,
        seed: int,
    ) -> None:
        self._targets, self._held = targets, held
        self._error = partial(_mean_square, targets[held], weights[held])
        self._weights = np.zeros(len(stream))  # of the rows that are fitted
        self._weights[kept] = weights[kept]
        places = np.full(len(stream), -1)
        places[held] = np.arange(len(held))
        self._backend, self._diagonal = backend, kernel.diagonal
        drawn = kept[: max(min(_SAMPLE * centres, sample), centres)]
        matrix = backend.operator(kernel, stream.take(drawn), memory=0.0)
        low = backend.pivots(matrix, rank=centres, seed=seed)
        self._precondition = self._preconditioner(low, drawn)
        self._centres = matrix.inputs[low.pivots]
        square = backend.operator(kernel, self._centres, memory=0.0)
        self._square = self._double(square.columns(np.arange(len(square))))
        order = np.argsort(drawn[low.pivots])
        own = drawn[low.pivots][order]
        sweep = Sweep(stream, targets, self._weights, places, self._centres, own, order, kernel, backend)
        self._sums = sweep.sums
        self._right: Matrix | None = None  # Kᵀ W y (M, k), once it was made

    def _double(self, values: Any) -> Any:
        return self._backend.arrays.asarray(values, dtype=self._backend.arrays.float64)

    def _preconditioner(self, low: LowRank, sample: Numbers) -> Callable[[list[float]], Callable[[Any], Any]]:
        """Return what makes of ridges the inverse of the matrix of each, summed over the sample, for (M, c)."""
        some, backend = self._weights[sample], self._backend
        shares = np.sqrt(some * (self._weights.sum() / some.sum())).astype(np.float32)
        scaled = low.factor * backend.put(shares)
        core, corner = self._double(scaled @ scaled.T), self._double(low.factor[:, backend.put(low.pivots)])
        turn = _positive(corner @ corner.T, _NOISE * self._diagonal, backend)
        outputs, diagonal = self._targets.shape[1], self._diagonal

        def inverse(ridges: list[float]) -> Callable[[Any], Any]:
            made = [_positive(core, ridge * diagonal, backend) for ridge in ridges]

            def apply(columns: Any) -> Any:
                turned = turn.solve(corner @ columns)
                parts = [one.solve(turned[:, k * outputs : (k + 1) * outputs]) for k, one in enumerate(made)]
                return corner.T @ turn.solve(backend.arrays.concatenate(parts, axis=1))

            return apply

        return inverse

    def descend(self, ridges: list[float], tell: Callable[[float], object]) -> Centres:
        """Return the solution of least error on held-out rows, over all ridges and steps."""
        outputs, passes, backend, done = self._targets.shape[1], _STEPS + 1, self._backend, 0
        penalties = backend.put(np.repeat(np.array(ridges) * self._diagonal, outputs))

        def times(alpha: Any) -> Any:
            nonlocal done
            done += 1
            sums, said = self._sums(alpha, lambda share: tell((done + share) / passes))
            return backend.arrays.concatenate([sums + penalties * (self._square @ alpha), said])

        if self._right is None:
            self._right = backend.get(self._sums(None, lambda share: tell(share / passes))[0])
        rhs = np.tile(self._right, len(ridges))
        descent = descend(backend, times, rhs, added=np.zeros_like(rhs), inverse=self._precondition(ridges))
        errors, best, counts = np.full(len(ridges), np.inf), np.inf, True
        found = 0, np.zeros((len(rhs), outputs)), np.zeros((len(self._held), outputs))
        while descent.steps < _STEPS and counts and float(descent.residuals.max()) > _DONE:
            descent.step()
            said = backend.get(descent.images[len(rhs) :])
            now = self._errors(said, len(ridges)) if len(said) else backend.get(descent.residuals).max(keepdims=True)
            ridge, errors = int(now.argmin()), np.minimum(errors, now) if len(said) else errors
            counts = not len(said) or now[ridge] < _BETTER * best
            if now[ridge] < best:
                mine = slice(ridge * outputs, (ridge + 1) * outputs)
                best, found = now[ridge], (ridge, backend.get(descent.values[:, mine]).copy(), said[:, mine].copy())
        tell(1.0)
        ridge, alpha, said = found
        tried = dict(zip(ridges, errors.tolist(), strict=True))
        return Centres(self._centres, alpha, ridges[ridge], said, tried)

    def _errors(self, said: Matrix, ridges: int) -> Matrix:
        """Return the error of each ridge, from outputs (held, c)."""
        return np.array([self._error(one) for one in np.split(said, ridges, axis=1)])


@dataclass(frozen=True, eq=False)
class Sweep:
    """Passes over rows, with the kernel K (n, M) between them and the centres.

    Parameters
    ----------
    stream : n rows
    targets, weights : (n, k) and (n,), weights 0 of rows that are not fitted
    places : (n,) of the rows left out among those; -1 for others
    centres : (M, d)
    own, which : (m,) numbers of rows that are centres, ascending, and which they are
    kernel : the limit kernel of inputs
    backend : that computes
    """

    stream: Stream
    targets: Matrix
    weights: Matrix
    places: Numbers
    centres: Single
    own: Numbers
    which: Numbers
    kernel: Limit
    backend: Backend

    def sums(self, alpha: Any, tell: Callable[[float], object] = lambda share: None) -> tuple[Any, Any]:
        """Return Kᵀ W K alpha (M, c), and the outputs of rows left out (held, c); without alpha, Kᵀ W y.

        Cost: O(nMd), and O(nM) per column.
        """
        backend, single = self.backend, self.backend.arrays.float32
        columns = None if alpha is None else backend.arrays.asarray(alpha, dtype=single)
        centres, weights = backend.put(self.centres), self.weights[:, None].astype(np.float32)
        own, diagonal = self.own, self.kernel.diagonal

        def part(item: tuple[int, NDArray[Any]]) -> tuple[slice, Any, Any]:
            first, block = item
            here = slice(first, first + len(block))
            kernel = backend.block(self.kernel, backend.put(self.stream.inputs(block)), centres)
            begin, end = np.searchsorted(own, (here.start, here.stop))
            mine = backend.put(own[begin:end] - first), backend.put(self.which[begin:end])
            kernel[mine] = diagonal  # float32 misses it
            said = backend.put(self.targets[here].astype(np.float32)) if columns is None else kernel @ columns
            left_out = backend.put(np.flatnonzero(self.places[here] >= 0))
            return here, kernel.T @ (said * backend.put(weights[here])), said[left_out]

        total, held = self.zeros(alpha)
        for here, added, said in in_order(part, self.stream.blocks(backend.block_rows), threads=backend.threads):
            places = self.places[here]
            total += added
            held[backend.put(places[places >= 0])] = backend.arrays.asarray(said, dtype=backend.arrays.float64)
            tell(min(1.0, here.stop / len(self.stream)))
        return total, held

    def zeros(self, alpha: Any) -> tuple[Any, Any]:
        """Return where :meth:`sums` adds up: (M, c) and (held, c)."""
        width = self.targets.shape[1] if alpha is None else alpha.shape[1]
        sizes = len(self.centres), np.count_nonzero(self.places >= 0)
        total, held = (self.backend.put(np.zeros((size, width))) for size in sizes)
        return total, held


def _mean_square(truth: Matrix, weights: Matrix, said: Matrix) -> float:
    return float(weights @ ((said - truth) ** 2).sum(axis=1) / weights.sum())


def _positive(core: Any, penalty: float, backend: Backend) -> Any:
    """Return the factor of a matrix and its penalty; where rounding leaves it not positive, of one a little larger."""
    size = float(core.trace()) / len(core)
    for lift in (0.0, 1e-7, 1e-5, 1e-3, 1e-1):
        made = backend.factor(core, penalty + lift * size)
        if made is not None:
            return made
    raise InvalidInput("the kernel of the centres is not finite. Give inputs of unit norm, and weights above 0.")
