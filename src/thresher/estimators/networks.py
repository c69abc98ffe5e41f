"""Networks on tables: columns are encoded, rows lifted to the sphere, and networks trained until every row is met."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, column_or_1d

from thresher.checks import check_number, check_whole
from thresher.errors import FarOutside, InvalidInput
from thresher.estimators.data.encoder import TableEncoder
from thresher.estimators.data.lift import SphereLift
from thresher.estimators.data.observations import distinct_rows
from thresher.estimators.data.rows import new_rows, numeric_targets, training_rows
from thresher.estimators.data.scaling import Scaling, far_values, say_far
from thresher.estimators.data.streams import checked_part, joined
from thresher.estimators.files.exporting import filling_arrays, label_arrays, table_columns
from thresher.estimators.files.model_files import (
    describe_classes,
    describe_parameters,
    describe_table,
    join_state,
    restore_classes,
    restore_parameters,
    restore_table,
    split_state,
)
from thresher.estimators.progress import Progress
from thresher.estimators.settings import threads_of
from thresher.export import Arrays, Exports, make_arrays
from thresher.export.table_graph import LearntColumns
from thresher.files import Stored, write_file
from thresher.losses import LOSSES, Logistic, Loss, choose_loss
from thresher.tables.frame import in_memory
from thresher.tables.rows_on_disk import Part, on_disk
from thresher.training import Callback, Iteration, Result, Status, restore_results, train
from thresher.training.result_files import KIND, VERSION, choose_form, describe_results

__all__ = ["NetworkClassifier", "NetworkRegressor"]

Matrix = NDArray[np.float64]
Told = Sequence[Callback | Callable[[Iteration], bool | None]]
_TAKEN = ("results_", "lift_", "target_scaling_", "encoder_", "n_features_in_", "feature_names_in_", "n_iter_",
          "single_target_", "multilabel_")  # fmt: skip
BIAS = 0.5  # of the lift: keeps lengths apart, inputs still well spread
_SQUARES = "squared_error"


class _NetworkEstimator(Exports, BaseEstimator):
    """Parameters, training, predictions and files of :class:`NetworkRegressor` and :class:`NetworkClassifier`."""

    _task: str  # of the encoder
    encoder_: TableEncoder | None
    results_: list[Result]
    n_features_in_: int

    def __init__(
        self,
        *,
        width: int = 1 << 17,
        shift: float | str = "auto",
        twins: bool | str = "auto",
        start: str = "auto",
        loss: str | Loss = _SQUARES,
        tol: float = 1e-6,
        max_iterations: int | None = None,
        categorical_features: Any = "from_dtype",
        device: str = "cpu",
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.width, self.shift, self.twins, self.start, self.loss = width, shift, twins, start, loss
        self.tol, self.max_iterations, self.categorical_features = tol, max_iterations, categorical_features
        self.device, self.n_jobs, self.random_state, self.verbose = device, n_jobs, random_state, verbose

    @property
    def result_(self) -> Result:
        """The result of the training; of several outputs, that of the one that is farthest from its targets."""
        check_is_fitted(self, "results_")
        return max(self.results_, key=lambda result: result.remainder)

    def save(self, path: str | Path, *, form: str = "auto") -> str:
        """Write the fitted estimator to a file, as :meth:`Result.save` does; :func:`thresher.load` reads it.

        Returns the form that was written, ``"full"`` or ``"recipe"``.
        """
        check_is_fitted(self, "results_")
        stored = self.to_arrays(form=form)
        write_file(Path(path), stored.tensors, stored.metadata, kind=KIND, version=VERSION)
        return str(stored.metadata["form"])

    def to_arrays(self, *, form: str = "full") -> Stored:
        """Return all that was fitted as arrays, and as numbers and words that JSON knows.

        Cost: that of :meth:`Result.save`.
        """
        check_is_fitted(self, "results_")
        if not isinstance(self.loss_, str):
            raise InvalidInput("a loss of one's own is not written to files. Save result_, which predicts lifted rows.")
        arrays, about = self._take_apart(choose_form(form, self.results_))
        labels = None if self._labels is None else describe_classes(self._labels)
        more = {"estimator": type(self).__name__, "parameters": describe_parameters(self), "classes": labels}
        return Stored(arrays, {**more, "loss": self.loss_, **about})

    @classmethod
    def from_arrays(cls, stored: Stored, *, threads: int | None = None) -> Self:
        """Return the estimator that :meth:`to_arrays` described.

        Raises one of several errors if the parts do not fit together. Cost: that of :func:`thresher.load`.
        """
        about = stored.metadata
        found = cls(**restore_parameters(about["parameters"]))
        found._options(_SQUARES)
        found._check_loss(about["loss"])
        found.loss_ = about["loss"]
        if about["classes"] is not None:
            found.classes_ = restore_classes(about["classes"])
        found._put_together(stored, threads=threads)
        return found

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled and copied: parameters and labels as they are, all else that was fitted as arrays."""
        state: dict[str, Any] = super().__getstate__()
        return join_state(state, self._take_apart("full"), _TAKEN) if "results_" in state else state

    def __setstate__(self, state: dict[str, Any]) -> None:
        kept, fitted = split_state(state)
        super().__setstate__(kept)
        if fitted is not None:
            self._put_together(fitted)

    def _take_apart(self, form: str) -> Stored:
        """Return all that was fitted but labels: arrays by name, and numbers, words, lists and dictionaries."""
        networks, tensors = describe_results(self.results_, form)
        scaling, targets = self.lift_.scaling_, self.target_scaling_
        tensors |= {"mean": scaling.mean, "unit": scaling.unit, "inputs_": self.result_.origin.inputs}  # type: ignore[union-attr]
        tensors |= {"target_mean": targets.mean, "target_unit": targets.unit}
        metadata = {
            "form": form,
            "values": {"shift": self.results_[0].network.shift, "n_features_in_": self.n_features_in_},
            "several": bool(self._several),
            "last": float(self.lift_.last_),
            "networks": networks,
            **describe_table(self),
        }
        return Stored(tensors, metadata)

    def _put_together(self, stored: Stored, *, threads: int | None = None) -> None:
        """Take over what :meth:`_take_apart` took apart; ValueError and the like where parts do not fit."""
        about, tensors = stored.metadata, stored.tensors
        numbers = {name: tensors[name].astype(np.float64) for name in ("mean", "unit", "target_mean", "target_unit")}
        inputs, last = tensors["inputs_"].astype(np.float64), check_number(about["last"], "last", least=0.0)
        d, outputs = len(numbers["mean"]), len(numbers["target_mean"])
        shapes = [one.shape for one in (*numbers.values(), inputs[:1])]
        positive = last > 0 and all((numbers[name] > 0).all() for name in ("unit", "target_unit"))
        if shapes != [(d,), (d,), (outputs,), (outputs,), (1, d + 1)] or not positive:
            raise ValueError("its columns or targets are not scaled in a way that is known")
        if not all(np.isfinite(one).all() for one in numbers.values()) or len(about["networks"]) != outputs:
            raise ValueError("some numbers are not finite, or there are networks of other outputs")
        self.n_features_in_ = check_whole(about["values"]["n_features_in_"], "n_features_in", least=1)
        encoder = restore_table(self, about)
        if d != (self.n_features_in_ if encoder is None else len(encoder.sources_)):
            raise ValueError("its encoder is of other columns")
        if not isinstance(about["several"], bool):
            raise TypeError(f"several is {str(about['several'])[:40]!r}")
        self._set_outputs(outputs, several=about["several"])
        self.lift_ = SphereLift.made(Scaling(numbers["mean"], numbers["unit"]), last=last, bias=BIAS)
        self.target_scaling_ = Scaling(numbers["target_mean"], numbers["target_unit"])
        self.results_ = restore_results(about["networks"], tensors, inputs, threads=threads or threads_of(self.n_jobs))
        self.n_iter_ = max(len(result.steps) for result in self.results_)

    @property
    def _labels(self) -> NDArray[Any] | None:
        """The labels (classes,) of a classifier; None of a regressor."""
        return None

    @property
    def _several(self) -> bool:
        """Whether a row has several targets, or several labels."""
        raise NotImplementedError

    def _check_loss(self, loss: Any) -> None:
        """Refuse a loss that no file could have."""
        raise NotImplementedError

    def _set_outputs(self, outputs: int, *, several: bool) -> None:
        """Take over whether a row has several targets or labels; refuse what does not fit the number of outputs."""
        raise NotImplementedError

    def _options(self, loss: str | Loss) -> dict[str, Any]:
        """Return the options of :func:`train`; refuse parameters that no training could have."""
        width = check_whole(self.width, "width", least=1)
        if self.twins not in ("auto", True, False):
            raise InvalidInput(f"twins must be True, False or 'auto'; got {self.twins!r}.")
        return {
            "width": width,
            "shift": None if self.shift == "auto" else check_number(self.shift, "shift", least=0.0),
            "twins": width % 2 == 0 if self.twins == "auto" else bool(self.twins),
            "start": "random" if self.start == "auto" else self.start,
            "loss": loss,
            "tol": self.tol,
            "max_iterations": self.max_iterations,
            "device": self.device,
            "threads": threads_of(self.n_jobs),
        }

    def _rows(self, X: Any, y: Any, **more: Any) -> tuple[Matrix, Any]:
        """Return training rows (n, d) as numbers, and targets, checked; learn the columns."""
        X, y = in_memory(X), in_memory(y)
        if on_disk(X) and not isinstance(X, np.ndarray):
            rows, targets = checked_part(self, X, y=y, **more)
            self.encoder_ = None
            return rows[np.arange(len(rows))], targets
        return training_rows(self, X, task=self._task, weights=None, y=y, **more)

    def _train(self, rows: Matrix, targets: Matrix, *, loss: str | Loss, callbacks: Told) -> None:
        """Train a network on lifted rows (n, d) for each column of targets (n, k), equal rows on the mean of theirs."""
        options = self._options(loss)
        self._warn_far(rows)
        lift = SphereLift(bias=BIAS).fit(rows)
        inputs, group = distinct_rows(lift.transform(rows))
        means = np.stack([np.bincount(group, column) for column in targets.T], axis=1) / np.bincount(group)[:, None]
        with Progress(verbose=self.verbose > 0) as progress:
            progress.plan({"training": 1.0})
            progress.begin("training")
            results = train(
                inputs,
                means,
                seed=int(check_random_state(self.random_state).randint(2**31)),
                callbacks=[*callbacks, progress.records()],
                **options,
            ).outputs
            progress.end()
        self.lift_, self.results_ = lift, list(results)
        self.n_iter_ = max(len(result.steps) for result in results)
        missed = [result for result in results if result.status in (Status.STALLED, Status.OUT_OF_ITERATIONS)]
        if missed:
            said = f"{len(missed)} of {len(results)} networks do not meet their targets: {missed[0].message}"
            warnings.warn(said, ConvergenceWarning, stacklevel=3)

    def _warn_far(self, rows: Matrix) -> None:
        """Warn, with the names of the columns, if values of rows (n, d) lie far outside all others."""
        if found := far_values(rows):
            names = getattr(self, "feature_names_in_", [f"column {k}" for k in range(rows.shape[1])])
            names = names if self.encoder_ is None else list(self.encoder_.get_feature_names_out())
            warnings.warn(say_far(found, names), FarOutside, stacklevel=4)

    def _outputs(self, X: Any) -> Matrix:
        """Return the outputs (k, outputs) of the networks for rows of a table; of rows on disk block by block."""
        check_is_fitted(self, "results_")
        if on_disk(X):
            blocks = Part(X).read(self.n_features_in_, getattr(self, "feature_names_in_", None))
            encode = np.asarray if self.encoder_ is None else self.encoder_.transform
            return np.asarray(joined([self._outputs_of(encode(block)) for block in blocks]))
        return self._outputs_of(new_rows(self, X))

    def _outputs_of(self, rows: Matrix) -> Matrix:
        """Return the outputs (k, outputs) for rows (k, d) of numbers."""
        inputs, threads = self.lift_.transform(rows), threads_of(self.n_jobs)
        return np.column_stack([result.network.predict(inputs, threads=threads) for result in self.results_])

    def _arrays(self, *, encoded: bool) -> Arrays:
        check_is_fitted(self, "results_")
        if self.loss_ not in (_SQUARES, "log_loss"):
            raise InvalidInput(f"networks with loss={self.loss_!r} are not exported. Use loss={_SQUARES!r}.")
        scaling, targets, labels = self.lift_.scaling_, self.target_scaling_, self._labels
        more: dict[str, Any] = {"input_mean": scaling.mean, "input_unit": scaling.unit, "last": [self.lift_.last_]}
        more |= {"mean": targets.mean, "unit": targets.unit}
        if labels is not None:
            more |= label_arrays(labels, np.ones(len(labels) if self._several else ()), several=self._several)
        if self.encoder_ is not None and not encoded:
            more |= filling_arrays(self.encoder_)
        more["columns"] = len(more.get("fill", scaling.mean))
        arrays = {name: np.asarray(value) for name, value in more.items()}
        return make_arrays([result.network.neurons() for result in self.results_], **arrays)

    def _table_columns(self) -> LearntColumns | None:
        return table_columns(self.encoder_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        return tags


class NetworkRegressor(MultiOutputMixin, RegressorMixin, _NetworkEstimator):
    """A very wide two-layer ReLU network on a table, trained by :func:`thresher.train` until every row is met.

    Columns become numbers (:class:`TableEncoder`), are standardised, and rows are lifted to the unit sphere
    (:class:`SphereLift`); then a network is trained, with certificates, for each column of targets, all from one start.

    It *interpolates*: predictions at training rows are their targets, noise included, and there are no error bars and
    no intervals. Equal rows are trained on the mean of their targets. Rows with noise want the limit of infinite width
    with its ridge: :class:`ThresherRegressor`.

    Parameters
    ----------
    width : neurons of each output
    shift : threshold above which a neuron fires; ``"auto"`` for that of :func:`train`
    twins : whether start neurons come in pairs whose outputs cancel; ``"auto"`` where the width is even
    start : where start weights come from, see :func:`train`; ``"auto"`` for independent rows
    loss : ``"squared_error"``, of standardised targets; or another loss of :func:`train`, of targets as they are
    tol : share of the first residual at which training stops
    max_iterations : most steps; None for as many as :func:`train` takes
    categorical_features : columns of numbers that are names: their names, places or a mask (d,); ``"from_dtype"`` for
        text and columns of type category alone
    device : ``"cuda"`` to train on an NVIDIA GPU. Files do not keep it
    n_jobs : threads; None or -1 for all cores this process may use. Results do not depend on it
    random_state : fixes the start weights
    verbose : 1 for a line per iteration, on standard error

    Attributes
    ----------
    result_ : the :class:`Result` of the training, with history, status and message; of several outputs that of the one
        that is farthest from its targets
    results_ : those of all outputs
    encoder_ : the :class:`TableEncoder` of the table; None if it held nothing but numbers
    lift_, target_scaling_ : the fitted :class:`SphereLift`, and the scaling of the targets
    loss_ : the loss of the fit
    n_iter_ : steps taken, of several outputs the most
    n_features_in_, feature_names_in_ : as in scikit-learn

    Cost: that of :func:`train` on the distinct rows, and its memory; prediction O(md) per row and output.
    """

    _task = "regression"

    def fit(self, X: ArrayLike, y: ArrayLike, *, callbacks: Told = ()) -> Self:
        """Train on rows X (n, d), dense, sparse or on disk, and targets y (n,) or (n, k).

        ``callbacks`` are those of :func:`train`: :class:`thresher.Callback` objects or functions.
        """
        rows, y = self._rows(X, numeric_targets(in_memory(y)), multi_output=True, y_numeric=True)
        targets = np.asarray(y, np.float64)
        columns = targets.reshape(len(targets), -1)
        loss, scaling = self.loss, Scaling(np.zeros(columns.shape[1]), np.ones(columns.shape[1]))
        if loss == _SQUARES:
            scaling = Scaling.of(columns, scale="standardise")
        self._train(rows, scaling.apply(columns), loss=loss, callbacks=callbacks)
        self.single_target_, self.target_scaling_, self.loss_ = targets.ndim == 1, scaling, self.loss
        return self

    def predict(self, X: ArrayLike) -> Matrix:
        """Return predictions (k,) or (k, outputs). Cost: O(md) per row and output."""
        outputs = self._outputs(X)
        if self.loss_ != _SQUARES:
            outputs = np.asarray(choose_loss(self.loss_).link(outputs))
        values = outputs * self.target_scaling_.unit + self.target_scaling_.mean
        return values[:, 0] if self.single_target_ else values

    @property
    def _several(self) -> bool:
        return not self.single_target_

    def _check_loss(self, loss: Any) -> None:
        if loss not in LOSSES:
            raise ValueError(f"the loss is {str(loss)[:40]!r}")

    def _set_outputs(self, outputs: int, *, several: bool) -> None:
        if outputs > 1 and not several:
            raise ValueError("it has several outputs for a single target")
        self.single_target_ = not several


class NetworkClassifier(ClassifierMixin, _NetworkEstimator):
    """Very wide two-layer ReLU networks on a table with labels: one per class, or one for two classes.

    As :class:`NetworkRegressor`, they interpolate: every training row has its label, mislabelled ones too. Labels may
    be (n,), or (n, labels) of 0 and 1 where a row can have several; then each label has a network. For probabilities
    that are calibrated take :class:`ThresherClassifier`.

    Parameters and attributes are those of :class:`NetworkRegressor`, and

    Parameters
    ----------
    loss : ``"squared_error"``: scores are trained to be 1 for the class of a row and -1 for all others; probabilities,
        of these scores taken as log odds, are in the right order but not calibrated. ``"log_loss"``: scores are log
        odds, trained until the mean log loss is at most ``tol``; they fit probabilities close to 0 and 1

    Attributes
    ----------
    classes_ : the labels, sorted
    multilabel_ : whether rows can have several labels
    """

    _task = "classification"

    def fit(self, X: ArrayLike, y: ArrayLike, *, callbacks: Told = ()) -> Self:
        """Train on rows X (n, d) and labels y (n,), or (n, labels) of 0 and 1 for several per row.

        ``callbacks`` are those of :func:`train`: :class:`thresher.Callback` objects or functions.
        """
        rows, labels = self._rows(X, y, multi_output=True)
        labels = labels.toarray() if sparse.issparse(labels) else labels
        if labels.ndim == 2 and labels.shape[1] == 1:
            labels = column_or_1d(labels, warn=True)
        check_classification_targets(labels)
        several = type_of_target(labels).startswith("multilabel")
        if not several and labels.ndim == 2:
            raise InvalidInput("y must be (n,) labels, or (n, labels) of 0 and 1; got several columns of classes.")
        classes, wanted = _several_labels(labels) if several else _classes(labels)
        outputs = wanted.shape[1]
        self._check_loss(self.loss)
        if self.loss == _SQUARES:
            self._train(rows, 2 * wanted - 1, loss=_SQUARES, callbacks=callbacks)
        else:
            self._train(rows, wanted, loss=Logistic() if several else "log_loss", callbacks=callbacks)
        self.classes_, self.multilabel_, self.loss_ = classes, several, self.loss
        self.target_scaling_ = Scaling(np.zeros(outputs), np.ones(outputs))
        return self

    def decision_function(self, X: ArrayLike) -> Matrix:
        """Return scores (k,) of the second of two classes, or (k, classes). Cost: O(md) per row and network."""
        scores = self._outputs(X)
        return scores[:, 0] if scores.shape[1] == 1 and not self.multilabel_ else scores

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most likely label of each row (k,), or 0 and 1 (k, labels) for several labels per row."""
        scores = self.decision_function(X)
        if self.multilabel_:
            return (scores > 0).astype(int)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    def predict_proba(self, X: ArrayLike) -> Matrix:
        """Return the probability of each class, or of each label being 1 (k, classes)."""
        scores = self._outputs(X)
        if self.multilabel_:
            return np.asarray(expit(scores))
        return np.hstack([expit(-scores), expit(scores)]) if scores.shape[1] == 1 else softmax(scores, axis=1)

    @property
    def _labels(self) -> NDArray[Any]:
        return self.classes_

    @property
    def _several(self) -> bool:
        return self.multilabel_

    def _check_loss(self, loss: Any) -> None:
        if loss not in (_SQUARES, "log_loss"):
            raise InvalidInput(f"loss must be {_SQUARES!r} or 'log_loss'; got {loss!r}.")

    def _set_outputs(self, outputs: int, *, several: bool) -> None:
        self.multilabel_ = several
        if outputs != (1 if len(self.classes_) == 2 and not several else len(self.classes_)):
            raise ValueError(f"{len(self.classes_)} classes for {outputs} outputs")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


def _classes(labels: NDArray[Any]) -> tuple[NDArray[Any], Matrix]:
    """Return the classes, and 1 for that of each row and 0 for all others (n, classes), or (n, 1) for two classes."""
    classes, codes = np.unique(np.asarray(labels), return_inverse=True)
    if len(classes) < 2:
        raise InvalidInput(f"y must have at least two classes; got 1 class, {classes[0]}.")
    wanted = np.eye(len(classes))[codes]
    return classes, wanted[:, 1:] if len(classes) == 2 else wanted


def _several_labels(labels: Any) -> tuple[NDArray[Any], Matrix]:
    """Return the numbers of the labels, and which (n, labels) each row has."""
    wanted = np.asarray(labels, np.float64)
    if not np.isin(wanted, (0.0, 1.0)).all():
        raise InvalidInput(f"several labels per row must be 0 or 1; got {np.unique(wanted)[:5].tolist()}.")
    return np.arange(wanted.shape[1]), wanted
