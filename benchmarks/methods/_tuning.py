"""Choosing a learning rate: every candidate gets the same few iterations from the start, the lowest residual wins."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from benchmarks.log import Limits, Log

ITERATIONS = 12
Options = dict[str, Any]


def best_of(candidates: Iterable[Options], run: Callable[..., None], limits: Limits) -> Options:
    """Return the candidate with which ``run(log, **candidate)`` comes furthest; all together get ``limits.seconds``."""
    listed = list(candidates)
    trial = limits._replace(iterations=ITERATIONS, seconds=limits.seconds / len(listed))
    reached = []
    for candidate in listed:
        log = Log(goal=0.0, limits=trial)
        run(log, **candidate)
        reached.append(log.relative if math.isfinite(log.relative) else math.inf)
    return listed[reached.index(min(reached))]
