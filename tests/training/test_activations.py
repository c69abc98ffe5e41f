"""Activations that are linear between knots: every search walks the path of the definition, and says no in time."""

import importlib
from importlib.util import find_spec
from itertools import pairwise

import naive
import numpy as np
import pytest
from columns import replay, train_columns
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from properties import examples

import thresher
from thresher import (
    Activation,
    BrokenCertificate,
    CheckTheorems,
    InvalidInput,
    Problem,
    ThresherError,
    to_sphere,
    train,
)
from thresher.datasets import random_problem
from thresher.engines import start_engine
from thresher.export import predict_arrays
from thresher.files import read_file, write_file
from thresher.model.activations import Pieces, curve_of
from thresher.model.network import NetworkSettings
from thresher.shards import certified
from thresher.theory import cofiring_probability, firing_probability, limit_kernel
from thresher.theory.kernel import probability_table
from thresher.theory.limit_matrix import LimitMatrix
from thresher.training.result_files import VERSION

OWN = Activation(knots=[-1.0, 0.4, 1.5], slopes=[0.3, 0.0, 1.0, -0.5])
BOTH = Activation(knots=[-0.7, 0.7], slopes=[-1.0, 0.0, 1.0])  # on both sides of the background, one knot each
STEP = Activation(knots=[0.7, 1.7], slopes=[0.0, 1.0, 0.0])
every_activation = pytest.mark.parametrize("activation", ["hat", OWN, BOTH, STEP], ids=["hat", "own", "both", "step"])


def options_of(activation, **more):
    return {"activation": activation, **({} if isinstance(activation, Activation) else {"shift": 0.7}), **more}


def definition(activation):
    return naive.knots_and_slopes(activation if isinstance(activation, str) else tuple(activation), 0.7)


def most_likely(knots, slopes):
    """The slopes of the likeliest pieces, with knots left out at which nothing changes."""
    bends = [k for k in range(len(knots)) if slopes[k] != slopes[k + 1]]
    edges = [-np.inf, *(knots[k] for k in bends), np.inf]
    shares = np.diff(naive.norm.cdf(edges))
    return {([slopes[0]] + [slopes[k + 1] for k in bends])[k] for k in np.flatnonzero(shares >= shares.max() - 1e-9)}


def flattened(knots, slopes):
    """Slopes of which the likeliest piece has none, if that is enough to make the background flat."""
    most = np.diff(naive.norm.cdf([-np.inf, *knots, np.inf])).argmax()
    made = [0.0 if k == most else slope for k, slope in enumerate(slopes)]
    assume(len(set(made)) > 1 and most_likely(knots, made) == {0.0})
    return made


class TestTheDefinition:
    @every_activation
    def test_values_slopes_and_pieces_agree(self, activation):
        z = np.linspace(-3, 3, 601) + 1e-4
        given = NetworkSettings.checked(width=10, dimension=2, **options_of(activation))
        expected = [naive.activate(one, definition(activation), 0.7) for one in z]
        np.testing.assert_allclose(given.pieces.bend(z) + given.pieces.at_zero, expected, atol=1e-12)
        np.testing.assert_allclose(curve_of(activation, 0.7)(z), expected, atol=1e-12)
        np.testing.assert_allclose(
            given.pieces.slopes(z), [naive.slope_at(one, definition(activation), 0.7) for one in z]
        )

    @settings(max_examples=examples(20))
    @given(st.lists(st.floats(-3, 3), min_size=1, max_size=6, unique=True), st.data())
    def test_any_knots_and_slopes(self, knots, data):
        slopes = data.draw(
            st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), min_size=len(knots) + 1, max_size=len(knots) + 1)
        )
        knots, z = sorted(knots), np.linspace(-4, 4, 101) + 1e-5
        if len(set(slopes)) == 1:
            with pytest.raises(InvalidInput, match="must bend"):
                Activation(knots, slopes)
            return
        if 0.0 not in most_likely(knots, slopes):
            with pytest.raises(InvalidInput, match="must be flat where most start pre-activations lie"):
                Activation(knots, slopes)
            return
        pieces = Pieces.of(*Activation(knots, slopes))
        expected = [naive.activate(one, (knots, slopes), 0.0) for one in z]
        np.testing.assert_allclose(pieces.bend(z) + pieces.at_zero, expected, atol=1e-9)

    def test_knots_at_which_nothing_changes_are_left_out(self):
        assert Activation([-1, 0, 1, 2], [0, 0, 1, 1, 0]) == Activation([0, 2], [0, 1, 0])


