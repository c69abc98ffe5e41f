"""Probabilities of the classifier: fitted by squares alone, and by log loss.

Run ``python -m benchmarks.tabular.probabilities --data-dir DIR``: published splits of the classification sets, one fit
after the other, then the area under the curve on tables of two classes beside LightGBM. It prints its tables and
writes them into docs/estimators.md.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.environment import environment
from benchmarks.page import machine, write
from benchmarks.summary import Sheet
from benchmarks.tabular.sets import CLASSIFICATION, TABLES, Part, load_set, set_names
from thresher import ThresherClassifier

__all__ = ["Figures", "calibration_error", "figures_of", "main"]

LOSSES = ("squared_error", "log_loss")
PAGE = Path("docs/estimators.md")
_BINS, _LEAST = 10, 1e-15
_MOST = 15_000  # training rows of a table of two classes: larger ones take minutes


class Figures(NamedTuple):
    """What probabilities of test rows are worth, and what they took."""

    log_loss: float
    accuracy: float
    calibration: float
    seconds: float  # of the processor


def calibration_error(probabilities: np.ndarray, places: np.ndarray) -> float:
    """Return the mean distance of confidence and accuracy over ten bins of confidence, by the rows in each.

    ``probabilities`` are (n, classes), ``places`` (n,) the columns of the classes that the rows are of.
    """
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == places
    bins = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
    return sum(abs(float((confidence - right)[bins == one].sum())) for one in range(_BINS)) / len(places)


def figures_of(make: Callable[[], Any], train: Part, test: Part) -> Figures:
    """Fit, and return what is predicted for test rows; a class that no training row has gets the least chance."""
    began = time.process_time()
    model = make().fit(train.inputs, train.targets)
    seconds = time.process_time() - began
    known = model.predict_proba(test.inputs)
    classes, places = np.unique(np.concatenate([model.classes_, test.targets]), return_inverse=True)
    places, chances = places[len(model.classes_) :], np.full((len(test.targets), len(classes)), _LEAST)
    chances[:, np.searchsorted(classes, model.classes_)] = np.maximum(known, _LEAST)
    return Figures(
        -float(np.log(chances[np.arange(len(places)), places]).mean()),
        float((model.predict(test.inputs) == test.targets).mean()),
        calibration_error(chances, places),
        seconds,
    )


def sets_sheet(folder: Path, names: Sequence[str]) -> Sheet:
    """Return the means over the published splits of some sets."""
    found: dict[str, list[list[Figures]]] = {loss: [] for loss in LOSSES}
    for name in names:
        data = load_set(folder, name)
        for loss in LOSSES:
            found[loss].append([])
        for split, rows in enumerate(data.splits["kf_train"]):
            parts = data.part(rows), data.part(data.splits["kf_test"][split])
            for loss in LOSSES:
                found[loss][-1].append(
                    figures_of(lambda loss=loss: ThresherClassifier(random_state=0, n_jobs=1, loss=loss), *parts)
                )
        mine = {loss: np.mean([one.log_loss for one in found[loss][-1]]) for loss in LOSSES}
        print(f"{name}: log loss {mine[LOSSES[0]]:.4f} by squares, {mine[LOSSES[1]]:.4f} by default", flush=True)
    body = []
    for loss, label in (("squared_error", '`loss="squared_error"`'), ("log_loss", "default")):
        mean = [np.mean([[one[k] for one in splits] for splits in found[loss]]) for k in range(3)]
        seconds = sum(one.seconds for splits in found[loss] for one in splits)
        body.append([label, *(f"{one:.4f}" for one in mean), f"{seconds:.0f}"])
    headings = ["", "log loss", "accuracy", "calibration error", "seconds of one core"]
    return Sheet(f"{len(names)} classification sets, four splits each", headings, body)


def tables_sheet(folder: Path, names: Sequence[str]) -> Sheet:
    """Return the areas under the curve on tables of two classes."""
    body = []
    for name in names:
        data = load_set(folder, name)
        if not data.labelled or len(np.unique(data.targets)) != 2 or len(data.splits["train"]) > _MOST:
            continue
        train, test = data.part(data.splits["train"]), data.part(data.splits["test"])
        row = [name, f"{len(train.targets):,}"]
        made = [ThresherClassifier(random_state=0, n_jobs=1, loss=loss) for loss in LOSSES] + _rivals()
        for model in made:
            chances = model.fit(train.inputs, train.targets).predict_proba(test.inputs)[:, 1]
            row.append(f"{roc_auc_score(test.targets, chances):.4f}")
        body.append(row)
        print(*body[-1], flush=True)
    rival = ["LightGBM"] if _rivals() else []
    headings = ["table", "rows to fit", '`loss="squared_error"`', "default", *rival]
    return Sheet("Area under the curve, tables of two classes", headings, body)


def _rivals() -> list[Any]:
    try:
        return [import_module("lightgbm").LGBMClassifier(verbose=-1, n_jobs=1, random_state=0)]
    except ImportError:
        return []


SUITES: dict[str, tuple[str, Callable[[Path, Sequence[str]], Sheet], str]] = {
    "classification": (CLASSIFICATION, sets_sheet, "probabilities"),
    "tables": (TABLES, tables_sheet, "probabilities of tables"),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit, print the tables and write them into the page. Cost: some minutes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tabular.probabilities", description=__doc__)
    parser.add_argument(
        "--data-dir", type=Path, required=True, help="folder that holds uci-classification/ and tables/"
    )
    parser.add_argument("--suite", nargs="+", choices=SUITES, default=list(SUITES), help="default: both")
    parser.add_argument(
        "--sets", nargs="+", metavar="NAME", help="default: all in the folders; then no page is written"
    )
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    where = machine({"environment": environment()})
    for suite in options.suite:
        folder, make, part = SUITES[suite]
        names = [one for one in set_names(options.data_dir / folder) if not options.sets or one in options.sets]
        lines = [make(options.data_dir / folder, names).markdown(), where]
        print("\n".join(lines))
        write(part, lines, page=None if options.sets else PAGE)


if __name__ == "__main__":
    main()
