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

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.estimators.choose import Judge, fit_kernel, mean_square, solve_kernel
from thresher.estimators.columns import learn_columns
from thresher.estimators.lift import lift_rows, typical_norm
from thresher.estimators.observations import Observations
from thresher.theory import cofiring_slope, limit_kernel

__all__ = [
    "Learning",
    "Plan",
    "choose_plan",
    "limit_gradients",
    "mix_outputs",
    "next_metric",
    "outer_product",
    "row_gradients",
]

Matrix = NDArray[np.float64]
COLUMNS = 512  # most columns for which features are learnt with "auto"
MOST_ROUNDS = 5
MILD, STRONG = 0.25, 0.4  # powers of the metric
_FOLDS = 4
_OUTPUTS = 16  # outputs whose gradients are taken one by one
_A_ROUND = 0.99  # rounds are tried while each leaves at most this share of the error
_CLEARLY = 0.95  # column weights are used if they leave at most this share of the error without them
_WORTH = 0.9  # the strong power is tried if the mild one brings the error down to this share


class Plan(NamedTuple):
    """What is learnt: column weights or none, then this many rounds of the metric, with this power."""

    columns: bool = False
    rounds: int = 0
    power: float = MILD

    @property
    def name(self) -> str:
        """What is learnt, in words, without the number of rounds."""
        return f"{'columns, ' if self.columns else ''}metric to the power {self.power:g}"


PLAIN = Plan().name


class Learning(NamedTuple):
    """The chosen plan, and for each plan tried its cross-validated errors after 0, 1, ... rounds."""

    plan: Plan
    errors: dict[str, list[float]]

    @property
    def error(self) -> float:
        """The error of the plan that was chosen."""
        return min(self.errors[self.plan.name])


def limit_gradients(inputs: Matrix, alpha: Matrix, *, kernel: Matrix, shift: float) -> Iterator[Matrix]:
    """Yield for each output the gradients (n, d) of h(x) alpha at the inputs (n, d) themselves, alpha (n, k).

    ``kernel`` (n, n) is that of the inputs.

    The kernel has a kink at x = x_i, where its gradient is undefined: such a pair contributes nothing.

    Cost: O(n²d) per output.
    """
    slopes = cofiring_slope(inputs @ inputs.T, kernel, shift, symmetric=True)
    for one in alpha.T:
        yield slopes @ (one[:, None] * inputs)


def mix_outputs(alpha: Matrix) -> Matrix:
    """Return alpha (n, k) of at most _OUTPUTS outputs: random sums of all, with the same mean outer product.

    Otherwise a hundred classes would make a round a hundred times as expensive. The sums are always the same.
    """
    outputs = alpha.shape[1]
    if outputs <= _OUTPUTS:
        return alpha
    return alpha @ np.random.default_rng(0).normal(size=(outputs, _OUTPUTS)) / np.sqrt(_OUTPUTS)


def row_gradients(
    gradients: Iterator[Matrix], *, inputs: Matrix, norms: Matrix, columns: int, metric: Matrix | None
) -> Iterator[Matrix]:
    """Yield for each output the gradients (n, d) by rows, from those by lifted inputs.

    ``inputs`` are rows times ``metric`` (d, r), with r ``columns``, then lifted; ``norms`` (n,) are the norms they were
    divided by. Without a metric, rows are used as they are. Cost: O(ndr) per output.
    """
    for one in gradients:
        along = one - (one * inputs).sum(axis=1, keepdims=True) * inputs  # on the sphere only directions matter
        by_row = (along / norms[:, None])[:, :columns]
        yield by_row if metric is None else by_row @ metric.T


