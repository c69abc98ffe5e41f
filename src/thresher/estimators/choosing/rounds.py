"""Rounds that learn a metric from the gradients of fits to many rows; rows left out say how many, and which power."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput
from thresher.estimators.choosing.choose import Choice
from thresher.estimators.choosing.columns import learn_columns
from thresher.estimators.choosing.features import COLUMNS, MILD, STRONG, Learning, Plan, next_metric
from thresher.estimators.choosing.holdout import HoldOut, Solved
from thresher.estimators.choosing.scales import Options
from thresher.estimators.files.journal import Journal
from thresher.estimators.kernels.device import Device
from thresher.estimators.kernels.gradients import mix_outputs, outer_product, row_gradients

__all__ = ["Rounds"]

Matrix = NDArray[np.float64]
_GRADIENTS = 4096  # rows whose gradients make the metric
_STRONGEST = 0.5
_POWERS = MILD, STRONG, _STRONGEST  # of the metric
# Share of the error that a round must leave. Noise is most of many errors, and the rows left out are always the same:
# small gains are real. Rounds at most on many rows, and on few.
_A_ROUND, _ROUNDS, _FEW = 0.9995, 10, 5
_WORSE = 1.02  # times the least error: after such a round there is no other
_A_FIT = 0.85  # share of the learning that remains when one more metric has been tried
_SURELY = 0.9  # share of the error on few rows below which the strongest power is tried instead of the mild one
_CLOSE = 0.95  # share of the error without a metric above which that deserves its own bias and shift
_SOFT = 0.5  # times the identity that is added to a metric of few rows
_WEIGHED = 512  # rows at most that weights of columns are learnt on


class Learnt(NamedTuple):
    """A metric, the fit with it, and the errors after each round that led there."""

    metric: Matrix | None
    solved: Solved
    errors: list[float]
    rounds: int

    @property
    def error(self) -> float:
        """The error of the fit."""
        return self.solved.error


class Rounds:
    """Fits of some rows and of more, one metric after the other.

    Parameters
    ----------
    small, large : rows on which powers are compared, and rows on which the rounds of the best are repeated
    options, device : what was asked for
    journal : keeps the fits of more rows
    tell : called with the share that is done
    """

    def __init__(
        self,
        small: HoldOut,
        large: HoldOut,
        options: Options,
        device: Device,
        journal: Journal,
        tell: Callable[[float], object],
    ) -> None:
        self._small, self._large, self.options, self._device = small, large, options, device
        self._journal, self._tell = journal, tell

    def learn(self, first: Choice, choose: Callable[..., Choice]) -> tuple[Matrix | None, Choice, Learning]:
        """Return the metric, the choice with it, and the errors of what was tried.

        ``choose`` returns the choice on some rows with a metric, from a guess of the ridge on and with a favourite.
        Powers are compared on these rows with the ``first`` bias and shift. Others are chosen with the best metric,
        whose rounds are then repeated on more rows, which bear a higher power.
        """
        plan, columns, small, large = self.options.plan, self._small.kept.X.shape[1], self._small, self._large
        if plan == Plan() or (plan is None and columns > COLUMNS) or columns == 1:
            return None, choose(None, guess=first.ridge), Learning(Plan(), {})
        if plan is not None:
            return self._as_planned(plan, choose(None, guess=first.ridge), choose)
        plain, errors = self.fit(small, None, first), dict[str, list[float]]()
        tracks = {STRONG: self._rounds(small, first, STRONG, solved=plain, rounds=_FEW)}
        other = _STRONGEST if tracks[STRONG].error < _SURELY * tracks[STRONG].errors[0] else MILD
        tracks[other] = self._rounds(small, first, other, solved=plain, rounds=_FEW)
        errors |= {_say(small, power): track.errors for power, track in tracks.items()}
        power = min(tracks, key=lambda one: (tracks[one].error, one))
        found = tracks[power]
        choice = choose(found.metric, guess=found.solved.ridge)
        if len(large.kept) > len(small.kept):
            # Without a metric of few rows, more rows begin as these did: what is best without one is not with one.
            begin = first._replace(ridge=choice.ridge) if found.metric is None else choice
            more, power = self._more_rows(large, begin, found, power, errors)
            without = choice if found.metric is None else None
            found, choice = self._or_plain(more, begin._replace(ridge=more.solved.ridge), without, choose, errors)
        if found.metric is None:
            power = MILD
        return found.metric, choice, Learning(Plan(rounds=found.rounds, power=power), errors)

    def _as_planned(
        self, plan: Plan, choice: Choice, choose: Callable[..., Choice]
    ) -> tuple[Matrix | None, Choice, Learning]:
        """Return the same after as many rounds as were asked for, on as many rows as can be."""
        large, metric = self._large, None
        if plan.columns:
            some = large.kept.at(np.arange(min(_WEIGHED, len(large.kept))))
            asked = {"bias": choice.bias, "shift": choice.shift, "ridge": choice.ridge}
            metric = np.diag(learn_columns(some, **asked, device=self._device).weights)
        found = self._rounds(large, choice, plan.power, metric=metric, rounds=plan.rounds, all_of_them=True)
        choice = choice._replace(ridge=found.solved.ridge)
        if found.metric is not None:
            choice = choose(found.metric, guess=choice.ridge, favourite=choice)
        return found.metric, choice, Learning(plan, {_say(large, plan.power): found.errors})

    def _more_rows(
        self, large: HoldOut, choice: Choice, found: Learnt, power: float, errors: dict[str, list[float]]
    ) -> tuple[Learnt, float]:
        """Go on from a softened metric on more rows, which bear a higher power."""
        begin = None if found.metric is None else _softened(found.metric)
        best = self._rounds(large, choice, power, metric=begin, done=found.rounds)
        errors[_say(large, power)] = best.errors
        for higher in [one for one in _POWERS if one > power]:
            more = self._rounds(large, choice, higher, metric=best.metric, solved=best.solved, done=best.rounds)
            errors[_say(large, higher)] = more.errors
            if not more.error < _A_ROUND * best.error:
                break
            best, power = more, higher
        return best, power

    def _or_plain(
        self,
        found: Learnt,
        choice: Choice,
        other: Choice | None,
        choose: Callable[..., Choice],
        errors: dict[str, list[float]],
    ) -> tuple[Learnt, Choice]:
        """Return the metric if it is surely better than none on many rows, else none: few rows overrate what is learnt.

        ``other`` is the best choice without a metric; if it is None, it is made where the two are close.
        """
        plain = self.fit(self._large, None, choice if other is None else other)
        if other is None and plain is not None and found.error > _CLOSE * plain.error:
            other = choose(None, guess=plain.ridge)
            if other[:2] != choice[:2]:
                again = self.fit(self._large, None, other)
                plain = again if again is not None and again.error < plain.error else plain
                other = other if again is plain else choice
        other = choice if other is None else other
        if plain is not None:
            errors[_say(self._large, 0)] = [plain.error]
            if found.metric is None or not self._large.surely_better(found.solved, plain):
                return Learnt(None, plain, [plain.error], 0), other._replace(ridge=plain.ridge)
        return found, choice

    def _rounds(
        self,
        hold: HoldOut,
        choice: Choice,
        power: float,
        *,
        metric: Matrix | None = None,
        solved: Solved | None = None,
        rounds: int = _ROUNDS,
        done: int = 0,
        all_of_them: bool = False,
    ) -> Learnt:
        """Return the best metric of some rounds, or the last if all of them were asked for."""
        solved = self.fit(hold, metric, choice) if solved is None else solved
        if solved is None:
            raise InvalidInput(
                f"the kernel of these rows is not positive with ridge={choice.ridge:g}. Use a larger one."
            )
        best, idle = Learnt(metric, solved, [solved.error], done), 0
        errors = best.errors
        for number in range(done + 1, done + 1 + rounds):
            before = np.eye(hold.kept.X.shape[1]) if metric is None else metric
            gradients = self._gradients(hold, metric, solved, choice)
            outer = outer_product(gradients, weights=hold.kept.weights[:_GRADIENTS], metric=before)
            metric = next_metric(outer, metric=before, power=power)
            solved = self.fit(hold, metric, choice._replace(ridge=solved.ridge), begun=solved)
            if solved is None:
                break
            idle = 0 if solved.error < _A_ROUND * min(errors) else idle + 1
            errors.append(solved.error)
            if all_of_them or solved.error < best.error:
                best = Learnt(metric, solved, errors, number)
            if (idle == 2 or solved.error > _WORSE * min(errors)) and not all_of_them:
                break
        return best

    def fit(self, hold: HoldOut, metric: Matrix | None, choice: Choice, begun: Solved | None = None) -> Solved | None:
        """Return the fit of some rows, that of more rows by way of the journal."""
        bias, shift, ridge = choice.bias, choice.shift, choice.ridge
        fit = partial(hold.fit, metric, bias=bias, shift=shift, ridge=self.options.ridge, guess=ridge, begun=begun)
        if hold is self._small:
            return fit()
        self._tell(1 - _A_FIT ** (self._journal.place + 1))
        return self._journal.step(lambda begun: fit())

    def _gradients(self, hold: HoldOut, metric: Matrix | None, solved: Solved, choice: Choice) -> Iterator[Matrix]:
        """Return for each output the gradients (k, r) by rows after the metric, at some rows that were fitted."""
        inputs, _, norms = hold.lifted(metric, choice.bias)
        some = inputs[:_GRADIENTS]
        found = self._device.gradients(some, inputs, mix_outputs(solved.alpha), choice.shift)
        exact, columns = some.astype(np.float64), hold.kept.X.shape[1]
        return row_gradients(iter(found), inputs=exact, norms=norms[:_GRADIENTS], columns=columns)

    def importances(self, metric: Matrix | None, choice: Choice, solved: Solved | None) -> Matrix:
        """Return the mean square of the gradient by each scaled column (d,), as a share of the sum of all.

        ``solved`` is the fit of some rows with this metric.
        """
        hold, d = self._small, self._small.kept.X.shape[1]
        squares = np.zeros(d)
        for one in [] if solved is None else self._gradients(hold, metric, solved, choice):
            by_column = one if metric is None else one @ metric.T
            squares += hold.kept.weights[:_GRADIENTS] @ by_column**2
        return squares / squares.sum() if squares.sum() > 0 else np.full(d, 1 / d)


def _softened(metric: Matrix) -> Matrix:
    """Return a metric (d, d) that has lost no direction: few rows give up some that more rows would show to matter."""
    found = metric + _SOFT * np.eye(len(metric))
    return found * np.sqrt(len(metric) / (found**2).sum())


def _say(hold: HoldOut, power: float) -> str:
    return f"{len(hold.kept):,} rows, metric to the power {power:g}"
