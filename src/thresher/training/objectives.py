"""What training minimises. Each objective gives the linear system of an iteration and makes a step of its solution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from thresher.algebra import relative_damping
from thresher.errors import InvalidInput
from thresher.interfaces import Gram, Solution
from thresher.losses import Loss, Softmax, Squared, choose_loss, fit_parabolas
from thresher.model.network import NetworkSettings
from thresher.model.problem import Problem
from thresher.theory import largest_shift

__all__ = ["Interpolation", "Objective", "check_loss", "columns", "objectives_of"]

Vector = NDArray[np.float64]
_ENOUGH = 0.5  # share of tol within which the loss of an input is left as it is
_FORESEEN = 60  # steps of an input by itself, by which it is told how far it will go
_ROUNDING = 1e-9  # of a value, by which it may be below the least that there is
_ROWS = 256  # whose products are made at a time
_NEARLY_EQUAL = 1 - 1e-6  # inner product of two inputs that few neurons tell apart


class Objective(Protocol):
    """What is minimised: gives the linear system of an iteration, the step from its solution, and when to stop."""

    @property
    def problem(self) -> Problem:
        """What is trained on."""

    def slopes(self, outputs: Vector) -> Vector:
        """Return the slopes of the loss (n,) at the outputs: f - y of squares."""

    def total(self, outputs: Vector) -> float:
        """Return the sum of the loss at the outputs: ½ ||f - y||² of squares."""

    def reach(self) -> Vector:
        """Return how far a first step is to change outputs of 0 (n,), up to the sign."""

    def further(self) -> float:
        """Return how far neurons are to travel in all, in first steps."""

    def added(self, gram: Gram, outputs: Vector) -> float | Vector:
        """Return what is added to the diagonal of G at the outputs: a number or (n,)."""

    def right_hand_side(self, outputs: Vector) -> Vector:
        """Return the right-hand side (n,) where the outputs are these."""

    def gain(self, gram: Gram, value: Vector, outputs: Vector) -> float:
        """Return what a full step would gain if the network were linear; below 0 if nothing."""

    def remainder(self, outputs: Vector, *, first: float) -> float:
        """Return how far from the least loss this is: training ends when it is at most the tolerance.

        ``first`` is the norm of the slopes at the start.
        """

    def reached(self, tol: float) -> str:
        """Return the sentence that says that the tolerance is reached."""

    def missed(self, remainder: float) -> str:
        """Return the sentence for a training that ran out of iterations, with a remedy."""

    def stalled(self, gram: Gram, solution: Solution, settings: NetworkSettings, *, remainder: float) -> str:
        """Return the sentence for a training in which no step along the last direction reduces the loss."""


@dataclass(frozen=True, eq=False, kw_only=True)
class _Fit:
    """The sum of a loss l over inputs, and what steps need of it; h are the curvatures of :func:`fit_parabolas`."""

    problem: Problem = field(kw_only=False)
    loss: Loss = field(default_factory=Squared)
    together: Vector | None = None  # the targets (n, k) of a joint loss; outputs, slopes and solutions are (n, k) then

    @property
    def targets(self) -> Vector:
        """The targets (n,), or (n, k)."""
        return self.problem.targets if self.together is None else self.together

    def slopes(self, outputs: Vector) -> Vector:
        """Return l' at the outputs (n,): of squares f - y."""
        return np.asarray(self.loss.slope(outputs, self.targets), dtype=np.float64)

    def total(self, outputs: Vector) -> float:
        """Return the sum of the loss over all inputs: of squares ½ ||f - y||²."""
        if isinstance(self.loss, Squared):
            residual = outputs - self.targets
            return float(residual @ residual / 2)
        return float(self.loss.value(outputs, self.targets).sum())

    def reach(self) -> Vector:
        """Return how far a first step is to change outputs of 0 (n,), up to the sign: of squares the targets."""
        return _centred(fit_parabolas(self.loss, np.zeros_like(self.targets), self.targets).step)

    def further(self) -> float:
        """Return 1: later steps are short."""
        return 1.0


