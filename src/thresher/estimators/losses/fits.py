"""Fits of a regressor with a loss: one fit that chooses, then others of the same rows to targets that it moves."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput
from thresher.estimators.data.encoder import TableEncoder
from thresher.estimators.data.observations import Observations
from thresher.estimators.data.scaling import Scaling
from thresher.estimators.judging.measures import mean_square
from thresher.estimators.log_targets import LogTargets
from thresher.estimators.losses.choosing import choose_loss
from thresher.estimators.losses.pilot import expected_logs, pulled_in
from thresher.estimators.losses.working import count_targets, moved_targets, robust_size
from thresher.estimators.models.fitted import LeftOut
from thresher.losses import Poisson
from thresher.tables.rows_on_disk import BLOCK

__all__ = ["FitsByLoss", "Made"]

Matrix = NDArray[np.float64]
_MOST = 1e15  # deviations of a target at most
_FOLLOWS = 0.999  # how far an output follows its own target at most
_ROOM = 3.0  # by which a logarithm may lie above that of the largest count
_TIMES = 3  # that a fit and the targets that it moves follow each other, after the first, at most
_STEPS = 8  # of a fit to counts
_STILL = 1e-2  # of a deviation: how far targets move that stay where they are, but for half as large a share of them
_CLOSE = 1e-4  # change of a deviance that is none, for each that is counted


class Made(NamedTuple):
    """A fit with a loss: what targets were scaled by, what was left out, and the floor of logarithms, if any."""

    scaling: Scaling
    left_out: LeftOut
    floor: Matrix | None


class FitsByLoss(LogTargets):
    """What a regressor needs for losses other than squares."""

    loss: str
    loss_: str = "squared"  # until a fit takes another
    loss_scores_: dict[str, float]
    width: Any
    encoder_: TableEncoder | None
    ridge_: float
    lift_: Any
    _again: Any
    _fit: Any
    _forget_effects: Any
    _kernel: Any
    _observations: Any
    _outputs_of: Any
    _predicting: Any
    _variance: Any

    def _fit_columns(self, X: Any, rows: Any, columns: Matrix, weights: Matrix | None) -> Made:
        """Fit targets (n, k) with the loss that was asked for, or that is chosen."""
        fits = {"huber": self._fit_robustly, "poisson": self._fit_counts, "quantile": self._fit_robustly}
        self.loss_scores_ = {}
        if self.loss == "auto":
            return self._fit_chosen(X, rows, columns, weights, fits)
        return fits.get(self.loss_, self._fit_squares)(X, rows, columns, weights)

    def _fit_chosen(
        self, X: Any, rows: Any, columns: Matrix, weights: Matrix | None, fits: dict[str, Callable[..., Made]]
    ) -> Made:
        """Fit targets (n, k) with the loss that is surely best for some rows left out; several targets by squares."""
        if columns.shape[1] > 1 or self.target == "log":
            self.loss_, floor = "squared", self._choose_floor(X, rows, columns, weights)
        else:
            floors = [] if self.target == "linear" else [float(one[0]) for one in self._floors(columns, weights)]
            free = self.width in ("auto", math.inf)
            options = self._options(_bare(rows, columns))
            chosen = choose_loss(rows, columns[:, 0], weights, options, floors, counts=free)
            self.loss_, self.loss_scores_ = chosen.loss, chosen.scores
            floor = None if chosen.floor is None else np.array([chosen.floor])
        if self.loss_ == "squared":
            return self._fit_squares(X, rows, columns, weights, floor=floor, chosen=True)
        return fits[self.loss_](X, rows, columns, weights)

    def _fit_squares(
        self,
        X: Any,
        rows: Any,
        columns: Matrix,
        weights: Matrix | None,
        *,
        floor: Matrix | None = None,
        chosen: bool = False,
    ) -> Made:
        """Fit targets (n, k), or their logarithms, by squares; the floor of these is chosen unless it was."""
        floor, raw = floor if chosen else self._choose_floor(X, rows, columns, weights), columns
        if floor is not None:
            self.encoder_, rows = self._encoded(X, rows, columns, floor)
            columns = np.log(columns - floor)
        scaling = Scaling.of(columns, scale="standardise", weights=weights)
        # Exponentials of what is learnt are medians, which absolute errors judge.
        measure = mean_square if floor is None else self._measure(raw, weights, scaling, floor, power=1)
        return Made(
            scaling, self._fit(self._observations(rows, scaling.apply(columns), weights=weights), measure), floor
        )

    def _fit_robustly(self, X: Any, rows: Any, columns: Matrix, weights: Matrix | None) -> Made:
        """Fit targets (n, k) with Huber's loss; what was left out has its own targets as well, scaled.

        Targets that are far from what the others say of them are moved, and everything, from means of categories to
        ridge and features, is chosen with these. Then targets are moved by what the chosen fit says, without their own
        row, and fitted again.
        """
        options = self._options(_bare(rows, columns))
        moved, knee = pulled_in(rows, columns, weights, options)
        if self.encoder_ is not None:
            self.encoder_, rows = self.encoder_.with_means(X, rows, moved)
            moved, knee = pulled_in(rows, columns, weights, options)
        scaling = Scaling.of(moved, scale="standardise", weights=weights)
        with np.errstate(over="ignore"):
            own = np.clip(scaling.apply(columns), -_MOST, _MOST)
        moved = scaling.apply(moved)
        left_out = self._fit(self._observations(rows, moved, weights=weights, own=own))
        for _ in range(_TIMES):
            expected, size = self._expected(rows, own, moved, weights, left_out)
            before, moved = moved, moved_targets(own, expected, knee * size)
            if (np.abs(moved - before) <= _STILL * size).mean() > 1 - _STILL / 2:
                break
            data = self._observations(rows, moved, weights=weights, own=own)
            left_out = self._fit(data, taken=self._again)
        self._forget_effects()  # and what deviations were made with
        return Made(scaling, left_out, None)

    def _expected(
        self, rows: Any, own: Matrix, moved: Matrix, weights: Matrix | None, left_out: LeftOut
    ) -> tuple[Matrix, Matrix]:
        """Return what the fit to moved targets (n, k) says at each row without that row, and the deviations (n, k).

        Of many rows each alone hardly changes what is said there, and rows held out say what a deviation is.
        """
        outputs = self._at(rows, self._outputs_of)
        if len(rows) > self._sizes.one_by_one:
            misses = left_out.data.own - left_out.outputs
            sizes = np.array([robust_size(one, left_out.data.weight) for one in misses.T])
            return outputs, np.broadcast_to(sizes, outputs.shape)
        backend = self._predicting()
        with backend.session():
            about = self._variance(backend)
            variances = np.zeros(len(rows)) if about is None else self._at(rows, about.at)
        heavy = 1.0 if weights is None else weights / weights.mean()
        follows = np.minimum(variances * heavy / (self.ridge_ * self._kernel.diagonal), _FOLLOWS)[:, None]
        expected = outputs - follows / (1 - follows) * (moved - outputs)
        wide = 1 / np.sqrt(1 - follows)
        size = np.array([robust_size(one, weights) for one in ((own - expected) / wide).T])
        return expected, size * wide

    def _fit_counts(self, X: Any, rows: Any, counts: Matrix, weights: Matrix | None) -> Made:
        """Fit logarithms of the means of counts (n, 1); what was left out has counts and weights (c, 2) of its own.

        Each fit of squares to working targets is a step; the first one chooses everything, the others the ridge.
        """
        if counts.shape[1] > 1:
            raise InvalidInput(
                f"loss='poisson' is for one target, as the weight of a row depends on its mean; got {counts.shape[1]}. "
                "Fit one model for each."
            )
        own, heavy = counts[:, 0], np.ones(len(counts)) if weights is None else weights / weights.mean()
        Poisson().check(own)
        if not own.any():
            raise InvalidInput("loss='poisson' takes counts, some of them above 0; all are 0. Use loss='squared'.")
        options = self._options(_bare(rows, counts))
        outputs = expected_logs(rows, own, weights, options)
        if self.encoder_ is not None:
            self.encoder_, rows = self.encoder_.with_means(X, rows, count_targets(own, outputs)[0])
            outputs = expected_logs(rows, own, weights, options)
        targets, curvature = count_targets(own, outputs)
        scaling = Scaling.of(targets[:, None], scale="standardise", weights=heavy * curvature)
        deviance, most, told = np.inf, np.log(own.max()) + _ROOM, np.column_stack([own, heavy])
        for step in range(_STEPS):
            if step:
                targets, curvature = count_targets(own, outputs)
                scaling = Scaling.of(targets[:, None], scale="standardise", weights=heavy * curvature)
            scaled = scaling.apply(targets[:, None])
            data = self._observations(rows, scaled, weights=weights, importance=curvature, own=told)
            left_out: LeftOut = self._fit(data, taken=self._again if step else None)
            outputs = np.minimum((self._at(rows, self._outputs_of) * scaling.unit + scaling.mean)[:, 0], most)
            before, deviance = deviance, float(heavy @ (np.exp(outputs) - own * outputs))
            if abs(before - deviance) <= _CLOSE * float(heavy @ own):
                break
        return Made(scaling, left_out, np.zeros(1))

    def _at(self, rows: Any, of: Callable[[Matrix], Matrix]) -> Matrix:
        """Return what a function of lifted inputs returns for rows (n, d), block by block."""
        parts = [np.arange(first, min(first + BLOCK, len(rows))) for first in range(0, len(rows), BLOCK)]
        return np.concatenate([of(self.lift_.transform(rows[part])) for part in parts])


def _bare(rows: Any, columns: Matrix) -> Observations:
    """Return observations that are enough to say what was asked of a fit."""
    count = np.ones(len(columns))
    return Observations(rows, row=np.arange(len(columns)), target=columns, unit=count, count=count)
