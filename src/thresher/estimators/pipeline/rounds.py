"""Learning features on many rows: rounds of a metric, as many and with the power that rows held out prefer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput
from thresher.estimators.judging.holdout import HoldOut, Solved
from thresher.estimators.judging.search import Choice
from thresher.estimators.kernels.gradients import MILD
from thresher.estimators.kernels.kernel import SphereKernel
from thresher.estimators.options import Learning, Options, Plan
from thresher.estimators.pipeline.plans import STRONG, after_round

__all__ = ["Rounds"]

Matrix = NDArray[np.float64]
Search = Callable[..., Choice]  # the best bias and shift, with the metric of a kernel, on a small part of the rows
_STRONGEST = 0.5
_POWERS = MILD, STRONG, _STRONGEST  # of the metric
# Share of the error that a round must leave: much of an error is noise, but the rows held out are always the same, so
# that small gains are real. Rounds at most on the large part of the rows, and on the small one.
_A_ROUND, _ROUNDS, _FEW = 0.9995, 10, 5
_WORSE = 1.02  # times the least error: after such a round there is no other
_A_FIT = 0.85  # share of the learning that remains when one more metric has been tried
_SURELY = 0.9  # share of the error on few rows below which the strongest power is tried instead of the mild one
_CLOSE = 0.95  # share of the error without a metric above which that deserves its own bias and shift
_SOFT = 0.5  # times the identity that is added to a metric of few rows


class LearntMetric(NamedTuple):
    """A kernel with a metric, the fit with it, and the errors after each round that led there."""

    kernel: SphereKernel
    solved: Solved
    error: float  # by the measure that was asked for
    errors: list[float]
    rounds: int


class Rounds:
    """Fits of a small part of the rows and of a large one, with one metric after the other.

    Parameters
    ----------
    small, large : the parts: powers are compared on the first, the rounds of the best are repeated on the second
    options : what was asked for
    tell : called with the share that is done
    """

    def __init__(self, small: HoldOut, large: HoldOut, options: Options, tell: Callable[[float], object]) -> None:
        self._small, self._large, self._options, self._tell = small, large, options, tell
        self._fits = 0  # of the large part

    def learn(self, first: Choice, search: Search) -> tuple[Choice, Learning]:
        """Return the choice with the best metric, and the errors of what was tried.

        ``search(kernel, guess=, favourite=)`` returns the best bias and shift with the metric of a kernel. Powers are
        compared with the ``first`` bias and shift. Others are chosen with the best metric, whose rounds are then
        repeated on more rows, which bear a higher power.
        """
        small, large = self._small, self._large
        errors = dict[str, list[float]]()
        go = partial(self._rounds, small, first.kernel, first.ridge, solved=self.fit(small, first), rounds=_FEW)
        tracks = {STRONG: go(STRONG)}
        other = _STRONGEST if tracks[STRONG].error < _SURELY * tracks[STRONG].errors[0] else MILD
        tracks[other] = go(other)
        errors |= {_say(small, power): track.errors for power, track in tracks.items()}
        power = min(tracks, key=lambda one: (tracks[one].error, one))
        best = tracks[power]
        choice = search(best.kernel, guess=best.solved.ridge)
        if len(large.data) > len(small.data):
            # Without a metric of few rows, more rows begin as these did: what is best without one is not with one.
            plain = best.kernel.metric is None
            begin = first._replace(ridge=choice.ridge) if plain else choice
            more, power = self._more_rows(begin, best, power, errors)
            best, choice = self._or_plain(
                more, begin._replace(ridge=more.solved.ridge), choice if plain else None, search, errors
            )
        if best.kernel.metric is None:
            power = MILD
        kernel = choice.kernel._replace(metric=best.kernel.metric)
        return choice._replace(kernel=kernel), Learning(Plan(rounds=best.rounds, power=power), errors)

    def as_planned(self, plan: Plan, choice: Choice, search: Search) -> tuple[Choice, Learning]:
        """Return the same after as many rounds as were asked for, on as many rows as can be."""
        large = self._large
        best = self._rounds(large, choice.kernel, choice.ridge, plan.power, rounds=plan.rounds, all_of_them=True)
        choice = choice._replace(kernel=best.kernel, ridge=best.solved.ridge)
        if best.kernel.metric is not None or plan.columns:
            choice = search(best.kernel, guess=choice.ridge, favourite=choice.kernel)
        return choice, Learning(plan, {_say(large, plan.power): best.errors})

    def _more_rows(
        self, choice: Choice, best: LearntMetric, power: float, errors: dict[str, list[float]]
    ) -> tuple[LearntMetric, float]:
        """Go on from a softened metric on more rows, which bear a higher power."""
        large, metric = self._large, best.kernel.metric
        begin = choice.kernel._replace(metric=None if metric is None else _softened(metric))
        best = self._rounds(large, begin, choice.ridge, power, done=best.rounds)
        errors[_say(large, power)] = best.errors
        for higher in [one for one in _POWERS if one > power]:
            more = self._rounds(large, best.kernel, choice.ridge, higher, solved=best.solved, done=best.rounds)
            errors[_say(large, higher)] = more.errors
            if not more.error < _A_ROUND * best.error:
                break
            best, power = more, higher
        return best, power

    def _or_plain(
        self, best: LearntMetric, choice: Choice, other: Choice | None, search: Search, errors: dict[str, list[float]]
    ) -> tuple[LearntMetric, Choice]:
        """Return the metric if it is surely better than none on many rows, else none: few rows overrate what is learnt.

        ``other`` is the best choice without a metric; if it is None, it is made where the two are close.
        """
        large, bare = self._large, _without(choice)
        plain = self.fit(large, bare if other is None else other)
        if other is None and plain is not None and best.error > _CLOSE * large.measured(plain):
            other = search(bare.kernel, guess=plain.ridge)
            if other.kernel != bare.kernel:
                again = self.fit(large, other._replace(ridge=plain.ridge))
                plain = again if again is not None and again.error < plain.error else plain
                other = other if again is plain else bare
        other = bare if other is None else other
        if plain is not None:
            errors[_say(large, 0)] = [large.measured(plain)]
            if best.kernel.metric is None or not large.surely_better(best.solved, plain):
                error = large.measured(plain)
                return LearntMetric(other.kernel, plain, error, [error], 0), other._replace(ridge=plain.ridge)
        return best, choice

    def _rounds(
        self,
        hold: HoldOut,
        kernel: SphereKernel,
        ridge: float,
        power: float,
        *,
        solved: Solved | None = None,
        rounds: int = _ROUNDS,
        done: int = 0,
        all_of_them: bool = False,
    ) -> LearntMetric:
        """Return the best metric of some rounds, or the last if all of them were asked for."""
        fit = partial(self._fit, hold)
        solved = fit(kernel, ridge) if solved is None else solved
        if solved is None:
            raise InvalidInput(f"the kernel of these rows is not positive with ridge={ridge:g}. Use a larger one.")
        errors = [hold.measured(solved)]
        best, idle = LearntMetric(kernel, solved, errors[0], errors, done), 0
        for number in range(done + 1, done + 1 + rounds):
            inner = hold.outer_products(kernel, solved, most=self._options.sizes.gradients)
            kernel = after_round(inner, kernel, power)
            solved = fit(kernel, solved.ridge, start=solved)
            if solved is None:
                break
            error = hold.measured(solved)
            idle = 0 if error < _A_ROUND * min(errors) else idle + 1
            errors.append(error)
            if all_of_them or error < best.error:
                best = LearntMetric(kernel, solved, error, errors, number)
            if (idle == 2 or error > _WORSE * min(errors)) and not all_of_them:
                break
        return best

    def fit(self, hold: HoldOut, choice: Choice) -> Solved | None:
        """Return the fit of a part of the rows."""
        return self._fit(hold, choice.kernel, choice.ridge)

    def _fit(self, hold: HoldOut, kernel: SphereKernel, guess: float, start: Solved | None = None) -> Solved | None:
        """Return the fit of a part of the rows, and tell of those of the large one."""
        if hold is not self._small:
            self._fits += 1
            self._tell(1 - _A_FIT**self._fits)
        return hold.evaluate(kernel, ridge=self._options.ridge, guess=guess, start=start)


def _without(choice: Choice) -> Choice:
    """Return a choice without its metric."""
    return choice._replace(kernel=choice.kernel._replace(metric=None))


def _softened(metric: Matrix) -> Matrix:
    """Return a metric (d, d) that has lost no direction: few rows give up some that more rows would show to matter."""
    found = metric + _SOFT * np.eye(len(metric))
    return found * np.sqrt(len(metric) / (found**2).sum())


def _say(hold: HoldOut, power: float) -> str:
    return f"{len(hold.data):,} rows, metric to the power {power:g}"
