"""The command line: parse, call, print."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from thresher import (
    Callback,
    InvalidInput,
    Iteration,
    NotAvailable,
    Result,
    Status,
    ThresherError,
    __version__,
    train,
    verification,
)
from thresher.datasets import digits, random_problem
from thresher.figures import REMEDY
from thresher.tables import read_table, split_table
from thresher.verification import terminal

__all__ = ["main"]


_INPUTS, _DIMENSION = 32, 20  # of the random problem that the paper's statements are checked on
_LADDER = [1 << exponent for exponent in range(10, 23, 2)]  # widths; files have more rows, so theirs ends at 2^18


class _Count(click.ParamType):  # type: ignore[type-arg]
    """A whole number, written 1048576, 1e6 or 2^20."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        base, _, power = str(value).partition("^")
        try:
            number = int(base) ** int(power or 1)
        except (ValueError, ZeroDivisionError):
            number = _float(base) if not power else math.nan
        if isinstance(number, float) and not number.is_integer():
            self.fail(f"expected a whole number such as 1048576, 1e6 or 2^20; got {value!r}.", param, ctx)
        return int(number)


class _Counts(_Count):
    """Whole numbers, separated by commas."""

    name = "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:  # type: ignore[override]
        return [super(_Counts, self).convert(one.strip(), param, ctx) for one in str(value).split(",")]


@click.group()
@click.version_option(__version__, prog_name="thresher")
def commands() -> None:
    """Train very wide two-layer ReLU networks by exact Gauss-Newton steps."""


@commands.command()
@click.option("--width", type=_Count(), default="2^20", show_default=True, help="Neurons; 1e6 and 2^20 are fine too.")
@click.option("--rows", type=_Count(), default=1000, show_default=True, help="Images to train on.")
@click.option(
    "--seed", type=_Count(), default=0, show_default=True, help="Of the start weights and the choice of rows."
)
@click.option("--paper", is_flag=True, help="Use the paper's own trees and solver (slower; try --rows 64).")
def demo(width: int, rows: int, seed: int, paper: bool) -> None:
    """Train a million neurons on handwritten digits, and test them on digits never seen.

    Example: thresher demo --width 1e5
    """
    console = Console()
    split = digits(rows=rows, seed=seed)
    method = "paper" if paper else None
    _compile(console, method)
    console.print(f"Training {width:,} neurons on {split.description}.")
    began = time.perf_counter()
    with _Live(console, width) as live:
        result = train(split.train, width=width, seed=seed, method=method, callbacks=[live])
    trained = time.perf_counter() - began
    began = time.perf_counter()
    guesses = np.sign(result.network.predict(split.test.inputs))
    tested = time.perf_counter() - began
    console.print(_history_table(result))
    right = int((guesses == split.test.targets).sum())
    console.print(f"{result.status.value.capitalize()}: {result.message} {trained:.1f} s in all.", highlight=False)
    console.print(
        f"Test: {right} of {split.test.size} unseen digits right ({right / split.test.size:.1%}), in {tested:.1f} s.",
        highlight=False,
    )
    _end(result)


@commands.command()
@click.option("--inputs", type=_Count(), default=200, show_default=True, help="Random inputs on the sphere.")
@click.option("--dimension", type=_Count(), default=50, show_default=True, help="Of the inputs.")
@click.option("--width", type=_Count(), default="2^17", show_default=True, help="Neurons.")
@click.option("--seed", type=_Count(), default=0, show_default=True, help="Of problem and start weights.")
@click.option("--twins", is_flag=True, help="Neurons in pairs of opposite sign.")
def audit(inputs: int, dimension: int, width: int, seed: int, twins: bool) -> None:
    """Train on a random problem and check every certificate after every iteration against a full scan.

    Example: thresher audit --inputs 500 --width 2^18
    """
    console = Console()
    problem = random_problem(inputs=inputs, dimension=dimension, seed=seed)
    with _Live(console, width) as live:
        result = train(problem, width=width, seed=seed, twins=twins, audit=True, callbacks=[live])
    console.print(_history_table(result))
    console.print(
        f"Audited {result.audited:,} pairs: who fires, outputs and counts are what they should be.", highlight=False
    )
    _end(result)


@commands.command()
@click.option("--full", is_flag=True, help="The sizes of the published figures; takes an hour or less.")
@click.option("--tiny", is_flag=True, help="Sizes that only show that everything works.")
@click.option("--case", "cases", multiple=True, metavar="NAME", help="race, width or problems; may be repeated.")
@click.option("--output", type=click.Path(path_type=Path), default="results/bench.json", show_default=True)
def bench(full: bool, tiny: bool, cases: Sequence[str], output: Path) -> None:
    """Measure every method side by side: time, iterations, memory and operations, ours and those of rivals.

    Takes a few minutes without --full. Nothing else should run meanwhile.

    Example: thresher bench --case race
    """
    if full and tiny:
        raise InvalidInput("--full and --tiny exclude each other; give one of them.")
    try:
        found: Any = import_module("benchmarks.bench")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "benchmarks":
            raise
        raise NotAvailable("benchmarks are not part of the installed package. Run thresher from a clone.") from error
    found.bench(cases=cases, tier="full" if full else "tiny" if tiny else "quick", output=output, console=Console())


