"""Rows that come later: a fit of few rows takes them in, with all that it chose, as if they had been there."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if

from thresher.errors import InvalidInput, Outgrown
from thresher.estimators.backends.processor import Cpu
from thresher.estimators.data.encoder import TableEncoder
from thresher.estimators.data.lift import check_weights
from thresher.estimators.data.observations import Observations
from thresher.estimators.data.rows import new_rows
from thresher.estimators.judging.leave_one_out import LeaveOneOut, LeaveOneOutFit, leave_one_out
from thresher.estimators.judging.search import Choice, search
from thresher.estimators.kernels.kernel import SphereKernel
from thresher.estimators.models.fit_check import DOUBLE, Asked, check_answers
from thresher.estimators.models.fitted import Fitted, LeftOut
from thresher.estimators.models.growing import GrowingKernel, join_rows
from thresher.estimators.parameters import LOSSES, threads_of

__all__ = ["AddsRows", "Learnt", "describe_learnt", "learnt_of", "restore_learnt", "takes_rows"]

Matrix = NDArray[np.float64]
_CELLS = ("row", "target", "unit", "count")  # of observations, in files
_SURE, _WORSE = 3.0, 1.5  # standard errors, and times the error of rows left out, by which that of new rows is larger
_GROWN = 1.25  # times the observations at the last look from which choices are looked at again
_BETTER = 0.95  # share of the error with the choices of the fit that others must stay below
_SOLVED = 1e-6  # what a factor in double precision may leave of the targets


class Learnt(NamedTuple):
    """What a fit of few rows keeps for those that come later."""

    data: Observations  # at its inputs (n, d)
    optimism: float  # see LeftOut
    looked: float  # observations when choices were last looked at


def learnt_of(fitted: Fitted) -> Learnt | None:
    """Return what later rows need of a fit; None of one of many rows, and of networks."""
    data = fitted.limit.observed
    if data is None or fitted.networks is not None:
        return None
    return Learnt(data, fitted.left_out.optimism, float(data.count.sum()))


def describe_learnt(learnt: Learnt | None) -> dict[str, NDArray[Any]]:
    """Return the observations as arrays of a file; none without them."""
    data = None if learnt is None else learnt.data
    return {} if data is None else {f"learnt.{name}": np.asarray(getattr(data, name)) for name in _CELLS}


def restore_learnt(tensors: Mapping[str, NDArray[Any]], told: Any, estimator: Any) -> Learnt | None:
    """Return what a file holds for later rows, checked; None if it holds nothing."""
    if told is None:
        return None
    cells = {name: tensors[f"learnt.{name}"] for name in _CELLS}
    optimism, looked = map(float, told)
    row, count, n = cells["row"], len(cells["row"]), len(estimator.inputs_)
    shapes = {name: one.shape for name, one in cells.items()}
    fits = shapes == {"row": (count,), "target": (count, len(estimator.gains_)), "unit": (count,), "count": (count,)}
    if not fits or row.dtype.kind != "i" or np.unique(row).tolist() != list(range(n)):
        raise ValueError("its observations do not fit its rows")
    if not all(np.isfinite(one).all() for one in cells.values()) or not (cells["unit"] * cells["count"] > 0).all():
        raise ValueError("its observations are not valid")
    if not (math.isfinite(optimism) and optimism > 0 and math.isfinite(looked)):
        raise ValueError("what it says of its choices is not valid")
    return Learnt(Observations(estimator.inputs_, **cells), optimism, looked)


def _unknown(encoder: TableEncoder | None, X: Any) -> list[str]:
    """Return, in words, in which columns a table has what no training row had."""
    found = {} if encoder is None else encoder.unseen(X)
    return [f"{count:,} rows of column {str(name)[:40]!r} have {encoder.kinds_[name].strange}"
            for name, count in found.items() if encoder and count]  # fmt: skip


def takes_rows(estimator: Any) -> bool:
    """Return whether an estimator with these parameters has ``partial_fit``; raise AttributeError if it has not."""
    if estimator.width not in ("auto", math.inf) or (estimator.ridge != "auto" and estimator.ridge == 0):
        raise AttributeError(
            f"partial_fit is for the limit of infinite width with a ridge; got width={estimator.width!r}, "
            f"ridge={estimator.ridge!r}. Leave both out, or fit all rows together."
        )
    if getattr(estimator, "loss", "squared") in LOSSES[1:-1]:
        raise AttributeError(f"partial_fit is for fits by squares; got loss={estimator.loss!r}. Fit all rows together.")
    return True


class AddsRows:
    """What estimators need for :meth:`partial_fit`."""

    _learnt: Learnt | None = None  # None where rows are many, or networks were trained

    @available_if(takes_rows)  # type: ignore[untyped-decorator]
    def partial_fit(self: Any, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Take in rows X (k, d) that come later, with targets y (k,) or (k, outputs), as if they had been there.

        The first call fits; later ones keep all that was chosen then: scale, features, parts, bias, shift, ridge, how
        cells become numbers, and the mean and unit of the targets. With these choices the result is that of a fit of
        all rows. Error bars and probabilities are judged again on all rows left out. For the limit of infinite width
        and up to 4,096 distinct rows; refused rows change nothing. A weight of 1 is that of an earlier observation on
        average. Warns (:class:`Outgrown`) where new rows were predicted far worse than earlier ones left out, or, as
        rows become more, where another bias, shift or ridge has become clearly better: then fit all rows together.

        Cost: O(n²k) for k rows beside n; O(n³) the first time, after loading, and where rows repeat earlier ones.
        """
        if not hasattr(self, "results_"):
            return self.fit(X, y, sample_weight)
        self._add(X, y, sample_weight)
        return self

    def _add(self: Any, X: Any, y: Any, sample_weight: Any) -> None:
        """Take in rows, targets and weights; nothing changes if they are refused."""
        learnt: Learnt = self._check_adding()
        rows = new_rows(self, X)
        targets, unit = self._targets_to_learn(y, learnt.data)
        if len(rows) != len(targets):
            raise InvalidInput(f"X has {len(rows):,} rows and y {len(targets):,}; expected a target for each row.")
        weights = check_weights(sample_weight, rows)
        weights = np.ones(len(rows)) if weights is None else weights
        kept = weights > 0
        inputs, targets, weights, unit = self.lift_.transform(rows[kept]), targets[kept], weights[kept], unit[kept]
        number = weights if (weights == np.rint(weights)).all() else np.ones(len(weights))
        data, new = join_rows(learnt.data, inputs, targets, number, unit * weights / number)
        most = self._sizes.one_by_one
        if len(data) > most:
            raise InvalidInput(
                f"the model has {len(self.inputs_):,} distinct rows, with these {len(data):,}; partial_fit is for "
                f"up to {most:,}. Fit all rows together."
            )
        _, fit = self._grown(learnt.data, learnt.data, learnt.data.X[:0])
        earlier = _left_out_squares(learnt.data, fit)
        before = ((self._answers_of_squares(inputs, fit) - targets) ** 2).sum(axis=1)
        grown, fit = self._grown(learnt.data, data, new)
        self._adopt_grown(grown, fit, learnt._replace(data=data))
        self._say_outgrown(before, weights, earlier, _unknown(self.encoder_, X))

    def _check_adding(self: Any) -> Learnt:
        if self.results_ or self.ridge_ == 0:
            raise InvalidInput(
                "partial_fit is for the limit of infinite width; this model is of trained networks. Fit all rows "
                "together, or fit with width=float('inf')."
            )
        if getattr(self, "loss_", "") in LOSSES[1:-1]:
            raise InvalidInput(
                f"partial_fit is for fits by squares; this one has loss={self.loss_!r}. Fit all rows together."
            )
        if self._learnt is None:
            raise InvalidInput(
                f"partial_fit is for up to {self._sizes.one_by_one:,} distinct rows, fitted exactly; this model has "
                "more, or is of a file that an earlier version wrote. Fit all rows together, with refit for a part of "
                "the time."
            )
        return self._learnt

    def _grown(self: Any, old: Observations, data: Observations, new: Matrix) -> tuple[GrowingKernel, LeaveOneOutFit]:
        """Return the factor with new inputs (k, d), and the fit to all observations; refuse what is not positive.

        The factor grows; where rows that were there already weigh more now, and after loading, it is made anew.
        """
        kernel, ridge = self._kernel, float(self.ridge_)
        penalty, n = kernel.penalty(ridge, data.weights), len(old)
        make = partial(GrowingKernel.of, kernel=kernel, backend=Cpu(threads_of(self.n_jobs)))
        grown = None
        if np.array_equal(penalty[:n], self.penalty_):
            known = self._kept("factor", lambda: make(old.X, self.penalty_))
            grown = None if known is None else known.grown(new, penalty[n:])
        leave = partial(leave_one_out, data=data, ridge=ridge, diagonal=kernel.diagonal, last=len(data))
        fit = None if grown is None else leave(grown)
        if fit is None:  # made anew
            grown = make(data.X, penalty)
            fit = None if grown is None else leave(grown)
        if grown is None or fit is None:
            raise InvalidInput(
                f"with these rows the kernel is not positive with shift={kernel.shift:g}, ridge={ridge:g}. Fit all "
                "rows together, which chooses both again."
            )
        return grown, fit

    def _adopt_grown(self: Any, grown: GrowingKernel, fit: LeaveOneOutFit, learnt: Learnt) -> None:
        """Take over the fit of all rows, after a check: the model's own products give what the solve promises."""
        data, kernel = learnt.data, self._kernel
        some = data.last(self._sizes.left_out)
        answers = Cpu(threads_of(self.n_jobs)).product(kernel, some.X, data.X, fit.alpha, double=True)
        rounding = DOUBLE * float(np.linalg.norm(fit.alpha)) / math.sqrt(len(data))
        left_out = fit.left_out(data)
        shown = left_out[data.row >= len(data) - len(some)]
        check = check_answers(Asked(some.X, some, shown, fit.outputs[-len(some) :], _SOLVED, rounding), answers)
        if check.failure:
            raise InvalidInput(
                f"the fit with these rows does not agree with itself on {check.rows:,} rows: {check.failure}. Fit all "
                "rows together, with a larger ridge."
            )
        self.inputs_, self.alpha_, self.penalty_ = data.X, fit.alpha, grown.penalty
        self.loo_error_, self.fit_check_, self._learnt = fit.error, check, learnt
        self.double_precision_ = self.double_precision_ or len(data) <= self._sizes.double
        self._forget_effects()
        self._judge_left_out(LeftOut(data, left_out, lambda: fit.left_out_variance(data), learnt.optimism))
        self._kept("factor", lambda: grown)

    def _answers_of_squares(self: Any, inputs: Matrix, fit: LeaveOneOutFit) -> Matrix:
        """Return what the fit by squares so far says of inputs (k, d): the model's outputs, unless these are others."""
        if getattr(self, "loss_", "squared") == "squared":
            return np.asarray(self._outputs_of(inputs))
        threads = threads_of(self.n_jobs)
        return Cpu(threads).product(self._kernel, inputs, self._learnt.data.X, fit.alpha, double=True)

    def _say_outgrown(
        self: Any, before: Matrix, weights: Matrix, earlier: tuple[float, float], said: list[str]
    ) -> None:
        """Warn of what is said already, and where new rows, or all rows, are not as those the choices were made for."""
        mean, spread = earlier
        error = float(np.average(before, weights=weights))
        doubt = math.sqrt(spread * (1 / len(before) + 1 / max(len(self._learnt.data) - len(before), 1)))
        if error > max(mean + _SURE * doubt, _WORSE * mean):
            said.append(
                f"before they were taken in, {len(before):,} new rows had a squared error {error / mean:.3g} times "
                "that of earlier rows left out"
            )
        number = float(self._learnt.data.count.sum())
        if number >= _GROWN * self._learnt.looked:
            found = self._look_again()
            self._learnt = self._learnt._replace(looked=number)
            if found:
                said.append(found)
        if said:
            warnings.warn(
                f"The choices of the fit no longer suit: {'; '.join(said)}. Fit all rows together.",
                Outgrown,
                stacklevel=4,
            )

    def _look_again(self: Any) -> str:
        """Return, in words, which bias, shift or ridge is clearly better than that of the fit; empty if none is.

        On some of the rows, with the scale and the features that were chosen: choices that were asked for stay.
        """
        kernel = self._kernel
        data = self._learnt.data.some(self._rows)
        if kernel.bias:
            vectors, angles = kernel.split(data.X)
            data = data.with_rows(np.hstack([vectors[:, :-1] * (self.lift_.last_ / vectors[:, -1:]), angles]))
        judge = LeaveOneOut(data, Cpu(threads_of(self.n_jobs)))
        now = judge.evaluate(kernel, ridge=float(self.ridge_))
        best = self._searched(judge, kernel)
        if now is not None and not best.error < _BETTER * now.error:
            return ""
        bias, shift = best.kernel.bias, best.kernel.shift
        return (
            f"on rows left out, bias {bias:g}, shift {shift:g} and ridge {best.ridge:g} have "
            + (
                "an error where those of the fit have none"
                if now is None
                else f"{best.error / now.error:.0%} of the error"
            )
            + f" of {kernel.bias:g}, {kernel.shift:g} and {self.ridge_:g}" * (now is not None)
        )

    def _searched(self: Any, judge: LeaveOneOut, kernel: SphereKernel) -> Choice:
        asked = self._options(judge.data)
        biases = asked.tried_biases if kernel.bias else [0.0]
        return search(
            judge, kernel, biases=biases, shifts=asked.tried_shifts, ridge=asked.ridge, guess=float(self.ridge_),
            favourite=kernel,
        )  # fmt: skip


def _left_out_squares(data: Observations, fit: LeaveOneOutFit) -> tuple[float, float]:
    """Return mean and variance of squared errors of the observations of a fit, each left out."""
    squares = ((fit.left_out(data) - data.target) ** 2).sum(axis=1)
    mean = float(np.average(squares, weights=data.weight))
    return mean, float(np.average((squares - mean) ** 2, weights=data.weight))
