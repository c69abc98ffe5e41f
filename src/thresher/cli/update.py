"""``thresher update``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from thresher import InvalidInput
from thresher.cli.pieces.live import notes
from thresher.cli.pieces.options import reading_options, take_reading
from thresher.cli.pieces.places import new_file, new_places
from thresher.output import Console
from thresher.runs import read_run
from thresher.runs.later.updating import update as take_in
from thresher.runs.saved import SavedModel, load_model
from thresher.runs.scores import say_scores
from thresher.tables import Frame
from thresher.tables.reading import Reading

__all__ = ["update"]

_ALL = 1 << 62  # rows that are read at once


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--save", type=click.Path(path_type=Path), metavar="PLACE", help="Where to write; default: over MODEL.")
@click.option("--target", metavar="COLUMN", help="The column with the targets; default: as in training.")
@reading_options("as in training")
@click.option("--force", is_flag=True, help="Replace MODEL, or what is at --save already.")
def update(model: Path, file: Path, save: Path | None, target: str | None, force: bool, **options: Any) -> None:
    """Let a MODEL take in the rows of FILE, which came later, with all that it chose: as if they had been there.

    MODEL is a folder written by thresher train --save, or a saved estimator, of up to 4,096 rows. Says first how well
    the model does on the new rows, and warns where its choices no longer suit them: then train again.

    Example: thresher update runs/houses july.csv --save runs/july
    """
    if save is None and not force:
        raise InvalidInput(f"{model} would be replaced. Give another place with --save, or add --force.")
    place, folder, console = save or model, model.is_dir(), Console(stderr=True)
    if not folder and save is not None:
        new_file(save, option="--save", force=force)
    with console.status(lambda: "Loading the model ..."):
        saved, run = load_model(model), read_run(model) if folder else None
    saved = saved if target is None else saved._replace(target=target)
    X, y = _read(saved, file, take_reading(options), console)
    with notes(console):
        done = take_in(run, saved.model, X, y, task=saved.task, source=str(file))
    console.print(f"On these rows, before they were taken in: {say_scores(done.scores)}.")
    if done.again:
        console.print(f"{done.again:,} of them have the inputs of rows that the model knew; they count once more.")
    if done.run is None:
        saved.model.save(place)
    else:
        with new_places(save, None, force=force, resume=False):
            done.run.save(place, saved.model)
    rows, share = len(saved.model.inputs_), saved.model.loo_share_
    click.echo(
        f"Written: {place}. {len(y):,} rows taken in, {rows:,} distinct rows now; the squared error on rows left out "
        f"is {share:.3g} of that of a constant guess."
    )


def _read(saved: SavedModel, file: Path, how: Reading, console: Console) -> tuple[Frame, NDArray[Any]]:
    """Return the rows of a file as the model takes them, and their targets; leave out rows without one."""
    blocks = list(saved.read(file, how=how, size=_ALL))
    if len(blocks) != 1:
        raise InvalidInput(f"{file} has no rows to take in.")
    X, targets, said, _ = blocks[0]
    for line in said:
        console.print(line)
    if targets is None:
        raise InvalidInput(
            f"{file} has no column {saved.target!r}, with the targets of its rows. Name another one with --target."
        )
    if saved.task == "regression" and targets.dtype.kind == "U":
        raise InvalidInput(f"column {saved.target!r} of {file} holds text; this model predicts numbers.")
    known = targets != "" if targets.dtype.kind == "U" else ~np.isnan(targets.astype(np.float64))
    if not known.all():
        count = int((~known).sum())
        console.print(f"Left out {count:,} row{'s' if count > 1 else ''} without a target.")
    if not known.any():
        raise InvalidInput(f"no row of {file} has a target, in column {saved.target!r}.")
    return X.take(np.flatnonzero(known)), targets[known]
