"""One contract for every kind of shard: moves that are tried and taken back, against the definitions."""

import naive
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from properties import examples

from thresher import Activation, BrokenCertificate, Problem, to_sphere
from thresher.engines import engine as engines
from thresher.engines import start_engine
from thresher.interfaces import Shard
from thresher.model.network import NetworkSettings
from thresher.shards import SHARDS, dense
from thresher.shards.pairs import PairShard

WIDTH, SHIFT = 120, 0.4
BENT = [
    "hat",
    Activation([-0.7, 0.6], [-1, 0, 1]),
    Activation([0.7, 1.7], [0, 1, 0]),
    Activation([-1, -0.2, 0.9], [-0.5, 1, 0, 2]),
    Activation([0, 0.5], [0, 1, 3]),
]
every_kind = pytest.mark.parametrize("index", SHARDS)


class Story:
    """An engine of several shards, beside dense weights that the definition moves."""

    def __init__(
        self,
        index,
        *,
        n=9,
        d=5,
        seed=0,
        twins=False,
        dtype="float64",
        activation="relu",
        first=None,
        products=True,
        rows="random",
    ):
        rng = np.random.default_rng(seed)
        self.problem = Problem(to_sphere(rng.normal(size=(n, d))), rng.normal(size=n))
        self.settings = NetworkSettings.checked(
            width=WIDTH,
            dimension=d,
            shift=None if isinstance(activation, Activation) else SHIFT,
            seed=seed,
            twins=twins,
            activation=activation,
            sequence=rows,
        )
        self.engine, self.started = start_engine(
            self.problem, self.settings, index=index, dtype=dtype, threads=2, first_step=first, products=products
        )
        self.W0 = self.settings.start.block(0, WIDTH).astype(float)
        self.signs = self.settings.start.signs(np.arange(WIDTH))
        self.here = self.there = self.W0
        single = dtype == "float32"
        self.near = {"rtol": 1e-5, "atol": 3e-6} if single else {"rtol": 1e-10, "atol": 1e-11}
        if first is not None:
            self.there = self.moved(first)

    @property
    def X(self):
        return self.problem.inputs

    def moved(self, step):
        return self.here + (self.jacobian().T @ step).reshape(self.W0.shape)

    def jacobian(self):
        return naive.jacobian(self.here, self.signs, self.X, SHIFT, self.settings.activation)

    def firing(self, W):
        """Which neurons are beyond which inputs' thresholds (m, n), or those of all knots, one after the other."""
        Z, pieces = naive.preactivations(W, self.X), self.settings.pieces
        if pieces is None:
            return naive.firing(W, self.X, SHIFT)
        knots = zip(pieces.sides, pieces.thresholds, strict=True)
        return np.concatenate([side * Z >= threshold for side, threshold in knots], axis=1)

    @property
    def shards(self):
        """The engine of shards, which see inputs at all knots."""
        return getattr(self.engine, "_engine", self.engine)

    def outputs(self, W):
        return naive.outputs(W, self.signs, self.X, SHIFT, self.settings.activation)

    def move(self, step):
        before = self.firing(self.here)
        moved, self.there = self.engine.move(step), self.moved(step)
        after = self.firing(self.there)
        np.testing.assert_allclose(moved.outputs, self.outputs(self.there), **self.near)
        assert moved.effort.firing == np.count_nonzero(after)
        assert moved.effort.flips == np.count_nonzero(before != after)

    def linearise(self, *, matrix):
        gram, self.here = self.engine.linearise(), self.there
        self.check(gram, matrix=matrix)

    def check(self, gram, *, matrix):
        fires, J = self.firing(self.here), self.jacobian()
        expected, vector = J @ J.T, np.linspace(-1, 2, len(self.X))
        np.testing.assert_allclose(gram.times(vector), expected @ vector, **self.near)
        block = np.stack([vector, vector**2, np.zeros_like(vector)], axis=1)
        np.testing.assert_allclose(gram.times(block), expected @ block, **self.near)
        np.testing.assert_allclose(gram.diagonal(), np.diag(expected), rtol=1e-12, atol=1e-13)
        np.testing.assert_array_equal(sum(self.shards._map(Shard.firing_counts)), fires.sum(axis=0))
        if matrix:
            np.testing.assert_allclose(gram.dense(), expected, rtol=1e-12, atol=1e-14)
            counts = np.tril(naive.count_cofiring(fires))
            np.testing.assert_array_equal(self.shards._cofiring_counts(), counts)
        np.testing.assert_allclose(self.engine.weights().vectors(range(WIDTH)), self.here, **self.near)
        for pattern in self.shards._map(PairShard.pattern):
            fires[pattern.per_pair(pattern.neurons), pattern.inputs] ^= True
        assert not fires.any()
        assert self.engine.audit().pairs == fires.size


