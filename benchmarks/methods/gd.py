"""Gradient descent on all inputs, with momentum if that is better."""

from __future__ import annotations

from benchmarks.methods._descent import TUNING, descend, tune

__all__ = ["CASES", "COST", "LABEL", "ORDER", "REQUIRES", "TUNING", "run", "tune"]

LABEL, COST, ORDER, REQUIRES = "gradient descent", "mnd", "first", ()
CASES = ("race", "cross_entropy", "width", "problems")
run = descend
