"""Solvers as they were in version 0.1, with ``solve`` alone: they work for one more version, with a warning."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from thresher.algebra.gram import relative_damping
from thresher.errors import InvalidInput
from thresher.interfaces import Factor, Gram, Solution, Solver

__all__ = ["OldSolve", "adapt"]


class OldSolve:
    """Gives a solver the method ``solve`` of version 0.1."""

    def solve(
        self: Solver, gram: Gram, rhs: np.ndarray[Any, Any], *, damping: float = 0.0, iteration: int = 0
    ) -> Solution:
        """Prepare and solve at once; ``damping`` is relative to the mean diagonal of G. Deprecated."""
        name = type(self).__name__
        message = f"{name}.solve(gram, rhs) is deprecated. Use {name}.prepare(gram, added=...).solve(rhs)."
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return self.prepare(gram, added=relative_damping(gram, damping), iteration=iteration).solve(rhs)


def adapt(solver: Any) -> Solver:
    """Return a solver that has ``prepare``: the one given, or one that passes on to its ``solve``, with a warning."""
    own = getattr(type(solver), "solve", OldSolve.solve)
    if hasattr(solver, "prepare") and not (isinstance(solver, OldSolve) and own is not OldSolve.solve):
        return solver
    if not hasattr(solver, "solve"):
        raise InvalidInput(f"a solver must be an object with a prepare method; got {solver!r}.")
    warnings.warn(
        f"solver {type(solver).__name__} has solve(gram, rhs, damping=, iteration=), which is deprecated. "
        "Give it prepare(gram, added=, iteration=), which returns an object with solve(rhs, x0=).",
        DeprecationWarning,
        stacklevel=2,
    )
    return _Old(solver)


class _Old(NamedTuple):
    solver: Any

    def __repr__(self) -> str:
        return repr(self.solver)  # checkpoints know a solver by this

    def prepare(self, gram: Gram, *, added: float | np.ndarray[Any, Any] = 0.0, iteration: int = 0) -> Factor:
        if np.ptp(added) > 0:
            raise InvalidInput(
                f"solver {type(self.solver).__name__} cannot add different numbers to the diagonal. Give it prepare."
            )
        level, diagonal = float(np.mean(added)), float(gram.diagonal().mean())
        return _OldFactor(self.solver, gram, level / diagonal if diagonal else level, iteration)


class _OldFactor(NamedTuple):
    solver: Any
    gram: Gram
    damping: float
    iteration: int

    def solve(self, rhs: np.ndarray[Any, Any], *, x0: np.ndarray[Any, Any] | None = None) -> Solution:
        solution: Solution = self.solver.solve(self.gram, rhs, damping=self.damping, iteration=self.iteration)
        return solution
