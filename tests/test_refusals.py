"""Refusals: what cannot be used is refused by name, with the fault and the remedy; what can be used is left alone."""

import math
import sys

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from properties import examples

import thresher
from thresher import (
    InvalidInput,
    MemoryRefused,
    NotAvailable,
    Problem,
    ThresherError,
    default_shift,
    to_sphere,
    train,
)
from thresher.algebra import SKETCHES, SOLVERS, Cholesky, Sketched, SketchQR
from thresher.devices import DEVICES
from thresher.shards import SHARDS, Scan

INPUTS = np.eye(3)
TARGETS = np.array([1.0, -1.0, 0.5])
WHOLE = "must be a whole number of at least"
NAN, INF = math.nan, math.inf


def replaced(array, place, value):
    changed = array.copy()
    changed[place] = value
    return changed


# Data

BAD_INPUTS = {
    "nan": (replaced(INPUTS, (1, 2), NAN), r"inputs must be finite; row 1, column 2 is nan\. Remove or impute"),
    "inf": (replaced(INPUTS, (2, 0), INF), r"inputs must be finite; row 2, column 0 is inf\. Remove or impute"),
    "minus inf": (replaced(INPUTS, (0, 1), -INF), r"row 0, column 1 is -inf"),
    "one dimension": (INPUTS[0], r"inputs must have shape \(n, d\); got shape \(3,\)"),
    "three dimensions": (INPUTS[None], r"inputs must have shape \(n, d\); got shape \(1, 3, 3\)"),
    "a number": (1.0, r"inputs must have shape \(n, d\); got shape \(\)"),
    "no rows": (np.empty((0, 3)), r"inputs must not be empty; got shape \(0, 3\)"),
    "no columns": (np.empty((3, 0)), r"inputs must not be empty; got shape \(3, 0\)"),
    "an empty list": ([], r"inputs must have shape \(n, d\)"),
    "not unit": (replaced(INPUTS, (2, 2), 2.031), r"unit norm; row 2 has norm 2\.031\. Use thresher\.to_sphere\(X\)"),
    "zero row": (replaced(INPUTS, (1, 1), 0.0), r"unit norm; row 1 has norm 0\. Use thresher\.to_sphere\(X\)"),
    "slightly off": (INPUTS * (1 + 3e-5), r"unit norm; row 0 has norm"),
    "strings": ([["1", "0", "0"]] * 3, r"inputs must be numbers; got values of type <U1\. Encode them first"),
    "objects": (INPUTS.astype(object), r"inputs must be numbers; got values of type object\. Encode them first"),
    "nothing": (None, r"inputs must be numbers; got values of type object"),
    "dates": (np.zeros((3, 3), "datetime64[D]"), r"inputs must be numbers; got values of type datetime64"),
    "ragged": ([[1.0, 0.0], [1.0]], r"inputs must be one rectangular array of numbers"),
    "complex": (INPUTS.astype(complex), r"inputs must be real; got complex numbers\. Pass real and imaginary parts"),
    "masked": (np.ma.array(INPUTS, mask=INPUTS > 0), r"inputs"),
}

BAD_TARGETS = {
    "nan": ([1.0, NAN, 0.0], r"targets must be finite; row 1 is nan\. Remove or impute"),
    "inf": ([1.0, 0.0, INF], r"targets must be finite; row 2 is inf\. Remove or impute"),
    "too large": (
        [1e21, 0.0, 1.0],
        r"largest target must be between 1e-100 and 1e\+20 in size, or 0; it is 1e\+21\. Rescale",
    ),
    "too small": ([1e-200, 0.0, 0.0], r"largest target must be between .*; it is 1e-200\. Rescale the targets"),
    "two dimensions": (TARGETS[:, None], r"targets must have shape \(n,\); got shape \(3, 1\)"),
    "a number": (1.0, r"targets must have shape \(n,\); got shape \(\)"),
    "empty": ([], r"targets must not be empty; got shape \(0,\)"),
    "too few": (TARGETS[:2], r"targets must have one value per input; there are 3 inputs and 2 targets"),
    "too many": (np.zeros(4), r"targets must have one value per input; there are 3 inputs and 4 targets"),
    "strings": (["a", "b", "c"], r"targets must be numbers; got values of type <U1\. Encode them first"),
    "objects": (TARGETS.astype(object), r"targets must be numbers; got values of type object"),
    "complex": (TARGETS + 1j, r"targets must be real; got complex numbers"),
    "ragged": ([[1.0], [1.0, 2.0], 3.0], r"targets must be one rectangular array of numbers"),
}


