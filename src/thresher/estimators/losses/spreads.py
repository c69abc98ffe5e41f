"""How new targets lie around predictions, where a loss has laws of its own: counts, and quantiles asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput
from thresher.estimators.data.observations import Observations
from thresher.estimators.judging.measures import share_of_guess
from thresher.estimators.losses.counts import count_deviations, count_quantiles, deviance_of, dispersion_of
from thresher.estimators.losses.quantiles import QuantileFits, fit_quantiles
from thresher.estimators.models.fitted import LeftOut

__all__ = ["SpreadsByLoss"]

Matrix = NDArray[np.float64]
_ROUNDING = 1e-9  # of a level
_MOST = 700.0  # of what exp is taken of


class SpreadsByLoss:
    """What a regressor needs to say how counts, and quantiles that were fitted, lie around its outputs."""

    quantiles: Any
    loss_: str
    lift_: Any
    target_scaling_: Any
    _kernel: Any
    _outputs_of: Any
    _predicting: Any
    quantile_fits_: QuantileFits | None = None
    dispersion_: Matrix | None = None

    def _judge_counts(self, left_out: LeftOut) -> None:
        """Set what counts left out say of errors."""
        counts, heavy = left_out.data.own.T
        weights = heavy * left_out.data.count
        means = self._means(left_out.outputs)[:, 0]
        data = left_out.data
        told = Observations(data.X, row=data.row, target=counts[:, None], unit=heavy, count=data.count)
        self.dispersion_ = dispersion_of(counts, means, weights)
        self.loo_error_ = deviance_of(counts, means, weights)
        self.loo_share_ = share_of_guess(told, means[:, None])

    def _judge_quantiles(self, left_out: LeftOut) -> None:
        """Fit the quantiles that were asked for to what observations were above or below their predictions."""
        data, levels = left_out.data, [0.5, *map(float, self.quantiles)]
        inputs = self.lift_.transform(left_out.rows)
        self.quantile_fits_ = fit_quantiles(
            data.with_rows(inputs), data.own - left_out.outputs, levels, self._kernel, self._predicting()
        )

    def _means(self, outputs: Matrix) -> Matrix:
        """Return the means of counts from outputs, in their shape."""
        return np.exp(np.minimum(outputs * self.target_scaling_.unit + self.target_scaling_.mean, _MOST))

    def _count_deviations(self, means: Matrix) -> Matrix:
        assert self.dispersion_ is not None
        return count_deviations(means, self.dispersion_)

    def _own_quantiles(self, inputs: Matrix, levels: Matrix) -> Matrix | None:
        """Return quantiles (m, outputs, q) of new targets at lifted inputs, where the loss has some of its own."""
        outputs = self._outputs_of(inputs)
        if self.dispersion_ is not None:
            return count_quantiles(self._means(outputs)[:, 0], levels, self.dispersion_)[:, None]
        fits = self.quantile_fits_
        if fits is None:
            return None
        beyond = levels[(levels < fits.levels[0] - _ROUNDING) | (levels > fits.levels[-1] + _ROUNDING)]
        if len(beyond):
            raise InvalidInput(
                f"this model has learnt quantiles from {fits.levels[0]:g} to {fits.levels[-1]:g}; got {beyond[0]:g}. "
                "Fit with more quantiles=."
            )
        levels = np.clip(levels, fits.levels[0], fits.levels[-1])
        added = fits.at(inputs, self._kernel, self._predicting())
        found = fits.between(outputs[:, :, None] + added, levels)
        return found * self.target_scaling_.unit[:, None] + self.target_scaling_.mean[:, None]
