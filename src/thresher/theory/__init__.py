"""The paper's promises: the limit of infinite width, and both sides of every inequality."""

from thresher.theory.kernel import (
    Limit,
    cofiring_probability,
    firing_probability,
    largest_shift,
    limit_kernel,
    limit_slopes,
    separability,
    smallest_eigenvalue,
)
from thresher.theory.parts import Parts, Shares
from thresher.theory.statements import Facts, Statement, say_count

__all__ = [
    "Facts",
    "Limit",
    "Parts",
    "Shares",
    "Statement",
    "cofiring_probability",
    "firing_probability",
    "largest_shift",
    "limit_kernel",
    "limit_slopes",
    "say_count",
    "separability",
    "smallest_eigenvalue",
]
