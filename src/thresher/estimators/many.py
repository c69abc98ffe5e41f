"""From a table of many rows to a fit of the limit: choices on rows left out, features from many, one exact solve.

Nothing costs more than O(n²) per step. A part of the rows is left out while everything is chosen, down to the ridge of
all others; up to 131,072 rows the solution then goes on from there with all rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput
from thresher.estimators import choose
from thresher.estimators.beyond import fit_beyond
from thresher.estimators.choose import Choice
from thresher.estimators.columns import learn_columns
from thresher.estimators.device import Device
from thresher.estimators.exact import RANK, LimitFit, Table, fit_exact
from thresher.estimators.features import (
    COLUMNS,
    MILD,
    STRONG,
    Learning,
    Plan,
    mix_outputs,
    next_metric,
    outer_product,
    row_gradients,
)
from thresher.estimators.fitting import Fitted
from thresher.estimators.holdout import HoldOut, Solved, ridges_near
from thresher.estimators.journal import Journal
from thresher.estimators.lift import SphereLift, lift_rows, typical_norm
from thresher.estimators.networks import Networks, train_many
from thresher.estimators.observations import Observations
from thresher.estimators.progress import Progress
from thresher.estimators.scales import Options
from thresher.estimators.scaling import BY_RANK, CANDIDATES, Scaling
from thresher.memory import available_bytes, require
from thresher.parallel import blas_for_size
from thresher.theory import firing_probability
from thresher.theory.limit_matrix import half_bytes

__all__ = ["EXACT", "MANY", "ManyFitting"]

Matrix = NDArray[np.float64]
MANY, EXACT = 4096, 1 << 17  # rows from which on a fit is made like this, and up to which it is exact
HELD, SMALL, LARGE = 4096, 2048, 16384  # rows left out; rows on which most is chosen; rows features are learnt from
_SCALED, _SORTED = 1 << 16, 1 << 23  # rows and numbers at most from which the scales of columns are learnt
_GRADIENTS = 4096  # rows whose gradients make the metric
_STRONGEST = 0.5
_POWERS = MILD, STRONG, _STRONGEST  # of the metric
_CLEARLY = 0.98  # share of the error that another scale must leave
_A_ROUND, _ROUNDS, _FEW = 0.998, 10, 5  # share of the error that a round must leave; rounds on many rows, and on few
_A_FIT = 0.85  # share of the learning that remains when one more metric has been tried
_SURELY = 0.9  # share of the error on few rows below which a metric helps on many as well
_NOT_DECISIVE = ("threads", "checkpoint", "judge", "seed", "sequence", "tol", "max_iterations", "width", "or_limit")
_LEAST_FIRING = 1e-30  # probability that a neuron fires, in single precision with room for products
_OUTPUTS = 4  # beyond so many, ridges are compared on some rows only
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


class ManyFitting:
    """One fit of observations at many raw rows."""

    def __init__(self, data: Observations, options: Options, progress: Progress, device: Device) -> None:
        self.data, self.options, self.progress, self._device = data, options, progress, device
        n = len(data)
        if n > EXACT and options.width != math.inf and options.approximation != "exact":
            raise InvalidInput(f"networks are trained on at most {EXACT:,} distinct rows. Use width='auto'.")
        if options.shift is not None and firing_probability(options.shift) < _LEAST_FIRING:
            raise InvalidInput(
                f"shift={options.shift:g} is beyond single precision, which many rows need. Use a smaller one."
            )
        self._require_memory()
        order = np.random.default_rng(0).permutation(n)
        self._held, self._kept = np.split(order, [min(HELD, n // 5)])
        self._journal = Journal(
            options.checkpoint,
            data.X,
            data.row,
            data.target,
            data.weight,
            **{name: value for name, value in options._asdict().items() if name not in _NOT_DECISIVE},
        )
        progress.plan(self._costs())

    def _require_memory(self) -> None:
        """Refuse what does not fit even if no entry of the kernel is kept, with the number of rows that would."""
        (n, d), outputs = self.data.X.shape, self.data.targets.shape[1]
        exact = n <= EXACT or self.options.approximation == "exact"
        per_row = 8 * (4 * d + 24 * outputs) + 4 * d + (4 * min(RANK, n // 8) if exact else 0)
        fixed = half_bytes(min(n, LARGE + HELD)) + 24 * min(RANK, n // 8) ** 2
        may = int((0.9 * available_bytes() - fixed) / per_row)
        remedy = f"About {may:,} rows would fit." if may >= MANY else "Close other programs, or use a larger machine."
        what = f"fitting {n:,} rows of {d:,} columns"
        require(fixed + n * per_row, budget=None, what=what, remedy=remedy)
        self._device.require(n, d, outputs)

    def run(self) -> Fitted:
        """Return what was chosen, learnt and fitted. Cost: O(n²) per step of conjugate gradients, some fifty."""
        with (
            blas_for_size(0),
            self._device.session(),
        ):  # threads are those of ``parallel``: BLAS's own would wait for work beside them
            return self._run()

    def _run(self) -> Fitted:
        progress = self.progress
        progress.begin("choosing the scale")
        scale, scaling = self._choose_scale()
        rows = scaling.apply(self.data.X)
        progress.begin("choosing bias and shift")
        small = self._part(rows, SMALL)
        choice = self._choose(small, None, guess=1e-2)
        progress.begin("learning features")
        metric, choice, learning = self._learn(rows, small, choice)
        if metric is not None:
            choice = self._choose(small, metric, guess=choice.ridge, favourite=choice)
        if self.data.targets.shape[1] > _OUTPUTS and self.options.ridge is None:
            solved = self._fit(self._part(rows, LARGE), metric, choice)  # the ridge that is best for more rows
            choice = choice if solved is None else choice._replace(ridge=solved.ridge)
        progress.begin("fitting all rows")
        turned = rows if metric is None else rows @ metric
        last = choice.bias * typical_norm(turned[self._kept], self.data.weights[self._kept])
        found = self._fit_all(turned, last, choice)
        networks = self._train(small, metric, turned, last, choice, found)
        progress.end()
        self._journal.finish()
        worse = 1.0 if networks is None else 1 + networks.loss  # times the squared error of the limit
        lift = SphereLift.made(scaling, scale=scale, bias=choice.bias, metric=metric, last=last)
        return Fitted(
            lift=lift,
            choice=choice,
            learning=learning,
            left_out=found.left_out._replace(optimism=worse),
            inputs=found.inputs if networks is None else networks.inputs,
            ridge=found.ridge if networks is None else networks.ridge,
            error=found.error * worse,
            alpha=found.alpha,
            penalty=self._penalty(found, choice.shift) if networks is None else networks.penalty,
            gains=np.ones(found.alpha.shape[1]) if networks is None else networks.gains,
            results=[] if networks is None else networks.results,
            loss=worse - 1,
            importances=self._importances(small, metric, choice),
            pivots=found.pivots,
            core=found.core,
            way=found.way,
            ways=found.errors,
            leaves=found.leaves,
        )

    def _penalty(self, found: LimitFit, shift: float) -> Matrix:
        """Return the penalty of each input that has a coefficient (n,)."""
        weights = self.data.weights if found.way == "exact" else np.ones(len(found.inputs))
        return found.ridge * firing_probability(shift) / weights

    def _fit_all(self, rows: Matrix, last: float, choice: Choice) -> LimitFit:
        """Return the fit to all rows (n, r), exact up to some number of them."""
        options, journal = self.options, self._journal
        inputs = lift_rows(rows, last)[0].astype(np.float32)
        inputs = inputs if choice.bias else inputs[:, :-1]
        ridges = ridges_near(choice.ridge) if options.ridge is None else [options.ridge]
        if self.data.targets.shape[1] > _OUTPUTS and options.ridge is None:
            ridges = [choice.ridge]  # each costs as much as all outputs
        way = "exact" if len(rows) <= EXACT and options.approximation == "auto" else options.approximation
        table = Table(self.data, self._kept, self._held, choice.bias, choice.shift, ridges, options.judge, self._device)
        if way == "exact":
            return fit_exact(inputs, table, journal=journal, tell=self.progress.share)
        return fit_beyond(rows, inputs, table, way=way, tell=self.progress.share)

    def _train(
        self, small: HoldOut, metric: Matrix | None, rows: Matrix, last: float, choice: Choice, found: LimitFit
    ) -> Networks | None:
        """Return the networks that were asked for."""
        if self.options.width == math.inf:
            return None
        self.progress.begin("training")
        inputs = lift_rows(rows, last)[0]
        return train_many(
            inputs if choice.bias else inputs[:, :-1],
            self.data,
            small,
            metric,
            choice,
            self.options,
            alpha=found.alpha,
            outputs=self.data.targets - self._penalty(found, choice.shift)[:, None] * found.alpha,
            callbacks=[self.progress.records()],
        )

    def _part(self, rows: Matrix, size: int) -> HoldOut:
        """Return no more than ``size`` of the rows to fit, and as many that are left out, at scaled rows (n, d)."""
        parts = [self.data.at(some[:size]).with_rows(rows[some[:size]]) for some in (self._kept, self._held)]
        return HoldOut(parts[0], parts[1], judge=self.options.judge, device=self._device)

    def _choose_scale(self) -> tuple[str, Scaling]:
        """Return the scale of the least error on rows left out: the first unless another is clearly better."""
        some = self._kept[: max(LARGE, min(_SCALED, _SORTED // self.data.X.shape[1]))]
        weights = self.data.weights[some]
        asked = self.options.scale
        if asked is not None:
            return asked, Scaling.of(self.data.X[some], scale=asked, weights=weights)
        few, found = some[:HELD], dict[str, float]()
        parts = [self.data.at(one[:SMALL]) for one in (self._kept, self._held)]
        for scale in CANDIDATES:
            if scale in BY_RANK and self.data.X.shape[1] > COLUMNS:
                continue
            try:
                scaling = Scaling.of(self.data.X[few], scale=scale, weights=weights[: len(few)])
            except InvalidInput:  # values too far apart for this one
                if scale == CANDIDATES[0]:
                    raise
                continue
            kept, held = (one.with_rows(scaling.apply(one.X)) for one in parts)
            hold = HoldOut(kept, held, judge=self.options.judge, device=self._device)
            found[scale] = self._try(hold, None, self._biases()[0], self._shifts()[0], 1e-2)[1]
        best = min(found, key=lambda scale: found[scale])
        best = best if found[best] < _CLEARLY * found[CANDIDATES[0]] else CANDIDATES[0]
        try:
            return best, Scaling.of(self.data.X[some], scale=best, weights=weights)
        except InvalidInput:  # of more rows some are too far apart
            return CANDIDATES[0], Scaling.of(self.data.X[some], scale=CANDIDATES[0], weights=weights)

    def _biases(self) -> list[float]:
        return list(self.options.biases) if self.options.bias is None else [self.options.bias]

    def _shifts(self) -> list[float]:
        return list(choose.SHIFTS) if self.options.shift is None else [self.options.shift]

    def _try(
        self, hold: HoldOut, metric: Matrix | None, bias: float, shift: float, guess: float
    ) -> tuple[float, float]:
        solved = hold.fit(metric, bias=bias, shift=shift, ridge=self.options.ridge, guess=guess)
        return (guess, math.inf) if solved is None else (solved.ridge, solved.error)

    def _choose(self, hold: HoldOut, metric: Matrix | None, *, guess: float, favourite: Choice | None = None) -> Choice:
        return choose.search(
            lambda bias, shift, near, _: self._try(hold, metric, bias, shift, near),
            biases=self._biases(),
            shifts=self._shifts(),
            guess=guess,
            favourite=favourite,
        )

    def _learn(self, rows: Matrix, small: HoldOut, choice: Choice) -> tuple[Matrix | None, Choice, Learning]:
        """Return the metric, the choice with its ridge, and the errors of what was tried.

        Powers are compared on some rows; the rounds of the best are repeated on more, which then bear a higher power.
        """
        plan, columns = self.options.plan, rows.shape[1]
        if plan == Plan() or (plan is None and columns > COLUMNS) or columns == 1:
            return None, choice, Learning(Plan(), {})
        first, errors, large = None, dict[str, list[float]](), self._part(rows, LARGE)
        if plan is not None and plan.columns:
            learnt = learn_columns(
                self.data.at(self._kept[:_WEIGHED]).with_rows(rows[self._kept[:_WEIGHED]]),
                bias=choice.bias,
                shift=choice.shift,
                ridge=choice.ridge,
            )
            first = np.diag(learnt.weights)
        if plan is not None:  # as many rounds as were asked for, on as many rows as can be
            found = self._rounds(large, choice, plan.power, metric=first, rounds=plan.rounds, all_of_them=True)
            errors[_say(large, plan.power)] = found.errors
            return found.metric, choice._replace(ridge=found.solved.ridge), Learning(plan, errors)
        tracks = {STRONG: self._rounds(small, choice, STRONG, rounds=_FEW)}
        other = _STRONGEST if tracks[STRONG].error < _SURELY * tracks[STRONG].errors[0] else MILD
        tracks[other] = self._rounds(small, choice, other, rounds=_FEW)
        errors |= {_say(small, power): track.errors for power, track in tracks.items()}
        power = min(tracks, key=lambda one: tracks[one].error)
        found = tracks[power]
        if len(large.kept) > len(small.kept):
            found, power = self._more_rows(large, choice, found, power, errors)
        if found.metric is None:
            power = MILD
        plan = Plan(rounds=found.rounds, power=power)
        return found.metric, choice._replace(ridge=found.solved.ridge), Learning(plan, errors)

    def _more_rows(
        self, large: HoldOut, choice: Choice, found: Learnt, power: float, errors: dict[str, list[float]]
    ) -> tuple[Learnt, float]:
        """Go on from a metric on more rows, which bear a higher power; without one if that is no worse there."""
        choice = choice._replace(ridge=found.solved.ridge)
        best = self._rounds(large, choice, power, metric=found.metric, done=found.rounds)
        errors[_say(large, power)] = best.errors
        if found.metric is not None and found.error > _SURELY * found.errors[0]:
            plain = self._fit(large, None, choice)
            if plain is not None and plain.error <= best.error:
                return Learnt(None, plain, [plain.error], 0), power
        for higher in [one for one in _POWERS if one > power]:
            more = self._rounds(large, choice, higher, metric=best.metric, solved=best.solved, done=best.rounds)
            errors[_say(large, higher)] = more.errors
            if not more.error < _A_ROUND * best.error:
                break
            best, power = more, higher
        return best, power

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
        solved = self._fit(hold, metric, choice) if solved is None else solved
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
            solved = self._fit(hold, metric, choice._replace(ridge=solved.ridge), start=solved.alpha)
            if solved is None:
                break
            idle = 0 if solved.error < _A_ROUND * min(errors) else idle + 1
            errors.append(solved.error)
            if all_of_them or solved.error < best.error:
                best = Learnt(metric, solved, errors, number)
            if idle == 2 and not all_of_them:
                break
        return best

    def _fit(self, hold: HoldOut, metric: Matrix | None, choice: Choice, start: Matrix | None = None) -> Solved | None:
        bias, shift, ridge = choice.bias, choice.shift, choice.ridge
        fit = partial(hold.fit, metric, bias=bias, shift=shift, ridge=self.options.ridge, guess=ridge, start=start)
        if len(hold.kept) <= SMALL:
            return fit()
        self.progress.share(1 - _A_FIT ** (self._journal.place + 1))
        return self._journal.step(lambda begun: fit())

    def _gradients(self, hold: HoldOut, metric: Matrix | None, solved: Solved, choice: Choice) -> Iterator[Matrix]:
        """Return for each output the gradients (k, r) by rows after the metric, at some rows that were fitted."""
        inputs, _, norms = hold.lifted(metric, choice.bias)
        some = inputs[:_GRADIENTS]
        found = self._device.gradients(some, inputs, mix_outputs(solved.alpha), choice.shift)
        exact, columns = some.astype(np.float64), hold.kept.X.shape[1]
        return row_gradients(iter(found), inputs=exact, norms=norms[:_GRADIENTS], columns=columns)

    def _importances(self, hold: HoldOut, metric: Matrix | None, choice: Choice) -> Matrix:
        """Return the mean square of the gradient by each scaled column (d,), as a share of the sum of all."""
        d = self.data.X.shape[1]
        solved, squares = self._fit(hold, metric, choice), np.zeros(d)
        for one in [] if solved is None else self._gradients(hold, metric, solved, choice):
            by_column = one if metric is None else one @ metric.T
            squares += hold.kept.weights[:_GRADIENTS] @ by_column**2
        return squares / squares.sum() if squares.sum() > 0 else np.full(d, 1 / d)

    def _costs(self) -> dict[str, float]:
        """Return roughly what each part costs, in seconds of one core: how progress is told and time left guessed."""
        n, d = self.data.X.shape
        outputs, large = self.data.targets.shape[1], min(n, LARGE)
        one = 4e-11 * SMALL**3 + 1e-9 * SMALL**2 * d
        plan = self.options.plan
        learns = d <= COLUMNS if plan is None else plan != Plan()
        return {
            "choosing the scale": 5 * one if self.options.scale is None else 0.0,
            "choosing bias and shift": 15 * one,
            "learning features": learns * (15 * one + 8 * 1e-8 * large**2) + 0.01,
            "fitting all rows": n * n * (2e-9 + 1e-10 * d + 40 * 3e-10 * (1 + outputs)),
            "training": 0.0 if self.options.width == math.inf else 1e-9 * outputs * float(self.options.width) * n * d,
        }


def _say(hold: HoldOut, power: float) -> str:
    return f"{len(hold.kept):,} rows, metric to the power {power:g}"
