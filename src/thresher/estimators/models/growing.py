"""A fit of few rows that takes more rows: its factor grows by theirs, and is not made again."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.algebra.cholesky import LowerFactor, factor
from thresher.algebra.ridge import Inverse
from thresher.estimators.data.observations import Observations
from thresher.estimators.interfaces import Backend
from thresher.estimators.kernels.kernel import SphereKernel
from thresher.theory.limit_matrix import limit_cross

__all__ = ["GrowingKernel", "Joined", "join_rows"]

Matrix = NDArray[np.float64]
Numbers = NDArray[np.int64]
_COMPARED, _CLOSE = 4, 1e-6  # numbers of the diagonal of an inverse that are compared, and how close they must be
_EQUAL = 1e-12  # distance of coordinates of inputs that are the same


class GrowingKernel(NamedTuple):
    """The factor of the kernel (n, n) of inputs (n, d) with a penalty (n,), and the diagonal (n,) of its inverse.

    It answers :meth:`invert` as ``DenseOperator`` does, for this one penalty, which is all that leaving out asks for.
    """

    inputs: Matrix
    penalty: Matrix
    kernel: SphereKernel
    lower: LowerFactor
    diagonal: Matrix

    @classmethod
    def of(cls, inputs: Matrix, penalty: Matrix, kernel: SphereKernel, backend: Backend) -> GrowingKernel | None:
        """Return the factor of all inputs; None if that is not positive. Cost: O(n³)."""
        made = factor(backend.dense(kernel, inputs).dense(), added=penalty, overwrite=True)
        return None if made is None else cls(inputs, penalty, kernel, made, made.inverse_diagonal())

    def grown(self, inputs: Matrix, penalty: Matrix) -> GrowingKernel | None:
        """Return the factor with inputs (k, d) and their penalty (k,) added; None if that is not positive.

        With the kernel B (n, k) of old and new inputs, and S what the old rows of A leave of the new corner, the
        diagonal of A⁻¹ grows by that of A⁻¹ B S⁻¹ Bᵀ A⁻¹. Cost: O(n²k + k³).
        """
        if not len(inputs):
            return self
        n, whole = len(self.inputs), np.vstack([self.inputs, inputs])
        both = limit_cross(whole, inputs, self.kernel.shift, parts=self.kernel.parts)
        np.einsum("ii->i", both[n:])[:] += penalty
        lower = self.lower.grown(both[:n], both[n:])
        if lower is None:
            return None
        corner = lower.corner(len(inputs))
        known = corner.half_solve(np.ascontiguousarray(self.lower.solve(both[:n]).T))
        diagonal = np.concatenate([self.diagonal + np.einsum("ij,ij->j", known, known), corner.inverse_diagonal()])
        return self._replace(
            inputs=whole, penalty=np.concatenate([self.penalty, penalty]), lower=lower, diagonal=diagonal
        )

    def invert(self, penalty: Matrix, targets: Matrix, *, last: int, whole: bool) -> Inverse | None:
        """Return the coefficients (n, k) of targets, and the ``last`` of the diagonal of the inverse.

        None if some numbers of that diagonal are not what the factor says. Cost: O(n²k).
        """
        assert not whole, "slopes are not known"
        assert np.array_equal(penalty, self.penalty), "the factor is that of another penalty"
        if not self._agrees():
            return None
        return Inverse(self.lower.solve(targets), self.diagonal[-last:], None)

    def _agrees(self) -> bool:
        """Return whether some numbers of the diagonal of the inverse are those of the factor."""
        some = np.linspace(0, len(self.diagonal) - 1, _COMPARED).astype(np.int64)
        units = np.zeros((len(self.diagonal), _COMPARED))
        units[some, np.arange(_COMPARED)] = 1.0
        known = (self.lower.half_solve(units) ** 2).sum(axis=0)
        return bool(np.allclose(known, self.diagonal[some], rtol=_CLOSE))


class Joined(NamedTuple):
    """Observations at old rows and at new ones; rows that are there already are not new."""

    data: Observations  # at the inputs (n + k, d)
    new: Matrix  # (k, d): inputs that were not there


def join_rows(data: Observations, inputs: Matrix, targets: Matrix, number: Matrix, unit: Matrix) -> Joined:
    """Return the observations ``data``, at inputs (n, d), with more: ``number`` (c,) with these targets (c, k).

    Each has the weight ``unit`` (c,). Inputs (c, d) that are the same as one of ``data`` are that one.
    Cost: O(ncd).
    """
    found = [_place(one, data.X) for one in inputs]
    known = np.array([-1 if place is None else place for place in found], np.int64)
    new: list[int] = []  # rows of ``inputs`` that were not there
    for row in np.flatnonzero(known < 0):
        place = _place(inputs[row], inputs[new]) if new else None
        known[row] = len(data.X) + (len(new) if place is None else place)
        if place is None:
            new.append(int(row))
    joined = Observations(
        np.vstack([data.X, inputs[new]]),
        row=np.concatenate([data.row, known]),
        target=np.vstack([data.target, targets]),
        unit=np.concatenate([data.unit, unit]),
        count=np.concatenate([data.count, number]),
    )
    return Joined(joined, inputs[new])


def _place(one: Matrix, inputs: Matrix) -> int | None:
    """Return which of the inputs (n, d) is this one (d,); None if none is."""
    same = np.flatnonzero((np.abs(inputs - one) <= _EQUAL).all(axis=1))
    return int(same[0]) if len(same) else None
