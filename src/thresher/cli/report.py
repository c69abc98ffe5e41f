"""``thresher report``."""

from __future__ import annotations

from pathlib import Path

import click

from thresher.cli import options
from thresher.cli.live import short
from thresher.cli.places import new_file
from thresher.output import make_folder
from thresher.report import read_run
from thresher.report.page import find_jinja

__all__ = ["report"]


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--output", type=click.Path(path_type=Path), help="File to write; default: report.html in the folder.")
@options.force
@options.quiet
def report(run: Path, output: Path | None, force: bool, quiet: bool) -> None:
    """Write the report of a RUN, a folder written by thresher train --save: one HTML file, figures included.

    Example: thresher report runs/digits --output digits.html
    """
    find_jinja()
    found, place = read_run(run), output or run / "report.html"
    new_file(place, option="--output", force=force)
    make_folder(place.parent, remedy="Choose another place with --output.")
    page = found.report(place)
    if not quiet:
        click.echo(f"Written: {page} ({short(page.stat().st_size)}B).")
