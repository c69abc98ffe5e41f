"""The classifier: one network per class, or one for two classes; calibrated probabilities."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import column_or_1d

from thresher.checks import check_number
from thresher.errors import InvalidInput
from thresher.estimators.adding import takes_rows
from thresher.estimators.base import ThresherEstimator
from thresher.estimators.data.lift import check_weights
from thresher.estimators.data.observations import Observations
from thresher.estimators.data.rows import some_cells
from thresher.estimators.data.streams import some_of
from thresher.estimators.engine import Engine
from thresher.estimators.judging.measures import share_of_guess
from thresher.estimators.models.fitted import LeftOut
from thresher.tables.parts import on_disk
from thresher.training.history import Callback, Iteration

__all__ = ["ThresherClassifier"]

Matrix = NDArray[np.float64]
_MOST_LOG_TEMPERATURE = 8.0


class ThresherClassifier(ClassifierMixin, ThresherEstimator):
    """Classification by very wide two-layer ReLU networks: one per class against the rest, or one for two classes.

    Labels may be (n,), or (n, labels) of 0 and 1 where a row can have several labels; then each label has a network.

    Parameters and attributes are those of :class:`ThresherRegressor`, without those for targets and error bars
    (``target``, ``target_``, ``floor_``, ``noise_``), and

    Parameters
    ----------
    class_weight : weight of an observation by its class: a dict from labels to weights, ``"balanced"`` for equal total
        weight of all classes, or None. Classes missing from a dict have weight 1. The weight does not change
        the number of observations.

    Attributes
    ----------
    classes_ : the labels, sorted
    multilabel_ : whether rows can have several labels
    temperature_ : factor by which scores are multiplied before they become probabilities: the value under which the
        labels are most likely, given the scores of observations left out; one per label if there are several. With
        ridge=0 none are left out: scores are trained to be 1 for the class of a row and -1 for all others, the
        temperature is 1, and probabilities are in the right order but not calibrated

    Each network has its own ``width`` neurons; all come from the same start and share the first Gram matrix. They are
    trained one after the other, each by all threads.
    """

    class_weight: dict[Any, float] | str | None
    _task = "classification"
    _biases, _rows, _auto_widths = (1.0, 0.5, 2.0), 256, (1 << 12, 1 << 14)

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
        start: str = "sobol",
        tol: float | str = "auto",
        max_iterations: int | str = "auto",
        train_options: Mapping[str, Any] | None = None,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        device: str = "cpu",
        engine: Engine = "local",
        approximation: str = "auto",
        checkpoint: str | Path | None = None,
        verbose: int = 0,
        callbacks: Sequence[Callback | Callable[[Iteration], bool | None]] | None = None,
        categorical_features: Any = "from_dtype",
        parts: Any = "auto",
        sequence: str | None = None,
    ) -> None:
        self.__dict__.update({name: value for name, value in locals().items() if name != "self"})

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit rows X (n, d), dense or sparse, and labels y (n,), or (n, labels) of 0 and 1 for several per row."""
        self._check_parameters()
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
            rows = self._with_made(X, rows, labels, wanted - prior, both)
            left_out = self._fit(self._observations(rows, wanted - prior, weights=weights, importance=importance))
        self.classes_, self.prior_, self.multilabel_ = classes, prior, multilabel
        self._judge_left_out(left_out)
        return self

    @available_if(takes_rows)  # type: ignore[untyped-decorator]
    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None, classes: Any = None
    ) -> Self:
        """Take in rows that come later: see :meth:`ThresherRegressor.partial_fit`.

        The first call fits, so that its rows must have all ``classes``; labels that come later must be among them.
        With ``class_weight`` an observation weighs as those of its class did in the fit, on average.
        """
        if classes is not None:
            unknown = np.setdiff1d(np.unique(np.asarray(y)), np.asarray(classes))
            missing = np.setdiff1d(np.asarray(classes), np.unique(np.asarray(y)))
            if len(unknown):
                raise InvalidInput(f"y has {unknown[0]!r}, which is not among classes.")
            if not hasattr(self, "results_") and len(missing):
                raise InvalidInput(
                    f"no row of the first call is of class {missing[0]!r}; expected rows of every class. Collect more "
                    "rows first."
                )
        return super().partial_fit(X, y, sample_weight)

    def _judge_left_out(self, left_out: LeftOut | None) -> None:
        """Set what observations left out say of probabilities and errors."""
        self.temperature_ = self._temperature(left_out)
        if left_out is not None:
            self.loo_share_ = max(left_out.optimism, 1.0) * share_of_guess(left_out.data, left_out.outputs)

    def _targets_to_learn(self, y: Any, earlier: Observations) -> tuple[Matrix, Matrix]:
        """Return labels that come later as targets (k, outputs), and the weights (k,) of their observations.

        Refuse labels that the model does not know.
        """
        labels = y.toarray() if sparse.issparse(y) else np.asarray(y)
        if self.multilabel_:
            found, wanted = _labels(labels)
            if len(found) != len(self.classes_):
                raise InvalidInput(f"y has {len(found)} labels in a row; the model has {len(self.classes_)}.")
        else:
            labels = column_or_1d(labels)
            known = self.classes_.tolist()
            new = [one for one in labels.tolist() if one not in known]
            if new:
                raise InvalidInput(
                    f"y has {new[0]!r}, a class that the model does not know; it knows "
                    f"{', '.join(map(repr, known[:10]))}. Fit all rows together."
                )
            wanted = np.eye(len(known))[np.searchsorted(self.classes_, labels)]
            wanted = 2 * wanted[:, 1:] - 1 if len(known) == 2 else wanted
        targets = wanted - self.prior_
        unit = np.ones(len(targets))
        if self.class_weight is not None:
            own, others = _by_class(earlier.target + self.prior_).argmax(axis=1), _by_class(wanted).argmax(axis=1)
            mean = np.bincount(own, earlier.weight) / np.bincount(own, earlier.count)
            unit = mean[others]
        return targets, unit

    def _temperature(self, left_out: LeftOut | None) -> Any:
        """Return the temperature, or one per label, under which labels of observations left out are likeliest."""
        if left_out is None:
            return np.ones(len(self.classes_)) if self.multilabel_ else 1.0
        data = left_out.data
        parts = np.stack([data.target, left_out.outputs]) + self.prior_
        groups = [parts[:, :, [k]] for k in range(len(self.classes_))] if self.multilabel_ else [parts]
        found = [_calibrate(_by_class(group[0]), _by_class(group[1]), data.weight) for group in groups]
        return np.array(found) if self.multilabel_ else found[0]

    def decision_function(self, X: ArrayLike) -> Matrix:
        """Return scores (k,) of the second of two classes, or (k, classes).

        Cost: O(md) per row and network, O(nd) for the limit.
        """
        scores = self._outputs(X) + self.prior_
        return scores[:, 0] if scores.shape[1] == 1 and not self.multilabel_ else scores

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most likely label of each row (k,), or 0 and 1 (k, labels) for several labels per row."""
        scores = self.decision_function(X)
        if self.multilabel_:
            return (scores > 0).astype(int)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    def predict_proba(self, X: ArrayLike) -> Matrix:
        """Return the probability of each class, or of each label being 1 (k, classes)."""
        scores = self._outputs(X) + self.prior_
        if self.multilabel_:
            return expit(self.temperature_ * scores)
        return softmax(self.temperature_ * _by_class(scores), axis=1)

    def predict_log_proba(self, X: ArrayLike) -> Matrix:
        """Return the logarithms of :meth:`predict_proba` (k, classes)."""
        scores = self._outputs(X) + self.prior_
        if self.multilabel_:
            return log_expit(self.temperature_ * scores)
        return log_softmax(self.temperature_ * _by_class(scores), axis=1)

    def _check_parameters(self) -> None:
        super()._check_parameters()
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
        return self.prior_, np.ones_like(self.prior_)

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


def _by_class(scores: Matrix) -> Matrix:
    """Return scores (k, classes) from outputs (k, outputs); a single output is for the second of two classes."""
    return np.column_stack([-scores / 2, scores / 2]) if scores.shape[1] == 1 else scores


def _calibrate(wanted: Matrix, scores: Matrix, weights: Matrix) -> float:
    """Return the temperature under which the labels are most likely, given scores (n, classes) of rows left out.

    Labels are taken as not quite certain (Platt's rule): otherwise the temperature would be unbounded if no row left
    out were misclassified.
    """
    count = scores.shape[1]
    doubt = count / (float(weights.sum()) + count)
    labels = np.eye(count)[wanted.argmax(axis=1)] * (1 - doubt) + doubt / count

    def surprise(log_temperature: float) -> float:
        chances = (labels * log_softmax(np.exp(log_temperature) * scores, axis=1)).sum(axis=1)
        return -float(np.average(chances, weights=weights))

    found = minimize_scalar(surprise, bounds=(-_MOST_LOG_TEMPERATURE, _MOST_LOG_TEMPERATURE), method="bounded")
    return float(np.exp(found.x))
