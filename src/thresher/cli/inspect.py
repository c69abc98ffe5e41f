"""``thresher inspect``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click

from thresher.cli import options
from thresher.files import read_file
from thresher.memory import format_bytes
from thresher.output import Console, to_json
from thresher.report import Evaluation, read_run
from thresher.report.evaluation import LEFT_OUT
from thresher.report.saved import MODEL_FILE
from thresher.report.words import say_number, say_scores
from thresher.theory import Shares
from thresher.training.result_files import KIND, VERSION

__all__ = ["describe", "inspect"]

_SHOWN = 8  # names of columns


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@options.json
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


def describe(path: Path) -> dict[str, Any]:
    """Return facts about the folder of a run, or about a model's file."""
    return _of_file(path) if path.is_file() else _of_run(read_run(path), path)


def _of_run(run: Evaluation, folder: Path) -> dict[str, Any]:
    read_file(folder / MODEL_FILE, kind=KIND, version=VERSION)  # refuses what is not there, or damaged
    columns = ", ".join(run.columns[:_SHOWN])
    columns += f" and {len(run.columns) - _SHOWN} more" if len(run.columns) > _SHOWN else ""
    facts = {
        "what": run.what,
        **run.network,
        **{one.name: one.taken for one in run.choices if one.name not in run.network},
    }
    facts["columns"] = columns or "none named"
    for one in run.trainings:
        count = len(one.history) - 1
        facts[one.name] = f"{one.status}, {count:,} iteration{'' if count == 1 else 's'}"
    if run.test is not None:
        facts["test"] = f"{say_scores(run.scores, run.folds.get('standard errors'))} on {run.rows:,} unseen rows"
    if run.seconds:
        facts["time"] = f"{sum(run.seconds.values()):.1f} s"
    size = sum(one.stat().st_size for one in folder.iterdir() if one.is_file())
    return {**facts, "made": run.when, "command": run.command, "size": format_bytes(size)}


def _of_file(path: Path) -> dict[str, Any]:
    about = read_file(path, kind=KIND, version=VERSION).metadata
    facts = {"what": str(about.get("estimator"))}
    facts |= {"form": str(about["form"])} if "form" in about else {}
    facts |= {name.rstrip("_").replace("_", " "): value for name, value in about.get("values", {}).items()}
    facts |= {"parts": Shares(*about["kernel"]["parts"]).words} if "kernel" in about else {}
    facts |= {str(one[0]): one[2] for one in about.get("choices", [])}
    if (share := about.get("loo_share", math.nan)) == share:
        facts[LEFT_OUT] = share
    if (seed := about.get("parameters", {}).get("random_state")) is not None:
        facts["seed"] = seed
    if networks := about.get("networks", []):
        facts["networks"] = f"{len(networks)} of {networks[0]['width']:,} neurons"
    return {**facts, "size": format_bytes(path.stat().st_size)}


def _say(value: Any) -> str:
    """Return a value as people write it: thousands with commas, three figures, yes or no."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return say_number(value) if isinstance(value, float) else str(value)
