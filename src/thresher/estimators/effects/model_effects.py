"""Effects of a fitted estimator: what its methods ``effects`` and ``explain`` and its ``effect_shares_`` compute."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.algebra.cholesky import factor
from thresher.checks import check_whole
from thresher.errors import InvalidInput
from thresher.estimators.data.rows import new_rows
from thresher.estimators.effects.curves import curves_of
from thresher.estimators.effects.decomposition import (
    Decomposition,
    Pairs,
    Terms,
    Variances,
    variances_of_terms,
)
from thresher.estimators.effects.values import (
    Effects,
    Explanation,
    column_names,
    others_name,
    pair_names,
    rest_name,
    unit_columns,
)
from thresher.estimators.model import KernelModel
from thresher.estimators.processor import Cpu
from thresher.estimators.settings import threads_of
from thresher.tables.frame import Frame, in_memory, is_frame, say_label

__all__ = ["ModelEffects"]

Matrix = NDArray[np.float64]
Numbers = NDArray[np.int64]
_HINT = (
    "this model sees all columns at once, so that it has no effects of columns: all of it is in the rest. Fit with "
    "parts='columns' or 'pairs' for a model that has them."
)


class ModelEffects:
    """The terms of a fitted estimator; ``decomposition.py`` says how a model is made of them."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    @property
    def model(self) -> KernelModel:
        """The fitted model."""
        found: KernelModel = self.estimator.model_
        return found

    def effects(self, X: Any, *, pairs: int = 10, return_std: bool = False) -> Effects:
        """Return the terms of rows X (k, d); see :meth:`ThresherRegressor.effects`."""
        most = check_whole(pairs, "pairs", least=0)
        if self.model.lift.angles_ is None:
            warnings.warn(_HINT, UserWarning, stacklevel=2)
        chosen = self._important_pairs(most)
        inputs = self.model.lift.transform(new_rows(self.estimator, X))
        mean, unit = self.estimator._target_frame()
        values = self._in_table(self.terms(inputs, chosen), chosen)
        std = self._shaped(self._standard_errors(inputs, chosen) * unit) if return_std else None
        return Effects(
            self.decomposition.intercept * unit + mean, self._term_names(chosen), self._shaped(values * unit), std
        )

    def explain(self, X: Any) -> Explanation:
        """Return how predictions come about; see :meth:`ThresherRegressor.explain`."""
        made = self.decomposition
        X = _as_table(X)
        inputs = self.model.lift.transform(new_rows(self.estimator, X))
        mains, rest = made.halves(inputs)
        (mean, unit), names = self.estimator._target_frame(), column_names(self.estimator)
        values = np.zeros((len(inputs), len(names) + 1, rest.shape[1]))
        values[:, made.columns], values[:, -1] = mains, rest
        base = np.tile(self.decomposition.intercept * unit + mean, (len(inputs), 1))
        single = self._shaped(values[:1]).ndim == 2
        return Explanation(
            self._shaped(values * unit),
            base[:, 0] if single else base,
            _cells(X, names[: self.estimator.n_features_in_], len(names) - self.estimator.n_features_in_ + 1),
            [*names, rest_name(names)],
            self.output_names(),
        )

    @property
    def shares(self) -> dict[str, float]:
        """The share of each term in what varies; see :attr:`ThresherRegressor.effect_shares_`."""
        made, found, names = self.decomposition, self._variances, column_names(self.estimator)
        shares = dict.fromkeys(names, 0.0)
        seen = [names[column] for column in made.columns]
        shares |= dict(zip(seen, found.mains.tolist(), strict=True))
        if made.pair:
            left, right = np.triu_indices(len(seen), 1)
            both = pair_names(names, zip(made.columns[left], made.columns[right], strict=True))
            shares |= dict(zip(both, found.pairs[left, right].tolist(), strict=True))
        shares[rest_name(names)] = found.rest
        total = sum(shares.values()) or 1.0
        return dict(sorted(((name, value / total) for name, value in shares.items()), key=lambda one: -one[1]))

    def curves(self, *, most: int, deviations: bool = True) -> list[dict[str, Any]]:
        """Return what pictures of the most important terms show; see :func:`curves_of`."""
        return curves_of(self, most=most, deviations=deviations)

    @cached_property
    def decomposition(self) -> Decomposition:
        """The model as a sum of terms."""
        if self.model.leaves is not None:
            raise InvalidInput(
                "a model of leaves is a different sum in every leaf, so it has no effects. Fit with "
                "approximation='centres', or 'exact'."
            )
        model = self.model
        return Decomposition(
            model.kernel,
            model.inputs,
            model.alpha,
            columns=unit_columns(self.estimator),
            double=model.double,
            threads=threads_of(self.estimator.n_jobs),
            weights=self.row_weights,
        )

    @property
    def row_weights(self) -> Matrix:
        """Return the weights (n,) of inputs in the fit, which are seen in what the ridge adds to the diagonal."""
        weights = 1 / self.model.penalty
        return weights / weights.sum()

    def terms(self, inputs: Matrix, pairs: Pairs, *, others: bool = True) -> Terms:
        """Return the terms of inputs (k, d), in units of what is learnt."""
        return self.decomposition.at(inputs, pairs, others=others)

    @cached_property
    def _variances(self) -> Variances:
        return variances_of_terms(self.decomposition, self.model.inputs, self.row_weights)

    def _important_pairs(self, most: int) -> list[tuple[int, int]]:
        """Return the pairs of columns that are seen, of the largest variance first."""
        made = self.decomposition
        if not made.pair or not most:
            return []
        left, right = np.triu_indices(len(made.columns), 1)
        order = np.argsort(-self._variances.pairs[left, right], kind="stable")[:most]
        return list(zip(left[order].tolist(), right[order].tolist(), strict=True))

    def _has_others(self, pairs: Pairs) -> bool:
        made = self.decomposition
        return bool(made.pair) and len(pairs) < len(made.columns) * (len(made.columns) - 1) // 2

    def _term_names(self, pairs: Pairs) -> tuple[str, ...]:
        names, columns = column_names(self.estimator), self.decomposition.columns
        both = pair_names(names, [(columns[a], columns[b]) for a, b in pairs])
        return (*names, *both, *([others_name(names)] if self._has_others(pairs) else []), rest_name(names))

    def _in_table(self, terms: Terms, pairs: Pairs) -> Matrix:
        """Return terms (k, terms, o) in the order of their names, those of columns that are not seen with zeros."""
        k, count = len(terms.rest), terms.rest.shape[1]
        mains = np.zeros((k, len(column_names(self.estimator)), count))
        mains[:, self.decomposition.columns] = terms.mains
        others = [terms.others[:, None]] if self._has_others(pairs) else []
        return np.concatenate([mains, terms.pairs, *others, terms.rest[:, None]], axis=1)

    def _standard_errors(self, inputs: Matrix, pairs: Pairs) -> Matrix:
        """Return standard errors (k, terms, o) of terms of inputs (k, d), in units of what is learnt."""
        against, known = self.knowledge()
        found = self.decomposition.variances(inputs, pairs, against=against, known=known)
        one = Terms(*(part[..., None] for part in found))
        return np.sqrt(self._in_table(one, pairs) * self.amplitude)

    def knowledge(self) -> tuple[Any, Any]:
        """Return ``against`` and ``known`` of ``Decomposition.variances``: inputs, and how much they tell."""
        made = self.decomposition
        if self.model.pivots is not None:
            about = self.model.variance(Cpu(threads_of(self.estimator.n_jobs)))
            assert about is not None
            return made.points(about.pivots), about.explained
        matrix = (
            Cpu(threads_of(self.estimator.n_jobs))
            .dense(self.model.kernel, np.asarray(self.model.inputs, np.float64))
            .dense()
        )
        lower = factor(matrix, added=self.model.penalty)
        if lower is None:
            raise InvalidInput(f"ridge={self.estimator.ridge_:g} is too small for deviations. Fit with a larger ridge.")
        return made.rows, lambda covariances: (lower.half_solve(covariances.T) ** 2).sum(axis=0)

    @cached_property
    def amplitude(self) -> Matrix:
        """Return the factor (outputs,) of the kernel under which the targets are most likely; NaN with centres.

        It is yᵀ (K + P)⁻¹ y / n, of which coefficients are known, and targets y = (K + P) alpha are recovered.
        """
        model, outputs = self.model, self.model.alpha.shape[1]
        if model.way != "exact":
            return np.full(outputs, np.nan)
        if getattr(self.estimator, "loss_", "squared_error") == "log_loss":
            return np.full(outputs, 1 / (model.ridge * model.kernel.diagonal))
        targets = self.estimator._outputs_of(model.inputs) + model.penalty[:, None] * model.alpha
        return np.asarray((model.alpha * targets).mean(axis=0))

    def _shaped(self, values: Matrix) -> Matrix:
        """Return values (k, terms) of a single output, or (k, terms, outputs)."""
        single = (
            self.estimator.single_target_
            if self.estimator._class_labels is None
            else values.shape[2] == 1 and not self.estimator.multilabel_
        )
        return values[..., 0] if single else values

    def output_names(self) -> list[str]:
        """Return the labels of the outputs, or their numbers."""
        labels, outputs = self.estimator._class_labels, self.model.alpha.shape[1]
        if labels is None or len(labels) != outputs:
            return [f"output {place}" for place in range(outputs)]
        return [say_label(one) for one in labels.tolist()]


def _as_table(X: Any) -> Any:
    """Return a table of one row if X is a row; a table has its rows in memory."""
    if hasattr(X, "to_frame") and not is_frame(X):  # a row of pandas
        return X.to_frame().T.infer_objects()
    if is_frame(X) or np.ndim(X) != 1:
        return in_memory(X)
    return np.asarray(X).reshape(1, -1)


def _cells(X: Any, names: Sequence[str], more: int) -> NDArray[Any]:
    """Return the cells (k, columns + more) of a table as they are, and NaN for columns that are made, and the rest."""
    if not is_frame(X):
        X = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
        kind: Any = np.float64 if X.dtype.kind in "fiub" else object
        return np.column_stack([X.astype(kind), np.full((len(X), more), np.nan, kind)])
    frame = Frame.of(X)
    columns = [frame[name].values for name in (names if set(names) <= set(frame.columns) else frame.columns)]
    kind = np.float64 if all(one.dtype.kind in "fiub" for one in columns) else object
    cells = np.full((len(frame), len(columns) + more), np.nan, kind)
    for place, one in enumerate(columns):
        cells[:, place] = one
    return cells
