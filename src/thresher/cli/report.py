"""``thresher report``."""

from __future__ import annotations

from pathlib import Path

import click

from thresher.cli.pieces.live import short
from thresher.cli.pieces.places import new_file
from thresher.output import make_folder
from thresher.pages import find_jinja
from thresher.runs import read_run, write_report

__all__ = ["report"]


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--output", type=click.Path(path_type=Path), help="File to write; default: report.html in the folder.")
@click.option("--force", is_flag=True, help="Replace the file if it is there already.")
def report(run: Path, output: Path | None, force: bool) -> None:
    """Write the report of a RUN, a folder written by thresher train --save: one HTML file, figures included.

    Example: thresher report runs/digits --output digits.html
    """
    find_jinja()
    found, place = read_run(run), output or run / "report.html"
    new_file(place, option="--output", force=force)
    make_folder(place.parent, remedy="Choose another place with --output.")
    page = write_report(found, place, folder=run)
    click.echo(f"Written: {page} ({short(page.stat().st_size)}B).")
