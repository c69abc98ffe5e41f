"""Training a network whose start rows are drawn where they fire: exact, whatever searches, and refused by name."""

import naive
import numpy as np
import pytest
from columns import replay, train_columns
from scipy import stats

import thresher
from thresher import (
    BrokenCertificate,
    CheckTheorems,
    InvalidInput,
    MemoryRefused,
    NetworkRegressor,
    Problem,
    Status,
    to_sphere,
    train,
)
from thresher.datasets import random_problem
from thresher.engines import Footprint
from thresher.files import read_file, write_file
from thresher.model import poisson
from thresher.model.network import NetworkSettings
from thresher.shards import SHARDS
from thresher.training.result_files import VERSION

PROBLEM = random_problem(inputs=12, dimension=8)
OTHERS = random_problem(inputs=40, dimension=8, seed=5).inputs
OPTIONS = {"width": 6000, "shift": 1.8, "twins": True, "start": "poisson"}


@pytest.fixture(scope="module")
def result():
    return train(PROBLEM, **OPTIONS, audit=True)


def padded(settings):
    """Start weights and signs of all m neurons, those that were not drawn silent: what the definitions know."""
    W, signs = np.zeros((settings.width, settings.start.dimension)), np.zeros(settings.width)
    W[: settings.neurons] = settings.start.block(0, settings.neurons)
    signs[: settings.neurons] = settings.start.signs(np.arange(settings.neurons))
    return W, signs


# Exactness


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("index", ["certified", "scan", "tournament", "dense"])
def test_every_search_takes_the_path_of_the_definition(index, seed):
    problem = random_problem(inputs=6, dimension=5, seed=seed)
    result = train(
        problem, width=600, shift=1.2, twins=True, start="poisson", seed=seed, index=index, first_step="gram",
        dtype="float64", audit=True, tol=1e-9,
    )  # fmt: skip
    settings = result.network.settings
    assert 100 < settings.neurons < 600
    W0, signs = padded(settings)
    states = naive.gauss_newton(W0, signs, problem.inputs, problem.targets, shift=1.2, iterations=len(result.steps))
    assert result.status == Status.CONVERGED
    residuals = [one.residual for one in result.history]
    np.testing.assert_allclose(residuals, [one["residual"] for one in states], rtol=1e-6, atol=1e-9)
    assert [one.firing for one in result.history] == [one["fires"].sum() for one in states]
    found = result.network.weights.vectors(range(settings.neurons))
    np.testing.assert_allclose(found, states[-1]["weights"][: settings.neurons], atol=1e-8)
    outputs = naive.outputs(states[-1]["weights"], signs, problem.inputs, 1.2)
    np.testing.assert_allclose(result.network.predict(problem.inputs), outputs, atol=1e-7)


def test_predictions_are_those_of_all_its_neurons(result):
    W, signs = padded(result.network.settings)
    W[: result.network.settings.neurons] = result.network.weights.vectors(range(result.network.settings.neurons))
    expected = naive.outputs(W, signs, OTHERS, OPTIONS["shift"])
    np.testing.assert_allclose(result.network.predict(OTHERS), expected, atol=1e-5)
    np.testing.assert_allclose(result.network.compact().predict(OTHERS), expected, atol=1e-5)
    np.testing.assert_array_equal(result.network.predict(OTHERS, threads=1), result.network.predict(OTHERS, threads=2))