class TestTraining:
    @every_activation
    @pytest.mark.parametrize(
        "index",
        ["certified", "dense", *(pytest.param(one, marks=pytest.mark.thorough) for one in ("scan", "tournament"))],
    )
    def test_it_walks_the_path_of_the_definition(self, activation, index):
        problem = random_problem(inputs=10, dimension=6)
        result = train(
            problem, width=600, index=index, dtype="float64", first_step="gram", max_iterations=4, audit=True,
            **options_of(activation, seed=3),
        )  # fmt: skip
        network = result.network
        W = network.settings.start.block(0, 600).astype(float)
        path = naive.gauss_newton(
            W, network.settings.start.signs(np.arange(600)), problem.inputs, problem.targets, shift=0.7, iterations=4,
            activation=definition(activation),
        )  # fmt: skip
        residuals = [record.residual for record in result.history]
        np.testing.assert_allclose(residuals[1:4], [state["residual"] for state in path[1:4]], rtol=1e-6)
        assert [record.step for record in result.history[:4]] == [state["step"] for state in path[:4]]
        np.testing.assert_allclose(network.weights.vectors(range(600)), path[len(residuals) - 1]["weights"], atol=1e-6)

    @every_activation
    @pytest.mark.parametrize(
        "more",
        [{"twins": False}, {}, {"start": "hadamard", "twins": False}, {"index": "dense", "start": "hadamard"}],
    )
    def test_predictions_and_gradients(self, activation, more):
        problem = random_problem(inputs=8, dimension=5)
        result = train(problem, width=400, audit=True, **options_of(activation, max_iterations=3, **more))
        network, new = result.network, random_problem(inputs=6, dimension=5, seed=9).inputs
        W, signs = network.weights.vectors(range(400)), network.settings.start.signs(np.arange(400))
        expected = naive.outputs(W, signs, new, 0.7, definition(activation))
        np.testing.assert_allclose(network.predict(new), expected, atol=2e-5)
        slope = naive.slopes(W, new, 0.7, definition(activation))
        np.testing.assert_allclose(network.gradients(new), (signs[:, None] * slope).T @ W / 20, atol=2e-5)
        residual = np.linalg.norm(network.predict(problem.inputs) - problem.targets)
        assert residual == pytest.approx(result.history[-1].residual, abs=1e-4)

    @every_activation
    def test_threads_sessions_and_company_change_no_bit(self, activation, tmp_path, monkeypatch):
        monkeypatch.setattr("thresher.engines.engine._SHARD", 300)
        problem = random_problem(inputs=12, dimension=6)
        other = Problem(problem.inputs, problem.targets[::-1])
        options = options_of(activation, width=1000, max_iterations=4)
        result = train(problem, threads=2, **options)
        together = train_columns([other, problem], threads=1, **options)[1]
        again = replay(problem, steps=result.steps, **options)
        train(problem, checkpoint=tmp_path / "run", **{**options, "max_iterations": 2})
        resumed = train(problem, resume=tmp_path / "run", **options)
        for network in (together.network, again, resumed.network):
            np.testing.assert_array_equal(network.predict(problem.inputs), result.network.predict(problem.inputs))
        assert [one.residual for one in resumed.history] == [one.residual for one in result.history]

    @every_activation
    @pytest.mark.parametrize("form", ["full", "recipe"])
    def test_files(self, activation, form, tmp_path):
        problem = random_problem(inputs=8, dimension=5)
        result = train(problem, width=300, **options_of(activation, max_iterations=3))
        result.save(tmp_path / "net", form=form)
        loaded = thresher.load(tmp_path / "net")
        assert loaded.network.settings == result.network.settings
        np.testing.assert_array_equal(loaded.network.predict(problem.inputs), result.network.predict(problem.inputs))

    @pytest.mark.parametrize("solver", ["sketched", "cg", "pivots", "cholesky"])
    @pytest.mark.parametrize("activation", ["hat", BOTH])
    def test_every_solver(self, solver, activation):
        result = train(random_problem(inputs=12, dimension=8), width=4096, solver=solver, **options_of(activation))
        assert result.history[-1].residual < 1e-3 * result.history[0].residual

    @pytest.mark.parametrize("activation", [BOTH, "hat", OWN])
    @pytest.mark.parametrize(("n", "d", "width"), [(1, 1, 1), (1, 4, 7), (5, 1, 30), (6, 3, 2)])
    def test_small_ones(self, activation, n, d, width):
        problem = Problem(to_sphere(np.random.default_rng(n).normal(size=(n, d))), np.ones(n))
        for index in ("certified", "scan", "dense"):
            train(problem, width=width, audit=True, index=index, **options_of(activation, max_iterations=3))

    @settings(max_examples=examples(15))
    @given(data=st.data())
    def test_any_activation_is_searched_exactly(self, data):
        knot = st.integers(-400, 400).map(lambda hundredths: hundredths / 100)
        knots = sorted(data.draw(st.lists(knot, min_size=1, max_size=4, unique=True)))
        size, slope = len(knots) + 1, st.sampled_from([0.0, 1e-3, 0.5, -1.0, 100.0])
        slopes = flattened(knots, data.draw(st.lists(slope, min_size=size, max_size=size)))
        n, d, width = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 8)), 2 * data.draw(st.integers(1, 150))
        problem = random_problem(inputs=n, dimension=d, seed=data.draw(st.integers(0, 99)))
        problem = Problem(problem.inputs, data.draw(st.sampled_from([1e-2, 1.0, 1e2])) * problem.targets)
        options = {"seed": n, "twins": data.draw(st.booleans()), "max_iterations": 3, "audit": True, "dtype": "float64"}
        found = {
            index: train(problem, width=width, index=index, activation=Activation(knots, slopes), **options).history
            for index in ("certified", "scan")
        }
        assert [one.flips for one in found["certified"]] == [one.flips for one in found["scan"]]

    @pytest.mark.parametrize("index", ["certified", "dense"])
    def test_cases_that_were_wrong_once(self, index):
        problem = random_problem(inputs=4, dimension=4)
        no_list = Activation([4.0], [0.0, 100.0])  # no neuron fires on anything, or is near
        train(problem, width=272, activation=no_list, seed=723, audit=True, index=index, max_iterations=4)
        large = Problem(problem.inputs, 1e3 * problem.targets)  # large weights are rounded where they are stored
        bent = Activation([-2, 0, 1], [0.001, 0, 2, 0.001])
        train(large, width=210, activation=bent, twins=True, audit=True, index=index, max_iterations=4)

    def test_equal_inputs(self):
        X = np.repeat(random_problem(inputs=4, dimension=3).inputs, 2, axis=0)
        result = train(X, np.repeat(np.arange(4.0), 2), width=2000, audit=True, **options_of(BOTH))
        assert result.status == "converged"


