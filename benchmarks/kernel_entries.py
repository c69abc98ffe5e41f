"""What an entry of the kernel costs: of all columns at once, and of parts; and the floor of the latter.

    python -m benchmarks.kernel_entries [--tiny] [--output FILE.json] [--page FILE.md]

Blocks of 256 x 4096 inputs in single precision, one thread; the least of several times. The floor of a column is a loop
over numbers in the cache with as many multiplications and additions, and nothing else.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numba
import numpy as np
from rich.console import Console
from threadpoolctl import threadpool_limits

from benchmarks import page, results
from benchmarks.environment import environment
from benchmarks.summary import Sheet
from thresher.theory import Parts, Shares
from thresher.theory.limit_matrix import limit_block

COLUMNS = (1, 2, 4, 8, 16, 32)
MIXED, LAYER = Shares(0.5, 0.25, 0.25), Shares(0.5, layer=0.5)
_STEPS = 11  # arithmetic instructions for a column of an entry: see loops/parts.py
_SIZE, _TURNS = 1024, 64  # numbers of the loop that is the floor, in the first-level cache, and how often in one call


@numba.njit(fastmath=True)
def _arithmetic(values: Any, total: Any) -> None:
    """Do as much arithmetic as the kernel of one column does for each number, all of it in registers.

    Four chains at a time: the processor begins a step of one while it waits for those of the others.
    """
    size = len(values) // 4
    for turn in range(_TURNS):
        more = np.float32(turn)
        for j in range(size):
            a, b, c, d = values[j], values[j + size], values[j + 2 * size], values[j + 3 * size]
            p, q, r, s = a + more, b + more, c + more, d + more
            for _ in range(_STEPS - 1):
                p, q, r, s = p * a + a, q * b + b, r * c + c, s * d + d
            total[j], total[j + size], total[j + 2 * size], total[j + 3 * size] = p, q, r, s


def measure(*, tiny: bool) -> list[dict[str, Any]]:
    """Return the nanoseconds of an entry for each number of columns."""
    rows, others = (64, 256) if tiny else (256, 4096)
    rng, found = np.random.default_rng(0), list[dict[str, Any]]()
    values, total = (np.full(_SIZE, 0.5, np.float32) for _ in range(2))
    floor = _least(lambda: _arithmetic(values, total), _SIZE * _TURNS, times=50)
    for d in COLUMNS:
        pair, out = [_inputs(rng, size, d) for size in (rows, others)], np.empty((rows, others), np.float32)
        vectors = [one[:, :-d].copy() for one in pair]
        calls = [partial(limit_block, *vectors, 0.5, out)]
        calls += [partial(limit_block, *pair, 0.5, out, parts=Parts.of(d, one)) for one in (MIXED, LAYER)]
        plain, mixed, layer = (_least(call, out.size, times=3) for call in calls)
        found.append({"columns": d, "plain": plain, "mixed": mixed, "layer": layer, "floor": plain + d * floor})
    return found


def _inputs(rng: np.random.Generator, size: int, d: int) -> Any:
    """Return unit vectors of d + 1 coordinates, and d angles after them."""
    vectors = rng.normal(size=(size, d + 1))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.hstack([vectors, np.arctan2(1.0, rng.normal(size=(size, d)))]).astype(np.float32)


def _least(call: Callable[[], object], entries: int, *, times: int) -> float:
    """Return the least nanoseconds per entry of seven runs of some calls, after one that is not timed."""
    call()
    least = np.inf
    for _ in range(7):
        began = time.perf_counter()
        for _ in range(times):
            call()
        least = min(least, (time.perf_counter() - began) / times)
    return 1e9 * float(least) / entries


def sheet(found: list[dict[str, Any]]) -> Sheet:
    """Return the table of the page."""
    head = ["columns d", "all columns, ns", "mixed, ns", "with a layer, ns", "floor, ns", "mixed / all", "1 + d/4"]
    rows = [
        [
            str(one["columns"]),
            *(f"{one[name]:.2f}" for name in ("plain", "mixed", "layer", "floor")),
            f"{one['mixed'] / one['plain']:.2f}",
            f"{1 + one['columns'] / 4:.2f}",
        ]
        for one in found
    ]
    return Sheet("What an entry of the kernel costs", head, rows)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, store and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="small sizes, to see that it works")
    page.add_options(parser, output="results/kernel_entries.json")
    options = parser.parse_args(arguments)
    with threadpool_limits(1):
        found = measure(tiny=options.tiny)
    table, figures = sheet(found), {"environment": environment(), "entries": found}
    Console().print(table.rich())
    results.write(options.output, figures)
    page.write("kernel entries", [page.machine(figures), table.markdown()], page=page.page_of(options))


if __name__ == "__main__":
    main()
