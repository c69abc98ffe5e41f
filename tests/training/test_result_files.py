"""Results of train: saved, loaded and exported, to the bit."""

import numpy as np
import pytest
from columns import train_columns
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import examples

import thresher
from thresher import InvalidInput, MemoryRefused, Result, ThresherError, train
from thresher.datasets import random_problem
from thresher.export import predict_arrays
from thresher.files import read_file, write_file
from thresher.training.result_files import VERSION

PROBLEM = random_problem(inputs=12, dimension=5)
OTHERS = random_problem(inputs=30, dimension=5, seed=1).inputs
WAYS = {
    "certified": {},
    "twins": {"twins": True},
    "max": {"activation": "max"},
    "gram": {"first_step": "gram"},
    "double": {"dtype": "float64"},
    "scan": {"index": "scan"},
    "paper": {"method": "paper"},
    "dense": {"index": "dense"},
    "dense double": {"index": "dense", "dtype": "float64"},
    "poisson": {"twins": True, "start": "poisson"},
    "poisson, dense": {"twins": True, "start": "poisson", "index": "dense"},
    "hadamard": {"start": "hadamard"},
    "hadamard, twins, dense": {"start": "hadamard", "twins": True, "index": "dense"},
    "no step": {"max_iterations": 0},
    "audited": {"audit": True},
}
forms = pytest.mark.parametrize("form", ["full", "recipe"])


@pytest.fixture(scope="module", params=WAYS)
def result(request):
    return train(PROBLEM, width=400, shift=0.5, **{"twins": False} | WAYS[request.param])


@forms
def test_what_is_loaded_is_the_same(result, tmp_path, form):
    assert result.save(tmp_path / "result", form=form) == form
    loaded = thresher.load(tmp_path / "result")
    assert isinstance(loaded, Result)
    np.testing.assert_array_equal(loaded.network.predict(OTHERS), result.network.predict(OTHERS))
    assert loaded.network.settings == result.network.settings
    assert (loaded.status, loaded.message, loaded.audit) == (result.status, result.message, result.audit)
    assert (loaded.remainder, len(loaded.steps)) == (result.remainder, len(result.steps))
    assert loaded.solver == result.solver
    assert result.solver
    assert repr(list(loaded.history)) == repr(list(result.history))  # NaN included
    loaded.save(tmp_path / "again", form=form)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "result").read_bytes()


def test_the_smaller_form_is_the_default(tmp_path):
    result = train(PROBLEM, width=4000, shift=0.5)
    assert result.save(tmp_path / "auto") == "recipe"
    result.save(tmp_path / "full", form="full")
    assert (tmp_path / "auto").stat().st_size < (tmp_path / "full").stat().st_size


def test_each_of_several_is_saved_alone(tmp_path):
    problems = [PROBLEM, thresher.Problem(PROBLEM.inputs, PROBLEM.targets[::-1])]
    for result in train_columns(problems, width=400):
        result.save(tmp_path / "one")
        loaded = thresher.load(tmp_path / "one")
        np.testing.assert_array_equal(loaded.network.predict(OTHERS), result.network.predict(OTHERS))


def test_exports_predict_the_same(result):
    expected = result.network.predict(OTHERS)
    np.testing.assert_allclose(predict_arrays(result.to_numpy(), OTHERS)[:, 0], expected, atol=1e-5)


def test_exports_that_do_not_fit_are_refused(monkeypatch):
    network = train(PROBLEM, width=4000, twins=False).network
    monkeypatch.setattr("thresher.memory.available_bytes", lambda: 10_000)
    with pytest.raises(MemoryRefused, match=r"4,000 neurons needs about 2\d\d\.\d KiB.*Train with twins=True"):
        network.to_numpy()


def test_bad_requests_are_refused(result, tmp_path):
    with pytest.raises(InvalidInput, match="form must be 'auto', 'full' or 'recipe'"):
        result.save(tmp_path / "result", form="pickle")
    with pytest.raises(InvalidInput, match="does not know what it was trained on"):
        Result(result.network, result.history, result.status, "").save(tmp_path / "result")


@settings(max_examples=examples(60))
@given(data=st.data())
def test_support_that_lies_is_refused(data, tmp_path_factory):
    """Coefficients of neurons or inputs that are not there would be read beyond arrays by compiled loops."""
    path = tmp_path_factory.getbasetemp() / "support"
    train(PROBLEM, width=100, shift=0.5).save(path, form="full")
    stored = read_file(path, kind="model", version=VERSION)
    name = data.draw(st.sampled_from(["neurons0", "bounds0", "places0"]))
    array = stored.tensors[name].copy()
    place = data.draw(st.integers(0, len(array) - 1))
    array[place] = data.draw(st.sampled_from([-1, 0, 3, 99, 100, 10**6, 2**31 - 1]))
    tensors = {**stored.tensors, name: array}
    write_file(path, tensors, stored.metadata, kind="model", version=VERSION)
    try:
        network = thresher.load(path, threads=1).network
    except ThresherError as error:
        assert "do not fit its neurons and inputs" in str(error)
        return
    support = network.weights.support
    assert (np.diff(support.neurons) > 0).all()
    assert (support.neurons < 100).all()
    assert (support.inputs < 12).all()
    for first, last in zip(support.bounds[:-1], support.bounds[1:], strict=True):
        assert (np.diff(support.inputs[first:last]) > 0).all()
    assert np.isfinite(network.predict(OTHERS)).all()
