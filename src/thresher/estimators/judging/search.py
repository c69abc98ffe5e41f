"""The search for bias and shift of a kernel, with any judge."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from thresher.estimators.interfaces import Judge
from thresher.estimators.kernels.kernel import SphereKernel

__all__ = ["SHIFTS", "Choice", "Tried", "search"]

# Tried one after the other: first the biases with the first shift, then the other shifts with the best bias.
SHIFTS = (0.5, 0.0, 1.0, 1.5)
_WORTH = 0.99  # share of the favourite's error that another must stay below: kernels of networks are noisy


class Tried(NamedTuple):
    """A kernel that was tried, its best ridge, and its error."""

    bias: float
    shift: float
    ridge: float
    error: float


class Choice(NamedTuple):
    """The kernel that was chosen, its ridge and its error, and all that was tried with the same metric."""

    kernel: SphereKernel
    ridge: float
    error: float
    tried: list[Tried]


def search(
    judge: Judge,
    kernel: SphereKernel,
    *,
    biases: Sequence[float],
    shifts: Sequence[float],
    ridge: float | None,
    guess: float,
    favourite: SphereKernel | None = None,
    enough: float = 0.0,
    known: Sequence[Tried] = (),
) -> Choice:
    """Return the best bias, shift and ridge: the biases with the first shift, then other shifts with the best bias.

    Lists of one value fix it; a ridge of None is chosen, from a guess on. The bias and shift of a favourite are tried
    first, and kept unless others are better by a hundredth; no others are tried if its error is ``enough``. What is
    ``known`` of the same kernels is not tried again.

    Cost: that of the judge for each kernel tried.
    """
    tried: list[Tried] = []
    before = {one[:2]: one for one in known}

    def best() -> Tried:
        least = min(tried, key=lambda one: one.error)
        return tried[0] if favourite is not None and least.error > _WORTH * tried[0].error else least

    def attempt(bias: float, shift: float) -> None:
        near, rival = (best().ridge, best().error) if tried else (guess, math.inf)
        if favourite is not None and tried:
            rival = min(rival, _WORTH * tried[0].error)
        one = before.get((bias, shift))
        if one is None:
            judged = judge.evaluate(kernel._replace(bias=bias, shift=shift), ridge=ridge, guess=near, rival=rival)
            one = Tried(bias, shift, *((near, math.inf) if judged is None else (judged.ridge, judged.error)))
        tried.append(one)

    def chosen(one: Tried) -> Choice:
        return Choice(kernel._replace(bias=one.bias, shift=one.shift), one.ridge, one.error, tried)

    if favourite is not None:
        biases, shifts = _first(favourite.bias, biases), _first(favourite.shift, shifts)
    for bias in biases:
        attempt(bias, shifts[0])
        if favourite is not None and tried[0].error <= enough:
            return chosen(tried[0])
    middle = best().bias
    for shift in shifts[1:]:
        attempt(middle, shift)
    return chosen(best())


def _first(value: float, values: Sequence[float]) -> list[float]:
    return [value, *(other for other in values if other != value)]
