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
from thresher.model.geometry import Geometry
from thresher.model.network import NetworkSettings
from thresher.shards.certified import BAND_AFTER_FIRST_STEP
from thresher.shards.watchlists import StartBlock, StartScan
from thresher.theory import limit_kernel

BLOCK, BLOCKS = 1024, 16


def parts_of_start(problem: Problem, settings: NetworkSettings) -> dict[str, float]:
    """Return seconds a start row of each part of the scan on one thread, bytes a start row leaves, bytes a second."""
    geometry = Geometry.of(problem.inputs, dtype="float32")
    step = linalg.solve(limit_kernel(problem.products, settings.shift), -problem.targets, assume_a="pos")
    drift = float(np.sqrt(np.mean(step**2))) * settings.scale
    room = np.empty((BLOCK, problem.size), np.float32)
    rows = settings.start.base_block(0, BLOCK)
    copies = 2 if settings.start.twins else 1

    def scan() -> tuple[float, int]:
        """Scan fresh blocks right after their products, as training does; return the seconds and the bytes left."""
        one = StartScan(
            settings, geometry, step, neurons=range(BLOCK * BLOCKS * copies), band=BAND_AFTER_FIRST_STEP * drift
        )
        seconds = 0.0
        for k in range(BLOCKS):
            made = StartBlock.make(settings.start, geometry, range(k * BLOCK, (k + 1) * BLOCK), out=room)
            began = time.perf_counter()
            one.add(made)
            seconds += time.perf_counter() - began
        lists, _, entries = one.watchlists()
        sizes = {name: array.itemsize for name, array in lists._asdict().items()}
        of_entry = sum(sizes[name] for name in ("inputs", "start", "expiry", "base", "side"))
        return seconds, entries * of_entry + len(lists.neurons) * (sum(sizes.values()) - of_entry)

    with threadpool_limits(1, "blas"):
        scans = [scan() for _ in range(7)]
        big = np.ones(1 << 24, np.float32), np.empty(1 << 24, np.float32)
        return {
            "numbers": best(lambda: settings.start.base_block(0, BLOCK)) / BLOCK,
            "product": best(lambda: np.matmul(rows.T, geometry.fast_inputs.T, out=room)) / BLOCK,
            "scan": min(seconds for seconds, _ in scans) / (BLOCK * BLOCKS),
            "bytes": scans[0][1] / (BLOCK * BLOCKS),
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