@pytest.mark.parametrize("case", BAD_INPUTS)
def test_inputs(case):
    inputs, message = BAD_INPUTS[case]
    with pytest.raises(InvalidInput, match=message):
        Problem(inputs, TARGETS)


@pytest.mark.parametrize("case", BAD_TARGETS)
def test_targets(case):
    targets, message = BAD_TARGETS[case]
    with pytest.raises(InvalidInput, match=message):
        Problem(INPUTS, targets)


@settings(deadline=None, max_examples=examples(40))
@given(data=st.data(), bad=st.sampled_from([NAN, INF, -INF]))
def test_the_first_bad_value_is_named(data, bad):
    n, d = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 6))
    row, column = data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, d - 1))
    inputs = to_sphere(np.ones((n, d)))
    inputs[row, column] = bad
    with pytest.raises(InvalidInput, match=f"row {row}, column {column} is {bad}"):
        Problem(inputs, np.zeros(n))
    with pytest.raises(InvalidInput, match=f"row {row} is {bad}"):
        Problem(to_sphere(np.ones((n, d))), replaced(np.zeros(n), row, bad))


# Settings of a run

BAD_SETTINGS = {
    "width 0": ({"width": 0}, r"width must be at least 1; got 0"),
    "width negative": ({"width": -1}, r"width must be at least 1; got -1"),
    "width half": ({"width": 1.5}, rf"width {WHOLE} 1; got 1\.5"),
    "width string": ({"width": "x"}, rf"width {WHOLE} 1; got 'x'"),
    "width bool": ({"width": True}, rf"width {WHOLE} 1; got True"),
    "width none": ({"width": None}, rf"width {WHOLE} 1; got None"),
    "width nan": ({"width": NAN}, rf"width {WHOLE} 1; got nan"),
    "width inf": ({"width": INF}, rf"width {WHOLE} 1; got inf"),
    "width huge": ({"width": 2**63}, r"width must be at most \d+; got 9223372036854775808"),
    "tol 0": ({"tol": 0}, r"tol must be above 0; got 0"),
    "tol negative": ({"tol": -1e-3}, r"tol must be above 0; got -0\.001"),
    "tol nan": ({"tol": NAN}, r"tol must be a finite number; got nan"),
    "tol inf": ({"tol": INF}, r"tol must be a finite number; got inf"),
    "tol string": ({"tol": "small"}, r"tol must be a number; got 'small'"),
    "tol bool": ({"tol": True}, r"tol must be a number; got True"),
    "tol beyond floats": ({"tol": 10**400}, r"tol must be a finite number"),
    "seed negative": ({"seed": -1}, r"seed must be at least 0; got -1"),
    "seed huge": ({"seed": 2**64}, r"seed must be at most 18446744073709551615; got 18446744073709551616"),
    "seed half": ({"seed": 0.5}, rf"seed {WHOLE} 0; got 0\.5"),
    "seed none": ({"seed": None}, rf"seed {WHOLE} 0; got None"),
    "shift negative": ({"shift": -0.1}, r"shift must be at least 0; got -0\.1"),
    "shift nan": ({"shift": NAN}, r"shift must be a finite number; got nan"),
    "shift string": ({"shift": "auto"}, r"shift must be a number; got 'auto'"),
    "twins odd": ({"twins": True, "width": 7}, r"width must be even; got 7\. Use width=8"),
    "activation": ({"activation": "tanh"}, r"activation must be 'relu', 'max', .* or an Activation.*; got 'tanh'"),
    "activation none": ({"activation": None}, r"activation must be 'relu', 'max', .* or an Activation.*; got None"),
    "dtype": ({"dtype": "float16"}, r"dtype must be 'float32' or 'float64'; got 'float16'"),
    "dtype integer": ({"dtype": "int32"}, r"dtype must be 'float32' or 'float64'; got 'int32'"),
    "dtype nonsense": ({"dtype": "single precision"}, r"dtype must be 'float32' or 'float64'"),
    "threads 0": ({"threads": 0}, r"threads must be at least 1; got 0"),
    "threads negative": ({"threads": -2}, r"threads must be at least 1; got -2"),
    "threads half": ({"threads": 1.5}, rf"threads {WHOLE} 1; got 1\.5"),
    "memory 0": ({"memory_budget": 0}, r"memory_budget must be at least 1; got 0"),
    "memory string": ({"memory_budget": "4G"}, rf"memory_budget {WHOLE} 1; got '4G'"),
    "iterations negative": ({"max_iterations": -1}, r"max_iterations must be at least 0; got -1"),
    "iterations half": ({"max_iterations": 0.5}, rf"max_iterations {WHOLE} 0; got 0\.5"),
    "damping negative": ({"damping": -1.0}, r"damping must be at least 0; got -1"),
    "damping nan": ({"damping": NAN}, r"damping must be a finite number; got nan"),
    "index": ({"index": "hash"}, r"index must be one of .*'scan'.*'tournament'.*; got 'hash'"),
    "index class": ({"index": Scan}, r"index must be one of .*'scan'"),
    "index list": ({"index": ["scan"]}, r"index must be one of .*'scan'"),
    "solver": ({"solver": "lu"}, r"solver must be one of .*'cholesky'.*'auto'.*; got 'lu'"),
    "solver number": ({"solver": 3}, r"solver must be a name or an object with a prepare method; got 3"),
    "solver class": ({"solver": Cholesky}, r"solver must be a name or an object"),
    "engine": ({"engine": "mpi"}, r"engine must be 'local', 'ray' or .*; got 'mpi'"),
    "engine gpu": ({"engine": "gpu"}, r"engine must be 'local', 'ray' or .*; got 'gpu'"),
    "method": ({"method": "adam"}, r"method must be 'paper' or None; got 'adam'"),
    "paper and scan": (
        {"method": "paper", "index": "scan"},
        r"method='paper' means index='tournament'; got index='scan' as well\. Drop one",
    ),
    "paper and cholesky": (
        {"method": "paper", "solver": "cholesky"},
        r"method='paper' means solver='sketched'; got solver='cholesky' as well\. Drop one",
    ),
    "paper and a solver": ({"method": "paper", "solver": Cholesky()}, r"got solver=Cholesky\(\) as well\. Drop one"),
    "first step": ({"first_step": "newton"}, r"first_step must be 'limit' or 'gram'; got 'newton'"),
    "audit": ({"audit": "yes"}, r"audit must be True or False; got 'yes'"),
    "twins": ({"twins": "yes"}, r"twins must be True, False or 'auto'; got 'yes'"),
    "targets twice": ({"y": TARGETS}, r"a Problem has its own targets; y was given as well\. Drop one"),
    "gpu in float64": (
        {"device": "cuda", "dtype": "float64"},
        r"device='cuda' works in float32, .* got dtype=",
    ),
    "gpu and scan": ({"device": "cuda", "index": "scan"}, r"device='cuda' searches with .*; got 'scan'"),
    "callbacks alone": ({"callbacks": print}, r"callbacks"),
    "callbacks number": ({"callbacks": [3]}, r"callback"),
}


