"""Handwritten digits as they come: all inputs point the same way, so neurons fire on hundreds of them at once."""

from __future__ import annotations

from functools import partial

from benchmarks.problems import Size, digits

LABEL = "digits, raw"
WHY = "high coherence: the Gram matrix is ill-conditioned, steps are large, most pairs flip"
SIZES = {"tiny": Size(30, 64, 2**10), "quick": Size(200, 64, 2**13), "full": Size(1000, 64, 2**16)}
make = partial(digits.make, centre=False)