def steps_of(rng, n):
    return [rng.normal(size=n) * size for size in (0.03, 0.3, 3.0)]


@pytest.fixture(autouse=True)
def several_shards(monkeypatch):
    monkeypatch.setattr(engines, "_SHARD", 40)


@every_kind
@pytest.mark.parametrize("products", [True, False])
@pytest.mark.parametrize("few", [0, 1e9], ids=["over pairs", "by products"])  # of dense shards
@settings(max_examples=examples(8), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 10**6),
    twins=st.booleans(),
    dtype=st.sampled_from(["float32", "float64"]),
    activation=st.sampled_from(["relu", "max"]) | st.sampled_from(BENT),
    rows=st.sampled_from(["random", "hadamard"]),
    first=st.sampled_from([None, 1e-3, 0.5]),
    matrix=st.sampled_from(["never", "from the start", "late"]),
    n=st.integers(1, 9),
    d=st.integers(1, 7),
)
def test_every_kind_follows_the_definition(
    monkeypatch, index, products, few, seed, twins, dtype, activation, rows, first, matrix, n, d
):
    monkeypatch.setattr(dense, "_FEW", few)
    rng = np.random.default_rng(seed)
    first = None if first is None else rng.normal(size=n) * first
    story = Story(
        index,
        n=n,
        d=d,
        seed=seed,
        twins=twins,
        dtype=dtype,
        activation=activation,
        first=first,
        products=products,
        rows=rows,
    )
    np.testing.assert_allclose(story.started.before.outputs, story.outputs(story.W0), **story.near)
    assert story.started.before.effort.firing == np.count_nonzero(story.firing(story.W0))
    if first is not None:
        np.testing.assert_allclose(story.started.after.outputs, story.outputs(story.there), **story.near)
        assert story.started.after.effort.firing == np.count_nonzero(story.firing(story.there))
        if seed % 2:  # the first step is taken back
            story.move(np.zeros(n))
    story.linearise(matrix=matrix == "from the start")
    for late in (False, True):
        steps = steps_of(rng, n)
        for place in rng.permutation(len(steps)):  # each from the same point, as if none had been tried before
            story.move(steps[place])
        story.check(story.engine.gram(), matrix=matrix == "from the start")  # nothing has changed yet
        story.linearise(matrix=matrix == "from the start" or (late and matrix == "late"))
    story.linearise(matrix=matrix != "never")  # without a move: all stays


def spoil_coefficient(shard):
    if hasattr(shard, "_moved"):
        shard._moved[3] += 0.5
    elif hasattr(shard, "_position"):
        shard._position.weights.coefficients[3] += 0.5
    else:
        shard._lists.base[shard._lists.base_begin[3]] += 0.5


@every_kind
def test_a_coefficient_that_is_off_is_noticed(index):
    story = Story(index, first=np.linspace(-1, 1, 9))
    story.linearise(matrix=True)
    spoil_coefficient(story.engine._executor._slices[1]._shards[0])
    with pytest.raises(BrokenCertificate, match=r"neuron \d+ .* on input \d+|the output on input"):
        story.engine.audit()


@pytest.mark.parametrize("matrix", [True, False])
def test_a_bit_that_is_off_is_noticed(matrix):
    story = Story("dense", first=np.linspace(-1, 1, 9))
    story.linearise(matrix=matrix)
    shard = story.engine._executor._slices[1]._shards[0]
    shard._bits[3, 0] ^= 128 >> 2
    number = shard._neurons.start + 3
    with pytest.raises(BrokenCertificate, match=f"neuron {number} (fires|does not fire) on input 2"):
        story.engine.audit()
