"""A table: encoded inputs, targets, and what kind of task they make."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.checks import check_whole
from thresher.datasets import Split
from thresher.errors import InvalidInput
from thresher.model.problem import Problem, to_sphere
from thresher.tables.arrays import name_some
from thresher.tables.columns import Column, ParquetRows, read_columns
from thresher.tables.encoding import Encoding

__all__ = ["Table", "Task", "guess_task", "read_table", "say_label", "split_table"]

Task = Literal["regression", "classification"]
_MOST_UNSEEN = 200
_MOST_CLASSES = 20  # whole numbers that are taken for classes


class Table(NamedTuple):
    """Inputs (n, d) and targets (n,), numbers or text, and what the columns are called.

    Many inputs of a Parquet file stay there, if :func:`read_table` was asked to leave them.
    """

    inputs: Any  # NDArray[np.float64] or ParquetRows
    targets: NDArray[Any]
    encoding: Encoding
    target: str


def read_table(
    path: Path,
    *,
    target: str | None = None,
    header: bool | None = None,
    drop: Sequence[str] = (),
    most: int | None = None,
) -> Table:
    """Return the table in a file: at least two rows, the last column the target unless one is named.

    Parameters
    ----------
    path : see :func:`read_columns`
    target : name of the column to predict; for an .npy file, the .npy file with the targets
    header : whether a CSV file has one; None to guess
    drop : columns to leave out
    most : rows of a Parquet file beyond which inputs stay in it, if all are numbers; None to read all

    Raises InvalidInput, with the row and column at fault. Cost: O(nd).
    """
    if most is not None and (found := _left_in_file(path, target, drop, most)) is not None:
        return found
    columns = read_columns(path, header=header)
    if path.suffix.lower() == ".npy":
        columns.append(_read_targets(path, target, len(columns[0].values)))
        target = "y"
    elif path.suffix.lower() == ".npz" and target not in (None, "y"):
        raise InvalidInput(f"the target in {path} is the array y; got --target {target}. Leave --target out.")
    names = [one.name for one in columns]
    target = names[-1] if target is None else target
    for name, role in ((target, "--target"), *((name, "--drop") for name in drop)):
        if name not in names:
            raise InvalidInput(f"{path} has no column {name[:40]!r}, as {role} says; it has {name_some(names)}.")
    if target in drop:
        raise InvalidInput(f"--drop {target} would leave out the target. Name other columns.")
    chosen = next(one for one in columns if one.name == target)
    features = [one for one in columns if one.name != target and one.name not in drop]
    if not features:
        raise InvalidInput(f"{path} must have at least 2 columns, inputs and a target; it has {len(columns)}.")
    if len(chosen.values) < 2:
        raise InvalidInput(f"{path} must have at least 2 rows of numbers; it has {len(chosen.values)}.")
    encoding = Encoding.of(features)
    return Table(encoding.matrix(features, source=str(path)), chosen.values, encoding, target)


def guess_task(targets: NDArray[Any]) -> tuple[Task, str]:
    """Return the task that targets (n,) look like, and why."""
    values = np.unique(targets)
    if targets.dtype.kind != "f":
        return "classification", f"the target is text with {len(values)} values"
    if len(values) == 2:
        return "classification", "the target has two values"
    if len(values) <= _MOST_CLASSES and 2 * len(values) <= len(targets) and (values == np.round(values)).all():
        return "classification", f"the target has {len(values)} values, all whole numbers"
    return "regression", f"the target is a number with {len(values):,} values"


def say_label(label: Any) -> str:
    """Return a class as people write it: 3 rather than 3.0."""
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)


def split_table(table: Table, *, rows: int, seed: int = 0) -> Split:
    """Return up to ``rows`` random rows to train on and others to test on, lifted to the sphere.

    The means of the rows trained on are subtracted, then every row is divided by its norm. Targets are shifted and
    scaled to mean 0 and variance 1 over the same rows. At least a fifth of the rows is kept for testing, unless there
    are fewer than five.

    Cost: O(nd).
    """
    if table.targets.dtype.kind != "f":
        raise InvalidInput(
            f"the target {table.target[:40]!r} is text ({str(table.targets[0])[:40]!r}); expected numbers."
        )
    count = len(table.targets)
    used = min(check_whole(rows, "rows", least=2), count - count // 5)
    order = np.random.default_rng(check_whole(seed, "seed", least=0)).permutation(count)
    train, test = order[:used], order[used : used + _MOST_UNSEEN]
    test = test if len(test) else train
    try:
        with np.errstate(over="raise"):
            rows_centred = table.inputs - table.inputs[train].mean(axis=0)
            centred = table.targets - table.targets[train].mean()
            targets = centred / (centred[train].std() or 1.0)
    except FloatingPointError:
        raise InvalidInput("some numbers are too large to take means and variances of. Rescale the columns.") from None
    zero = np.flatnonzero(~rows_centred.any(axis=1))
    if len(zero):
        raise InvalidInput(f"row {zero[0] + 1} is the mean of those trained on and has no direction. Remove it.")
    inputs = to_sphere(rows_centred)
    words = (
        f"{used:,} of {count:,} rows, {inputs.shape[1]} columns centred and put on the sphere, target {table.target!r}"
    )
    return Split(
        Problem(inputs[train], targets[train]),
        Problem(inputs[test], targets[test]),
        f"{words} scaled to mean 0 and variance 1",
    )


def _left_in_file(path: Path, target: str | None, drop: Sequence[str], most: int) -> Table | None:
    """Return the table of many rows of numbers in a Parquet file, of which targets alone are read; None for others."""
    if path.suffix.lower() not in (".parquet", ".pq") or not path.is_file():
        return None
    whole = ParquetRows(path, [])
    target = whole.all_names[-1] if target is None and whole.all_names else target
    names = [name for name in whole.all_names if name != target and name not in drop]
    if len(whole) <= most or target not in whole.all_names or target in drop or not names:
        return None
    if not set(drop) <= set(whole.all_names):
        return None
    try:
        rows = ParquetRows(path, names)
    except InvalidInput:  # some are text, which is encoded in memory
        return None
    targets = read_columns(path, only=target)[0].values
    return Table(rows, targets, Encoding(tuple((name, None) for name in names)), str(target))


def _read_targets(path: Path, target: str | None, rows: int) -> Column:
    if target is None or not target.endswith(".npy"):
        raise InvalidInput(f"{path} holds inputs only. Name the file with the targets: --target y.npy")
    found = read_columns(Path(target))
    if len(found) != 1 or len(found[0].values) != rows:
        shape = (len(found[0].values), len(found)) if len(found) > 1 else (len(found[0].values),)
        raise InvalidInput(f"{target} must have one target a row of {path}, shape ({rows},); it has {shape}.")
    return Column("y", found[0].values)