def test_all_neurons_that_are_scanned_or_drawn_give_nearly_the_same_network():
    """Both are networks of the same width: their predictions differ as those of two seeds do, not more."""
    X = to_sphere(np.random.default_rng(0).normal(size=(10, 6)))
    problem = Problem(X, X[:, 0])
    ways = [{"start": start, "seed": seed} for start in ("random", "poisson") for seed in range(6)]
    found = [train(problem, width=20_000, shift=1.5, twins=True, **way).network.predict(OTHERS[:, :6] / np.linalg.norm(
        OTHERS[:, :6], axis=1, keepdims=True)) for way in ways]  # fmt: skip
    scanned, drawn = np.array(found[:6]), np.array(found[6:])
    noise = np.sqrt((scanned.var(axis=0) + drawn.var(axis=0)) / 5 + 1e-12)
    z = (scanned.mean(axis=0) - drawn.mean(axis=0)) / noise  # Student's t with about 10 degrees of freedom
    assert stats.t.sf(np.abs(z).max(), 10) * 2 * len(z) > 1e-6


def test_neither_threads_nor_block_sizes_change_a_bit(result, monkeypatch):
    again = train(PROBLEM, **OPTIONS, threads=1)
    monkeypatch.setattr(poisson, "_BLOCK", 64)
    blocks = train(PROBLEM, **OPTIONS, threads=2)
    for one, other in ((result, again), (again, blocks)):
        np.testing.assert_array_equal(one.network.predict(OTHERS), other.network.predict(OTHERS))
        for step, same in zip(one.steps, other.steps, strict=True):
            np.testing.assert_array_equal(step, same)


def test_several_outputs_share_the_rows():
    problems = [PROBLEM, Problem(PROBLEM.inputs, PROBLEM.targets[::-1])]
    for together, problem in zip(train_columns(problems, **OPTIONS), problems, strict=True):
        np.testing.assert_array_equal(
            together.network.predict(OTHERS), train(problem, **OPTIONS).network.predict(OTHERS)
        )


def test_replay_makes_it_again(result):
    again = replay(PROBLEM, steps=result.steps, **OPTIONS)
    np.testing.assert_array_equal(again.predict(OTHERS), result.network.predict(OTHERS))
    assert again.settings == result.network.settings


def test_the_audit_scans_what_exists(result):
    settings = result.network.settings
    assert result.audit.pairs == settings.neurons * PROBLEM.size * len(result.steps)
    kept = settings.start.block(0, settings.neurons).any(axis=1)
    assert 0 < (~kept).sum() < kept.sum()
    assert not set(np.flatnonzero(~kept)) & set(result.network.weights.moved_neurons())


def test_the_audit_notices_rows_that_should_not_be_there(monkeypatch):
    make = thresher.shards.certified.StartBlock.make

    def keep_all(*arguments, **options):
        with monkeypatch.context() as inner:
            inner.setattr(poisson, "keep_first", lambda *arguments: None)
            return make(*arguments, **options)

    monkeypatch.setattr(thresher.shards.certified.StartBlock, "make", keep_all)
    with pytest.raises(BrokenCertificate, match=r"neuron \d+ does not fire on input \d+"):
        train(PROBLEM, **OPTIONS, audit=True)


def test_theorems_are_checked(result):
    checked = train(PROBLEM, **OPTIONS, callbacks=[CheckTheorems()])
    assert any(record.statements for record in checked.history)


# A width that no scan could pass over


def test_a_trillion_neurons():
    """Time and memory follow the neurons that fire."""
    result = train(PROBLEM, width=10**12, shift=6.0, twins=True, start="poisson", audit=True)
    settings = result.network.settings
    assert result.status == Status.CONVERGED
    assert settings.width == 10**12
    assert settings.neurons == pytest.approx(10**12 * 12 * stats.norm.sf(6.0), rel=0.1)
    assert result.network.describe()["neurons"].startswith("1,000,000,000,000, in pairs of opposite sign, of which 1")
    np.testing.assert_allclose(result.network.predict(PROBLEM.inputs), PROBLEM.targets, atol=1e-4)


def test_memory_follows_the_neurons_that_fire():
    made = NetworkSettings.checked(width=2**34, dimension=8, shift=4.5, twins=True)
    for index in ("certified", "tournament", "dense"):
        starts = made.drawn_at(PROBLEM.inputs), made
        drawn, scanned = (Footprint([PROBLEM.targets], one, index, SHARDS[index]).here() for one in starts)
        assert drawn <= scanned
        assert drawn < 2**30
    with pytest.raises(MemoryRefused, match="training 4,611,686,018,427,387,904 neurons"):
        train(PROBLEM, width=2**62, shift=6.0, twins=True, start="poisson")


