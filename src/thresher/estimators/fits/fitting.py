"""From a table to trained networks: scale the columns, choose, learn features, fit the kernel, train."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput
from thresher.estimators.choosing import choose
from thresher.estimators.choosing.choose import Choice, Fit, Tried, leave_one_out
from thresher.estimators.choosing.columns import learn_columns
from thresher.estimators.choosing.features import (
    COLUMNS,
    Learning,
    Plan,
    choose_plan,
    next_metric,
)
from thresher.estimators.choosing.scales import FEW, Options, choose_scale
from thresher.estimators.choosing.space import Space, in_span
from thresher.estimators.data.lift import SphereLift
from thresher.estimators.data.observations import Observations
from thresher.estimators.files.progress import Progress
from thresher.estimators.fits.fit_check import DOUBLE, Asked
from thresher.estimators.fits.fitted import Fitted, LeftOut
from thresher.estimators.fits.networks import gains_of, promise_of, settings_of, train_penalised
from thresher.estimators.kernels.device import DenseKernel
from thresher.memory import allowed_bytes, require
from thresher.model.network import NetworkSettings
from thresher.parallel import blas_for_size
from thresher.shards import block_bytes
from thresher.theory import firing_probability
from thresher.training import Result

__all__ = ["WORSE", "Fitting"]

Matrix = NDArray[np.float64]
_QUIETEST = 0.0  # the shift at which the kernel of a network is least noisy
_MANY = 4  # times the rows on which features are chosen: from there on twice as many are taken
_FOR_COLUMNS = 128  # observations from which columns are weighed by themselves
_LEARNT = 1024, 2048  # rows at most that a metric is learnt on, and in the last round: it costs the cube of them
_WEIGHED = 512  # rows at most that weights of columns are learnt on: fifteen times that cost
WORSE = 0.02  # share by which the error of a network exceeds that of the limit when it is measurably worse
_NOTHING = 1e-6  # error, in units of the targets' variance, that is none
_SOLVED = 1e-6  # what a factor in double precision may leave of the targets


class Fitting:
    """One fit of observations at raw rows."""

    def __init__(self, data: Observations, options: Options, progress: Progress) -> None:
        self.data, self.options, self.progress = data, options, progress
        self.width, self.loss = options.width, 0.0
        (n, d), outputs = data.X.shape, data.targets.shape[1]
        allowed, what = allowed_bytes(None), f"fitting {n:,} rows of {d:,} columns"
        fit = bisect_right(range(1, n), allowed, key=self._bytes)
        remedy = f"Fit on fewer rows or columns. About {fit:,} rows would fit."
        require(self._bytes(n), budget=int(allowed), what=what, remedy=remedy, rows=fit)
        options.device.require(n, d, outputs)
        progress.plan(self._costs(n, min(n, d), outputs))

    def _bytes(self, n: int) -> float:
        """Return about how many bytes a fit of so many of the rows takes."""
        d, outputs, options = self.data.X.shape[1], self.data.targets.shape[1], self.options
        span, observed = min(n, d), len(self.data.row) * n / len(self.data)
        taken = 8 * (6 * n * n + 48 * n * outputs + 8 * n * d + (8 * span * span if self._learns(d) else 0))
        taken += 8 * observed * 6 * outputs
        if options.width == math.inf:
            return taken
        return taken + outputs * options.width * (9 * (span + 1) + n / 3) + options.threads * block_bytes(n, span + 1)

    def run(self) -> Fitted:
        """Return what was chosen, learnt and trained. Cost: see :class:`ThresherRegressor`."""
        with self.options.device.session():
            return self._run()

    def _run(self) -> Fitted:
        options, device = self.options, self.options.device
        with blas_for_size(options.rows):  # threads of BLAS would wait for each other over small matrices
            scale, space, choice, learning, optimism = self._choose_all()
        self.progress.begin("fitting all rows")
        self.data, space = self.data.shuffled(choose.SEARCHED), space.shuffled(choose.SEARCHED)
        inputs, _ = space.inputs(choice.bias)
        settings = None if self.width == math.inf else self._settings(inputs, choice.shift, int(self.width))
        kernel: DenseKernel
        if settings is None:
            kernel = device.kernel(inputs, choice.shift)
        else:
            kernel = device.start_gram(inputs, settings)
        importances = self._importances(space, choice)
        lift = SphereLift(
            scale=scale, bias=choice.bias, weights=space.weights, metric=space.matrix(), rest=space.rest
        ).fit(self.data.X, sample_weight=self.data.weights)

        def finish(ridge: float | None) -> Fitted:
            """Return the fit with this ridge, or with the best."""
            fit = self._fit_kernel(kernel, choice, ridge)
            penalty = fit.noise / self.data.weights
            gains = gains_of(fit.alpha, fit.outputs, self.width)
            self.progress.begin("training")
            results = [] if settings is None else self._train(inputs, settings, kernel, fit, penalty, gains)
            last = self.data.last(choose.SEARCHED)
            left_out = fit.left_out(last)
            return Fitted(
                lift=lift,
                choice=choice,
                learning=learning,
                left_out=LeftOut(last, left_out, partial(self._variances, fit, inputs, choice.shift), optimism),
                inputs=inputs,
                ridge=fit.ridge,
                error=fit.error,
                alpha=fit.alpha,
                penalty=penalty,
                gains=gains,
                results=results,
                importances=importances,
                asked=self._asked(fit, results, gains, left_out),
                again=again,
                loss=self.loss,
            )

        def again(ridge: float) -> Fitted:
            with device.session():
                return finish(ridge)

        fitted = finish(options.ridge)
        self.progress.end()
        return fitted

    def _asked(self, fit: Fit, results: Sequence[Result], gains: Matrix, left_out: Matrix) -> Asked:
        """Return rows that were left out one at a time, and what the fit says of them."""
        last, targets = self.data.last(choose.SEARCHED), self.data.targets
        size = float(np.linalg.norm(fit.alpha)) / math.sqrt(len(targets))
        asked = Asked(
            rows=last.X,
            data=last,
            left_out=left_out,
            promised=fit.outputs[-len(last) :],
            residual=_SOLVED,
            rounding=DOUBLE * size,
        )
        if not results:
            return asked
        outputs, left, stopped = promise_of(results, targets, fit.noise / self.data.weights, gains)
        return asked.of_networks(None if outputs is None else outputs[-len(last) :], left, interrupted=stopped)

    def _variances(self, fit: Fit, inputs: Matrix, shift: float) -> Matrix:
        """Return the variance of the limit at each observation left out (c,)."""
        limit: Fit | None = fit
        if self.width != math.inf:
            diagonal = firing_probability(shift)
            kernel = self.options.device.kernel(inputs, shift)
            limit = leave_one_out(kernel, self.data, ridge=fit.ridge, diagonal=diagonal)
        if limit is None:  # a tiny ridge that was enough for the network's own kernel
            limit = fit
        return np.maximum(limit.left_out_variance(self.data.last(choose.SEARCHED)), 0.0)

    def _choose_all(self) -> tuple[str, Space, Choice, Learning, float]:
        """Choose scale, bias, shift and features; return the space of rows, the choices, how optimistic they are."""
        self.progress.begin("choosing the scale")
        scale, scaling, guess = choose_scale(self.data, self.options)
        space = Space(self.data.with_rows(scaling.apply(self.data.X)))
        if self.data.X.shape[1] > COLUMNS and (self.options.plan is None or not self.options.plan.columns):
            space = in_span(space)  # no weights of columns will be learnt
        self.progress.begin("choosing bias and shift")
        plain = choice = self._choose(space, guess=guess, known=guess.tried)
        self.progress.begin("choosing features")
        learning = self._choose_plan(space, choice)
        self.progress.begin("learning features")
        space, choice = self._learn(space, choice, learning.plan)
        if self.width != math.inf:
            self.progress.begin("choosing for the network")
        best = choice
        if learning.plan != Plan():
            best = self._choose(space, guess=choice, favourite=choice, known=choice.tried)
        network = self._choose_network(space, choice, best)
        if network is None:
            return scale, space, best, learning, learning.optimism(plain.error, best.error)
        return scale, space, network, learning, learning.optimism(plain.error, choice.error)

    def _choose_network(self, space: Space, choice: Choice, limit: Choice) -> Choice | None:
        """Return the choice for the network, starting from one for the limit; None for the limit of infinite width.

        ``limit`` is the best choice for that, on the same rows. The network on them is as noisy as the one on all.
        """
        if self.width == math.inf:
            return None
        enough = limit.error * (1 + WORSE / 2)
        network = self._choose(space, guess=choice, favourite=choice, enough=enough, network=True)
        if self.data.count.sum() >= FEW and network.error > limit.error + _NOTHING:
            self.loss = network.error / max(limit.error, _NOTHING) - 1
        if not (self.options.or_limit and self.loss > WORSE):
            return network
        self.width = math.inf
        return None

    def _choose(
        self,
        space: Space,
        *,
        guess: Choice,
        favourite: Choice | None = None,
        enough: float = 0.0,
        known: Sequence[Tried] = (),
        network: bool = False,
    ) -> Choice:
        """Choose bias, shift and ridge on some rows, for the limit or a network; see :func:`choose.choose`."""
        options = self.options
        shifts = choose.SHIFTS if options.shift is None else [options.shift]
        if favourite is not None and options.shift is None and network:
            shifts = [favourite.shift, _QUIETEST]
        return choose.choose(
            space.turned().some(options.rows),
            biases=options.biases if options.bias is None else [options.bias],
            shifts=shifts,
            ridge=options.ridge,
            guess=guess.ridge,
            kernel_of=self._start_gram if network else options.device.kernel,
            favourite=favourite,
            enough=enough,
            known=known,
        )

    def _start_gram(self, inputs: Matrix, shift: float) -> DenseKernel:
        """Return the kernel of lifted inputs and a shift: that of a network at its start.

        Of fewer inputs than all rows it is that of a network with as much fewer neurons: as noisy as the whole one.
        """
        width = _even(self.options.width * len(inputs) / len(self.data))
        return self.options.device.start_gram(inputs, self._settings(inputs, shift, width))

    def _settings(self, inputs: Matrix, shift: float, width: int) -> NetworkSettings:
        return settings_of(self.options, dimension=inputs.shape[1], shift=shift, width=width)

    def _learns(self, columns: int) -> bool:
        """Return whether a metric may be learnt: not by itself in a space of many dimensions, as a round is O(d³)."""
        if self.options.plan is not None:
            return self.options.plan != Plan()
        return min(columns, len(self.data)) <= COLUMNS and self.data.count.sum() >= FEW

    def _choose_plan(self, space: Space, choice: Choice) -> Learning:
        columns = self.data.X.shape[1]
        if self.options.plan is not None or not self._learns(columns):
            return Learning(self.options.plan or Plan(), {})
        many = len(self.data) >= _MANY * self.options.rows  # there a plan that is best for few rows may not be
        some = space.data.some((1 + many) * self.options.rows)
        return choose_plan(
            some,
            bias=choice.bias,
            shift=choice.shift,
            ridge=self.options.ridge,
            guess=choice.ridge,
            columns=columns <= COLUMNS and self.data.count.sum() >= _FOR_COLUMNS,
            whole=len(some) == len(space.data),
            judge=self.options.judge,
            device=self.options.device,
        )

    def _learn(self, space: Space, choice: Choice, plan: Plan) -> tuple[Space, Choice]:
        """Return the space with weights of columns and metric as planned, in a basis of the rows if that is smaller."""
        if plan.columns:
            some = space.data.some(_WEIGHED)
            asked = {"bias": choice.bias, "shift": choice.shift, "ridge": choice.ridge}
            learnt = learn_columns(some, **asked, device=self.options.device)
            learnt = learnt.shrunk() if plan.shrunk else learnt
            space = space._replace(data=space.data.with_rows(space.data.X * learnt.weights), weights=learnt.weights)
            bias = learnt.bias if self.options.bias is None else choice.bias
            choice = self._ridge_of(space, choice._replace(bias=bias, ridge=learnt.ridge))
        space = in_span(space)
        for left in reversed(range(plan.rounds)):
            space = self._next_round(space, choice, plan.power, rows=_LEARNT[left == 0])
            choice = self._ridge_of(space, choice)
        return space, choice

    def _ridge_of(self, space: Space, choice: Choice) -> Choice:
        """Return the choice with the best ridge for a space, and its error there."""
        some = space.turned().some(self.options.rows)
        return choose.choose(
            some,
            biases=[choice.bias],
            shifts=[choice.shift],
            ridge=self.options.ridge,
            guess=choice.ridge,
            kernel_of=self.options.device.kernel,
        )

    def _next_round(self, space: Space, choice: Choice, power: float, *, rows: int) -> Space:
        """Return the space after one more round on some rows; the same one if their kernel has no solution."""
        some = space._replace(data=space.data.some(rows))
        metric = np.eye(space.data.X.shape[1]) if space.metric is None else space.metric
        inner = some.outer_products(choice, self.options.device)
        if inner is None:
            return space
        outer = metric @ inner @ metric.T
        return space._replace(metric=next_metric(outer, metric=metric, power=power))

    def _importances(self, space: Space, choice: Choice) -> Matrix:
        """Return the mean square of the gradient by each scaled column (d,), as a share of the sum of all."""
        d = self.data.X.shape[1]
        some = space._replace(data=space.data.some(self.options.rows))
        inner, matrix = some.outer_products(choice, self.options.device), space.matrix()
        if inner is None:
            return np.full(d, 1 / d)
        squares = np.maximum(inner.diagonal() if matrix is None else ((matrix @ inner) * matrix).sum(axis=1), 0.0)
        if space.weights is not None:
            squares *= space.weights**2
        return squares / squares.sum() if squares.sum() > 0 else np.full(d, 1 / d)

    def _fit_kernel(self, kernel: DenseKernel, choice: Choice, ridge: float | None) -> Fit:
        shift = choice.shift
        tell = self.progress.tried
        fit = choose.fit_kernel(kernel, self.data, shift=shift, ridge=ridge, guess=choice.ridge, tell=tell)
        if fit is None:
            remedy = "Use a smaller shift" if ridge is None else "Use a larger ridge, or a smaller shift"
            said = "'auto'" if ridge is None else f"{ridge:g}"
            raise InvalidInput(
                f"the kernel of these rows is not positive with shift={shift:g}, ridge={said}. {remedy}."
            )
        return fit

    def _train(
        self, inputs: Matrix, settings: NetworkSettings, kernel: DenseKernel, fit: Fit, penalty: Matrix, gains: Matrix
    ) -> list[Result]:
        """Train one network per output; the first step is the solution of the kernel of the network's start."""
        return train_penalised(
            inputs,
            self.data.targets / gains,
            settings=settings,
            penalty=penalty,
            first=fit.alpha / gains,
            near=kernel.near(penalty),
            tol=self.options.tol,
            max_iterations=self.options.max_iterations,
            threads=self.options.threads,
            where=self.options.where,
            callbacks=[self.progress.records()],
        )

    def _costs(self, n: int, d: int, outputs: int) -> dict[str, float]:
        """Return roughly what each part costs, in multiplications: how progress is told and time left guessed."""
        options = self.options
        some, ridges = float(min(n, options.rows)), 5.0 if options.ridge is None else 1.0
        one = some**3 * ridges + 200 * some**2
        network = options.width != math.inf
        width = float(options.width) if network else 0.0
        biases = len(options.biases) if options.bias is None else 1
        return {
            "choosing the scale": 5 * one if options.scale is None else 0.0,
            "choosing bias and shift": (biases + 3) * one,
            "choosing features": 60 * some**3 if options.plan is None and self._learns(d) else 0.0,
            "learning features": (15 * min(n, _WEIGHED) ** 3 + 3 * min(n, _LEARNT[0]) ** 3 + min(n, _LEARNT[1]) ** 3)
            if self._learns(d)
            else 0.0,
            "choosing for the network": network * (biases + 1) * (one + width * some / n * some * (some / 8 + d)),
            "fitting all rows": ridges * min(n, choose.SEARCHED) ** 3 + n**3 + width * n * (n / 8 + 2 * d) + 200 * n**2,
            "training": outputs * width * n * d * 2,
        }


def _even(width: float) -> int:
    """Return a number of neurons that come as twins."""
    return 2 * math.ceil(width / 2)
