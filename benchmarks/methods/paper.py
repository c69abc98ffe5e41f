"""The paper's method as written, with our corrections: its trees, its iteration, a sketch of the size it proves."""

from __future__ import annotations

from functools import partial

from benchmarks.methods import ours

LABEL, COST, ORDER, REQUIRES = "the paper, to the letter", "moved neurons · n(d + log m)", "second", ()
CASES = ("race",)
run = partial(ours.run, method="paper")
