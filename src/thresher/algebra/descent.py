"""Conjugate gradients for many right-hand sides and penalties at once, one product with the matrix per step for all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["Descent"]

_TINY = float(np.finfo(float).tiny)


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
    arrays : numpy, or torch if all arrays, those that come out included, are tensors on one device

    Attributes
    ----------
    values : the solutions so far (r, c)
    images : K times them (n', c)
    residuals : norms of rhs - (K + added) values (c,), relative to those of the right-hand sides
    steps : taken so far
    """

    def __init__(
        self,
        times: Callable[[Any], Any],
        rhs: Any,
        *,
        added: Any,
        inverse: Callable[[Any], Any],
        start: Any = None,
        arrays: Any = np,
    ) -> None:
        self._times, self._rhs, self._added, self._inverse, self._arrays = times, rhs, added, inverse, arrays
        self._sizes = _norms(rhs).clip(min=_TINY)
        self.values, self._residual, self.steps = arrays.zeros_like(rhs), rhs, 0
        self.images = self.values[:0]
        if start is not None:
            self.values, self.images = start, times(start)
            self._residual = rhs - (self.images[: len(rhs)] + added * start)
        self._direction = self._last = arrays.zeros_like(rhs)
        self._slope = arrays.zeros_like(self._sizes)

    @property
    def residuals(self) -> Any:
        """Norms of what is left of the right-hand sides, relative to them (c,)."""
        return _norms(self._residual) / self._sizes

    def keep(self, columns: Sequence[int]) -> None:
        """Go on with some of the columns alone."""
        for name in ("_rhs", "_added", "_residual", "_direction", "_last", "values", "images"):
            setattr(self, name, getattr(self, name)[:, columns])
        self._sizes, self._slope = self._sizes[columns], self._slope[columns]

    def step(self) -> None:
        """Take one step for all columns. Cost: one product with the matrix, one with the inverse."""
        where = self._arrays.where
        near = self._inverse(self._residual)
        slope = _dots(self._residual, near)
        if self.steps:  # what the last residual has in common with the new direction is 0 for an exact inverse
            share = (slope - _dots(self._last, near)) / where(self._slope > 0, self._slope, np.inf)
            near = near + share.clip(min=0.0) * self._direction
        self._direction, self._slope, self._last = near, slope, self._residual
        image = self._times(near)
        pushed = image[: len(near)] + self._added * near
        bend = _dots(near, pushed)
        length = where(bend > 0, _dots(near, self._residual) / where(bend > 0, bend, 1.0), 0.0)
        self.values = self.values + length * near
        self.images = self.images + length * image if len(self.images) else length * image
        self._residual = self._residual - length * pushed
        self.steps += 1


def _dots(left: Any, right: Any) -> Any:
    return (left * right).sum(0)


def _norms(columns: Any) -> Any:
    return _dots(columns, columns) ** 0.5
