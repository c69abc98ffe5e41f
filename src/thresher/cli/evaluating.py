"""What ``thresher train`` learns from the rows of the test, beyond one number."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from thresher.runs import Evaluation, evaluate
from thresher.runs.evaluation import MOST_ROWS
from thresher.tables import Column, Frame, ParquetRows, Table
from thresher.tables.kinds import numbers_of, times_of, truth_only

__all__ = ["evaluate_table"]


def evaluate_table(
    model: Any, table: Table, task: str, *, train: NDArray[np.int64], test: NDArray[np.int64], console: Console
) -> Evaluation | None:
    """Return what a model does on the rows ``test`` of a table; None if there are none. Takes some seconds."""
    if not len(test):
        return None
    some = np.sort(np.random.default_rng(0).permutation(test)[:MOST_ROWS])
    with console.status("Looking at which columns matter ...") as status:
        return evaluate(
            model,
            _columns(table, some),
            table.targets[some],
            task=task,
            known=table.targets[train],
            target=table.target,
            numbers=some + 1,
            encode=lambda columns: _frame(columns, like=table.inputs),
            progress=lambda done, total: status.update(f"Looking at which columns matter: {done} of {total} ..."),
        )


def _columns(table: Table, some: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """Return the columns of some rows: text that is numbers or dates by the whole file is read, once for all uses."""
    return {one.name: _values(one) for one in table.inputs.take(some)}


def _values(column: Column) -> NDArray[Any]:
    seen = column.seen
    if seen is None or seen.kind == "text" or not column.is_text or truth_only(column):
        return column.values
    if seen.kind == "date":
        return times_of(column, order=seen.how).values
    return numbers_of(column, decimal=seen.how, percent=seen.percent).values


def _frame(columns: dict[str, NDArray[Any]], *, like: Frame | ParquetRows) -> Any:
    """Return columns as a model takes them: a frame, or numbers if those were left in a file."""
    if not isinstance(like, Frame):
        return np.column_stack(list(columns.values()))
    return Frame([like[name]._replace(values=values) for name, values in columns.items()])
