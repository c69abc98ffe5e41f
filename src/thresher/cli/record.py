"""Record: what ``thresher train`` writes and prints when its work is done."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shlex import join
from typing import Any

import click
import numpy as np

from thresher import Status
from thresher.cli.fit import Tested, Work, column_names, output_names
from thresher.cli.live import say
from thresher.cli.places import forget_checkpoint
from thresher.cli.rows import Places
from thresher.output import to_json
from thresher.runs import Recorder, Run, Test, Training, write_report, write_run
from thresher.runs.page import LEFT_OUT
from thresher.runs.pair import replace_pair
from thresher.runs.scores import say_recall, say_scores, say_threshold
from thresher.tables import INPUT

__all__ = ["make_run", "say_classes", "tell_end", "write"]


def make_run(
    file: Path,
    work: Work,
    trained: Places,
    tested: Tested | None,
    model: Any,
    recorder: Recorder | None,
    *,
    refit: bool,
) -> Run:
    """Return the run of a model that was trained on some rows; it was ``tested`` before, if ``refit``."""
    from thresher.estimators import hash_rows_of

    table, task, options = work.table, work.task, work.options
    X, y = work.rows(trained)
    results, rows = model.results_, len(y)
    settings = results[0].network.settings if results else None
    fitted = (
        "The limit of infinite width was fitted to"
        if settings is None
        else f"{settings.width:,} neurons were trained on"
    )
    source = "standard input" if file == INPUT else file.name
    what = f"{fitted} {rows:,} rows of {source} ({table.inputs.shape[1]} columns) to predict {table.target!r}, "
    data = {"file": str(file), "target": table.target, "rows trained on": rows}
    if tested is not None:
        data["rows tested on"] = tested.test.rows
        data["tested"] = _how_tested(tested, refit=refit)
    told: dict[str, Any] = {
        "model": {"task": task, "target": table.target, "names": column_names(table)},
        "test": tested and tested.test,
        "scores": tested.scores if tested else {},
        "folds": tested.folds if tested else {},
        "evaluation": tested.evaluation if tested else None,
        "data": data,
        "seconds": work.seconds,
        "seen": hash_rows_of(model, X),
        "command": _command(),
    }
    if recorder is not None and settings is not None:
        repeat = {"width": settings.width, "shift": settings.shift, "seed": settings.start.seed, "twins": True}
        repeat |= work.train_options() | ({} if options["tol"] is None else {"tol": options["tol"]})
        run = recorder.run(f"{what}to zero loss ({task}).", options=repeat, **told)
        run.network.update(_seeds(options["seed"], settings.start.seed))
        return run
    network: dict[str, Any] = {"approximation": model.approximation_, "shift": model.shift_, "seed": options["seed"]}
    if settings is not None:
        start = settings.start
        network = {"width": settings.width, "shift": settings.shift, **_seeds(options["seed"], start.seed)}
        network |= {"twins": start.twins, "dimension": start.dimension}
    network |= {
        "inputs": len(model.inputs_), "ridge": model.ridge_, "bias": model.bias_, "scale": model.scale_,
        "columns weighed": model.columns_weighed_, "rounds of feature learning": model.feature_learning_,
        LEFT_OUT: model.loo_share_,
    }  # fmt: skip
    both = zip(output_names(task, y), results, strict=bool(results))
    trainings = [Training(name, one.history, one.status, one.message) for name, one in both]
    what, none = f"{what}with a ridge of {model.ridge_:.2g} ({task}).", np.empty((0, 0))
    return Run(what, trainings, {}, inputs=none, targets=none, network=network, **told)


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


def _how_tested(tested: Tested, *, refit: bool) -> str:
    if tested.folds:
        return "by cross-validation, with models fitted to the other folds"
    return "before the fit to all rows" if refit else "with this model"


def _seeds(given: int, start: int) -> dict[str, int]:
    """Return the seed that was given, and the one of the start weights, which follows from it."""
    return {"seed": given, "seed of the start weights": start}


def _command() -> str:
    arguments = click.get_current_context().obj
    return join(["thresher", *arguments]) if arguments else ""
