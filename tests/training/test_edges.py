"""Numbers at the edge: every training ends with a status that says what happened and what to change."""

import re
from inspect import signature

import numpy as np
import pytest

from thresher import InvalidInput, Problem, Status, to_sphere, train
from thresher.datasets import random_problem
from thresher.theory import firing_probability, largest_shift

X = random_problem(inputs=20, dimension=6).inputs
Y = np.random.default_rng(0).normal(size=20)


def nearly_twice():
    noise = np.random.default_rng(1).normal(size=X.shape)
    return Problem(np.vstack([X, to_sphere(X + 1e-7 * noise)]), np.r_[Y, -Y])


ENDS = {
    "targets of 1e-99": (Problem(X, 1e-99 * Y), {}, "converged"),
    "targets of 1e-99, twins": (Problem(X, 1e-99 * Y), {"twins": True}, "converged"),
    "targets of 1e-6": (Problem(X, 1e-6 * Y), {}, "converged"),
    "targets of 1e6": (Problem(X, 1e6 * Y), {}, "converged"),
    "targets of 1e19": (Problem(X, 1e19 * Y), {}, "converged"),
    "targets of 1e19 in float64": (Problem(X, 1e19 * Y), {"dtype": "float64", "tol": 1e-9}, "converged"),
    "constant targets": (Problem(X, np.ones(20)), {}, "converged"),
    "zero targets": (Problem(X, np.zeros(20)), {}, "converged"),
    "one input": (Problem(X[:1], Y[:1]), {}, "converged"),
    "one dimension": (Problem([[1.0]], [1.0]), {}, "converged"),
    "one dimension, opposite": (Problem([[1.0], [-1.0]], [1.0, 2.0]), {}, "converged"),
    "equal inputs and targets": (Problem(np.repeat(X[:1], 20, axis=0), np.ones(20)), {}, "converged"),
    "equal inputs, other targets": (
        Problem(np.repeat(X[:1], 20, axis=0), Y),
        {},
        r"stalled: The Gram matrix is singular \(solve: truncated, rank 1 of 20\)\. Inputs 0 and 1 are equal or nearly",
    ),
    "one dimension, equal": (
        Problem([[1.0], [1.0]], [1.0, 2.0]),
        {},
        "stalled: .*rank 1 of 2.* Inputs 0 and 1 are equal",
    ),
    "nearly equal inputs": (
        nearly_twice(),
        {},
        r"stalled: .*rank 20 of 40.* Inputs \d+ and \d+ are equal or nearly so",
    ),
    "one neuron": (
        Problem(X[:1], Y[:1]),
        {"width": 1},
        r"stalled: .*moved their neurons away: raise the width \(now 1\)",
    ),
    "too narrow": (Problem(X, Y), {"width": 3}, r"stalled: .*So narrow .*: raise the width \(now 3\) to 61 or more"),
    "too narrow to interpolate": (
        Problem(random_problem(inputs=60, dimension=2).inputs, random_problem(inputs=60, dimension=2).targets),
        {"width": 12, "shift": 0.0},
        r"stalled: .*(width \(now 12\)|width is 12|damping)",
    ),
    "nothing fires": (
        Problem(X, Y),
        {"shift": 40.0},
        r"stalled: No neuron fires on 20 of 20 inputs .*Lower the shift from 40 to 2\.\d+ or less",
    ),
    "few iterations": (Problem(X, Y), {"max_iterations": 1}, "out of iterations: .*Allow more with max_iterations"),
}


@pytest.mark.parametrize("case", ENDS)
def test_the_end_says_what_happened_and_what_to_change(case):
    problem, options, words = ENDS[case]
    result = train(problem, **{"width": 3000, **options}, audit=True)
    assert re.match(words, f"{result.status.value}: {result.message}"), result.message
    assert np.isfinite([record.loss for record in result.history]).all()


