"""What training minimises. Each objective gives the linear system of an iteration and makes a step of its solution."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thresher.algebra import relative_damping
from thresher.interfaces import Engine, Gram, Solution, Step
from thresher.model.network import NetworkSettings
from thresher.model.problem import Problem
from thresher.theory import largest_shift

__all__ = ["Interpolation", "Penalised"]

Vector = NDArray[np.float64]
_ROWS = 256  # whose products are made at a time
_NEARLY_EQUAL = 1 - 1e-6  # inner product of two inputs that few neurons tell apart


@dataclass(frozen=True, eq=False)
class Interpolation:
    """½ ||f - y||², to zero. G g = f - y, and a step takes Jᵀ g away: v = -g, keep = 1.

    ``damping`` is relative to the mean diagonal of G (Levenberg-Marquardt).
    """

    problem: Problem
    damping: float = 0.0
    warm = False  # a solve starts from zero

    @property
    def targets(self) -> Vector:
        """The targets (n,)."""
        return self.problem.targets

    def added(self, gram: Gram) -> float:
        """Return the damping."""
        return relative_damping(gram, self.damping)

    def right_hand_side(self, outputs: Vector, engine: Engine | None) -> Vector:
        """Return f - y (n,)."""
        return outputs - self.targets

    def step(self, value: Vector, fraction: float) -> Step:
        """Return a fraction of the Gauss-Newton step."""
        return Step(-fraction * value)

    def loss(self, outputs: Vector, engine: Engine | None) -> float:
        """Return ½ ||f - y||²."""
        residual = outputs - self.targets
        return float(residual @ residual / 2)

    def gain(self, gram: Gram, value: Vector, rhs: Vector) -> float:
        """Return <f - y, G g>: the slope of the loss along the step; -1 if only rounding is left of it."""
        slope = float(rhs @ gram.times(value))
        return slope if slope > 1e-12 * float(rhs @ rhs) else -1.0

    def remainder(self, outputs: Vector, value: Vector | None, *, first: float) -> float:
        """Return ||f - y|| as a share of what it was at the start."""
        size = float(np.linalg.norm(outputs - self.targets))
        return size / first if first else size

    def reached(self, tol: float) -> str:
        """Return that the residual is small enough."""
        return f"The residual fell to {tol:g} of its size at the start."

    def missed(self, remainder: float) -> str:
        """Return that the residual was still falling, and what to do."""
        return (
            "The residual was still falling. Allow more with max_iterations, or widen the network; on inputs that all "
            "point the same way, centre them first (thresher.to_sphere(X, centre=True))."
        )

    def stalled(self, gram: Gram, solution: Solution, settings: NetworkSettings, *, remainder: float) -> str:
        """Return why no step reduces the loss. Cost: O(n²d)."""
        return _why_stalled(gram, solution, settings, self.problem)


@dataclass(frozen=True, eq=False)
class Penalised:
    """½ Σ (f_i - y_i)² / p_i + ½ ||D||², with D = W - W(0) and a penalty p (n,) per input.

    Each step aims at D = Jᵀ alpha with (G + p) alpha = y - f + J D: v = alpha, keep = 0, or a fraction of that way.
    At a minimum p alpha = y - f; how far that fails, as a share of ||y||, is the remainder.
    """

    problem: Problem
    penalty: Vector
    warm = True  # a solve starts from the last solution

    @property
    def targets(self) -> Vector:
        """The targets (n,)."""
        return self.problem.targets

    def added(self, gram: Gram) -> Vector:
        """Return the penalty (n,)."""
        return self.penalty

    def right_hand_side(self, outputs: Vector, engine: Engine | None) -> Vector:
        """Return y - f + J D (n,); D is 0 without an engine."""
        left = self.targets - outputs
        return left if engine is None else left + engine.jacobian_times_displacement()

    def step(self, value: Vector, fraction: float) -> Step:
        """Return the step that goes a fraction of the way to D = Jᵀ alpha."""
        return Step(fraction * value, 1.0 - fraction)

    def loss(self, outputs: Vector, engine: Engine | None) -> float:
        """Return the penalised loss."""
        distance = 0.0 if engine is None else engine.squared_distance()
        return float(((outputs - self.targets) ** 2 / self.penalty).sum() + distance) / 2

    def gain(self, gram: Gram, value: Vector, rhs: Vector) -> float:
        """Return 0: any decrease will do."""
        return 0.0

    def remainder(self, outputs: Vector, value: Vector | None, *, first: float) -> float:
        """Return ||p alpha - (y - f)|| / ||y||: what a minimum lacks."""
        left = self.targets - outputs if value is None else self.penalty * value - (self.targets - outputs)
        size = float(np.linalg.norm(self.targets))
        return float(np.linalg.norm(left)) / (size or 1.0)

    def reached(self, tol: float) -> str:
        """Return that the gradient is small enough."""
        return f"The gradient of the penalised loss is within {tol:g} of the targets."

    def missed(self, remainder: float) -> str:
        """Return what is left, and what to do."""
        return (
            f"The gradient was still {remainder:.2g} of the targets. Raise the width, max_iterations, or the "
            "penalty (the ridge of an estimator)."
        )

    def stalled(self, gram: Gram, solution: Solution, settings: NetworkSettings, *, remainder: float) -> str:
        """Return why no step reduces the loss."""
        if not gram.diagonal().any():
            return "No step reduces the loss: no neuron fires. Lower the shift or raise the width."
        return (
            f"No step reduces the penalised loss; its gradient is still {remainder:.2g} of the targets. Too few "
            "neurons fire, or parts of the step cancel beyond the working precision: raise the width, or the penalty "
            "(the ridge of an estimator)."
        )


def _why_stalled(gram: Gram, solution: Solution, settings: NetworkSettings, problem: Problem) -> str:
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
