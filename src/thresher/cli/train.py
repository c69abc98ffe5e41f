"""``thresher train``."""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path
from shlex import join
from typing import Any

import click

from thresher import InvalidInput, MemoryRefused, Status
from thresher.checks import check_number, check_whole
from thresher.cli.pieces.fit import Work
from thresher.cli.pieces.options import (
    AUTO,
    COUNT,
    LOSSES,
    PARTS,
    WIDTH,
    reading_options,
    take_reading,
)
from thresher.cli.pieces.places import forget_checkpoint, new_places, say_kept
from thresher.devices import DEVICES, find_device
from thresher.loops import WATCH
from thresher.output import Console, to_json
from thresher.pages import find_jinja
from thresher.runs import RUN_FILE, Recorder, Run, write_report
from thresher.runs.making import Tested, make_run
from thresher.runs.scores import say_scores
from thresher.runs.splits import Places, TrainTest, choose_rows, fold, split
from thresher.shards import SHARDS
from thresher.tables import INPUT, Table, guess_task, read_table
from thresher.tables.targets import as_labels, check_target, rows_with_target
from thresher.training.options import STARTS

__all__ = ["train"]

_EXACT_ONLY = ("index", "solver", "start", "dtype", "certify", "audit", "resume")
_TEST_SIZE = 0.2


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--target", help="Column to predict; default: the last.")
@click.option(
    "--task",
    type=click.Choice(["auto", "regression", "classification"]),
    default="auto",
    show_default=True,
    help="What to predict: numbers or classes; auto: by the values of the target.",
)
@click.option(
    "--width",
    type=WIDTH,
    help="Neurons, such as 1e6 or 2^20; inf is the limit; default: 2^17 with --ridge 0, else chosen.",
)
@click.option("--shift", type=AUTO, default="auto", show_default=True, help="Threshold above which a neuron fires.")
@click.option("--ridge", type=AUTO, default="auto", show_default=True, help="Penalty; 0 trains to zero loss.")
@click.option("--bias", type=AUTO, default="auto", show_default=True, help="Size of one more coordinate of rows.")
@click.option("--parts", type=click.Choice(PARTS), default="auto", show_default=True, help="What neurons see.")
@click.option(
    "--loss",
    type=click.Choice(LOSSES),
    help="Of numbers: huber where some are absurd, poisson for counts, quantile for bounds; auto; default: squared.",
)
@click.option("--index", type=click.Choice(list(SHARDS)), help="With --ridge 0: how to find firing neurons.")
@click.option(
    "--solver",
    type=click.Choice(["auto", "cholesky", "cg", "sketched", "pivots"]),
    help="With --ridge 0: linear solver.",
)
@click.option("--start", type=click.Choice(STARTS), help="With --ridge 0: where start weights come from.")
@click.option(
    "--device",
    type=click.Choice(DEVICES),
    default="cpu",
    show_default=True,
    help="What computes: the processor, or a GPU.",
)
@click.option("--tol", type=float, help="Stop at this share of the first error; default: 1e-6, or 2e-2 with a ridge.")
@click.option(
    "--dtype", type=click.Choice(["float32", "float64"]), help="With --ridge 0: working precision; default: float32."
)
@click.option("--seed", type=COUNT, default=0, show_default=True, help="Seed of start weights and choice of rows.")
@click.option("--rows", type=COUNT, help="Use so many random rows of the file; default: all.")
@click.option("--test-size", type=float, help="Share of rows kept for testing; default: 0.2, or none with --cv.")
@click.option("--cv", type=COUNT, metavar="FOLDS", help="Test by cross-validation, such as --cv 5.")
@click.option("--refit/--no-refit", default=True, help="Fit to all rows again before saving; default: yes.")
@reading_options("found")
@click.option("--drop", multiple=True, metavar="COLUMN", help="Leave a column out; may be repeated.")
@click.option("--categorical", multiple=True, metavar="COLUMN", help="Take a column as names; may be repeated.")
@click.option("--certify", is_flag=True, help="With --ridge 0: check the paper's statements after every iteration.")
@click.option("--audit", is_flag=True, help="With --ridge 0: compare with a full scan after every iteration.")
@click.option("--save", type=click.Path(path_type=Path), metavar="RUN", help="Folder for the run and its model.")
@click.option("--report", type=click.Path(path_type=Path), metavar="PAGE", help="HTML report to write.")
@click.option("--force", is_flag=True, help="Replace a run or a report that is there already.")
@click.option("--resume", is_flag=True, help="Go on with the interrupted run in --save, or start if there is none.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, and nothing else.")
@click.option("--quiet", is_flag=True, help="Print only the last line.")
def train(file: Path, **options: Any) -> None:
    """Train a network on a table: a CSV or Parquet file.

    With a ridge (the default, chosen by leave-one-out) this fits an estimator, for prediction: a part of the rows is
    kept for testing, then the model is fitted again to all rows and saved. It is the limit of infinite width, unless
    networks are measurably better on rows left out, or --width asks for them. With --ridge 0 it trains exactly, to zero
    loss, with certificates, and reports every look (pre-activation computed) and flip.

    Example: thresher train houses.csv --target price --save runs/houses --report houses.html
    """
    console = Console(quiet=options["as_json"] or options["quiet"])
    WATCH.quiet = console.quiet
    _check_options(options)
    before = options["save"] is not None and (options["save"] / RUN_FILE).exists()
    with new_places(options["save"], options["report"], force=options["force"], resume=options["resume"]):
        try:
            states = _train(file, options, console)
        except MemoryRefused as error:
            raise MemoryRefused(f"{error}{_fewer(error.rows)}") from None
        except KeyboardInterrupt:
            click.echo(say_kept(options["save"], options["report"], before=before), err=True)
            raise
    if options["ridge"] == 0 and states != {Status.CONVERGED}:
        sys.exit(130 if Status.INTERRUPTED in states else 1)


