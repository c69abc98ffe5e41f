"""What a seed gives: it depends on the problem alone, never on what searches, computes or how precisely."""

import pytest

from thresher import InvalidInput, Problem, train
from thresher.datasets import random_problem
from thresher.model.start import Start
from thresher.training import options as training_options
from thresher.training.options import Setup
from thresher.training.train import complete

COLUMNS = [
    (1, "random"),
    (15, "random"),
    (16, "hadamard"),
    (784, "hadamard"),
    (2**15, "hadamard"),
    (2**15 + 1, "random"),
]
EVERYTHING = [
    {},
    *({"index": index} for index in ("certified", "scan", "tournament", "dense")),
    {"dtype": "float64"},
    {"engine": "ray"},
    {"first_step": "gram"},
    {"solver": "sketched"},
    {"loss": "huber"},
    {"activation": "hat"},
    {"activation": "max"},
    {"shift": 5.0},  # few neurons fire on anything
    {"audit": True, "threads": 1},
]


def start_of(columns, **given):
    problem = random_problem(inputs=3, dimension=columns)
    return Setup.of([problem], complete({"width": 2000, "shift": 1.0, "seed": 4} | given)).settings.start


@pytest.mark.parametrize("given", EVERYTHING, ids=str)
@pytest.mark.parametrize(("columns", "rows"), COLUMNS)
def test_rows_depend_on_the_columns_alone(columns, rows, given):
    start = start_of(columns, **given)
    assert start == Start(4, columns, True, rows)
    assert start_of(columns, **given, start="auto", twins="auto") == start


@pytest.mark.parametrize(("columns", "rows"), COLUMNS)
def test_a_gpu_has_the_rows_of_the_processor(columns, rows):
    problem, given = random_problem(inputs=3, dimension=columns), complete({"width": 2000})
    on_gpu, here = (training_options._check_settings([problem], given, on_gpu=on_gpu) for on_gpu in (True, False))
    assert on_gpu == here
    assert here.start.sequence == rows


@pytest.mark.parametrize("columns", [15, 16])
def test_the_paper_has_gaussian_rows_and_no_twins(columns):
    assert start_of(columns, method="paper") == Start(4, columns, False, "random")
    asked = start_of(columns, method="paper", start="hadamard", twins=True)
    assert asked == Start(4, columns, True, "hadamard")


@pytest.mark.parametrize(("width", "twins"), [(1, False), (2, True), (2001, False), (2e3, True), (2**62, True)])
def test_neurons_are_twins_where_the_width_is_even(width, twins):
    assert start_of(3, width=width).twins == start_of(3, width=width, twins="auto").twins == twins
    assert not start_of(3, width=width, twins=False).twins


def test_what_twins_may_be_is_said():
    with pytest.raises(InvalidInput, match="twins must be True, False or 'auto'; got 'yes'"):
        start_of(3, twins="yes")
    with pytest.raises(InvalidInput, match=r"width must be even; got 2001\. Use width=2002"):
        start_of(3, width=2001, twins=True)
    with pytest.raises(InvalidInput, match="width must be a whole number of at least 1; got 'wide'"):
        start_of(3, width="wide")


def test_the_network_is_0_at_the_start():
    problem = random_problem(inputs=20, dimension=5)
    outputs = {
        twins: train(problem, width=1000, twins=twins, max_iterations=0).network.predict(problem.inputs)
        for twins in ("auto", False)
    }
    assert not outputs["auto"].any()
    assert outputs[False].all()


@pytest.mark.parametrize("columns", [15, 16])
@pytest.mark.parametrize("start", ["random", "hadamard", "poisson"])
def test_rows_that_are_asked_for_are_taken(columns, start):
    assert start_of(columns, start=start).kind == start


@pytest.mark.parametrize("index", ["certified", "scan", "tournament", "dense"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_index_trains_the_same_network(index, dtype):
    problem = random_problem(inputs=20, dimension=16)
    given = {"width": 3000, "shift": 1.5, "max_iterations": 3}
    here = train(problem, **given, index=index, dtype=dtype, audit=True)
    there = train(Problem(problem.inputs, problem.targets), **given, index="scan", dtype="float64")
    assert [record.firing for record in here.history] == [record.firing for record in there.history]
