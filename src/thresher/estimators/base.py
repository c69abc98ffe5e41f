"""What regressor and classifier share: parameters, the fit, files, exports, predictions of networks."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from thresher.checks import check_whole
from thresher.errors import FarOutside, InvalidInput, NotAvailable, TooNarrow
from thresher.estimators.data.encoder import TableEncoder
from thresher.estimators.data.observations import Observations
from thresher.estimators.data.rows import names_categories, new_rows, numeric_targets, training_rows
from thresher.estimators.data.scaling import far_values, say_far
from thresher.estimators.data.single_columns import Groups
from thresher.estimators.data.streams import checked_part, joined
from thresher.estimators.effects.model_effects import WithEffects
from thresher.estimators.files.exporting import WithFiles
from thresher.estimators.interfaces import Backend, Measure
from thresher.estimators.judging.measures import mean_square
from thresher.estimators.kernels.kernel import SphereKernel
from thresher.estimators.models.fit_check import Asked, FitCheck, ensure
from thresher.estimators.models.fitted import Fitted, LeftOut
from thresher.estimators.models.interpolation import WIDTH, check_interpolation, interpolate
from thresher.estimators.options import Options, Plan, Taken
from thresher.estimators.parameters import check_parameters, shares_of, threads_of
from thresher.estimators.pipeline.budget import auto_width, fewer_neurons
from thresher.estimators.pipeline.few_rows import WORSE
from thresher.estimators.pipeline.pipeline import Pipeline
from thresher.estimators.processor import Cpu, local_backend
from thresher.estimators.progress import Progress
from thresher.estimators.sizes import Sizes
from thresher.model.network import Network
from thresher.model.start import Sequence as SequenceName
from thresher.tables.rows_on_disk import Part, on_disk
from thresher.theory import Parts, Shares
from thresher.training.history import Callback, Iteration

__all__ = ["ThresherEstimator"]

Matrix = NDArray[np.float64]
_FAR = 0.2  # remainder, as a share of the targets, above which training counts as failed
_ROUNDED = 1e-3  # share of the error on rows left out that the rounding of predictions in single precision may be
_TOL, _ITERATIONS = (2e-2, 1e-6), (4, None)  # with a penalty, and without one


class ThresherEstimator(WithEffects, WithFiles, BaseEstimator):
    """Base of :class:`ThresherRegressor` and :class:`ThresherClassifier`; see there for the parameters."""

    width: int | float | str
    shift: float | str
    ridge: float | str
    bias: float | str
    feature_learning: int | str
    scale: str
    start: str
    tol: float | str
    max_iterations: int | str
    train_options: Mapping[str, Any] | None
    random_state: int | np.random.RandomState | None
    n_jobs: int | None
    device: str
    approximation: str
    verbose: int
    callbacks: Sequence[Callback | Callable[[Iteration], bool | None]] | None
    categorical_features: Any
    parts: Any

    _biases: tuple[float, ...]  # the biases that bias="auto" chooses from
    _task: str  # what an encoder is told
    encoder_: TableEncoder | None
    width_reason_: str
    _rows: int  # see Options.rows
    _shares: tuple[Shares, ...]  # the shares of the parts of the kernel that parts="auto" chooses from
    _again: Taken  # what a fit of the same rows to other targets takes over from the last one
    _sizes = Sizes()
    _auto_widths: tuple[int, int]  # fewest and most neurons per output with width="auto", if there are few outputs

    def _table(self, X: Any, *, weights: Any = None, **more: Any) -> Any:
        """Return checked training rows (n, d), dense, and targets.

        Many rows on disk stay there: a :class:`Part`, read once to check that its numbers are finite.
        """
        if more.get("y_numeric"):
            more["y"] = numeric_targets(more["y"])
        if on_disk(X) and (len(X) > self._sizes.exact or not isinstance(X, np.ndarray)):
            if names_categories(self):
                raise InvalidInput("rows on disk are numbers alone. Leave categorical_features out, or read the rows.")
            part, targets = checked_part(self, X, **more)
            self.encoder_ = None
            return part if len(part) > self._sizes.exact else part[np.arange(len(part))], targets
        return training_rows(self, X, task=self._task, weights=weights, **more)

    def _encoded_columns(self) -> tuple[Groups, tuple[int, ...] | None]:
        """Return which columns of the encoder are the indicators of one category, and which are measured numbers."""
        encoder = getattr(self, "encoder_", None)
        return ((), None) if encoder is None else (encoder.groups_, encoder.measured_)

    def _by_column(self, shares: Matrix) -> Matrix:
        """Return shares (n_features_in_,) of the columns of X from those (d,) of the columns of numbers they became."""
        return shares if self.encoder_ is None else self.encoder_.by_column(shares)

    def _observations(self, rows: Any, targets: Matrix, **more: Any) -> Observations:
        """Return the observations at rows, which stay where they are if they are many and need not be in memory."""
        if len(rows) <= self._sizes.exact:  # in memory, also where weights of zero leave few of those on disk
            rows = rows[np.arange(len(rows))] if isinstance(rows, Part) else rows
            return Observations.merged(rows, targets, **more)
        data = Observations.streamed(Part(rows), targets, **more)
        whole = self._interpolates or self.approximation in ("exact", "leaves") or self.width not in ("auto", math.inf)
        return data.with_rows(data.X[np.arange(len(data))]) if whole or len(data) <= self._sizes.exact else data

    def _fit(self, data: Observations, measure: Measure = mean_square, *, taken: Taken | None = None) -> LeftOut:
        """Fit observations whose targets have the mean 0, perhaps again; return the results of leaving them out."""
        options, first = self._options(data, measure)._replace(taken=taken), taken is None
        why = "" if first else self.width_reason_  # of the fit that chose
        if first:
            self._warn_far(data.X)
        with Progress((self.callbacks or ()) if first else (), verbose=first and self.verbose > 0) as progress:
            fitted, self.fit_check_ = self._checked(Pipeline(data, options, progress).run())
        self.width_reason_ = why or self.width_reason_
        self._again, many = fitted.taken, len(data) > self._sizes.one_by_one
        self.double_precision_ = not (many or self.results_) and self._needs_double(fitted.asked)
        self._warn(0.0 if fitted.networks is None else fitted.networks.loss)
        return fitted.left_out._replace(rows=fitted.asked.rows)

    def _checked(self, made: Fitted) -> tuple[Fitted, FitCheck]:
        """Adopt and return a fit that passes its check, this one or one made again; if none does, nothing is fitted."""
        try:
            return ensure(made, self._adopt, lambda rows: self._outputs_of(self.lift_.transform(rows)))
        except BaseException:  # an interrupt too: what failed its check must not predict
            self.__dict__.pop("results_", None)
            raise

    def _needs_double(self, asked: Asked) -> bool:
        """Return whether single precision would show in predictions, at rows of which the error left out is known."""
        if len(self.inputs_) <= self._sizes.double:
            return True
        product = partial(Cpu(threads_of(self.n_jobs)).product, self._kernel, self.lift_.transform(asked.rows))
        quick, exact = (product(self.inputs_, self.alpha_, double=double) for double in (False, True))
        rounding = np.sqrt(((quick - exact) ** 2).sum() / len(exact))
        return not rounding <= _ROUNDED * self.fit_check_.left_out_error

    def _adopt(self, fitted: Fitted) -> None:
        """Take over everything that came out of a fit."""
        self._forget_effects()
        choice, lift, limit, networks = fitted.choice, fitted.lift, fitted.limit, fitted.networks
        self.bias_, self.shift_, self.ridge_ = choice.kernel.bias, choice.kernel.shift, fitted.ridge
        self.loo_error_, self.tried_ = limit.error, [tuple(one) for one in choice.tried]
        plan = fitted.learning.plan
        self.feature_learning_, self.columns_weighed_ = plan.rounds, plan.columns
        self.feature_learning_errors_ = fitted.learning.errors
        self.feature_importances_ = self._by_column(fitted.importances)
        self.scale_, self.lift_ = lift.scale, lift
        self.parts_ = Shares() if choice.kernel.parts is None else choice.kernel.parts.shares
        self.parts_errors_ = fitted.errors_of_parts
        self.inputs_, self.alpha_, self.penalty_ = limit.inputs, limit.alpha, fitted.penalty
        self.gains_ = np.ones(limit.alpha.shape[1]) if networks is None else networks.gains
        self.results_ = [] if networks is None else networks.results
        self.pivots_, self.core_, self.leaves_ = limit.pivots, limit.core, limit.leaves
        self.approximation_, self.approximation_errors_ = limit.way, limit.errors
        many = f"there are more than {self._sizes.one_by_one:,} distinct rows"
        self.width_reason_ = fitted.why or (many if self.width == "auto" else "it was asked for")
        self.double_precision_ = len(limit.inputs) <= self._sizes.one_by_one and limit.way == "exact"
        self.n_iter_ = max((len(result.steps) for result in self.results_), default=0)

    @property
    def _interpolates(self) -> bool:
        """Whether networks are trained without a penalty, until every row is met."""
        return bool(self.ridge != "auto" and self.ridge == 0)

    def _interpolate(self, data: Observations) -> None:
        """Fit observations so that every target is met; refuse those that cannot be."""
        self._warn_far(data.X)
        told, said, options = self.callbacks or (), self.verbose > 0, self._options(data)
        more = {"device": self.device, "start": options.sequence, **(self.train_options or {})}
        interpolate(self, data, options, train_options=more, callbacks=told, verbose=said)

    def _options(self, data: Observations, measure: Measure = mean_square) -> Options:
        def chosen(value: Any) -> float | None:
            return None if value == "auto" else float(value)

        asked, tol, most = self.feature_learning, chosen(self.tol), chosen(self.max_iterations)
        plan = Plan(columns=True) if asked == "columns" else Plan(rounds=0 if asked == "auto" else int(asked))
        shares = shares_of(self.parts, self.width)
        plan = plan if shares is None or shares.whole else Plan()  # features are those of all columns together
        groups, measured = self._encoded_columns()
        return Options(
            width=self._width(len(data), data.targets.shape[1]),
            shift=chosen(self.shift),
            ridge=chosen(self.ridge),
            bias=chosen(self.bias),
            plan=None if asked == "auto" and (shares is None or shares.whole) else plan,
            scale=None if self.scale == "auto" else self.scale,
            sequence=cast(SequenceName, self.start),
            tol=_TOL[self._interpolates] if tol is None else tol,
            max_iterations=_ITERATIONS[self._interpolates] if most is None else int(most),
            seed=self._seed,
            threads=threads_of(self.n_jobs),
            biases=self._biases,
            rows=self._rows,
            backend=local_backend(self.device, threads_of(self.n_jobs)),
            measure=measure,
            sizes=self._sizes,
            approximation=self.approximation,
            or_limit=self.width == "auto",
            device=self.device,
            shares=shares,
            all_shares=self._shares,
            groups=groups,
            measured=measured,
            guesses_categories=not (names_categories(self) or shares == Shares()),
        )

    def _check_parameters(self) -> None:
        self._seed = int(check_random_state(self.random_state).randint(2**31))  # once, whatever is tried
        check_parameters(self)
        check_interpolation(self, interpolates=self._interpolates)

    def _width(self, rows: int, outputs: int) -> int | float:
        if self.width == "auto" and self._interpolates:
            return fewer_neurons(WIDTH, outputs)
        if self.width == "auto":
            return auto_width(rows, outputs, self._auto_widths, self._sizes)
        if self.width == math.inf:
            return math.inf
        return 2 * math.ceil(check_whole(self.width, "width", least=1) / 2)

    def _warn(self, loss: float) -> None:
        """Warn if a network ended far from the minimum, or has an error above that of the limit by this share of it."""
        if self.results_ and loss > WORSE:
            warnings.warn(
                f"on rows left out, networks of {self.width_:,} neurons have a squared error {loss:.0%} above that of "
                "the limit of infinite width. Use a larger width, or width=float('inf').",
                TooNarrow,
                stacklevel=4,
            )
        far = [result for result in self.results_ if not result.remainder <= _FAR]
        if far:
            warnings.warn(
                f"{len(far)} of {len(self.results_)} networks ended far from the minimum: {far[0].message}",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _warn_far(self, X: Matrix) -> None:
        """Warn, with the names of the columns, if values of X (n, d) lie far outside all others."""
        found = far_values(X)
        if not found:
            return
        names = getattr(self, "feature_names_in_", [f"column {k}" for k in range(X.shape[1])])
        names = names if self.encoder_ is None else list(self.encoder_.get_feature_names_out())
        moved = self.scale in ("standardise", "centre", "none")
        remedy = " With scale='auto' they do not affect the rest." if moved else ""
        warnings.warn(say_far(found, names) + remedy, FarOutside, stacklevel=4)

    @property
    def metric_(self) -> Matrix:
        """The matrix (d, r) that multiplies scaled columns before rows are lifted: column weights times the metric."""
        check_is_fitted(self, "results_")
        d = len(self.lift_.scaling_.mean)
        metric = np.eye(d) if self.lift_.metric is None else np.asarray(self.lift_.metric)
        return metric if self.lift_.weights is None else np.asarray(self.lift_.weights)[:, None] * metric

    @property
    def categories_(self) -> dict[Any, str]:
        """The columns of X, by name or place, whose whole numbers became categories unasked, and what they are now."""
        check_is_fitted(self, "results_")
        names = getattr(self, "feature_names_in_", range(self.n_features_in_))
        told = {} if self.lift_.indicators_ is None else self.lift_.indicators_.told
        return {names[k if self.encoder_ is None else self.encoder_.sources_[k]]: what for k, what in told.items()}

    @property
    def width_(self) -> int | float:
        """The neurons of each network; infinity for the limit of infinite width."""
        check_is_fitted(self, "results_")
        return self.results_[0].network.width if self.results_ else math.inf

    @property
    def networks_(self) -> list[Network]:
        """The trained networks, one per output; none for infinite width."""
        check_is_fitted(self, "results_")
        return [result.network for result in self.results_]

    def _target_frame(self) -> tuple[Matrix, Matrix]:
        """Return (mean, unit): outputs of networks are multiplied by the unit, then the mean is added."""
        raise NotImplementedError

    @property
    def _floor(self) -> Matrix | None:
        """The floor of the targets (outputs,) if the networks learn logarithms of the distance from it, else None."""
        return None

    @property
    def _class_labels(self) -> NDArray[Any] | None:
        """The labels (classes,) of a classifier; None of a regressor."""
        return None

    def _outputs(self, X: Any) -> Matrix:
        """Return the outputs (k, outputs) of the networks for raw rows (k, d)."""
        return self._in_blocks(X, self._outputs_of)

    def _in_blocks(self, X: Any, predict: Callable[[Matrix], Any]) -> Any:
        """Return what is predicted for the lifted inputs of rows; of rows on disk block by block, which are joined."""
        check_is_fitted(self, "results_")
        if not on_disk(X):
            return predict(self.lift_.transform(new_rows(self, X)))
        blocks = Part(X).read(self.n_features_in_, getattr(self, "feature_names_in_", None))
        encode = self.encoder_.transform if self.encoder_ is not None else np.asarray
        return joined([predict(self.lift_.transform(encode(block))) for block in blocks])

    def _outputs_of(self, inputs: Matrix) -> Matrix:
        if not self.results_:
            return self._by_limit(inputs)
        networks, threads = self.networks_, threads_of(self.n_jobs)
        if networks[0].weights.dense:
            backend = self._predicting()
            with backend.session():
                return backend.predict_twins(networks, inputs) * self.gains_
        return np.column_stack([network.predict(inputs, threads=threads) for network in networks]) * self.gains_

    def _by_limit(self, inputs: Matrix) -> Matrix:
        backend = self._predicting()
        with backend.session():
            if self.leaves_ is not None:
                vectors, angles = self._kernel.split(inputs)
                rows = np.hstack([vectors[:, :-1] * (self.lift_.last_ / vectors[:, -1:]), angles])
                return self.leaves_.predict(rows, self.inputs_, self.alpha_, self._kernel, backend=backend)
            few = self.pivots_ is None
            double = self.double_precision_ or (few and not isinstance(backend, Cpu))  # on a GPU it is as fast
            return backend.product(self._kernel, inputs, self.inputs_, self.alpha_, double=double)

    @property
    def _kernel(self) -> SphereKernel:
        """The kernel of inputs, which are lifted."""
        angles = self.lift_.angles_
        return SphereKernel(
            self.bias_, self.shift_, parts=None if angles is None else Parts.of(len(angles), self.parts_)
        )

    def _predicting(self) -> Backend:
        """Return the backend of the device; where that is missing, as after a move to another machine, the CPU."""
        try:
            return local_backend(self.device, threads_of(self.n_jobs))
        except NotAvailable as error:
            warnings.warn(f"Predicting on the CPU: {error}", UserWarning, stacklevel=5)
            return Cpu(threads_of(self.n_jobs))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        return tags
