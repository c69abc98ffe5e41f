"""``thresher audit``."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.console import Console

from thresher import InvalidInput, train, train_together
from thresher.cli.live import Live, end, say
from thresher.cli.options import Count
from thresher.datasets import random_problem
from thresher.runs import Run, read_run

__all__ = ["audit"]

_SAME = 1e-5  # of the first residual: what rounding may change from one machine to another


@click.command(short_help="Check every certificate against a full scan.")
@click.argument("run", type=click.Path(path_type=Path), required=False)
@click.option("--inputs", type=Count(), default=200, show_default=True, help="Random inputs on the sphere.")
@click.option("--dimension", type=Count(), default=50, show_default=True, help="Of the inputs.")
@click.option("--width", type=Count(), default="2^17", show_default=True, help="Neurons.")
@click.option("--seed", type=Count(), default=0, show_default=True, help="Of problem and start weights.")
@click.option("--twins", is_flag=True, help="Neurons in pairs of opposite sign.")
def audit(run: Path | None, inputs: int, dimension: int, width: int, seed: int, twins: bool) -> None:
    """Check every certificate after every iteration against a full scan: of a RUN, which is repeated for it, or of a
    random problem.

    RUN is a folder that thresher train --save has written; the repeated run must also end where the first one did.
    Ends with status 1 if anything is amiss.

    Example: thresher audit runs/digits
    """
    console = Console()
    if run is not None:
        _audit_run(read_run(run), run, console)
        return
    problem = random_problem(inputs=inputs, dimension=dimension, seed=seed)
    with Live(console, width, inputs=inputs) as live:
        result = train(problem, width=width, seed=seed, twins=twins, audit=True, callbacks=[live])
    say(console, f"Audited {result.audited:,} pairs: who fires, outputs and counts are what they should be.")
    end(result)


def _audit_run(run: Run, folder: Path, console: Console) -> None:
    if not run.options:
        raise InvalidInput(f"{folder} was trained with a ridge, without certificates to audit. Train with --ridge 0.")
    say(console, f"Repeating: {run.what}")
    names = [one.name for one in run.trainings]
    with Live(console, run.network["width"], inputs=len(run.inputs), names=names) as live:
        results = train_together(run.problems(), **{**run.options, "audit": True, "callbacks": [live]})
    amiss = []
    for training, result in zip(run.trainings, results, strict=True):
        first = training.history[0].residual
        for old, new in zip(training.history, result.history, strict=False):
            if abs(old.residual - new.residual) > _SAME * first:
                amiss.append(
                    f"{training.name}, iteration {old.iteration}: residual {new.residual:.6g}; "
                    f"the run says {old.residual:.6g}."
                )
    audited = sum(result.audited for result in results)
    say(console, f"Audited {audited:,} pairs: who fires, outputs and counts are what they should be.")
    if amiss:
        say(console, f"But the run is not what its settings give: {amiss[0]}")
        sys.exit(1)
    say(console, "Residuals are those of the run, iteration by iteration.")