@pytest.mark.parametrize("case", BAD_SETTINGS)
def test_settings(case):
    changed, message = BAD_SETTINGS[case]
    with pytest.raises(InvalidInput, match=message):
        train(Problem(INPUTS, TARGETS), **{"width": 16, **changed})


@pytest.mark.parametrize("tol", [1e-300, 1e-310, 5e-324])
def test_tiny_tolerances_are_usable(tol):
    problem = Problem(INPUTS, TARGETS)
    assert train(problem, width=64, shift=0.1, tol=tol, dtype="float64").history[-1].residual < 1e-5
    with pytest.raises(InvalidInput, match=r"beyond float32, .* Use dtype='float64'"):
        train(problem, width=64, shift=0.1, tol=tol)


@pytest.mark.parametrize("problem", [None, (INPUTS, TARGETS), INPUTS, "digits"], ids=["none", "pair", "array", "name"])
def test_problem_of_another_type(problem):
    with pytest.raises(InvalidInput, match=rf"expected a Problem, or X and y; got {type(problem).__name__} alone"):
        train(problem, width=16)


AVAILABLE = {"index": SHARDS, "engine": ("local", "ray"), "device": DEVICES, "solver": (*SOLVERS, "pivots", "auto")}


def test_a_cluster_without_ray_is_refused_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.delitem(sys.modules, "thresher.engines.ray_cluster", raising=False)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(NotAvailable, match=r"needs Ray, which is not installed. Run: pip install 'thresher-ml\[ray\]'"):
        train(Problem(INPUTS, TARGETS), width=16, engine="ray")


