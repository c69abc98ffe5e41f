"""``thresher train``."""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from thresher import CheckTheorems, InvalidInput, Status
from thresher.checks import check_number, check_whole
from thresher.cli.live import Live, compile_loops, say
from thresher.cli.options import Auto, Count
from thresher.devices import DEVICES, find_device
from thresher.output import make_folder
from thresher.runs import RUN_FILE, Recorder, Run, Test, Training, write_report, write_run
from thresher.runs.saved import MODEL_FILE
from thresher.runs.scores import score
from thresher.shards import SHARDS
from thresher.tables import Frame, Table, guess_task, read_table, say_label

__all__ = ["train"]

_EXACT_ONLY = ("index", "solver", "certify", "audit", "resume")
_CHECKPOINT = "checkpoint"


class Parts(NamedTuple):
    """Rows to train on and rows to test on."""

    train: NDArray[np.int64]
    test: NDArray[np.int64]


@click.command(short_help="Train a network on a table.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--target", help="Column to predict; default: the last. For X.npy, the file with y.")
@click.option("--task", type=click.Choice(["auto", "regression", "classification"]), default="auto", show_default=True)
@click.option("--width", type=Count(), help="Neurons, such as 1e6 or 2^20; default: 2^17 with --ridge 0, else by size.")
@click.option("--shift", type=Auto(), default="auto", show_default=True, help="Threshold above which a neuron fires.")
@click.option("--ridge", type=Auto(), default="auto", show_default=True, help="Penalty; 0 trains to zero loss.")
@click.option("--bias", type=Auto(), default="auto", show_default=True, help="Bias coordinate of the lift.")
@click.option("--index", type=click.Choice(list(SHARDS)), help="With --ridge 0: how to find firing neurons.")
@click.option(
    "--solver",
    type=click.Choice(["auto", "cholesky", "cg", "sketched", "pivots"]),
    help="With --ridge 0: linear solver.",
)
@click.option("--device", type=click.Choice(DEVICES), default="cpu", show_default=True, help="Where to compute.")
@click.option("--tol", type=float, help="When to stop; default: 1e-6 of the first residual, or 2e-2 with a ridge.")
@click.option("--seed", type=Count(), default=0, show_default=True, help="Seed of start weights and choice of rows.")
@click.option("--test-size", type=float, default=0.2, show_default=True, help="Share of rows kept for testing.")
@click.option("--header/--no-header", default=None, help="Whether a CSV file has column names; default: guessed.")
@click.option("--drop", multiple=True, metavar="COLUMN", help="Leave a column out; may be repeated.")
@click.option("--certify", is_flag=True, help="With --ridge 0: check the paper's statements after every iteration.")
@click.option("--audit", is_flag=True, help="With --ridge 0: compare with a full scan after every iteration.")
@click.option("--save", type=click.Path(path_type=Path), metavar="RUN", help="Folder for the run and its model.")
@click.option("--report", type=click.Path(path_type=Path), metavar="PAGE", help="HTML report to write.")
@click.option("--resume", is_flag=True, help="Continue an interrupted run with the same --save.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, and nothing else.")
@click.option("--quiet", is_flag=True, help="Print only the last line.")
def train(file: Path, **options: Any) -> None:
    """Train a network on a table: CSV, Parquet, .npz with X and y, or X.npy with --target y.npy.

    With a ridge (the default, chosen by leave-one-out) this fits an estimator, for prediction. With --ridge 0 it trains
    exactly, to zero loss, with certificates, and reports every look (pre-activation computed) and flip.

    Example: thresher train houses.csv --target price --save runs/houses --report houses.html
    """
    console = Console(quiet=options["as_json"] or options["quiet"])
    _check_options(options)
    began = time.perf_counter()
    from thresher.estimators.many import EXACT

    table = read_table(file, target=options["target"], header=options["header"], drop=options["drop"], most=EXACT)
    task = _say_task(table, options, file, console)
    parts = _split(len(table.targets), options["test_size"], options["seed"])
    model, recorder = _fit(table, task, parts, options, console)
    run = _make_run(file, table, task, parts, options, model, recorder)
    written = _write(run, model, options)
    _tell_end(run, written, time.perf_counter() - began, options, console)
    if any(one.status != Status.CONVERGED for one in run.trainings) and options["ridge"] == 0:
        sys.exit(130 if any(one.status == Status.INTERRUPTED for one in run.trainings) else 1)


