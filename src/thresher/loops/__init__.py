"""Compiled loops: arrays and named tuples in and out; no other classes, no files, no random state of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

__all__ = ["compiled"]


# What lets a loop over float32 numbers use whole vectors: none of them is NaN or infinite, sums may be fused.
_RELAXED = {"nnan", "ninf", "nsz", "contract"}
_SUMS = {"reassoc", "nsz", "contract"}


def compiled(function: Callable[..., Any] | None = None, *, relaxed: bool = False, sums: bool = False) -> Any:
    """Compile with Numba, releasing the interpreter lock; cache on disk where the disk can be written.

    ``relaxed`` loops take finite numbers alone, and round as the processor likes; in loops of ``sums`` it chooses the
    order of every sum.

    Numba does not notice a change of a helper that stands in another file (``dot``, ``fill_row``): after editing one of
    those, run ``make clean``.
    """
    if function is None:
        return lambda function: compiled(function, relaxed=relaxed, sums=sums)
    options: dict[str, Any] = {"nogil": True, "fastmath": _RELAXED if relaxed else _SUMS if sums else False}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no writable place for the cache: compile in each process
        return numba.njit(**options)(function)
