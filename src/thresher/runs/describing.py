"""Describe: what a saved run or model is, as facts with names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from thresher.files import read_file
from thresher.memory import format_bytes
from thresher.runs.record import LEFT_OUT, Training
from thresher.runs.run import Run, read_run
from thresher.runs.scores import say_scores
from thresher.training.result_files import KIND, VERSION

__all__ = ["describe"]


def describe(path: str | Path) -> dict[str, Any]:
    """Return facts about a folder that ``thresher train --save`` wrote, or about a file saved by an estimator."""
    path = Path(path)
    return _of_file(path) if path.is_file() else _of_run(read_run(path), path)


def _of_run(run: Run, folder: Path) -> dict[str, Any]:
    columns = [str(one) for one in run.model.get("names", [])] or [str(one[0]) for one in run.model.get("columns", [])]
    shown = ", ".join(columns[:8]) + (f" and {len(columns) - 8} more" if len(columns) > 8 else "")
    facts = {"what": run.what, **run.network, "columns": shown or "none named"}
    facts |= {one.name: f"{one.status.value}, {_iterations(one)}" for one in run.trainings}
    if run.test is not None:
        scores = run.scores or {run.test.measure: run.test.value}
        said = say_scores(scores, run.folds.get("standard errors"))
        facts["test"] = f"{said} on {run.test.rows:,} unseen rows"
    if run.seconds:
        facts["time"] = f"{sum(run.seconds.values()):.1f} s"
    size = sum(one.stat().st_size for one in folder.iterdir() if one.is_file())
    return {**facts, "made": run.when, "command": run.command, "size": format_bytes(size)}


def _iterations(training: Training) -> str:
    count = len(training.history) - 1
    return f"{count:,} iteration{'' if count == 1 else 's'}"


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
