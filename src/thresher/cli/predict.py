"""``thresher predict``."""

from __future__ import annotations

import csv
import math
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from thresher import InvalidInput
from thresher.checks import name_some
from thresher.cli import options as shared
from thresher.cli.live import notes
from thresher.cli.places import new_file, new_folders
from thresher.devices import find_device
from thresher.output import Console, is_stream, writing
from thresher.report.answers import Answers, ask
from thresher.report.saved import SavedModel, load_model
from thresher.report.scores import score_all
from thresher.report.words import say_recall, say_scores
from thresher.tables import say_label
from thresher.tables.frame import Reading

__all__ = ["predict"]

_BLOCK = 1 << 16  # rows of a Parquet file that are read, predicted and written at a time
_PROBABILITY = 4  # decimals
_CLASH = "probability of "  # before the names of classes, if one is the name of another column
_ROUNDING = 1e-9  # of a level of quantiles
_MOST_DECIMALS = 15  # of numbers that are not written with a power of ten


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--output", type=click.Path(path_type=Path), metavar="CSV", help="File to write to; default: the terminal."
)
@click.option("--proba", is_flag=True, help="Add the probability of each class, one column for each.")
@click.option(
    "--interval",
    type=float,
    metavar="SHARE",
    help="Add columns lower and upper, between which this share of new targets lies, such as 0.9.",
)
@click.option(
    "--digits",
    type=click.Choice(["auto", "full"]),
    default="auto",
    show_default=True,
    help="auto: as many as the model's error warrants; full: all.",
)
@shared.device
@shared.reading_options("as in training")
@shared.force
@shared.quiet
def predict(model: Path, file: Path, output: Path | None, device: str, **options: Any) -> None:
    """Predict the rows of FILE with a MODEL: a folder written by thresher train --save, or a saved estimator.

    Prints a column, prediction, and more with --proba or --interval. If FILE also has the target, the scores are
    printed to standard error.

    Example: thresher predict runs/houses new.csv --output prices.csv
    """
    find_device(device)
    if output is not None:
        new_file(output, option="--output", force=options["force"], streams=True)
    console = Console(stderr=True, quiet=options["quiet"])
    with console.status(lambda: "Loading the model ..."):
        saved = load_model(model)
    saved.model.device = device
    _check_options(saved, proba=options["proba"], interval=options["interval"])
    how = shared.take_reading(options)
    found: list[Answers] = []
    wanted: list[NDArray[Any]] = []
    count, unseen = 0, Counter[str]()
    with notes(console), _opened(output) as stream:
        writer = csv.writer(stream, lineterminator="\n")
        for X, targets in _read(saved, file, how, console):
            chances = saved.classes is not None and (options["proba"] or targets is not None)
            answers = ask(saved.model, X, task=saved.task, chances=chances, quantiles=_ends(options["interval"]))
            if not count:
                writer.writerow(_names(saved, answers, options))
            writer.writerows(_cells(saved, answers, options))
            unseen.update(saved.model.encoder_.unseen(X) if saved.model.encoder_ is not None else {})
            count += len(answers.predicted)
            if targets is not None:
                found.append(answers)
                wanted.append(targets)
    if output is not None:
        console.print(f"Written: {output}, {count:,} predictions.")
    if options["proba"] and "prediction" in map(say_label, saved.model.classes_.tolist()):
        console.print(f"A class is called 'prediction': columns of classes begin with {_CLASH!r}.")
    for name, strange in unseen.items():
        what = saved.model.encoder_.kinds_[name].strange
        console.print(f"Column {name!r}: {strange:,} of {count:,} rows have {what}.")
    if wanted:
        _tell_scores(saved, found, np.concatenate(wanted), console)


def _check_options(saved: SavedModel, *, proba: bool, interval: float | None) -> None:
    classes = saved.task == "classification"
    if proba and not classes:
        raise InvalidInput("--proba is for classes; this model predicts numbers. Use --interval 0.9 for error bars.")
    if interval is None:
        return
    if not 0 < interval < 1:
        raise InvalidInput(f"--interval must lie between 0 and 1, such as 0.9; got {interval:g}.")
    if classes:
        raise InvalidInput("--interval is for numbers; this model predicts classes. Use --proba for probabilities.")
    if not hasattr(saved.model, "predict_quantiles"):
        raise InvalidInput(
            "--interval needs a model with a ridge; this is a network that was trained to zero loss. Train without "
            "--width."
        )
    learnt, (lower, upper) = saved.model.predictive_.fits, _ends(interval)
    if learnt is not None:
        low, high = learnt.levels[0], learnt.levels[-1]
        if lower < low - _ROUNDING or upper > high + _ROUNDING:
            raise InvalidInput(
                f"--interval {interval:g} lies between quantiles {lower:g} and {upper:g}; this model has learnt those "
                f"from {low:g} to {high:g}. Ask for a smaller share."
            )


def _ends(interval: float | None) -> list[float]:
    """Return the quantiles that the interval lies between."""
    return [] if interval is None else [(1 - interval) / 2, (1 + interval) / 2]


