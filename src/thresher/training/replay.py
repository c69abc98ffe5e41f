"""Replay: the network of a training, made again from the steps that were taken, without a solve."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thresher.checks import check_values
from thresher.errors import InvalidInput
from thresher.model.network import Network
from thresher.model.problem import Problem
from thresher.parallel import blas_for_size
from thresher.training.loop import prepare

__all__ = ["replay", "replay_together"]


def replay(problem: Problem, *, steps: Iterable[ArrayLike], **options: Any) -> Network:
    """Return the network that training had arrived at after these steps, to the bit.

    Parameters
    ----------
    problem : the one it was trained on
    steps : ``Result.steps``, (n,) each, in order; fewer of them give the network of an earlier iteration
    options : those of :func:`train`. Width, shift, seed, activation, twins, index, first_step, method and dtype must be
        the same as in training; the number of threads need not. What only a solve needs is not used.

    Cost: the pass O(mnd) of every start, and a move for each step.
    """
    return replay_together([problem], steps=[steps], **options)[0]


def replay_together(
    problems: Sequence[Problem], *, steps: Sequence[Iterable[ArrayLike]], **options: Any
) -> list[Network]:
    """Return what :func:`replay` would for each of several problems with the same inputs, from one start.

    ``steps`` are those of each problem. Cost: O(mnd) once; per problem O(mn) and its moves.
    """
    runs = prepare(problems, **options)
    if len(steps) != len(runs):
        raise InvalidInput(f"steps must be given for each problem: {len(runs)} lists; got {len(steps)}.")
    if not runs:
        return []
    paths = [[_check_step(step, run.problem.size) for step in path] for run, path in zip(runs, steps, strict=True)]
    ahead = [path.pop(0) if path and run.first_step == "limit" else None for run, path in zip(runs, paths, strict=True)]
    engines = [run.engine for run in runs]
    with blas_for_size(problems[0].size):
        engines[0].start_together(engines, runs[0].callbacks.on_progress, first_steps=ahead)
        for engine, path in zip(engines, paths, strict=True):
            engine.linearise()
            for step in path:
                engine.move(step)
                engine.linearise()
        return [Network(run.settings, run.engine.weights()) for run in runs]


def _check_step(step: ArrayLike, inputs: int) -> NDArray[np.float64]:
    values = check_values(step, "a step", shape="(n,)")
    if len(values) != inputs:
        raise InvalidInput(f"a step must have one value for each of the {inputs} inputs; got {len(values)}.")
    return values
