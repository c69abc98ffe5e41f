"""What the start must cost at least: its numbers, its product, the bytes it leaves behind; and how near training is.

Used by ``python -m benchmarks.certified --case floor``. One thread measures each part alone, on blocks as training uses
them; the floor divides by the number of threads as if they did not disturb each other.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from scipy import linalg
from threadpoolctl import threadpool_limits

from thresher import Problem
from thresher.model.network import NetworkSettings
from thresher.model.weights import Weights
from thresher.search.certified import BAND_AFTER_FIRST_STEP
from thresher.search.watchlists import StartBlock, StartScan
from thresher.theory import limit_kernel

BLOCK, BLOCKS = 1024, 16


def parts_of_start(problem: Problem, settings: NetworkSettings) -> dict[str, float]:
    """Return seconds a start row of each part of the scan on one thread, bytes a start row leaves, bytes a second."""
    weights = Weights.at_start(settings.start, problem.inputs, dtype="float32", products=problem.products)
    step = linalg.solve(limit_kernel(problem.products, settings.shift), -problem.targets, assume_a="pos")
    drift = float(np.sqrt(np.mean(step**2))) * settings.scale
    room = np.empty((BLOCK, problem.size), np.float32)
    rows = settings.start.base_block(0, BLOCK)
    copies = 2 if settings.start.twins else 1

    def scan() -> int:
        one = StartScan(
            settings, weights, step, neurons=range(BLOCK * BLOCKS * copies), band=BAND_AFTER_FIRST_STEP * drift
        )
        for block in made:
            one.add(block)
        lists, _, entries = one.watchlists()
        sizes = {name: array.itemsize for name, array in lists._asdict().items()}
        of_entry = sum(sizes[name] for name in ("inputs", "start", "expiry", "base", "side"))
        return entries * of_entry + len(lists.neurons) * (sum(sizes.values()) - of_entry)

    with threadpool_limits(1, "blas"):
        made = [
            StartBlock.make(weights, range(k * BLOCK, (k + 1) * BLOCK), out=np.empty_like(room)) for k in range(BLOCKS)
        ]
        left = scan()
        big = np.ones(1 << 24, np.float32), np.empty(1 << 24, np.float32)
        return {
            "numbers": best(lambda: settings.start.base_block(0, BLOCK)) / BLOCK,
            "product": best(lambda: np.matmul(rows.T, weights.fast_inputs.T, out=room)) / BLOCK,
            "scan": best(scan) / (BLOCK * BLOCKS),
            "bytes": left / (BLOCK * BLOCKS),
            "bandwidth": 2 * big[0].nbytes / best(lambda: np.copyto(big[1], big[0])),
        }


def best(work: Callable[[], object], *, repeats: int = 7) -> float:
    """Return the smallest of several measurements, seconds."""
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return min(seconds)
