"""``thresher audit``."""

from __future__ import annotations

import click

from thresher import Status, train
from thresher.cli.live import Live
from thresher.cli.options import COUNT
from thresher.datasets import random_problem
from thresher.output import Console

__all__ = ["audit"]


@click.command()
@click.option(
    "--inputs", type=COUNT, default=200, show_default=True, help="Number of random inputs on the unit sphere."
)
@click.option("--dimension", type=COUNT, default=50, show_default=True, help="Dimension of the inputs.")
@click.option("--width", type=COUNT, default="2^17", show_default=True, help="Number of neurons.")
@click.option("--seed", type=COUNT, default=0, show_default=True, help="Seed of the problem and the start weights.")
@click.option(
    "--twins/--no-twins",
    default=None,
    help="Pair neurons with opposite signs, or do not; they are paired where the width is even.",
)
def audit(inputs: int, dimension: int, width: int, seed: int, twins: bool | None) -> None:
    """Train a network on random inputs, and check every certificate against a full scan after every iteration.

    Exits with status 1 if anything is wrong.

    Example: thresher audit --width 2^16
    """
    console = Console()
    problem = random_problem(inputs=inputs, dimension=dimension, seed=seed)
    with Live(console, width, inputs=inputs) as live:
        chosen = "auto" if twins is None else twins
        result = train(problem, width=width, seed=seed, twins=chosen, audit=True, callbacks=[live])
    console.print(f"Audited {result.audited:,} pairs: firing sets, outputs and counts are correct.")
    if result.status == Status.INTERRUPTED:
        raise KeyboardInterrupt