@pytest.mark.parametrize(
    "options", [{}, {"first_step": "gram"}, {"method": "paper"}, {"solver": "cg"}, {"activation": "max"}]
)
def test_the_shift_that_is_offered_works(options):
    stalled = train(Problem(X, Y), width=3000, shift=30.0, **options)
    offered = float(re.search(r"from 30 to ([\d.]+) or less", stalled.message).group(1))
    assert train(Problem(X, Y), width=3000, shift=offered, **options).status == Status.CONVERGED


def test_a_narrow_network_widened_as_told_has_no_silent_inputs():
    stalled = train(Problem(X, Y), width=3)
    width = int(re.search(r"to (\d+) or more", stalled.message).group(1))
    for seed in range(20):
        assert (
            "No neuron fires" not in train(Problem(X, Y), width=width, shift=0.0, seed=seed, max_iterations=0).message
        )
        assert largest_shift(width, 20) > 0


@pytest.mark.parametrize(("width", "inputs"), [(100, 1), (1000, 50), (10**6, 1000)])
def test_the_largest_shift_leaves_no_input_silent(width, inputs):
    p = firing_probability(largest_shift(width, inputs))
    assert inputs * (1 - p) ** width == pytest.approx(0.01, rel=0.2)


def test_a_shift_beyond_all_numbers_is_refused():
    with pytest.raises(InvalidInput, match=r"shift must be at most 1e\+06.* got 1e\+300\. The paper's is 1\.96"):
        train(Problem(X, Y), width=3000, shift=1e300)


@pytest.mark.parametrize("solver", ["cholesky", "cg", "pivots", "sketched"])
@pytest.mark.parametrize("options", [{}, {"damping": 0.1}])
def test_a_shift_at_which_the_limit_kernel_vanishes_stalls(solver, options):
    result = train(Problem(X, Y), width=50, shift=100.0, solver=solver, **options)
    assert result.status == Status.STALLED and "o neuron fires" in result.message


class TestNames:
    X, y = random_problem(inputs=6, dimension=3).inputs, np.arange(6.0)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"widht": 100}, r"train has no option 'widht'; it has width, .* Did you mean width\?"),
            (
                {"width": 100, "loss": "mse"},
                r"loss must be one of 'squared_error', .*, or an object with .*; got 'mse'",
            ),
            ({"width": 100, "learning_rate": 0.1}, "no option 'learning_rate'.*Gauss and Newton"),
            (
                {"width": 100, "activation": "tanh"},
                "activation must be 'relu', 'max', .* or an Activation.*; got 'tanh'",
            ),
            ({}, "width must be given"),
        ],
    )
    def test_options_that_there_are_not(self, options, message):
        for y in (self.y, self.y[:, None]):
            with pytest.raises(InvalidInput, match=message):
                train(self.X, y, **options)

    def test_columns_that_cannot_be_targets(self):
        for y, message in (
            (np.zeros((6, 0)), "targets must not be empty"),
            (np.zeros((5, 2)), "there are 6 inputs and 5 targets"),
            (np.full((6, 2), np.nan), "targets must be finite; row 0, column 0 is nan"),
            ([["a", "b"]] * 6, "targets must be numbers"),
            (np.full((6, 2), 1e30), "the largest target must be between"),
            (np.zeros((6, 2, 2)), "targets must have shape"),
        ):
            with pytest.raises(InvalidInput, match=message):
                train(self.X, y, width=100)
        with pytest.raises(InvalidInput, match=r"got shape \(6, 2\).*train\(X, Y\)"):
            Problem(self.X, np.zeros((6, 2)))
        with pytest.raises(InvalidInput, match="one rectangular array"):
            train(self.X, [[0.0], [1.0, 2.0]] * 3, width=100)

    def test_the_signature_is_that_of_train(self):
        assert list(signature(train).parameters)[:3] == ["X", "y", "width"]
        assert train(X=self.X, y=self.y, width=200).status == "converged"