def outer_product(gradients: Iterator[Matrix], *, weights: Matrix) -> Matrix:
    """Return the weighted sum over rows and outputs of outer products (d, d) of gradients (n, d) by rows.

    Cost: O(nd²) per output.
    """
    return sum((one.T @ (weights[:, None] * one) for one in gradients), np.zeros(()))


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
    judge: Judge = mean_square,
) -> Learning:
    """Return the plan of the lowest cross-validated error, with all of the learning repeated in each fold.

    Leave-one-out would be optimistic: the metric was learnt on what is left out. Rounds are tried while they clearly
    help; column weights only if ``columns`` allows them. The limit kernel replaces the network; ``judge`` returns
    the error of outputs for observations that were held out.

    Cost: O(n³) for each fold, round and ridge tried.
    """
    errors = dict[Plan, list[float]]()

    def attempt(plan: Plan) -> None:
        learning = _Folds(data, bias=bias, shift=shift, ridge=ridge, plan=plan, judge=judge).errors(guess)
        mine = errors[plan] = []
        for left in reversed(range(MOST_ROUNDS + 1)):
            error = next(learning)
            mine.append(error)
            if len(mine) > 1 and not error < _A_ROUND * mine[-2]:
                break
            best = min(min(one) for one in errors.values())
            if len(mine) > 1 and error * (error / mine[-2]) ** left > best:  # it cannot become the best
                break

    for weighed in (True, False) if columns else (False,):
        mild = Plan(weighed, power=MILD)
        attempt(mild)
        if min(errors[mild]) <= _WORTH * errors[mild][0]:
            attempt(Plan(weighed, power=STRONG))
    best = min(errors, key=lambda plan: (min(errors[plan]) / (_CLEARLY if plan.columns else 1.0), plan.columns))
    rounds = int(np.argmin(errors[best]))
    told = {one.name: values for one, values in errors.items()}
    return Learning(best._replace(rounds=rounds), told)


class _Held(NamedTuple):
    """The error on observations held out, times their weight, the ridge of the fit to the others, outer products."""

    error: float
    ridge: float
    outer: Callable[[], Matrix] | None  # made if there is another round


class _Folds:
    """Cross-validation that repeats the learning in every fold."""

    def __init__(
        self, data: Observations, *, bias: float, shift: float, ridge: float | None, plan: Plan, judge: Judge
    ) -> None:
        number = int(min(_FOLDS, max(2, data.count.sum())))
        self._folds, self._total = data.folds(number), float(data.weight.sum())
        self._biases, self._shift, self._ridge, self._plan = [bias] * number, shift, ridge, plan
        self._judge = judge

    def errors(self, guess: float) -> Iterator[float]:
        """Yield the error on the held-out fold after 0, 1, ... rounds on the rest.

        If the ridge is to be chosen, it is found on the first fold, from the guess, and used for all: folds are alike.
        """
        if self._plan.columns:
            self._weigh_columns(guess)
        d = self._folds[0][0].X.shape[1]
        metrics = [np.eye(d)] * len(self._folds)
        while True:
            held = [self._hold_out(0, metrics[0], self._ridge, guess)]
            guess = held[0].ridge
            held += [self._hold_out(fold, metrics[fold], guess, guess) for fold in range(1, len(metrics))]
            yield sum(one.error for one in held) / self._total
            metrics = [
                old if one.outer is None else next_metric(one.outer(), metric=old, power=self._plan.power)
                for one, old in zip(held, metrics, strict=True)
            ]

    def _weigh_columns(self, guess: float) -> None:
        ridge = guess if self._ridge is None else self._ridge
        for fold, (kept, held) in enumerate(self._folds):
            learnt = learn_columns(kept, bias=self._biases[fold], shift=self._shift, ridge=ridge)
            self._folds[fold] = kept.with_rows(kept.X * learnt.weights), held.with_rows(held.X * learnt.weights)
            self._biases[fold] = learnt.bias

    def _hold_out(self, fold: int, metric: Matrix, ridge: float | None, guess: float) -> _Held:
        kept, held = self._folds[fold]
        rows = kept.X @ metric
        last = self._biases[fold] * typical_norm(rows, kept.weights)
        inputs, norms = lift_rows(rows, last)
        asked, place = np.unique(held.row, return_inverse=True)
        others, _ = lift_rows(held.X[asked] @ metric, last)
        kernel = limit_kernel(inputs @ inputs.T, self._shift)
        if ridge is None:
            fit = fit_kernel(kernel, kept, shift=self._shift, ridge=None, guess=guess)
            alpha, ridge = (None, guess) if fit is None else (fit.alpha, fit.ridge)
        else:
            alpha = solve_kernel(kernel, kept, shift=self._shift, ridge=ridge)
        if alpha is None:
            return _Held(np.inf, ridge, None)
        outputs = limit_kernel(others @ inputs.T, self._shift, symmetric=False) @ alpha
        error = float(held.weight.sum()) * self._judge(held, outputs[place])
        gradients = limit_gradients(inputs, mix_outputs(alpha), kernel=kernel, shift=self._shift)
        by_row = row_gradients(gradients, inputs=inputs, norms=norms, columns=len(metric), metric=metric)
        outer = partial(outer_product, by_row, weights=kept.weights)
        return _Held(error, ridge, outer)
