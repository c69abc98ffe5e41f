"""Predictive distributions of regression: how new targets lie around the outputs of a model."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput
from thresher.estimators.counts import count_deviations, count_quantiles
from thresher.estimators.interfaces import Backend
from thresher.estimators.intervals import deviations_of, residuals_at
from thresher.estimators.kernel import SphereKernel
from thresher.estimators.quantiles import QuantileFits

__all__ = ["Outputs", "Predictive"]

Matrix = NDArray[np.float64]
_ROUNDING = 1e-9  # of a level
_MOST = 700.0  # of what exp is taken of


class Outputs(NamedTuple):
    """What a model says at some lifted inputs."""

    inputs: Matrix  # (m, d)
    values: Matrix  # (m, k)
    variances: Matrix  # (m,), of the limit; empty where nobody asks for deviations
    kernel: SphereKernel
    backend: Backend


class Predictive(NamedTuple):
    """What outputs are worth in the units of the targets, and how far new targets lie from that.

    ``floor`` (k,) is there where logarithms of the distance from it are learnt; ``dispersion`` (4,) where the logarithm
    of the mean of counts is, see :mod:`counts`; ``fits`` where quantiles are functions of their own.
    """

    mean: Matrix  # (k,): outputs times the unit, plus the mean, are targets, or their logarithms
    unit: Matrix  # (k,)
    noise: Matrix  # (3, k), see :func:`intervals.calibrate`
    residuals: Matrix  # (levels, k)
    floor: Matrix | None = None
    dispersion: Matrix | None = None
    fits: QuantileFits | None = None

    def point(self, outputs: Outputs) -> Matrix:
        """Return predictions (m, k): the mean; the median where logarithms or quantiles are learnt."""
        values = outputs.values * self.unit + self.mean
        if self.dispersion is not None:
            return np.exp(np.minimum(values, _MOST))
        if self.fits is not None:
            found: Matrix = self.quantiles(outputs, np.array([0.5]))[:, :, 0]
            return found
        return values if self.floor is None else np.exp(values) + self.floor

    def deviation(self, outputs: Outputs) -> Matrix:
        """Return the standard deviations (m, k) of new targets."""
        if self.dispersion is not None:
            return count_deviations(self.point(outputs), self.dispersion)
        deviations = self._deviations(outputs) * self.unit
        if self.floor is None:
            return deviations
        above = np.exp(outputs.values * self.unit + self.mean)  # the median of a log-normal distribution
        found: Matrix = above * np.exp(deviations**2 / 2) * np.sqrt(np.expm1(deviations**2))
        return found

    def quantiles(self, outputs: Outputs, levels: Matrix) -> Matrix:
        """Return quantiles (m, k, q) of new targets."""
        if self.dispersion is not None:
            return count_quantiles(self.point(outputs)[:, 0], levels, self.dispersion)[:, None]
        if self.fits is not None:
            return self._own_quantiles(outputs, levels, self.fits)
        steps = residuals_at(levels, self.residuals)
        if self.floor is not None:  # the prediction is the median
            sides = np.sign(levels - 0.5)[:, None]
            steps = sides * np.maximum(sides * steps, 0.0)
        found = outputs.values[:, :, None] + self._deviations(outputs)[:, :, None] * steps.T
        found = found * self.unit[:, None] + self.mean[:, None]
        return found if self.floor is None else np.exp(found) + self.floor[:, None]

    def _deviations(self, outputs: Outputs) -> Matrix:
        return deviations_of(outputs.variances, self.noise, outputs.kernel.diagonal)

    def _own_quantiles(self, outputs: Outputs, levels: Matrix, fits: QuantileFits) -> Matrix:
        beyond = levels[(levels < fits.levels[0] - _ROUNDING) | (levels > fits.levels[-1] + _ROUNDING)]
        if len(beyond):
            raise InvalidInput(
                f"this model has learnt quantiles from {fits.levels[0]:g} to {fits.levels[-1]:g}; got {beyond[0]:g}. "
                "Fit with more quantiles=."
            )
        levels = np.clip(levels, fits.levels[0], fits.levels[-1])
        added = fits.at(outputs.inputs, outputs.kernel, outputs.backend)
        found = fits.between(outputs.values[:, :, None] + added, levels)
        return found * self.unit[:, None] + self.mean[:, None]

    @property
    def needs_variances(self) -> bool:
        """Whether deviations and quantiles depend on what the limit knows at a row."""
        return self.dispersion is None

    def to_arrays(self) -> dict[str, Any]:
        """Return the arrays that are there, by name."""
        flat = {name: value for name, value in self._asdict().items() if value is not None and name != "fits"}
        own = {} if self.fits is None else {f"fits.{name}": value for name, value in self.fits._asdict().items()}
        return flat | own
