"""Slices: groups of rows, by the values of one column, where errors are larger than elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.runs.influence.values import values_of
from thresher.tables.picking import CellPicker, say_cell

__all__ = ["Slice", "find_slices"]

_SURE = 3.5  # standard errors by which a group must be worse: many are looked at
_RATIO = 1.15  # to the mean of all rows, that is worth a word
_LEAST_ROWS, _LEAST_SHARE = 10, 0.01
_MOST = 4
_PARTS = 5  # groups of a column of numbers, of the same size


@dataclass(frozen=True)
class Slice:
    """Rows with some values of a column: how many there are, and their mean error beside that of all rows."""

    column: str
    words: str
    rows: int
    error: float
    overall: float


def find_slices(
    model: Any,
    rows: CellPicker,
    columns: Sequence[str],
    places: NDArray[np.int64],
    errors: NDArray[np.float64],
    outputs: NDArray[np.float64],
) -> list[Slice]:
    """Return groups of the rows at some places (k,) whose errors (k,) are surely larger than the others', worst first.

    Groups are categories, words, parts of dates and fifths of numbers, one for each of the ``columns``. Cost: O(k log
    k) per column.
    """
    found: list[tuple[float, Slice]] = []
    unit = float(errors.max()) or 1.0  # divided by it, squares of huge and tiny numbers are numbers
    errors = errors / unit
    least, overall = max(_LEAST_ROWS, _LEAST_SHARE * len(errors)), float(errors.mean())
    for name in columns:
        best: tuple[float, Slice] | None = None
        for words, mask in _groups(model, rows, name, places, outputs):
            inside, outside = errors[mask], errors[~mask]
            if len(inside) < least or len(outside) < least or inside.mean() < _RATIO * overall:
                continue
            doubt = np.sqrt(inside.var() / len(inside) + outside.var() / len(outside)) or np.inf
            sure = float((inside.mean() - outside.mean()) / doubt)
            if sure > _SURE and (best is None or sure > best[0]):
                best = (sure, Slice(name, words, len(inside), unit * float(inside.mean()), unit * overall))
        found += [] if best is None else [best]
    return [one for _, one in sorted(found, key=lambda pair: -pair[0])[:_MOST]]


def _groups(
    model: Any, rows: CellPicker, name: str, places: NDArray[np.int64], outputs: NDArray[np.float64]
) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Yield the groups of a column: in words, and which of the rows (k,) are in each."""
    for tried in values_of(model, rows, name, places, outputs):
        if tried.kind != "number":
            for word, own in zip(tried.words, tried.cells, strict=True):
                yield _say(tried.kind, tried.part, word), np.isin(places, own)
            continue
        cells = rows.cells(name)[places]
        yield "missing", np.isnan(cells)
        ends = np.unique(np.nanquantile(cells, np.linspace(0, 1, _PARTS + 1), method="nearest"))
        for low, high in pairwise(ends):
            last = high == ends[-1]
            said = f"from {_short(low)} on" if last else f"below {_short(high)}"
            said = said if last or low == ends[0] else f"{_short(low)} to {_short(high)}"
            with np.errstate(invalid="ignore"):
                yield said, (cells >= low) & ((cells <= high) if last else (cells < high))


def _say(kind: str, part: str, word: str) -> str:
    if kind == "words":
        return f"with the word “{word}”"
    return f"{part} {word}" if kind == "cycle" else word or "missing"


def _short(value: float) -> str:
    return f"{value:,.4g}" if 1e-3 <= abs(value) < 1e7 and abs(value) < 1e4 else say_cell(float(f"{value:.4g}"))
