"""Compiled for a GPU by Triton: loops over tensors, one file per task."""

from __future__ import annotations

from typing import Any

__all__ = ["launch"]

_LANES, _WARPS = 64, 2  # of a program: rows, neurons or words; and warps that share them


def launch(kernel: Any, count: int, *arguments: Any, **options: Any) -> None:
    """Run a kernel that has a lane for each of ``count`` things, B to a program."""
    if count:
        kernel[(-(-count // _LANES),)](*arguments, **options, B=_LANES, num_warps=_WARPS)
