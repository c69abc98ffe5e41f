"""``thresher train``."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from shlex import join
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from thresher import InvalidInput, MemoryRefused, Status
from thresher.checks import check_number, check_whole, name_some, split_names
from thresher.cli import options as shared
from thresher.cli.live import Live, notes
from thresher.cli.options import in_options
from thresher.cli.places import check_run, new_file, new_folders
from thresher.devices import find_device
from thresher.loops import WATCH
from thresher.output import Console, to_json
from thresher.report import Evaluation, save_run
from thresher.report.evaluate import Tested, evaluation_of, output_names, test_model
from thresher.report.page import find_jinja
from thresher.report.saved import RUN_FILE
from thresher.report.splits import Places, TrainTest, fold, split
from thresher.report.words import say_recall, say_scores, say_threshold
from thresher.tables import INPUT, Table, guess_task, read_table
from thresher.tables.targets import as_labels, check_target, rows_with_target

__all__ = ["train"]

_TEST_SIZE = 0.2
_CHOSEN = "Chosen by rows left out, of which the errors are:"
_CATEGORIES = "Whole numbers are taken as {}, in {}. --categorical NAME says which are names instead."


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
    "--loss",
    type=click.Choice(sorted({name for names in shared.LOSSES.values() for name in names})),
    help="Numbers: huber where some are absurd, poisson for counts, quantile for bounds; default: squared_error. "
    "Classes: log_loss (default) or squared_error.",
)
@click.option("--parts", type=click.Choice(shared.PARTS), default="auto", show_default=True, help="What neurons see.")
@click.option("--width", type=shared.COUNT, help="Train a network of so many neurons, such as 2^20, to zero loss.")
@click.option(
    "--shift", type=shared.AUTO, default="auto", show_default=True, help="Threshold above which its neurons fire."
)
@shared.device
@click.option("--seed", type=shared.COUNT, default=0, show_default=True, help="Of start weights and choice of rows.")
@click.option("--test-size", type=float, help="Share of rows kept for testing; default: 0.2, or none with --cv.")
@click.option("--cv", type=shared.COUNT, metavar="FOLDS", help="Test by cross-validation, such as --cv 5.")
@shared.reading_options("found")
@click.option("--drop", multiple=True, metavar="COLUMN", help="Leave a column out; may be repeated.")
@click.option("--categorical", multiple=True, metavar="COLUMN", help="Take a column as names; may be repeated.")
@click.option("--save", type=click.Path(path_type=Path), metavar="RUN", help="Folder for the model and its run.")
@click.option("--report", type=click.Path(path_type=Path), metavar="PAGE", help="HTML report to write.")
@shared.force
@shared.json
@shared.quiet
def train(file: Path, **options: Any) -> None:
    """Train on a table, a CSV or Parquet file, test on rows that were kept for it, and save what predicts new rows.

    This fits the limit of infinite width, with a ridge chosen by leave-one-out: a part of the rows is kept for testing,
    then the model is fitted again to all rows and saved. With --width a network is trained exactly, to zero loss, with
    certificates, and every look (pre-activation computed) and flip is told.

    Example: thresher train houses.csv --target price --save runs/houses --report houses.html
    """
    console = Console(quiet=options["as_json"] or options["quiet"])
    WATCH.quiet = console.quiet
    _check_options(options)
    save, page = options["save"], options["report"]
    before = save is not None and (save / RUN_FILE).exists()
    with new_folders((save, "--save"), (page and page.parent, "--report")):
        try:
            found = _train(file, options, console)
        except MemoryRefused as error:
            raise MemoryRefused(f"{error}{' Give a file with fewer rows.' if error.rows else ''}") from None
        except KeyboardInterrupt:
            click.echo(_say_kept(save, page, before=before), err=True)
            raise
    states = {one.status for one in found.trainings}
    if found.exact and states != {Status.CONVERGED}:
        sys.exit(130 if Status.INTERRUPTED in states else 1)


def _check_options(options: dict[str, Any]) -> None:
    """Refuse impossible options before any work is done."""
    if options["test_size"] is not None and not 0 <= check_number(options["test_size"], "--test-size") < 1:
        raise InvalidInput(f"--test-size must be at least 0 and below 1; got {options['test_size']:g}. Try 0.2.")
    check_whole(options["seed"], "--seed", least=0)
    if options["shift"] != "auto":
        check_number(options["shift"], "--shift", least=0.0)
    if options["cv"] is not None:
        check_whole(options["cv"], "--cv", least=2)
        if options["test_size"] is not None:
            raise InvalidInput("--cv tests on all rows in turn, --test-size on some of them; give only one.")
    if options["width"] is not None:
        check_whole(options["width"], "--width", least=1)
        for name, usual in (("loss", None), ("parts", "auto")):
            if options[name] != usual:
                raise InvalidInput(
                    f"--{name} is for the limit of infinite width, and --width trains a network. Leave one of them out."
                )
    elif options["shift"] != "auto":
        raise InvalidInput("--shift is for a network, and no --width was given. Leave it out, or add --width.")
    find_device(options["device"])
    if options["report"] is not None:
        find_jinja()
        new_file(options["report"], option="--report", force=options["force"])
    if options["save"] is not None:
        check_run(options["save"], force=options["force"])


def _train(file: Path, options: dict[str, Any], console: Console) -> Evaluation:
    """Do it all; return how the saved model was made, and how well it does."""
    from thresher.estimators import Sizes

    began, typed = time.perf_counter(), click.get_current_context().obj
    given = {name: options[name] for name in ("target", "drop", "categorical")}
    table = read_table(file, how=shared.take_reading(options), **given, most=Sizes().exact, missing=True)
    places = rows_with_target(table.targets, table.target)
    task = _say_task(table, places, options, file, console)
    table = table if task == "regression" else table._replace(targets=as_labels(table.targets))
    work = _Work(table, task, options, console, {"reading": time.perf_counter() - began})
    model, tested, trained = work.fit_and_test(places)
    whole = len(trained) == len(places)
    again = options["save"] is not None and not whole and options["width"] is None
    if again:
        console.print(
            f"Fitting again, to all {len(places):,} rows: that model is saved, and should be a little better."
        )
        with work.timed("fitting again"):
            work.fit_again(model, places)
            trained = places
    found = evaluation_of(
        model,
        tested,
        task=task,
        target=table.target,
        columns=table.columns,
        rows=len(trained),
        file=file,
        refit=again,
        seconds=work.seconds,
        command=join(["thresher", *typed]) if typed else "",
    )
    written = {}
    if options["save"] is not None:
        written["run"] = str(save_run(options["save"], model, found))
    if options["report"] is not None:
        written["report"] = str(found.report(options["report"]))
    _say_end(found, written, options, console)
    return found


def _say_task(table: Table, known: Places, options: dict[str, Any], file: Path, console: Console) -> str:
    """Print what was read and what is to be learnt; return the task."""
    targets = table.targets[known]
    task, why = guess_task(targets) if options["task"] == "auto" else (options["task"], "as requested")
    fitting = [one for one, names in shared.LOSSES.items() if options["loss"] in names]
    if (
        len(fitting) == 1
        and options["task"] == "auto"
        and (targets.dtype.kind in "iuf" or fitting == ["classification"])
    ):
        task, why = fitting[0], f"as --loss {options['loss']} says"
    check_target(table.target, targets, task)
    if fitting and task not in fitting:
        kinds = {"regression": "numbers", "classification": "classes"}
        raise InvalidInput(
            f"--loss {options['loss']} is for {kinds[fitting[0]]}; {table.target} holds {kinds[task]}. Leave it out."
        )
    n, d = table.inputs.shape
    source, columns = "standard input" if file == INPUT else file, f"{d} column{'s' if d > 1 else ''}"
    console.print(f"Read {source}: {n:,} rows, {columns}, target {table.target!r}.")
    if len(known) < n:
        console.print(f"Left out {n - len(known):,} rows without a target.")
    hint = "" if options["task"] != "auto" else "; --task overrides"
    console.print(f"Task: {task} ({why}{hint}).")
    return task


def _say_end(found: Evaluation, written: dict[str, str], options: dict[str, Any], console: Console) -> None:
    """Print the end: one line if quiet, one object as JSON."""
    seconds = sum(found.seconds.values())
    if options["as_json"]:
        told = {
            "what": found.what,
            "status": [one.status for one in found.trainings],
            "iterations": [len(one.history) - 1 for one in found.trainings],
            "residual": [one.history[-1].residual for one in found.trainings],
            "test": found.test._asdict() if found.test else None,
            "scores": found.scores,
            "folds": found.folds,
            "network": found.network,
            "choices": {one.name: {"taken": one.taken, "tried": one.tried} for one in found.choices},
            "data": found.data,
            "seconds": round(seconds, 3),
            "written": written,
        }
        click.echo(to_json(told))
        return
    for what, place in written.items():
        console.print(f"Written, {what}: {place}")
    for line in filter(None, (say_recall(found.scores), say_threshold(found.scores))):
        console.print(line)
    states = sorted({one.status for one in found.trainings if found.exact})
    click.echo(f"{(', '.join(states) or 'fitted').capitalize()} in {seconds:.1f} s. {found.summary()}".rstrip())


def _say_kept(save: Path | None, page: Path | None, *, before: bool) -> str:
    """Return what an interrupted command has left behind; ``before``: a run was there already."""
    if save is not None and (save / RUN_FILE).is_file() and not before:
        more = "" if page is None or page.exists() else f" Its report is not: thresher report {save} --output {page}"
        return f"The run is written: {save}.{more}"
    return "Nothing was kept of this run. Start it again with the same command."


@dataclass
class _Work:
    """A table, what is to be learnt of it, and where the time goes."""

    table: Table
    task: str
    options: dict[str, Any]
    console: Console
    seconds: dict[str, float] = field(default_factory=dict)
    said: set[str] = field(default_factory=set)  # notes, and lines about columns

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Count the time of a part of the work. All times that are shown come from here."""
        began = time.perf_counter()
        yield
        self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - began

    def fit_and_test(self, places: Places) -> tuple[Any, Tested | None, Places]:
        """Return a model of the rows at places, how well it does on those kept apart, and the rows it was fitted to."""
        options, console = self.options, self.console
        targets = self.table.targets[places]
        given: dict[str, Any] = {"seed": options["seed"], "classes": self.task == "classification"}
        tested = None
        if options["cv"] is not None:
            folds = [TrainTest(places[one.train], places[one.test]) for one in fold(targets, options["cv"], **given)]
            with self.timed("cross-validation"):
                model, tested = self.cross_validate(folds)
            if options["width"] is None:
                return model, tested, folds[-1].train
            parts = TrainTest(places, places[:0])
        else:
            share = options["test_size"]
            share = share if share is not None else _TEST_SIZE if len(places) > 2 else 0.0
            parts = TrainTest(*(places[one] for one in split(targets, share, **given)))
            if not len(parts.test) and options["test_size"] != 0:
                console.print("No row is tested on: there are two rows, or one of each class.")
        with self.timed("fitting"):
            if options["width"] is None:
                console.print(f"Choosing features and a ridge on {len(parts.train):,} rows, then fitting them.")
            model = self.fit(parts.train)
        if len(parts.test):
            with self.timed("testing"):
                tested = self.test(model, parts, by_row=True)
        return model, tested, parts.train

    def fit(self, places: Places, *, quiet: bool = False) -> Any:
        """Return an estimator that was fitted to some rows; a network, if its width was given."""
        model, (X, y) = self._estimator(), self.table.rows(places)
        if self.options["width"] is not None and not quiet:
            self._train_network(model, X, y)
        else:
            model.set_params(verbose=0 if quiet or self.console.quiet else 1)
            with notes(self.console, drop=quiet, said=self.said):
                model.fit(X, y)
        if not quiet:
            self._say_choices(model)
        return model

    def fit_again(self, model: Any, places: Places) -> None:
        """Fit an estimator to other rows."""
        model.set_params(verbose=0 if self.console.quiet else 1)
        with notes(self.console, said=self.said):
            model.fit(*self.table.rows(places))
        self._say_choices(model)

    def test(self, model: Any, parts: TrainTest, *, by_row: bool) -> Tested:
        """Return how well a model does on rows that it was not fitted to; what a report shows of it, if ``by_row``."""
        X, y = self.table.rows(parts.test)
        by_row = bool(by_row and (self.options["save"] or self.options["report"]))
        under_way = "Predicting the rows of the test ..."

        def tell(done: int, total: int) -> None:
            nonlocal under_way
            under_way = f"Looking at which columns matter: {done} of {total} ..."

        with notes(self.console, drop=True), self.console.status(lambda: under_way):
            return test_model(
                model,
                X,
                y,
                task=self.task,
                known=self.table.targets[parts.train],
                target=self.table.target,
                numbers=parts.test + 1,
                by_row=by_row,
                fitted=self.table.rows(parts.train) if by_row else None,
                progress=tell,
            )

    def cross_validate(self, folds: list[TrainTest]) -> tuple[Any, Tested]:
        """Return the model of the last fold, and the mean scores of all folds with their standard errors."""
        found: list[Tested] = []
        model = None
        for place, parts in enumerate(folds, start=1):
            model = self.fit(parts.train, quiet=True)
            found.append(self.test(model, parts, by_row=place == len(folds)))
            self.console.print(f"Fold {place} of {len(folds)}: {say_scores(found[-1].scores)}.")
        return model, Tested.averaged(found)

    def _estimator(self) -> Any:
        from thresher.estimators import NetworkClassifier, NetworkRegressor, ThresherClassifier, ThresherRegressor

        options, classes = self.options, self.task == "classification"
        if options["width"] is not None:
            kind: Any = NetworkClassifier if classes else NetworkRegressor
            names = ["width", "shift", "device"]
        else:
            kind = ThresherClassifier if classes else ThresherRegressor
            names = ["parts", "device", *(["loss"] if options["loss"] else [])]
        given = {name: options[name] for name in names}
        if options["categorical"]:
            given["categorical_features"] = split_names(options["categorical"], self.table.columns)
        return kind(**given, random_state=options["seed"])

    def _train_network(self, model: Any, X: Any, y: NDArray[Any]) -> None:
        """Fit a model to zero loss, and show how that goes."""
        from sklearn.exceptions import ConvergenceWarning

        console, names = self.console, output_names(None if self.task == "regression" else np.unique(y))
        outputs = "" if len(names) == 1 else f", one network for each of {len(names)} classes"
        console.print(f"Training {model.width:,} neurons on {len(y):,} rows to zero loss{outputs}.")
        with (
            notes(console, said=self.said),
            warnings.catch_warnings(),
            Live(console, model.width, inputs=len(y), names=names) as live,
        ):
            warnings.simplefilter("ignore", ConvergenceWarning)  # reported below
            model.fit(X, y, callbacks=[live])
        console.print(model.results_[0].solver)
        for result in model.results_:
            if result.status != Status.CONVERGED:
                console.print(f"{result.status.value.capitalize()}: {in_options(result.message)}")
                break

    def _say_choices(self, model: Any) -> None:
        """Say, once, what was done to columns, and what was chosen."""
        lines = {line: line for line in (() if model.encoder_ is None else model.encoder_.summary())}
        lines |= dict(_choices_of(model)) if self.options["width"] is None else {}
        for once, line in lines.items():
            if once not in self.said:
                self.console.print(line)
            self.said.add(once)


def _choices_of(model: Any) -> Iterator[tuple[str, str]]:
    """Yield what was chosen, each with what makes it the same when it is said of another fit."""
    yield _CHOSEN, "\n  ".join([_CHOSEN, *str(model.choices_).splitlines()])
    for what, said in (("number and category", "numbers and categories"), ("category", "categories")):
        if found := [str(name) for name, now in model.categories_.items() if now == what]:
            yield (line := _CATEGORIES.format(said, name_some(found))), line
