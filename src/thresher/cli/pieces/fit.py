"""Fit and test: what ``thresher train`` does with a table, from rows to a model and its scores."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher import CheckTheorems, InvalidInput, Status
from thresher.checks import name_some, split_names
from thresher.cli.pieces.live import Live, notes
from thresher.cli.pieces.options import in_options
from thresher.cli.pieces.places import CHECKPOINT, forget_checkpoint
from thresher.output import Console
from thresher.runs import Recorder
from thresher.runs.making import Tested, output_names, test_model
from thresher.runs.scores import say_recall, say_scores, say_threshold
from thresher.runs.splits import Places, TrainTest
from thresher.tables import Table

__all__ = ["Work"]

_GOES_ON = "Going on from the checkpoint: the start and its iterations are made again, without their solves."
# Other trainings have loops of their own, which are compiled once they are needed.
_USUAL = {"index": "certified", "start": "random", "dtype": "float32", "device": "cpu"}
_PARTS = "Chosen by rows left out: neurons see {}. --parts all sees all columns at once."
_CATEGORIES = "Chosen by rows left out: whole numbers as {}, in {}. --categorical NAME says which are names instead."
_BY = {"squared": "squares", "log": "log loss", "mixed": "squares and one by log loss, mixed"}
_LOSS = "Probabilities are of a fit by {}: {}."
_LIMIT = "The limit of infinite width was fitted: {}. --width N trains a network."


@dataclass
class Work:
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

    @property
    def exact(self) -> bool:
        """Whether training goes to zero loss."""
        return bool(self.options["ridge"] == 0)

    def rows(self, places: Places) -> tuple[Any, NDArray[Any]]:
        """Return some inputs and targets, in the order of the file; inputs that are left in a file stay there.

        With few ``--rows`` of a file they are read into memory, where missing ones are filled in.
        """
        from thresher.estimators import Sizes

        return self.table.rows(places, in_memory=(self.options["rows"] or math.inf) <= Sizes().exact)

    def fit_again(self, model: Any, places: Places) -> None:
        """Fit an estimator to other rows."""
        X, y = self.rows(places)
        model.set_params(verbose=0 if self.console.quiet else 1)
        with notes(self.console, said=self.said):
            model.fit(X, y)
        self._say_choices(model)

    def fit(self, places: Places, *, quiet: bool = False) -> Any:
        """Return an estimator that was fitted to some rows."""
        X, y = self.rows(places)
        model = self._estimator(verbose=0 if quiet or self.console.quiet else 1)
        if self.exact:
            model.set_params(train_options=self.train_options())
        with notes(self.console, drop=quiet, said=self.said):
            model.fit(X, y)
        if not quiet:
            self._say_choices(model)
        return model

    def _say_choices(self, model: Any) -> None:
        """Say, once, what was done to columns, and why the limit was taken if the width was not given."""
        lines = [] if model.encoder_ is None else model.encoder_.summary()
        for line in lines:
            if line not in self.said:
                self.console.print(line)
            self.said.add(line)
        for line in _parts_of(model):
            if line not in self.said:
                self.console.print(line)
            self.said.add(line)
        if getattr(model, "loss_errors_", None) and _LOSS not in self.said:
            self.console.print(_LOSS.format(_BY[model.loss_], model.loss_reason_))
            self.said.add(_LOSS)
        if model.width == "auto" and not model.results_ and _LIMIT not in self.said:
            self.console.print(_LIMIT.format(model.width_reason_))
            self.said.add(_LIMIT)

    def fit_exactly(self, places: Places) -> tuple[Any, Recorder]:
        """Return an estimator that was trained to zero loss on some rows, and what recorded the training."""
        from sklearn.exceptions import ConvergenceWarning

        from thresher.estimators import WIDTH

        options, console, (X, y) = self.options, self.console, self.rows(places)
        model = self._estimator(verbose=0)
        names = output_names(None if self.task == "regression" else np.unique(y))
        model.width = WIDTH if options["width"] is None else model.width
        place = options["save"] and options["save"] / CHECKPOINT
        files = {"checkpoint": place, "resume": bool(place and options["resume"] and place.is_file())}
        if place and options["force"] and not files["resume"]:
            forget_checkpoint(options["save"])
        if options["resume"]:
            nothing = f"Nothing is saved in {options['save']} yet: this is the start."
            console.print(_GOES_ON if files["resume"] else nothing)
        recorder = Recorder(names)
        outputs = "" if len(names) == 1 else f", one network for each of {len(names)} classes"
        console.print(f"Training {model.width:,} neurons on {len(y):,} rows to zero loss{outputs}.")
        with (
            notes(console),
            warnings.catch_warnings(),
            Live(console, model.width, inputs=len(y), names=names) as live,
        ):
            warnings.simplefilter("ignore", ConvergenceWarning)  # reported below
            callbacks = [recorder, live, *([CheckTheorems()] if options["certify"] else [])]
            model.set_params(callbacks=callbacks, train_options=self.train_options() | files).fit(X, y)
        model.set_params(callbacks=None, train_options=self.train_options())
        self._say_choices(model)
        console.print(model.results_[0].solver)
        for result in model.results_:
            if result.status != Status.CONVERGED:
                console.print(f"{result.status.value.capitalize()}: {in_options(result.message)}")
                break
        return model, recorder

    def test(self, model: Any, parts: TrainTest, *, evaluate: bool) -> Tested:
        """Return how well a model does on rows that it was not fitted to; evaluate what a report shows of it."""
        X, y = self.rows(parts.test)
        by_row = bool(evaluate and (self.options["save"] or self.options["report"]))
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
                fitted=self.rows(parts.train) if by_row else None,
                progress=tell,
            )

    def cross_validate(self, folds: list[TrainTest]) -> tuple[Any, Tested]:
        """Return the model of the last fold, and the mean scores of all folds with their standard errors."""
        found: list[Tested] = []
        model = None
        for place, parts in enumerate(folds, start=1):
            model = self.fit(parts.train, quiet=True)
            found.append(self.test(model, parts, evaluate=place == len(folds)))
            self.console.print(f"Fold {place} of {len(folds)}: {say_scores(found[-1].scores)}.")
        return model, Tested.averaged(found)

    def say_classes(self, tested: Tested) -> None:
        """Print the recall of each class, and advice on thresholds where a class is rare, if there are classes."""
        for line in filter(None, (say_recall(tested.scores), say_threshold(tested.scores))):
            self.console.print(line)

    def train_options(self) -> dict[str, Any]:
        """Return the options of thresher.train that were given, besides those of an estimator."""
        return {
            name: self.options[name] for name in ("index", "solver", "start", "audit", "dtype") if self.options[name]
        }

    def _estimator(self, *, verbose: int) -> Any:
        from thresher.estimators import ThresherClassifier, ThresherRegressor

        kind = ThresherClassifier if self.task == "classification" else ThresherRegressor
        options = self.options
        if options["loss"] and self.task == "classification":
            target = self.table.target
            raise InvalidInput(f"--loss {options['loss']} is for numbers; {target} holds classes. Leave it out.")
        given = {name: options[name] for name in ("shift", "ridge", "bias", "parts", "device")}
        given |= {name: options[name] for name in ("width", "tol", "loss") if options[name] is not None}
        if options["categorical"]:
            given["categorical_features"] = split_names(options["categorical"], self.table.columns)
        return kind(**given, random_state=options["seed"], verbose=verbose)


def _parts_of(model: Any) -> Iterator[str]:
    """Yield what was chosen of columns: which whole numbers are categories, and what neurons see."""
    for what, said in (("number and category", "numbers and categories"), ("category", "categories")):
        if found := [str(name) for name, now in model.categories_.items() if now == what]:
            yield _CATEGORIES.format(said, name_some(found))
    if model.parts == "auto" and model.parts_.whole < 1:
        yield _PARTS.format(model.parts_.words)
