"""``thresher inspect``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from thresher.files import read_file
from thresher.memory import format_bytes
from thresher.output import to_json
from thresher.pages import say_number
from thresher.runs import Run, read_run
from thresher.runs.record import LEFT_OUT
from thresher.runs.scores import say_scores
from thresher.training.result_files import KIND, VERSION

__all__ = ["inspect"]


@click.command(short_help="Describe a model.")
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def inspect(model: Path, as_json: bool) -> None:
    """Describe a MODEL: a folder written by thresher train --save, or a file saved by an estimator.

    Example: thresher inspect runs/houses
    """
    facts = _of_file(model) if model.is_file() else _of_run(read_run(model), model)
    if as_json:
        click.echo(to_json(facts))
        return
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in facts.items():
        table.add_row(f"[bold]{escape(name)}[/bold]", escape(_say(value)))
    Console(soft_wrap=True).print(table, highlight=False)


def _say(value: Any) -> str:
    """Return a value as people write it: thousands with commas, three figures, yes or no."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return say_number(value) if isinstance(value, float) else str(value)


def _of_run(run: Run, folder: Path) -> dict[str, Any]:
    columns = [str(one) for one in run.model.get("names", [])] or [str(one[0]) for one in run.model.get("columns", [])]
    shown = ", ".join(columns[:8]) + (f" and {len(columns) - 8} more" if len(columns) > 8 else "")
    facts = {"what": run.what, **run.network, "columns": shown or "none named"}
    facts |= {one.name: f"{one.status.value}, {_count(len(one.history) - 1, 'iteration')}" for one in run.trainings}
    if run.test is not None:
        facts["test"] = f"{_scores(run)} on {run.test.rows:,} unseen rows"
    if run.seconds:
        facts["time"] = f"{sum(run.seconds.values()):.1f} s"
    size = sum(one.stat().st_size for one in folder.iterdir() if one.is_file())
    return {**facts, "made": run.when, "command": run.command, "size": format_bytes(size)}


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _scores(run: Run) -> str:
    if run.scores:
        return say_scores(run.scores, run.folds.get("standard errors"))
    return say_scores({run.test.measure: run.test.value}) if run.test else ""


def _of_file(path: Path) -> dict[str, Any]:
    stored = read_file(path, kind=KIND, version=VERSION)
    about, values = stored.metadata, stored.metadata.get("values", {})
    facts = {
        LEFT_OUT if name == "loo_share_" else name.rstrip("_").replace("_", " "): value
        for name, value in values.items()
        if name != "loo_error_" and value == value  # the share says the same without units
    }
    if (seed := about.get("parameters", {}).get("random_state")) is not None:
        facts["seed"] = seed
    networks = about.get("networks", [])
    if networks:
        facts["networks"] = f"{len(networks)} of {networks[0]['width']:,} neurons"
    return {"what": str(about.get("estimator")), "form": str(about.get("form")), **facts,
            "size": format_bytes(path.stat().st_size)}  # fmt: skip
