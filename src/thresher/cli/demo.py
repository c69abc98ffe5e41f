"""``thresher demo``."""

from __future__ import annotations

import time
from typing import Any

import click
import numpy as np
from click.core import ParameterSource

from thresher import train
from thresher.cli.live import Live, end
from thresher.cli.options import COUNT
from thresher.datasets import digits, random_problem
from thresher.errors import InvalidInput
from thresher.output import Console

__all__ = ["demo"]

BILLION = 10**9  # neurons, with --billion


@click.command()
@click.option("--width", type=COUNT, default="2^20", show_default=True, help="Number of neurons, such as 1e6 or 2^20.")
@click.option("--rows", type=COUNT, default=1000, show_default=True, help="Number of images to train on.")
@click.option(
    "--seed", type=COUNT, default=0, show_default=True, help="Seed of the start weights and the choice of rows."
)
@click.option("--paper", is_flag=True, help="Use the paper's own trees and solver (slower; try --rows 64).")
@click.option("--billion", is_flag=True, help="A billion neurons on 16 inputs: only those that fire are drawn.")
def demo(width: int, rows: int, seed: int, paper: bool, billion: bool) -> None:
    """Train a million neurons on handwritten digits, and test them on unseen digits.

    Example: thresher demo --width 1e5
    """
    console = Console()
    if billion:
        given = click.get_current_context().get_parameter_source
        for name in ("width", "rows", "paper"):
            if given(name) is not ParameterSource.DEFAULT:
                raise InvalidInput(f"--billion has its own width, inputs and method; got --{name} as well. Drop one.")
        _train_a_billion(console, seed=seed)
        return
    if rows == 1:
        raise InvalidInput("--rows must be at least 2, since images are centred first; got 1.")
    split = digits(rows=rows, seed=seed)
    method = "paper" if paper else None
    console.print(f"Training {width:,} neurons on {split.description}.")
    began = time.perf_counter()
    with Live(console, width, inputs=rows) as live:
        result = train(split.train, width=width, seed=seed, method=method, callbacks=[live])
    trained = time.perf_counter() - began
    began = time.perf_counter()
    guesses = np.sign(result.network.predict(split.test.inputs))
    tested = time.perf_counter() - began
    right = int((guesses == split.test.targets).sum())
    console.print(f"{result.status.value.capitalize()}: {result.message} {trained:.1f} s in total.")
    console.print(
        f"Test: {right} of {split.test.size} unseen digits right ({right / split.test.size:.1%}), in {tested:.1f} s.",
    )
    end(result)


def _train_a_billion(console: Console, *, seed: int) -> None:
    """Train a billion neurons on 16 random inputs; only those that fire on one are drawn."""
    problem = random_problem(inputs=16, dimension=32, seed=seed)
    options: dict[str, Any] = {"twins": True, "start": "poisson", "seed": seed}
    train(problem, width=4000, **options)  # compiles
    console.print(f"Training {BILLION:,} neurons on 16 random inputs. Only neurons that fire on an input are drawn.")
    began = time.perf_counter()
    with Live(console, BILLION, inputs=problem.size) as live:
        result = train(problem, width=BILLION, callbacks=[live], **options)
    seconds, drawn = time.perf_counter() - began, result.network.settings.neurons
    console.print(f"{result.status.value.capitalize()}: {result.message} {seconds:.1f} s in total.")
    console.print(f"{drawn:,} neurons were drawn, one in {BILLION / drawn:.0f}; all others fire on nothing and cancel.")
    end(result)
