"""``thresher verify``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from thresher.cli.bench import from_clone
from thresher.cli.options import COUNT, COUNTS
from thresher.cli.places import new_file
from thresher.datasets import random_problem
from thresher.figures import NO_FIGURES
from thresher.output import make_folder
from thresher.report.page import find_jinja
from thresher.tables import read_table, split_table

__all__ = ["verify"]

_INPUTS, _DIMENSION = 32, 20  # of the random problem that the paper's statements are checked on
_LADDER = [1 << exponent for exponent in range(10, 23, 2)]  # widths; files have more rows, so theirs ends at 2^18


@click.command()
@click.option("--data", type=click.Path(path_type=Path), help="CSV or Parquet file; default: random inputs.")
@click.option("--target", help="Numeric column to predict; default: the last.")
@click.option("--rows", type=COUNT, default=500, show_default=True, help="Most rows to use.")
@click.option("--widths", type=COUNTS, help="Widths, such as 2^10,2^14; default: up to 2^22, or 2^18 with --data.")
@click.option("--seed", type=COUNT, default=0, show_default=True, help="Seed of problem, start weights and sketches.")
@click.option(
    "--output", type=click.Path(path_type=Path), default="results/verify", show_default=True, help="Folder to write to."
)
@click.option("--force", is_flag=True, help="Replace the page and figures of an earlier verification.")
def verify(
    data: Path | None, target: str | None, rows: int, widths: list[int] | None, seed: int, output: Path, force: bool
) -> None:
    """Check the paper's statements one by one, at several widths; exit with status 1 if a promised one fails.

    Writes a page, verify.html, with the table and the figures. Takes about a minute. Needs a clone, as bench does.

    Example: thresher verify --data measurements.csv --target price
    """
    verification, terminal = from_clone("verification"), from_clone("verification.terminal")
    find_jinja()
    console = terminal.wide_console()
    new_file(output / "verify.html", option="--output", force=force)
    make_folder(output, remedy="Choose another folder with --output.")
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
        console.print(NO_FIGURES, highlight=False, markup=False)
    if report.broken:
        sys.exit(1)
