"""Fitting other rows with what an earlier fit of many rows chose."""

from __future__ import annotations

from typing import Any, Self

from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from thresher.estimators.models.fitted import Fitted
from thresher.estimators.options import Taken
from thresher.estimators.parameters import asked_of
from thresher.estimators.sizes import Sizes

__all__ = ["Refits"]


class Refits:
    """What estimators need for :meth:`refit`."""

    approximation: str
    encoder_: Any
    n_features_in_: int
    fit: Any
    _sizes: Sizes
    _taken: Taken | None = None  # what the last fit chose, if there were many rows
    _like: Taken | None = None  # what this fit takes over
    _again: Taken  # what a fit of the same rows to other targets takes over from the last one

    def refit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit other rows, such as the same and more, with what the last fit chose: a part of the time of a new fit.

        X (n, d), y (n,) or (n, k) and sample_weight (n,) are as in :meth:`fit`. Scale, features, parts, bias, shift,
        ridge, the way to fit, and whether logarithms are learnt and whole numbers are categories are taken over. All is
        chosen anew where that fit or this one has few rows (up to 4,096) or another way to fit is due, as for many
        times the rows, where columns became others (a new category) or parameters were set to others, and after loading
        from a file.

        Cost: that of the last part of :meth:`fit`, O(n²) per step and output.
        """
        check_is_fitted(self, "results_")
        self._like = self._taken
        try:
            return self.fit(X, y, sample_weight)
        finally:
            del self._like

    def _to_take(self, rows: int) -> Taken | None:
        """Return what a fit of so many rows takes over, if anything."""
        like = self._like
        if like is None or (like.asked, like.columns) != (asked_of(self), self._number_names()):
            return None
        suits = like.suits(rows, self._sizes, approximation=self.approximation)
        return like._replace(scaling=None, errors_of_parts={}) if suits else None

    def _number_names(self) -> tuple[str, ...]:
        """Return the names of the columns of numbers that rows become."""
        if self.encoder_ is not None:  # those that are made of others are chosen, and compared where they are made
            own = self.encoder_.sources_ < len(self.encoder_.kinds_)
            return tuple(self.encoder_.get_feature_names_out()[own].tolist())
        return tuple(map(str, getattr(self, "feature_names_in_", range(self.n_features_in_))))

    def _choices(self, fitted: Fitted, rows: int) -> Taken:
        """Return what a fit of other rows may take over from one of so many."""
        lift = fitted.lift
        return Taken(
            asked=asked_of(self),
            columns=self._number_names(),
            scale=lift.scale,
            indicators=lift.indicators_,
            coordinates=fitted.coordinates,
            choice=fitted.choice._replace(ridge=fitted.limit.ridge),
            learning=fitted.learning,
            way=fitted.limit.way,
            rows=rows,
            made=() if self.encoder_ is None else tuple(one.recipe for one in self.encoder_.made_),
            scaling=lift.scaling_,
            errors_of_parts=fitted.errors_of_parts,
        )
