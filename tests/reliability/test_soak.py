"""Random problems with audits: a small tier of `python -m reliability.soak`, and what it has found."""

import pytest
from reliability.soak import make_problem, try_one

from thresher import train

pytestmark = pytest.mark.thorough

# Seed and number of the soak's random problem. A change of its recipe makes these other problems: write them out then.
FOUND = {
    "coefficients of 1e12 that cancel, after a truncated solve": (2, 39),
    "coefficients of 1e11 that cancel, after a damped solve": (2, 44),
    "coefficients of 1e13 that cancel, all inputs on a line": (2, 170),
    "coefficients of 1e9 that cancel, targets of order one": (2, 212),
    "coefficients of 1e6 that cancel in many neurons": (2, 48),
}


@pytest.mark.parametrize("case", FOUND)
def test_found_by_the_soak(case):
    try_one(*FOUND[case], start="random")  # as they were when they were found


@pytest.mark.parametrize("number", range(12))
def test_random_problems(number):
    problem, options = make_problem(77, number)
    width = min(options["width"], 2000)
    train(problem, **options | {"width": width + width % 2}, audit=True)
