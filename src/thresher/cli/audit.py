"""``thresher audit``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from thresher import InvalidInput, train
from thresher.cli.pieces.live import Live, end
from thresher.cli.pieces.options import COUNT
from thresher.datasets import random_problem
from thresher.output import Console
from thresher.runs import Run, read_run

__all__ = ["audit"]


@click.command()
@click.argument("run", type=click.Path(path_type=Path), required=False)
@click.option(
    "--inputs", type=COUNT, default=200, show_default=True, help="Number of random inputs on the unit sphere."
)
@click.option("--dimension", type=COUNT, default=50, show_default=True, help="Dimension of the inputs.")
@click.option("--width", type=COUNT, default="2^17", show_default=True, help="Number of neurons.")
@click.option("--seed", type=COUNT, default=0, show_default=True, help="Seed of the problem and the start weights.")
@click.option("--twins", is_flag=True, help="Pair neurons with opposite signs.")
def audit(run: Path | None, inputs: int, dimension: int, width: int, seed: int, twins: bool) -> None:
    """Train again and check every certificate against a full scan after every iteration.

    RUN is a folder written by thresher train --save; the repeated run must also give the same residuals. Without RUN, a
    random problem is trained. Exits with status 1 if anything is wrong.

    Example: thresher audit runs/digits
    """
    console = Console()
    if run is not None:
        _audit_run(read_run(run), run, console)
        return
    problem = random_problem(inputs=inputs, dimension=dimension, seed=seed)
    with Live(console, width, inputs=inputs) as live:
        result = train(problem, width=width, seed=seed, twins=twins, audit=True, callbacks=[live])
    console.print(f"Audited {result.audited:,} pairs: firing sets, outputs and counts are correct.")
    end(result)


def _audit_run(run: Run, folder: Path, console: Console) -> None:
    if not run.options:
        raise InvalidInput(f"{folder} was trained with a ridge and has no certificates to audit. Train with --ridge 0.")
    console.print(f"Repeating: {run.what}")
    names = [one.name for one in run.trainings]
    with Live(console, run.network["width"], inputs=len(run.inputs), names=names) as live:
        audited, differences = run.audit(callbacks=[live])
    console.print(f"Audited {audited:,} pairs: firing sets, outputs and counts are correct.")
    if differences:
        console.print(f"But the saved run does not match its settings: {differences[0]}")
        sys.exit(1)
    console.print("The residuals of all iterations match the saved run.")
