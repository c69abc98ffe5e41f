"""Compile loops before they are needed: by calls that have almost nothing to do, in processes that fill Numba's cache.

Two processes that write the cache of one function at the same time may spoil it. So parts that share functions are
compiled one after the other, by the same process: those of a training by two, the start scan beside all else.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from thresher.algebra import SKETCHES, Sketched, SketchQR
from thresher.datasets import random_problem
from thresher.errors import NotAvailable
from thresher.interfaces import Step
from thresher.loops import compiling, trees
from thresher.loops.certified.watchlists import rebuild
from thresher.loops.screen import way_for
from thresher.loops.structures import Found
from thresher.model.compact import CompactNetwork
from thresher.model.network import Network, NetworkSettings
from thresher.model.weights import Weights
from thresher.parallel import core_count
from thresher.shards import SHARDS
from thresher.shards.certified import Certified
from thresher.shards.recipe import Recipe
from thresher.shards.watchlists import StartBlock, StartScan
from thresher.theory import limit_kernel, limit_slopes

__all__ = ["PARTS", "compile_all", "compile_training"]

_INPUTS, _COLUMNS = 256, 32  # so many that start rows are screened, where the processor can
_SECONDS = 7.5  # that a process of its own takes for the steps of a training, and its predictions


def _recipe() -> Recipe:
    problem = random_problem(inputs=_INPUTS, dimension=_COLUMNS)
    settings = NetworkSettings.checked(width=64, dimension=_COLUMNS, shift=3.0, seed=0, twins=False)
    return Recipe(SHARDS["certified"], settings, problem.inputs, "float32")


def start(*, screened: Sequence[bool] = (True, False)) -> None:
    """Compile the scan of start rows, with a screen, without, or both. Cost: a block of 64 rows."""
    recipe = _recipe()
    shard, geometry, block = Certified(recipe, range(64)), recipe.geometry, range(64)
    for rounded in (recipe.rounded_inputs if one else None for one in screened):
        scan = StartScan(
            recipe.settings, geometry, np.ones(_INPUTS), neurons=block, inputs=shard._loop_inputs, band=0.1,
            rounded=rounded,
        )  # fmt: skip
        out = np.empty((len(block), _INPUTS), np.float32)
        scan.add(StartBlock.make(recipe.settings.start, geometry, block, out=out, rounded=rounded))


def steps() -> None:
    """Compile what steps of a training do: with no neuron at all."""
    recipe = _recipe()
    shard, counts = Certified(recipe, range(0)), np.zeros((_INPUTS, _INPUTS), np.int32)
    shard.start(None, expected=0.1)
    shard.move(Step(np.ones(_INPUTS)))
    shard.linearise(counts)
    shard.add_counts(counts)
    shard.weights()
    nobody = np.empty(0, np.int64)
    found = Found(np.zeros(_INPUTS), pending=nobody, left_band=nobody)
    rebuild(
        shard._lists, nobody, np.empty((0, _INPUTS), np.float32), 0, shard._point(), shard._constants,
        shard._loop_inputs, found,
    )  # fmt: skip
    trees.build(shard._nodes)
    limit_kernel(recipe.geometry.products, recipe.settings.shift)
    recipe.settings.start.rows(np.zeros(1, np.int64))


def outputs(*numbers: int) -> None:
    """Compile what predictions of a network on so many inputs take."""
    recipe = _recipe()
    network = Network(recipe.settings, Weights.at_start(recipe.settings.start, recipe.inputs, dtype="float32"))
    for number in numbers:
        network.predict(recipe.inputs[:number])


def searches() -> None:
    """Compile the other ways to search, to start and to solve, and the paper's own."""
    from thresher.training import train

    problem, some = random_problem(inputs=20, dimension=10), {"width": 200, "max_iterations": 2}
    ways: list[dict[str, Any]] = [
        {"index": "scan"}, {"index": "tournament"}, {"index": "dense"}, {"method": "paper"}, {"solver": "pivots"},
        {"twins": True}, {"dtype": "float64"}, {"start": "poisson", "twins": True, "shift": 0.8, "width": 2000},
        {"index": "dense", "shift": 2.0, "solver": "pivots"}, {"index": "scan", "start": "sobol"},
        {"start": "hadamard"}, {"start": "hadamard", "shift": 2.0, "width": 2000},
        *({"solver": Sketched(preconditioner=SketchQR(sketch=one))} for one in SKETCHES),
    ]  # fmt: skip
    for options in ways:
        train(problem, **{**some, **options}).network.predict(problem.inputs)
    compact = CompactNetwork(np.ones((2, 10), np.float32), np.array([1, -1], np.float32), 9.0)
    for number in (20, 1):
        compact.predict(problem.inputs[:number])
    limit_slopes(np.eye(2), 1e-9)


