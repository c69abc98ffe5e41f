"""As many inputs as neurons, or nearly: the n x n solve is everything, and the search has little to search."""

from __future__ import annotations

from benchmarks.problems import Size
from benchmarks.problems.sphere import make

__all__ = ["LABEL", "SIZES", "WHY", "make"]

LABEL = "many inputs"
WHY = "n³ outweighs the width, and every neuron fires on many inputs"
SIZES = {"tiny": Size(60, 10, 2**9), "quick": Size(1000, 50, 2**12), "full": Size(4000, 50, 2**14)}
