"""Which pairs of twins fire, of those that have hardly moved, and which have to be looked at closely."""

from __future__ import annotations

from thresher.loops import compiled

__all__ = ["divide"]


@compiled
def divide(values, shift, reach, fires, rows, pairs):
    """Write to ``fires`` (k, n) 1 where values (k, n) are above the shift by more than reach (n,), 0 elsewhere.

    Places that are as close to the shift as that are written to ``rows`` and ``pairs``, as many as there is room for.
    Return how many there are.
    """
    found = 0
    for i in range(values.shape[0]):
        close = 0
        for r in range(values.shape[1]):
            above = values[i, r] - shift
            fires[i, r] = 1.0 if above > reach[r] else 0.0
            close += 1 if abs(above) <= reach[r] else 0
        if close == 0:
            continue
        for r in range(values.shape[1]):
            if abs(values[i, r] - shift) <= reach[r]:
                if found < rows.size:
                    rows[found] = i
                    pairs[found] = r
                found += 1
    return found