@pytest.mark.parametrize("form", ["full", "recipe"])
def test_a_network_of_no_neurons_at_all(form, tmp_path):
    result = train(PROBLEM, width=2, shift=9.0, twins=True, start="poisson", audit=True)
    assert result.network.settings.neurons == 0
    assert result.status == Status.STALLED
    assert not result.network.predict(OTHERS).any()
    result.save(tmp_path / "none", form=form)
    assert not thresher.load(tmp_path / "none").network.predict(OTHERS).any()
    with pytest.raises(InvalidInput, match=r"has no neurons.*none did\. Train with a larger width or a smaller shift"):
        result.network.neuron(0)


# Choice and refusals


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"start": "everywhere"}, "one of 'auto', 'random', 'hadamard', 'poisson'; got 'everywhere'"),
        ({"twins": False}, "needs twins, and an even width; got width=6000 without twins"),
        ({"twins": "auto", "width": 6001}, "needs twins, and an even width; got width=6001 without twins"),
        ({"shift": 0.0}, "shift above 0"),
        ({"device": "cuda"}, "device='cpu', or start='random'"),
        ({"start": "scan"}, "one of 'auto', 'random', 'hadamard', 'poisson'; got 'scan'"),
        ({"sequence": "random"}, "train has no option 'sequence'; it has width, .*start"),
    ],
)
def test_refusals(options, fault):
    with pytest.raises(InvalidInput, match=fault):
        train(PROBLEM, **OPTIONS | options)


@pytest.mark.filterwarnings("error")
def test_more_rows_than_there_are_is_said(tmp_path):
    some = PROBLEM.inputs[:4], PROBLEM.targets[:4]
    given = {"width": 400, "twins": True, "max_iterations": 1}
    train(*some, **given, shift=0.7, start="poisson")  # 4 Q(0.7) = 0.97
    with pytest.warns(UserWarning, match=r"about 484 neurons, 1\.2 times the width.*than the default") as said:
        result = train(*some, **given, shift=0.517, start="poisson")  # 4 Q(0.517) = 1.21
    assert [one.filename for one in said] == [__file__]
    train(*some, **given, shift=0.517)
    result.save(tmp_path / "result")
    thresher.load(tmp_path / "result")  # it was said, and is done


def test_another_start_is_no_continuation(tmp_path):
    train(PROBLEM, **OPTIONS, checkpoint=tmp_path / "run")
    with pytest.raises(InvalidInput, match="start='poisson'; this run has start='random'"):
        train(PROBLEM, **OPTIONS | {"start": "random"}, resume=tmp_path / "run")


# Files


@pytest.mark.parametrize(
    ("name", "value"),
    [("neurons", 1234), ("start", "auto"), ("start", "random"), ("twins", False), ("seed", 1), ("width", 6002)],
)
def test_what_does_not_fit_is_refused(result, tmp_path, name, value):
    result.save(tmp_path / "good", form="full")
    tensors, metadata = read_file(tmp_path / "good", kind="model", version=VERSION)
    metadata["networks"][0][name] = value
    write_file(tmp_path / "bad", tensors, metadata, kind="model", version=VERSION)
    with pytest.raises(InvalidInput, match="does not describe a model"):
        thresher.load(tmp_path / "bad")


def test_estimators_pass_it_on(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3))
    model = NetworkRegressor(width=2**22, shift=3.0, start="poisson", random_state=0)
    model.fit(X, X[:, 0] - X[:, 1])
    assert model.result_.network.settings.start.kind == "poisson"
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(thresher.load(tmp_path / "model").predict(X), model.predict(X))