@pytest.mark.parametrize("kind", AVAILABLE)
@settings(deadline=None, max_examples=examples(20))
@given(name=st.text(max_size=12))
def test_unknown_names_list_what_is_available(kind, name):
    assume(name not in AVAILABLE[kind])
    with pytest.raises(InvalidInput) as refusal:
        train(Problem(INPUTS, TARGETS), width=16, **{kind: name})
    for available in AVAILABLE[kind]:
        assert repr(available) in str(refusal.value)
    assert repr(name) in str(refusal.value)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"memory_budget": 1000},
            r"training 1,000 neurons on 3 inputs .* needs about \d+\.\d MiB, but 1000 B may be taken\. ",
        ),
        ({"width": 2**45}, r"training 35,184,372,088,832 neurons .* needs about [\d.,]+ TiB, but .* may be taken\. "),
    ],
    ids=["budget", "machine"],
)
def test_memory(changed, message):
    with pytest.raises(
        MemoryRefused, match=message + r"Use index='certified', a smaller width or fewer inputs"
    ) as refusal:
        train(Problem(INPUTS, TARGETS), **{"width": 1000, "index": "tournament", **changed})
    assert isinstance(refusal.value, MemoryError)


def test_refusals_come_before_any_work():
    def told(record):
        raise AssertionError("work was done")

    for changed, _ in BAD_SETTINGS.values():
        with pytest.raises(InvalidInput):
            train(Problem(INPUTS, TARGETS), **{"width": 16, "callbacks": [told], **changed})


def test_refusals_are_of_one_family():
    for kind, builtin in [
        (InvalidInput, ValueError),
        (NotAvailable, NotImplementedError),
        (MemoryRefused, MemoryError),
    ]:
        assert issubclass(kind, ThresherError)
        assert issubclass(kind, builtin)
        assert getattr(thresher, kind.__name__) is kind


# Parts

BAD_PARTS = {
    "sketch": (lambda: SketchQR(sketch="fft"), rf"sketch must be one of {', '.join(SKETCHES)}; got 'fft'"),
    "oversampling": (lambda: SketchQR(oversampling=0.5), r"oversampling must be at least 2; got 0\.5"),
    "oversampling nan": (lambda: SketchQR(oversampling=NAN), r"oversampling must be a finite number; got nan"),
    "epsilon": (lambda: SketchQR(oversampling=None, epsilon=0.0).rows(5), r"epsilon"),
    "alpha_bar 0": (lambda: default_shift(100, alpha_bar=0), r"alpha_bar must be above 0 and at most 1; got 0"),
    "alpha_bar above 1": (
        lambda: default_shift(100, alpha_bar=1.1),
        r"alpha_bar must be above 0 and at most 1; got 1\.1",
    ),
    "alpha_bar nan": (lambda: default_shift(100, alpha_bar=NAN), r"alpha_bar must be a finite number; got nan"),
    "width of the shift": (lambda: default_shift(0), r"width must be at least 1"),
}


@pytest.mark.parametrize("case", BAD_PARTS)
def test_parts(case):
    make, message = BAD_PARTS[case]
    with pytest.raises(InvalidInput, match=message):
        make()


@pytest.fixture(scope="module")
def network():
    return train(Problem(INPUTS, TARGETS), width=64, shift=0.1, max_iterations=1).network


BAD_QUESTIONS = {
    "dimension": (lambda net: net.predict(np.eye(4)), r"inputs must have the 3 columns .* trained on; they have 4"),
    "not unit": (lambda net: net.predict(2 * INPUTS), r"unit norm; row 0 has norm 2\. Use thresher\.to_sphere\(X\)"),
    "one dimension": (lambda net: net.predict(INPUTS[0]), r"inputs must have shape \(n, d\); got shape \(3,\)"),
    "nan": (lambda net: net.predict(INPUTS * NAN), r"inputs must be finite; row 0, column 0 is nan"),
    "empty": (lambda net: net.predict(np.empty((0, 3))), r"inputs must not be empty"),
    "threads": (lambda net: net.predict(INPUTS, threads=0), r"threads must be at least 1; got 0"),
    "neuron -1": (lambda net: net.neuron(-1), r"neuron must be at least 0; got -1"),
    "neuron beyond": (lambda net: net.neuron(64), r"neuron must be at most 63; got 64"),
    "neuron half": (lambda net: net.neuron(1.5), r"neuron must be"),
}


