"""Losses: what a number that a network puts out is worth beside a target.

A loss says four things of outputs f and targets y, row by row: its value l(y, f), its slope l' and curvature by f, and
its *link*, what is predicted where the output is f. ``train`` and the estimators need nothing else.

The curvature is that of a parabola that touches the loss at f and makes a good step: the second derivative where that
is above zero, or the one that lies above the loss everywhere (:class:`Huber`, :class:`Quantile`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_softmax, softmax, xlogy

from thresher.checks import check_number
from thresher.errors import InvalidInput

__all__ = ["LOSSES", "Huber", "Logistic", "Loss", "Poisson", "Quantile", "Softmax", "Squared", "choose_loss"]

Values = NDArray[np.float64]
_LEAST_CURVATURE = 1e-6  # of a loss that is all but flat
_MOST_LOG = 30.0  # of what exp is taken of


@runtime_checkable
class Loss(Protocol):
    """What is minimised, row by row. Outputs and targets are (n,); those of a loss that is ``joint`` (n, k)."""

    joint: bool  # whether all outputs of a row together have one loss

    def check(self, targets: Values) -> None:
        """Raise InvalidInput with the first target that has no loss."""

    def value(self, outputs: Values, targets: Values) -> Values:
        """Return l(y, f) of each row (n,)."""

    def slope(self, outputs: Values, targets: Values) -> Values:
        """Return the derivatives of the values by the outputs, in their shape."""

    def curvature(self, outputs: Values, targets: Values) -> Values:
        """Return the curvatures by the outputs, in their shape, all above 0; of a joint loss the diagonals."""

    def link(self, outputs: Values) -> Values:
        """Return what is predicted, in the shape of the outputs."""

    def least(self, targets: Values) -> Values:
        """Return the least value that any output has, or comes close to, of each row (n,)."""


@dataclass(frozen=True)
class Squared:
    """½ (f - y)²: the mean."""

    joint = False

    def check(self, targets: Values) -> None:
        """Take any number."""

    def value(self, outputs: Values, targets: Values) -> Values:
        """Return ½ (f - y)²."""
        return (outputs - targets) ** 2 / 2

    def slope(self, outputs: Values, targets: Values) -> Values:
        """Return f - y."""
        return outputs - targets

    def curvature(self, outputs: Values, targets: Values) -> Values:
        """Return 1."""
        return np.ones_like(outputs)

    def link(self, outputs: Values) -> Values:
        """Return the outputs."""
        return outputs

    def least(self, targets: Values) -> Values:
        """Return 0."""
        return np.zeros_like(targets)


@dataclass(frozen=True)
class Logistic:
    """log(1 + exp f) - y f: two classes, 0 and 1, or a share of them between. The output is the log of the odds."""

    joint = False

    def check(self, targets: Values) -> None:
        """Take numbers from 0 to 1."""
        wrong = ~((targets >= 0) & (targets <= 1))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InvalidInput(
                f"loss='logistic' takes targets from 0 to 1, 1 for one of two classes; row {row} has {targets[row]:g}. "
                "For labels of -1 and 1 pass (y + 1) / 2."
            )

    def value(self, outputs: Values, targets: Values) -> Values:
        """Return log(1 + exp f) - y f."""
        return np.logaddexp(0.0, outputs) - targets * outputs

    def slope(self, outputs: Values, targets: Values) -> Values:
        """Return p - y, p being the probability."""
        return expit(outputs) - targets

    def curvature(self, outputs: Values, targets: Values) -> Values:
        """Return p (1 - p)."""
        return np.maximum(expit(outputs) * expit(-outputs), _LEAST_CURVATURE)

    def link(self, outputs: Values) -> Values:
        """Return the probability of 1."""
        return expit(outputs)

    def least(self, targets: Values) -> Values:
        """Return the entropy of the targets: 0 for whole classes."""
        return -xlogy(targets, targets) - xlogy(1 - targets, 1 - targets)


@dataclass(frozen=True)
class Softmax:
    """log Σ exp f_k - Σ y_k f_k: one of k classes, or a share of each."""

    joint = True

    def check(self, targets: Values) -> None:
        """Take rows of numbers from 0 to 1 that add up to 1."""
        wrong = ~((targets >= 0).all(axis=1) & (np.abs(targets.sum(axis=1) - 1) < 1e-6))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InvalidInput(
                "loss='softmax' takes a target for each class: 1 for that of a row and 0 for all others, or shares "
                f"that add up to 1; those of row {row} add up to {targets[row].sum():g}."
            )

    def value(self, outputs: Values, targets: Values) -> Values:
        """Return log Σ exp f_k - Σ y_k f_k."""
        return -(targets * log_softmax(outputs, axis=1)).sum(axis=1)

    def slope(self, outputs: Values, targets: Values) -> Values:
        """Return p - y."""
        return softmax(outputs, axis=1) - targets

    def curvature(self, outputs: Values, targets: Values) -> Values:
        """Return p (1 - p), the diagonal of diag(p) - p pᵀ."""
        shares = softmax(outputs, axis=1)
        return np.maximum(shares * (1 - shares), _LEAST_CURVATURE)

    def link(self, outputs: Values) -> Values:
        """Return the probabilities of the classes."""
        return softmax(outputs, axis=1)

    def least(self, targets: Values) -> Values:
        """Return the entropy of the targets: 0 for whole classes."""
        return -xlogy(targets, targets).sum(axis=1)


@dataclass(frozen=True)
class Huber:
    """½ r² for residuals r = f - y up to ``knee``, knee (|r| - ½ knee) beyond: outliers pull no harder than there."""

    knee: float = 1.0
    joint = False

    def check(self, targets: Values) -> None:
        """Take any number."""
        check_number(self.knee, "knee", above=0.0)

    def value(self, outputs: Values, targets: Values) -> Values:
        """Return the parabola within the knee, the line beyond."""
        size = np.abs(outputs - targets)
        inner = np.minimum(size, self.knee)
        return inner * (size - inner / 2)

    def slope(self, outputs: Values, targets: Values) -> Values:
        """Return the residual, but no more than the knee."""
        return np.clip(outputs - targets, -self.knee, self.knee)

    def curvature(self, outputs: Values, targets: Values) -> Values:
        """Return min(1, knee / |r|): of the parabola that touches the loss at f and lies above it."""
        size = np.abs(outputs - targets)
        return self.knee / np.maximum(size, self.knee)

    def link(self, outputs: Values) -> Values:
        """Return the outputs."""
        return outputs

    def least(self, targets: Values) -> Values:
        """Return 0."""
        return np.zeros_like(targets)


@dataclass(frozen=True)
class Quantile:
    """(1 - q) r above the target and -q r below, r = f - y, rounded within ``width``: the quantile q of the targets.

    Within ``width`` of the target it is a parabola, so that value, slope and curvature are smooth enough for steps.
    """

    q: float = 0.5
    width: float = 1e-3
    joint = False

    def check(self, targets: Values) -> None:
        """Take any number."""
        if not 0 < check_number(self.q, "q", above=0.0) < 1:
            raise InvalidInput(f"q must be between 0 and 1; got {self.q:g}.")
        check_number(self.width, "width", above=0.0)

    def value(self, outputs: Values, targets: Values) -> Values:
        """Return ½ (√(r² + width²) - width) + (½ - q) r."""
        residual = outputs - targets
        return (np.hypot(residual, self.width) - self.width) / 2 + (0.5 - self.q) * residual

    def slope(self, outputs: Values, targets: Values) -> Values:
        """Return ½ r / √(r² + width²) + ½ - q."""
        residual = outputs - targets
        return residual / np.hypot(residual, self.width) / 2 + 0.5 - self.q

    def curvature(self, outputs: Values, targets: Values) -> Values:
        """Return ½ / √(r² + width²): of the parabola that touches the loss at f and lies above it."""
        return 0.5 / np.hypot(outputs - targets, self.width)

    def link(self, outputs: Values) -> Values:
        """Return the outputs."""
        return outputs

    def least(self, targets: Values) -> Values:
        """Return the value of the best residual: 0 for the median, a little below for others."""
        lean = 0.5 - self.q
        best = self.width * (np.sqrt(1 - 4 * lean**2) - 1) / 2
        return np.full_like(targets, best)


@dataclass(frozen=True)
class Poisson:
    """exp f - y f: counts, or other amounts from 0 on. The output is the logarithm of the mean."""

    joint = False

    def check(self, targets: Values) -> None:
        """Take numbers from 0 on."""
        if (targets < 0).any():
            row = int(np.argmax(targets < 0))
            raise InvalidInput(f"loss='poisson' takes counts, from 0 on; row {row} has {targets[row]:g}.")

    def value(self, outputs: Values, targets: Values) -> Values:
        """Return exp f - y f."""
        return np.exp(np.minimum(outputs, _MOST_LOG)) - targets * outputs

    def slope(self, outputs: Values, targets: Values) -> Values:
        """Return exp f - y."""
        return np.exp(np.minimum(outputs, _MOST_LOG)) - targets

    def curvature(self, outputs: Values, targets: Values) -> Values:
        """Return exp f."""
        return np.maximum(np.exp(np.minimum(outputs, _MOST_LOG)), _LEAST_CURVATURE)

    def link(self, outputs: Values) -> Values:
        """Return the mean."""
        return np.exp(np.minimum(outputs, _MOST_LOG))

    def least(self, targets: Values) -> Values:
        """Return y - y log y: the value of f = log y."""
        return targets - xlogy(targets, targets)


LOSSES: dict[str, type[Any]] = {
    "squared": Squared, "logistic": Logistic, "softmax": Softmax, "huber": Huber, "quantile": Quantile,
    "poisson": Poisson,
}  # fmt: skip


def choose_loss(loss: Any) -> Loss:
    """Return the loss that a name stands for, or the object that was given; refuse what is none."""
    if isinstance(loss, str) and loss in LOSSES:
        return LOSSES[loss]()
    if isinstance(loss, type) or not isinstance(loss, Loss):
        names = ", ".join(repr(one) for one in LOSSES)
        raise InvalidInput(
            f"loss must be one of {names}, or an object with joint, check, value, slope, curvature, link and least, as "
            f"thresher.losses.Loss has them; got {loss!r}."
        )
    return loss