@commands.command()
@click.option(
    "--data", type=click.Path(path_type=Path), help="CSV of numbers, or .npz with X and y; else random inputs."
)
@click.option("--target", help="Column of the CSV file to predict; the last one unless named.")
@click.option("--rows", type=_Count(), default=500, show_default=True, help="Of the file, at the most.")
@click.option("--widths", type=_Counts(), help="Numbers of neurons, as 2^10,2^14; else up to 2^22, for a file 2^18.")
@click.option("--seed", type=_Count(), default=0, show_default=True, help="Of problem, start weights and sketches.")
@click.option("--output", type=click.Path(path_type=Path), default="results/verify", show_default=True)
def verify(data: Path | None, target: str | None, rows: int, widths: list[int] | None, seed: int, output: Path) -> None:
    """Check the paper's statements one by one, on a ladder of widths; end with status 1 if a promised one fails.

    Writes a page, verify.html, with the table and the figures. Takes about a minute.

    Example: thresher verify --data measurements.csv --target price
    """
    console = terminal.wide_console()
    _make_folder(output)
    if data is None:
        problem = random_problem(inputs=_INPUTS, dimension=_DIMENSION, seed=seed)
        unseen = random_problem(inputs=200, dimension=_DIMENSION, seed=seed + 1).inputs
        title = f"{_INPUTS} random inputs of dimension {_DIMENSION} with N(0, 1) targets."
    else:
        split = split_table(read_table(data, target=target), rows=rows, seed=seed)
        problem, unseen, title = split.train, split.test.inputs, f"{data.name}: {split.description}."
    console.print(title, highlight=False, markup=False)
    widths = widths or [width for width in _LADDER if data is None or width <= 1 << 18]
    with terminal.Parts(console) as parts:
        report = verification.verify(problem, unseen=unseen, widths=widths, title=title, seed=seed, tell=parts)
    console.print(terminal.statement_table(report))
    for sentence in verification.explain(report):
        console.print(sentence, highlight=False, markup=False)
    written = verification.write_page(report, output)
    console.print(f"Written: {written[0]}" + (f" and {len(written) - 1} figures." if len(written) > 1 else "."))
    if len(written) == 1:
        console.print(REMEDY, highlight=False, markup=False)
    if report.broken:
        sys.exit(1)


def _end(result: Result) -> None:
    """End as interrupted, with status 130, if training was."""
    if result.status == Status.INTERRUPTED:
        raise KeyboardInterrupt


def _make_folder(folder: Path) -> None:
    """Make a folder before the work begins, rather than find out after it that this cannot be done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(
            f"cannot write to {folder}: {error.strerror}. Choose another folder with --output."
        ) from None


def _compile(console: Console, method: str | None) -> None:
    """Compile what training needs, so that the seconds shown later are those of the work."""
    began = time.perf_counter()
    with console.status("Compiling, once for this machine ..."):
        train(random_problem(inputs=20, dimension=10), width=4000, method=method)
    if (seconds := time.perf_counter() - began) > 2:
        console.print(f"Compiled, once for this machine ({seconds:.0f} s).", highlight=False)


class _Live(Callback):
    """Shows the start pass as a bar and each iteration as a line, as they happen."""

    def __init__(self, console: Console, neurons: int) -> None:
        self._console = console
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:3.0f} %"))
        self._progress = Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console, transient=True)
        self._task = self._progress.add_task("  start scan", total=neurons)

    def __enter__(self) -> _Live:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def on_progress(self, done: int, total: int) -> None:
        """Move the bar."""
        self._progress.update(self._task, completed=done, total=total)

    def on_iteration(self, record: Iteration) -> None:
        """Print a line."""
        self._progress.update(self._task, visible=False)
        what = "start" if record.iteration == 0 else f"iteration {record.iteration}"
        fell = "" if math.isnan(record.contraction) else f", {record.contraction:.2g} of the one before"
        seconds = sum(record.seconds.values())
        self._console.print(f"  {what}: residual {record.residual:.3g}{fell} ({seconds:.2f} s)", highlight=False)


def _history_table(result: Result) -> Table:
    table = Table(title=f"{result.network!r}", title_justify="left")
    for name in ("", "residual", "fell to", "step", "moved", "looks", "flips", "seconds"):
        table.add_column(name, justify="right", no_wrap=True)
    for record in result.history:
        fell = "" if math.isnan(record.contraction) else f"{record.contraction:.2g}"
        table.add_row(
            str(record.iteration) if record.iteration else "start",
            f"{record.residual:.3g}",
            fell,
            f"{record.step:g}" if record.iteration else "",
            _short(record.moved),
            _short(record.looks),
            _short(record.flips),
            f"{sum(record.seconds.values()):.2f}",
        )
    return table


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _short(count: int) -> str:
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count / size:.3g} {letter}"
    return str(count)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; errors of use end with one line and exit code 2, an interrupt with 130."""
    try:
        commands.main(args=arguments, prog_name="thresher", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.exceptions.Abort, KeyboardInterrupt):
        click.echo("Interrupted.", err=True)
        sys.exit(130)
    except ThresherError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(2)