class TestTheAudit:
    def run(self, activation, monkeypatch):
        problem = random_problem(inputs=10, dimension=6)
        train(problem, width=2000, audit=True, first_step="gram", **options_of(activation))

    @every_activation
    def test_a_wrong_slope_is_noticed(self, activation, monkeypatch):
        of = Pieces.of.__func__

        def wrong(cls, *curve):
            return (made := of(cls, *curve))._replace(jumps=(1.1 * made.jumps[0], *made.jumps[1:]))

        monkeypatch.setattr(Pieces, "of", classmethod(wrong))
        with pytest.raises(BrokenCertificate, match="is not that of the activation"):
            self.run(activation, monkeypatch)

    @pytest.mark.parametrize("activation", ["hat", BOTH, STEP, OWN])
    def test_a_missed_knot_is_noticed(self, activation, monkeypatch):
        of = Pieces.of.__func__

        def less(cls, *curve):
            made = of(cls, *curve)
            return made._replace(sides=made.sides[1:], jumps=made.jumps[1:], thresholds=made.thresholds[1:])

        monkeypatch.setattr(Pieces, "of", classmethod(less))
        with pytest.raises(BrokenCertificate, match="is not that of the activation"):
            self.run(activation, monkeypatch)

    @pytest.mark.parametrize("activation", ["hat", BOTH, STEP])
    def test_a_drift_that_is_kept_secret_is_noticed(self, activation, monkeypatch):
        monkeypatch.setattr(certified, "_TRUST", 0.0)
        with pytest.raises(BrokenCertificate):
            self.run(activation, monkeypatch)


