"""The classifier: one network per class, or one for two classes; calibrated probabilities."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import column_or_1d

from thresher.checks import check_number
from thresher.errors import InvalidInput
from thresher.estimators.base import ThresherEstimator
from thresher.estimators.data.lift import check_weights
from thresher.estimators.data.observations import Observations
from thresher.estimators.data.rows import some_cells
from thresher.estimators.data.streams import some_of
from thresher.estimators.judging.measures import share_of_guess
from thresher.estimators.losses.probabilities import (
    Labelled,
    LogOdds,
    by_class,
    choose_log_odds,
    choose_of_many_rows,
    find_temperature,
)
from thresher.estimators.models.fitted import LeftOut
from thresher.estimators.models.variance import Variance
from thresher.tables.frame import in_memory
from thresher.tables.rows_on_disk import on_disk
from thresher.theory import Shares
from thresher.training.history import Callback, Iteration

__all__ = ["ThresherClassifier"]

Matrix = NDArray[np.float64]
LOSSES = ("auto", "squared", "log")
_ROUNDED = 1e-2  # rounding of the log of the odds that predictions in single precision may have


class ThresherClassifier(ClassifierMixin, ThresherEstimator):
    """Classification by very wide two-layer ReLU networks: one per class against the rest, or one for two classes.

    Labels may be (n,), or (n, labels) of 0 and 1 where a row can have several labels; then each label has a network.

    Parameters and attributes are those of :class:`ThresherRegressor`, without those for targets and error bars
    (``target``, ``target_``, ``floor_``, ``noise_``), but that ``parts="auto"`` is half of the kernel all columns, a
    quarter single ones and a quarter a layer on top of them; and

    Parameters
    ----------
    loss : by which probabilities are fitted: ``"squared"`` (scores times a temperature), ``"log"`` (log loss), or
        ``"auto"`` for the better of these and both mixed, on observations left out; see ``loss_``
    class_weight : weight of an observation by its class: a dict from labels to weights, ``"balanced"`` for equal total
        weight of all classes, or None. Classes missing from a dict have weight 1. The weight does not change
        the number of observations.

    Attributes
    ----------
    classes_ : the labels, sorted
    multilabel_ : whether rows can have several labels
    temperature_ : factor by which scores are multiplied before they become probabilities: the value under which the
        labels are most likely, given the scores of observations left out; one per label if there are several; 1 where
        scores are log odds. With ridge=0 none are left out: scores are trained to be 1 for the class of a row and -1
        for all others, the temperature is 1, and probabilities are in the right order but not calibrated
    loss_, loss_reason_ : ``"squared"``, ``"log"`` or ``"mixed"``, half of the log odds of each; and why. Squares alone
        below 50 observations, above 4,096 distinct rows of more than two classes or not fitted exactly, for several
        labels per row, for networks and with ridge=0
    loss_errors_ : log loss of observations left out under each; empty if they were not compared
    loss_ridge_, loss_penalty_ : the ridge of the fit by log loss, and what it adds to the diagonal (n,) for error bars:
        the ridge over its curvatures; ``ridge_`` and None with squares alone
    prior_, offset_ : the means (outputs,) of what squares learn, and what is added to outputs: the same, or log odds

    Each network has its own ``width`` neurons; all come from the same start and share the first Gram matrix. They are
    trained one after the other, each by all threads.
    """

    class_weight: dict[Any, float] | str | None
    loss: str
    _many: Observations | None = None  # while a fit of many rows chooses its loss
    _task = "classification"
    _biases, _rows, _auto_widths = (1.0, 0.5, 2.0), 256, (1 << 12, 1 << 14)
    _shares = (Shares.of_columns(0.5),)

    def __init__(
        self,
        *,
        width: int | float | str = "auto",
        shift: float | str = "auto",
        ridge: float | str = "auto",
        bias: float | str = "auto",
        feature_learning: int | str = "auto",
        scale: str = "auto",
        class_weight: dict[Any, float] | str | None = None,
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
        loss: str = "auto",
    ) -> None:
        self.__dict__.update({name: value for name, value in locals().items() if name != "self"})

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit rows X (n, d), dense or sparse, and labels y (n,), or (n, labels) of 0 and 1 for several per row."""
        self._check_parameters()
        X, y = in_memory(X), in_memory(y)
        rows, labels = self._table(X, y=y, weights=sample_weight, multi_output=True)
        labels = labels.toarray() if sparse.issparse(labels) else labels
        if labels.ndim == 2 and labels.shape[1] == 1:
            labels = column_or_1d(labels, warn=True)
        check_classification_targets(labels)
        multilabel = type_of_target(labels).startswith("multilabel")
        if not multilabel and labels.ndim == 2:
            raise InvalidInput("y must be (n,) labels, or (n, labels) of 0 and 1; got several columns of classes.")
        weights = check_weights(sample_weight, rows)
        if weights is not None:
            kept = weights > 0
            X = X if kept.all() or on_disk(X) else some_cells(X, kept)
            rows, labels, weights = some_of(rows, kept), labels[kept], weights[kept]
        classes, wanted = _labels(labels) if multilabel else _classes(labels)
        importance = self._importance(labels, classes, weights, multilabel=multilabel)
        both = weights if importance is None else importance * (1.0 if weights is None else weights)
        left_out = None
        if self._interpolates:
            prior = np.zeros(wanted.shape[1])
            self._interpolate(self._observations(rows, np.where(wanted > 0, 1.0, -1.0), weights=weights))
        else:
            prior = np.average(wanted, axis=0, weights=both)
            data = self._observations(rows, wanted - prior, weights=weights, importance=importance)
            left_out = self._fit(data)
            self._many = None if len(data) <= self._sizes.one_by_one or data.on_disk else data
        self.classes_, self.prior_, self.multilabel_ = classes, prior, multilabel
        try:
            self._judge_left_out(left_out)
        finally:
            self._many = None
        return self

    def _judge_left_out(self, left_out: LeftOut | None) -> None:
        """Set what observations left out say of errors and probabilities, and by which loss these are fitted."""
        self.temperature_, self.offset_ = self._temperature(left_out), self.prior_
        self.loss_, self.loss_ridge_ = "squared", self.ridge_
        self.loss_errors_: dict[str, float] = {}
        self.loss_penalty_: Matrix | None = None
        if left_out is not None:
            self.loo_share_ = max(left_out.optimism, 1.0) * share_of_guess(left_out.data, left_out.outputs)
        few = None if left_out is None else left_out.fitted
        self.loss_reason_ = self._why_squared(few)
        if not self.loss_reason_ and left_out is not None:
            self._take_log_odds(left_out)
        elif self.loss == "log":
            raise InvalidInput(
                f"loss='log' is for the limit of infinite width, one label per row, a ridge, and above "
                f"{self._sizes.one_by_one:,} distinct rows two classes fitted exactly; here {self.loss_reason_}. "
                "Use loss='auto'."
            )

    def _why_squared(self, few: Observations | None) -> str:
        """Return, in words, why scores of squares are the only ones; empty if others may be better."""
        if self._interpolates:
            return "ridge=0 trains networks by squares"
        if self.loss == "squared":
            return "it was asked for"
        if self.multilabel_:
            return "rows can have several labels"
        if self.results_:
            return "networks are trained by squares"
        if few is None and self.approximation_ != "exact":
            return "so many rows are not fitted exactly"
        if few is None and (self._many is None or len(self.prior_) > 1):
            return f"there are more than {self._sizes.one_by_one:,} distinct rows, on disk or of more than two classes"
        if self.loss == "auto" and few is not None and few.count.sum() < self._sizes.for_scales:
            return f"fewer than {self._sizes.for_scales} observations do not say whether another loss is better"
        return ""

    def _take_log_odds(self, left_out: LeftOut) -> None:
        """Choose between scores of squares, a fit by log loss, and both mixed; take over the coefficients."""
        kernel, ridge = self._kernel, None if self.ridge == "auto" else self.ridge_
        few, many = left_out.fitted, self._many
        data = few if few is not None else many.with_rows(self.inputs_)  # type: ignore[union-attr]
        given = Labelled(
            data, left_out.data, left_out.outputs + self.prior_, self.prior_, self.alpha_, float(self.temperature_)
        )
        asked: dict[str, Any] = {"guess": self.ridge_, "ridge": ridge, "alone": self.loss == "log"}
        backend = self._predicting() if many is None else self._options(many).backend
        with backend.session():
            if many is None:
                matrix = backend.dense(kernel, data.X).dense()
                found = choose_log_odds(matrix, kernel.diagonal, given, rows=self._rows, **asked)
            else:
                found = choose_of_many_rows(kernel, given, backend=backend, sizes=self._sizes, **asked)
        if found is None:
            self.loss_reason_ = "a fit by log loss came to nothing with the ridges that were tried"
            return
        self.loss_, self.loss_reason_, self.loss_errors_ = found.loss, found.reason, found.errors
        if found.loss == "squared":
            return
        self._take_coefficients(found)
        if many is not None and self.pivots_ is not None:
            pivots = Variance.of_pivots(self.pivots_, kernel, backend=backend)
            self.core_ = pivots.with_rows(self.inputs_, found.penalty).core

    def _take_coefficients(self, found: LogOdds) -> None:
        """Make outputs the log of the odds; of few rows in double precision where their rounding would show."""
        self.alpha_, self.offset_, self.temperature_ = found.alpha, found.offset, 1.0
        self.loss_ridge_, self.loss_penalty_ = found.ridge, found.penalty
        self._forget_effects()
        if self._many is None and not self.double_precision_:
            some = self.inputs_[: self._sizes.double]
            quick = self._outputs_of(some)
            self.double_precision_ = True
            away = quick - self._outputs_of(some)
            self.double_precision_ = not float(np.sqrt((away**2).mean())) <= _ROUNDED

    def _temperature(self, left_out: LeftOut | None) -> Any:
        """Return the temperature, or one per label, under which labels of observations left out are likeliest."""
        if left_out is None:
            return np.ones(len(self.classes_)) if self.multilabel_ else 1.0
        data = left_out.data
        parts = np.stack([data.target, left_out.outputs]) + self.prior_
        groups = [parts[:, :, [k]] for k in range(len(self.classes_))] if self.multilabel_ else [parts]
        found = [find_temperature(group[0], group[1], data.weight) for group in groups]
        return np.array(found) if self.multilabel_ else found[0]

    def decision_function(self, X: ArrayLike) -> Matrix:
        """Return scores (k,) of the second of two classes, or (k, classes).

        Cost: O(md) per row and network, O(nd) for the limit.
        """
        scores = self._outputs(X) + self.offset_
        return scores[:, 0] if scores.shape[1] == 1 and not self.multilabel_ else scores

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most likely label of each row (k,), or 0 and 1 (k, labels) for several labels per row."""
        scores = self.decision_function(X)
        if self.multilabel_:
            return (scores > 0).astype(int)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    def predict_proba(self, X: ArrayLike) -> Matrix:
        """Return the probability of each class, or of each label being 1 (k, classes)."""
        scores = self._outputs(X) + self.offset_
        if self.multilabel_:
            return expit(self.temperature_ * scores)
        return softmax(self.temperature_ * by_class(scores), axis=1)

    def predict_log_proba(self, X: ArrayLike) -> Matrix:
        """Return the logarithms of :meth:`predict_proba` (k, classes)."""
        scores = self._outputs(X) + self.offset_
        if self.multilabel_:
            return log_expit(self.temperature_ * scores)
        return log_softmax(self.temperature_ * by_class(scores), axis=1)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.loss not in LOSSES:
            raise InvalidInput(f"loss must be one of {', '.join(map(repr, LOSSES))}; got {self.loss!r}.")
        if self._interpolates and self.class_weight is not None:
            raise InvalidInput("ridge=0 meets every row, whatever its class counts. Leave class_weight out.")

    def _importance(
        self, y: NDArray[Any], classes: NDArray[Any], weights: Matrix | None, *, multilabel: bool
    ) -> Matrix | None:
        """Return the weight of each row by its class (n,); None if all classes have the same weight."""
        if self.class_weight is None:
            return None
        if multilabel:
            raise InvalidInput("class_weight is for one label per row. Leave it out, or use sample_weight.")
        if not isinstance(self.class_weight, dict) and self.class_weight != "balanced":
            raise InvalidInput(f"class_weight must be 'balanced', a dict or None; got {self.class_weight!r}.")
        if not isinstance(self.class_weight, dict):
            found = np.bincount(np.searchsorted(classes, y), weights, minlength=len(classes))
            by_class = found.sum() / (len(classes) * found)
        else:
            known = classes.tolist()
            for label in self.class_weight:
                if label not in known:
                    told = ", ".join(map(repr, known[:10]))
                    raise InvalidInput(
                        f"class_weight names {label!r}, which is not a class of y; the classes are {told}."
                    )
            given = [self.class_weight.get(one, 1.0) for one in known]
            by_class = np.array([check_number(one, "class_weight", above=0.0) for one in given])
        return by_class[np.searchsorted(classes, y)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def _target_frame(self) -> tuple[Matrix, Matrix]:
        return self.offset_, np.ones_like(self.offset_)

    @property
    def _class_labels(self) -> NDArray[Any]:
        return self.classes_


def _classes(y: NDArray[Any]) -> tuple[NDArray[Any], Matrix]:
    """Return the classes and the targets of the outputs (n, classes), or (n, 1) for two classes."""
    classes, codes = np.unique(np.asarray(y), return_inverse=True)
    if len(classes) < 2:
        raise InvalidInput(f"y must have at least two classes; got 1 class, {classes[0]}.")
    wanted = np.eye(len(classes))[codes]
    return classes, 2 * wanted[:, 1:] - 1 if len(classes) == 2 else wanted


def _labels(y: Any) -> tuple[NDArray[Any], Matrix]:
    """Return the numbers of the labels and the targets of the outputs (n, labels)."""
    dense = np.asarray(y, np.float64)
    if not np.isin(dense, (0.0, 1.0)).all():
        raise InvalidInput(f"several labels per row must be 0 or 1; got {np.unique(dense)[:5].tolist()}.")
    return np.arange(dense.shape[1]), 2 * dense - 1
