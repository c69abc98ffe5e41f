"""The paper's promises: the limit of infinite width, and both sides of every inequality."""

from thresher.theory.kernel import (
    Limit,
    cofiring_probability,
    cofiring_slope,
    firing_probability,
    largest_shift,
    limit_kernel,
    separability,
    smallest_eigenvalue,
)
from thresher.theory.statements import Facts, Statement, say_count

__all__ = [
    "Facts",
    "Limit",
    "Statement",
    "cofiring_probability",
    "cofiring_slope",
    "firing_probability",
    "largest_shift",
    "limit_kernel",
    "say_count",
    "separability",
    "smallest_eigenvalue",
]
