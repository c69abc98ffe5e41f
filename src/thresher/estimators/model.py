"""A fitted model of a table: what makes inputs of rows, and coefficients of the kernel at fitted inputs or centres."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.estimators.data.lift import SphereLift
from thresher.estimators.interfaces import Backend
from thresher.estimators.kernel import SphereKernel
from thresher.estimators.leaves import Leaves
from thresher.estimators.processor import Cpu
from thresher.estimators.settings import Settings
from thresher.estimators.solve import Solution
from thresher.estimators.variance import Variance

__all__ = ["KernelModel"]

Matrix = NDArray[np.float64]
# Errors of a kernel between inputs that are all but equal, in single and in double precision: about the square root of
# the rounding of their inner product, see limit_block.
_SINGLE, _DOUBLE = 2e-4, 1e-7
_SHOWS = 1e-3  # share of the error on rows left out that the rounding of predictions in single precision may be


class KernelModel(NamedTuple):
    """Outputs K(x, inputs) alpha, and how much is known of them."""

    lift: SphereLift
    kernel: SphereKernel  # of lifted inputs
    inputs: NDArray[Any]  # (n, d), fitted rows or centres, lifted
    alpha: Matrix  # (n, k)
    penalty: Matrix  # (n,): what the ridge adds to the diagonal of the kernel
    ridge: float
    way: str = "exact"  # or "centres", "leaves"
    pivots: NDArray[Any] | None = None  # (r, d): inputs that error bars are made of, None for all
    core: Matrix | None = None  # (r, r), see Variance
    leaves: Leaves | None = None  # the tree, where inputs and alpha are those of its leaves
    double: bool = True  # whether predictions are made in double precision

    @classmethod
    def of(cls, lift: SphereLift, kernel: SphereKernel, found: Solution) -> KernelModel:
        """Return the model that a solve has found."""
        return cls(
            lift,
            kernel._replace(metric=None, rest=False),
            found.inputs,
            found.alpha,
            found.penalty,
            found.ridge,
            found.way,
            found.pivots,
            found.core,
            found.leaves,
            found.pivots is None,
        )

    @property
    def rounding(self) -> float:
        """About the error of an entry of the kernel."""
        return _DOUBLE if self.double else _SINGLE

    def precise(self, inputs: Matrix, error: float, settings: Settings) -> KernelModel:
        """Return the model with double precision, of few rows, or where rounding would show at these inputs."""
        if self.pivots is not None or len(self.inputs) <= settings.sizes.double:
            return self._replace(double=self.pivots is None)
        product = Cpu(settings.backend.threads).product
        quick, exact = (
            product(self.kernel, inputs, self.inputs, self.alpha, double=double) for double in (False, True)
        )
        rounding = math.sqrt(float(((quick - exact) ** 2).sum()) / len(exact))
        return self._replace(double=not rounding <= _SHOWS * error)

    def outputs(self, inputs: Matrix, backend: Backend) -> Matrix:
        """Return the outputs (m, k) at lifted inputs (m, d). Cost: O(nd) per row."""
        with backend.session():
            if self.leaves is not None:
                vectors, angles = self.kernel.split(inputs)
                rows = np.hstack([vectors[:, :-1] * (self.lift.last_ / vectors[:, -1:]), angles])
                return self.leaves.predict(rows, self.inputs, self.alpha, self.kernel, backend=backend)
            double = self.double or (self.pivots is None and not isinstance(backend, Cpu))  # on a GPU it is as fast
            return backend.product(self.kernel, inputs, self.inputs, self.alpha, double=double)

    def variance(self, backend: Backend) -> Variance | None:
        """Return what the limit knows, from all training rows, or from pivots where they are many."""
        if self.pivots is None:
            return Variance.exact(self.inputs, self.penalty, self.kernel, backend)
        return Variance.of_pivots(self.pivots, self.kernel, self.core, backend=backend)
