"""The route of few rows: observations are left out one at a time, exactly, and kernels are matrices."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput
from thresher.estimators.data.observations import Observations
from thresher.estimators.data.single_columns import Angles
from thresher.estimators.interfaces import DenseOperator
from thresher.estimators.judging.leave_one_out import LeaveOneOut, LeaveOneOutFit
from thresher.estimators.judging.search import Choice, search
from thresher.estimators.kernels.kernel import Coordinates, SphereKernel
from thresher.estimators.models.fit_check import DOUBLE, Asked
from thresher.estimators.models.fitted import LeftOut, LimitFit, Networks
from thresher.estimators.models.networks import NO_ERROR, promise_of, train_few
from thresher.estimators.options import Learning, Options, Plan, Taken
from thresher.estimators.pipeline.budget import learns
from thresher.estimators.pipeline.parts import angles_of, choose_shares, seeing
from thresher.estimators.pipeline.plans import choose_plan, learn, spanned
from thresher.estimators.pipeline.route import Features, Model
from thresher.estimators.pipeline.scale import Scale, choose_scale, left_one_by_one
from thresher.estimators.progress import Progress
from thresher.parallel import blas_for_size
from thresher.theory import Shares

__all__ = ["FewRows"]

Matrix = NDArray[np.float64]
_QUIETEST = 0.0  # the shift at which the kernel of a network is least noisy
_MANY = 4  # times the rows on which features are chosen: from there on twice as many are taken
WORSE = 0.02  # share by which the error of a network exceeds that of the limit when it is measurably worse
_CERTAIN = 3.0  # standard errors by which that of the limit must exceed that of a network, as well, to take the network
_SOLVED = 1e-6  # what a factor in double precision may leave of the targets


class FewRows:
    """One fit of observations at few raw rows."""

    def __init__(self, data: Observations, options: Options, progress: Progress) -> None:
        self._data, self._options, self._progress = data, options, progress
        self._loss, self._optimism, self._why = 0.0, 1.0, ""
        self._matrix: DenseOperator | None = None  # the kernel of all rows, once it was made

    def computing(self) -> AbstractContextManager[object]:
        """Return the context of the backend."""
        return self._options.backend.session()

    def choose_scale(self) -> Scale:
        """Return the scale, by leaving out observations of some rows."""
        with blas_for_size(self._options.rows):  # threads of BLAS would wait for each other over small matrices
            return choose_scale(self._data, left_one_by_one(self._data, self._options), self._options)

    def choose_kernel(self, scale: Scale) -> Features:
        """Return the kernel: bias and shift, features, bias and shift again, and for a network once more."""
        with blas_for_size(self._options.rows):
            taken = self._options.taken
            return self._choose_kernel(scale) if taken is None else self._take_kernel(scale, taken)

    def _choose_kernel(self, scale: Scale) -> Features:
        options, progress = self._options, self._progress
        data, coordinates = self._data.with_rows(scale.scaling.apply(self._data.X)), Coordinates()
        if data.X.shape[1] > options.sizes.columns and (options.plan is None or not options.plan.columns):
            # No weights of columns will be learnt.
            data, coordinates = spanned(data, coordinates, most=options.sizes.spanned)
        kernel = options.first_kernel._replace(rest=coordinates.basis is not None)
        progress.begin("choosing bias and shift")
        plain = self._search(data, kernel, guess=scale.choice.ridge, known=scale.choice.tried)
        progress.begin("choosing features")
        learning = self._choose_plan(data, plain)
        progress.begin("learning features")
        data, coordinates, choice = learn(data, coordinates, plain, learning.plan, options, self._with_best_ridge)
        best = choice
        if options.width != math.inf:
            progress.begin("choosing for the network")
        if learning.plan != Plan():
            kernel = choice.kernel
            best = self._search(data, kernel, guess=choice.ridge, favourite=kernel, known=choice.tried)
        before, angles, errors = best, angles_of(self._data, options), dict[Shares, float]()
        if angles is not None:
            seen = data.with_rows(np.hstack([data.X, angles.apply(self._data.X)]))
            best, errors = self._choose_parts(seen, best, len(angles))
            data = data if best.kernel.parts is None else seen
        network = None
        if best.kernel.parts is None:
            network = self._choose_network(data, choice, best)
        elif options.or_limit:
            self._why = "neurons that see few columns are there in the limit of infinite width alone"
        self._optimism = learning.optimism(plain.error, before.error if network is None else choice.error)
        return self._features(coordinates, data, best if network is None else network, learning, angles, errors)

    def _take_kernel(self, scale: Scale, taken: Taken) -> Features:
        """Return what an earlier fit has chosen, at these rows."""
        angles, coordinates = angles_of(self._data, self._options), taken.coordinates
        data, choice = self._data.with_rows(scale.scaling.apply(self._data.X)), seeing(taken.choice, angles)
        data = data.with_rows(coordinates.apply(data.X))
        if choice.kernel.parts is not None and angles is not None:
            data = data.with_rows(np.hstack([data.X, angles.apply(self._data.X)]))
        return self._features(coordinates, data, choice, taken.learning, angles, taken.errors_of_parts)

    def _features(
        self,
        coordinates: Coordinates,
        data: Observations,
        best: Choice,
        learning: Learning,
        angles: Angles | None,
        errors: dict[Shares, float],
    ) -> Features:
        most = self._options.sizes.left_out
        self._chosen, self._raw, self._at = best, self._data.shuffled(most), data.shuffled(most)
        some = self._at.some(self._options.rows)
        plain_rows = some.with_rows(best.kernel.split(some.X)[0])
        return Features(coordinates, best, learning, plain_rows, angles, errors)

    def _choose_parts(self, data: Observations, choice: Choice, columns: int) -> tuple[Choice, dict[Shares, float]]:
        """Return the choice with parts, at rows that end with the angles of so many columns; see choose_shares."""
        options = self._options
        rows = options.sizes.left_out if len(options.tried_shares) > 1 else options.rows
        judge = LeaveOneOut(data.some(rows), options.backend, measure=options.measure)
        return choose_shares(judge, choice, columns, options)

    def _judge(self, data: Observations) -> LeaveOneOut:
        return LeaveOneOut(data, self._options.backend, last=self._options.sizes.left_out)

    def _search(self, data: Observations, kernel: SphereKernel, **more: Any) -> Choice:
        """Return the best bias, shift and ridge on some rows; see :func:`search`."""
        options = self._options
        asked = {"biases": options.tried_biases, "shifts": options.tried_shifts, "ridge": options.ridge}
        return search(self._judge(data.some(options.rows)), kernel, **{**asked, **more})

    def _with_best_ridge(self, data: Observations, kernel: SphereKernel, guess: float) -> Choice:
        return self._search(data, kernel, biases=[kernel.bias], shifts=[kernel.shift], guess=guess)

    def _choose_plan(self, data: Observations, choice: Choice) -> Learning:
        """Return which features are learnt: as asked for, or by cross-validation."""
        options, columns, sizes = self._options, self._data.X.shape[1], self._options.sizes
        if options.plan is not None or not learns(self._data, options):
            return Learning(options.plan or Plan(), {})
        many = len(data) >= _MANY * options.rows  # there a plan that is best for few rows may not be
        some = data.some((1 + many) * options.rows)
        return choose_plan(
            some,
            choice.kernel,
            ridge=options.ridge,
            guess=choice.ridge,
            columns=columns <= sizes.columns and self._data.count.sum() >= sizes.for_columns,
            whole=len(some) == len(data),
            measure=options.measure,
            backend=options.backend,
        )

    def _choose_network(self, data: Observations, choice: Choice, limit: Choice) -> Choice | None:
        """Return the choice for the network, starting from one for the limit; None for the limit of infinite width.

        ``limit`` is the best choice for that, on the same rows. The network on them is as noisy as the one on all.
        """
        options = self._options
        if options.width == math.inf:
            self._why = "a fit with this loss is there in the limit of infinite width alone" if options.or_limit else ""
            return None
        start = options.start(len(self._data))
        if options.or_limit:
            return self._better_network(data, limit, limit.kernel._replace(start=start))
        shifts = [choice.kernel.shift, _QUIETEST] if options.shift is None else options.tried_shifts
        enough = limit.error * (1 + WORSE / 2)
        kernel = choice.kernel._replace(start=start)
        network = self._search(data, kernel, guess=choice.ridge, shifts=shifts, favourite=choice.kernel, enough=enough)
        if self._data.count.sum() >= options.sizes.for_judging and network.error > limit.error + NO_ERROR:
            self._loss = network.error / max(limit.error, NO_ERROR) - 1
        return network

    def _better_network(self, data: Observations, limit: Choice, kernel: SphereKernel) -> Choice | None:
        """Return the choice for the network with this kernel if it is measurably better than the limit, else None.

        The kernel of a network is that of the limit with noise. At the widths of width="auto" a prediction passes over
        more neurons than there are rows, so that of the two, if they are equally good, the limit predicts cheaper.
        """
        judge = self._judge(data.some(self._options.rows))
        network = judge.evaluate(kernel, ridge=self._options.ridge, guess=limit.ridge)
        plain = judge.evaluate(limit.kernel, ridge=limit.ridge)
        if network is None or plain is None or self._data.count.sum() < self._options.sizes.for_judging:
            self._why = "too few rows to compare the limit with networks"
            return None
        errors = [((judge.held.target - judge.left_out(one)) ** 2).sum(axis=1) for one in (plain, network)]
        shares = judge.held.weight / judge.held.weight.sum()
        gain = float(shares @ (errors[0] - errors[1]))
        doubt = float(np.linalg.norm(shares * (errors[0] - errors[1] - gain)))
        better = gain > max(WORSE * network.error, _CERTAIN * doubt, NO_ERROR)
        change = f"{abs(gain) / max(plain.error, NO_ERROR):.1%} {'smaller' if gain > 0 else 'larger'}"
        words = f"on rows left out, the squared error of networks of {self._options.width:,} neurons is {change}"
        self._why = words if better else f"{words}, no sure gain, and they take longer to predict"
        return Choice(kernel, network.ridge, network.error, limit.tried) if better else None

    def fit(self, ridge: float | None) -> Model:
        """Return the fit of all rows by a Cholesky factor, with the ridge that is best for some of them."""
        options, data, kernel = self._options, self._at, self._chosen.kernel
        inputs, _, last = kernel.lift(data.X, data.weights)
        if self._matrix is None:
            self._matrix = kernel.matrix(inputs, options.backend)
        judge = self._judge(data)
        fit = self._solved(judge, self._matrix, options.ridge if ridge is None else ridge)
        left_out = judge.left_out(fit)
        variances = partial(self._variances, fit, judge)
        seen = LeftOut(judge.held, left_out, variances, self._optimism, fitted=data.with_rows(inputs))
        limit = LimitFit(inputs, fit.alpha, kernel.penalty(fit.ridge, data.weights), fit.ridge, fit.error, seen)
        self._progress.begin("training")
        networks = None if kernel.start is None else self._train(limit, fit, self._matrix)
        return Model(limit, networks, self._asked(fit, networks, left_out), last, self._why)

    def _solved(self, judge: LeaveOneOut, matrix: DenseOperator, ridge: float | None) -> LeaveOneOutFit:
        """Return the fit of all rows with this ridge, or with the best; refuse a kernel that is not positive."""
        choice = self._chosen
        fit = judge.fit(matrix, choice.kernel, ridge=ridge, guess=choice.ridge, tell=self._progress.tried)
        if fit is None:
            remedy = "Use a smaller shift" if ridge is None else "Use a larger ridge, or a smaller shift"
            said = "'auto'" if ridge is None else f"{ridge:g}"
            shift = choice.kernel.shift
            raise InvalidInput(
                f"the kernel of these rows is not positive with shift={shift:g}, ridge={said}. {remedy}."
            )
        return fit

    def _asked(self, fit: LeaveOneOutFit, networks: Networks | None, left_out: Matrix) -> Asked:
        """Return rows that were left out one at a time, and what the fit says of them."""
        last, targets = self._raw.last(self._options.sizes.left_out), self._at.targets
        size = float(np.linalg.norm(fit.alpha)) / math.sqrt(len(targets))
        asked = Asked(
            rows=last.X,
            data=last,
            left_out=left_out,
            promised=fit.outputs[-len(last) :],
            residual=_SOLVED,
            rounding=DOUBLE * size,
        )
        if networks is None:
            return asked
        outputs, left, stopped = promise_of(networks.results, targets, networks.penalty, networks.gains)
        return asked.of_networks(None if outputs is None else outputs[-len(last) :], left, interrupted=stopped)

    def _variances(self, fit: LeaveOneOutFit, judge: LeaveOneOut) -> Matrix:
        """Return the variance of the limit at each observation left out (c,)."""
        kernel = self._chosen.kernel
        limit = fit if kernel.start is None else judge.evaluate(kernel._replace(start=None), ridge=fit.ridge)
        if limit is None:  # a tiny ridge that was enough for the network's own kernel
            limit = fit
        return np.maximum(limit.left_out_variance(judge.held), 0.0)

    def _train(self, limit: LimitFit, fit: LeaveOneOutFit, matrix: DenseOperator) -> Networks:
        """Train one network per output; the first step is the solution of the kernel of the network's start."""
        kernel, data = self._chosen.kernel, self._at
        return train_few(
            limit,
            fit.outputs,
            data,
            kernel,
            self._options,
            near=matrix.near(limit.penalty),
            loss=self._loss,
            callbacks=[self._progress.records()],
        )
