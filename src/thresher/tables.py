"""Tables of numbers from files: CSV with or without a header, or .npz with X and y."""

from __future__ import annotations

import csv
import io
import math
import stat
import zipfile
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from thresher.checks import check_values, check_whole
from thresher.datasets import Split
from thresher.errors import InvalidInput
from thresher.memory import require
from thresher.model.problem import Problem, to_sphere

__all__ = ["Table", "read_table", "split_table"]

_MOST_UNSEEN = 200
_BYTES_A_BYTE = 3  # of a file, in memory at the same time
# What comes out of the depths of an archive that is none, or is damaged, or wants to be more than it is.
_NO_ARCHIVE = (
    ValueError,
    LookupError,
    TypeError,
    EOFError,
    RuntimeError,
    OverflowError,
    zipfile.BadZipFile,
    zlib.error,
)
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
        status = path.stat()
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISFIFO(status.st_mode)):
            raise InvalidInput(f"cannot read {path}: it is not a file. Give a CSV or .npz file.")
        require(_BYTES_A_BYTE * status.st_size, budget=None, what=f"reading {path}", remedy="Give a smaller file.")
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
        with zipfile.ZipFile(path) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist()]
            if {"X", "y"} - set(names):
                raise InvalidInput(f"{path} must hold arrays X and y; it holds {_list(names)}.")
            inputs = check_values(_read_array(archive, "X.npy", path), "X", shape="(n, d)")
            targets = check_values(_read_array(archive, "y.npy", path), "y", shape="(n,)")
    except _NO_ARCHIVE as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(
            f"{path} is not an .npz file of plain arrays. Write it with numpy.savez(..., X=X, y=y)."
        ) from None
    if len(inputs) != len(targets):
        raise InvalidInput(f"X and y must have as many rows; {path} has {len(inputs)} and {len(targets)}.")
    return Table(inputs, targets, [f"column {k + 1}" for k in range(inputs.shape[1])], "y")


def _read_array(archive: zipfile.ZipFile, name: str, path: Path) -> NDArray[Any]:
    """Return an array of an archive. Sizes are compared with those of the archive before anything is allocated."""
    entry = archive.getinfo(name)
    require(3 * entry.file_size, budget=None, what=f"reading {name} of {path}", remedy="Give a smaller file.")
    raw = archive.read(entry)
    stream = io.BytesIO(raw)
    read_header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[npy.read_magic(stream)]
    shape, _, dtype = read_header(stream)
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize > len(raw) - stream.tell():
        raise ValueError
    return npy.read_array(io.BytesIO(raw), allow_pickle=False)


def _read_csv(path: Path, target: str | None) -> Table:
    try:
        lines = [line for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not a text file. Give a CSV file of numbers, or an .npz file.") from None
    if not lines:
        raise InvalidInput(f"{path} is empty. Give a CSV file with at least 2 rows of numbers.")
    delimiter = max(",;\t", key=lines[0].count)
    try:
        rows = [[cell.strip() for cell in row] for row in csv.reader(lines, delimiter=delimiter)]
    except csv.Error as error:
        raise InvalidInput(f"{path} is not a CSV file: {error}.") from None
    headed = any(_number(cell) is None and cell.lower() not in _MISSING for cell in rows[0])
    names = rows.pop(0) if headed else [f"column {k + 1}" for k in range(len(rows[0]))]
    if len(names) < 2:
        raise InvalidInput(f"{path} must have at least 2 columns, inputs and a target; it has {len(names)}.")
    if target is not None and target not in names:
        raise InvalidInput(f"{path} has no column {target[:40]!r}; it has {_list(names)}.")
    values = np.array([_read_row(row, place, names, path) for place, row in enumerate(rows, start=1)])
    values = values.reshape(len(rows), len(names))
    column = names.index(target) if target is not None else len(names) - 1
    return Table(np.delete(values, column, axis=1), values[:, column], names, names[column])


def _read_row(row: list[str], place: int, names: list[str], path: Path) -> list[float]:
    if len(row) != len(names):
        raise InvalidInput(f"{path}: row {place} has {len(row)} cells; expected {len(names)}, as in the first line.")
    return [
        _read_cell(cell, f"{path}: row {place}, column {name[:40]!r}") for cell, name in zip(row, names, strict=True)
    ]


def _read_cell(cell: str, where: str) -> float:
    if cell.lower() in _MISSING:
        raise InvalidInput(f"{where} is missing. Remove such rows or fill them in.")
    number = _number(cell)
    if number is None:
        raise InvalidInput(f"{where} is {cell[:40]!r}, not a number. Remove such columns or encode them.")
    if not math.isfinite(number):
        raise InvalidInput(f"{where} is {cell[:40]}; numbers must be finite.")
    return number


def _list(names: list[str]) -> str:
    return ", ".join(name[:40] for name in names[:20]) + (", ..." if len(names) > 20 else "") or "none"


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None
