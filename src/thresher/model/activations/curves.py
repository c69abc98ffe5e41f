"""Activations: piecewise linear functions, by their knots and by the slopes between them.

The *background* is the piece on which most start pre-activations lie. It must be flat; then an activation is

    phi(z) = at_zero + sum over knots k of jump_k max(side_k z - threshold_k, 0)

with side 1 for knots above the background and -1 for those below it. So what a network with this activation does on an
input is what a ReLU network does on some inputs: one for each knot, the input itself or its opposite, each with a
threshold of its own. See ``knots.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from thresher.checks import check_number
from thresher.errors import InvalidInput

__all__ = ["Activation", "ActivationName", "Pieces", "choose_activation", "curve_of", "tell", "told"]

ActivationName = Literal["relu", "max", "hat"]
_PLAIN = ("relu", "max")  # one knot
_HAT = 2.0  # width of "hat": its height is 1
_MOST_KNOTS = 16
_LARGEST = 1e6  # of knots and slopes: start pre-activations are N(0, 1)


class _Given(NamedTuple):
    knots: tuple[float, ...]
    slopes: tuple[float, ...]


class Activation(_Given):
    """A piecewise linear activation of one's own, with phi(0) = 0, flat where most start pre-activations lie.

    ``train(activation=Activation(knots=[1, 2], slopes=[0, 1, 0]))`` takes min(max(z - 1, 0), 1).

    Parameters
    ----------
    knots : numbers, ascending, at which the slope changes: pre-activations, whatever the shift
    slopes : one more: below the first knot, between knots, and above the last

    Cost: O(knots).
    """

    def __new__(cls, knots: Sequence[float], slopes: Sequence[float]) -> Activation:
        """Return checked knots and slopes; knots at which the slope stays the same are left out."""
        b, s = _check_numbers(knots, "knots"), _check_numbers(slopes, "slopes")
        if len(s) != len(b) + 1:
            raise InvalidInput(
                f"an activation has one slope more than knots; got {len(s)} slopes for {len(b)} knots. "
                "Give those below the first knot, between knots and above the last."
            )
        for place in range(1, len(b)):
            if b[place] <= b[place - 1]:
                raise InvalidInput(
                    f"knots must ascend, each above the one before; knot {place} is {b[place]:g} after "
                    f"{b[place - 1]:g}. Sort them, with their slopes, and give equal ones once."
                )
        bends = [place for place in range(len(b)) if s[place] != s[place + 1]]
        if not bends:
            raise InvalidInput("an activation must bend: its slopes are all equal, so that neurons would be linear.")
        if len(bends) > _MOST_KNOTS:
            raise InvalidInput(f"an activation may have {_MOST_KNOTS} knots; got {len(bends)}.")
        kept, slopes = tuple(b[place] for place in bends), (s[bends[0]], *(s[place + 1] for place in bends))
        if slopes[most := _background(kept, slopes)]:
            low, high = [-math.inf, *kept, math.inf][most : most + 2]
            raise InvalidInput(
                "an activation must be flat where most start pre-activations lie, which are N(0, 1); got slope "
                f"{slopes[most]:g} from {low:g} to {high:g}. Give slope 0 there, or move the knots."
            )
        return super().__new__(cls, kept, slopes)

    def __call__(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the activation of numbers, any shape: the sum over pieces of slope times length, from 0 on."""
        edges = [-math.inf, *self.knots, math.inf]
        total = np.zeros(np.shape(z))
        for slope, low, high in zip(self.slopes, edges, edges[1:], strict=False):
            total += slope * (np.clip(z, low, high) - min(max(0.0, low), high))
        return total

    def __repr__(self) -> str:
        return f"Activation(knots={list(self.knots)}, slopes={list(self.slopes)})"


