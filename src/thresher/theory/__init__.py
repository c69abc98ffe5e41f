"""The paper's promises: the limit of infinite width, and both sides of every inequality."""

from thresher.theory.bounds import (
    check_drift,
    check_firing,
    check_first_outputs,
    check_gram,
    check_halving,
    check_kernel,
    check_sandwich,
    check_start_eigenvalue,
    check_widths,
)
from thresher.theory.costs import check_growth, check_inner_iterations, check_limit, check_search, check_sketch
from thresher.theory.kernel import (
    Limit,
    Separability,
    cofiring_probability,
    cofiring_slope,
    firing_probability,
    largest_shift,
    limit_kernel,
    limit_predictions,
    separability,
    smallest_eigenvalue,
)
from thresher.theory.statements import Facts, Statement, say_count

__all__ = [
    "Facts",
    "Limit",
    "Separability",
    "Statement",
    "check_drift",
    "check_firing",
    "check_first_outputs",
    "check_gram",
    "check_growth",
    "check_halving",
    "check_inner_iterations",
    "check_kernel",
    "check_limit",
    "check_sandwich",
    "check_search",
    "check_sketch",
    "check_start_eigenvalue",
    "check_widths",
    "cofiring_probability",
    "cofiring_slope",
    "firing_probability",
    "largest_shift",
    "limit_kernel",
    "limit_predictions",
    "say_count",
    "separability",
    "smallest_eigenvalue",
]
