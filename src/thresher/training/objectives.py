"""What outputs are trained towards: squares, whatever the loss; and when they are near enough."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput
from thresher.interfaces import Gram, Solution
from thresher.losses import Loss, Squared, choose_loss
from thresher.model.network import NetworkSettings
from thresher.model.problem import Problem
from thresher.theory import largest_shift

__all__ = ["Objective", "choose_objectives", "why_stalled"]

Vector = NDArray[np.float64]
_AIMED = 0.8  # of tol is what the mean loss is above the least at the outputs that are aimed at, at most
_LEAST = 1e-3  # of tol is what a mean loss is above the least at outputs where it is taken for the least, at most
_ROWS = 256  # whose products are made at a time
_NEARLY_EQUAL = 1 - 1e-6  # inner product of two inputs that few neurons tell apart
_REMEDIES = (
    "Allow more with max_iterations, or widen the network; on inputs that all point the same way, centre them first "
    "(thresher.to_sphere(X, centre=True))."
)


class Objective(Protocol):
    """Targets of squares, what records show of outputs (n,), and when to stop."""

    @property
    def problem(self) -> Problem:
        """The inputs, with the targets (n,) that outputs are to meet."""

    def total(self, outputs: Vector) -> float:
        """Return the sum of the loss over all rows."""

    def remainder(self, outputs: Vector, *, first: float) -> float:
        """Return what is left: training ends when that is at most the tolerance.

        ``first`` is ||f - y|| at the start.
        """

    def reached(self, tol: float) -> str:
        """Return the sentence that says that the tolerance is reached."""

    def missed(self, remainder: float) -> str:
        """Return the sentence for a training that ran out of iterations, with a remedy."""


@dataclass(frozen=True, eq=False)
class Squares:
    """½ ||f - y||², until ||f - y|| is small beside what it was at the start."""

    problem: Problem

    def total(self, outputs: Vector) -> float:
        """Return ½ ||f - y||²."""
        return float(np.linalg.norm(outputs - self.problem.targets)) ** 2 / 2

    def remainder(self, outputs: Vector, *, first: float) -> float:
        """Return ||f - y|| as a share of what it was at the start."""
        size = float(np.linalg.norm(outputs - self.problem.targets))
        return size / first if first else size

    def reached(self, tol: float) -> str:
        """Return that the residual is small enough."""
        return f"The residual fell to {tol:g} of its size at the start."

    def missed(self, remainder: float) -> str:
        """Return that the residual was still falling, and what to do."""
        return f"The residual was still falling. {_REMEDIES}"


@dataclass(frozen=True, eq=False, kw_only=True)
class OfLoss:
    """The targets of a loss as squares, until the mean of the loss is near enough to the least that there is.

    Of a joint loss L of k outputs this is one of them, the others taken to be at their targets T. Each ends when the
    mean of L at T + k (f - t) is near enough: L is convex, so that of all together is at most the mean of these.
    """

    problem: Problem  # with the targets t (n,) of the squares
    loss: Loss
    wanted: Vector  # targets y of the loss (n,), or (n, k)
    aims: Vector  # of all outputs, in the same shape
    output: int
    least: float  # mean of the loss, up to a small share of the tolerance

    def total(self, outputs: Vector) -> float:
        """Return the sum of the loss over all rows."""
        return float(self.loss.value(self._all(outputs), self.wanted).sum())

    def remainder(self, outputs: Vector, *, first: float) -> float:
        """Return by how much the mean loss is above the least that there is, at most."""
        return max(float(self.loss.value(self._all(outputs, stretched=True), self.wanted).mean()) - self.least, 0.0)

    def reached(self, tol: float) -> str:
        """Return that the loss is small enough."""
        return f"The mean loss is within {tol:g} of the least that it can be."

    def missed(self, remainder: float) -> str:
        """Return that the loss was still falling, and what to do."""
        falling = f"The mean loss was still falling, and {remainder:.2g} above the least that it can be."
        return f"{falling} {_REMEDIES}"

    def _all(self, outputs: Vector, *, stretched: bool = False) -> Vector:
        """Return all outputs, the others at their targets; ``stretched`` k times as far from the target as it is."""
        if self.aims.ndim == 1:
            return outputs
        found, t = self.aims.copy(), self.problem.targets
        found[:, self.output] = t + self.aims.shape[1] * (outputs - t) if stretched else outputs
        return found


def choose_objectives(problems: Sequence[Problem], asked: Any, *, tol: float) -> tuple[Loss, list[Objective]]:
    """Return the loss that was asked for, which all targets have, and an objective for each problem."""
    loss = choose_loss(asked, outputs=len(problems))
    if loss.joint and len(problems) == 1:
        raise InvalidInput(
            f"{type(asked).__name__} is one loss of several outputs. Pass targets (n, k), a column for each class with "
            "1 for its rows and 0 for all others; for two classes loss='log_loss' does it with one column."
        )
    if loss.joint and problems:
        return loss, _of_loss(problems, loss, np.column_stack([one.targets for one in problems]), tol=tol)
    if isinstance(loss, Squared):
        return loss, [Squares(problem) for problem in problems]
    return loss, [one for problem in problems for one in _of_loss([problem], loss, problem.targets, tol=tol)]


def _of_loss(problems: Sequence[Problem], loss: Loss, wanted: Vector, *, tol: float) -> list[Objective]:
    loss.check(wanted)
    aims, least = (_outputs_within(share * tol, loss, wanted) for share in (_AIMED, _LEAST))
    mean = float(loss.value(least, wanted).mean())
    columns = np.ascontiguousarray(aims.reshape(len(aims), -1).T)
    towards = [problem.with_targets(column) for problem, column in zip(problems, columns, strict=True)]
    return [
        OfLoss(problem=one, loss=loss, wanted=wanted, aims=aims, output=output, least=mean)
        for output, one in enumerate(towards)
    ]


def _outputs_within(tol: float, loss: Loss, wanted: Vector) -> Vector:
    """Return outputs at which the loss is that near to its least, by its own account."""
    outputs = loss.targets(wanted, tol)
    values = loss.value(outputs, wanted)
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values)))
        raise InvalidInput(
            f"value of a loss must be finite at its targets; that of row {row} is {values[row]} at {outputs[row]}."
        )
    return outputs


def why_stalled(gram: Gram, solution: Solution, settings: NetworkSettings, problem: Problem) -> str:
    """Return, in a sentence or two, why no step along the last direction reduces the loss. Cost: O(n²d)."""
    silent = np.flatnonzero(gram.diagonal() == 0)
    if len(silent):
        which = f"No neuron fires on {len(silent)} of {gram.size} inputs (the first is {silent[0]})."
        return f"{which} {_how_to_fire(settings, gram.size)}"
    if solution.rank < gram.size or solution.status != "solved":
        how = f"solve: {solution.status.value}, rank {solution.rank} of {gram.size}"
        return f"The Gram matrix is singular ({how}). {_how_to_separate(settings, problem)}"
    return (
        "No step along the last direction reduces the loss: rounding is reached (try dtype='float64' or a larger tol), "
        f"or the network is too narrow (its width is {settings.width})."
    )


def _how_to_fire(settings: NetworkSettings, inputs: int) -> str:
    if settings.pieces is not None:
        return f"Raise the width (now {settings.width}), or move the knots of the activation towards 0."
    enough, width = largest_shift(settings.width, inputs), f"the width (now {settings.width})"
    if settings.shift <= enough:
        return f"Training moved their neurons away: raise {width}, or lower the shift (now {settings.shift:.3g})."
    if enough == 0:
        least = math.ceil(8 * math.log(100 * inputs))
        return f"So narrow a network is silent on some at any shift: raise {width} to {least} or more."
    return f"Lower the shift from {settings.shift:.3g} to {math.floor(100 * enough) / 100:g} or less, or raise {width}."


def _how_to_separate(settings: NetworkSettings, problem: Problem) -> str:
    product, other, one = _nearest(problem.inputs)
    if product > _NEARLY_EQUAL:
        return (
            f"Inputs {other} and {one} are equal or nearly so, and where targets of such inputs disagree nothing fits "
            "both. Merge them, or pass damping."
        )
    return f"The width (now {settings.width}) is too small for {problem.size} inputs. Widen, or pass damping."


def _nearest(inputs: NDArray[np.float64]) -> tuple[float, int, int]:
    """Return the largest inner product of two inputs (n, d), and which two, the earlier first: from blocks of rows."""
    best = (-np.inf, 0, 0)
    for first in range(0, len(inputs), _ROWS):
        products = inputs[first : first + _ROWS] @ inputs[: first + _ROWS].T
        below = np.where(np.tri(len(products), products.shape[1], first - 1) > 0, products, -np.inf)
        one, other = np.unravel_index(int(below.argmax()), below.shape)
        best = max(best, (float(below[one, other]), int(other), first + int(one)), key=lambda found: found[0])
    return best
