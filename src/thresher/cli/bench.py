"""``thresher bench``."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from thresher import InvalidInput, NotAvailable
from thresher.errors import not_installed

__all__ = ["bench", "from_clone"]

_COMMAND_OF = {"benchmarks": "bench", "verification": "verify"}  # folders


def from_clone(name: str) -> Any:
    """Return a module of a folder beside the package, which a plain installation does not have.

    Raises NotAvailable without the folder, or without a package that it needs.
    """
    folder = name.partition(".")[0]
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        missing = (error.name or "thresher").partition(".")[0]
        if missing == "thresher":
            raise
        if missing != folder:
            raise not_installed(f"thresher {_COMMAND_OF[folder]} needs {missing}", extra="test") from error
        said = f"the folder {folder} is not part of the installed package. Run thresher from a clone."
        raise NotAvailable(said) from error


@click.command()
@click.option(
    "--full", is_flag=True, help="Use the sizes of docs/benchmarks.md, and write its tables; an hour or less."
)
@click.option("--tiny", is_flag=True, help="Use tiny sizes, to check that everything runs.")
@click.option(
    "--case",
    "cases",
    multiple=True,
    metavar="NAME",
    help="race, cross_entropy, width or problems; may be repeated.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default="results/bench.json",
    show_default=True,
    help="File of results.",
)
def bench(full: bool, tiny: bool, cases: Sequence[str], output: Path) -> None:
    """Measure every method side by side: time, iterations, memory and operations.

    Takes a few minutes without --full. Run nothing else at the same time.

    Example: thresher bench --case race
    """
    if full and tiny:
        raise InvalidInput("--full and --tiny exclude each other; give only one.")
    found = from_clone("benchmarks.bench")
    found.bench(cases=cases, tier="full" if full else "tiny" if tiny else "quick", output=output)
