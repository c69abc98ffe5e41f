"""``thresher inspect``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from thresher.output import Console, to_json
from thresher.pages import say_number
from thresher.runs import describe

__all__ = ["inspect"]


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def inspect(model: Path, as_json: bool) -> None:
    """Describe a MODEL: a folder written by thresher train --save, or a file saved by an estimator.

    Example: thresher inspect runs/houses
    """
    facts = describe(model)
    if as_json:
        click.echo(to_json(facts))
        return
    console, widest = Console(), max(map(len, facts))
    for name, value in facts.items():
        console.print(f"{console.bold(name)}{' ' * (widest - len(name))}  {_say(value)}")


def _say(value: Any) -> str:
    """Return a value as people write it: thousands with commas, three figures, yes or no."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return say_number(value) if isinstance(value, float) else str(value)
