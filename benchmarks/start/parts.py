"""Where the time of the start goes: its numbers, its products, its scan; and what comes after it.

One thread measures each part of the start alone, on blocks as training uses them, for Gaussian and for Hadamard rows.
Those have no numbers of their own: signs and lengths are part of their products. The floor divides by the number of
threads as if they did not disturb each other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg
from threadpoolctl import threadpool_limits

from benchmarks.cases import STARTS, Found, captions, in_turn, later_seconds, trained
from benchmarks.dense import dense_evaluation
from benchmarks.rotated import levels_of
from benchmarks.summary import Sheet
from thresher import Problem, Result
from thresher.model.network import NetworkSettings
from thresher.parallel import core_count
from thresher.shards import SHARDS, Recipe
from thresher.shards.certified import BAND_AFTER_FIRST_STEP
from thresher.shards.watchlists import StartBlock, StartScan, loop_inputs
from thresher.theory import limit_kernel

BLOCK, BLOCKS, REPEATS = 1024, 16, 7
LEVELS = 4  # of a transform that are taken in registers, between a load and a store of each number
_COLUMNS = 256  # of a product that tells how long a multiplication with its addition takes


class Case(NamedTuple):
    """A problem, and a network that is trained on it."""

    name: str
    problem: Problem
    settings: NetworkSettings


def measure(cases: Sequence[Case]) -> Found:
    """Return the parts of the start of each case; there are no goals among them."""
    return {"rows": [], "parts": [row for case in cases for row in of_case(case)]}


def of_case(case: Case) -> list[dict[str, Any]]:
    """Return a row for each kind of start rows."""
    name, problem, settings = case
    options = {"width": settings.width, "twins": settings.start.twins}
    last = dict[str, tuple[Result, float]]()

    def work(start: str) -> float:
        last[start] = trained(problem, start=start, **options)
        return last[start][1]

    evaluation = partial(dense_evaluation, problem, settings, generator="numpy")
    taken = in_turn({"evaluation": evaluation, **{start: partial(work, start) for start in STARTS}})
    start_rows, rows = settings.width // (2 if settings.start.twins else 1), []
    for start, label in STARTS.items():
        parts = parts_of_start(problem, settings._replace(start=settings.start._replace(sequence=start)))
        result, seconds = last[start]
        whole = sum(sum(record.seconds.values()) for record in result.history)
        row_floor = parts["numbers"] + parts["product"] + parts["bytes"] / parts["bandwidth"]
        later = sum(later_seconds(result))
        rows.append(
            {
                "case": name, "rows": label, **parts, "floor": start_rows * row_floor / core_count(),
                "start": whole - later, "later": later, "weights": seconds - whole,
                "evaluations": taken[start].seconds / taken["evaluation"].seconds,
            }
        )  # fmt: skip
    return rows


def parts_of_start(problem: Problem, settings: NetworkSettings) -> dict[str, float]:
    """Return seconds a start row of each part of the start on one thread, bytes a start row leaves, bytes a second."""
    recipe = Recipe(SHARDS["certified"], settings, problem.inputs, "float32")
    geometry, rotated, start = recipe.geometry, recipe.rotated_inputs, settings.start
    step = linalg.solve(limit_kernel(problem.products, settings.shift), -problem.targets, assume_a="pos")
    drift = float(np.sqrt(np.mean(step**2))) * settings.scale
    room = np.empty((BLOCK, problem.size), np.float32) if rotated is None else rotated.room(BLOCK)
    columns, copies = start.base_block(0, BLOCK), 2 if start.twins else 1

    def scan() -> tuple[float, int]:
        """Scan fresh blocks right after they were made, as training does; return the seconds and the bytes left."""
        one = StartScan(
            settings, geometry, step, neurons=range(BLOCK * BLOCKS * copies), band=BAND_AFTER_FIRST_STEP * drift,
            inputs=loop_inputs(settings, geometry, recipe.padded_inputs),
        )  # fmt: skip
        seconds = 0.0
        for k in range(BLOCKS):
            block = range(k * BLOCK, (k + 1) * BLOCK)
            made = StartBlock.make(start, geometry, block, out=room, rotated=rotated)
            began = time.perf_counter()
            one.add(made)
            seconds += time.perf_counter() - began
        lists, _, entries = one.watchlists()
        sizes = {name: array.itemsize for name, array in lists._asdict().items()}
        of_entry = sum(sizes[name] for name in ("inputs", "start", "expiry", "side"))
        of_neuron = sum(sizes.values()) - of_entry - sizes["base"]  # bases are zeros that the start does not write
        return seconds, entries * of_entry + len(lists.neurons) * of_neuron

    with threadpool_limits(1, "blas"):
        scans = [scan() for _ in range(REPEATS)]
        big = np.ones(1 << 24, np.float32), np.empty(1 << 24, np.float32)
        if rotated is not None:
            numbers, product = 0.0, best(lambda: rotated.products(0, BLOCK, out=room)) / BLOCK
        else:
            numbers = best(lambda: start.base_block(0, BLOCK)) / BLOCK
            product = best(lambda: np.matmul(columns.T, geometry.fast_inputs.T, out=room)) / BLOCK
        return {
            "numbers": numbers,
            "product": product,
            "scan": min(seconds for seconds, _ in scans) / (BLOCK * BLOCKS),
            "bytes": scans[0][1] / (BLOCK * BLOCKS),
            "additions": levels_of(rotated) if rotated else 0,
            "pair": product / problem.size,
            "addition": _addition(problem.size),
            "bandwidth": 2 * big[0].nbytes / best(lambda: np.copyto(big[1], big[0])),
        }


def _addition(inputs: int) -> float:
    """Return the seconds of a multiplication with its addition in a matrix product: as many as of an addition alone."""
    rows, columns = np.ones((BLOCK, _COLUMNS), np.float32), np.ones((_COLUMNS, inputs), np.float32)
    out = np.empty((BLOCK, inputs), np.float32)
    return best(lambda: np.matmul(rows, columns, out=out)) / (BLOCK * _COLUMNS * inputs)


def best(work: Callable[[], object]) -> float:
    """Return the smallest of several measurements, seconds, after one that does not count."""
    seconds = []
    for _ in range(REPEATS + 1):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return min(seconds[1:])


def part(found: dict[str, Found]) -> list[str]:
    """Return the tables of the page: the parts, and what the additions of Hadamard rows take."""
    ours = {name: of for name, of in found.items() if "parts" in of}
    if not ours:
        return []
    header = ["case", "start rows", "numbers, µs", "product", "scan", "bytes", "floor, s", "start, s"]
    header += ["later iterations, s", "weights, s", "whole, in dense evaluations"]
    lines = [
        [
            one["case"],
            one["rows"],
            *(f"{1e6 * one[name]:.2f}" for name in ("numbers", "product", "scan")),
            f"{one['bytes']:.0f}",
            *(f"{one[name]:.3g}" for name in ("floor", "start", "later", "weights", "evaluations")),
        ]
        for of in ours.values()
        for one in of["parts"]
    ]
    tables = [*captions(ours), Sheet("", header, lines, left=2).markdown()]
    header = ["Hadamard rows of", "additions a pair", "ns at the rate of a matrix product", "loads and stores", "ns"]
    lines = [
        [
            one["case"],
            str(one["additions"]),
            f"{1e9 * one['additions'] * one['addition']:.3f}",
            str(2 * -(-one["additions"] // LEVELS)),
            f"{1e9 * one['pair']:.3f}",
        ]
        for of in ours.values()
        for one in of["parts"]
        if one["additions"]
    ]
    return [*tables, Sheet("", header, lines).markdown()]
