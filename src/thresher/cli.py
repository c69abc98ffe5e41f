"""The command line: parse, call, print."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence

import click
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from thresher import Callback, Iteration, Result, ThresherError, __version__, train
from thresher.datasets import digit_pair

__all__ = ["main"]


@click.group()
@click.version_option(__version__, prog_name="thresher")
def commands() -> None:
    """Train very wide two-layer ReLU networks by exact Gauss-Newton steps."""


@commands.command()
@click.option("--width", default="1048576", show_default=True, help="Number of neurons; 1e6 is fine too.")
@click.option("--rows", default=64, show_default=True, help="Images to train on.")
@click.option("--seed", default=0, show_default=True, help="Of the start weights.")
def demo(width: str, rows: int, seed: int) -> None:
    """Train a million neurons on handwritten digits by the paper's method, and test them on digits never seen.

    Example: thresher demo --width 1e5
    """
    console = Console()
    neurons = _whole(width, "--width")
    split = digit_pair(rows=rows, seed=seed)
    console.print(f"Training {neurons:,} neurons on {split.description}, method='paper'.")
    began = time.perf_counter()
    with _Live(console, neurons) as live:
        result = train(split.train, width=neurons, seed=seed, method="paper", callbacks=[live])
    trained = time.perf_counter() - began
    guesses = np.sign(result.network.predict(split.test.inputs))
    console.print(_history_table(result, pairs=neurons * split.train.size))
    right = int((guesses == split.test.targets).sum())
    console.print(f"{result.status.value.capitalize()}: {result.message} {trained:.1f} s in all.")
    console.print(f"Test: {right} of {split.test.size} unseen digits right ({right / split.test.size:.1%}).")


class _Live(Callback):
    """Shows the start pass as a bar and each iteration as a line, as they happen."""

    def __init__(self, console: Console, neurons: int) -> None:
        self._console = console
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=console, transient=True)
        self._task = self._progress.add_task("start scan (neurons)", total=neurons)

    def __enter__(self) -> _Live:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def on_progress(self, done: int, total: int) -> None:
        self._progress.update(self._task, completed=done, total=total)

    def on_iteration(self, record: Iteration) -> None:
        what = "start" if record.iteration == 0 else f"iteration {record.iteration}"
        fell = "" if math.isnan(record.contraction) else f", {record.contraction:.2g} of the one before"
        self._progress.update(self._task, visible=record.iteration == 0 and not self._progress.finished)
        self._console.print(f"  {what}: residual {record.residual:.3g}{fell} ({sum(record.seconds.values()):.2f} s)")


def _history_table(result: Result, *, pairs: int) -> Table:
    table = Table(title=f"{result.network!r}", title_justify="left")
    for name in (
        "iteration",
        "residual",
        "contraction",
        "step",
        "neurons moved",
        "looks",
        "of all pairs",
        "flips",
        "s",
    ):
        table.add_column(name, justify="right")
    for record in result.history:
        contraction = "" if math.isnan(record.contraction) else f"{record.contraction:.2e}"
        table.add_row(
            str(record.iteration) if record.iteration else "start",
            f"{record.residual:.3e}",
            contraction,
            f"{record.step:g}" if record.iteration else "",
            f"{record.moved:,}",
            f"{record.looks:,}",
            f"{record.looks / pairs:.2%}",
            f"{record.flips:,}",
            f"{sum(record.seconds.values()):.2f}",
        )
    return table


def _whole(text: str, option: str) -> int:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not number.is_integer():
        raise click.BadParameter(f"expected a whole number such as 1048576 or 1e6; got {text!r}.", param_hint=option)
    return int(number)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; errors of use end with one line and exit code 2, an interrupt with 130."""
    try:
        commands.main(args=arguments, prog_name="thresher", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.exceptions.Abort:
        click.echo("Interrupted.", err=True)
        sys.exit(130)
    except ThresherError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(2)
