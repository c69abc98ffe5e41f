"""thresher with start rows of a Walsh-Hadamard transform of random signs: products with them take additions alone."""

from __future__ import annotations

from functools import partial

from benchmarks.methods import ours

LABEL, COST, ORDER, REQUIRES = "thresher, Hadamard rows", "n√m · residual + n³, after one mn log d", "second", ()
CASES = ("race", "width", "problems")
run = partial(ours.run, start="hadamard")