def _check_options(options: dict[str, Any]) -> None:
    """Refuse impossible options before any work is done."""
    if not 0 <= check_number(options["test_size"], "--test-size") < 1:
        raise InvalidInput(f"--test-size must be at least 0 and below 1; got {options['test_size']:g}. Try 0.2.")
    check_whole(options["seed"], "--seed", least=0)
    find_device(options["device"])
    for name in ("shift", "ridge", "bias"):
        if options[name] != "auto":
            check_number(options[name], f"--{name}", least=0.0)
    if options["tol"] is not None:
        check_number(options["tol"], "--tol", above=0.0)
    if options["ridge"] != 0:
        for name in _EXACT_ONLY:
            if options[name]:
                raise InvalidInput(f"--{name} is only for exact training. Add --ridge 0, or leave it out.")
    save = options["save"]
    if options["resume"] and (save is None or not (save / _CHECKPOINT).is_file()):
        raise InvalidInput("--resume needs --save RUN, the folder of an interrupted run; no checkpoint was found.")
    if save is not None:
        known = [RUN_FILE, _CHECKPOINT]
        if save.is_dir() and any(save.iterdir()) and not any((save / name).exists() for name in known):
            raise InvalidInput(f"{save} is a folder with other files in it. Give --save a new folder.")
        make_folder(save, remedy="Choose another folder with --save.")
    if (page := options["report"]) is not None:
        if page.is_dir():
            raise InvalidInput(f"{page} is a folder. Give --report a file, such as {page / 'report.html'}.")
        make_folder(page.parent, remedy="Choose another place with --report.")


