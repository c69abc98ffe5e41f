"""Learning features on few rows: how much of it helps, by cross-validation that repeats all of the learning.

*Column weights* come from the marginal likelihood (``columns.py``). A *round* multiplies rows by a metric R and
trains; the mean of g gᵀ over the training rows, with g the gradient of an output by the row, is the averaged gradient
outer product M (the idea of recursive feature machines). The next metric is a power of M. M^(1/2) is the usual choice
and goes too far on most data sets; so a mild and a strong power are tried. Leave-one-out would be optimistic: the
metric was learnt on what is left out.

The gradients are those of the network's limit of infinite width. Those of a trained network converge to them, but
are too noisy at practical widths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.estimators.data.observations import Observations
from thresher.estimators.interfaces import Backend, Measure
from thresher.estimators.judging.leave_one_out import solve_kernel
from thresher.estimators.judging.measures import mean_square
from thresher.estimators.judging.search import Choice
from thresher.estimators.kernels.gradients import next_metric
from thresher.estimators.kernels.kernel import Coordinates, SphereKernel, basis_of
from thresher.estimators.options import Learning, Options, Plan
from thresher.estimators.pipeline.columns import FEWER_STEPS, learn_columns

__all__ = ["STRONG", "after_round", "choose_plan", "learn", "spanned"]

Matrix = NDArray[np.float64]
MOST_ROUNDS = 5
STRONG = 0.4  # power of the metric; a mild one is that of a plan that says nothing else
_FOLDS = 4
_A_ROUND = 0.99  # rounds are tried, and kept, if they leave at most this share of the error
# Column weights are used if they leave at most this share of the error without them: judged on some of the rows, which
# overrate them, and on all.
_CLEARLY = 0.95, 0.98
_DOUBT = 0.08  # column weights are given up if k folds put them behind by a k-th of this share of the whole error
_WORTH = 0.92  # the strong power is tried if one round of the mild one brings the error down to this share


def choose_plan(
    data: Observations,
    kernel: SphereKernel,
    *,
    ridge: float | None,
    guess: float,
    columns: bool,
    backend: Backend,
    whole: bool = True,
    measure: Measure = mean_square,
) -> Learning:
    """Return the plan of the lowest cross-validated error, with all of the learning repeated in each fold.

    Rounds are tried while they clearly help, after the first with the power that did better in it. Column weights are
    tried only if ``columns`` allows them, and until a fold puts them behind plain columns; rounds with them only if
    they clearly help by themselves. These are all observations there are, or not the ``whole``. ``measure`` returns
    the error of outputs for observations that were held out.

    Cost: O(n³) for each fold, round and ridge tried.
    """
    errors = dict[Plan, list[float]]()

    def handicapped(plan: Plan, error: float) -> float:
        return error / (_CLEARLY[whole] if plan.columns else 1.0)

    def best_of(plan: Plan) -> float:
        return handicapped(plan, errors[plan][_worthwhile(errors[plan])])

    def attempt(plan: Plan, folds: _Folds) -> None:
        learning = folds.errors(plan.power)
        mine = errors[plan] = [next(learning)]
        if handicapped(plan, mine[0]) > errors[Plan()][0]:  # column weights that do not clearly help by themselves
            return
        for left in reversed(range(MOST_ROUNDS)):
            mine.append(next(learning))
            if len(mine) == 2 and mine[1] <= _WORTH * mine[0]:
                strong, other = plan._replace(power=STRONG), folds.errors(STRONG)
                errors[strong] = [next(other), next(other)]
                if errors[strong][1] < mine[1]:
                    learning, mine = other, errors[strong]
            if not mine[-1] < _A_ROUND * mine[-2]:
                return
            ahead = mine[-1] * (mine[-1] / mine[-2]) ** left
            if handicapped(plan, ahead) > min(map(best_of, errors)):  # it cannot become the best
                return

    plain = _Folds(data, kernel, ridge=ridge, measure=measure, backend=backend)
    plain.begin(guess)
    for mild, folds in {Plan(): plain, **(plain.weighed(guess) if columns else {})}.items():
        attempt(mild, folds)
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
        self, data: Observations, kernel: SphereKernel, *, ridge: float | None, measure: Measure, backend: Backend
    ) -> None:
        number = int(min(_FOLDS, max(2, data.count.sum())))
        self._folds, self._total = data.folds(number), float(data.weight.sum())
        self._kernels, self._ridge = [kernel._replace(metric=np.eye(data.X.shape[1]))] * number, ridge
        self._measure, self._backend = measure, backend
        self._begun = list[_Held]()

    def begin(self, guess: float) -> None:
        """Hold out every fold, before the first round."""
        self._begun = self._round(self._kernels, guess)

    def weighed(self, guess: float) -> dict[Plan, _Folds]:
        """Return these folds with learnt column weights, as they are and shrunk; none once both are behind these."""
        made = {Plan(True): copy(self), Plan(True, shrunk=True): copy(self)}
        for one in made.values():
            one._folds, one._kernels, one._begun = list(self._folds), list(self._kernels), []
        ridge = guess if self._ridge is None else self._ridge
        for fold, (kept, held) in enumerate(self._folds):
            kernel = self._kernels[fold]
            learnt = learn_columns(kept, kernel, ridge=ridge, backend=self._backend, steps=FEWER_STEPS)
            for plan, one in made.items():
                weights = learnt.shrunk().weights if plan.shrunk else learnt.weights
                one._folds[fold] = kept.with_rows(kept.X * weights), held.with_rows(held.X * weights)
                one._kernels[fold] = kernel._replace(bias=learnt.bias)
                known = one._begun[0].ridge if fold else self._ridge
                one._begun.append(one._hold_out(fold, one._kernels[fold], known, guess))
            before = sum(one.error for one in self._begun[: fold + 1])
            behind = min(sum(held.error for held in one._begun) for one in made.values()) - before
            if behind > _DOUBT / (fold + 1) * sum(one.error for one in self._begun):
                return {}
        return made

    def errors(self, power: float) -> Iterator[float]:
        """Yield the error on the held-out fold after 0, 1, ... rounds on the rest.

        If the ridge is to be chosen, it is found on the first fold, from the last one, and used for all: folds are
        alike.
        """
        held, kernels = self._begun, self._kernels
        while True:
            yield sum(one.error for one in held) / self._total
            kernels = [
                old if one.outer is None else after_round(one.outer(), old, power)
                for one, old in zip(held, kernels, strict=True)
            ]
            held = self._round(kernels, held[0].ridge)

    def _round(self, kernels: list[SphereKernel], guess: float) -> list[_Held]:
        first = self._hold_out(0, kernels[0], self._ridge, guess)
        others = range(1, len(kernels))
        return [first, *(self._hold_out(fold, kernels[fold], first.ridge, first.ridge) for fold in others)]

    def _hold_out(self, fold: int, kernel: SphereKernel, ridge: float | None, guess: float) -> _Held:
        kept, held = self._folds[fold]
        inputs, norms, last = kernel.lift(kept.X, kept.weights)
        asked, place = np.unique(held.row, return_inverse=True)
        others = kernel.lift(held.X[asked], last=last).inputs
        matrix = self._backend.dense(kernel, inputs, gradients=True)
        alpha, ridge = solve_kernel(matrix, kept, kernel, ridge=ridge, guess=guess)
        if alpha is None:
            return _Held(np.inf, ridge, None)
        outputs = self._backend.product(kernel, others, inputs, alpha, double=True)
        error = float(held.weight.sum()) * self._measure(held, outputs[place])
        scale, columns = kept.weights / norms**2, kept.X.shape[1]
        return _Held(error, ridge, cache(lambda: matrix.outer_products(alpha, scale=scale, columns=columns)))


def after_round(inner: Matrix, kernel: SphereKernel, power: float) -> SphereKernel:
    """Return the kernel after one more round, from the outer products (r, r) by coordinates after its metric."""
    metric = np.eye(len(inner)) if kernel.metric is None else kernel.metric
    return kernel._replace(metric=next_metric(metric @ inner @ metric.T, metric=metric, power=power))


def spanned(data: Observations, coordinates: Coordinates, *, most: int) -> tuple[Observations, Coordinates]:
    """Return observations at coordinates in a basis of their rows, if these are fewer than the columns."""
    basis = None if coordinates.basis is not None else basis_of(data.X, most=most)
    if basis is None:
        return data, coordinates
    return data.with_rows(data.X @ basis), coordinates._replace(basis=basis)


def learn(
    data: Observations,
    coordinates: Coordinates,
    choice: Choice,
    plan: Plan,
    options: Options,
    judged: Callable[[Observations, SphereKernel, float], Choice],
) -> tuple[Observations, Coordinates, Choice]:
    """Learn what a plan says, in a basis of the rows if that is smaller.

    Given and returned are observations at some coordinates, how these are made of scaled columns, and the choice there.
    ``judged`` returns the choice with the best ridge for observations at other coordinates, from a guess on.

    Cost: O(r³ + r²d) for each round on r rows.
    """
    sizes, backend = options.sizes, options.backend
    if plan.columns:
        learnt = learn_columns(data.some(sizes.weighed), choice.kernel, ridge=choice.ridge, backend=backend)
        learnt = learnt.shrunk() if plan.shrunk else learnt
        coordinates = coordinates._replace(weights=learnt.weights)
        data = data.with_rows(data.X * learnt.weights)
        bias = learnt.bias if options.bias is None else choice.kernel.bias
        choice = judged(data, choice.kernel._replace(bias=bias), learnt.ridge)
    data, coordinates = spanned(data, coordinates, most=sizes.spanned)
    choice = choice._replace(kernel=choice.kernel._replace(rest=coordinates.basis is not None))
    for left in reversed(range(plan.rounds)):
        some = data.some(sizes.learnt if left else sizes.learnt_last)
        inner = choice.kernel.outer_products(some, choice.ridge, backend)
        if inner is not None:  # else their kernel has no solution
            choice = judged(data, after_round(inner, choice.kernel, plan.power), choice.ridge)
    return data, coordinates, choice