def _read(saved: SavedModel, file: Path, how: Reading, console: Console) -> Iterator[tuple[Any, NDArray[Any] | None]]:
    """Yield rows as the model takes them, and their targets if the file has them; say what is to be said of them."""
    said: list[str] = []
    for rows in saved.read(file, how=how, size=_BLOCK):
        for note in rows.notes:
            console.print(note)
        if rows.others and rows.others != said:
            console.print(f"Left out, since the model was not trained on them: {name_some(rows.others)}.")
            said = rows.others
        yield rows.X, rows.targets


def _names(saved: SavedModel, answers: Answers, options: dict[str, Any]) -> list[str]:
    """Return the names of the columns of the output."""
    outputs = answers.predicted.shape[1:]
    numbers = [f" {k + 1}" for k in range(outputs[0])] if outputs else [""]
    names = [f"prediction{number}" for number in numbers]
    if options["interval"] is not None:
        names += [f"{side}{number}" for side in ("lower", "upper") for number in numbers]
    if options["proba"]:
        labels = [say_label(one) for one in saved.model.classes_.tolist()]
        names += [f"{_CLASH}{one}" for one in labels] if set(labels) & set(names) else labels
    return names


def _cells(saved: SavedModel, answers: Answers, options: dict[str, Any]) -> Iterator[list[str]]:
    """Yield the cells of each row of the output."""
    full = options["digits"] == "full"
    columns: list[NDArray[Any]] = [answers.predicted.reshape(len(answers.predicted), -1)]
    decimals = [[None if full else _digits_for(one) for one in row] for row in saved.errors(columns[0]).tolist()]
    if answers.quantiles is not None:
        columns += [part.reshape(len(part), -1) for part in np.moveaxis(answers.quantiles, -1, 0)]
    chances = answers.chances if options["proba"] else None
    if chances is not None and not full:
        chances = _round_shares(chances, _PROBABILITY)
    for place, row in enumerate(np.concatenate(columns, axis=1).tolist()):
        cells = [_say(value, few) for value, few in zip(row, decimals[place] * len(columns), strict=True)]
        if chances is not None:
            cells += [_say(value, None if full else _PROBABILITY) for value in chances[place].tolist()]
        yield cells


def _round_shares(shares: NDArray[np.float64], decimals: int) -> NDArray[np.float64]:
    """Return shares (k, parts) rounded so that each row still adds up to 1: those cut most are rounded up.

    Cost: O(k parts log parts).
    """
    scaled = shares / shares.sum(axis=1, keepdims=True) * 10**decimals
    whole = np.floor(scaled)
    left = np.rint(10**decimals - whole.sum(axis=1, keepdims=True))
    order = np.argsort(whole - scaled, axis=1, kind="stable")
    return np.asarray((whole + (np.argsort(order, axis=1) < left)) / 10**decimals)


def _digits_for(error: float) -> int | None:
    """Return the decimals that a number with this error deserves: one digit below that of the error; None for all."""
    return max(1 - math.floor(math.log10(error)), 0) if 0 < error < math.inf else None


def _say(value: Any, decimals: int | None) -> str:
    if decimals is None or not isinstance(value, float):
        return say_label(value)
    return f"{round(value, decimals) + 0.0:.{decimals}f}" if decimals <= _MOST_DECIMALS else f"{value:.4g}"


def _tell_scores(saved: SavedModel, found: Sequence[Answers], y: NDArray[Any], console: Console) -> None:
    """Print how well the answers do to standard error."""
    if y.dtype.kind == "U" and (saved.task == "regression" or saved.model.classes_.dtype.kind not in "UO"):
        console.print(f"Column {saved.target!r} holds text, so predictions are not compared with it.")
        return
    predicted = np.concatenate([one.predicted for one in found])
    known = y != "" if y.dtype.kind == "U" else ~np.isnan(y)
    if predicted.ndim > 1 or not known.any():
        return
    parts = [one.chances for one in found if one.chances is not None]
    chances, classes = (np.concatenate(parts)[known], saved.model.classes_) if parts else (None, None)
    y = y[known]
    scores = score_all(predicted[known], y, task=saved.task, chances=chances, classes=classes)
    console.print(f"Compared with column {saved.target!r} of {len(y):,} rows: {say_scores(scores)}.")
    if line := say_recall(scores):
        console.print(line)


@contextmanager
def _opened(output: Path | None) -> Iterator[Any]:
    """Give what to write to: the terminal, a device or a pipe, or a file that is complete or not there."""
    if output is None:
        yield sys.stdout
        sys.stdout.flush()  # here, where a closed pipe is understood
        return
    remedy = "Choose another place with --output."
    if is_stream(output):
        try:
            with output.open("a", encoding="utf-8") as stream:
                yield stream
        except BrokenPipeError:
            raise
        except OSError as error:
            raise InvalidInput(f"cannot write {output}: {error.strerror}. {remedy}") from None
        return
    with (
        new_folders((output.parent, "--output")),
        writing(output, remedy=remedy) as unfinished,
        unfinished.open("w", encoding="utf-8") as stream,
    ):
        yield stream
