"""Cells of text as numbers: one way of writing them per column, found by looking at all of its cells."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.tables.units.known import number_in

__all__ = ["FEW", "NO_VALUE", "Cells", "Read", "coded", "find_decimal", "find_percent", "may_be_thousands",
           "number_of", "read_numbers", "read_plain"]  # fmt: skip

Cells = NDArray[np.object_]
# What stands for no value among numbers and dates. Among words, only an empty cell does.
NO_VALUE = frozenset({"", "na", "n/a", "#n/a", "nan", "nat", "null", "none", "nil", "?", "-", "--", "."})
FEW = 0.1  # share of cells among numbers, or dates, that may be words, and are missing then
_AROUND = "€$£¥% \u00a0\u202f\u2009"  # signs before or after a number, which are left out
_GROUPS = re.compile(r"[+-]?[1-9]\d{0,2}([ \u00a0\u202f\u2009'’_])\d{3}(?:\1\d{3})*(?:[.,]\d*)?")  # of thousands
_NEGATIVE = re.compile(r"\(([^()+\u2212-]*\d[^()+\u2212-]*)\)")  # between parentheses
_BETWEEN = str.maketrans("", "", " \u00a0\u202f\u2009'’_")
_WRITTEN = {
    ".": re.compile(r"[+-]?(?:[1-9]\d{0,2}(?:,\d{3})+|\d+)?(?:\.\d*)?(?:[eE][+-]?\d+)?"),
    ",": re.compile(r"[+-]?(?:[1-9]\d{0,2}(?:\.\d{3})+|\d+)?(?:,\d*)?(?:[eE][+-]?\d+)?"),
}
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:[.,]\d{3})+")  # may be thousands, or a number with a decimal sign


class Read(NamedTuple):
    """Values (n,), with NaN or NaT where there is none, and which cells (n,) could not be read."""

    values: NDArray[Any]
    strange: NDArray[np.bool_]


def coded(cells: Iterable[Any]) -> tuple[list[Any], NDArray[np.int64]]:
    """Return the different cells in the order they are met, and the number (n,) of each cell among them. Cost: O(n)."""
    cells = list(cells)
    known = {cell: place for place, cell in enumerate(dict.fromkeys(cells))}
    return list(known), np.fromiter(map(known.__getitem__, cells), np.int64, len(cells))


def read_plain(cells: Cells) -> NDArray[np.float64] | None:
    """Return cells (n,) of text as numbers if all are written as programs do, which is fast; else None."""
    try:
        return None if "_" in "".join(cells) else cells.astype(np.float64)
    except ValueError:
        return None


def read_numbers(cells: Cells, *, decimal: str = ".", percent: bool | None = None) -> Read:
    """Return cells (n,) of text as numbers. Cost: O(n), with one look at each different cell that is not plain.

    ``percent`` says whether numbers but 0 must have a percent sign, or must have none; None if they may.
    """
    if decimal == "." and not percent and (plain := read_plain(cells)) is not None:
        return Read(plain, np.zeros(len(cells), np.bool_))
    different, codes = coded(cells)
    found = [number_of(cell, decimal) for cell in different]
    if percent is not None:
        found = [None if one and one == one and ("%" in cell) != percent else one
                 for one, cell in zip(found, different, strict=True)]  # fmt: skip
    values = np.array([np.nan if one is None else one for one in found], np.float64)
    strange = np.array([one is None for one in found], np.bool_)
    return Read(values[codes], strange[codes])


def find_decimal(cells: Cells) -> str | None:
    """Return the decimal sign of cells of numbers: the one under which more can be read; None if that is open.

    Whole numbers, and ``1,234`` or ``1.234``, leave it open. Cost: O(n), with a closer look at some different cells.
    """
    whole, points, commas = "\n".join(cells), 0, 0
    comma = "," in whole
    if not comma and "." not in whole:
        return None
    for cell in dict.fromkeys(cells) if comma else cells:
        if ("." not in cell and "," not in cell) or may_be_thousands(cell):
            continue
        one = _bare(number_in(cell))
        if not may_be_thousands(one) and any(map(str.isdigit, one)):
            points += _WRITTEN["."].fullmatch(one) is not None
            commas += _WRITTEN[","].fullmatch(one) is not None
        if points and not comma:
            break
    return None if points == commas else "." if points > commas else ","


def find_percent(cells: Cells, *, decimal: str) -> bool:
    """Return whether most of the different numbers, but 0, among cells (n,) of text have a percent sign."""
    with_sign = [cell for cell in dict.fromkeys(cells) if "%" in cell and number_of(cell, decimal)]
    return bool(with_sign) and 2 * len(with_sign) > sum(bool(number_of(cell, decimal)) for cell in dict.fromkeys(cells))


def may_be_thousands(cell: str) -> bool:
    """Return whether a cell is ``1,234`` or ``1.234``, where the sign may be one of thousands or of decimals."""
    return _THOUSANDS.fullmatch(cell) is not None


def _bare(cell: str) -> str:
    """Return a cell without signs of currencies and percents, and without spaces and the like between thousands.

    ``(5)``, as accountants write it, and a minus sign of typesetters become ``-5``.
    """
    bare = cell.strip(_AROUND)
    if "(" in bare and (found := _NEGATIVE.fullmatch(bare)) is not None:
        bare = f"-{found[1].strip(_AROUND)}"
    bare = bare.replace("\u2212", "-")
    return bare.translate(_BETWEEN) if _GROUPS.fullmatch(bare) else bare


def number_of(cell: str, decimal: str) -> float | None:
    """Return the number in a cell, NaN for one that says there is none; None for anything else."""
    if cell.strip().lower() in NO_VALUE:
        return float("nan")
    bare = _bare(cell)
    if _WRITTEN[decimal].fullmatch(bare) and any(map(str.isdigit, bare)):
        plain = bare.replace("," if decimal == "." else ".", "")
        return float(plain.replace(",", "."))
    if "_" not in bare and (decimal == "." or not any(sign in bare for sign in ".,")):
        try:
            return float(bare)  # infinity too, which is refused later with its row
        except ValueError:
            return None
    return None
