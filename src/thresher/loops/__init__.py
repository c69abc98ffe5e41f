"""Compiled loops: arrays and named tuples in and out; no other classes, no files, no random state of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import event

from thresher.loops.cache import CodeFolder, keep_code
from thresher.loops.compiling import Pauses, Watch

__all__ = ["WATCH", "compiled", "helper"]

WATCH = Watch()
event.register("numba:compile", WATCH)
event.register("numba:run_pass", Pauses(WATCH))

_FOLDER = CodeFolder(Path(__file__).parent)  # loops import nothing of the package but each other


# What lets a loop over float32 numbers use whole vectors: none of them is NaN or infinite, sums may be fused.
_RELAXED = {"nnan", "ninf", "nsz", "contract"}
_SUMS = {"reassoc", "nsz", "contract"}


def compiled(
    function: Callable[..., Any] | None = None, *, relaxed: bool = False, sums: bool = False, allocates: bool = False
) -> Any:
    """Compile with Numba, releasing the interpreter lock.

    ``relaxed`` loops take finite numbers alone, and round as the processor likes; in loops of ``sums`` it chooses the
    order of every sum.

    A function that makes or returns arrays ``allocates``. All others are compiled without Numba's runtime (its option
    ``_nrt``), so they count no references to arrays: that takes atomic instructions for each row and slice, which were
    a third of the scan of a start. Numba refuses to compile one of them that makes an array. Long loops are of this
    kind; a short function in Python makes the work arrays of each. (Were it compiled, the loop would be so twice.)

    To compile takes seconds where much is inlined. What a call does not need is left out if its types say so: an
    argument that is None, in ``if argument is None``.

    What is compiled is kept on disk, by what it is made of (:mod:`thresher.loops.cache`).
    """
    if function is None:
        return lambda function: compiled(function, relaxed=relaxed, sums=sums, allocates=allocates)
    options = _options(relaxed, sums) | {"nogil": True, "_nrt": allocates}
    return keep_code(numba.njit(**options)(function), _FOLDER)


def helper(function: Callable[..., Any] | None = None, *, relaxed: bool = False, sums: bool = False) -> Any:
    """Compile a function that allocates nothing, and that compiled loops alone call.

    It cannot be called from Python, which makes compiling it shorter: by seconds, where it takes tuples of arrays. A
    few lines that must be inlined are ``njit(inline="always")`` instead.
    """
    if function is None:
        return lambda function: helper(function, relaxed=relaxed, sums=sums)
    options = _options(relaxed, sums) | {"_nrt": False, "no_cpython_wrapper": True}
    return numba.njit(**options)(function)


def _options(relaxed: bool, sums: bool) -> dict[str, Any]:
    return {"fastmath": _RELAXED if relaxed else _SUMS if sums else False, "no_cfunc_wrapper": True}
