"""Conjugate gradients for many right-hand sides and penalties at once, one product with the matrix per step for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

__all__ = ["Descent"]

Matrix = NDArray[np.float64]
_STATE = ("values", "images", "_residual", "_direction", "_last", "_slope", "steps")


class Descent:
    """Solve (K + added) x = rhs for each column by preconditioned conjugate gradients, step by step.

    The matrix may have more rows than the system: then ``images`` says what the solutions predict on rows left out.

    Parameters
    ----------
    times : returns K (n', r) times vectors (r, c), (n', c), n' >= r: the first r rows are those of the system
    rhs : (r, c)
    added : (r, c), above 0, to the diagonal of each system
    inverse : applies an approximate inverse, positive definite, to residuals (r, c); it may be inexact
    start : (r, c) to start from, or None for zero

    Attributes
    ----------
    values : the solutions so far (r, c)
    images : K times them (n', c)
    residuals : norms of rhs - (K + added) values (c,), relative to those of the right-hand sides
    steps : taken so far
    """

    def __init__(
        self,
        times: Callable[[Matrix], Matrix],
        rhs: Matrix,
        *,
        added: Matrix,
        inverse: Callable[[Matrix], Matrix],
        start: Matrix | None = None,
    ) -> None:
        self._times, self._rhs, self._added, self._inverse = times, rhs, added, inverse
        self._sizes = np.maximum(np.linalg.norm(rhs, axis=0), np.finfo(float).tiny)
        self.values = np.zeros_like(rhs) if start is None else start.copy()
        self._residual, self.images, self.steps = rhs.copy(), np.zeros((0, rhs.shape[1])), 0
        if start is not None:
            self.images = times(start)
            self._residual -= self.images[: len(rhs)] + added * start
        self._slope = np.zeros(rhs.shape[1])
        self._direction, self._last = np.zeros_like(rhs), np.zeros_like(rhs)

    @property
    def residuals(self) -> Matrix:
        """Norms of what is left of the right-hand sides, relative to them (c,)."""
        return np.linalg.norm(self._residual, axis=0) / self._sizes

    def keep(self, columns: NDArray[np.bool_]) -> None:
        """Go on with some of the columns (c,) alone."""
        for name in ("_rhs", "_added", "_residual", "_direction", "_last", "values", "images"):
            setattr(self, name, getattr(self, name)[:, columns])
        self._sizes, self._slope = self._sizes[columns], self._slope[columns]

    def state(self) -> dict[str, Matrix]:
        """Return all that the next step depends on, to be stored."""
        return {name: np.asarray(getattr(self, name), np.float64) for name in _STATE}

    def restore(self, state: Mapping[str, Matrix]) -> None:
        """Stand where another descent for the same systems stood; the next step is the same to the bit."""
        for name in _STATE:
            setattr(self, name, np.array(state[name], np.float64))
        self.steps = int(np.asarray(state["steps"]).item())

    def step(self) -> None:
        """Take one step for all columns. Cost: one product with the matrix, one with the inverse."""
        near = self._inverse(self._residual)
        slope = _dots(self._residual, near)
        if self.steps:  # what the last residual has in common with the new direction is 0 for an exact inverse
            share = (slope - _dots(self._last, near)) / np.where(self._slope > 0, self._slope, np.inf)
            near = near + np.maximum(share, 0.0) * self._direction
        self._direction, self._slope, self._last = near, slope, self._residual.copy()
        image = self._times(near)
        pushed = image[: len(near)] + self._added * near
        bend = _dots(near, pushed)
        length = np.where(bend > 0, _dots(near, self._residual) / np.where(bend > 0, bend, 1.0), 0.0)
        self.values = self.values + length * near
        self.images = length * image if not len(self.images) else self.images + length * image
        self._residual = self._residual - length * pushed
        self.steps += 1


def _dots(left: Matrix, right: Matrix) -> Matrix:
    return np.einsum("nc,nc->c", left, right)
