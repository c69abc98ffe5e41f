"""Choosing a learning rate: a few iterations for every candidate, more for the best, all from the same start."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.log import Limits, Log

ROUNDS = ((10, 3), (50, 1))  # iterations for each candidate, and how many go on
GOAL = 1e-6
HOW = (
    f"Each candidate gets {ROUNDS[0][0]} iterations and the best {ROUNDS[0][1]} get {ROUNDS[1][0]}, or fewer once one "
    f"has spent its share of the seconds a run may take. The first at {GOAL:g} is kept, or else the lowest residual."
)
Options = dict[str, Any]


def best_of(candidates: Sequence[Options], run: Callable[..., None], limits: Limits) -> Options:
    """Return the candidate with which ``run(log, **candidate)`` does best; all together get ``limits.seconds``."""

    def merit(candidate: Options) -> tuple[float, float]:
        log = Log(goal=GOAL, limits=trial)
        run(log, **candidate)
        lowest = log.relative if math.isfinite(log.relative) else math.inf
        return len(log.history) if log.ended == "reached" else math.inf, lowest

    for iterations, kept in ROUNDS:
        seconds = limits.seconds / len(ROUNDS) / len(candidates)
        trial = limits._replace(iterations=iterations, seconds=seconds)
        candidates = sorted(candidates, key=merit)[:kept]
    return candidates[0]
