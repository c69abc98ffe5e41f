"""Record: what ``thresher train`` writes and prints when its work is done."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shlex import join
from typing import Any

import click

from thresher import Status
from thresher.cli.fit import Work
from thresher.cli.live import say
from thresher.cli.places import forget_checkpoint
from thresher.output import to_json
from thresher.runs import Run, Test, write_report, write_run
from thresher.runs.making import Tested
from thresher.runs.pair import replace_pair
from thresher.runs.scores import say_recall, say_scores, say_threshold

__all__ = ["say_classes", "tell_end", "typed_command", "write"]


def write(run: Run, model: Any, options: dict[str, Any]) -> dict[str, str]:
    """Write the requested files; return their paths."""
    written = {}
    if (folder := options["save"]) is not None:
        replace_pair(folder, model.save, lambda place, checksum: _write_run(run, folder, place, checksum))
        written["run"] = str(folder)
        if all(one.status != Status.INTERRUPTED for one in run.trainings):
            forget_checkpoint(folder)
    if options["report"] is not None:
        written["report"] = str(write_report(run, options["report"], folder=folder))
    return written


def _write_run(run: Run, folder: Path, place: Path, checksum: str) -> None:
    """Write a run that tells the checksum of its model to another place."""
    write_run(replace(run, model=run.model | {"checksum": checksum}), folder, file=place)


def tell_end(run: Run, written: dict[str, str], work: Work) -> None:
    """Print the end: one line if quiet, one object as JSON."""
    test, seconds = run.test, sum(run.seconds.values())
    if work.options["as_json"]:
        told = {
            "what": run.what,
            "status": [one.status.value for one in run.trainings],
            "iterations": [len(one.history) - 1 for one in run.trainings],
            "residual": [one.history[-1].residual for one in run.trainings],
            "test": test._asdict() if test else None,
            "scores": run.scores,
            "folds": run.folds,
            "network": run.network,
            "data": run.data,
            "seconds": round(seconds, 3),
            "written": written,
        }
        click.echo(to_json(told))
        return
    for what, place in written.items():
        say(work.console, f"Written, {what}: {place}")
    states = sorted({one.status.value for one in run.trainings if work.exact})
    line = f"{(', '.join(states) or 'fitted').capitalize()} in {seconds:.1f} s."
    click.echo(line + (f" {_say_test(run)}" if test is not None else ""))


def _say_test(run: Run) -> str:
    """Return the scores of a run in a sentence, with those of the best constant guess."""
    test = run.test
    if test is None:
        return ""
    scores = say_scores(run.scores, run.folds.get("standard errors"))
    if test.measure == "RMSE":
        scores += f" (the mean as a guess: {say_scores({'RMSE': test.guess})})"
    count = len(next(iter(run.folds["scores"].values()))) if run.folds else 0
    how = f"Cross-validated in {count} folds, on" if count else "Test on"
    return f"{how} {test.rows:,} unseen rows: {scores}.{_say_verdict(test)}"


def _say_verdict(test: Test) -> str:
    """Return whether a model of classes is better than the same answer for every row."""
    if test.measure == "RMSE":
        return ""
    if test.measure == "log loss" and test.value < test.guess:
        return f" The log loss is {100 * (1 - test.value / test.guess):.2g}% below the base rate's."
    if test.measure == "accuracy" and test.value > test.guess:
        return ""
    return " That is no better than a constant guess."


def say_classes(work: Work, tested: Tested) -> None:
    """Print the recall of each class, and advice on thresholds where a class is rare, if there are classes."""
    for line in (say_recall(tested.scores), say_threshold(tested.scores)):
        if line:
            say(work.console, line)


def typed_command() -> str:
    """Return the command line as it was typed."""
    arguments = click.get_current_context().obj
    return join(["thresher", *arguments]) if arguments else ""