def estimators() -> None:
    """Compile what fits of few rows take, those of many, and their predictions."""
    from thresher.estimators import Sizes, ThresherClassifier, ThresherRegressor

    X = np.random.default_rng(0).normal(size=(200, 5))
    for sizes in (Sizes(), Sizes(one_by_one=100, exact=150, exact_cheap=100)):
        for parts in ("all", "mixed"):
            model = ThresherRegressor(random_state=0, parts=parts)
            model._sizes = sizes
            model.fit(X, X[:, 0] + np.sin(X[:, 1])).predict(X[:5])
            if parts == "mixed" and model.leaves_ is None:
                model.effects(X[:5])
    for width in ("auto", 64):
        ThresherClassifier(random_state=0, width=width).fit(X, X[:, 0] > 0).predict_proba(X[:5])


PARTS: dict[str, Callable[[], None]] = {
    "start": start, "steps": steps, "many": lambda: outputs(_INPUTS), "few": lambda: outputs(_INPUTS // 2, 1),
    "estimators": estimators, "searches": searches,
}  # fmt: skip
# All of them: groups of a line side by side, one process each; then those of the next line.
_LINES: list[list[tuple[str, ...]]] = [[("start",), ("steps", "many", "few", "estimators")], [("searches",)]]


def _process(parts: Sequence[str], **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(  # -P: a file in this folder may have the name of a module
        [sys.executable, "-P", "-m", "thresher.warmup", *parts], text=True, stdin=subprocess.DEVNULL,
        env={**os.environ, "THRESHER_QUIET": "1"}, **options,
    )  # fmt: skip


def compile_training(*, inputs: int, columns: int) -> None:
    """Compile what a training on so many inputs needs, and its predictions, on two cores; nothing if the cache has it.

    Another process compiles all but the start scan. If it fails, that is compiled once it is needed.

    Cost: some ten seconds, on two cores.
    """
    screened = way_for(columns, inputs) is not None
    with _compiled_elsewhere("steps", "many" if screened else "few"):
        start(screened=[screened])


@contextmanager
def _compiled_elsewhere(*parts: str) -> Iterator[None]:
    names, child = set(compiling.SECONDS) - {"certified.start_scan._scan_rows"}, None
    if core_count() > 1 and sys.executable and not all(map(compiling.is_stored, names)):
        with suppress(OSError):
            child = _process(parts, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            compiling.ELSEWHERE.update(dict.fromkeys(names, time.perf_counter() + _SECONDS))
    try:
        yield
        if child is not None:
            child.wait()
    finally:
        if child is not None:
            child.kill()
            child.wait()
        compiling.ELSEWHERE.clear()


def compile_all() -> Iterator[str]:
    """Compile everything in processes of their own, and yield the name of each part that is done.

    Raises NotAvailable if one of them fails, or if nothing could be kept. Cost: about half a minute on two cores; two
    seconds where all is in the cache.
    """
    if hasattr(trees.query, "stats") and trees.query.stats.cache_path is None:
        raise NotAvailable(
            "what is compiled cannot be kept: neither beside the package nor in the folder of the user can anything be "
            "written. Set NUMBA_CACHE_DIR to a folder that can."
        )
    for line in _LINES:
        groups = line if core_count() > 1 else [tuple(part for parts in line for part in parts)]
        running = [_process(parts, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for parts in groups]
        try:
            for child, parts in zip(running, groups, strict=True):
                assert child.stdout is not None
                yield from map(str.strip, child.stdout)
                if child.wait():
                    assert child.stderr is not None
                    last = child.stderr.read().strip().rpartition("\n")[2]
                    again = f"python -m thresher.warmup {' '.join(parts)}"
                    raise NotAvailable(f"compiling ended with an error: {last}. To see all of it, run: {again}")
        finally:
            for child in running:
                child.kill()
                child.communicate()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for _part in sys.argv[1:]:
        PARTS[_part]()
        print(_part, flush=True)
