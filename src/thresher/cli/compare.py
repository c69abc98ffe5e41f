"""``thresher compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from thresher import InvalidInput
from thresher.cli.pieces.live import notes
from thresher.cli.pieces.options import reading_options, take_reading
from thresher.cli.pieces.places import new_file
from thresher.output import Console, make_folder
from thresher.pages import find_jinja
from thresher.runs import read_run
from thresher.runs.saved import load_model
from thresher.tables import Frame

__all__ = ["compare"]

_ALL = 1 << 62  # rows that are read at once


@click.command()
@click.argument("run", metavar="MODEL", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@click.option("--report", type=click.Path(path_type=Path), metavar="HTML", help="Write a page with pictures to a file.")
@reading_options("as in training")
@click.option("--force", is_flag=True, help="Replace the file of --report if it is there already.")
def compare(run: Path, new: Path, report: Path | None, force: bool, **options: Any) -> None:
    """Compare the rows of a file, NEW, with those that a MODEL was trained on: a folder of thresher train --save.

    Says which columns have moved by more than chance, in values, names and what is missing; how sure the model is
    beside rows of its test; and, if NEW has the target, how good it is there.

    Example: thresher compare runs/houses june.csv --report june.html
    """
    if report is not None:
        find_jinja()
        new_file(report, option="--report", force=force)
    if not run.is_dir():
        raise InvalidInput(f"{run} is no folder; expected one that thresher train --save has written.")
    found, console = read_run(run), Console(stderr=True)
    with console.status(lambda: "Loading the model ..."):
        saved = load_model(run)
    with notes(console):
        blocks = list(saved.read(new, how=take_reading(options), size=_ALL))
        if len(blocks) != 1:
            raise InvalidInput(f"{new} has no rows to compare.")
        rows: Frame = blocks[0].X
        for line in blocks[0].notes:
            console.print(line)
        targets = blocks[0].targets
        text = targets is not None and targets.dtype.kind == "U" and saved.task == "regression"
        if text:
            console.print(f"Column {saved.target!r} holds text, so predictions are not compared with it.")
        known = None if targets is None or text or not np.size(targets) else targets
        comparison = found.compare(rows, known)
    click.echo(comparison.summary())
    if report is not None:
        make_folder(report.parent, remedy="Choose another place with --report.")
        click.echo(f"Written: {comparison.report(report)}.")