class Pieces(NamedTuple):
    """An activation as loops take it, (knots,) each: ``sides`` 1 or -1, ``thresholds`` and ``jumps``."""

    at_zero: float  # what the background is
    sides: tuple[int, ...]
    thresholds: tuple[float, ...]  # ascending from the background, on each side
    jumps: tuple[float, ...]  # slope above a knot less that below it

    @classmethod
    def of(cls, knots: Sequence[float], slopes: Sequence[float]) -> Pieces:
        """Return the pieces of an activation that is 0 at 0. Cost: O(knots)."""
        most = _background(knots, slopes)
        order = [*range(most - 1, -1, -1), *range(most, len(knots))]  # below, then above; each outwards
        sides = tuple(-1 if k < most else 1 for k in order)
        thresholds = tuple(side * knots[k] for side, k in zip(sides, order, strict=True))
        jumps = tuple(float(slopes[k + 1] - slopes[k]) for k in order)
        made = cls(0.0, sides, thresholds, jumps)
        return made._replace(at_zero=-float(made.bend(np.zeros(1))[0]) + 0.0)

    def bend(self, z: NDArray[Any]) -> NDArray[Any]:
        """Return the activation of numbers, any shape, in their precision, less the constant ``at_zero``."""
        kind = z.dtype.type
        active = np.zeros_like(z)
        for side, threshold, jump in zip(self.sides, self.thresholds, self.jumps, strict=True):
            active += kind(jump) * np.maximum(kind(side) * z - kind(threshold), kind(0))
        return active

    def size(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sum of the sizes of the terms of the activation of numbers, any shape."""
        parts = zip(self.sides, self.thresholds, self.jumps, strict=True)
        terms = [abs(jump) * np.maximum(side * z - threshold, 0) for side, threshold, jump in parts]
        return np.asarray(sum(terms, np.zeros(np.shape(z))))

    def slopes(self, z: NDArray[Any]) -> NDArray[Any]:
        """Return the slope at numbers, any shape; at a knot that of the piece farther from the background."""
        kind = z.dtype.type
        found = np.zeros_like(z)
        for side, threshold, jump in zip(self.sides, self.thresholds, self.jumps, strict=True):
            found += kind(side * jump) * (kind(side) * z >= kind(threshold))
        return found

    @property
    def steepest(self) -> float:
        """The largest size of a slope."""
        steps = np.array(self.sides) * self.jumps
        return float(max(abs(steps[self._within(place)].sum()) for place in range(len(steps))))

    def _within(self, place: int) -> list[int]:
        """Return the knots on the side of one, up to it."""
        return [other for other in range(place + 1) if self.sides[other] == self.sides[place]]

    @property
    def share(self) -> float:
        """How many knots a start pre-activation is beyond, on average: of ReLU the share of pairs that fire."""
        return sum(_below(-threshold) for threshold in self.thresholds)


def choose_activation(given: Any, shift: float | None) -> tuple[float, Any, Pieces | None]:
    """Return shift, activation and its pieces, checked; None for ``"relu"`` and ``"max"``, which need no pieces.

    The shift of knots of one's own, which are given without one, is the least threshold, at least 0.
    """
    if isinstance(given, Activation):
        pieces = Pieces.of(*given)
        least = max(min(pieces.thresholds), 0.0)
        if shift not in (None, least):
            raise InvalidInput(
                f"an Activation says where its knots are; got shift={shift:g} as well. Drop shift, or move the knots."
            )
        return least, given, pieces
    if shift is not None and isinstance(given, str) and given in get_args(ActivationName):
        return shift, given, None if given in _PLAIN else Pieces.of(*_named(given, shift))
    names = ", ".join(map(repr, get_args(ActivationName)))
    raise InvalidInput(f"activation must be {names} or an Activation(knots=..., slopes=...); got {given!r}.")


def curve_of(activation: ActivationName | Activation, shift: float) -> Activation:
    """Return an activation, but for "relu" and "max", as a function of pre-activations."""
    return activation if isinstance(activation, Activation) else _named(activation, shift)


def tell(activation: Any) -> Any:
    """Return an activation as JSON."""
    if not isinstance(activation, Activation):
        return activation
    return {"knots": [*activation.knots], "slopes": [*activation.slopes]}


def told(stored: Any) -> Any:
    """Return the activation that a file tells of; it is not checked yet unless it has knots."""
    if isinstance(stored, dict):
        if set(stored) != {"knots", "slopes"}:
            raise ValueError(f"its activation is {str(stored)[:40]!r}")
        return Activation(stored["knots"], stored["slopes"])
    return stored


def _named(name: str, shift: float) -> Activation:
    knots, slopes = {"hat": ([shift, shift + _HAT / 2, shift + _HAT], [0.0, 1.0, -1.0, 0.0])}[name]
    return Activation(knots, slopes)


def _background(knots: Sequence[float], slopes: Sequence[float]) -> int:
    """Return the place of the likeliest piece; of those that are as likely a flat one, or else the first."""
    shares = [_below(high) - _below(low) for low, high in pairwise([-math.inf, *knots, math.inf])]
    likeliest = [place for place, share in enumerate(shares) if share >= max(shares) - 1e-9]
    return min(likeliest, key=lambda place: slopes[place] != 0)


def _below(z: float) -> float:
    """Return P(Z < z) for Z ~ N(0, 1)."""
    return 0.5 * math.erfc(-z / math.sqrt(2))


def _check_numbers(values: Any, name: str) -> list[float]:
    if isinstance(values, str | bytes) or not isinstance(values, Sequence | np.ndarray):
        raise InvalidInput(f"{name} must be a list of numbers; got {values!r}.")
    found = [check_number(one, f"each of the {name}") for one in values]
    for one in found:
        if abs(one) > _LARGEST:
            raise InvalidInput(f"{name} must be between {-_LARGEST:g} and {_LARGEST:g}; got {one:g}.")
    return [float(one) + 0.0 for one in found]
