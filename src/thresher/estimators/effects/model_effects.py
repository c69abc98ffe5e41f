"""Effects of a fitted estimator: ``effects``, ``explain`` and ``effect_shares_``."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

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
from thresher.estimators.processor import Cpu
from thresher.estimators.settings import threads_of
from thresher.tables.frame import Frame, in_memory, is_frame, say_label

__all__ = ["WithEffects"]

Matrix = NDArray[np.float64]
Numbers = NDArray[np.int64]
_KEPT = "_effects"  # attribute with what was computed for effects
_HINT = (
    "this model sees all columns at once, so that it has no effects of columns: all of it is in the rest. Fit with "
    "parts='columns' or 'pairs' for a model that has them."
)


class WithEffects:
    """What a fitted model is made of; ``decomposition.py`` says how."""

    def effects(self: Any, X: Any, *, pairs: int = 10, return_std: bool = False) -> Effects:
        """Return what rows X (k, d) have in each term of the model; with the intercept they add up to the prediction.

        Terms are a main effect for each column of X, the effects of the most important ``pairs`` of columns, all other
        pairs together, and the rest: what neurons that see all columns, or a layer of columns, add. Main effects and
        the rest have the mean 0 over the training rows, weighted as in the fit; the effect of a pair has the mean 0
        over the training values of either of its columns. A column that became several numbers has one effect.

        They are effects on what is learnt: on logarithms where ``target_`` is ``"log"``, on scores of a classifier. The
        sum is exact but for rounding, which is that of single precision where predictions are.

        Standard errors (``return_std``) are those of the Gaussian process whose mean the model is: how far the effect
        may be from that of the function behind the targets. Where ``pivots_`` are there, they are made of these; with
        centres they are NaN.

        Training rows are ``inputs_``: with centres, these. Models without parts (see ``parts_``) have nothing but the
        rest, and a warning says so; models of leaves are refused.

        Cost: O(n) per row and column, O(n) per row and pair, the first time also that of ``effect_shares_`` if there
        are pairs; standard errors O(n³/3), and O(n²) per row and term.
        """
        check_is_fitted(self, "model_")
        most = check_whole(pairs, "pairs", least=0)
        if self.model_.lift.angles_ is None:
            warnings.warn(_HINT, UserWarning, stacklevel=2)
        chosen = self._important_pairs(most)
        inputs = self.model_.lift.transform(new_rows(self, X))
        mean, unit = self._target_frame()
        values = self._in_table(self._terms(inputs, chosen), chosen)
        std = self._shaped(self._standard_errors(inputs, chosen) * unit) if return_std else None
        return Effects(self._base() * unit + mean, self._term_names(chosen), self._shaped(values * unit), std)

    def explain(self: Any, X: Any) -> Explanation:
        """Return how the predictions of rows X (k, d), or of one row (d,), come about, column by column.

        Each column has its main effect and half of the effects of its pairs; the rest is a value of its own. Together
        with the base value they add up to the prediction, as :meth:`effects` do. ``waterfall()`` draws a row.

        Cost: O(n) per row and column, and that of a prediction.
        """
        made = self._decomposition()
        X = _as_table(X)
        inputs = self.model_.lift.transform(new_rows(self, X))
        mains, rest = made.halves(inputs)
        (mean, unit), names = self._target_frame(), column_names(self)
        values = np.zeros((len(inputs), len(names) + 1, rest.shape[1]))
        values[:, made.columns], values[:, -1] = mains, rest
        base = np.tile(self._base() * unit + mean, (len(inputs), 1))
        single = self._shaped(values[:1]).ndim == 2
        return Explanation(
            self._shaped(values * unit),
            base[:, 0] if single else base,
            _cells(X, names[: self.n_features_in_], len(names) - self.n_features_in_ + 1),
            [*names, rest_name(names)],
            self._output_names(),
        )

    @property
    def effect_shares_(self: Any) -> dict[str, float]:
        """The share of each term in what varies: its variance over training rows, the largest first; the sum is 1.

        Variances are over at most 1000 training rows, summed over outputs in units of the targets' deviations. For a
        pair the two columns are taken from different rows. Columns depend on each other, so that the sum of the
        variances is not the variance of the sum. The shares are computed when they are first asked for.
        """
        made, found, names = self._decomposition(), self._variances(), column_names(self)
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

    def _curves(self: Any, *, most: int, deviations: bool = True) -> list[dict[str, Any]]:
        """Return what pictures of the most important terms show; see :func:`curves_of`."""
        return curves_of(self, most=most, deviations=deviations)

    def __getstate__(self) -> Any:
        """Return what is pickled: not what can be computed again."""
        state: Any = super().__getstate__()
        return {name: value for name, value in state.items() if name != _KEPT}

    def _kept(self, name: str, make: Any) -> Any:
        """Return what was computed of this fit before, or compute it now."""
        found = self.__dict__.setdefault(_KEPT, {})
        if name not in found:
            found[name] = make()
        return found[name]

    def _forget_effects(self) -> None:
        self.__dict__.pop(_KEPT, None)

    def _decomposition(self: Any) -> Decomposition:
        check_is_fitted(self, "model_")
        if self.model_.leaves is not None:
            raise InvalidInput(
                "a model of leaves is a different sum in every leaf, so it has no effects. Fit with "
                "approximation='centres', or 'exact'."
            )
        return self._kept("made", self._make_decomposition)

    def _make_decomposition(self: Any) -> Decomposition:
        model = self.model_
        given = model.kernel, model.inputs, model.alpha
        more = {"double": model.double, "threads": threads_of(self.n_jobs), "weights": self._row_weights()}
        return Decomposition(*given, columns=unit_columns(self), **more)

    def _row_weights(self: Any) -> Matrix:
        """Return the weights (n,) of inputs in the fit, which are seen in what the ridge adds to the diagonal."""
        weights = 1 / self.model_.penalty
        return weights / weights.sum()

    def _terms(self: Any, inputs: Matrix, pairs: Pairs, *, others: bool = True) -> Terms:
        """Return the terms of inputs (k, d), in units of what is learnt."""
        return self._decomposition().at(inputs, pairs, others=others)

    def _base(self: Any) -> Matrix:
        """Return the intercept (outputs,) in units of what is learnt."""
        return self._decomposition().intercept

    def _variances(self: Any) -> Variances:
        def found() -> Variances:
            return variances_of_terms(self._decomposition(), self.model_.inputs, self._row_weights())

        return self._kept("variances", found)

    def _important_pairs(self: Any, most: int) -> list[tuple[int, int]]:
        """Return the pairs of columns that are seen, of the largest variance first."""
        made = self._decomposition()
        if not made.pair or not most:
            return []
        left, right = np.triu_indices(len(made.columns), 1)
        order = np.argsort(-self._variances().pairs[left, right], kind="stable")[:most]
        return list(zip(left[order].tolist(), right[order].tolist(), strict=True))

    def _has_others(self: Any, pairs: Pairs) -> bool:
        made = self._decomposition()
        return bool(made.pair) and len(pairs) < len(made.columns) * (len(made.columns) - 1) // 2

    def _term_names(self: Any, pairs: Pairs) -> tuple[str, ...]:
        names, columns = column_names(self), self._decomposition().columns
        both = pair_names(names, [(columns[a], columns[b]) for a, b in pairs])
        return (*names, *both, *([others_name(names)] if self._has_others(pairs) else []), rest_name(names))

    def _in_table(self: Any, terms: Terms, pairs: Pairs) -> Matrix:
        """Return terms (k, terms, o) in the order of their names, those of columns that are not seen with zeros."""
        k, count = len(terms.rest), terms.rest.shape[1]
        mains = np.zeros((k, len(column_names(self)), count))
        mains[:, self._decomposition().columns] = terms.mains
        others = [terms.others[:, None]] if self._has_others(pairs) else []
        return np.concatenate([mains, terms.pairs, *others, terms.rest[:, None]], axis=1)

    def _standard_errors(self: Any, inputs: Matrix, pairs: Pairs) -> Matrix:
        """Return standard errors (k, terms, o) of terms of inputs (k, d), in units of what is learnt."""
        against, known = self._knowledge()
        found = self._decomposition().variances(inputs, pairs, against=against, known=known)
        one = Terms(*(part[..., None] for part in found))
        return np.sqrt(self._in_table(one, pairs) * self._kept("amplitude", self._amplitude))

    def _knowledge(self: Any) -> tuple[Any, Any]:
        """Return ``against`` and ``known`` of ``Decomposition.variances``: inputs, and how much they tell."""
        made = self._decomposition()
        if self.model_.pivots is not None:
            about = self.model_.variance(Cpu(threads_of(self.n_jobs)))
            assert about is not None
            return made.points(about.pivots), about.explained
        matrix = (
            Cpu(threads_of(self.n_jobs)).dense(self.model_.kernel, np.asarray(self.model_.inputs, np.float64)).dense()
        )
        lower = factor(matrix, added=self.model_.penalty)
        if lower is None:
            raise InvalidInput(f"ridge={self.ridge_:g} is too small for deviations. Fit with a larger ridge.")
        return made.rows, lambda covariances: (lower.half_solve(covariances.T) ** 2).sum(axis=0)

    def _amplitude(self: Any) -> Matrix:
        """Return the factor (outputs,) of the kernel under which the targets are most likely; NaN with centres.

        It is yᵀ (K + P)⁻¹ y / n, of which coefficients are known, and targets y = (K + P) alpha are recovered.
        """
        model, outputs = self.model_, self.model_.alpha.shape[1]
        if model.way != "exact":
            return np.full(outputs, np.nan)
        if getattr(self, "loss_", "squared_error") == "log_loss":
            return np.full(outputs, 1 / (model.ridge * model.kernel.diagonal))
        targets = self._outputs_of(model.inputs) + model.penalty[:, None] * model.alpha
        return np.asarray((model.alpha * targets).mean(axis=0))

    def _shaped(self: Any, values: Matrix) -> Matrix:
        """Return values (k, terms) of a single output, or (k, terms, outputs)."""
        single = self.single_target_ if self._class_labels is None else values.shape[2] == 1 and not self.multilabel_
        return values[..., 0] if single else values

    def _output_names(self: Any) -> list[str]:
        labels, outputs = self._class_labels, self.model_.alpha.shape[1]
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