@dataclass(frozen=True, eq=False, kw_only=True)
class Interpolation(_Fit):
    """Σ l(y_i, f_i), to the least that it can be. G g = l' / h, and a step takes Jᵀ g away.

    Of squares l' / h is f - y. ``damping`` is relative to the mean diagonal of G, and divided by h
    (Levenberg-Marquardt). Inputs whose loss is within ``enough`` of the least stay where they are: the logistic loss
    has no minimum, and would have their outputs grow by 1 in each step.
    """

    damping: float = 0.0
    enough: float = 0.0

    def further(self) -> float:
        """Return how far outputs go from 0 if each goes where its own steps lead, in first steps."""
        if isinstance(self.loss, Squared):
            return super().further()
        outputs = np.zeros_like(self.targets)
        first = outputs
        for iteration in range(_FORESEEN):
            step = _centred(self.right_hand_side(outputs))
            if not step.any():
                break
            outputs = outputs - step
            first = first if iteration else outputs
        size = float(np.linalg.norm(first))
        return float(np.linalg.norm(outputs)) / size if size else 1.0

    def added(self, gram: Gram, outputs: Vector) -> float | Vector:
        """Return the damping over h."""
        damping = relative_damping(gram, self.damping)
        if not damping or isinstance(self.loss, Squared):
            return damping
        return damping / fit_parabolas(self.loss, outputs, self.targets).curvature

    def right_hand_side(self, outputs: Vector) -> Vector:
        """Return l' / h (n,)."""
        step = fit_parabolas(self.loss, outputs, self.targets).step
        if not self.enough:
            return step
        return np.where(_by_row(excess(self.loss, outputs, self.targets) > self.enough, step), step, 0.0)

    def gain(self, gram: Gram, value: Vector, outputs: Vector) -> float:
        """Return <l', G g>: the slope of the loss along the step; -1 if only rounding is left of it."""
        slopes = self.slopes(outputs)
        slope = float(np.vdot(slopes, gram.times(value)))
        return slope if slope > 1e-12 * float(np.vdot(slopes, self.right_hand_side(outputs))) else -1.0

    def remainder(self, outputs: Vector, *, first: float) -> float:
        """Return ||f - y|| as a share of what it was at the start; of another loss its mean, above the least."""
        if isinstance(self.loss, Squared):
            size = float(np.linalg.norm(outputs - self.targets))
            return size / first if first else size
        return float(excess(self.loss, outputs, self.targets).mean())

    def reached(self, tol: float) -> str:
        """Return that the residual, or the loss, is small enough."""
        if isinstance(self.loss, Squared):
            return f"The residual fell to {tol:g} of its size at the start."
        return f"The mean loss is within {tol:g} of the least that it can be."

    def missed(self, remainder: float) -> str:
        """Return that the residual, or the loss, was still falling, and what to do."""
        falling = "The residual was still falling."
        if not isinstance(self.loss, Squared):
            falling = f"The mean loss was still falling, and {remainder:.2g} above the least that it can be."
        return (
            f"{falling} Allow more with max_iterations, or widen the network; on inputs that all "
            "point the same way, centre them first (thresher.to_sphere(X, centre=True))."
        )

    def stalled(self, gram: Gram, solution: Solution, settings: NetworkSettings, *, remainder: float) -> str:
        """Return why no step reduces the loss. Cost: O(n²d)."""
        return _why_stalled(gram, solution, settings, self.problem)


def check_loss(problems: Sequence[Problem], asked: Any) -> Loss:
    """Return the loss that was asked for, which all targets have, and which can be stepped on from outputs of 0."""
    loss = choose_loss(asked)
    if loss.joint and not isinstance(loss, Softmax):
        raise InvalidInput(f"of losses of several outputs together train has loss='softmax' alone; got {asked!r}.")
    if loss.joint and len(problems) == 1:
        raise InvalidInput(
            "loss='softmax' is one loss of several outputs. Use train_together with a Problem for each class, whose "
            "targets are 1 for the rows of the class and 0 for all others; for two classes loss='logistic' does it."
        )
    for targets in targets_of(problems, loss):
        loss.check(targets)
        fit_parabolas(loss, np.zeros_like(targets), targets)
    return loss


def targets_of(problems: Sequence[Problem], loss: Loss) -> list[Vector]:
    """Return the targets (n,) of each problem; of a joint loss those of all, (n, k), as one."""
    targets = [problem.targets for problem in problems]
    return [np.column_stack(targets)] if loss.joint and targets else targets


def excess(loss: Loss, outputs: Vector, targets: Vector) -> Vector:
    """Return how far the loss of each input (n,) is above the least that it can be; refuse one that is below that."""
    values, least = loss.value(outputs, targets), loss.least(targets)
    below = least - values > _ROUNDING * (1 + np.abs(values))
    if below.any():
        row = int(np.argmax(below))
        raise InvalidInput(
            f"the loss of row {row} fell to {values[row]:.3g}, below {least[row]:.3g}, the least that it is said to "
            "have. Give the loss a method least(targets), which returns the least value of each row."
        )
    return values - least


def objectives_of(problems: Sequence[Problem], loss: Loss, *, tol: float, damping: float = 0.0) -> list[Objective]:
    """Return what is minimised for each problem; for all of them together, where they have one loss."""
    each = zip(problems, targets_of(problems, loss), strict=False)
    enough = 0.0 if isinstance(loss, Squared) else _ENOUGH * tol
    return [Interpolation(one, loss=loss, together=targets, damping=damping, enough=enough) for one, targets in each]


def columns(values: Vector) -> list[Vector]:
    """Return the columns of (n, k), or (n,) as one."""
    return list(np.ascontiguousarray(values.reshape(len(values), -1).T))


def _centred(step: Vector) -> Vector:
    """Return a step (n,); of (n, k) less the mean of each row, which no joint loss sees."""
    return step if step.ndim == 1 else step - step.mean(axis=1, keepdims=True)


def _by_row(numbers: NDArray[Any], like: Vector) -> NDArray[Any]:
    """Return numbers (n,) in a shape that goes with (n,), or with (n, k)."""
    return numbers if like.ndim == 1 else numbers[:, None]


def _why_stalled(gram: Gram, solution: Solution, settings: NetworkSettings, problem: Problem) -> str:
    """Return, in a sentence or two, why no step along the last direction reduces the loss. Cost: O(n²d)."""
    silent = np.flatnonzero((gram.diagonal() == 0).reshape(gram.size, -1).any(axis=1))
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