@pytest.mark.parametrize("case", BAD_QUESTIONS)
def test_questions_to_a_network(case, network):
    ask, message = BAD_QUESTIONS[case]
    with pytest.raises(InvalidInput, match=message):
        ask(network)


# What is accepted

GOOD_DATA = {
    "lists": (INPUTS.tolist(), TARGETS.tolist()),
    "tuples": (tuple(map(tuple, INPUTS)), tuple(TARGETS)),
    "integers": (INPUTS.astype(int), np.array([1, 2, 3])),
    "small integers": (INPUTS.astype(np.int8), np.array([1, 2, 3], np.uint16)),
    "booleans": (INPUTS.astype(bool), np.array([True, False, True])),
    "fortran order": (np.asfortranarray(INPUTS), TARGETS),
    "strided": (np.eye(6)[::2, ::2], np.arange(6.0)[::2]),
    "other byte order": (INPUTS.astype(">f8"), TARGETS.astype(">f4")),
    "half precision": (INPUTS.astype(np.float16), TARGETS),
    "a row": ([[1.0]], [0.0]),
    "unmasked": (np.ma.array(INPUTS), TARGETS),
}


@pytest.mark.parametrize("case", GOOD_DATA)
def test_data_that_is_accepted(case):
    inputs, targets = GOOD_DATA[case]
    problem = Problem(inputs, targets)
    assert problem.inputs.dtype == problem.targets.dtype == np.float64
    np.testing.assert_array_equal(problem.inputs, np.asarray(inputs, float))
    np.testing.assert_array_equal(problem.targets, np.asarray(targets, float))
    assert problem.inputs.flags.c_contiguous


GOOD_SETTINGS = {
    "float width": {"width": 1e3},
    "numpy numbers": {"width": np.int32(100), "seed": np.uint8(3), "tol": np.float32(0.1), "threads": np.int64(1)},
    "one neuron": {"width": 1},
    "no shift": {"width": 10, "shift": 0},
    "twins": {"width": 10, "twins": True},
    "largest seed": {"width": 10, "seed": 2**64 - 1},
    "no iterations": {"width": 10, "max_iterations": 0},
    "dtype object": {"width": 10, "dtype": np.float64},
    "paper": {"width": 64, "method": "paper"},
    "paper in full": {"width": 64, "method": "paper", "index": "tournament", "solver": "sketched"},
    "paper with its solver": {"width": 64, "method": "paper", "solver": Sketched(tol=1e-3)},
    "solver object": {"width": 64, "solver": Cholesky()},
    "callback": {"width": 64, "callbacks": (lambda record: None,)},
}


@pytest.mark.parametrize("case", GOOD_SETTINGS)
def test_settings_that_are_accepted(case):
    result = train(Problem(INPUTS, TARGETS), **GOOD_SETTINGS[case])
    assert result.network.width == GOOD_SETTINGS[case]["width"]
    assert isinstance(result.network.width, int)
    assert np.isfinite(result.network.predict(INPUTS)).all()


def test_nothing_is_changed_and_nothing_is_shared():
    inputs, targets = to_sphere(np.random.default_rng(0).normal(size=(5, 3))), np.arange(5.0)
    before = inputs.copy(), targets.copy()
    problem = Problem(inputs, targets)
    result = train(problem, width=200, shift=0.2)
    result.network.predict(inputs)
    to_sphere(inputs, centre=True, bias=2.0)
    np.testing.assert_array_equal(inputs, before[0])
    np.testing.assert_array_equal(targets, before[1])
    inputs[:], targets[:] = 7.0, 7.0
    np.testing.assert_array_equal(problem.inputs, before[0])
    np.testing.assert_array_equal(problem.targets, before[1])


def test_read_only_arrays_are_accepted():
    inputs, targets = INPUTS.copy(), TARGETS.copy()
    inputs.flags.writeable = targets.flags.writeable = False
    result = train(Problem(inputs, targets), width=64, shift=0.1)
    result.network.predict(inputs)
    to_sphere(inputs)
