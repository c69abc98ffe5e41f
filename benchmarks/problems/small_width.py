"""The random sphere with few neurons: a dense iteration takes a millisecond, and there is nothing to save."""

from __future__ import annotations

from benchmarks.problems import Size
from benchmarks.problems.sphere import make

__all__ = ["LABEL", "SIZES", "WHY", "make"]

LABEL = "small width"
WHY = "bookkeeping costs more than the products it saves"
SIZES = {"tiny": Size(20, 10, 2**9), "quick": Size(50, 20, 2**11), "full": Size(50, 20, 2**11)}
