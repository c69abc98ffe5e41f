"""Dense Gauss-Newton in the strongest form we know: all activations, but the Gram matrix from the firing pairs.

Only the forward pass of the dense method is left, so this comparison shows what the search alone is worth. Of
cross-entropy it takes the steps of squares towards outputs at which the goal is reached, as ours do.
"""

from __future__ import annotations

from functools import partial

from benchmarks.methods._newton import gauss_newton, solve_gram_of_pairs

LABEL, COST, ORDER, REQUIRES = "dense passes, Gram from firing pairs", "mnd + n³", "second", ()
CASES = ("race", "cross_entropy", "width", "problems")
run = partial(gauss_newton, solve=solve_gram_of_pairs)
