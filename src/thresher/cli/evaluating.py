"""What ``thresher train`` learns from the rows of the test, beyond one number."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from thresher.runs import Evaluation, evaluate
from thresher.tables import Column, Table

__all__ = ["evaluate_table"]

MOST_ROWS = 10_000


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
            encode=lambda columns: table.encoding.matrix([Column(*one) for one in columns.items()], source="the test"),
            progress=lambda done, total: status.update(f"Looking at which columns matter: {done} of {total} ..."),
        )


def _columns(table: Table, some: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """Return the columns of some rows as they were in the file."""
    from thresher.estimators.streams import Part

    matrix = table.inputs[some] if isinstance(table.inputs, np.ndarray) else Part(table.inputs)[some]
    found, first = {}, 0
    for name, values in table.encoding.columns:
        count = 1 if values is None else len(values)
        block = matrix[:, first : first + count]
        found[name] = block[:, 0] if values is None else np.array(values)[block.argmax(axis=1)]
        first += count
    return found