def _train(file: Path, options: dict[str, Any], console: Console) -> set[Status]:
    """Do it all; return how the trainings ended."""
    from thresher.estimators import Sizes, hash_rows_of

    began, typed = time.perf_counter(), click.get_current_context().obj
    given = {name: options[name] for name in ("target", "drop", "categorical")}
    table = read_table(file, how=take_reading(options), **given, most=Sizes().exact, missing=True)
    known = rows_with_target(table.targets, table.target)
    task = _say_task(table, known, options, file, console)
    table = table if task == "regression" else table._replace(targets=as_labels(table.targets))
    work = Work(table, task, options, console, {"reading": time.perf_counter() - began})
    places = _choose(work, known)
    tested, model, recorder, trained = _test(work, places)
    whole = len(trained) == len(places)
    if options["save"] is not None and options["refit"] and not whole and not work.exact:
        console.print(
            f"Fitting again, to all {len(places):,} rows: that model is saved, and should be a little better."
        )
        with work.timed("fitting again"):
            work.fit_again(model, places)
            trained = places
    run = make_run(
        model,
        tested,
        task=task,
        target=table.target,
        columns=table.columns,
        rows=len(trained),
        file=file,
        refit=not whole and len(trained) == len(places),
        recorder=recorder,
        seconds=work.seconds,
        seen=hash_rows_of(model, rows := work.rows(trained)[0]),
        like=rows,
        command=join(["thresher", *typed]) if typed else "",
    )
    _tell_end(run, _write(run, model, options), work)
    return {one.status for one in run.trainings}


def _write(run: Run, model: Any, options: dict[str, Any]) -> dict[str, str]:
    """Write the requested files; return their paths."""
    written = {}
    if (folder := options["save"]) is not None:
        written["run"] = str(run.save(folder, model))
        if all(one.status != Status.INTERRUPTED for one in run.trainings):
            forget_checkpoint(folder)
    if options["report"] is not None:
        written["report"] = str(write_report(run, options["report"], folder=folder))
    return written


def _tell_end(run: Run, written: dict[str, str], work: Work) -> None:
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
        work.console.print(f"Written, {what}: {place}")
    states = sorted({one.status.value for one in run.trainings if work.exact})
    line = f"{(', '.join(states) or 'fitted').capitalize()} in {seconds:.1f} s."
    click.echo(line + (f" {run.summary()}" if test is not None else ""))


