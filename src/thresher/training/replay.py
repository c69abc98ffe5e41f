"""Replay: the network of a training, made again from the steps that were taken, without a solve."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from thresher.checks import check_number, check_values
from thresher.errors import InvalidInput
from thresher.interfaces import Step
from thresher.model.network import Network
from thresher.model.problem import Problem
from thresher.parallel import blas_for_size
from thresher.training.loop import start_together
from thresher.training.options import Setup
from thresher.training.train import complete

__all__ = ["remake", "replay", "replay_together"]


def replay(problem: Problem, *, steps: Iterable[Step], **options: Any) -> Network:
    """Return the network that training had arrived at after these steps, to the bit.

    Parameters
    ----------
    problem : the one it was trained on
    steps : ``Result.steps``, in order; fewer of them give the network of an earlier iteration
    options : those of :func:`train`. Width, shift, seed, activation, twins, start, index, penalty,
        first_step, method and dtype must be the same as in training. What only a solve needs is not used.

    Cost: the pass O(mnd) of every start, and a move for each step.
    """
    if not isinstance(steps, Iterable):
        raise InvalidInput(f"steps must be a list of steps, as Result.steps is; got {type(steps).__name__}.")
    return replay_together([problem], steps=[steps], **options)[0]


def replay_together(problems: Sequence[Problem], *, steps: Sequence[Iterable[Step]], **options: Any) -> list[Network]:
    """Return what :func:`replay` would for each of several problems with the same inputs, from one start.

    ``steps`` are those of each problem. Cost: O(mnd) once; per problem O(mn) and its moves.
    """
    setup = Setup.of(problems, complete(options))
    setup.require_memory()
    if len(steps) != len(problems):
        raise InvalidInput(f"steps must be given for each problem: {len(problems)} lists; got {len(steps)}.")
    if not problems:
        return []
    return remake(setup, [[_check_step(step, problems[0].size) for step in path] for path in steps])


def remake(setup: Setup, paths: Sequence[list[Step]]) -> list[Network]:
    """Return the networks that these steps lead to, one path per problem. Cost: that of :func:`replay_together`."""
    together = setup.first_step != "gram"  # the first step is taken within the pass over the start weights
    first = [path[0] if path and together else None for path in paths]
    with blas_for_size(setup.problems[0].size):
        networks = []
        for (engine, _), path in zip(start_together(setup, first), paths, strict=True):
            engine.linearise()
            for step in path[1:] if together else path:
                engine.move(step)
                engine.linearise()
            networks.append(Network(setup.settings, engine.finish()))
        return networks


def _check_step(step: Step, inputs: int) -> Step:
    if not isinstance(step, Step):
        raise InvalidInput(f"steps must be those of Result.steps; got {type(step).__name__}.")
    v = check_values(step.v, "a step", shape="(n,)")
    if len(v) != inputs:
        raise InvalidInput(f"a step must have one value for each of the {inputs} inputs; got {len(v)}.")
    return Step(np.asarray(v), check_number(step.keep, "keep"))
