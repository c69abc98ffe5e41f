"""The route of many rows: some are held out, and kernels are operators. Nothing costs more than O(n²) per step.

Rows are held out while everything is chosen, down to the ridge of all others. An exact fit then goes on from there to
all rows; one on centres, or in leaves, leaves them out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.estimators.data.observations import Observations
from thresher.estimators.data.scaling import Scaling
from thresher.estimators.data.single_columns import Angles
from thresher.estimators.data.streams import Stream, norm_of_blocks
from thresher.estimators.judging.holdout import HoldOut, share_that_remains
from thresher.estimators.judging.measures import mean_square
from thresher.estimators.judging.ridges import ridges_near
from thresher.estimators.judging.search import Choice, search
from thresher.estimators.kernels.kernel import Coordinates, SphereKernel
from thresher.estimators.models.beyond import fit_beyond
from thresher.estimators.models.centres import fit_centres
from thresher.estimators.models.exact import fit_exact
from thresher.estimators.models.fit_check import SINGLE, SOLVED, Asked
from thresher.estimators.models.fitted import LimitFit, Networks, RowsToFit
from thresher.estimators.models.networks import promise_of, train_many
from thresher.estimators.options import Learning, Options, Plan
from thresher.estimators.pipeline.columns import learn_columns
from thresher.estimators.pipeline.parts import angles_of, choose_shares, seeing
from thresher.estimators.pipeline.rounds import Rounds
from thresher.estimators.pipeline.route import Features, Model
from thresher.estimators.pipeline.scale import Scale, Trials, choose_scale
from thresher.estimators.progress import Progress
from thresher.parallel import blas_for_size
from thresher.tables.rows_on_disk import BLOCK
from thresher.theory import Shares

__all__ = ["ManyRows"]

Matrix = NDArray[np.float64]
_CLEARLY = 0.98  # share of the error of centres that an exact fit must leave
# Shares of the error of rows left out by which answers may miss what is promised at most: after an exact solve, which
# may have stopped early, and where answers for the same rows are there already.
_HALF, _AGREE = 0.5, 0.1


class ManyRows:
    """One fit of observations at many raw rows."""

    def __init__(self, data: Observations, options: Options, progress: Progress) -> None:
        self._data, self._options, self._progress = data, options, progress
        self._way, self._errors = options.approximation, dict[str, float]()
        sizes, (n, d) = options.sizes, data.X.shape
        self._bare = data.with_rows(np.zeros((n, 0)))  # without the inputs, which are large
        self._held, self._kept = data.held_out(sizes.held)
        some = max(sizes.large, min(sizes.scaled, sizes.sorted // d))
        self._kept_data = data.at(self._kept[:some])  # some of them, in memory, as those held out
        self._held_data = data.at(self._held)

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Use the threads of ``parallel``: BLAS's own would wait for work beside them."""
        with blas_for_size(0), self._options.backend.session():
            yield

    def choose_scale(self) -> Scale:
        """Return the scale, by rows held out; those that are close are compared on more rows.

        On more still where nothing else is learnt.
        """
        sizes, d = self._options.sizes, self._data.X.shape[1]
        if self._options.taken is not None:
            return choose_scale(self._kept_data, None, self._options)
        closer = sizes.large if d > sizes.columns else sizes.held
        trials = Trials(
            rows=self._kept_data.at(np.arange(min(sizes.held, len(self._kept_data)))),
            judge=partial(self._part, sizes.small, Coordinates()),
            closer=partial(self._part, closer, Coordinates()),
            all_kernels=False,
            looked=1 / 0.98,
            clearly=0.995,
            most=2,
        )
        return choose_scale(self._kept_data, trials, self._options)

    def choose_kernel(self, scale: Scale) -> Features:
        """Return the kernel, by rounds on rows held out, and how all rows will be fitted."""
        taken, errors = self._options.taken, dict[Shares, float]()
        self._angles = angles_of(self._kept_data, self._options)
        if taken is None:
            coordinates, choice, learning, errors = self._learn_kernel(scale)
        else:
            coordinates, choice, learning = taken.coordinates, seeing(taken.choice, self._angles), taken.learning
            self._way, errors = taken.way, taken.errors_of_parts
        seen = None if choice.kernel.parts is None else self._angles
        small = self._part(self._options.sizes.small, coordinates, scale.scaling, angles=seen, mixed=False)
        self._small, self._chosen = small, choice
        self._to_coordinates = partial(_coordinates, scale.scaling, coordinates, seen, choice.kernel)
        some = small.data.with_rows(choice.kernel.split(small.data.X)[0])
        return Features(coordinates, choice, learning, some, seen, errors)

    def _learn_kernel(self, scale: Scale) -> tuple[Coordinates, Choice, Learning, dict[Shares, float]]:
        """Learn and choose all of it, and how all rows are fitted."""
        options, sizes, progress = self._options, self._options.sizes, self._progress
        progress.begin("choosing bias, shift and features")
        coordinates, scaling = Coordinates(), scale.scaling
        small = self._part(sizes.small, coordinates, scaling)
        first = Choice(options.first_kernel, scale.choice.ridge, math.inf, [])
        d, plan = self._data.X.shape[1], options.plan
        choice = (
            None if plan is None and options.learns(d) and d > 1 else self._search(small, first.kernel, first.ridge)
        )
        if plan is not None and plan.columns and choice is not None:
            few = self._part(sizes.weighed, coordinates, scaling).data
            learnt = learn_columns(few, choice.kernel, ridge=choice.ridge, backend=options.backend)
            coordinates = Coordinates(weights=learnt.weights)
            bias = learnt.bias if options.bias is None else choice.kernel.bias
            choice = choice._replace(kernel=choice.kernel._replace(bias=bias), ridge=learnt.ridge)
            small = self._part(sizes.small, coordinates, scaling)
        large = self._part(sizes.large, coordinates, scaling)
        rounds = Rounds(small, large, options, progress.share)
        if choice is None:
            choice, learning = rounds.learn(first, partial(self._search, small))
        else:
            learning = Learning(Plan(), {})
            if plan is not None and plan != learning.plan:
                choice, learning = rounds.as_planned(plan, choice, partial(self._search, small))
            if self._data.targets.shape[1] > sizes.ridge_outputs and options.ridge is None:
                solved = rounds.fit(large, choice)
                choice = choice if solved is None else choice._replace(ridge=solved.ridge)
        errors = dict[Shares, float]()
        if self._angles is not None:
            part = partial(self._part, coordinates=coordinates, scaling=scaling, angles=self._angles)
            choice, errors = choose_shares(part(sizes.small), choice, len(self._angles), options)
            large = large if choice.kernel.parts is None else part(sizes.large)
        progress.begin("fitting all rows")
        self._way, self._errors = self._choose_way(rounds, large, choice)
        return coordinates, choice, learning, errors

    def fit(self, ridge: float | None) -> Model:
        """Return the fit of all rows, exact or not, and networks if they were asked for."""
        last, limit = self._fit_all(ridge)
        limit = limit._replace(errors=self._errors | limit.errors)
        limit = limit._replace(left_out=limit.left_out._replace(optimism=self._gain(limit)))
        if self._options.width == math.inf:
            return Model(limit, None, self._asked(last, limit, None), last)
        inputs = _inputs(self._to_coordinates, self._chosen.kernel._replace(metric=None), last, self._data.X)
        networks = self._train(inputs, limit, ridge)
        asked = self._asked(last, limit, networks)
        worse, left_out = 1 + networks.loss, limit.left_out  # errors of rows left out are those of the limit
        left_out = left_out._replace(optimism=worse * left_out.optimism)
        return Model(limit._replace(inputs=inputs, error=limit.error * worse, left_out=left_out), networks, asked, last)

    def _part(
        self,
        size: int,
        coordinates: Coordinates,
        scaling: Scaling,
        *,
        angles: Angles | None = None,
        mixed: bool = True,
    ) -> HoldOut:
        """Return no more than ``size`` of the rows to fit, and as many that are held out, at some coordinates.

        The angles of single columns follow, if there are any. Of many outputs random sums will do to choose by.
        """
        parts = [one.at(np.arange(min(size, len(one)))) for one in (self._kept_data, self._held_data)]
        if mixed and self._options.measure is mean_square:
            parts = [one.mixed(self._options.sizes.mixed) for one in parts]
        kept, held = (one.with_rows(_rows(scaling, coordinates, angles, one.X)) for one in parts)
        return HoldOut(kept, held, self._options.backend, measure=self._options.measure)

    def _search(
        self, hold: HoldOut, kernel: SphereKernel, guess: float, favourite: SphereKernel | None = None
    ) -> Choice:
        options = self._options
        return search(
            hold,
            kernel,
            biases=options.tried_biases,
            shifts=options.tried_shifts,
            ridge=options.ridge,
            guess=guess,
            favourite=favourite,
        )

    def _ridges(self, choice: Choice) -> list[float]:
        return ridges_near(choice.ridge) if self._options.ridge is None else [self._options.ridge]

    def _choose_way(self, rounds: Rounds, large: HoldOut, choice: Choice) -> tuple[str, dict[str, float]]:
        """Return how all rows are fitted, and the errors of the fits to some rows that this was decided by.

        From some number of rows on an exact fit costs several times as much as others. It is made if it is clearly
        better than centres on as many rows as features are learnt from; more rows make it better still.
        """
        n, way, options, sizes = len(self._data), self._options.approximation, self._options, self._options.sizes
        cheap = sizes.exact_cheap if options.backend.exact_is_costly else sizes.exact
        if way != "auto" or n > sizes.exact or n <= cheap or options.width != math.inf:
            return ("exact" if way == "auto" and n <= sizes.exact else way), {}
        exact = rounds.fit(large, choice)
        inputs, others, _ = large.lifted(choice.kernel)
        few, held = large.data, large.held
        made = fit_centres(
            np.concatenate([inputs, others]),
            np.concatenate([few.targets, held.targets]),
            np.concatenate([few.weights, held.weights]),
            kept=np.arange(len(few)),
            held=len(few) + np.arange(len(held)),
            kernel=choice.kernel,
            ridges=self._ridges(choice),
            centres=sizes.centres,
            sample=sizes.sample,
            backend=options.backend,
        )
        errors = {
            "exact": math.inf if exact is None else large.measured(exact),
            "centres": options.measure(held, made.held_outputs[held.row]),
        }
        way = "exact" if errors["exact"] < _CLEARLY * errors["centres"] else "auto"
        return way, {f"{name} on {len(few):,} rows": error for name, error in errors.items()}

    def _fit_all(self, ridge: float | None) -> tuple[float, LimitFit]:
        """Return the bias coordinate of inputs, and the fit to all rows, exact or not.

        If a ridge is given, the fit is made again with that one and with more care.
        """
        options, data, choice, kernel = self._options, self._data, self._chosen, self._chosen.kernel
        ridges = self._ridges(choice) if ridge is None else [ridge]
        many = data.targets.shape[1] > options.sizes.ridge_outputs  # each ridge costs as much as all outputs
        if ridge is None and options.ridge is None and (many or options.taken is not None):
            ridges = [choice.ridge]
        given = RowsToFit(
            self._bare, self._kept, self._held, kernel, ridges, options.measure, options.backend, options.sizes,
            careful=ridge is not None,
        )  # fmt: skip
        weights = np.zeros(len(data))
        weights[self._kept] = data.weights[self._kept]
        last = kernel.bias * norm_of_blocks(data.X, lambda rows: kernel.split(self._to_coordinates(rows))[0], weights)
        lift = partial(_inputs, self._to_coordinates, kernel._replace(metric=None), last)
        tell = self._progress.share
        if self._way == "exact":
            return last, fit_exact(lift(data.X).astype(np.float32), given, tell=tell)
        stream, order = Stream(data.X, lift), np.concatenate([self._kept, self._held])
        if data.on_disk:
            return last, fit_beyond(stream, None, given, way=self._way, tell=tell)
        rows_of = partial(_in_blocks, self._to_coordinates, data.X, order) if kernel.bias > 0 else None
        return last, fit_beyond(stream.in_memory(), rows_of, given, way=self._way, tell=tell)

    def _gain(self, limit: LimitFit) -> float:
        """Return what share of the squared error on rows left out remains when they are fitted as well, if they are."""
        if limit.way != "exact":
            return 1.0
        small, choice = self._small, self._chosen
        few = small.evaluate(choice.kernel, ridge=self._options.ridge, guess=choice.ridge)
        if few is None:
            return 1.0
        after = mean_square(limit.left_out.data, limit.left_out.outputs)
        sizes = {"few": len(small.data), "kept": len(self._kept), "whole": len(self._data)}
        return share_that_remains(few.error, after, **sizes)

    def _train(self, inputs: Matrix, limit: LimitFit, ridge: float | None) -> Networks:
        """Return the networks that were asked for; those of a fit that is made again have its ridge."""
        self._progress.begin("training")
        kernel, data = self._chosen.kernel._replace(start=self._options.start(len(self._data))), self._data
        options = self._options if ridge is None else self._options._replace(ridge=ridge)
        return train_many(inputs, limit, data, self._small, kernel, options, callbacks=[self._progress.records()])

    def _asked(self, last: float, limit: LimitFit, networks: Networks | None) -> Asked:
        """Return the rows left out, and what the fit says of them. Cost: O(r³), r = 1024."""
        left, kernel, backend = self._held_data, self._chosen.kernel, self._options.backend
        few = self._kept_data.at(np.arange(min(self._options.sizes.few_rows, len(self._kept_data))))
        inputs = _inputs(self._to_coordinates, kernel._replace(metric=None), last, np.concatenate([few.X, left.X]))
        matrix = backend.dense(kernel, inputs)
        alpha = matrix.solve(kernel.penalty(limit.ridge, few.weights), few.targets)
        asked = Asked(
            rows=left.X,
            data=left,
            left_out=limit.left_out.outputs,
            promised=None,
            residual=0.0,
            rounding=SINGLE * float(np.linalg.norm(limit.alpha)) / math.sqrt(len(limit.alpha)),
            few_rows=None if alpha is None else matrix.rest(alpha),
            size=math.sqrt(mean_square(self._bare, np.zeros_like(self._bare.target))),
        )
        if networks is not None:
            outputs, lost, stopped = promise_of(networks.results, self._data.targets, networks.penalty, networks.gains)
            outputs = None if outputs is None else outputs[self._held]
            worse = math.sqrt(1 + networks.loss)  # errors of rows left out are those of the limit
            asked = asked._replace(left_out=left.target + worse * (asked.left_out - left.target))
            return asked.of_networks(outputs, lost, interrupted=stopped)
        error = math.sqrt(mean_square(left, asked.left_out))
        if limit.way == "exact":
            held, targets = self._held, self._data.targets
            away = kernel.penalty(limit.ridge, self._data.weights)[held, None] * limit.alpha[held]
            # As if all of the residual were at the rows that had been left out.
            size = float(np.linalg.norm(targets)) / math.sqrt(len(held))
            most = min(SOLVED * limit.residual * size, _HALF * error)
            return asked._replace(promised=targets[held] - away, residual=most)
        said = np.empty_like(left.targets)
        said[left.row] = asked.left_out
        return asked._replace(promised=said, residual=_AGREE * error)


