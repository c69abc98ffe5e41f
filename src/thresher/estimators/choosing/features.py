"""Learning which columns and directions of the inputs matter, and choosing how much of it helps.

*Column weights* come from the marginal likelihood (``columns.py``). A *round* multiplies rows by a metric R and
trains; the mean of g gᵀ over the training rows, with g the gradient of an output by the row, is the averaged gradient
outer product M (the idea of recursive feature machines). The next metric is a power of M. M^(1/2) is the usual choice
and goes too far on most data sets; so a mild and a strong power are tried. Cross-validation that repeats all of the
learning chooses between these plans.

The gradients are those of the network's limit of infinite width. Those of a trained network converge to them, but
are too noisy at practical widths.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from copy import copy
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.estimators.choosing.choose import Judge, fit_kernel, mean_square, solve_kernel
from thresher.estimators.choosing.columns import learn_columns
from thresher.estimators.data.lift import lift_rows, typical_norm
from thresher.estimators.data.observations import Observations
from thresher.estimators.kernels.device import Device

__all__ = ["Learning", "Plan", "choose_plan", "next_metric"]

Matrix = NDArray[np.float64]
COLUMNS = 512  # most columns for which features are learnt with "auto"
MOST_ROUNDS = 5
MILD, STRONG = 0.25, 0.4  # powers of the metric
_FOLDS = 4
_A_ROUND = 0.99  # rounds are tried, and kept, if they leave at most this share of the error
# Column weights are used if they leave at most this share of the error without them: judged on some of the rows, which
# overrate them, and on all.
_CLEARLY = 0.95, 0.98
_DOUBT = 0.08  # column weights are given up if k folds put them behind by a k-th of this share of the whole error
_WORTH = 0.9  # the strong power is tried if the mild one brings the error down to this share


class Plan(NamedTuple):
    """What is learnt: column weights, shrunk or not, or none; then this many rounds of the metric, with this power."""

    columns: bool = False
    rounds: int = 0
    power: float = MILD
    shrunk: bool = False

    @property
    def name(self) -> str:
        """What is learnt, in words, without the number of rounds."""
        columns = f"{'shrunk ' if self.shrunk else ''}columns, " if self.columns else ""
        return f"{columns}metric to the power {self.power:g}"


PLAIN = Plan().name


class Learning(NamedTuple):
    """The chosen plan, and for each plan tried its cross-validated errors after 0, 1, ... rounds."""

    plan: Plan
    errors: dict[str, list[float]]

    @property
    def error(self) -> float:
        """The error of the plan that was chosen."""
        return self.errors[self.plan.name][self.plan.rounds]

    def optimism(self, plain: float, learnt: float) -> float:
        """Return by how much held-out errors exceed leave-one-out errors where features were learnt, at least 1.

        The leave-one-out errors are those before and after the learning. Folds train on fewer rows than leaving one out
        does; that part is known from errors before the learning.
        """
        if self.plan == Plan() or not self.errors:
            return 1.0
        before, after = self.errors[PLAIN][0], self.error
        if not min(before, plain, learnt) > 0 or not math.isfinite(before * after):
            return 1.0
        return max(1.0, (after / learnt) / (before / plain))


def next_metric(outer: Matrix, *, metric: Matrix, power: float) -> Matrix:
    """Return the next metric (d, d): a power of the outer products (d, d), scaled so that its squares sum to d.

    If nothing depends on the inputs, the metric does not change. Cost: O(d³).
    """
    values, vectors = np.linalg.eigh(outer)
    if not values[-1] > 0:
        return metric
    powers = np.maximum(values / values[-1], 0.0) ** power
    found = (vectors * powers) @ vectors.T
    return found * np.sqrt(len(metric) / (found**2).sum())


def choose_plan(
    data: Observations,
    *,
    bias: float,
    shift: float,
    ridge: float | None,
    guess: float,
    columns: bool,
    whole: bool = True,
    judge: Judge = mean_square,
    device: Device,
) -> Learning:
    """Return the plan of the lowest cross-validated error, with all of the learning repeated in each fold.

    Leave-one-out would be optimistic: the metric was learnt on what is left out. Rounds are tried while they clearly
    help; column weights only if ``columns`` allows them, and until a fold puts them behind plain columns. These
    are all observations there are, or not the ``whole``. The limit kernel replaces the network; ``judge`` returns the
    error of outputs for observations that were held out.

    Cost: O(n³) for each fold, round and ridge tried.
    """
    errors = dict[Plan, list[float]]()

    def handicapped(plan: Plan, error: float) -> float:
        return error / (_CLEARLY[whole] if plan.columns else 1.0)

    def best_of(plan: Plan) -> float:
        return handicapped(plan, errors[plan][_worthwhile(errors[plan])])

    def attempt(plan: Plan, folds: _Folds) -> None:
        learning = folds.errors(plan.power)
        mine = errors[plan] = []
        for left in reversed(range(MOST_ROUNDS + 1)):
            error = next(learning)
            mine.append(error)
            if len(mine) > 1 and not error < _A_ROUND * mine[-2]:
                break
            ahead = error * (error / mine[-2]) ** left if len(mine) > 1 else 0.0
            if handicapped(plan, ahead) > min(map(best_of, errors)):  # it cannot become the best
                break

    plain = _Folds(data, bias=bias, shift=shift, ridge=ridge, judge=judge, device=device)
    plain.begin(guess)
    for mild, folds in {Plan(): plain, **(plain.weighed(guess) if columns else {})}.items():
        attempt(mild, folds)
        if min(errors[mild]) <= _WORTH * errors[mild][0]:
            attempt(mild._replace(power=STRONG), folds)
    best = min(errors, key=lambda plan: (best_of(plan), plan.columns))
    told = {one.name: values for one, values in errors.items()}
    return Learning(best._replace(rounds=_worthwhile(errors[best])), told)


def _worthwhile(errors: list[float]) -> int:
    """Return the number of rounds after which more gain too little, from the errors after 0, 1, ... rounds.

    Errors of folds are noisy, and the least of several is so by chance: fewer rounds are kept unless more leave at most
    the share of the error that makes a round worth trying.
    """
    best = 0
    for number, error in enumerate(errors):
        if error < _A_ROUND * errors[best]:
            best = number
    return best


class _Held(NamedTuple):
    """The error on observations held out, times their weight, the ridge of the fit to the others, outer products."""

    error: float
    ridge: float
    outer: Callable[[], Matrix] | None  # made if there is another round, and once


class _Folds:
    """Cross-validation that repeats the learning in every fold. What comes before the first round is made once."""

    def __init__(
        self, data: Observations, *, bias: float, shift: float, ridge: float | None, judge: Judge, device: Device
    ) -> None:
        number = int(min(_FOLDS, max(2, data.count.sum())))
        self._folds, self._total = data.folds(number), float(data.weight.sum())
        self._biases, self._shift, self._ridge = [bias] * number, shift, ridge
        self._judge, self._device = judge, device
        self._begun = list[_Held]()
        self._metrics = [np.eye(data.X.shape[1])] * number

    def begin(self, guess: float) -> None:
        """Hold out every fold, before the first round."""
        self._begun = self._round(self._metrics, guess)

    def weighed(self, guess: float) -> dict[Plan, _Folds]:
        """Return these folds with learnt column weights, as they are and shrunk; none once both are behind these."""
        made = {Plan(True): copy(self), Plan(True, shrunk=True): copy(self)}
        for found in made.values():
            found._folds, found._biases, found._begun = list(self._folds), list(self._biases), []
        ridge = guess if self._ridge is None else self._ridge
        for fold, (kept, held) in enumerate(self._folds):
            bias, device = self._biases[fold], self._device
            learnt = learn_columns(kept, bias=bias, shift=self._shift, ridge=ridge, device=device)
            for plan, found in made.items():
                weights = learnt.shrunk().weights if plan.shrunk else learnt.weights
                found._folds[fold] = kept.with_rows(kept.X * weights), held.with_rows(held.X * weights)
                found._biases[fold] = learnt.bias
                known = found._begun[0].ridge if fold else self._ridge
                found._begun.append(found._hold_out(fold, self._metrics[fold], known, guess))
            before = sum(one.error for one in self._begun[: fold + 1])
            behind = min(sum(one.error for one in found._begun) for found in made.values()) - before
            if behind > _DOUBT / (fold + 1) * sum(one.error for one in self._begun):
                return {}
        return made

    def errors(self, power: float) -> Iterator[float]:
        """Yield the error on the held-out fold after 0, 1, ... rounds on the rest.

        If the ridge is to be chosen, it is found on the first fold, from the last one, and used for all: folds are
        alike.
        """
        held, metrics = self._begun, self._metrics
        while True:
            yield sum(one.error for one in held) / self._total
            metrics = [
                old if one.outer is None else next_metric(one.outer(), metric=old, power=power)
                for one, old in zip(held, metrics, strict=True)
            ]
            held = self._round(metrics, held[0].ridge)

    def _round(self, metrics: list[Matrix], guess: float) -> list[_Held]:
        first = self._hold_out(0, metrics[0], self._ridge, guess)
        others = range(1, len(metrics))
        return [first, *(self._hold_out(fold, metrics[fold], first.ridge, first.ridge) for fold in others)]

    def _hold_out(self, fold: int, metric: Matrix, ridge: float | None, guess: float) -> _Held:
        kept, held = self._folds[fold]
        rows = kept.X @ metric
        last = self._biases[fold] * typical_norm(rows, kept.weights)
        inputs, norms = lift_rows(rows, last)
        asked, place = np.unique(held.row, return_inverse=True)
        others, _ = lift_rows(held.X[asked] @ metric, last)
        kernel = self._device.kernel(inputs, self._shift, gradients=True)
        if ridge is None:
            fit = fit_kernel(kernel, kept, shift=self._shift, ridge=None, guess=guess)
            alpha, ridge = (None, guess) if fit is None else (fit.alpha, fit.ridge)
        else:
            alpha = solve_kernel(kernel, kept, shift=self._shift, ridge=ridge)
        if alpha is None:
            return _Held(np.inf, ridge, None)
        outputs = self._device.exact_product(others, inputs, alpha, self._shift)
        error = float(held.weight.sum()) * self._judge(held, outputs[place])
        scale, columns = kept.weights / norms**2, len(metric)
        outer = cache(lambda: metric @ kernel.outer_products(alpha, scale=scale, columns=columns) @ metric.T)
        return _Held(error, ridge, outer)
