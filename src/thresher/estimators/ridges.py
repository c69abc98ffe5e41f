"""The ridges that every search chooses from, and how a search goes on beyond the first few that it tried."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

__all__ = ["RIDGES", "best_ridge", "nearest", "ridge_beyond", "ridges_near"]

# Half powers of ten, relative to the diagonal of the kernel. Below 1e-5 single precision is not enough. A fit to n rows
# with a ridge r has less than n / r degrees of freedom: with the largest, pure noise adds less than a thousandth of
# itself to the error.
RIDGES = tuple(10 ** (power / 2) for power in range(-10, 7))
_ALIKE = 1.01  # times the least error: errors of solves that stop early differ by as much by chance


def nearest(guess: float) -> int:
    """Return the place of the ridge nearest to a guess."""
    return min(max(round(2 * math.log10(guess)) + 10, 0), len(RIDGES) - 1)


def ridges_near(guess: float) -> list[float]:
    """Return three ridges around a guess, half a power of ten apart."""
    middle = min(max(nearest(guess), 1), len(RIDGES) - 2)
    return list(RIDGES[middle - 1 : middle + 2])


def ridge_beyond(best: float, tried: Iterable[float]) -> float | None:
    """Return the ridge next to the best of several, if that is the least or the largest of them; else None."""
    least, largest = min(tried), max(tried)
    if least == largest or least < best < largest:
        return None
    place = nearest(best) + (1 if best == largest else -1)
    return RIDGES[place] if 0 <= place < len(RIDGES) else None


def best_ridge(errors: dict[float, float], attempt: Callable[[float], float]) -> float:
    """Return the ridge of the least error. While it is at an end of those tried, the one beyond is tried as well.

    ``attempt`` returns the error with a ridge; ``errors``, of the ridges tried, gets it. A single ridge is returned.
    Of equal errors the largest ridge is taken: errors are infinite where the kernel is not positive. Below the least
    ridge of all there is none to try; where errors hardly differ from there on, as those of fits that follow noise do,
    the search goes on upwards.
    """
    while True:
        best = min(errors, key=lambda ridge: (errors[ridge], -ridge))
        largest = max(errors)
        flat = best == RIDGES[0] < largest and errors[largest] < _ALIKE * errors[best]
        more = ridge_beyond(largest if flat else best, errors)
        if more is None:
            return best
        errors[more] = attempt(more)
