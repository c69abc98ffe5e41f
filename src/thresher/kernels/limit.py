"""The limit kernel, entry by entry, from a table of the probability that two neurons fire together."""

from __future__ import annotations

import math

from thresher.kernels import compiled

__all__ = ["interpolate"]


@compiled
def interpolate(products, values, slopes, kernel):
    """Write rho P(rho) to ``kernel`` (k, n) for inner products rho (k, n).

    ``values`` and ``slopes`` (N + 1,) are P and its derivative by the angle arccos(rho), times the distance of two
    nodes, at N + 1 equidistant angles from 0 to pi; between them P is the cubic that agrees with both (Hermite).
    """
    last = values.size - 1
    for i in range(products.shape[0]):
        for j in range(products.shape[1]):
            rho = min(max(products[i, j], -1.0), 1.0)
            place = math.acos(rho) * (last / math.pi)
            node = min(int(place), last - 1)
            t = place - node
            rest = 1.0 - t
            both = rest * rest * ((1.0 + 2.0 * t) * values[node] + t * slopes[node])
            both += t * t * ((1.0 + 2.0 * rest) * values[node + 1] - rest * slopes[node + 1])
            kernel[i, j] = rho * max(both, 0.0)
