"""Encode: columns of text as columns of zeros and ones, the same way for every file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput
from thresher.tables.arrays import name_some
from thresher.tables.columns import Column

__all__ = ["Encoding"]

MOST_VALUES = 30  # of a text column


class Encoding(NamedTuple):
    """How columns become numbers: names, with the values of text (a column of zeros and ones each) or None."""

    columns: tuple[tuple[str, tuple[str, ...] | None], ...]

    @classmethod
    def of(cls, columns: Sequence[Column]) -> Encoding:
        """Return the encoding of these columns; text with many different values is refused with advice."""
        learnt: list[tuple[str, tuple[str, ...] | None]] = []
        for one in columns:
            if not one.is_text:
                learnt.append((one.name, None))
                continue
            values = np.unique(one.values)
            if len(values) > MOST_VALUES:
                name = one.name[:40]
                raise InvalidInput(
                    f"column {name!r} is text with {len(values):,} values in {len(one.values):,} rows; at most "
                    f"{MOST_VALUES} are encoded. Leave it out with --drop {_quoted(name)}, or encode it yourself."
                )
            learnt.append((one.name, tuple(str(value) for value in values)))
        return cls(tuple(learnt))

    @property
    def names(self) -> list[str]:
        """The names of the columns of the matrix: ``colour=red`` for a value of a text column."""
        return [one for name, values in self.columns
                for one in ([name] if values is None else [f"{name}={value}" for value in values])]  # fmt: skip

    @property
    def words(self) -> str:
        """What was done to text columns, in a sentence; empty if there are none."""
        texts = [(name, values) for name, values in self.columns if values is not None]
        if not texts:
            return ""
        told = ", ".join(f"{name!r} ({len(values)} values)" for name, values in texts[:4])
        return f"Text encoded as one column of zeros and ones per value: {told}{', ...' if len(texts) > 4 else ''}."

    def matrix(self, columns: Sequence[Column], *, source: str) -> NDArray[np.float64]:
        """Return the matrix (n, d) of these columns, which must be those the encoding was made of. Cost: O(nd)."""
        found = {one.name: one for one in columns}
        parts = []
        for name, values in self.columns:
            if name not in found:
                raise InvalidInput(
                    f"{source} has no column {name[:40]!r}, which the model was trained on; "
                    f"it has {name_some(list(found))}."
                )
            parts.append(_encode(found[name], values, source))
        return np.column_stack(parts)

    def to_json(self) -> list[Any]:
        """Return the encoding as lists."""
        return [[name, None if values is None else list(values)] for name, values in self.columns]

    @classmethod
    def from_json(cls, stored: Any) -> Encoding:
        """Return an encoding from lists; ValueError or TypeError if they are not those of one."""
        return cls(tuple((str(name), None if values is None else tuple(map(str, values))) for name, values in stored))


def _encode(column: Column, values: tuple[str, ...] | None, source: str) -> NDArray[np.float64]:
    if values is None:
        if column.is_text:
            raise InvalidInput(
                f"{source}: column {column.name[:40]!r} is text ({str(column.values[0])[:40]!r}); expected numbers."
            )
        return column.values.astype(np.float64)
    cells = column.values.astype(np.str_)
    hits = cells[:, None] == np.array(values)  # (n, values)
    strange = np.flatnonzero(~hits.any(axis=1))
    if len(strange):
        cell = str(cells[strange[0]])[:40]
        raise InvalidInput(
            f"{source}: row {strange[0] + 1}, column {column.name[:40]!r} is {cell!r}, which was not there in "
            f"training; known are {name_some(list(values))}."
        )
    return hits.astype(np.float64)


def _quoted(name: str) -> str:
    return f'"{name}"' if " " in name else name