def _test(work: Work, places: Places) -> tuple[Tested | None, Any, Recorder | None, Places]:
    """Return the scores, the model, what recorded its training if that was exact, and the rows it was trained on."""
    options, classes = work.options, work.task == "classification"
    targets, given = work.table.targets[places], {"seed": options["seed"], "classes": classes}
    tested = recorder = None
    if options["cv"] is not None:
        folds = [TrainTest(places[one.train], places[one.test]) for one in fold(targets, options["cv"], **given)]
        with work.timed("cross-validation"):
            model, tested = work.cross_validate(folds)
        trained = folds[-1].train
        if not work.exact:
            work.say_classes(tested)
            return tested, model, None, trained
    share = 0.0 if options["cv"] is not None else options["test_size"]
    if share is None:
        share = _TEST_SIZE if len(places) > 2 else 0.0
    local = split(targets, share, **given)
    parts = TrainTest(places[local.train], places[local.test])
    if not len(parts.test) and options["cv"] is None and options["test_size"] != 0:
        work.console.print("No row is tested on: there are two rows, or one of each class.")
    with work.timed("fitting"):
        if work.exact:
            model, recorder = work.fit_exactly(parts.train)
        else:
            work.console.print(
                f"Choosing scale, shift, ridge and features on {len(parts.train):,} rows, then training."
            )
            model = work.fit(parts.train)
    if options["loss"] == "auto" and model.loss_ != "squared":
        work.console.print(f"Learnt with loss {model.loss_}, which rows left out prefer to squares.")
    if work.task == "regression" and model.target_ == "log" and model.loss_ == "squared":
        work.console.print("The targets are learnt as logarithms, which gives a lower error.")
    if len(parts.test):
        with work.timed("testing"):
            tested = work.test(model, parts, evaluate=True)
        work.console.print(f"Test on {len(parts.test):,} rows that were kept for it: {say_scores(tested.scores)}.")
        work.say_classes(tested)
    return tested, model, recorder, parts.train


def _check_options(options: dict[str, Any]) -> None:
    """Refuse impossible options before any work is done."""
    if options["test_size"] is not None and not 0 <= check_number(options["test_size"], "--test-size") < 1:
        raise InvalidInput(f"--test-size must be at least 0 and below 1; got {options['test_size']:g}. Try 0.2.")
    check_whole(options["seed"], "--seed", least=0)
    find_device(options["device"])
    if options["report"] is not None:
        find_jinja()
    for name in ("shift", "ridge", "bias"):
        if options[name] != "auto":
            check_number(options[name], f"--{name}", least=0.0)
    if options["tol"] is not None:
        check_number(options["tol"], "--tol", above=0.0)
    for name in ("rows", "cv"):
        if options[name] is not None:
            check_whole(options[name], f"--{name}", least=2)
    if options["cv"] is not None and options["test_size"] is not None:
        raise InvalidInput("--cv tests on all rows in turn, --test-size on some of them; give only one.")
    if options["cv"] is not None and not options["refit"]:
        raise InvalidInput("--cv fits one model for each fold and keeps none of them. Leave --no-refit out.")
    if options["ridge"] == 0 and options["width"] == math.inf:
        raise InvalidInput("--ridge 0 trains a network. Give --width a number, or leave --ridge 0 out.")
    if options["ridge"] != 0:
        for name in _EXACT_ONLY:
            if options[name]:
                raise InvalidInput(f"--{name} is only for exact training. Add --ridge 0, or leave it out.")


def _say_task(table: Table, known: Places, options: dict[str, Any], file: Path, console: Console) -> str:
    """Print what was read and what is to be learnt; return the task."""
    targets = table.targets[known]
    task, why = guess_task(targets) if options["task"] == "auto" else (options["task"], "as requested")
    if options["loss"] and options["task"] == "auto" and targets.dtype.kind in "iuf":
        task, why = "regression", f"as --loss {options['loss']} says"
    check_target(table.target, targets, task)
    n, d = table.inputs.shape
    console.print(
        f"Read {'standard input' if file == INPUT else file}: {n:,} rows, {d} columns, target {table.target!r}.",
    )
    if len(known) < n:
        console.print(f"Left out {n - len(known):,} rows without a target.")
    hint = "" if options["task"] != "auto" else "; --task overrides"
    console.print(f"Task: {task} ({why}{hint}).")
    return task


def _choose(work: Work, known: Places) -> Places:
    """Return the places of the rows to use, some of those whose target is known."""
    targets, wanted = work.table.targets[known], work.options["rows"]
    places = known[choose_rows(targets, wanted, seed=work.options["seed"], classes=work.task == "classification")]
    if wanted is not None and len(places) < len(targets):
        work.console.print(f"Using {len(places):,} of {len(targets):,} rows, chosen at random.")
    elif wanted is not None and wanted > len(targets):
        work.console.print(f"--rows {wanted:,} is more than the file has; using all {len(targets):,}.")
    return places


def _fewer(rows: int | None) -> str:
    """Return the advice to use fewer rows, a round number of them."""
    if rows is None or rows < 2:
        return ""
    unit = 10 ** max(len(str(rows)) - 2, 0)
    return f" Use --rows {rows // unit * unit} to train on a random part of the file."
