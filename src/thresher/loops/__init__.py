"""Compiled loops: arrays and named tuples in and out; no other classes, no files, no random state of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

__all__ = ["compiled"]


def compiled(function: Callable[..., Any]) -> Any:
    """Compile with Numba, releasing the interpreter lock; cache on disk where the disk can be written.

    Numba does not notice a change of a helper that stands in another file (``dot``, ``fill_row``): after editing one of
    those, run ``make clean``.
    """
    try:
        return numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:  # no writable place for the cache: compile in each process
        return numba.njit(nogil=True)(function)
