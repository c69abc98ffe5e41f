"""Interpolation: with ``ridge=0`` networks are trained with certificates, without a penalty, until every row is met."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from thresher.errors import InvalidInput
from thresher.estimators.data.lift import SphereLift
from thresher.estimators.data.observations import Observations, distinct_rows
from thresher.estimators.models.fit_check import ASKED, SOLVED, Asked, FitCheck, check_answers
from thresher.estimators.options import Options
from thresher.estimators.progress import Progress
from thresher.theory import Shares
from thresher.training import Callback, Iteration, Result, Status, train

__all__ = ["BIAS", "SCALE", "TRAIN_OPTIONS", "WIDTH", "adopt", "check_interpolation", "interpolate"]

Matrix = NDArray[np.float64]
BIAS = 0.5  # of the lift, with bias="auto": keeps lengths apart, inputs still well spread
SCALE = "standardise"  # with scale="auto"
_ROUNDING = 1e-4  # of answers: training may be in single precision
WIDTH = 1 << 17  # with width="auto": training is sublinear in it
TRAIN_OPTIONS = ("index", "solver", "method", "first_step", "damping", "dtype", "memory_budget",
                 "audit", "start", "checkpoint", "resume")  # fmt: skip
_WITH_A_RIDGE = ("alpha_", "penalty_", "noise_", "residuals_", "feature_importances_", "_effects", "_again",
                 "quantile_fits_", "dispersion_", "loss_scores_")  # of an earlier fit  # fmt: skip


def check_interpolation(estimator: Any, *, interpolates: bool) -> None:
    """Refuse parameters that go with a ridge alone, or without one alone."""
    options = estimator.train_options
    if options is not None and not (isinstance(options, Mapping) and set(options) <= set(TRAIN_OPTIONS)):
        raise InvalidInput(f"train_options must be a dict of {', '.join(TRAIN_OPTIONS)}; got {options!r}.")
    if not interpolates:
        if options:
            raise InvalidInput("train_options are for ridge=0, which trains like thresher.train. Leave them out.")
        return
    if estimator.width == math.inf:
        raise InvalidInput("ridge=0 trains a network; infinite width needs a ridge. Use a finite width, or 'auto'.")
    if estimator.feature_learning not in ("auto", 0):
        raise InvalidInput("ridge=0 learns no features. Use feature_learning=0, or another ridge.")


def interpolate(
    estimator: Any,
    data: Observations,
    options: Options,
    *,
    train_options: Mapping[str, Any],
    callbacks: Sequence[Callback | Callable[[Iteration], bool | None]],
    verbose: bool,
) -> None:
    """Train one network per output until its targets are met at every row; give the estimator what came of it.

    Cost: that of :func:`thresher.train` on lifted rows.
    """
    bias = BIAS if options.bias is None else options.bias
    lift = SphereLift(scale=options.scale or SCALE, bias=bias).fit(data.X, sample_weight=data.weights)
    inputs = lift.transform(data.X)
    targets = _targets(data, inputs)
    with Progress(verbose=verbose) as progress:
        progress.plan({"training": 1.0})
        progress.begin("training")
        results = train(
            inputs,
            targets,
            width=int(options.width),
            shift=options.shift,
            seed=options.seed,
            twins=True,
            tol=options.tol,
            max_iterations=options.max_iterations,
            threads=options.threads,
            callbacks=[*callbacks, progress.records()],
            **train_options,
        ).outputs
        progress.end()
    adopt(estimator, lift, inputs, results)
    estimator.fit_check_ = _check(estimator, data.some(ASKED), results)
    missed = [result for result in results if result.status in (Status.STALLED, Status.OUT_OF_ITERATIONS)]
    if missed:
        said = f"{len(missed)} of {len(results)} networks do not meet their targets: {missed[0].message}"
        warnings.warn(said, ConvergenceWarning, stacklevel=4)


def adopt(estimator: Any, lift: SphereLift, inputs: Matrix, results: Sequence[Result]) -> None:
    """Give an estimator what training without a ridge leaves behind. Nothing was chosen, nothing left out."""
    estimator.lift_, estimator.scale_, estimator.bias_ = lift, lift.scale, lift.bias
    estimator.results_, estimator.inputs_ = list(results), inputs
    estimator.shift_, estimator.ridge_ = results[0].network.shift, 0.0
    estimator.gains_ = np.ones(len(results))
    estimator.parts_, estimator.parts_errors_ = Shares(), {}
    estimator.pivots_ = estimator.core_ = estimator.leaves_ = None
    estimator.approximation_, estimator.approximation_errors_ = "exact", {}
    estimator.feature_learning_, estimator.columns_weighed_ = 0, False
    estimator.feature_learning_errors_, estimator.tried_ = {}, []
    estimator.loo_error_ = estimator.loo_share_ = np.nan
    estimator.n_iter_ = max(len(result.steps) for result in results)
    estimator.width_reason_, estimator.double_precision_ = "ridge=0 trains networks", True
    for name in _WITH_A_RIDGE:
        vars(estimator).pop(name, None)


def _check(estimator: Any, some: Observations, results: Sequence[Result]) -> FitCheck:
    """Compare what the estimator answers at some rows with their targets; refuse what training did not leave."""
    met = all(result.status is Status.CONVERGED for result in results)
    check = check_answers(
        Asked(
            rows=some.X,
            data=some,
            left_out=some.target[:0],
            promised=some.targets if met else None,
            residual=SOLVED * math.hypot(*(result.history[-1].residual for result in results)) / math.sqrt(len(some)),
            rounding=_ROUNDING,
        ),
        estimator._outputs_of(estimator.lift_.transform(some.X)),
    )
    if check.failure:
        del estimator.results_  # it does not count as fitted
        raise InvalidInput(f"the trained networks do not answer as they did in training: {check.failure}.")
    return check


def _targets(data: Observations, inputs: Matrix) -> Matrix:
    """Return the targets at each row (n, k); refuse rows that are one input (lifted: n, d) with several targets."""
    lifted, place = distinct_rows(inputs)
    group = place[data.row]
    first = np.empty((len(lifted), data.target.shape[1]))
    first[group] = data.target
    differ = (first[group] != data.target).any(axis=1)
    if differ.any():
        raise InvalidInput(
            f"ridge=0 meets every target, but {len(np.unique(group[differ])):,} rows of X come with more than one: "
            "equal inputs, as scaled and lifted, with different y. Use ridge='auto', which fits their mean."
        )
    return first[place]
