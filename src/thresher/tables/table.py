"""A file of any kind as a frame, or as a table: inputs and targets, which may be split into a problem."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.checks import check_whole, guess_name, name_some, say_all, split_names
from thresher.datasets import Split
from thresher.errors import InvalidInput
from thresher.memory import require
from thresher.model.problem import Problem, to_sphere
from thresher.tables.frame import Column, Frame, Reading
from thresher.tables.learning import learn, look
from thresher.tables.parquet import KINDS, PARQUET, ParquetRows, parquet_blocks, read_parquet
from thresher.tables.rows_on_disk import Part
from thresher.tables.targets import read_targets
from thresher.tables.text_files import INPUT, ITSELF, SMALLER, Like, read_sheet

__all__ = ["Table", "read_blocks", "read_frame", "read_table", "split_table"]

_MOST_UNSEEN = 200  # rows that are tested on
_BYTES_A_BYTE = 12  # of a file, in memory at the same time


def read_frame(path: Path, *, how: Reading = ITSELF, like: Like | None = None) -> Frame:
    """Return the columns of a file, in order.

    Parameters
    ----------
    path : CSV (see :func:`read_sheet`), ``-`` for CSV from standard input, or .parquet
    how : how a CSV file is read: a header, the delimiter, the decimal sign, the encoding. What it leaves open the file
        tells; a header is a first line with text that does not come again
    like : another file, as which a CSV file is read where ``how`` leaves that open; InvalidInput if it plainly differs

    Raises
    ------
    InvalidInput
        With everything that is wrong. Rows count from 1 and leave out the header.

    Cost: O(nd).
    """
    frame, wrong, _ = _gather(path, how=how, like=like)
    say_all(wrong, source=str(path))
    return frame


def read_blocks(path: Path, *, how: Reading = ITSELF, like: Like | None = None, size: int) -> Iterator[Frame]:
    """Yield the rows of a Parquet file, ``size`` at a time, or those of any other file at once; see :func:`read_frame`.

    Cost: O(nd); memory for one block.
    """
    if path.suffix.lower() not in PARQUET:
        yield read_frame(path, how=how, like=like)
        return
    count = 0
    for block in parquet_blocks(path, size=size):
        yield block
        count += len(block)
    if not count:
        raise InvalidInput(f"{path} has no rows. Give {KINDS} with at least one.")


class Table(NamedTuple):
    """Inputs of n rows and targets (n,), numbers or text, and what the target is called.

    Many inputs of a Parquet file stay there, if :func:`read_table` was asked to leave them.
    """

    inputs: Frame | ParquetRows
    targets: NDArray[Any]
    target: str

    @property
    def columns(self) -> list[str]:
        """The names of the columns of the inputs."""
        return self.inputs.columns

    def rows(self, places: NDArray[np.int64], *, in_memory: bool = False) -> tuple[Any, NDArray[Any]]:
        """Return some inputs and targets; inputs that are left in a file stay there, unless wanted ``in_memory``."""
        if in_memory or isinstance(self.inputs, Frame):
            return self.inputs.take(places), self.targets[places]
        return Part(self.inputs, places), self.targets[places]


def read_table(
    path: Path,
    *,
    target: str | None = None,
    how: Reading = ITSELF,
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    most: int | None = None,
    missing: bool = False,
) -> Table:
    """Return the table in a file: at least two rows, the last column the target unless one is named.

    Parameters
    ----------
    path : see :func:`read_frame`
    target : name of the column to predict
    how : how a CSV file is read; what it leaves open the file tells
    drop : columns to leave out before anything is checked, one by one or several between commas
    categorical : columns that are names, whatever their cells look like, in the same way
    most : rows of a Parquet file beyond which inputs stay in it, if all are numbers; None to read all
    missing : whether some targets may be missing: NaN, or ""

    Raises InvalidInput, with everything that is wrong, by row and column. Cost: O(nd).
    """
    if most is not None and (found := _left_in_file(path, target, drop, most, missing=missing)) is not None:
        return found
    frame, wrong, everything = _gather(path, how=how, drop=drop)
    names = frame.columns
    target = everything[-1] if target is None else target
    if target in split_names(drop, everything):
        raise InvalidInput(f"--drop {target} would leave out the target. Name another with --target.")
    if target not in names:
        near = guess_name(target, names)
        wrong.append(f"there is no column {target[:40]!r}, as --target says; there are {name_some(names)}.{near}")
        target = names[-1]
    features = frame.without([target])
    if not features.columns:
        hint = ". Are its cells parted by another sign? Name it with --delimiter" if frame.reading is not None else ""
        wrong.append(f"it must have at least 2 columns, inputs and a target; it has {len(names)}{hint}")
    if len(frame) < 2:
        wrong.append(f"it must have at least 2 rows; it has {len(frame)}")
    columns: list[Column] = []
    named = set(split_names(categorical, names))
    for one in features:
        try:
            column = one._replace(values=one.as_text(), category=True) if one.name in named else one
            columns.append(column._replace(cell_format=look(column)))
        except InvalidInput as error:
            wrong.append(f"{error} Correct them, leave the column out with --drop, or take it as names: --categorical")
    features = Frame(columns, notes=frame.notes, reading=frame.reading)
    try:
        targets = read_targets(frame, target, missing=missing)
    except InvalidInput as error:
        wrong.append(str(error))
    say_all([one if one.endswith("?") else one.rstrip(".") + "." for one in wrong], source=str(path))
    return Table(features, targets, target)


def split_table(table: Table, *, rows: int, seed: int = 0) -> Split:
    """Return up to ``rows`` random rows to train on and others to test on, lifted to the sphere.

    Columns become numbers by what the rows trained on tell of them. The means of these rows are subtracted, then every
    row is divided by its norm. Targets are shifted and scaled to mean 0 and variance 1 over the same rows. At least a
    fifth of the rows is kept for testing, unless there are fewer than five.

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
    if not isinstance(table.inputs, Frame):
        raise InvalidInput("rows that are left in a file cannot be split. Read the table without ``most``.")
    kinds = [learn(one, targets=None)[0] for one in table.inputs.take(train)]
    table_rows = np.hstack([kind.encode(one) for kind, one in zip(kinds, table.inputs, strict=True)])
    if not table_rows.shape[1]:
        raise InvalidInput("no column can be used: all are empty or the same in every row. Give other columns.")
    try:
        with np.errstate(over="raise"):
            rows_centred = table_rows - table_rows[train].mean(axis=0)
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


