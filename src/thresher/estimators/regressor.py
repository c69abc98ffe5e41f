"""The regressor: scikit-learn's interface, no learning rate, error bars."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from thresher.errors import InvalidInput
from thresher.estimators.base import ThresherEstimator
from thresher.estimators.data.lift import check_weights
from thresher.estimators.data.rows import some_cells
from thresher.estimators.data.scaling import Scaling
from thresher.estimators.data.streams import some_of
from thresher.estimators.interfaces import Backend
from thresher.estimators.judging.measures import mean_square, share_of_guess
from thresher.estimators.losses.fits import FitsByLoss
from thresher.estimators.losses.spreads import SpreadsByLoss
from thresher.estimators.models.fitted import LeftOut
from thresher.estimators.models.intervals import calibrate, check_coverage, check_quantiles, deviations_of, residuals_at
from thresher.estimators.models.variance import Variance
from thresher.estimators.parameters import check_loss
from thresher.estimators.processor import Cpu
from thresher.tables.frame import in_memory
from thresher.theory import Shares
from thresher.training.history import Callback, Iteration

__all__ = ["ThresherRegressor"]

Matrix = NDArray[np.float64]
TARGETS = ("auto", "linear", "log")
_CHOSEN = 0.5  # fitted numbers that a choice by leaving out counts as, in error bars


class ThresherRegressor(FitsByLoss, SpreadsByLoss, MultiOutputMixin, RegressorMixin, ThresherEstimator):
    """Regression by a very wide two-layer ReLU network with a penalty: by Gauss-Newton steps, or by its limit.

    Columns are scaled and rows lifted to the unit sphere. Parameters set to ``"auto"`` are chosen on the training rows
    before training, on the limit of infinite width and on the kernel of the network at its start, where leave-one-out
    is exact and cheap. With more than 4,096 distinct rows, a part of the rows is left out instead of one at a time.

    Parameters
    ----------
    width : neurons of each output (made even); ``float("inf")`` for the limit of infinite width itself, in closed form;
        ``"auto"`` for the limit, unless networks are measurably better on left-out rows, by 2 % and three standard
        errors: of what is equally good, the limit predicts cheaper. Networks compared with it have 2^18 neurons (of a
        classifier: 32 per row, from 4096 to 16384), fewer if there are many outputs or rows; above 4,096 distinct rows
        nothing is compared
    shift : threshold above which a neuron fires; ``"auto"`` by leave-one-out
    ridge : penalty on the distance from the start weights, relative to the diagonal of the limit kernel; ``"auto"`` by
        leave-one-out; 0 for none: networks are trained with certificates, as :func:`thresher.train` does, until every
        training row is met. See below
    bias : bias coordinate of the lift, see :class:`SphereLift`; ``"auto"`` by leave-one-out
    feature_learning : ``"columns"`` weights columns by the marginal likelihood of the limit; a number is the number of
        rounds that learn a metric of the inputs from the gradients of the limit, 0 for none; ``"auto"`` chooses
        either, both or neither by cross-validation that repeats the learning; above 4,096 rows a metric or none
    target : ``"linear"``; ``"log"`` to learn the logarithm of the distance of targets from a floor just below the
        smallest; or ``"auto"``: logarithms if they clearly lower the mean absolute leave-one-out error of the limit
        and do not raise the mean square
    scale : how columns are scaled, see :class:`SphereLift`; ``"auto"``: ``"robust"``, unless the leave-one-out error is
        clearly lower with another
    start : where start weights come from: ``"random"``, independent rows; or ``"hadamard"``, rows that share random
        signs, with which training with ridge=0 starts sooner
    tol : training stops when the gradient of the penalised loss is at most this share of the targets; with ridge=0 when
        the residual is at most this share of the first. ``"auto"`` for 2e-2, and 1e-6 with ridge=0
    max_iterations : most steps; ``"auto"`` for 4, and with ridge=0 for as many as :func:`thresher.train` takes
    train_options : with ridge=0, further options of :func:`thresher.train`, such as ``{"audit": True}``: index, start,
        solver, method, first_step, damping, dtype, memory_budget, audit, checkpoint and resume
    random_state : fixes the start weights
    n_jobs : threads; None or -1 for all cores this process may use. Results do not depend on it.
    device : ``"cuda"`` for one NVIDIA GPU: there fits are computed, predictions, error bars, and networks
        trained, but for networks with a ridge on more than 4,096 rows. Files do not keep it
    approximation : how more than 4,096 distinct rows are fitted. ``"auto"``: exactly up to 49,152; up to 131,072 too
        if that is clearly better on some of the rows (always with device="cuda"); else the better, on rows left out, of
        ``"centres"``, coefficients on some thousand chosen rows, and ``"leaves"``, exact fits of 4,096 rows each in a
        tree with soft borders. ``"exact"`` takes all rows, however long it takes
    verbose : 1 for a bar with the time left, and a line per iteration, on standard error
    callbacks : :class:`thresher.Callback` objects or functions. ``on_progress`` gets the progress of the
        fit, in thousandths, and ``on_iteration`` each iteration of each output; returning True stops the training of
        that output. The other methods are not called.
    categorical_features : columns of numbers that are names: their names, places or a mask (d,), and no others;
        ``"from_dtype"`` for text, columns of type category (:class:`TableEncoder` makes numbers of them), and whole
        numbers of few values if that is surely better on rows left out
    parts : what neurons see: ``"all"`` columns at once; ``"columns"``, single ones, a sum of functions of one column;
        ``"pairs"``, single ones and pairs; ``"auto"``: all columns, and with half of the kernel, a quarter or nothing,
        as rows left out say, single ones and a layer on top of them. Networks of finite width see all columns
    loss : ``"squared"``: the mean; ``"huber"``: an absurd target moves nothing: one beyond a knee from what the others
        say of it pulls no harder than there, one beyond twice the knee not at all. ``"poisson"``:
        counts, or other amounts from 0 on, whose logarithm of the mean is learnt; one target, infinite width.
        ``"quantile"``: quantiles by their own loss; infinite width. ``"auto"``: squares, of targets or logarithms,
        Huber or counts, by one score of what is said of rows left out. See docs/losses.md
    quantiles : levels that ``loss="quantile"`` learns, besides 0.5

    Attributes
    ----------
    loss_, loss_scores_ : the loss used, and with "auto" the scores of those tried; "log 0", "log 1": of logarithms
    dispersion_ : (factor, excess, whole, piece): the variance of a count around a mean m is factor m + excess m², an
        amount that is not whole is 0 with the chance exp(-m / piece) if piece > 0; None unless counts are learnt
    quantile_fits_ : what is added to outputs for quantiles by their own loss; None without them
    target_, floor_, scale_, bias_, shift_, ridge_ : the values chosen
    width_, width_reason_ : the neurons of each network, infinity for the limit; and why
    double_precision_ : whether the limit predicts in it: up to 1,024 rows, or 4,096 if single precision would show
    feature_learning_, columns_weighed_ : rounds of the metric, and whether columns were weighted
    parts_, parts_errors_ : shares of the parts of the kernel, and the errors, on rows left out, of those tried
    categories_ : columns of X that became categories unasked, each ``"category"`` or ``"number and category"``
    encoder_ : the :class:`TableEncoder` of the table; None if it held nothing but numbers
    feature_importances_ : (columns of X,), mean square gradient of the limit by each scaled column, as shares of 1; of
        a column that became several their sum
    metric_ : (d, r), the matrix that multiplies scaled columns
    noise_ : (3, outputs), factor and constant that turn variances of the limit into those of targets, and from where on
    residuals_ : (57, outputs), quantiles of what observations left out were above their predictions, in deviations
    approximation_, approximation_errors_ : ``"exact"``, ``"centres"`` or ``"leaves"``, and errors of those tried
    loo_error_ : mean squared error of observations left out: one at a time, at 1024 rows at most, or, above 4,096 rows,
        those that were left out together; in units of the variance of the targets, or of their logarithms, if learnt,
        summed over outputs.
        With loss="huber" targets are those that were moved; of counts it is the mean deviance
    loo_share_ : the same error as a share of that of the mean as a guess for the same observations, in units of the
        targets, averaged over outputs: 1 less the R2 of observations left out
    fit_check_ : what the model answered at the end of the fit at rows whose answers are known, beside what it should:
        ``rows``, ``error``, ``left_out_error``, ``few_rows_error``, ``constant_error``, ``distance``, ``allowed``, and
        ``repeated``, how often the fit was made again. Model files do not keep it
    tried_ : (bias, shift, ridge, error) of the kernels tried last, of the network's start or of the limit, on at most
        512 rows (a classifier: 256), or 2,048 of many; ``ridge_`` and ``loo_error_`` are those of all rows
    feature_learning_errors_ : for each plan, errors on rows left out, in folds or together, after 0, 1, ... rounds
    inputs_, alpha_, penalty_ : lifted rows, or centres (n, d), their coefficients in the limit (n, outputs), and what
        is added to the diagonal of the kernel (n,)
    gains_ : (outputs,), by which outputs of networks are multiplied
    pivots_, core_ : above 4,096 rows, inputs (r, d) that error bars are made of, and what rows add (r, r); else None
    lift_, leaves_ : the fitted :class:`SphereLift`; the tree and what rows go through in each leaf, None without leaves
    networks_, results_, n_iter_ : the trained networks, one per output, with their histories; steps taken
    n_features_in_, feature_names_in_ : as in scikit-learn

    With ``ridge=0`` nothing is chosen and nothing left out: the scale ``"auto"`` is ``"standardise"``, the bias 0.5,
    the shift the paper's, the width 2^17 (fewer if outputs are many). Start rows are random, features are not learnt,
    targets are linear, sample weights count in the scales alone; ``loo_error_`` is NaN, and there are no error bars, no
    ``noise_`` and no ``feature_importances_``. All methods of callbacks are called, as :func:`thresher.train` does.
    Rows with equal inputs and different targets are refused.

    Cost: up to 4,096 distinct rows O(n³) for one factor; for networks O(mn(n/64 + d)) for the Gram matrix, then O(mnd)
    per iteration and output, and memory O(n² + md); up to 131,072 O(n²) per step of conjugate gradients, 2n² bytes if
    they fit; beyond O(n). Prediction O(md) per row and output, O(nd) for the limit.
    """

    target: str
    _task = "regression"
    _biases, _rows, _auto_widths = (1.0, 0.5, 2.0, 4.0), 512, (1 << 18, 1 << 18)
    _shares = Shares.of_columns(0.5), Shares.of_columns(0.25), Shares()

    def __init__(
        self,
        *,
        width: int | float | str = "auto",
        shift: float | str = "auto",
        ridge: float | str = "auto",
        bias: float | str = "auto",
        feature_learning: int | str = "auto",
        target: str = "auto",
        scale: str = "auto",
        start: str = "random",
        tol: float | str = "auto",
        max_iterations: int | str = "auto",
        train_options: Mapping[str, Any] | None = None,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        device: str = "cpu",
        approximation: str = "auto",
        verbose: int = 0,
        callbacks: Sequence[Callback | Callable[[Iteration], bool | None]] | None = None,
        categorical_features: Any = "from_dtype",
        parts: Any = "auto",
        loss: str = "squared",
        quantiles: Sequence[float] = (0.05, 0.5, 0.95),
    ) -> None:
        self.__dict__.update({name: value for name, value in locals().items() if name != "self"})

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit rows X (n, d), dense, sparse or on disk (see docs/many_rows.md), and targets y (n,) or (n, k)."""
        self._check_parameters()
        self.loss_ = "squared" if self.loss == "auto" else self.loss
        X, y = in_memory(X), in_memory(y)
        rows, y = self._table(X, y=y, weights=sample_weight, multi_output=True, y_numeric=True)
        weights = check_weights(sample_weight, rows)
        targets = np.asarray(y, np.float64)
        columns = targets.reshape(len(targets), -1)
        if weights is not None:
            kept = weights > 0
            X = X if self.encoder_ is None or kept.all() else some_cells(X, kept)
            rows, columns, weights = some_of(rows, kept), columns[kept], weights[kept]
        if self._interpolates:
            scaling, floor = Scaling.of(columns, scale="standardise", weights=weights), None
            self._interpolate(self._observations(rows, scaling.apply(columns), weights=weights))
            left_out = None
        else:
            scaling, left_out, floor = self._fit_columns(X, rows, columns, weights)
        self.single_target_, self.target_scaling_ = targets.ndim == 1, scaling
        self.target_ = "linear" if floor is None else "log"
        self.floor_ = np.zeros(columns.shape[1]) if floor is None else floor
        if left_out is not None:
            self._judge_left_out(left_out)
        return self

    def _judge_left_out(self, left_out: LeftOut) -> None:
        """Set what observations left out say of errors."""
        chosen, data = [self.ridge, self.bias, self.shift].count("auto"), left_out.data
        told = data.own - left_out.outputs if self.loss_ in ("huber", "quantile") else None
        self.noise_, self.residuals_ = calibrate(
            left_out, self._kernel.diagonal, fitted=1 + _CHOSEN * chosen, told=told
        )
        self.dispersion_ = self.quantile_fits_ = None
        if self.loss_ == "poisson":
            self._judge_counts(left_out)
            return
        if self.loss_ == "quantile":
            self._judge_quantiles(left_out)
        self.loo_error_ = self.loo_error_ if self._floor is None else mean_square(data, left_out.outputs)
        # Shares do not depend on units and means: of logarithms a factor of their exponentials is left out.
        unit = self.target_scaling_.unit
        own = np.asarray if self._floor is None else lambda values: np.exp(values * unit)
        self.loo_share_ = max(left_out.optimism, 1.0) * share_of_guess(data, left_out.outputs, own)

    def predict(self, X: ArrayLike, *, return_std: bool = False) -> Any:
        """Return predictions (k,) or (k, outputs), and, if requested, standard deviations of the same shape.

        The deviation is that of a new target. Its square is a factor times the variance of the Gaussian process that
        the linearised network is in the limit of infinite width, plus a constant: those under which observations left
        out are most likely. Away from the data, where the process knows less than at 99 % of these, the square grows
        to the variance of the targets.

        Where logarithms are learnt, the prediction is the median of a skewed distribution, and the deviation that of a
        log-normal one: a few of them below the prediction may be below any possible target. For bounds use
        :meth:`predict_interval`, whatever is learnt. Of counts the prediction is the mean; with loss="quantile" it is
        the median.

        Cost: O(md) per row and output, O(nd) for the limit; deviations O(n³/3) and O(n²) per row, or from pivots O(r²)
        per row, r = 512.
        """
        check_is_fitted(self, "results_")
        if return_std:
            self._refuse_bars()
        return self._in_blocks(X, lambda inputs: self._predict(inputs, return_std=return_std))

    def predict_interval(self, X: ArrayLike, coverage: float = 0.9) -> tuple[Matrix, Matrix]:
        """Return bounds (lower, upper), each (k,) or (k, outputs), between which this share of new targets lies.

        As many are expected below as above. The bounds are two of :meth:`predict_quantiles`, at the same cost.
        """
        check_is_fitted(self, "results_")
        share = check_coverage(coverage)
        found = self.predict_quantiles(X, [(1 - share) / 2, (1 + share) / 2])
        return found[..., 0], found[..., 1]

    def predict_quantiles(self, X: ArrayLike, quantiles: ArrayLike = (0.05, 0.5, 0.95)) -> Matrix:
        """Return, for each quantile, what a new target is below with this probability: (k, q) or (k, outputs, q).

        Observations left out have shown how many deviations targets lie above and below predictions; so many of the
        deviations at a row are added to its prediction, or, where logarithms are learnt, to the logarithm. These have
        the prediction as their median, and lie above ``floor_``. The share of new targets below a quantile is right on
        the average of rows like those fitted, whatever the distribution of errors.

        With loss="quantile" these are functions of their own, put in order so that they never cross; levels between
        those that were fitted lie on lines between them. With loss="poisson" they are those of a Poisson number, whole,
        spread as much wider as counts left out were (of amounts that are not whole, of a gamma distribution).

        Cost: that of ``predict(return_std=True)``, and O(q) per row and output.
        """
        check_is_fitted(self, "results_")
        wanted = check_quantiles(quantiles)
        self._refuse_bars()
        return np.asarray(self._in_blocks(X, lambda inputs: self._quantiles(inputs, wanted)))

    def _refuse_bars(self) -> None:
        if self.ridge_ == 0:
            raise InvalidInput("with ridge=0 no observation is left out, so there are no error bars. Use ridge='auto'.")

    def _predict(self, inputs: Matrix, *, return_std: bool) -> Any:
        if self.dispersion_ is not None:
            values = self._means(self._outputs_of(inputs))
            deviations = self._count_deviations(values)
        elif self.quantile_fits_ is not None:
            found = self._own_quantiles(inputs, np.array([0.5]))
            assert found is not None
            values = found[:, :, 0]
            deviations = self._deviations(inputs) * self.target_scaling_.unit if return_std else values
        else:
            values = self._outputs_of(inputs) * self.target_scaling_.unit + self.target_scaling_.mean
            deviations = self._deviations(inputs) * self.target_scaling_.unit if return_std else np.zeros_like(values)
            if self._floor is not None:
                above = np.exp(values)  # the median; deviations are those of a log-normal distribution
                values = above + self._floor
                deviations = above * np.exp(deviations**2 / 2) * np.sqrt(np.expm1(deviations**2))
        if not return_std:
            return values[:, 0] if self.single_target_ else values
        return (values[:, 0], deviations[:, 0]) if self.single_target_ else (values, deviations)

    def _quantiles(self, inputs: Matrix, quantiles: Matrix) -> Matrix:
        """Return quantiles (k, q) or (k, outputs, q) of new targets at lifted inputs (k, d)."""
        found = self._own_quantiles(inputs, quantiles)
        if found is None:
            steps = residuals_at(quantiles, self.residuals_)
            if self._floor is not None:  # the prediction is the median
                sides = np.sign(quantiles - 0.5)[:, None]
                steps = sides * np.maximum(sides * steps, 0.0)
            unit, mean = self.target_scaling_.unit[:, None], self.target_scaling_.mean[:, None]
            outputs, deviations = self._outputs_of(inputs)[:, :, None], self._deviations(inputs)[:, :, None]
            found = (outputs + deviations * steps.T) * unit + mean
            if self._floor is not None:
                found = np.exp(found) + self._floor[:, None]
        return found[:, 0] if self.single_target_ else found

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.target not in TARGETS:
            raise InvalidInput(f"target must be one of {', '.join(map(repr, TARGETS))}; got {self.target!r}.")
        check_loss(self, interpolates=self._interpolates)
        if self._interpolates and self.target == "log":
            raise InvalidInput("ridge=0 meets targets as they are. Use target='linear', or another ridge.")

    def _width(self, rows: int, outputs: int) -> int | float:
        return math.inf if self.loss_ in ("poisson", "quantile") else super()._width(rows, outputs)

    def _target_frame(self) -> tuple[Matrix, Matrix]:
        return self.target_scaling_.mean, self.target_scaling_.unit

    @property
    def _floor(self) -> Matrix | None:
        return self.floor_ if self.target_ == "log" else None

    def _deviations(self, inputs: Matrix) -> Matrix:
        backend = self._predicting()
        with backend.session():
            about = self._variance(backend)
            if about is None:
                raise InvalidInput(f"ridge={self.ridge_:g} is too small for deviations. Fit with a larger ridge.")
            return deviations_of(about.at(inputs), self.noise_, self._kernel.diagonal)

    def _variance(self, backend: Backend) -> Variance | None:
        """Return what the limit knows, from all training rows, or from pivots where they are many.

        On a processor it is kept for the next rows: with few of them the factor takes longer than all else.
        """
        if isinstance(backend, Cpu):
            return self._kept(f"variance on {backend.threads}", lambda: self._make_variance(backend))
        return self._make_variance(backend)

    def _make_variance(self, backend: Backend) -> Variance | None:
        if self.pivots_ is None:
            return Variance.exact(self.inputs_, self.penalty_, self._kernel, backend)
        return Variance.of_pivots(self.pivots_, self._kernel, self.core_, backend=backend)
