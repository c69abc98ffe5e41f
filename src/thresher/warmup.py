"""Compile loops before they are needed: by calls that have almost nothing to do, in processes that fill Numba's cache.

Two processes that write the cache of one function at the same time may spoil it. So parts that share functions are
compiled one after the other, by the same process: those of a training by two, the start scan beside all others.
"""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from thresher.datasets import random_problem
from thresher.errors import NotAvailable
from thresher.interfaces import Step
from thresher.loops import compiling, trees
from thresher.loops.certified.watchlists import rebuild
from thresher.loops.structures import Found
from thresher.model.network import Network, NetworkSettings
from thresher.model.weights import Weights
from thresher.parallel import core_count
from thresher.shards import SHARDS
from thresher.shards.certified import Certified
from thresher.shards.recipe import Recipe
from thresher.shards.watchlists import StartBlock, StartScan
from thresher.theory import limit_kernel

__all__ = ["BESIDE", "PARTS", "compile_all", "compiled_beside", "start"]

_INPUTS, _COLUMNS = 256, 32  # so many that start rows are screened, where the processor can


def _recipe() -> Recipe:
    problem = random_problem(inputs=_INPUTS, dimension=_COLUMNS)
    settings = NetworkSettings.checked(width=64, dimension=_COLUMNS, shift=3.0, seed=0, twins=False)
    return Recipe(SHARDS["certified"], settings, problem.inputs, "float32")


def start(*, screened: Sequence[bool] = (True, False)) -> None:
    """Compile the scan of start rows, with a screen, without, or both. Cost: a block of 64 rows."""
    recipe = _recipe()
    shard, geometry, block = Certified(recipe, range(64)), recipe.geometry, range(64)
    for rounded in [recipe.rounded_inputs] * (True in screened) + [None] * (False in screened):
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


def outputs() -> None:
    """Compile what predictions of a network take: of many inputs, of fewer, and of one."""
    recipe = _recipe()
    network = Network(recipe.settings, Weights.at_start(recipe.settings.start, recipe.inputs, dtype="float32"))
    for inputs in (_INPUTS, 100, 1):
        network.predict(recipe.inputs[:inputs])


def searches() -> None:
    """Compile the other ways to search and to start, and the paper's own."""
    from thresher.training import train

    problem, some = random_problem(inputs=20, dimension=10), {"width": 200, "max_iterations": 2}
    ways: list[dict[str, Any]] = [
        {"index": "scan"}, {"index": "tournament"}, {"index": "dense"}, {"method": "paper"}, {"solver": "pivots"},
        {"twins": True}, {"dtype": "float64"}, {"start": "poisson", "twins": True, "shift": 0.8, "width": 2000},
    ]  # fmt: skip
    for options in ways:
        train(problem, **{**some, **options}).network.predict(problem.inputs)


def estimators() -> None:
    """Compile what fits of few rows take, and their predictions."""
    from thresher.estimators import ThresherClassifier, ThresherRegressor

    X = np.random.default_rng(0).normal(size=(200, 5))
    ThresherRegressor(random_state=0).fit(X, X[:, 0] + np.sin(X[:, 1])).predict(X[:5])
    ThresherClassifier(random_state=0).fit(X, X[:, 0] > 0).predict_proba(X[:5])


PARTS: dict[str, Callable[[], None]] = {
    "start": start, "steps": steps, "outputs": outputs, "estimators": estimators, "searches": searches,
}  # fmt: skip
BESIDE = ("steps", "outputs")  # what another process compiles while this one compiles the start scan
# All of them: groups of a line side by side, one process each; then those of the next line.
_LINES: tuple[tuple[tuple[str, ...], ...], ...] = ((("start",), ("steps", "outputs", "estimators")), (("searches",),))


def _process(parts: Sequence[str], **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "thresher.warmup", *parts], text=True, stdin=subprocess.DEVNULL,
        env={**os.environ, "THRESHER_QUIET": "1"}, **options,
    )  # fmt: skip


@contextmanager
def compiled_beside(*parts: str) -> Iterator[bool]:
    """Have parts compiled by another process, unless the cache has them, and wait for it at the end of the block.

    Gives whether there is such a process. If it fails, what it was to compile is compiled where it is needed.
    """
    names = set(compiling.SECONDS) - {"certified.start_scan._scan_rows"}
    child = None
    if core_count() > 1 and sys.executable and not all(map(compiling.is_stored, names)):
        try:
            child = _process(parts, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            compiling.stored_elsewhere |= names
        except OSError:
            pass
    try:
        yield child is not None
        if child is not None:
            child.wait()
    finally:
        if child is not None:
            child.kill()
            child.wait()
        compiling.stored_elsewhere.clear()


def compile_all() -> Iterator[str]:
    """Compile everything in processes of their own, and yield the name of each part that is done.

    Raises NotAvailable if one of them fails. Cost: about twenty seconds on two cores; two where all is in the cache.
    """
    for line in _LINES:
        groups = line if core_count() > 1 else (tuple(part for parts in line for part in parts),)
        running = [_process(parts, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for parts in groups]
        try:
            for child in running:
                assert child.stdout is not None
                yield from map(str.strip, child.stdout)
                if child.wait():
                    assert child.stderr is not None
                    last = child.stderr.read().strip().rpartition("\n")[2]
                    raise NotAvailable(f"compiling ended with an error: {last}. Run: python -m thresher.warmup start")
        finally:
            for child in running:
                child.kill()
                child.communicate()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for _part in sys.argv[1:]:
        PARTS[_part]()
        print(_part, flush=True)