def _gather(
    path: Path,
    *,
    how: Reading = ITSELF,
    like: Like | None = None,
    drop: Sequence[str] = (),
    only: str | None = None,
) -> tuple[Frame, list[str], list[str]]:
    """Return the columns of a file, what is wrong with them, and all names in the file; see :func:`read_frame`.

    ``only`` is the one column of a Parquet file to read; None for all.
    """
    kind, wrong, notes, reading = path.suffix.lower(), list[str](), list[str](), None
    try:
        if path != INPUT:
            status = path.stat()
            if not (stat.S_ISREG(status.st_mode) or stat.S_ISFIFO(status.st_mode)):
                raise InvalidInput(f"cannot read {path}: it is not a file. Give {KINDS}.")
            require(_BYTES_A_BYTE * status.st_size, budget=None, what=f"reading {path}", remedy=SMALLER)
        if kind in PARQUET:
            columns = read_parquet(path, only=only, drop=drop, wrong=wrong, notes=notes)
        else:
            remedy = f"Give {KINDS} with at least 2 rows."
            columns, reading, notes, wrong = read_sheet(path, how=how, like=like, remedy=remedy)
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or error}. Give {KINDS}.") from None
    if not columns or not len(columns[0].values):
        raise InvalidInput(f"{path} has no rows. Give {KINDS} with at least 2 rows.")
    names = [one.name for one in columns]
    left_out = split_names(drop, names)
    if strange := [name for name in left_out if name not in names and only is None]:
        near = "".join(guess_name(name, names) for name in strange)
        wrong.append(f"there is no column {name_some(strange)}, as --drop says; there are {name_some(names)}.{near}")
    kept = [one for one in columns if one.name not in left_out]
    return Frame(kept, notes=notes, reading=reading), wrong, names


def _left_in_file(path: Path, target: str | None, drop: Sequence[str], most: int, *, missing: bool) -> Table | None:
    """Return the table of many rows of numbers in a Parquet file, of which targets alone are read; None for others."""
    if path.suffix.lower() not in PARQUET or not path.is_file():
        return None
    whole = ParquetRows(path, [])
    target = whole.all_names[-1] if target is None and whole.all_names else target
    left_out = set(split_names(drop, whole.all_names))
    names = [name for name in whole.all_names if name != target and name not in left_out]
    if len(whole) <= most or target not in whole.all_names or target in left_out or not names:
        return None
    if not left_out <= set(whole.all_names):
        return None
    try:
        rows = ParquetRows(path, names)
    except InvalidInput:  # some are text, which is encoded in memory
        return None
    frame, wrong, _ = _gather(path, only=target)
    say_all(wrong, source=str(path))
    return Table(rows, read_targets(frame, str(target), missing=missing), str(target))
