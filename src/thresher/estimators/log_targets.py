"""Whether a regressor learns logarithms of its targets, and how errors are measured then."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.estimators.data.encoder import TableEncoder
from thresher.estimators.data.observations import Observations
from thresher.estimators.data.scaling import CANDIDATES, Scaling
from thresher.estimators.interfaces import Measure
from thresher.estimators.pipeline.scale import error_left_out
from thresher.estimators.sizes import Sizes

__all__ = ["LogTargets"]

Matrix = NDArray[np.float64]
_ABOVE = (0.001, 0.1)  # how far the smallest target may lie above the floor of logarithms, in deviations of the targets
# Powers of errors, and below what share of those without logarithms they must be with them, both as squares: the mean
# absolute error below 0.8, the mean square below 1.
_CLEARLY = ((1, 0.64), (2, 1.0))


class LogTargets:
    """What a regressor needs to choose between targets and their logarithms."""

    target: str
    encoder_: TableEncoder | None
    _sizes: Sizes
    _options: Any

    def _choose_floor(self, X: Any, rows: Matrix, columns: Matrix, weights: Matrix | None) -> Matrix | None:
        """Return the floor (k,) of targets (n, k) that are learnt as logarithms; None if they are not.

        Logarithms must clearly lower the mean absolute error: of targets that span powers of ten the mean square is
        that of a few. They must not raise the mean square either: what they predict is the median, and of rare counts
        a median of zero has a low absolute error and says nothing.
        """
        if self.target == "linear":
            return None
        floors = self._floors(columns, weights)
        most = self._sizes.one_by_one
        many = len(rows) > most
        some = np.random.default_rng(0).permutation(len(rows))[:most] if many else np.arange(len(rows))
        few, weighed = columns[some], None if weights is None else weights[some]

        @cache
        def rows_of(place: int | None) -> Matrix:
            encoded = rows if place is None else self._encoded(X, rows, columns, floors[place])[1]
            return encoded[some] if many else encoded

        def error(place: int | None, *, power: int = 1, quick: bool = False) -> float:
            floor = None if place is None else floors[place]
            return self._left_out_error(rows_of(place), few, weighed, floor=floor, many=many, power=power, quick=quick)

        if self.target == "auto":  # most often a look at one kernel is enough
            plain = error(None, quick=True)
            if min(error(place, quick=True) for place in range(len(floors))) > plain:
                return None
        best = min(range(len(floors)), key=error)
        if self.target == "log":
            return floors[best]
        better = all(error(best, power=power) < share * error(None, power=power) for power, share in _CLEARLY)
        return floors[best] if better else None

    @staticmethod
    def _floors(columns: Matrix, weights: Matrix | None) -> list[Matrix]:
        """Return the floors (k,) of logarithms of targets (n, k) that are tried."""
        unit = Scaling.of(columns, scale="standardise", weights=weights).unit
        least = columns.min(axis=0)
        below = np.nextafter(least, -np.inf)  # where a share of the unit is lost in rounding
        return [np.minimum(least - above * unit, below) for above in _ABOVE]

    def _encoded(self, X: Any, rows: Matrix, columns: Matrix, floor: Matrix) -> tuple[TableEncoder | None, Matrix]:
        """Return encoder and rows (n, d) with category means of what is learnt of targets (n, k): their logarithms."""
        if self.encoder_ is None:
            return None, rows
        return self.encoder_.with_means(X, rows, np.log(columns - floor))

    def _left_out_error(
        self,
        rows: Matrix,
        columns: Matrix,
        weights: Matrix | None,
        *,
        floor: Matrix | None,
        many: bool,
        power: int,
        quick: bool,
    ) -> float:
        """Return the leave-one-out error of the limit, as a square: see :meth:`_measure`.

        Infinity where it cannot be computed. ``quick``: see :func:`error_left_out`.
        """
        told = columns if floor is None else np.log(columns - floor)
        scaling = Scaling.of(told, scale="standardise", weights=weights)
        data = Observations.merged(rows, scaling.apply(told), weights=weights)
        options = self._options(data, self._measure(columns, weights, scaling, floor, power))
        if many and options.scale is None:  # the scale is chosen later, on more rows
            options = options._replace(scale=CANDIDATES[0])
        return error_left_out(data, options, quick=quick)

    @staticmethod
    def _measure(
        columns: Matrix, weights: Matrix | None, scaling: Scaling, floor: Matrix | None, power: int
    ) -> Measure:
        """Return the error of outputs in the units of the targets, also when logarithms are learnt.

        It returns the mean of this power of the errors, summed over outputs, as a square: that of the mean absolute
        error, or the mean square.
        """
        unit = Scaling.of(columns, scale="standardise", weights=weights).unit

        def measure(data: Observations, outputs: Matrix) -> float:
            both = np.stack([data.target, outputs]) * scaling.unit + scaling.mean
            with np.errstate(over="ignore"):
                wanted, found = (both if floor is None else np.exp(both)) / unit
                errors = (np.abs(found - wanted) ** power).sum(axis=1)
                return float(np.average(errors, weights=data.weight) ** (2 / power))

        return measure
