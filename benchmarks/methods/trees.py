"""The paper's trees in their best form: a sketch as small as works in practice, preconditioning conjugate gradient."""

from __future__ import annotations

from functools import partial

from benchmarks.methods import ours
from thresher.algebra import ConjugateGradient, SketchQR

LABEL, COST, ORDER, REQUIRES = "the paper's trees", "moved neurons · n(d + log m)", "second", ()
CASES = ("race", "width")
run = partial(ours.run, index="tournament", first_step="gram", solver=ConjugateGradient(preconditioner=SketchQR()))
