"""Losses: what a number that a network puts out is worth beside a target.

A loss says three things of outputs f and targets y, row by row: its value l(y, f), its slope l' and curvature by f. It
may say more: its *link*, what is predicted where the output is f; the least value that there is; what a target may be.

The curvature is that of a parabola that touches the loss at f and makes a good step: the second derivative where that
is above zero, or the one that lies above the loss everywhere (:class:`Huber`, :class:`Quantile`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_softmax, softmax, xlogy

from thresher.checks import check_number
from thresher.errors import InvalidInput

__all__ = [
    "LOSSES", "Huber", "Logistic", "Loss", "Parabolas", "Poisson", "Quantile", "Softmax", "Squared", "choose_loss",
    "describe_loss", "fit_parabolas",
]  # fmt: skip

Values = NDArray[np.float64]
_NEEDED = ("value", "slope", "curvature")  # methods of any loss
_LEAST_CURVATURE = 1e-6  # of a loss that is all but flat
_MOST_LOG, _MOST_COUNT = 30.0, 1e12  # of what exp is taken of, and of counts whose logarithm is well below it
_SHARE = 0.25  # of slope times step that a step must gain; a parabola that is right gains half of it
_DOUBLINGS = 60
_ROUNDING = 1e-14  # of a value


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
        """Return the curvatures by the outputs, in their shape, all above 0.

        Of a joint loss: a diagonal that is above the whole, and equal to it up to where all outputs grow by the same.
        """

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
        """Return p: diag(p) is above diag(p) - p pᵀ, and equal to it up to where all outputs grow by the same."""
        return np.maximum(softmax(outputs, axis=1), _LEAST_CURVATURE)

    def link(self, outputs: Values) -> Values:
        """Return the probabilities of the classes."""
        return softmax(outputs, axis=1)

    def least(self, targets: Values) -> Values:
        """Return the entropy of the targets: 0 for whole classes."""
        return -xlogy(targets, targets).sum(axis=1)


@dataclass(frozen=True)
class Huber:
    """½ r² for residuals r = f - y up to ``knee``, a line beyond: outliers pull no harder than there."""

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
        """Return min(1, knee / size of r): of the parabola that touches the loss at f and lies above it."""
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
        """Take numbers from 0 to 1e12."""
        wrong = ~((targets >= 0) & (targets <= _MOST_COUNT))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InvalidInput(
                f"loss='poisson' takes counts, from 0 on and up to {_MOST_COUNT:g}; row {row} has {targets[row]:g}."
            )

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


class _Given:
    """A loss of a user, who may leave out what most losses have in common."""

    def __init__(self, loss: Any) -> None:
        self.given = loss
        self.value, self.slope, self.curvature = (_locked(getattr(loss, name)) for name in _NEEDED)
        self.joint = bool(getattr(loss, "joint", False))
        self.check = getattr(loss, "check", lambda targets: None)
        self.link = getattr(loss, "link", lambda outputs: outputs)
        self._least = getattr(loss, "least", lambda targets: np.zeros(len(targets)))

    def least(self, targets: Values) -> Values:
        """Return the least value of each row, checked."""
        return _usable(self._least(targets), "least", targets.reshape(len(targets), -1)[:, 0])


def _locked(function: Callable[[Values, Values], Values]) -> Callable[[Values, Values], Values]:
    """Return a function whose arguments, those of the training, cannot be written to, and which returns an array."""

    def call(outputs: Values, targets: Values) -> Values:
        views = outputs.view(), targets.view()
        for one in views:
            one.flags.writeable = False
        return np.asarray(function(*views), dtype=np.float64)

    return call


def choose_loss(loss: Any) -> Loss:
    """Return the loss that a name stands for, or an object as one; refuse what is none.

    An object needs ``value``, ``slope`` and ``curvature``. Without ``link`` the outputs are what is predicted, without
    ``least`` no value is below 0, without ``check`` every number is a target.
    """
    if isinstance(loss, str) and loss in LOSSES:
        made: Loss = LOSSES[loss]()
        return made
    if not isinstance(loss, type) and all(callable(getattr(loss, name, None)) for name in _NEEDED):
        return loss if type(loss) in LOSSES.values() else _Given(loss)
    names = ", ".join(repr(one) for one in LOSSES)
    raise InvalidInput(
        f"loss must be one of {names}, or an object with the methods value, slope and curvature; got {loss!r}."
    )


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


class Parabolas(NamedTuple):
    """Slopes and curvatures, in the shape of the outputs, of a parabola for each row."""

    slope: Values
    curvature: Values

    @property
    def step(self) -> Values:
        """From the lowest points to where the parabolas were fitted: outputs less this are where they lead."""
        return self.slope / self.curvature


def fit_parabolas(loss: Loss, outputs: Values, targets: Values) -> Parabolas:
    """Return the parabolas that touch the loss of each row, narrow enough to be believed.

    A step to the lowest point of a parabola promises a gain of half of slope times step. Where the loss itself gains
    less than half of what is promised, the curvature is doubled until it does: so no row is sent far beyond where its
    parabola is like the loss. Of a loss below its parabolas (squares, Huber, quantiles) nothing is ever doubled.

    Raises InvalidInput where a slope or a curvature cannot be used. Cost: O(n) for each doubling.
    """
    slope = _usable(loss.slope(outputs, targets), "slope", outputs)
    curvature = _usable(loss.curvature(outputs, targets), "curvature", outputs)
    if (curvature <= 0).any():
        row = int(np.argwhere(curvature <= 0)[0][0])
        raise InvalidInput(
            f"the curvature of a loss must be above 0; that of row {row} is {curvature[row]}. Hold it above a small "
            "number, as with np.maximum(curvature, 1e-6)."
        )
    if isinstance(loss, Squared):
        return Parabolas(slope, curvature)
    before = _usable(loss.value(outputs, targets), "value", outputs[:, 0] if loss.joint else outputs)
    raised = curvature.copy()
    for _ in range(_DOUBLINGS):
        step = slope / raised
        with np.errstate(over="ignore", invalid="ignore"):
            gained = before - loss.value(outputs - step, targets) + _ROUNDING * np.abs(before)
        short = ~(gained >= _SHARE * (slope * step).reshape(len(slope), -1).sum(axis=1))
        if not short.any():
            break
        raised[short] *= 2
    return Parabolas(slope, raised)


def _usable(values: Any, name: str, like: Values) -> Values:
    """Return what a loss says as numbers; refuse other shapes, and what is not finite."""
    array = np.asarray(values, dtype=np.float64)
    if array.shape != like.shape:
        raise InvalidInput(f"{name} of a loss must return shape {like.shape}; it returned {array.shape}.")
    if not np.isfinite(array).all():
        row = int(np.argwhere(~np.isfinite(array))[0][0])
        raise InvalidInput(f"{name} of a loss must be finite; that of row {row} is {array[row]}.")
    return array
