"""The classifier: log loss on the limit of infinite width, calibrated probabilities."""

from __future__ import annotations

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
from thresher.estimators.choose import Choice, Choices
from thresher.estimators.data.lift import check_weights
from thresher.estimators.data.observations import Observations
from thresher.estimators.data.rows import some_cells
from thresher.estimators.data.streams import some_of
from thresher.estimators.fit import Fit
from thresher.estimators.leave_one_out import share_of_guess
from thresher.estimators.loss_fits import fit_by_loss
from thresher.estimators.probabilities import by_class, find_temperature, uncertain_labels
from thresher.losses import Logistic, Softmax
from thresher.tables.frame import in_memory
from thresher.tables.rows_on_disk import on_disk
from thresher.theory import Shares

__all__ = ["ThresherClassifier"]

Matrix = NDArray[np.float64]
LOSSES = ("log_loss", "squared_error")
_STEEP = 20.0  # temperature from which on scores say next to nothing, or all but certain labels


class ThresherClassifier(ClassifierMixin, ThresherEstimator):
    """Kernel logistic regression with the limit of infinitely wide two-layer ReLU networks, and nothing to tune.

    Labels may be (n,), or (n, labels) of 0 and 1 where a row can have several labels.

    The kernel is half all columns under a learnt metric, a quarter single columns and a quarter a layer of them. It is
    chosen by squares; then coefficients are fitted by log loss, with a ridge of its own. Parameters and attributes that
    are not listed are those of :class:`ThresherRegressor`, without those for targets and error bars.

    Parameters
    ----------
    loss : {"log_loss", "squared_error"}
        By what coefficients are fitted. Scores of squares times a temperature become probabilities, too; with more rows
        than fits with a coefficient for each take, ``"log_loss"`` falls back to that, see ``loss_``.
    class_weight : dict, "balanced" or None
        The weight of an observation by its class; ``"balanced"`` for equal total weight of all classes. Classes missing
        from a dict have weight 1. The weight does not change the number of observations.

    Attributes
    ----------
    classes_ : ndarray of shape (classes,)
        The labels, sorted.
    multilabel_ : bool
        Whether rows can have several labels.
    loss_ : str
        The loss that coefficients were fitted by.
    temperature_ : float or ndarray of shape (labels,)
        The factor of scores before they become probabilities: 1 of log odds; of squares that under which labels of
        observations left out are most likely, one per label if there are several.
    """

    class_weight: dict[Any, float] | str | None
    loss: str
    _task = "classification"
    _biases, _shift = (1.0, 0.5, 2.0), 0.5
    _shares = (Shares.of_columns(0.5),)

    def __init__(
        self,
        *,
        loss: str = "log_loss",
        class_weight: dict[Any, float] | str | None = None,
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
        self.loss, self.class_weight, self.parts, self.ridge, self.bias = loss, class_weight, parts, ridge, bias
        self.feature_learning, self.categorical_features = feature_learning, categorical_features
        self.approximation, self.device, self.n_jobs = approximation, device, n_jobs
        self.random_state, self.verbose = random_state, verbose

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit rows X (n, d), dense or sparse, and labels y (n,), or (n, labels) of 0 and 1 for several per row."""
        self._check_parameters()
        self._check_device()
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
        prior = np.average(wanted, axis=0, weights=both)
        with self._refitting():
            fit = self._fit(self._observations(rows, wanted - prior, weights=weights, importance=importance))
            self.classes_, self.multilabel_ = classes, multilabel
            left = fit.left_out
            self.loo_share_ = max(left.optimism, 1.0) * share_of_guess(left.data, left.outputs)
            self.offset_, self.temperature_, self.loss_ = prior, self._temperature(fit, prior), "squared_error"
            if self.loss == "log_loss":
                self._fit_log_loss(fit, prior)
        return self

    def _temperature(self, fit: Fit, prior: Matrix) -> Any:
        """Return the temperature, or one per label, under which labels of observations left out are likeliest."""
        data = fit.left_out.data
        parts = np.stack([data.target, fit.left_out.outputs]) + prior
        groups = [parts[:, :, [k]] for k in range(len(self.classes_))] if self.multilabel_ else [parts]
        found = [find_temperature(group[0], group[1], data.weight) for group in groups]
        return np.array(found) if self.multilabel_ else found[0]

    def _fit_log_loss(self, fit: Fit, prior: Matrix) -> None:
        """Fit the log of the odds on the kernel that squares have chosen, where it is fitted exactly."""
        settings = self._settings()
        single = self.multilabel_ or len(prior) == 1

        def labels(data: Observations) -> Matrix:
            wanted = data.target + prior
            if not single:
                return uncertain_labels(wanted, data.weight)
            each = [uncertain_labels(one[:, None], data.weight)[:, 1] for one in wanted.T]
            return np.column_stack(each)

        shares = np.average(labels(fit.data), axis=0, weights=fit.data.weight)
        offset = np.log(shares / (1 - shares)) if single else np.log(shares) - np.log(shares).mean()
        loss = Logistic() if single else Softmax()
        with settings.backend.session():
            found = fit_by_loss(fit, labels, loss, offset, settings, start=_start(fit, self.temperature_))
        if found is None:
            return
        self._forget_effects()
        self.model_, self.offset_, self.loss_ = found.model, found.offset, "log_loss"
        self.temperature_ = np.ones(len(prior)) if self.multilabel_ else 1.0
        self.choices_ = Choices(
            [
                *self.choices_,
                Choice(
                    "ridge of log loss",
                    {f"{found.model.ridge:.3g}": found.error},
                    f"{found.model.ridge:.3g}",
                    "log loss",
                ),
            ]
        )

    def decision_function(self, X: ArrayLike) -> Matrix:
        """Return scores (k,) of the second of two classes, or (k, classes).

        Cost: O(nd) per row.
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


def _start(fit: Fit, temperature: Any) -> Matrix | None:
    """Return coefficients (n, outputs) of scores of squares as log odds; None where these say next to nothing."""
    sure = np.all((temperature > 1 / _STEEP) & (temperature < _STEEP))
    return temperature * fit.model.alpha if sure else None


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