class TestTheLimit:
    @every_activation
    def test_the_mean_of_slopes_is_the_integral(self, activation):
        limit = NetworkSettings.checked(width=10, dimension=2, **options_of(activation)).limit
        rho = np.array([-0.99, -0.5, 0.0, 0.3, 0.9, 0.999])
        expected = [naive.mean_of_slopes(one, *definition(activation)) for one in rho]
        np.testing.assert_allclose(cofiring_probability(rho, limit), expected, atol=1e-9)
        np.testing.assert_allclose(limit_kernel(rho[None], limit, symmetric=False)[0], rho * expected, atol=1e-9)
        assert probability_table(limit) is not None
        between = pairwise([-np.inf, *definition(activation)[0], np.inf])
        shares = [naive.norm.cdf(high) - naive.norm.cdf(low) for low, high in between]
        squares = np.square(definition(activation)[1]) * shares
        assert firing_probability(limit) == pytest.approx(sum(squares), rel=1e-9)
        np.testing.assert_allclose(cofiring_probability(np.array([1.0]), limit), sum(squares), rtol=1e-9)

    @settings(max_examples=examples(20))
    @given(st.lists(st.floats(-2, 2), min_size=1, max_size=3, unique=True), st.floats(-0.98, 0.98), st.data())
    def test_of_any_knots(self, knots, rho, data):
        slopes = data.draw(st.permutations([0.0, 1.0, -0.5, 2.0]).map(lambda one: one[: len(knots) + 1]))
        slopes = flattened(sorted(knots), slopes)
        limit = Pieces.of(*Activation(sorted(knots), slopes))
        expected = naive.mean_of_slopes(rho, sorted(knots), slopes)
        assert cofiring_probability(np.array([rho]), limit)[0] == pytest.approx(expected, abs=1e-7)
        assert limit_kernel(np.array([[rho]]), limit, symmetric=False)[0, 0] == pytest.approx(rho * expected, abs=1e-7)

    @every_activation
    def test_the_gram_matrix_tends_to_it(self, activation):
        problem, width = random_problem(inputs=12, dimension=6), 40_000
        given = NetworkSettings.checked(width=width, dimension=6, **options_of(activation))
        engine, _ = start_engine(problem, given, index="certified")
        limit = limit_kernel(problem.products, given.limit)
        assert np.abs(engine.gram().dense() - limit).max() < 6 / np.sqrt(width)
        vector = np.linspace(-1, 1, 12)
        np.testing.assert_allclose(
            LimitMatrix(problem.inputs, given.limit, memory=1e6).times(vector[:, None])[:, 0], limit @ vector, atol=1e-5
        )


class TestRefusals:
    @pytest.mark.parametrize(
        ("knots", "slopes", "message"),
        [
            ([1, 0], [0, 1, 2], r"knots must ascend.*knot 1 is 0 after 1"),
            ([1, 1], [0, 1, 2], r"knots must ascend.*knot 1 is 1 after 1"),
            ([0], [1], "one slope more than knots; got 1 slopes for 1 knots"),
            ([0], [1, 1], "must bend"),
            ([], [1], "must bend"),
            ([float("nan")], [0, 1], "finite"),
            ([1e9], [0, 1], "between"),
            ("hat", [0, 1], "list of numbers"),
            ([0], None, "list of numbers"),
            ([True], [0, 1], "must be a number"),
            (np.arange(30), [0, 1] * 15 + [0], "may have 16 knots; got 30"),
            ([-1, 1], [0, 1, 0], r"must be flat where most .* lie, .* got slope 1 from -1 to 1\. Give slope 0 there"),
            ([0.5], [0.01, 1], "got slope 0.01 from -inf to 0.5"),
        ],
    )
    def test_knots_and_slopes(self, knots, slopes, message):
        with pytest.raises(InvalidInput, match=message):
            Activation(knots, slopes)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"activation": OWN, "shift": 1.0}, "where its knots are; got shift=1 as well"),
            ({"activation": "leaky"}, "activation must be 'relu', 'max', 'hat' or an Activation.*; got 'leaky'"),
            ({"activation": "hat", "twins": True, "start": "poisson"}, "activation='hat' has other pieces"),
            ({"activation": ([0], [0, 1])}, "or an Activation"),
        ],
    )
    def test_what_does_not_go_together(self, options, message):
        with pytest.raises(InvalidInput, match=message):
            train(random_problem(inputs=5, dimension=3), width=100, **options)

    def test_a_gpu(self, monkeypatch):
        with pytest.raises(InvalidInput, match="device='cuda' trains ReLU networks; got activation='hat'"):
            train(random_problem(inputs=5, dimension=3), width=100, device="cuda", activation="hat")

    def test_compact_networks(self):
        network = train(random_problem(inputs=5, dimension=3), width=100, shift=0.5, activation="hat").network
        with pytest.raises(InvalidInput, match="hold ReLU neurons; got activation='hat'"):
            network.compact()
        assert "hat" in network.describe()["activation"]


