"""Losses: what a number that a network puts out is worth beside a target.

Of outputs f and targets y a loss says, row by row, its value l(y, f), and its *link*: what is predicted where the
output is f. ``train`` asks for one thing more: *targets*, outputs whose mean loss is within a tolerance of the least
that there is. It takes the network of least change that reaches those, by squares. The Newton method of the estimators
asks for slopes and curvatures instead, since they weigh a loss against a ridge.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_softmax, softmax

from thresher.checks import check_number
from thresher.errors import InvalidInput

__all__ = [
    "LOSSES", "Huber", "Logistic", "Loss", "Poisson", "Quantile", "Softmax", "Squared", "choose_loss", "describe_loss",
]  # fmt: skip

Values = NDArray[np.float64]
_NEEDED = ("targets", "value")  # methods of any loss
_LEAST_CURVATURE = 1e-6  # of a loss that is all but flat
_MOST_LOG, _MOST_COUNT = 30.0, 1e12  # of what exp is taken of, and of counts whose logarithm is well below it


@runtime_checkable
class Loss(Protocol):
    """What is minimised, row by row. Outputs and targets are (n,); those of a loss that is ``joint`` (n, k).

    ``train`` needs ``targets`` and ``value``; ``slope`` and ``curvature`` are for the estimators.
    """

    joint: bool  # whether all outputs of a row together have one loss; it is convex then

    def check(self, targets: Values) -> None:
        """Raise InvalidInput with the first target that has no loss."""

    def targets(self, targets: Values, tol: float) -> Values:
        """Return outputs whose mean loss is at most ``tol`` above the least that there is, in the shape of targets."""

    def value(self, outputs: Values, targets: Values) -> Values:
        """Return l(y, f) of each row (n,)."""

    def slope(self, outputs: Values, targets: Values) -> Values:
        """Return the derivatives of the values by the outputs, in their shape."""

    def curvature(self, outputs: Values, targets: Values) -> Values:
        """Return the curvatures by the outputs, in their shape, all above 0.

        They are those of parabolas that touch the loss: the second derivatives, or of parabolas that lie above the loss
        (:class:`Huber`, :class:`Quantile`). Of a joint loss: a diagonal that is above the whole, and equal to it up to
        where all outputs grow by the same.
        """

    def link(self, outputs: Values) -> Values:
        """Return what is predicted, in the shape of the outputs."""


@dataclass(frozen=True)
class Squared:
    """½ (f - y)²: the mean."""

    joint = False

    def check(self, targets: Values) -> None:
        """Take any number."""

    def targets(self, targets: Values, tol: float) -> Values:
        """Return y."""
        return targets

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
                f"loss='log_loss' takes targets from 0 to 1, 1 for one of two classes; row {row} has "
                f"{targets[row]:g}. For labels of -1 and 1 pass (y + 1) / 2."
            )

    def targets(self, targets: Values, tol: float) -> Values:
        """Return ±log(1 / (exp tol - 1)) for classes, where the loss is tol; in between less than tol above the least.

        They are the log odds of the targets, drawn towards one half by as little as that takes.
        """
        share = min(-2 * math.expm1(-tol), 1.0)
        return np.log((1 - share) * targets + share / 2) - np.log((1 - share) * (1 - targets) + share / 2)

    def value(self, outputs: Values, targets: Values) -> Values:
        """Return log(1 + exp f) - y f, exact where it is close to 0."""
        return (1 - targets) * np.logaddexp(0.0, outputs) + targets * np.logaddexp(0.0, -outputs)

    def slope(self, outputs: Values, targets: Values) -> Values:
        """Return p - y, p being the probability."""
        return expit(outputs) - targets

    def curvature(self, outputs: Values, targets: Values) -> Values:
        """Return p (1 - p)."""
        return np.maximum(expit(outputs) * expit(-outputs), _LEAST_CURVATURE)

    def link(self, outputs: Values) -> Values:
        """Return the probability of 1."""
        return expit(outputs)


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
                "loss='log_loss' of several outputs takes a target for each class: 1 for that of a row and 0 for all "
                f"others, or shares that add up to 1; those of row {row} add up to {targets[row].sum():g}. Of labels "
                "that are independent of each other it is thresher.losses.Logistic()."
            )

    def targets(self, targets: Values, tol: float) -> Values:
        """Return outputs (n, k) that add up to 0 in each row; the loss is tol there, of shares less above the least.

        They are the logarithms of the targets, drawn towards equal shares by as little as that takes. For k classes
        the output of the right one is log((k - 1) / (exp tol - 1)) above all others.
        """
        k = targets.shape[1]
        share = min(-math.expm1(-tol) * k / (k - 1), 1.0)
        logs = np.log((1 - share) * targets + share / k)
        return logs - logs.mean(axis=1, keepdims=True)

    def value(self, outputs: Values, targets: Values) -> Values:
        """Return log Σ exp f_k - Σ y_k f_k."""
        return -(targets * log_softmax(outputs, axis=1)).sum(axis=1)

    def slope(self, outputs: Values, targets: Values) -> Values:
        """Return p - y."""
        return softmax(outputs, axis=1) - targets

    def curvature(self, outputs: Values, targets: Values) -> Values:
        """Return p: diag(p) is above diag(p) - p pᵀ, and equal to it up to where all outputs grow by the same."""
        return np.maximum(softmax(outputs, axis=1), _LEAST_CURVATURE)

    def link(self, outputs: Values) -> Values:
        """Return the probabilities of the classes."""
        return softmax(outputs, axis=1)


@dataclass(frozen=True)
class Huber:
    """½ r² for residuals r = f - y up to ``knee``, a line beyond: outliers pull no harder than there."""

    knee: float = 1.0
    joint = False

    def check(self, targets: Values) -> None:
        """Take any number."""
        check_number(self.knee, "knee", above=0.0)

    def targets(self, targets: Values, tol: float) -> Values:
        """Return y."""
        return targets

    def value(self, outputs: Values, targets: Values) -> Values:
        """Return the parabola within the knee, the line beyond."""
        size = np.abs(outputs - targets)
        inner = np.minimum(size, self.knee)
        return inner * (size - inner / 2)

    def slope(self, outputs: Values, targets: Values) -> Values:
        """Return the residual, but no more than the knee."""
        return np.clip(outputs - targets, -self.knee, self.knee)

    def curvature(self, outputs: Values, targets: Values) -> Values:
        """Return min(1, knee / size of r): of the parabola that touches the loss at f and lies above it."""
        size = np.abs(outputs - targets)
        return self.knee / np.maximum(size, self.knee)

    def link(self, outputs: Values) -> Values:
        """Return the outputs."""
        return outputs


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

    def targets(self, targets: Values, tol: float) -> Values:
        """Return y + width (q - ½) / √(q (1 - q)), where the rounded loss is least."""
        return targets + self.width * (self.q - 0.5) / math.sqrt(self.q * (1 - self.q))

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


@dataclass(frozen=True)
class Poisson:
    """exp f - y f: counts, or other amounts from 0 on. The output is the logarithm of the mean."""

    joint = False

    def check(self, targets: Values) -> None:
        """Take numbers from 0 to 1e12."""
        wrong = ~((targets >= 0) & (targets <= _MOST_COUNT))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InvalidInput(
                f"loss='poisson' takes counts, from 0 on and up to {_MOST_COUNT:g}; row {row} has {targets[row]:g}."
            )

    def targets(self, targets: Values, tol: float) -> Values:
        """Return log(y + tol): the loss is tol above the least for counts of 0, and less for all others."""
        return np.log(targets + tol)

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


LOSSES: dict[str, type[Any]] = {
    "squared_error": Squared, "log_loss": Logistic, "huber": Huber, "quantile": Quantile, "poisson": Poisson,
}  # fmt: skip


class _Given:
    """A loss of a user, who may leave out what most losses have in common."""

    def __init__(self, loss: Any) -> None:
        self.given = loss
        self._targets, self._value = (_locked(getattr(loss, name)) for name in _NEEDED)
        self.joint = bool(getattr(loss, "joint", False))
        self.check = getattr(loss, "check", lambda targets: None)
        self.link = getattr(loss, "link", lambda outputs: outputs)

    def targets(self, targets: Values, tol: float) -> Values:
        """Return the outputs to aim at, checked."""
        return _usable(self._targets(targets, tol), "targets", targets.shape)

    def value(self, outputs: Values, targets: Values) -> Values:
        """Return the values (n,), of the right shape."""
        return _shaped(self._value(outputs, targets), "value", targets.shape[:1])


def _locked(function: Callable[..., Any]) -> Callable[..., Values]:
    """Return a function whose arrays, those of the training, cannot be written to, and which returns an array."""

    def call(*arguments: Any) -> Values:
        views = [one.view() if isinstance(one, np.ndarray) else one for one in arguments]
        for one in views:
            if isinstance(one, np.ndarray):
                one.flags.writeable = False
        return np.asarray(function(*views), dtype=np.float64)

    return call


def _shaped(array: Values, name: str, shape: tuple[int, ...]) -> Values:
    if array.shape != shape:
        raise InvalidInput(f"{name} of a loss must return shape {shape}; it returned {array.shape}.")
    return array


def _usable(array: Values, name: str, shape: tuple[int, ...]) -> Values:
    """Return what a loss says; refuse other shapes, and what is not finite."""
    if not np.isfinite(_shaped(array, name, shape)).all():
        row = int(np.argwhere(~np.isfinite(array))[0][0])
        raise InvalidInput(f"{name} of a loss must be finite; that of row {row} is {array[row]}.")
    return array


def choose_loss(loss: Any, *, outputs: int = 1) -> Loss:
    """Return the loss of so many outputs that a name stands for, or an object as one; refuse what is none.

    ``"log_loss"`` of several outputs is :class:`Softmax`. An object needs ``targets`` and ``value``. Without ``link``
    the outputs are what is predicted, without ``check`` every number is a target.
    """
    if isinstance(loss, str) and loss in LOSSES:
        made: Loss = Softmax() if loss == "log_loss" and outputs > 1 else LOSSES[loss]()
        return made
    if not isinstance(loss, type) and all(callable(getattr(loss, name, None)) for name in _NEEDED):
        ours = type(loss) in (*LOSSES.values(), Softmax)
        return loss if ours else _Given(loss)  # type: ignore[return-value]  # which has no slopes and curvatures
    names = ", ".join(repr(one) for one in LOSSES)
    raise InvalidInput(f"loss must be one of {names}, or an object with the methods targets and value; got {loss!r}.")


def describe_loss(loss: Loss) -> str:
    """Return a loss with its parameters in words: the same for an equal one, in every process."""
    one = loss.given if isinstance(loss, _Given) else loss
    names = [field.name for field in fields(one)] if is_dataclass(one) else sorted(getattr(one, "__dict__", {}))
    return f"{type(one).__qualname__}({', '.join(f'{name}={_told(getattr(one, name))}' for name in names)})"


def _told(value: Any) -> str:
    """Return a parameter in words; an array, which words would shorten, by its shape and a digest."""
    if not isinstance(value, np.ndarray):
        return repr(value)
    return f"array{value.shape}:{hashlib.sha256(repr(value.tolist()).encode()).hexdigest()[:16]}"
