"""What regressor and classifier share: parameters, the table, the fit, files, exports, outputs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from thresher.errors import FarOutside, InvalidInput, NotAvailable
from thresher.estimators.choose import Choices
from thresher.estimators.data.encoder import TableEncoder
from thresher.estimators.data.observations import Observations
from thresher.estimators.data.rows import names_categories, new_rows, numeric_targets, training_rows
from thresher.estimators.data.scaling import far_values, say_far
from thresher.estimators.data.single_columns import Groups
from thresher.estimators.data.streams import checked_part, joined
from thresher.estimators.effects.model_effects import ModelEffects
from thresher.estimators.effects.values import Effects, Explanation
from thresher.estimators.files.exporting import arrays_of, table_columns
from thresher.estimators.files.model_files import (
    from_arrays,
    join_state,
    put_together,
    save_model,
    split_state,
    take_apart,
    to_arrays,
)
from thresher.estimators.fit import Fit, fit_table
from thresher.estimators.interfaces import Backend
from thresher.estimators.model import KernelModel
from thresher.estimators.processor import Cpu, local_backend
from thresher.estimators.progress import Progress
from thresher.estimators.settings import Settings, Sizes, check_parameters, shares_of, threads_of
from thresher.estimators.variance import Variance
from thresher.export import Arrays, Exports
from thresher.export.table_graph import LearntColumns
from thresher.files import Stored
from thresher.tables.rows_on_disk import Part, on_disk
from thresher.theory import Shares

__all__ = ["ThresherEstimator"]

Matrix = NDArray[np.float64]
_KEPT = "_computed"  # attribute with what was computed of a fit: for effects and error bars


class ThresherEstimator(Exports, BaseEstimator):
    """Base of :class:`ThresherRegressor` and :class:`ThresherClassifier`; see there for the parameters."""

    bias: float | str
    ridge: float | str
    parts: str
    feature_learning: int | str
    categorical_features: Any
    approximation: str
    device: str
    n_jobs: int | None
    verbose: int

    _biases: tuple[float, ...]  # the biases that bias="auto" chooses from
    _shift: float  # of the kernel
    _task: str  # what an encoder is told
    _shares: tuple[Shares, ...]  # the shares of the parts of the kernel that parts="auto" chooses from
    _sizes = Sizes()
    encoder_: TableEncoder | None
    model_: KernelModel
    choices_: Choices
    feature_importances_: Matrix
    loo_error_: float

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
        whole = self.approximation in ("exact", "leaves")
        return data.with_rows(data.X[np.arange(len(data))]) if whole or len(data) <= self._sizes.exact else data

    def effects(self, X: Any, *, pairs: int = 10, return_std: bool = False) -> Effects:
        """Return what rows X (k, d) have in each term of the model; with the intercept they add up to the prediction.

        Terms are a main effect for each column of X, the effects of the most important ``pairs`` of columns, all other
        pairs together, and the rest: what neurons that see all columns, or a layer of columns, add. Main effects and
        the rest have the mean 0 over the training rows, weighted as in the fit; the effect of a pair has the mean 0
        over the training values of either of its columns. A column that became several numbers has one effect.

        They are effects on what is learnt: on logarithms where ``predictive_.floor`` is there, on scores of a
        classifier. The sum is exact but for rounding, which is that of single precision where predictions are.

        Standard errors (``return_std``) are those of the Gaussian process whose mean the model is: how far the effect
        may be from that of the function behind the targets. Of many rows they are made of some pivots; with
        centres they are NaN.

        Training rows are the inputs of ``model_``: with centres, these. Models without parts (see ``parts_``) have
        nothing but the rest, and a warning says so; models of leaves are refused.

        Cost: O(n) per row and column, O(n) per row and pair, the first time also that of ``effect_shares_`` if there
        are pairs; standard errors O(n³/3), and O(n²) per row and term.
        """
        return self._model_effects.effects(X, pairs=pairs, return_std=return_std)

    def explain(self, X: Any) -> Explanation:
        """Return how the predictions of rows X (k, d), or of one row (d,), come about, column by column.

        Each column has its main effect and half of the effects of its pairs; the rest is a value of its own. Together
        with the base value they add up to the prediction, as :meth:`effects` do. ``waterfall()`` draws a row.

        Cost: O(n) per row and column, and that of a prediction.
        """
        return self._model_effects.explain(X)

    @property
    def effect_shares_(self) -> dict[str, float]:
        """The share of each term in what varies: its variance over training rows, the largest first; the sum is 1.

        Variances are over at most 1000 training rows, summed over outputs in units of the targets' deviations. For a
        pair the two columns are taken from different rows. Columns depend on each other, so that the sum of the
        variances is not the variance of the sum. The shares are computed when they are first asked for.
        """
        return self._model_effects.shares

    @property
    def _model_effects(self) -> ModelEffects:
        check_is_fitted(self, "model_")
        found: ModelEffects = self._kept("effects", lambda: ModelEffects(self))
        return found

    def _kept(self, name: str, make: Callable[[], Any]) -> Any:
        """Return what was computed of this fit before, or compute it now. Pickles do not keep it."""
        found = self.__dict__.setdefault(_KEPT, {})
        if name not in found:
            found[name] = make()
        return found[name]

    def _forget_effects(self) -> None:
        self.__dict__.pop(_KEPT, None)

    def _check_device(self) -> None:
        """Refuse a device that is missing, before an earlier fit is given up."""
        local_backend(self.device, threads_of(self.n_jobs))

    @contextmanager
    def _refitting(self) -> Iterator[None]:
        """Leave no model behind where a fit fails or is interrupted, neither a new one nor an old one."""
        self.__dict__.pop("model_", None)
        try:
            yield
        except BaseException:
            self.__dict__.pop("model_", None)
            raise

    def _fit(self, data: Observations) -> Fit:
        """Return the fit of observations whose targets have the mean 0, and take over its model."""
        self._forget_effects()
        self._warn_far(data.X)
        with Progress(verbose=self.verbose > 0) as progress:
            fit = fit_table(data, self._settings(), progress)
        self.model_, self.choices_, self.loo_error_ = fit.model, fit.choices, fit.error
        self.feature_importances_ = self._by_column(fit.importances)
        return fit

    def _settings(self) -> Settings:
        """Return what was asked of a fit."""

        def chosen(value: Any) -> float | None:
            return None if value == "auto" else float(value)

        shares, bias = shares_of(self.parts), chosen(self.bias)
        groups, measured = self._encoded_columns()
        whole = shares is None or shares.whole > 0
        rounds = None if self.feature_learning == "auto" else int(self.feature_learning)
        return Settings(
            backend=local_backend(self.device, threads_of(self.n_jobs)),
            shift=self._shift,
            biases=self._biases if bias is None else (bias,),
            shares=self._shares if shares is None else (shares,),
            ridge=chosen(self.ridge),
            rounds=rounds if whole else 0,
            approximation=self.approximation,
            groups=groups,
            measured=measured,
            guesses_categories=not names_categories(self),
            asked_for_parts=shares is not None,
            sizes=self._sizes,
        )

    def _check_parameters(self) -> None:
        check_parameters(self)

    def _warn_far(self, X: Matrix) -> None:
        """Warn, with the names of the columns, if values of X (n, d) lie far outside all others."""
        found = far_values(X)
        if not found:
            return
        names = getattr(self, "feature_names_in_", [f"column {k}" for k in range(X.shape[1])])
        names = names if self.encoder_ is None else list(self.encoder_.get_feature_names_out())
        warnings.warn(say_far(found, names), FarOutside, stacklevel=4)

    @property
    def bias_(self) -> float:
        """The bias coordinate, as a multiple of the typical norm of a row."""
        check_is_fitted(self, "model_")
        return self.model_.kernel.bias

    @property
    def ridge_(self) -> float:
        """The ridge, relative to the diagonal of the kernel."""
        check_is_fitted(self, "model_")
        return self.model_.ridge

    @property
    def parts_(self) -> Shares:
        """The shares of the parts of the kernel."""
        check_is_fitted(self, "model_")
        parts = self.model_.kernel.parts
        return Shares() if parts is None else parts.shares

    @property
    def metric_(self) -> Matrix:
        """The matrix (d, r) that multiplies scaled columns before rows are lifted."""
        check_is_fitted(self, "model_")
        lift = self.model_.lift
        return np.eye(len(lift.scaling_.mean)) if lift.metric is None else np.asarray(lift.metric)

    @property
    def categories_(self) -> dict[Any, str]:
        """The columns of X, by name or index, whose whole numbers became categories unasked, and what they are now."""
        check_is_fitted(self, "model_")
        names = getattr(self, "feature_names_in_", range(self.n_features_in_))
        indicators = self.model_.lift.indicators_
        told = {} if indicators is None else indicators.told
        return {names[k if self.encoder_ is None else self.encoder_.sources_[k]]: what for k, what in told.items()}

    def _target_frame(self) -> tuple[Matrix, Matrix]:
        """Return (mean, unit): outputs of the model are multiplied by the unit, then the mean is added."""
        raise NotImplementedError

    @property
    def _floor(self) -> Matrix | None:
        """The floor of the targets (outputs,) if logarithms of the distance from it are learnt, else None."""
        return None

    @property
    def _class_labels(self) -> NDArray[Any] | None:
        """The labels (classes,) of a classifier; None of a regressor."""
        return None

    def _outputs(self, X: Any) -> Matrix:
        """Return the outputs (k, outputs) of the model for raw rows (k, d)."""
        return self._in_blocks(X, self._outputs_of)

    def _in_blocks(self, X: Any, predict: Callable[[Matrix], Any]) -> Any:
        """Return what is predicted for the lifted inputs of rows; of rows on disk block by block, which are joined."""
        check_is_fitted(self, "model_")
        lift = self.model_.lift
        if not on_disk(X):
            return predict(lift.transform(new_rows(self, X)))
        blocks = Part(X).read(self.n_features_in_, getattr(self, "feature_names_in_", None))
        encode = self.encoder_.transform if self.encoder_ is not None else np.asarray
        return joined([predict(lift.transform(encode(block))) for block in blocks])

    def _outputs_of(self, inputs: Matrix) -> Matrix:
        return self.model_.outputs(inputs, self._predicting())

    def _variance(self, backend: Backend) -> Variance:
        """Return what the limit knows; on a processor it is kept, as with few rows the factor takes longest."""
        if not isinstance(backend, Cpu):
            found = self.model_.variance(backend)
        else:
            found = self._kept(f"variance on {backend.threads}", lambda: self.model_.variance(backend))
        if found is None:
            raise InvalidInput(f"ridge={self.ridge_:g} is too small for deviations. Fit with a larger ridge.")
        return found

    def _predicting(self) -> Backend:
        """Return the backend of the device; where that is missing, as after a move to another machine, the CPU."""
        try:
            return local_backend(self.device, threads_of(self.n_jobs))
        except NotAvailable as error:
            warnings.warn(f"Predicting on the CPU: {error}", UserWarning, stacklevel=5)
            return Cpu(threads_of(self.n_jobs))

    def save(self, path: str | Path) -> None:
        """Write the fitted estimator to a file: plain numbers, no code; :func:`thresher.load` reads it.

        Cost: O(nd) bytes.
        """
        check_is_fitted(self, "model_")
        save_model(self, path)

    def to_arrays(self) -> Stored:
        """Return all that was fitted as arrays, and as numbers and words that JSON knows. Cost: none."""
        check_is_fitted(self, "model_")
        return to_arrays(self)

    @classmethod
    def from_arrays(cls, stored: Stored, *, threads: int | None = None) -> Self:
        """Return the estimator that :meth:`to_arrays` took apart, checked."""
        found: Self = from_arrays(cls, stored)
        return found

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled and copied: parameters and labels as they are, all else that was fitted as arrays."""
        state: dict[str, Any] = super().__getstate__()
        state = {name: value for name, value in state.items() if name != _KEPT}
        whole = "model_" in state and ("predictive_" in state or "offset_" in state)  # a fit may have been refused
        return join_state(state, take_apart(self)) if whole else state

    def __setstate__(self, state: dict[str, Any]) -> None:
        kept, fitted = split_state(state)
        super().__setstate__(kept)
        if fitted is not None:
            put_together(self, fitted)

    def _arrays(self, *, encoded: bool) -> Arrays:
        check_is_fitted(self, "model_")
        return arrays_of(self, encoded=encoded)

    def _table_columns(self) -> LearntColumns | None:
        check_is_fitted(self, "model_")
        return table_columns(self.encoder_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        return tags
