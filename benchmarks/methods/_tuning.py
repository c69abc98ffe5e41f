"""Choosing a learning rate: a few iterations for every candidate, more for the best, all from the same start."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.log import Log

ROUNDS = ((10, 3), (50, 1))  # iterations for each candidate, and how many go on
HOW = (
    f"Each candidate gets {ROUNDS[0][0]} iterations and the best {ROUNDS[0][1]} get {ROUNDS[1][0]}, or fewer once one "
    f"has spent its share of the seconds a run may take. The first at the goal is kept, or else the lowest."
)
Options = dict[str, Any]


def best_of(candidates: Sequence[Options], run: Callable[..., None], log: Log) -> Options:
    """Return the candidate with which ``run(log, **candidate)`` does best; all get the seconds of this log together."""

    def merit(candidate: Options) -> tuple[float, float]:
        tried = log.trial(trial)
        run(tried, **candidate)
        lowest = tried.relative if math.isfinite(tried.relative) else math.inf
        return len(tried.history) if tried.ended == "reached" else math.inf, lowest

    for iterations, kept in ROUNDS:
        seconds = log.limits.seconds / len(ROUNDS) / len(candidates)
        trial = log.limits._replace(iterations=iterations, seconds=seconds)
        candidates = sorted(candidates, key=merit)[:kept]
    return candidates[0]
