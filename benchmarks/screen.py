"""The start of training, screened in 8 bits and in float32, beside one dense evaluation of the network.

    python -m benchmarks.screen [--tiny] [--output FILE.json]

Processors without an instruction for products of bytes have no screen in 8 bits; then float32 alone is timed.
Seconds of all threads together, the smallest of several; ratios are within one run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite.binding
import numpy as np
from scipy import linalg

from benchmarks import results
from benchmarks.environment import environment
from thresher import Problem, train
from thresher.datasets import random_problem
from thresher.interfaces import Step
from thresher.loops import screen
from thresher.model.network import NetworkSettings, row_blocks
from thresher.parallel import in_order
from thresher.shards import SHARDS, Recipe, watchlists
from thresher.theory import limit_kernel

OUTPUT = Path("results/screen.json")
CASES = ((1000, 100, 2**18, False), (500, 50, 2**18, False), (1000, 64, 2**18, True), (1000, 784, 2**16, False))
BLOCK, THREADS = 1024, 2


class Case(NamedTuple):
    """A problem, its network, and the first step."""

    problem: Problem
    settings: NetworkSettings
    step: Step

    @classmethod
    def of(cls, inputs: int, dimension: int, width: int, *, twins: bool) -> Case:
        problem = random_problem(inputs=inputs, dimension=dimension)
        settings = NetworkSettings.checked(width=width, dimension=dimension, twins=twins)
        step = linalg.solve(limit_kernel(problem.products, settings.shift), problem.targets, assume_a="pos")
        return cls(problem, settings, Step(step))

    def recipe(self, *, eight: bool) -> Recipe:
        made = Recipe(SHARDS["certified"], self.settings, self.problem.inputs, "float32")
        made.__dict__["rounded_inputs"] = (
            screen.round_inputs(self.problem.inputs, plainly=not screen.INSTRUCTIONS) if eight else None
        )
        return made

    def start(self, recipe: Recipe, neurons: int) -> list[Any]:
        """Start the shards of so many neurons; return them. Cost: O(nd) per neuron."""
        drift = float(np.sqrt(np.mean(self.step.v**2))) * self.settings.scale

        def one(part: range) -> Any:
            shard = recipe.kind(recipe, part)
            shard.start(self.step, expected=drift)
            return shard

        return list(in_order(one, row_blocks(0, neurons, size=1 << 14), threads=THREADS))


def dense(case: Case) -> None:
    """Evaluate the network once in float32, by blocks. Cost: O(mnd)."""
    X, shift = case.problem.inputs.T.astype(np.float32), np.float32(case.settings.shift)

    def part(task: range) -> Any:
        total, room = np.zeros(X.shape[1]), np.empty((BLOCK, X.shape[1]), np.float32)
        for block in row_blocks(task.start, task.stop, size=BLOCK):
            active = np.matmul(case.settings.start.block(block.start, block.stop), X, out=room[: len(block)])
            signs = case.settings.start.signs(np.arange(block.start, block.stop)).astype(np.float32)
            active -= shift
            total += signs @ np.maximum(active, 0, out=active)
        return total

    list(in_order(part, row_blocks(0, case.settings.width, size=1 << 14), threads=THREADS))


def best(work: Callable[[], Any], *, repeats: int = 3) -> float:
    """Return the smallest of several times, in seconds of all threads together, after one that does not count."""
    spent = []
    for _ in range(repeats + 1):
        began = time.process_time()
        work()
        spent.append(time.process_time() - began)
    return min(spent[1:])


def check(case: Case, neurons: int) -> int:
    """Compare which pairs fire, at the start and after the first step, with float64; return their number."""
    X, settings = case.problem.inputs, case.settings
    W, signs = settings.start.block(0, neurons).astype(np.float64), settings.start.signs(np.arange(neurons))
    fires = settings.shift <= W @ X.T
    moved = W + settings.scale * signs[:, None] * ((fires * case.step.v) @ X)
    after, pairs = settings.shift <= moved @ X.T, 0
    for shard in case.start(case.recipe(eight=True), neurons):
        for wanted in (fires, after):
            pattern = shard.pattern()
            first, last = shard._neurons.start, shard._neurons.stop
            found = np.zeros((last - first, len(X)), bool)
            found[pattern.per_pair(pattern.neurons) - first, pattern.inputs] = True
            assert np.array_equal(found, wanted[first:last]), "other pairs fire than in float64"
            pairs += pattern.pairs
            shard.linearise(None)
    return pairs


def parts(case: Case) -> dict[str, float]:
    """Return microseconds a start row of parts of a screen, on one thread."""
    columns, inputs = case.settings.start.base_block(0, BLOCK), case.recipe(eight=True).rounded_inputs
    assert inputs is not None
    rows, (n, d), fast = screen.round_rows(columns), case.problem.inputs.shape, case.problem.inputs.astype(np.float32)
    room, products = np.empty((screen.CHUNK, n), np.float32), screen.room_for(inputs)

    def bounds() -> None:
        for first in range(0, BLOCK, screen.CHUNK):
            screen.bound_rows(rows, first, first + screen.CHUNK, inputs, d, products, room)

    bounds()
    plain = np.empty_like(room)
    screen.bound_rows(rows, BLOCK - screen.CHUNK, BLOCK, inputs._replace(plainly=True), d, products, plain)
    assert np.array_equal(room, plain), "instructions and plain loops differ"
    work = {
        "numbers": lambda: case.settings.start.base_block(0, BLOCK),
        "rounding": lambda: (screen.round_rows(columns), screen.transpose(columns)),
        "products and bounds in 8 bits": bounds,
        "product in float32": lambda: list(in_order(lambda _: columns.T @ fast.T, [0], threads=1)),
    }
    return {name: 1e6 * best(one, repeats=7) / BLOCK for name, one in work.items()}


def measure(case: Case, *, checked: int) -> dict[str, Any]:
    """Return the figures of one case; a screen in 8 bits is timed whether or not training would take it."""
    n, d = case.problem.inputs.shape
    taken = case.recipe(eight=True)
    shard = taken.kind(taken, range(2))
    row: dict[str, Any] = {
        "inputs": n, "dimension": d, "width": case.settings.width, "twins": case.settings.start.twins,
        "taken": shard.start(case.step, expected=float(np.sqrt(np.mean(case.step.v**2))) * case.settings.scale).screen,
    }  # fmt: skip
    few, watchlists._FEW = watchlists._FEW, 2.0
    try:
        row["checked pairs"] = check(case, checked)
        row["microseconds a row"] = parts(case)
        evaluation = best(lambda: dense(case))
        row["microseconds a row"]["evaluation"] = 1e6 * evaluation / case.settings.width
        floats, eights = case.recipe(eight=False), case.recipe(eight=True)
        row["float32 in evaluations"] = best(lambda: case.start(floats, case.settings.width)) / evaluation
        if screen.INSTRUCTIONS:
            row["8 bits in evaluations"] = best(lambda: case.start(eights, case.settings.width)) / evaluation
            row["times faster"] = row["float32 in evaluations"] / row["8 bits in evaluations"]
    finally:
        watchlists._FEW = few
    return row


def predictions(*, shrink: int) -> dict[str, Any]:
    """Return what a prediction of 1000 rows costs, in dense evaluations of the network on as many inputs."""
    width = 2**20 // shrink
    problem = random_problem(inputs=1000 // shrink, dimension=50)
    network = train(problem, width=width, twins=True).network
    others = random_problem(inputs=1000, dimension=50, seed=1)
    evaluation = best(lambda: dense(Case(others, network.settings, Step(others.targets))))
    row, instructions = {"inputs": problem.size, "dimension": 50, "width": width, "rows": 1000}, screen.INSTRUCTIONS
    try:
        for name, chosen in (("float32", ""), ("8 bits", instructions)):
            screen.INSTRUCTIONS = chosen
            row[f"prediction, {name}"] = best(lambda: network.predict(others.inputs, threads=THREADS)) / evaluation
    finally:
        screen.INSTRUCTIONS = instructions
    return row


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="small widths, to see that it works")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    options = parser.parse_args(arguments)
    features = llvmlite.binding.get_host_cpu_features()
    names = ("avx2", "avx512f", "avx512vnni", "avxvnni", "amx-int8")
    has = {name: bool(features.get(name)) for name in names}
    print(f"{environment()['processor']}: {has}; products of bytes: {screen.INSTRUCTIONS or 'none'}", flush=True)
    rows = []
    shrink = 16 if options.tiny else 1
    for inputs, dimension, width, twins in CASES:
        case = Case.of(inputs // shrink, dimension, width // shrink, twins=twins)
        rows.append(measure(case, checked=2048 // shrink))
        print(rows[-1], flush=True)
    predicted = predictions(shrink=shrink)
    print(predicted, flush=True)
    results.write(
        options.output, {"environment": environment(), "features": has, "rows": rows, "prediction": predicted}
    )


if __name__ == "__main__":
    main()
