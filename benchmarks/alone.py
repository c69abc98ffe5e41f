"""One training in a process of its own, which tells its seconds and its peak of memory.

    python -m benchmarks.alone '{"inputs": 16, "dimension": 32, "width": 1048576, "start": "poisson"}'

The process compiles first. Beside the training it times a dense evaluation of a network of that width: on some of its
rows, scaled to the width, where it has many.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from benchmarks import memory
from benchmarks.bench import in_child
from benchmarks.cases import Found, in_turn, trained
from benchmarks.dense import dense_evaluation
from thresher import Result, train
from thresher.datasets import random_problem
from thresher.engines import Footprint
from thresher.model.network import NetworkSettings
from thresher.parallel import core_count
from thresher.shards import SHARDS

TIMED_ROWS = 1 << 22  # of a dense evaluation, at most
_ALLOWED = 3600.0  # seconds, after which the process is ended


def run(**task: Any) -> Found:
    """Return what ``measure`` finds for these arguments, in a process of its own."""
    found, _ = in_child("benchmarks.alone", task, allowed=_ALLOWED)
    if found["status"] == "failed":
        raise RuntimeError(f"training of {task['width']:,} neurons: {found['reason']}")
    return found


def timed_part(settings: NetworkSettings) -> NetworkSettings:
    """Return the settings of as many neurons as a dense evaluation is timed on."""
    return settings._replace(width=min(settings.width, TIMED_ROWS))


def measure(
    *,
    inputs: int,
    dimension: int,
    width: int,
    twins: bool = True,
    first_step: str = "limit",
    start: str = "random",
    evaluated: bool = True,
) -> Found:
    """Train, all included, and evaluate a dense network of the same width unless that is not asked for."""
    problem = random_problem(inputs=inputs, dimension=dimension)
    settings = NetworkSettings.checked(width=width, dimension=dimension, twins=twins)
    options = {"twins": twins, "first_step": first_step, "start": start}
    train(problem, width=2**12, **options)  # compiles
    part, kept, peaks = timed_part(settings), list[Result](), list[int]()

    def work() -> float:
        kept.clear()
        memory.reset_peak()
        result, seconds = trained(problem, width=width, **options)
        peaks.append(memory.peak())
        kept.append(result)
        return seconds

    if evaluated:
        taken = in_turn({"dense": lambda: dense_evaluation(problem, part, generator="numpy"), "training": work})
        scaled = width / part.width
        found = {"share timed": part.width / width}
        found |= {name: one.seconds * (scaled if name == "dense" else 1) for name, one in taken.items()}
        found |= {f"{name}, cpu": one.processor * (scaled if name == "dense" else 1) for name, one in taken.items()}
    else:
        found = {"training": work()}
    result = kept[0]
    drawn = settings.drawn_at(problem.inputs) if start == "poisson" else settings
    return {
        "inputs": inputs,
        "dimension": dimension,
        "width": width,
        "neurons": result.network.settings.neurons,
        "status": str(result.status),
        "iterations": len(result.history) - 1,
        "residual": result.history[-1].residual / result.history[0].residual,
        "peak": max(peaks),
        "estimate": Footprint(
            [problem.targets], drawn, "certified", SHARDS["certified"], threads=core_count(), first_step=first_step
        ).here(),
        **found,
    }


if __name__ == "__main__":
    print(json.dumps({"row": measure(**json.loads(sys.argv[1]))}), flush=True)
