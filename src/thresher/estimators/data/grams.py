"""Free text as few numbers: words, pairs of words and pieces of words, hashed, weighed by rarity, and reduced."""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from thresher.checks import restore
from thresher.tables.cells import coded
from thresher.tables.frame import Column

__all__ = ["Grams", "learn_grams", "restore_grams"]

Matrix = NDArray[np.float64]
_BUCKETS = 1 << 13  # that words and pieces are hashed into
_KEPT = 2048  # buckets at most, those of the most rows
_NUMBERS = 24  # that a text becomes at most
_FEWEST, _MOST = 3, 0.9  # rows, and share of the rows, that a bucket must have
_LEARNT = 8192  # rows that components are learnt from at most
_SPARE, _PASSES = 8, 6  # vectors beyond those wanted, and passes, of the iteration that finds them
_LETTERS = 4000  # of a cell that are looked at
_PIECES = (3, 4)  # letters of pieces of words, with their ends
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Grams:
    """Text as components: ``loadings`` (used, numbers) of the ``used`` buckets, times their ``rarity`` (used,).

    These are arrays of numbers of 16 and 32 bits, as text in base 64, so that files hold them exactly.
    """

    kind: ClassVar[str] = "grams"
    numbers: int
    used: str
    rarity: str
    loadings: str

    def outputs(self, name: str) -> list[str]:
        """Return a name for each component."""
        return [f"{name} component {place}" for place in range(1, self.numbers + 1)]

    def encode(self, column: Column) -> Matrix:
        """Return the components (n, numbers) of rows; zeros for text without known words. Cost: O(letters)."""
        used, rarity, loadings = self.arrays()
        cells, codes = coded(column.as_text())
        return np.asarray((_weighed(_counts(cells), used, rarity) @ loadings)[codes], np.float64)

    def arrays(self) -> tuple[NDArray[np.int64], Matrix, Matrix]:
        """Return the buckets (used,), their rarity (used,) and the loadings (used, numbers)."""
        used = np.frombuffer(base64.b64decode(self.used, validate=True), "<u2").astype(np.int64)
        rarity, loadings = (np.frombuffer(base64.b64decode(one, validate=True), "<f4").astype(np.float64)
                            for one in (self.rarity, self.loadings))  # fmt: skip
        return used, rarity, loadings.reshape(len(used), self.numbers)

    def describe(self) -> dict[str, Any]:
        """Return what was learnt as JSON knows it."""
        return {"kind": self.kind, **asdict(self)}


def restore_grams(stored: Mapping[str, Any]) -> Grams:
    """Return what ``describe`` described; ValueError or TypeError if that cannot be."""
    made: Grams = restore(Grams, {name: value for name, value in stored.items() if name != "kind"})
    used, rarity, loadings = made.arrays()
    whole = len(used) > 0 and made.numbers > 0 and (np.diff(used) > 0).all() and used[-1] < _BUCKETS
    if not whole or rarity.shape != used.shape or not np.isfinite(rarity).all() or not np.isfinite(loadings).all():
        raise ValueError("the components of a text do not fit together")
    return made


def learn_grams(column: Column) -> Grams | None:
    """Return components of the text of training rows; None if too few words come again. Cost: O(letters)."""
    cells = column.as_text()
    if len(cells) > _LEARNT:
        cells = cells[np.random.default_rng(0).permutation(len(cells))[:_LEARNT]]
    counts = _counts(cells.tolist())
    rows = np.asarray((counts > 0).sum(axis=0)).ravel()
    often = np.where((rows >= _FEWEST) & (rows <= _MOST * len(cells)), rows, 0)
    used = np.sort(np.argsort(-often, kind="stable")[: min(_KEPT, int((often > 0).sum()))])
    numbers = min(_NUMBERS, len(used) // 2, len(cells) // 4)
    if numbers < 1:
        return None
    rarity = (np.log((1 + len(cells)) / (1 + rows[used])) + 1).astype("<f4")
    table = _weighed(counts, used, rarity.astype(np.float64))
    loadings = _directions(table, numbers).astype("<f4")
    told = [base64.b64encode(one.tobytes()).decode("ascii") for one in (used.astype("<u2"), rarity, loadings)]
    return Grams(numbers, *told)


def _grams(cell: str) -> list[str]:
    """Return the words of a cell, pairs of words, and pieces of words."""
    words = _WORD.findall(cell[:_LETTERS].lower())
    found = [*words, *(f"{one} {other}" for one, other in pairwise(words))]
    for word in words:
        whole = f"<{word}>"
        found += [whole[k : k + length] for length in _PIECES for k in range(len(whole) - length + 1)]
    return found


def _counts(cells: list[Any]) -> Any:
    """Return 1 and the logarithm of how often each bucket comes in each cell (cells, buckets), sparse."""
    rows, buckets = list[int](), list[int]()
    for row, cell in enumerate(cells):
        found = [zlib.crc32(one.encode()) % _BUCKETS for one in _grams(cell)]
        rows += [row] * len(found)
        buckets += found
    made = sparse.csr_matrix((np.ones(len(rows)), (rows, buckets)), shape=(len(cells), _BUCKETS))
    made.sum_duplicates()
    made.data = 1 + np.log(made.data)
    return made


def _weighed(counts: Any, used: NDArray[np.int64], rarity: Matrix) -> Any:
    """Return the buckets in use (cells, used), weighed, as rows of norm 1."""
    table = counts[:, used] @ sparse.diags(rarity)
    norm = np.sqrt(np.asarray(table.multiply(table).sum(axis=1)).ravel())
    return sparse.csr_matrix(sparse.diags(1 / np.where(norm > 0, norm, 1.0)) @ table)


def _directions(table: Any, numbers: int) -> Matrix:
    """Return the leading right singular vectors (used, numbers) of a table, by passes over it; the same every time."""
    start = np.random.default_rng(0).normal(size=(table.shape[1], min(numbers + _SPARE, table.shape[1])))
    for _ in range(_PASSES):
        start, _ = np.linalg.qr(table.T @ (table @ start))
    turned = np.linalg.eigh((table @ start).T @ (table @ start))[1][:, ::-1][:, :numbers]
    found = np.asarray(start @ turned, np.float64)
    return found * np.where(found[np.abs(found).argmax(axis=0), np.arange(numbers)] < 0, -1.0, 1.0)
