"""The regressor: scikit-learn's interface, no learning rate, error bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from thresher.checks import check_number
from thresher.errors import InvalidInput
from thresher.estimators.base import ThresherEstimator
from thresher.estimators.choose import Choice, Choices
from thresher.estimators.counts import deviance_of, dispersion_of
from thresher.estimators.data.lift import check_weights
from thresher.estimators.data.observations import Observations
from thresher.estimators.data.rows import some_cells
from thresher.estimators.data.scaling import Scaling
from thresher.estimators.data.streams import some_of
from thresher.estimators.intervals import calibrate, check_coverage, check_quantiles
from thresher.estimators.leave_one_out import mean_square, share_of_guess
from thresher.estimators.log_targets import choose_floor, floors_of
from thresher.estimators.loss_fits import fit_by_loss
from thresher.estimators.predictive import Outputs, Predictive
from thresher.estimators.quantiles import fit_quantiles
from thresher.estimators.robust import robust_size, weighted_quantile, winsorise
from thresher.estimators.solve import LeftOut
from thresher.losses import Huber, Poisson
from thresher.tables.frame import in_memory
from thresher.theory import Shares

__all__ = ["ThresherRegressor"]

Matrix = NDArray[np.float64]
TRANSFORMS = ("auto", "log", None)
LOSSES = ("squared_error", "huber", "poisson", "quantile")
_CHOSEN = 1.0  # fitted numbers that choices by leaving out count as, in error bars
_REACH = 3.0  # robust deviations to which targets are pulled in while the kernel is chosen for a robust loss
_KNEE = 1.5  # of Huber's loss, in robust deviations of what is left out
_MOST = 100.0  # deviations of a target at most: what lies beyond pulls no harder


class ThresherRegressor(MultiOutputMixin, RegressorMixin, ThresherEstimator):
    """Kernel ridge regression with the limit of infinitely wide two-layer ReLU networks, and nothing to tune.

    Columns are scaled and rows lifted to the unit sphere. The kernel sees all columns under a learnt metric, single
    columns, and a layer of single columns. What is ``"auto"`` is chosen on at most 4,096 training rows by observations
    left out; ``choices_`` tells it. Fits are exact up to 49,152 distinct rows (131,072 on a GPU, or where that is
    clearly better), and beyond have coefficients on some thousand centres.

    Parameters
    ----------
    loss : {"squared_error", "huber", "poisson", "quantile"}
        What is minimised. ``"huber"``: targets far from what the others say of them pull no harder than near ones.
        ``"poisson"``: counts, or other amounts from 0 on; the logarithm of the mean is learnt; one target.
        ``"quantile"``: ``quantiles`` are functions of their own.
    quantiles : sequence of float
        The levels that ``loss="quantile"`` learns, besides 0.5.
    target_transform : {"auto", "log", None}
        ``"log"`` learns the logarithm of the distance of targets from a floor just below the smallest; ``"auto"`` does
        so where this surely says better, by the CRPS, what targets left out are. With squares alone.
    parts : {"auto", "all", "columns", "pairs"}
        What the kernel sees: ``"all"`` columns at once; ``"columns"``, single ones, a sum of functions of one column;
        ``"pairs"``, single ones and pairs; ``"auto"``: all columns, and with half of the kernel, a quarter or nothing,
        as rows left out say, single ones and a layer on top of them.
    ridge : float or "auto"
        The penalty, relative to the diagonal of the kernel.
    bias : float or "auto"
        The bias coordinate of the lift, see :class:`SphereLift`.
    feature_learning : int or "auto"
        The number of rounds of averaged gradient outer products that make the metric; ``"auto"``: as many as rows left
        out prefer, none in more than 512 columns.
    categorical_features : array-like or "from_dtype"
        The columns of numbers that are names: their names, indices or a mask (d,), and no others; ``"from_dtype"``:
        text, columns of type category, and whole numbers of few values if that is surely better on rows left out.
    approximation : {"auto", "exact", "centres", "leaves"}
        How more than 4,096 distinct rows are fitted: exactly, with coefficients on chosen centres (Nystroem), or by
        exact fits in the leaves of a tree with soft borders. Beyond exact fits ``"auto"`` takes the better of the last
        two, on rows left out.
    device : {"cpu", "cuda"}
        Where fits and predictions are computed. Model files do not keep it.
    n_jobs : int or None
        Threads; None or -1 for all cores this process may use. Results do not depend on it.
    random_state : int, RandomState or None
        As in scikit-learn. Nothing in a fit is random, so that it changes nothing.
    verbose : int
        1 for a bar with the time left on standard error.

    Attributes
    ----------
    encoder_ : TableEncoder or None
        What makes numbers of the table; None if it held nothing but numbers.
    model_ : KernelModel
        What is fitted: the lift of rows, the kernel, inputs and their coefficients.
    predictive_ : Predictive
        How new targets lie around outputs of the model.
    choices_ : Choices
        Everything that was chosen: what was tried, its error on observations left out, what was taken.
    ridge_, bias_, parts_, metric_, categories_
        What was chosen, by name.
    feature_importances_ : ndarray of shape (columns,)
        Mean square gradient by each scaled column, as shares of 1.
    loo_error_ : float
        Mean squared error of observations left out, one at a time, or of many rows together, in units of the variance
        of what is learnt, summed over outputs; of counts the mean deviance.
    loo_share_ : float
        The same as a share of that of the mean as a guess, in units of the targets: 1 less the R2 of observations left
        out.
    n_features_in_ : int
        As in scikit-learn, and so ``feature_names_in_``.

    Cost: up to 4,096 distinct rows O(n³); beyond O(n²) per step of conjugate gradients, 2n² bytes if they fit; with
    centres O(n). Prediction O(nd) per row.
    """

    _task = "regression"
    _biases, _shift = (1.0, 0.5, 2.0, 4.0), 0.0
    _shares = Shares.of_columns(0.5), Shares.of_columns(0.25), Shares()
    predictive_: Predictive

    def __init__(
        self,
        *,
        loss: str = "squared_error",
        quantiles: Sequence[float] = (0.05, 0.5, 0.95),
        target_transform: str | None = "auto",
        parts: str = "auto",
        ridge: float | str = "auto",
        bias: float | str = "auto",
        feature_learning: int | str = "auto",
        categorical_features: Any = "from_dtype",
        approximation: str = "auto",
        device: str = "cpu",
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.loss, self.quantiles, self.target_transform = loss, quantiles, target_transform
        self.parts, self.ridge, self.bias, self.feature_learning = parts, ridge, bias, feature_learning
        self.categorical_features, self.approximation = categorical_features, approximation
        self.device, self.n_jobs, self.random_state, self.verbose = device, n_jobs, random_state, verbose

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit rows X (n, d), dense, sparse or on disk (see docs/many_rows.md), and targets y (n,) or (n, k)."""
        self._check_parameters()
        self._check_device()
        X, y = in_memory(X), in_memory(y)
        rows, y = self._table(X, y=y, weights=sample_weight, multi_output=True, y_numeric=True)
        weights = check_weights(sample_weight, rows)
        targets = np.asarray(y, np.float64)
        self.single_target_ = targets.ndim == 1
        columns = targets.reshape(len(targets), -1)
        if weights is not None:
            kept = weights > 0
            X = X if self.encoder_ is None or kept.all() else some_cells(X, kept)
            rows, columns, weights = some_of(rows, kept), columns[kept], weights[kept]
        fit_loss = {"squared_error": self._fit_squares, "poisson": self._fit_counts}.get(self.loss, self._fit_robustly)
        with self._refitting():
            fit_loss(X, rows, columns, weights)
        return self

    def _fit_squares(self, X: Any, rows: Any, columns: Matrix, weights: Matrix | None) -> None:
        """Fit targets (n, k), or their logarithms."""
        floor, tried = self._choose_floor(rows, columns, weights)
        learnt = columns if floor is None else np.log(columns - floor)
        if floor is not None and self.encoder_ is not None:
            self.encoder_, rows = self.encoder_.with_means(X, rows, learnt)
        scaling = Scaling.of(learnt, scale="standardise", weights=weights)
        scaled = scaling.apply(learnt)
        fit = self._fit(self._observations(rows, scaled, weights=weights))
        if tried:
            taken = "targets" if floor is None else "logarithms"
            self.choices_ = Choices([Choice("target", tried, taken, "CRPS"), *self.choices_])
        self.predictive_ = self._calibrated(fit.left_out, scaling, floor)
        # Shares do not depend on units and means: of logarithms a factor of their exponentials is left out.
        own = np.asarray if floor is None else lambda values: np.exp(values * scaling.unit)
        share = share_of_guess(fit.left_out.data, fit.left_out.outputs, own)
        self.loo_share_ = max(fit.left_out.optimism, 1.0) * share

    def _choose_floor(
        self, rows: Any, columns: Matrix, weights: Matrix | None
    ) -> tuple[Matrix | None, dict[str, float]]:
        asked = self.target_transform == "log"
        if self.target_transform is None or (not asked and not np.ptp(columns, axis=0).all()):
            return None, {}
        some = np.random.default_rng(0).permutation(len(rows))[: self._sizes.bias_rows]
        some = np.arange(len(rows)) if isinstance(rows, np.ndarray) else some
        given = None if weights is None else weights[some]
        data = Observations.merged(np.asarray(rows[some]), columns[some], weights=given).some(self._sizes.bias_rows)
        if not asked and data.count.sum() < self._sizes.for_choosing:
            return None, {}
        settings = self._settings()
        with settings.backend.session():
            return choose_floor(data, settings, floors=floors_of(columns, weights), asked=asked)

    def _calibrated(
        self, left_out: LeftOut, scaling: Scaling, floor: Matrix | None, told: Matrix | None = None
    ) -> Predictive:
        """Return the predictive distribution that observations left out have shown."""
        chosen = [self.ridge, self.bias].count("auto")
        diagonal = self.model_.kernel.diagonal
        noise, residuals = calibrate(left_out, diagonal, fitted=1 + _CHOSEN * chosen, told=told)
        return Predictive(scaling.mean, scaling.unit, noise, residuals, floor)

    def _fit_robustly(self, X: Any, rows: Any, columns: Matrix, weights: Matrix | None) -> None:
        """Fit targets (n, k) with Huber's loss, on a kernel that was chosen with targets pulled in."""
        near = winsorise(columns, weights, reach=_REACH)
        if self.encoder_ is not None:
            self.encoder_, rows = self.encoder_.with_means(X, rows, near)
        scaling = Scaling.of(near, scale="standardise", weights=weights)
        with np.errstate(over="ignore"):
            own = np.clip(scaling.apply(columns), -_MOST, _MOST)
        near = scaling.apply(near)
        fit = self._fit(self._observations(rows, near, weights=weights, own=own))
        left, settings = fit.left_out, self._settings()
        misses = (left.data.own - left.outputs).T
        knee = _KNEE * float(np.mean([robust_size(one, left.data.weight) for one in misses])) or 1.0
        offset = np.array([weighted_quantile(one, 0.5, weights) for one in own.T])
        found = None
        if np.ptp(near, axis=0).any():  # else all targets but a few absurd ones are equal
            with settings.backend.session():
                found = fit_by_loss(fit, lambda data: data.own, Huber(knee), offset, settings, start=fit.model.alpha)
        if found is not None:
            self.model_ = found.model
            scaling = scaling._replace(mean=scaling.mean + scaling.unit * found.offset)
            left = left._replace(
                data=found.held.with_targets(found.held.own - found.offset), outputs=found.outputs - found.offset
            )
        told = left.data.target - left.outputs if found is not None else left.data.own - left.outputs
        near = np.clip(left.data.target, left.outputs - 2 * knee, left.outputs + 2 * knee)
        left = left._replace(data=left.data.with_targets(near))
        self.loo_error_ = mean_square(left.data, left.outputs)
        self.loo_share_ = max(left.optimism, 1.0) * share_of_guess(left.data, left.outputs)
        self._forget_effects()
        self.predictive_ = self._calibrated(left, scaling, None, told)
        if self.loss == "quantile":
            inputs = self.model_.lift.transform(fit.raw)
            fits = fit_quantiles(
                left.data.with_rows(inputs),
                told,
                [0.5, *map(float, self.quantiles)],
                self.model_.kernel,
                self._predicting(),
            )
            self.predictive_ = self.predictive_._replace(fits=fits)

    def _fit_counts(self, X: Any, rows: Any, counts: Matrix, weights: Matrix | None) -> None:
        """Fit the logarithm of the mean of counts (n, 1), on a kernel that was chosen with their square roots."""
        if counts.shape[1] > 1:
            raise InvalidInput(
                f"loss='poisson' is for one target, as the weight of a row depends on its mean; got {counts.shape[1]}. "
                "Fit one model for each."
            )
        Poisson().check(counts[:, 0])
        if not counts.any():
            raise InvalidInput(
                "loss='poisson' takes counts, some of them above 0; all are 0. Use loss='squared_error'."
            )
        roots = np.sqrt(counts)  # whose variance is about the same whatever the mean
        if self.encoder_ is not None:
            self.encoder_, rows = self.encoder_.with_means(X, rows, roots[:, 0])
        scaling = Scaling.of(roots, scale="standardise", weights=weights)
        scaled = scaling.apply(roots)
        fit = self._fit(self._observations(rows, scaled, weights=weights, own=counts))
        mean = np.log(np.average(counts, axis=0, weights=weights))
        settings = self._settings()
        with settings.backend.session():
            found = fit_by_loss(fit, lambda data: data.own, Poisson(), mean, settings)
        if found is None:
            raise InvalidInput(
                f"the fit with loss='poisson' came to nothing with ridge={fit.model.ridge:.3g}. Give a larger ridge."
            )
        self._forget_effects()
        self.model_, held = found.model, found.held
        own, means = held.own[:, 0], np.exp(found.outputs[:, 0])
        self.loo_error_ = deviance_of(own, means, held.weight)
        self.loo_share_ = share_of_guess(held.with_targets(held.own), means[:, None])
        nothing = np.zeros((3, 1))
        self.predictive_ = Predictive(
            found.offset, np.ones(1), nothing, np.zeros((0, 1)), dispersion=dispersion_of(own, means, held.weight)
        )

    def predict(self, X: ArrayLike, *, return_std: bool = False) -> Any:
        """Return predictions (k,) or (k, outputs), and, if requested, standard deviations of the same shape.

        The deviation is that of a new target. Its square is a factor times the variance of the Gaussian process that
        the limit of infinite width is, plus a constant: those under which observations left
        out are most likely. Away from the data, where the process knows less than at 99 % of these, the square grows
        to the variance of the targets.

        Where logarithms are learnt, the prediction is the median of a skewed distribution, and the deviation that of a
        log-normal one: a few of them below the prediction may be below any possible target. For bounds use
        :meth:`predict_interval`, whatever is learnt. Of counts the prediction is the mean; with loss="quantile" it is
        the median.

        Cost: O(nd) per row; deviations O(n³/3) and O(n²) per row, or from pivots O(r²)
        per row, r = 512.
        """
        check_is_fitted(self, "model_")
        return self._in_blocks(X, lambda inputs: self._predict(inputs, return_std=return_std))

    def predict_interval(self, X: ArrayLike, coverage: float = 0.9) -> tuple[Matrix, Matrix]:
        """Return bounds (lower, upper), each (k,) or (k, outputs), between which this share of new targets lies.

        As many are expected below as above. The bounds are two of :meth:`predict_quantiles`, at the same cost.
        """
        check_is_fitted(self, "model_")
        share = check_coverage(coverage)
        found = self.predict_quantiles(X, [(1 - share) / 2, (1 + share) / 2])
        return found[..., 0], found[..., 1]

    def predict_quantiles(self, X: ArrayLike, quantiles: ArrayLike = (0.05, 0.5, 0.95)) -> Matrix:
        """Return, for each quantile, what a new target is below with this probability: (k, q) or (k, outputs, q).

        Observations left out have shown how many deviations targets lie above and below predictions; so many of the
        deviations at a row are added to its prediction, or, where logarithms are learnt, to the logarithm. These have
        the prediction as their median, and lie above the floor of the logarithms. The share of new targets below a
        quantile is right on the average of rows like those fitted, whatever the distribution of errors.

        With loss="quantile" these are functions of their own, put in order so that they never cross; levels between
        those that were fitted lie on lines between them. With loss="poisson" they are those of a Poisson number, whole,
        spread as much wider as counts left out were (of amounts that are not whole, of a gamma distribution).

        Cost: that of ``predict(return_std=True)``, and O(q) per row and output.
        """
        check_is_fitted(self, "model_")
        wanted = check_quantiles(quantiles)
        return np.asarray(self._in_blocks(X, lambda inputs: self._quantiles(inputs, wanted)))

    def _outputs_at(self, inputs: Matrix, *, variances: bool) -> Outputs:
        """Return what the model says at lifted inputs (m, d)."""
        backend = self._predicting()
        with backend.session():
            values, kernel = self.model_.outputs(inputs, backend), self.model_.kernel
            known = self._variance(backend).at(inputs) if variances else np.zeros(0)
            return Outputs(inputs, values, known, kernel, backend)

    def _predict(self, inputs: Matrix, *, return_std: bool) -> Any:
        law = self.predictive_
        outputs = self._outputs_at(inputs, variances=return_std and law.needs_variances)
        values = law.point(outputs)
        if not return_std:
            return values[:, 0] if self.single_target_ else values
        deviations = law.deviation(outputs)
        return (values[:, 0], deviations[:, 0]) if self.single_target_ else (values, deviations)

    def _quantiles(self, inputs: Matrix, levels: Matrix) -> Matrix:
        """Return quantiles (k, q) or (k, outputs, q) of new targets at lifted inputs (k, d)."""
        law = self.predictive_
        found = law.quantiles(self._outputs_at(inputs, variances=law.needs_variances and law.fits is None), levels)
        return found[:, 0] if self.single_target_ else found

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name, known in {"loss": LOSSES, "target_transform": TRANSFORMS}.items():
            if getattr(self, name) not in known:
                raise InvalidInput(f"{name} must be one of {', '.join(map(repr, known))}; got {getattr(self, name)!r}.")
        if self.target_transform == "log" and self.loss != "squared_error":
            raise InvalidInput(f"target_transform='log' is for squares; got loss={self.loss!r}. Leave one of them out.")
        if self.loss == "quantile":
            try:
                levels = [check_number(one, "a level of quantiles") for one in self.quantiles]
            except TypeError:
                levels = []
            if not levels or not all(0 < one < 1 for one in levels):
                raise InvalidInput(
                    "quantiles must be numbers between 0 and 1, such as (0.05, 0.5, 0.95); "
                    f"got {str(self.quantiles)[:60]}."
                )

    def _target_frame(self) -> tuple[Matrix, Matrix]:
        return self.predictive_.mean, self.predictive_.unit

    @property
    def _floor(self) -> Matrix | None:
        law = self.predictive_
        return np.zeros(1) if law.dispersion is not None else law.floor
