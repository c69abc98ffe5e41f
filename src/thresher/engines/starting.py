"""The start of engines, one per output, of networks with any activation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from thresher.engines.engine import shard_ranges, start_shards
from thresher.engines.knots import start_at_knots
from thresher.engines.threads import Threads
from thresher.interfaces import Engine, Executor, Progress, Started
from thresher.model.network import NetworkSettings
from thresher.model.problem import Problem
from thresher.parallel import core_count
from thresher.shards import SHARDS, Recipe
from thresher.theory import firing_probability

__all__ = ["start_engine", "start_engines"]


def start_engine(
    problem: Problem,
    settings: NetworkSettings,
    *,
    index: str,
    dtype: str = "float32",
    threads: int | None = None,
    first_step: NDArray[np.float64] | None = None,
    products: bool = True,
) -> tuple[Engine, Started]:
    """Start the engine of one problem on threads of this process; ``products`` of the inputs are kept. Cost: O(mnd)."""
    recipe = Recipe(SHARDS[index], settings, problem.inputs, dtype, products=products).at_knots()
    ranges = shard_ranges(settings.neurons, share=recipe.kind.SHARE, inputs=len(recipe.inputs))
    executor = Threads(recipe, ranges, threads=core_count() if threads is None else threads)
    return start_engines(
        recipe, executor, lambda done, total: None, ranges=ranges, targets=[problem.targets], first_steps=[first_step]
    )[0]


def start_engines(
    recipe: Recipe,
    executor: Executor,
    progress: Progress,
    *,
    ranges: Sequence[range],
    targets: Sequence[NDArray[np.float64]],
    first_steps: Sequence[NDArray[np.float64] | None],
) -> list[tuple[Engine, Started]]:
    """Start one engine per output: start weights and their products with the inputs are made once for all.

    ``progress`` is told how many neurons are done, and of how many; ``ranges`` are those of the executor's slices.
    ``targets`` (n,) each tell how far neurons will travel where there is no first step; with one, they
    end where it leads, as after ``move``.

    Cost: O(mnd) once, and O(mn) per output.
    """
    settings = recipe.settings
    usual = max(firing_probability(settings.limit), 1 / settings.width)  # of the diagonal of the Gram matrix
    sizes = [y / usual if step is None else step for y, step in zip(targets, first_steps, strict=True)]
    start = start_shards if recipe.knots is None else start_at_knots
    return [*start(recipe, executor, progress, ranges=ranges, sizes=sizes, first_steps=first_steps)]