def _say_task(table: Table, options: dict[str, Any], file: Path, console: Console) -> str:
    task, why = guess_task(table.targets) if options["task"] == "auto" else (options["task"], "as requested")
    if task == "regression" and table.targets.dtype.kind != "f":
        raise InvalidInput(
            f"column {table.target!r} is text, which a regression cannot predict. Use --task classification."
        )
    if task == "classification" and len(np.unique(table.targets)) > max(100, len(table.targets) // 2):
        raise InvalidInput(f"column {table.target!r} has too many values for classes. Use --task regression.")
    n, d = table.inputs.shape
    say(console, f"Read {file}: {n:,} rows, {d} columns, target {table.target!r}.")
    hint = "" if options["task"] != "auto" else "; --task overrides"
    say(console, f"Task: {task} ({why}{hint}).")
    return task


def _split(rows: int, share: float, seed: int) -> Parts:
    order = np.random.default_rng(seed).permutation(rows)
    kept = round(share * rows)
    if rows - kept < 2:
        raise InvalidInput(
            f"--test-size {share:g} leaves {rows - kept} of {rows} rows to train on. Use a smaller value."
        )
    return Parts(order[kept:], order[:kept])


def _fit(
    table: Table, task: str, parts: Parts, options: dict[str, Any], console: Console
) -> tuple[Any, Recorder | None]:
    """Return the fitted estimator, and what recorded its training if that was exact."""
    from thresher.estimators import FarOutside, ThresherClassifier, ThresherRegressor, TooNarrow

    kind = ThresherClassifier if task == "classification" else ThresherRegressor
    given = {name: options[name] for name in ("shift", "ridge", "bias", "device")} | {"random_state": options["seed"]}
    given |= {name: options[name] for name in ("width", "tol") if options[name] is not None}
    X, y = _rows(table, parts.train)
    model = kind(**given, verbose=0 if console.quiet or options["ridge"] == 0 else 1)
    recorder = None
    with warnings.catch_warnings(record=True) as told:
        for category in (FarOutside, TooNarrow):
            warnings.simplefilter("always", category)
        if options["ridge"] == 0:
            recorder = _fit_exactly(model, X, y, _names(task, y), options, console)
        else:
            say(console, f"Choosing scale, shift, ridge and features on {len(y):,} rows, then training.")
            if options["width"] is None:  # a network is what this command is for
                model.width = model._width(len(y), len(_names(task, y)))
            model.fit(X, y)
    said: list[str] = [] if model.encoder_ is None else model.encoder_.summary()
    for line in [*said, *(f"Note: {one.message}" for one in told)]:
        say(console, line)
    if getattr(model, "target_", "linear") == "log":
        say(console, "The targets are learnt as logarithms, which gives a lower error.")
    return model, recorder


def _fit_exactly(
    model: Any, X: Any, y: NDArray[Any], names: list[str], options: dict[str, Any], console: Console
) -> Recorder:
    from sklearn.exceptions import ConvergenceWarning

    from thresher.estimators.interpolation import WIDTH

    model.width = WIDTH if options["width"] is None else model.width
    place = options["save"] and options["save"] / _CHECKPOINT
    more = {**_given(options), "checkpoint": place, "resume": place if options["resume"] else None}
    recorder = Recorder(names)
    compile_loops(console)
    outputs = "" if len(names) == 1 else f", one network for each of {len(names)} classes"
    say(console, f"Training {model.width:,} neurons on {len(y):,} rows to zero loss{outputs}.")
    with Live(console, model.width, inputs=len(y), names=names) as live, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # reported below
        callbacks = [recorder, live, *([CheckTheorems()] if options["certify"] else [])]
        model.set_params(callbacks=callbacks, train_options=more).fit(X, y)
    model.set_params(callbacks=None, train_options=_given(options))
    say(console, model.results_[0].solver)
    for result in model.results_:
        if result.status != Status.CONVERGED:
            say(console, f"{result.status.value.capitalize()}: {result.message}")
            if place and result.status == Status.INTERRUPTED:
                say(console, "The same command with --resume continues from here.")
            break
    return recorder


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of thresher.train that were given, besides those of an estimator."""
    return {name: options[name] for name in ("index", "solver", "audit") if options[name]}


def _names(task: str, y: NDArray[Any]) -> list[str]:
    """Return what the outputs are called."""
    if task == "regression":
        return ["output"]
    classes = np.unique(y)
    return [say_label(one) for one in (classes[1:] if len(classes) == 2 else classes)]


def _make_run(
    file: Path, table: Table, task: str, parts: Parts, options: dict[str, Any], model: Any, recorder: Recorder | None
) -> Run:
    results, rows = model.results_, len(parts.train)
    settings = results[0].network.settings if results else None
    fitted = (
        "The limit of infinite width was fitted to"
        if settings is None
        else f"{settings.width:,} neurons were trained on"
    )
    what = f"{fitted} {rows:,} rows of {file.name} ({table.inputs.shape[1]} columns) to predict {table.target!r}, "
    told: dict[str, Any] = {
        "model": {"kind": "estimator", "task": task, "target": table.target},
        "test": _test(model, table, task, parts),
        "data": {"file": str(file), "target": table.target, "rows trained on": rows, "rows tested on": len(parts.test)},
        "command": _command(),
    }
    if recorder is not None and settings is not None:
        repeat = {"width": settings.width, "shift": settings.shift, "seed": settings.start.seed, "twins": True}
        repeat |= _given(options) | ({} if options["tol"] is None else {"tol": options["tol"]})
        return recorder.run(f"{what}to zero loss ({task}).", options=repeat, **told)
    network: dict[str, Any] = {"approximation": model.approximation_, "shift": model.shift_}
    if settings is not None:
        start = settings.start
        network = {"width": settings.width, "shift": settings.shift, "seed": start.seed, "twins": start.twins}
        network["dimension"] = start.dimension
    network |= {
        "inputs": len(model.inputs_), "ridge": model.ridge_, "bias": model.bias_, "scale": model.scale_,
        "columns weighed": model.columns_weighed_, "rounds of feature learning": model.feature_learning_,
        "error on rows left out": model.loo_error_,
    }  # fmt: skip
    both = zip(_names(task, table.targets[parts.train]), results, strict=bool(results))
    trainings = [Training(name, one.history, one.status, one.message) for name, one in both]
    what, none = f"{what}with a ridge of {model.ridge_:.2g} ({task}).", np.empty((0, 0))
    return Run(what, trainings, {}, inputs=none, targets=none, network=network, **told)


def _test(model: Any, table: Table, task: str, parts: Parts) -> Test | None:
    if not len(parts.test):
        return None
    X, y = _rows(table, parts.test)
    return score(model.predict(X), y, task=task, known=table.targets[parts.train])


def _rows(table: Table, places: NDArray[np.int64]) -> tuple[Any, NDArray[Any]]:
    """Return some inputs and targets; inputs that are left in a file are read in its order."""
    from thresher.estimators.streams import Part

    if isinstance(table.inputs, Frame):
        return table.inputs.take(places), table.targets[places]
    part = Part(table.inputs, np.sort(places))
    part.names = None  # the run keeps them, and hands a model plain numbers
    return part, table.targets[np.sort(places)]


def _command() -> str:
    from shlex import join

    arguments = click.get_current_context().obj
    return join(["thresher", *arguments]) if arguments else ""


def _write(run: Run, model: Any, options: dict[str, Any]) -> dict[str, str]:
    """Write the requested files; return their paths."""
    written = {}
    if (folder := options["save"]) is not None:
        model.save(folder / MODEL_FILE)
        written["run"] = str(write_run(run, folder))
        if all(one.status != Status.INTERRUPTED for one in run.trainings):
            for name in (_CHECKPOINT, f"{_CHECKPOINT}.previous"):
                (folder / name).unlink(missing_ok=True)
    if options["report"] is not None:
        written["report"] = str(write_report(run, options["report"], folder=folder))
    return written


def _tell_end(run: Run, written: dict[str, str], seconds: float, options: dict[str, Any], console: Console) -> None:
    test = run.test
    if options["as_json"]:
        told = {
            "what": run.what,
            "status": [one.status.value for one in run.trainings],
            "iterations": [len(one.history) - 1 for one in run.trainings],
            "residual": [one.history[-1].residual for one in run.trainings],
            "test": test._asdict() if test else None,
            "network": run.network,
            "seconds": round(seconds, 3),
            "written": written,
        }
        click.echo(json.dumps(told))
        return
    for what, place in written.items():
        say(console, f"Written, {what}: {place}")
    states = sorted({one.status.value for one in run.trainings})
    line = f"{(', '.join(states) or 'fitted').capitalize()} in {seconds:.1f} s."
    if test is not None and test.measure == "accuracy":
        line += f" Test: {test.value:.1%} of {test.rows:,} unseen rows right (a constant guess: {test.guess:.1%})."
    elif test is not None:
        line += f" Test: RMSE {test.value:.4g} on {test.rows:,} unseen rows (the mean as a guess: {test.guess:.4g})."
    click.echo(line)
