"""``thresher predict``."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import click
import numpy as np
from rich.console import Console

from thresher.devices import DEVICES, find_device
from thresher.output import make_folder, write_text
from thresher.runs.saved import load_model
from thresher.runs.scores import score
from thresher.tables import read_frame, read_targets, say_label

__all__ = ["predict"]


@click.command(short_help="Predict the rows of a table.")
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--output", type=click.Path(path_type=Path), metavar="CSV", help="File to write to; default: the terminal."
)
@click.option("--device", type=click.Choice(DEVICES), default="cpu", show_default=True, help="Where to compute.")
@click.option("--header/--no-header", default=None, help="Whether FILE has column names; default: guessed.")
def predict(model: Path, file: Path, output: Path | None, device: str, header: bool | None) -> None:
    """Predict the rows of FILE with a MODEL: a folder written by thresher train --save, or a saved estimator.

    Prints one column, prediction. If FILE also has the target, the score is printed to standard error.

    Example: thresher predict runs/houses new.csv --output prices.csv
    """
    find_device(device)
    if output is not None:
        make_folder(output.parent, remedy="Choose another place with --output.")
    frame = read_frame(file, header=header)
    with Console(stderr=True).status("Loading the model ..."):
        saved = load_model(model)
        saved.model.device = device
        rows = saved.frame(frame)
        answers = saved.model.predict(rows)
    unseen = {} if saved.model.encoder_ is None else saved.model.encoder_.unseen(rows)
    for name, count in unseen.items():
        click.echo(f"Column {name!r}: {count:,} of {len(rows):,} rows have a value that no training row has.", err=True)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["prediction"])
    writer.writerows([say_label(one.item() if isinstance(one, np.generic) else one)] for one in answers)
    if output is None:
        click.echo(text.getvalue(), nl=False)
    else:
        write_text(output, text.getvalue(), remedy="Choose another place with --output.")
        click.echo(f"Written: {output}, {len(answers):,} predictions.", err=True)
    target = read_targets(frame, saved.target) if saved.target in frame else None
    if target is not None and saved.task == "regression" and target.dtype.kind not in "iufb":
        click.echo(f"Column {saved.target!r} holds text, so predictions are not compared with it.", err=True)
    elif target is not None:
        test = score(answers, target, task=saved.task, known=target)
        said = f"{test.value:.1%}" if test.measure == "accuracy" else f"{test.value:.4g}"
        click.echo(f"Compared with column {saved.target!r}: {test.measure} {said} on {test.rows:,} rows.", err=True)