ToCoordinates = Callable[[Matrix], Matrix]  # makes of raw rows (k, d) what is divided by its norms: (k, r)


def _rows(scaling: Scaling, coordinates: Coordinates, angles: Angles | None, rows: Matrix) -> Matrix:
    """Return the coordinates (k, r) of raw rows (k, d), and after them the angles of single columns, if any."""
    found = coordinates.apply(scaling.apply(rows))
    return found if angles is None else np.hstack([found, angles.apply(rows)])


def _coordinates(
    scaling: Scaling, coordinates: Coordinates, angles: Angles | None, kernel: SphereKernel, rows: Matrix
) -> Matrix:
    """Return what becomes of raw rows (k, d) before they are divided by their norms: (k, r)."""
    return kernel.coordinates(_rows(scaling, coordinates, angles, rows))


def _inputs(to_coordinates: ToCoordinates, kernel: SphereKernel, last: float, rows: Matrix) -> Matrix:
    """Return the inputs of raw rows, with this bias coordinate; the kernel has no metric: that was applied."""
    return kernel.lift(to_coordinates(rows), last=last).inputs


def _in_blocks(to_coordinates: ToCoordinates, rows: Any, order: NDArray[np.int64]) -> Matrix:
    """Return the coordinates of raw rows, in this order, block by block."""
    parts = [to_coordinates(rows[order[first : first + BLOCK]]) for first in range(0, len(order), BLOCK)]
    return np.concatenate(parts)
