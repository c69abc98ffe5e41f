"""The paper's method with our corrections: n search trees over the neurons, regression with the paper's own sketch."""

from __future__ import annotations

from functools import partial

from benchmarks.methods import ours

LABEL, COST, ORDER, REQUIRES = "the paper's trees", "moved neurons · n(d + log m)", "second", ()
CASES = ("race", "width")
run = partial(ours.run, method="paper")
