"""The names that options of training may have, and what they stand for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from thresher.algebra import SOLVERS, Cholesky, ConjugateGradient, ReusedFactor, Sketched, SketchQR, adapt
from thresher.errors import InvalidInput, NotAvailable
from thresher.interfaces import Solver

__all__ = [
    "DEFAULT_INDEX",
    "DEFAULT_SOLVER",
    "EVER_FACTOR",
    "check_dtype",
    "check_path",
    "choose_name",
    "choose_solver",
    "resolve_method",
]

Choice = TypeVar("Choice")
DEFAULT_INDEX, DEFAULT_SOLVER = "certified", "auto"
# Inputs up to which solver="auto" factors every matrix, and up to which it factors any.
ALWAYS_FACTOR, EVER_FACTOR = 1500, 20_000
_PLANNED = {"engine": ("ray", "gpu")}  # known names that are not built yet
_FINEST_FLOAT32 = 1e-7  # smallest tol that working precision float32 can keep


def check_path(name: str, path: object) -> Path | None:
    """Return the path of a file to write or read, or None."""
    if path is not None and not isinstance(path, str | Path):
        raise InvalidInput(f"{name} must be the name of a file; got {path!r}.")
    return None if path is None else Path(path)


def resolve_method(
    method: str | None, index: str, solver: str | Solver, first_step: str
) -> tuple[str, str | Solver, str]:
    """Return index, solver and first step, those that ``method`` stands for if it is given."""
    if method is None:
        return index, solver, first_step
    if method != "paper":
        raise InvalidInput(f"method must be 'paper' or None; got {method!r}.")
    if index not in ("tournament", DEFAULT_INDEX):
        raise InvalidInput(f"method='paper' means index='tournament'; got index={index!r} as well. Drop one.")
    if solver == "sketched" or solver == DEFAULT_SOLVER:
        return "tournament", Sketched(preconditioner=SketchQR(oversampling=None)), "gram"
    if isinstance(solver, Sketched):
        return "tournament", solver, "gram"
    raise InvalidInput(f"method='paper' means solver='sketched'; got solver={solver!r} as well. Drop one.")


def choose_name(kind: str, name: str, available: Mapping[str, Choice]) -> Choice:
    """Return what a name stands for, or refuse it with the names there are."""
    if isinstance(name, str) and name in available:
        return available[name]
    choices = ", ".join(repr(one) for one in available)
    if isinstance(name, str) and name in _PLANNED.get(kind, ()):
        raise NotAvailable(f"{kind} {name!r} is not available in this version. Use one of: {choices}.")
    raise InvalidInput(f"{kind} must be one of {choices}; got {name!r}.")


def choose_solver(solver: str | Solver, inputs: int) -> Solver:
    """Return the solver that a name stands for on that many inputs, or the object that was given."""
    if solver == "auto":
        if inputs <= ALWAYS_FACTOR:
            return Cholesky()
        return ReusedFactor() if inputs <= EVER_FACTOR else ConjugateGradient(preconditioner=SketchQR())
    if isinstance(solver, str):
        return choose_name("solver", solver, {**SOLVERS, "auto": Cholesky})()
    if isinstance(solver, ReusedFactor):
        return replace(solver, factor=None)  # what one training learns must not change another
    if isinstance(solver, type) or not (hasattr(solver, "prepare") or hasattr(solver, "solve")):
        raise InvalidInput(f"solver must be a name or an object with a prepare method; got {solver!r}.")
    return adapt(solver)


def check_dtype(dtype: str, *, tol: float) -> str:
    """Return the name of a working precision that can reach the tolerance."""
    try:
        name = np.dtype(dtype).name if dtype is not None else ""
    except TypeError:
        name = ""
    if name not in ("float32", "float64"):
        raise InvalidInput(f"dtype must be 'float32' or 'float64'; got {dtype!r}.")
    if name == "float32" and tol < _FINEST_FLOAT32:
        raise InvalidInput(
            f"tol={tol:g} is beyond float32, whose outputs carry errors of about 1e-7. Use dtype='float64'."
        )
    return name
