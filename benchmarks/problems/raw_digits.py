"""Handwritten digits as they come: all inputs point the same way, so neurons fire on hundreds of them at once."""

from __future__ import annotations

from functools import partial

from benchmarks.problems import digits

LABEL = "digits, raw"
WHY = "high coherence: the Gram matrix is ill-conditioned, steps are large, most pairs flip"
SIZES = digits.SIZES
make = partial(digits.make, centre=False)
