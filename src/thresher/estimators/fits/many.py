"""From a table of many rows to a fit of the limit: choices on rows left out, features from many rows, then one fit.

Nothing costs more than O(n²) per step. A part of the rows is left out while everything is chosen, down to the ridge of
all others. An exact fit then goes on from there to all rows; one on centres, or in leaves, leaves them out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput
from thresher.estimators.choosing import choose
from thresher.estimators.choosing.choose import Choice, mean_square, solve_kernel
from thresher.estimators.choosing.features import COLUMNS, Plan
from thresher.estimators.choosing.holdout import HoldOut, Solved, share_that_remains
from thresher.estimators.choosing.ridges import ridges_near
from thresher.estimators.choosing.rounds import Rounds
from thresher.estimators.choosing.scales import Options
from thresher.estimators.data.lift import SphereLift, lift_rows, typical_norm
from thresher.estimators.data.observations import Observations
from thresher.estimators.data.scaling import BY_RANK, CANDIDATES, Scaling
from thresher.estimators.data.streams import Stream, norm_of_blocks
from thresher.estimators.files.journal import Journal
from thresher.estimators.files.progress import Progress
from thresher.estimators.fits.beyond import CENTRES, fit_beyond
from thresher.estimators.fits.centres import fit_centres
from thresher.estimators.fits.exact import RANK, LimitFit, Table, fit_exact
from thresher.estimators.fits.fit_check import ASKED, SINGLE, SOLVED, Asked
from thresher.estimators.fits.fitted import Fitted
from thresher.estimators.fits.networks import Networks, promise_of, train_many
from thresher.memory import available_bytes, require
from thresher.parallel import blas_for_size
from thresher.tables.parts import BLOCK, Part
from thresher.theory import firing_probability
from thresher.theory.limit_matrix import half_bytes

__all__ = ["EXACT", "MANY", "ManyFitting"]

Matrix = NDArray[np.float64]
Turn = Callable[[Matrix], Matrix]  # makes of raw rows those before they are lifted
MANY, EXACT = 4096, 1 << 17  # rows from which on a fit is made like this, and up to which it may be exact
DEAR = 1 << 15  # rows up to which an exact fit costs little more than others
HELD, SMALL, LARGE = 4096, 2048, 16384  # rows left out; rows on which most is chosen; rows features are learnt from
_SCALED, _SORTED = 1 << 16, 1 << 23  # rows and numbers at most from which the scales of columns are learnt
_GUESS = 1e-2  # the first ridge that is tried
_CLEARLY = 0.98  # share of the error that another scale must leave, and an exact fit of that of centres
_LOOKED = 3  # scales at most that are judged on more rows
_BETTER = 0.995  # share of the error that another scale must leave there, with all rows left out
_NOT_DECISIVE = ("threads", "checkpoint", "judge", "seed", "sequence", "tol", "max_iterations", "width", "or_limit",
                 "device", "where")  # fmt: skip
_LEAST_FIRING = 1e-30  # probability that a neuron fires, in single precision with room for products
# Shares of the error of rows left out by which answers may miss what is promised at most: after an exact solve, which
# may have stopped early, and where answers for the same rows are there already.
_HALF, _AGREE = 0.5, 0.1
_OUTPUTS = 4  # beyond so many, ridges are compared on some rows only


class ManyFitting:
    """One fit of observations at many raw rows."""

    def __init__(self, data: Observations, options: Options, progress: Progress) -> None:
        self.data, self.options, self.progress, self._device = data, options, progress, options.device
        n = len(data)
        self._bare = data.with_rows(np.zeros((n, 0)))  # without the inputs, which are large
        if n > EXACT and options.width != math.inf and options.approximation != "exact":
            raise InvalidInput(f"networks are trained on at most {EXACT:,} distinct rows. Use width='auto'.")
        if options.shift is not None and firing_probability(options.shift) < _LEAST_FIRING:
            raise InvalidInput(
                f"shift={options.shift:g} is beyond single precision, which many rows need. Use a smaller one."
            )
        self._require_memory()
        self._held, self._kept = np.split(data.random_order(), [min(HELD, n // 5)])
        some = max(LARGE, min(_SCALED, _SORTED // data.X.shape[1]))
        self._few = data.at(self._kept[:some])  # in memory, as those left out
        self._left = data.at(self._held)
        self._journal = Journal(
            options.checkpoint,
            data.X,
            data.row,
            data.target,
            data.weight,
            compared=(options.device.dear, options.width == math.inf),  # decide which fits are made
            **{name: value for name, value in options._asdict().items() if name not in _NOT_DECISIVE},
        )
        progress.plan(self._costs())

    def _require_memory(self) -> None:
        """Refuse what does not fit even if no entry of the kernel is kept, with the number of rows that would."""
        (n, d), outputs = self.data.X.shape, self.data.targets.shape[1]
        exact = n <= EXACT or self.options.approximation == "exact"
        held = 0 if _on_disk(self.data) else d
        per_row = 8 * (4 * held + 24 * outputs) + 4 * held + (4 * min(RANK, n // 8) if exact else 0)
        fixed = half_bytes(min(n, LARGE + HELD)) + 24 * min(RANK, n // 8) ** 2
        may = int((0.9 * available_bytes() - fixed) / per_row)
        remedy = f"About {may:,} rows would fit." if may >= MANY else "Close other programs, or use a larger machine."
        what = f"fitting {n:,} rows of {d:,} columns"
        require(fixed + n * per_row, budget=None, what=what, remedy=remedy, rows=max(may, 0))
        self._device.require(n, d, outputs)

    def run(self) -> Fitted:
        """Return what was chosen, learnt and fitted. Cost: O(n²) per step of conjugate gradients, some fifty."""
        # Threads are those of ``parallel``: BLAS's own would wait for work beside them.
        with blas_for_size(0), self._device.session():
            return self._run()

    def _run(self) -> Fitted:
        progress = self.progress
        progress.begin("choosing the scale")
        scale, scaling, guess = self._choose_scale()
        progress.begin("choosing bias, shift and features")
        small, large = self._part(SMALL, scaling), self._part(LARGE, scaling)
        rounds = Rounds(small, large, self.options, self._device, self._journal, progress.share)
        first = Choice(self._biases()[0], self._shifts()[0], guess, math.inf, [])
        metric, choice, learning = rounds.learn(first, partial(self._choose, small))
        if self.data.targets.shape[1] > _OUTPUTS and self.options.ridge is None:
            solved = rounds.fit(large, metric, choice)
            choice = choice if solved is None else choice._replace(ridge=solved.ridge)
        progress.begin("fitting all rows")
        way, errors = self._way(rounds, large, metric, choice)
        few = rounds.fit(small, metric, choice)
        importances = rounds.importances(metric, choice, few)

        def fit(ridge: float | None) -> Fitted:
            """Return the fit; if a ridge is given, it is made again with that one and with more care."""
            turn = partial(_turn, scaling, metric)
            last, found = self._fit_all(turn, choice, way, ridge=ridge)
            found = found._replace(errors=errors | found.errors)
            networks = self._train(small, metric, turn, last, choice, found, ridge=ridge)
            lift = SphereLift.made(scaling, scale=scale, bias=choice.bias, metric=metric, last=last)
            asked = self._asked(turn, last, choice, found, networks)
            worse = 1.0 if networks is None else 1 + networks.loss  # times the squared error of the limit
            return Fitted(
                lift=lift,
                choice=choice,
                learning=learning,
                left_out=found.left_out._replace(optimism=worse * self._gain(small, few, found)),
                inputs=found.inputs if networks is None else networks.inputs,
                ridge=found.ridge if networks is None else networks.ridge,
                error=found.error * worse,
                alpha=found.alpha,
                penalty=self._penalty(found, choice.shift) if networks is None else networks.penalty,
                gains=np.ones(found.alpha.shape[1]) if networks is None else networks.gains,
                results=[] if networks is None else networks.results,
                loss=worse - 1,
                importances=importances,
                asked=asked,
                again=again,
                pivots=found.pivots,
                core=found.core,
                way=found.way,
                ways=found.errors,
                leaves=found.leaves,
            )

        def again(ridge: float) -> Fitted:
            with blas_for_size(0), self._device.session():
                return fit(ridge)

        fitted = fit(None)
        progress.end()
        self._journal.finish()
        return fitted

    def _gain(self, small: HoldOut, few: Solved | None, found: LimitFit) -> float:
        """Return what share of the squared error on rows left out remains when they are fitted as well, if they are."""
        if few is None or found.way != "exact":
            return 1.0
        before = mean_square(small.held, few.outputs[small.held.row])
        after = mean_square(found.left_out.data, found.left_out.outputs)
        return share_that_remains(before, after, few=len(small.kept), kept=len(self._kept), whole=len(self.data))

    def _asked(self, turn: Turn, last: float, choice: Choice, found: LimitFit, networks: Networks | None) -> Asked:
        """Return the rows left out, and what the fit says of them. Cost: O(r³), r = 1024."""
        few, left = self._few.at(np.arange(min(ASKED, len(self._few)))), self._left
        kernel = self._device.kernel(lift_rows(turn(np.concatenate([few.X, left.X])), last)[0], choice.shift)
        alpha = solve_kernel(kernel, few, shift=choice.shift, ridge=found.ridge)
        asked = Asked(
            rows=left.X,
            data=left,
            left_out=found.left_out.outputs,
            promised=None,
            residual=0.0,
            rounding=SINGLE * float(np.linalg.norm(found.alpha)) / math.sqrt(len(found.alpha)),
            few_rows=None if alpha is None else kernel.rest(alpha),
            size=math.sqrt(mean_square(self._bare, np.zeros_like(self._bare.target))),
        )
        if networks is not None:
            outputs, lost, stopped = promise_of(networks.results, self.data.targets, networks.penalty, networks.gains)
            outputs = None if outputs is None else outputs[self._held]
            worse = math.sqrt(1 + networks.loss)  # errors of rows left out are those of the limit
            asked = asked._replace(left_out=left.target + worse * (asked.left_out - left.target))
            return asked.of_networks(outputs, lost, interrupted=stopped)
        error = math.sqrt(mean_square(left, asked.left_out))
        if found.way == "exact":
            held, targets = self._held, self.data.targets
            away = self._penalty(found, choice.shift)[held, None] * found.alpha[held]
            # As if all of the residual were at the rows that had been left out.
            size = float(np.linalg.norm(targets)) / math.sqrt(len(held))
            most = min(SOLVED * found.residual * size, _HALF * error)
            return asked._replace(promised=targets[held] - away, residual=most)
        said = np.empty_like(left.targets)
        said[left.row] = asked.left_out
        return asked._replace(promised=said, residual=_AGREE * error)

    def _penalty(self, found: LimitFit, shift: float) -> Matrix:
        """Return the penalty of each input that has a coefficient (n,)."""
        weights = self.data.weights if found.way == "exact" else np.ones(len(found.inputs))
        return found.ridge * firing_probability(shift) / weights

    def _way(
        self, rounds: Rounds, large: HoldOut, metric: Matrix | None, choice: Choice
    ) -> tuple[str, dict[str, float]]:
        """Return how all rows are fitted, and the errors of the fits to some rows that this was decided by.

        From some number of rows on an exact fit costs several times as much as others. It is made if it is clearly
        better than centres on as many rows as features are learnt from; more rows make it better still.
        """
        n, way = len(self.data), self.options.approximation
        cheap = DEAR if self._device.dear else EXACT
        if way != "auto" or n > EXACT or n <= cheap or self.options.width != math.inf:
            return ("exact" if way == "auto" and n <= EXACT else way), {}
        exact = rounds.fit(large, metric, choice)
        inputs, others, _ = large.lifted(metric, choice.bias)
        few, held = large.kept, large.held
        made = fit_centres(
            np.concatenate([inputs, others]),
            np.concatenate([few.targets, held.targets]),
            np.concatenate([few.weights, held.weights]),
            kept=np.arange(len(few)),
            held=len(few) + np.arange(len(held)),
            shift=choice.shift,
            ridges=ridges_near(choice.ridge) if self.options.ridge is None else [self.options.ridge],
            centres=CENTRES[0],
            device=self._device,
            judge=large.judge,
        )
        errors = {"exact": math.inf if exact is None else exact.error, "centres": large.judge(made.held_outputs)}
        way = "exact" if errors["exact"] < _CLEARLY * errors["centres"] else "auto"
        return way, {f"{name} on {len(few):,} rows": error for name, error in errors.items()}

    def _fit_all(self, turn: Turn, choice: Choice, way: str, ridge: float | None) -> tuple[float, LimitFit]:
        """Return the last coordinate of lifted rows, and the fit to all rows, exact or not.

        If a ridge is given, the fit is made again with that one and with more care.
        """
        options, data = self.options, self.data
        ridges = ridges_near(choice.ridge) if options.ridge is None else [options.ridge]
        ridges, journal = (ridges, self._journal) if ridge is None else ([ridge], Journal(None))
        if ridge is None and data.targets.shape[1] > _OUTPUTS and options.ridge is None:
            ridges = [choice.ridge]  # each costs as much as all outputs
        table = Table(
            self._bare, self._kept, self._held, choice.bias, choice.shift, ridges, options.judge, self._device,
            careful=ridge is not None,
        )  # fmt: skip
        if way == "exact":
            rows = turn(data.X)
            last = choice.bias * typical_norm(rows[self._kept], data.weights[self._kept])
            inputs = lift_rows(rows, last)[0].astype(np.float32)[:, : None if choice.bias else -1]
            return last, fit_exact(inputs, table, journal=journal, tell=self.progress.share)
        weights = np.zeros(len(data))
        weights[self._kept] = data.weights[self._kept]
        last = choice.bias * norm_of_blocks(data.X, turn, weights)
        stream = Stream(data.X, lambda block: lift_rows(turn(block), last)[0][:, : None if choice.bias else -1])
        order = np.concatenate([self._kept, self._held])
        if _on_disk(data):
            return last, fit_beyond(stream, None, table, way=way, journal=journal, tell=self.progress.share)
        rows_of = partial(_in_blocks, turn, data.X, order)
        return last, fit_beyond(stream.in_memory(), rows_of, table, way=way, journal=journal, tell=self.progress.share)

    def _train(
        self, small: HoldOut, metric: Matrix | None, turn: Turn, last: float, choice: Choice, found: LimitFit,
        ridge: float | None,
    ) -> Networks | None:  # fmt: skip
        """Return the networks that were asked for; those of a fit that is made again have its ridge."""
        if self.options.width == math.inf:
            return None
        self.progress.begin("training")
        inputs = lift_rows(turn(self.data.X), last)[0]
        return train_many(
            inputs if choice.bias else inputs[:, :-1],
            self.data,
            small,
            metric,
            choice,
            self.options if ridge is None else self.options._replace(ridge=ridge),
            alpha=found.alpha,
            outputs=self.data.targets - self._penalty(found, choice.shift)[:, None] * found.alpha,
            callbacks=[self.progress.records()],
        )

    def _part(self, size: int, scaling: Scaling) -> HoldOut:
        """Return no more than ``size`` of the rows to fit, and as many that are left out, scaled."""
        parts = [one.at(np.arange(min(size, len(one)))) for one in (self._few, self._left)]
        kept, held = (one.with_rows(scaling.apply(one.X)) for one in parts)
        return HoldOut(kept, held, judge=self.options.judge, device=self._device)

    def _choose_scale(self) -> tuple[str, Scaling, float]:
        """Return the scale of the least error on rows left out, the first unless another is clearly better; its ridge.

        Each is judged with the ridge that is best for it: where noise is most of the targets, a ridge that is too small
        says nothing of the scale.
        """
        asked, some = self.options.scale, self._few
        if asked is not None:
            return asked, Scaling.of(some.X, scale=asked, weights=some.weights), _GUESS
        few, seen = some.at(np.arange(min(HELD, len(some)))), list[Matrix]()
        found, ridges = dict[str, float](), dict[str, float]()
        for scale in CANDIDATES:
            if scale in BY_RANK and self.data.X.shape[1] > COLUMNS:
                continue
            try:
                scaling = Scaling.of(few.X, scale=scale, weights=few.weights)
            except InvalidInput:  # values too far apart for this one
                if scale == CANDIDATES[0]:
                    raise
                continue
            hold = self._part(SMALL, scaling)
            if any(np.allclose(hold.kept.X, one, rtol=1e-6, atol=1e-9) for one in seen):
                continue
            seen.append(hold.kept.X)
            guess = ridges.get(CANDIDATES[0], _GUESS)
            ridges[scale], found[scale] = self._try(hold, None, self._biases()[0], self._shifts()[0], guess)
        close = [scale for scale in found if _CLEARLY * found[scale] <= min(found.values())]
        close = sorted(close, key=lambda scale: (scale != CANDIDATES[0], found[scale]))[:_LOOKED]
        best = close[0] if len(close) == 1 else self._closer_look(few, {scale: ridges[scale] for scale in close})
        try:
            return best, Scaling.of(some.X, scale=best, weights=some.weights), ridges[best]
        except InvalidInput:  # of more rows some are too far apart
            best = CANDIDATES[0]
            return best, Scaling.of(some.X, scale=best, weights=some.weights), ridges[best]

    def _closer_look(self, few: Observations, ridges: dict[str, float]) -> str:
        """Return the best of scales that are close, with guesses of their ridges, on more rows and all those left out.

        The first of all candidates is taken unless another is clearly better. The rows are more still where nothing
        else is learnt.
        """
        size, errors = LARGE if self.data.X.shape[1] > COLUMNS else HELD, dict[str, float]()
        for scale, guess in ridges.items():
            hold = self._part(size, Scaling.of(few.X, scale=scale, weights=few.weights))
            errors[scale] = self._try(hold, None, self._biases()[0], self._shifts()[0], guess)[1]
        best = min(errors, key=lambda scale: errors[scale])
        return best if errors[best] < _BETTER * errors.get(CANDIDATES[0], math.inf) else CANDIDATES[0]

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

    def _costs(self) -> dict[str, float]:
        """Return roughly what each part costs, in seconds of one core: how progress is told and time left guessed."""
        n, d = self.data.X.shape
        outputs, large = self.data.targets.shape[1], min(n, LARGE)
        one = 4e-11 * SMALL**3 + 1e-9 * SMALL**2 * d
        plan = self.options.plan
        learns = d <= COLUMNS if plan is None else plan != Plan()
        return {
            "choosing the scale": 5 * one if self.options.scale is None else 0.0,
            "choosing bias, shift and features": 8 * one + learns * (15 * one + 8 * 1e-8 * large**2),
            "fitting all rows": n * n * (2e-9 + 1e-10 * d + 40 * 3e-10 * (1 + outputs)),
            "training": 0.0 if self.options.width == math.inf else 1e-9 * outputs * float(self.options.width) * n * d,
        }


def _turn(scaling: Scaling, metric: Matrix | None, rows: Matrix) -> Matrix:
    """Return raw rows (k, d) as they are before they are lifted (k, r)."""
    scaled = scaling.apply(rows)
    return scaled if metric is None else scaled @ metric


def _in_blocks(turn: Turn, rows: Any, order: NDArray[np.int64]) -> Matrix:
    """Return what ``turn`` makes of rows, in this order, block by block."""
    parts = [turn(rows[order[first : first + BLOCK]]) for first in range(0, len(order), BLOCK)]
    return np.concatenate(parts)


def _on_disk(data: Observations) -> bool:
    return isinstance(data.X, Part) and data.X.on_disk
