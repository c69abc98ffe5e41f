"""Tables of numbers from files: CSV with or without a header, or .npz with X and y."""

from __future__ import annotations

import csv
import math
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.checks import check_values, check_whole
from thresher.datasets import Split
from thresher.errors import InvalidInput
from thresher.model.problem import Problem, to_sphere

__all__ = ["Table", "read_table", "split_table"]

_MOST_UNSEEN = 200
_MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}


class Table(NamedTuple):
    """Raw inputs (n, d) and targets (n,), and what the columns are called."""

    inputs: NDArray[np.float64]
    targets: NDArray[np.float64]
    names: list[str]
    target: str


def read_table(path: Path, *, target: str | None = None) -> Table:
    """Return the table in a file: numbers only, at least two rows, the last column the target unless one is named.

    Raises InvalidInput, with the row and column at fault. Rows count from 1 and leave out the header.

    Cost: O(nd).
    """
    try:
        table = _read_npz(path, target) if path.suffix == ".npz" else _read_csv(path, target)
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or error}. Give a CSV or .npz file.") from None
    if len(table.targets) < 2:
        raise InvalidInput(f"{path} must have at least 2 rows of numbers; it has {len(table.targets)}.")
    return table


def split_table(table: Table, *, rows: int, seed: int = 0) -> Split:
    """Return up to ``rows`` random rows to train on and others to test on, lifted to the sphere.

    The means of the rows trained on are subtracted, then every row is divided by its norm. Targets are shifted and
    scaled to mean 0 and variance 1 over the same rows. At least a fifth of the rows is kept for testing, unless there
    are fewer than five.

    Cost: O(nd).
    """
    count = len(table.targets)
    used = min(check_whole(rows, "rows", least=2), count - count // 5)
    order = np.random.default_rng(check_whole(seed, "seed", least=0)).permutation(count)
    train, test = order[:used], order[used : used + _MOST_UNSEEN]
    test = test if len(test) else train
    rows_centred = table.inputs - table.inputs[train].mean(axis=0)
    zero = np.flatnonzero(~rows_centred.any(axis=1))
    if len(zero):
        raise InvalidInput(f"row {zero[0] + 1} is the mean of those trained on and has no direction. Remove it.")
    inputs = to_sphere(rows_centred)
    centred = table.targets - table.targets[train].mean()
    targets = centred / (centred[train].std() or 1.0)
    words = (
        f"{used:,} of {count:,} rows, {inputs.shape[1]} columns centred and put on the sphere, target {table.target!r}"
    )
    return Split(
        Problem(inputs[train], targets[train]),
        Problem(inputs[test], targets[test]),
        f"{words} scaled to mean 0 and variance 1",
    )


def _read_npz(path: Path, target: str | None) -> Table:
    if target is not None:
        raise InvalidInput(f"--target names a column of a CSV file; {path} holds arrays X and y.")
    try:
        with np.load(path, allow_pickle=False) as arrays:
            missing = {"X", "y"} - set(arrays.files)
            if missing:
                raise InvalidInput(f"{path} must hold arrays X and y; it holds {', '.join(arrays.files) or 'none'}.")
            inputs, targets = (
                check_values(arrays["X"], "X", shape="(n, d)"),
                check_values(arrays["y"], "y", shape="(n,)"),
            )
    except (ValueError, zipfile.BadZipFile) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(
            f"{path} is not an .npz file of plain arrays. Write it with numpy.savez(..., X=X, y=y)."
        ) from None
    if len(inputs) != len(targets):
        raise InvalidInput(f"X and y must have as many rows; {path} has {len(inputs)} and {len(targets)}.")
    return Table(inputs, targets, [f"column {k + 1}" for k in range(inputs.shape[1])], "y")


def _read_csv(path: Path, target: str | None) -> Table:
    try:
        lines = [line for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not a text file. Give a CSV file of numbers, or an .npz file.") from None
    if not lines:
        raise InvalidInput(f"{path} is empty. Give a CSV file with at least 2 rows of numbers.")
    delimiter = max(",;\t", key=lines[0].count)
    rows = [[cell.strip() for cell in row] for row in csv.reader(lines, delimiter=delimiter)]
    headed = any(_number(cell) is None and cell.lower() not in _MISSING for cell in rows[0])
    names = rows.pop(0) if headed else [f"column {k + 1}" for k in range(len(rows[0]))]
    if len(names) < 2:
        raise InvalidInput(f"{path} must have at least 2 columns, inputs and a target; it has {len(names)}.")
    if target is not None and target not in names:
        raise InvalidInput(f"{path} has no column {target!r}; it has {', '.join(names)}.")
    values = np.array([_read_row(row, place, names, path) for place, row in enumerate(rows, start=1)])
    values = values.reshape(len(rows), len(names))
    column = names.index(target) if target is not None else len(names) - 1
    return Table(np.delete(values, column, axis=1), values[:, column], names, names[column])


def _read_row(row: list[str], place: int, names: list[str], path: Path) -> list[float]:
    if len(row) != len(names):
        raise InvalidInput(f"{path}: row {place} has {len(row)} cells; expected {len(names)}, as in the first line.")
    return [_read_cell(cell, f"{path}: row {place}, column {name!r}") for cell, name in zip(row, names, strict=True)]


def _read_cell(cell: str, where: str) -> float:
    if cell.lower() in _MISSING:
        raise InvalidInput(f"{where} is missing. Remove such rows or fill them in.")
    number = _number(cell)
    if number is None:
        raise InvalidInput(f"{where} is {cell!r}, not a number. Remove such columns or encode them.")
    if not math.isfinite(number):
        raise InvalidInput(f"{where} is {cell}; numbers must be finite.")
    return number


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None