@every_activation
@pytest.mark.parametrize("more", [{"twins": False}, {}, {"index": "dense"}])
def test_exports_are_the_network(activation, more):
    problem, new = random_problem(inputs=8, dimension=5), random_problem(inputs=20, dimension=5, seed=2).inputs
    network = train(problem, width=300, **options_of(activation, max_iterations=3, **more)).network
    expected = network.predict(new)
    np.testing.assert_allclose(predict_arrays(network.to_numpy(dtype="float64"), new)[:, 0], expected, atol=2e-5)
    np.testing.assert_allclose(predict_arrays(network.to_numpy(), new)[:, 0], expected, atol=1e-4)
    if find_spec("onnxruntime"):
        session = importlib.import_module("onnxruntime").InferenceSession(network.to_onnx().SerializeToString())
        found = session.run(None, {"X": new.astype(np.float32)})[0][:, 0]
        np.testing.assert_allclose(found, expected, atol=1e-4)
    if find_spec("torch"):
        torch = importlib.import_module("torch")
        found = network.to_torch()(torch.as_tensor(new, dtype=torch.float32)).detach().numpy()[:, 0]
        np.testing.assert_allclose(found, expected, atol=1e-4)


class TestTheorems:
    @every_activation
    def test_what_holds_is_promised(self, activation):
        checks = CheckTheorems()
        options = options_of(activation, width=20_000, max_iterations=3)
        history = train(random_problem(inputs=8, dimension=6), callbacks=[checks], **options).history
        start = {one.name: one for one in history[0].statements}
        assert set(start) == {"limit kernel", "λ at the start"}
        assert start["limit kernel"].promised
        assert all(one.holds for one in start.values())
        assert [one.name for one in history[1].statements] == ["halving"]
        assert not any(one.promised for step in history[1:] for one in step.statements)

    def test_another_kernel_is_noticed(self, monkeypatch):
        monkeypatch.setattr(NetworkSettings, "limit", property(lambda self: 0.7))
        options = options_of(BOTH, width=200_000, max_iterations=0)
        (start,) = train(random_problem(inputs=8, dimension=6), callbacks=[CheckTheorems()], **options).history
        assert not start.statements[0].holds

    @every_activation
    def test_the_steepest_slope(self, activation):
        pieces = NetworkSettings.checked(width=10, dimension=2, **options_of(activation)).pieces
        assert pieces.steepest == max(map(abs, definition(activation)[1]))


TAMPERED = {
    "another name": "tanh",
    "a list": [[0.5], [0, 1]],
    "knots alone": {"knots": [0.5]},
    "knots that descend": {"knots": [1.5, 0.4, -1.0], "slopes": [0.3, 0.0, 1.0, -0.5]},
    "knots that are no numbers": {"knots": ["a"], "slopes": [0, 1]},
    "no slopes": {"knots": [0.5], "slopes": None},
    "knots at infinity": {"knots": [float("inf")], "slopes": [0, 1]},
    "more": {"knots": [0.4], "slopes": [0, 1], "name": "mine"},
    "another shift": {"knots": [0.1], "slopes": [0, 1]},
    "a slope in the background": {"knots": [0.4], "slopes": [0.3, 1]},
}


@pytest.mark.parametrize("form", ["full", "recipe"])
@pytest.mark.parametrize("told", TAMPERED)
def test_files_that_lie_are_refused(told, form, tmp_path):
    path = tmp_path / "net"
    train(random_problem(inputs=5, dimension=3), width=60, activation=OWN, max_iterations=2).save(path, form=form)
    stored = read_file(path, kind="model", version=VERSION)
    stored.metadata["networks"][0]["activation"] = TAMPERED[told]
    write_file(path, stored.tensors, stored.metadata, kind="model", version=VERSION)
    with pytest.raises(ThresherError):
        thresher.load(path)


def test_classes_together():
    X = random_problem(inputs=12, dimension=6).inputs
    problems = [Problem(X, (np.arange(12) % 3 == k).astype(float)) for k in range(3)]
    results = train_columns(problems, width=4096, loss="log_loss", audit=True, **options_of(BOTH, max_iterations=4))
    outputs = np.stack([one.network.predict(X) for one in results], axis=1)
    assert (outputs.argmax(axis=1) == np.arange(12) % 3).all()
