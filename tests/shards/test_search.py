"""One contract for every threshold search: exact answers for any threshold after any moves, at the price it names."""

import inspect
import math

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from properties import examples

from thresher import to_sphere
from thresher.interfaces import Effort
from thresher.loops import trees
from thresher.model.firing import pattern_of_pairs
from thresher.model.geometry import Geometry
from thresher.model.position import Position
from thresher.model.start import Start
from thresher.shards import Scan, Tournament

DTYPES = ("float32", "float64")


def keeps_the_contract(index):
    wanted = {
        "init": ["self", "position", "neurons"],
        "update": ["self", "position", "neurons"],
        "query": ["self", "i", "threshold"],
        "firing": ["self", "threshold"],
    }
    return all(
        hasattr(index, name) and list(inspect.signature(getattr(index, name)).parameters) == parameters
        for name, parameters in wanted.items()
    )


every_index = pytest.mark.parametrize("index", [one for one in (Scan, Tournament) if keeps_the_contract(one)])
every_dtype = pytest.mark.parametrize("dtype", DTYPES)


def test_the_oracle_and_the_trees_keep_the_contract():
    assert keeps_the_contract(Scan)
    assert keeps_the_contract(Tournament)


class Model:
    """Weights of a slice of neurons, beside a dense copy in the naive form."""

    def __init__(self, *, neurons, n, d, seed=0, twins=False, dtype="float64"):
        rng = np.random.default_rng(seed)
        self.neurons = neurons
        self.inputs = to_sphere(rng.normal(size=(n, d)))
        self.start = Start(seed, d, twins)
        self.position = Position.at_start(self.start, Geometry.of(self.inputs, dtype=dtype))
        self.coefficients = np.zeros((len(neurons), n))
        self._renew()

    def _renew(self):
        W0 = self.start.block(self.neurons.start, self.neurons.stop)
        dense = naive.preactivations(naive.implicit_weights(W0, self.coefficients, self.inputs), self.inputs)
        # The last bit is that of the deciding arithmetic: thresholds below are set to exactly such values.
        places, inputs = (part.ravel() for part in np.indices(dense.shape))
        self.values = self.position.exact(places + self.neurons.start, inputs.astype(np.int32)).reshape(dense.shape)
        np.testing.assert_allclose(self.values, dense, rtol=0, atol=1e-12 * (1 + np.abs(self.coefficients).sum()))

    def move(self, fires, step, *, scale=1.0):
        """Move the neurons along the inputs they are said to fire on, (neurons, n); return which moved."""
        places, inputs = np.nonzero(fires)
        pattern = pattern_of_pairs(places + self.neurons.start, inputs.astype(np.int32))
        self.position = self.position.moved(pattern, -np.asarray(step), scale=scale)
        signs = self.start.signs(np.arange(self.neurons.start, self.neurons.stop))
        self.coefficients = self.coefficients + np.where(fires, (-scale * signs)[:, None] * step, 0.0)
        self._renew()
        return pattern.neurons

    def answer(self, i, threshold):
        return [self.neurons.start + place for place in naive.query(self.values[:, i], threshold)]

    def check_query(self, index, i, threshold):
        assert index.query(i, threshold).tolist() == self.answer(i, threshold)

    def check_firing(self, index, threshold):
        pattern, values = index.firing(threshold)
        places, inputs = np.nonzero(self.values >= threshold)
        np.testing.assert_array_equal(pattern.per_pair(pattern.neurons), places + self.neurons.start)
        np.testing.assert_array_equal(pattern.inputs, inputs)
        assert len(set(pattern.neurons.tolist())) == len(pattern.neurons)
        close = 1e-5 if self.position.geometry.dtype == np.float32 else 1e-13
        largest = np.abs(self.values).max()
        np.testing.assert_allclose(values, self.values[places, inputs], rtol=0, atol=close * max(largest, 1))


def thresholds(model, rng):
    """Thresholds worth asking for: equal to a value, one rounding beside it, among them, and beyond all."""
    some = rng.choice(model.values.ravel(), 4)
    return [*some, *np.nextafter(some, np.inf), *rng.normal(size=3), 0.0, -1e300, -np.inf, 1e300, np.inf]


def check_all(model, index, rng):
    for threshold in thresholds(model, rng):
        model.check_firing(index, threshold)
        for i in range(len(model.inputs)):
            model.check_query(index, i, threshold)


@every_index
@every_dtype
@settings(deadline=None, max_examples=examples(12))
@given(
    first=st.integers(0, 3000),
    width=st.integers(1, 300),
    n=st.integers(1, 4),
    d=st.integers(1, 6),
    twins=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_answers_after_init_one_move_and_a_batch(index, dtype, first, width, n, d, twins, seed):
    rng = np.random.default_rng(seed)
    model = Model(neurons=range(first, first + width), n=n, d=d, seed=seed, twins=twins, dtype=dtype)
    searched = index()
    searched.init(model.position, model.neurons)
    check_all(model, searched, rng)

    one = np.zeros((width, n), bool)
    one[rng.integers(width)] = True
    moved = model.move(one, rng.normal(size=n))
    searched.update(model.position, moved)
    check_all(model, searched, rng)

    batch = rng.random((width, n)) < rng.random()
    moved = model.move(batch, rng.normal(size=n), scale=0.3)
    searched.update(model.position, moved)
    check_all(model, searched, rng)


@every_index
@every_dtype
@pytest.mark.parametrize("first, width", [(1000, 100), (0, 1024), (1023, 1), (500, 2500)])
def test_slices_across_blocks(index, dtype, first, width):
    rng = np.random.default_rng(width)
    model = Model(neurons=range(first, first + width), n=3, d=4, dtype=dtype)
    searched = index()
    searched.init(model.position, model.neurons)
    for _ in range(2):
        moved = model.move(rng.random((width, 3)) < 0.9, rng.normal(size=3))
        searched.update(model.position, moved)
    check_all(model, searched, rng)


@every_index
@every_dtype
def test_ties_all_answer(index, dtype):
    model = Model(neurons=range(20), n=2, d=3, twins=True, dtype=dtype)
    searched = index()
    searched.init(model.position, model.neurons)
    for place in range(0, 20, 2):
        value = model.values[place, 0]
        assert value == model.values[place + 1, 0]
        assert {place, place + 1} <= set(searched.query(0, value).tolist())
        assert not {place, place + 1} & set(searched.query(0, np.nextafter(value, np.inf)).tolist())


@every_index
@every_dtype
def test_an_empty_batch_changes_nothing(index, dtype):
    model = Model(neurons=range(37), n=3, d=4, dtype=dtype)
    searched = index()
    searched.init(model.position, model.neurons)
    moved = model.move(np.zeros((37, 3), bool), np.ones(3))
    searched.update(model.position, moved)
    check_all(model, searched, np.random.default_rng(0))


@every_index
@every_dtype
def test_a_neuron_that_moves_far_and_comes_back(index, dtype):
    model = Model(neurons=range(50), n=3, d=4, dtype=dtype)
    searched = index()
    searched.init(model.position, model.neurons)
    for step in (1e6, -1e6, 1.0):
        fires = np.zeros((50, 3), bool)
        fires[[7, 30]] = True
        moved = model.move(fires, np.full(3, step))
        searched.update(model.position, moved)
        check_all(model, searched, np.random.default_rng(0))
        for place, i in np.argwhere(fires):
            model.check_query(searched, i, model.values[place, i])
            model.check_query(searched, i, np.nextafter(model.values[place, i], np.inf))


@settings(deadline=None, max_examples=examples(60))
@given(
    columns=st.integers(1, 3),
    rows=st.lists(st.tuples(*[st.integers(-4, 4)] * 3), min_size=1, max_size=40),
    changes=st.lists(st.tuples(st.integers(0, 39), st.integers(-6, 6)), max_size=20),
    dtype=st.sampled_from(DTYPES),
)
def test_trees_with_many_ties(columns, rows, changes, dtype):
    values = np.array(rows, dtype)[:, :columns]
    m = len(values)
    nodes = np.full((2 * m, columns), -np.inf, dtype)
    nodes[m:] = values
    trees.build(nodes)
    for batch in ([], changes):
        for place, value in batch:
            nodes[m + place % m] = values[place % m] = value
        trees.climb(nodes, np.unique([place % m for place, _ in batch]).astype(np.int64))
        np.testing.assert_array_equal(nodes[1], values.max(axis=0))
        for i in range(columns):
            for threshold in range(-7, 8):
                assert trees.query(nodes, i, float(threshold))[0].tolist() == naive.query(values[:, i], threshold)


class MovesAndQuestions(RuleBasedStateMachine):
    """Random moves and questions against a dense model; each index in turn, both precisions."""

    @initialize(
        width=st.integers(1, 70),
        first=st.integers(0, 5),
        n=st.integers(1, 5),
        d=st.integers(1, 4),
        seed=st.integers(0, 1000),
        twins=st.booleans(),
        dtype=st.sampled_from(DTYPES),
    )
    def begin(self, width, first, n, d, seed, twins, dtype):
        self.model = Model(neurons=range(first, first + width), n=n, d=d, seed=seed, twins=twins, dtype=dtype)
        self.indexes = [index() for index in (Scan, Tournament) if keeps_the_contract(index)]
        for index in self.indexes:
            index.init(self.model.position, self.model.neurons)
        self.spent = [index.spent for index in self.indexes]

    @rule(data=st.data(), scale=st.sampled_from([1e-9, 0.1, 1.0, 10.0]), share=st.sampled_from([0.05, 0.5, 1.0]))
    def move(self, data, scale, share):
        rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
        fires = rng.random(self.model.values.shape) < share
        moved = self.model.move(fires, rng.normal(size=len(self.model.inputs)), scale=scale)
        for index in self.indexes:
            index.update(self.model.position, moved)

    @rule(data=st.data())
    def move_one(self, data):
        fires = np.zeros(self.model.values.shape, bool)
        fires[data.draw(st.integers(0, len(fires) - 1))] = True
        step = data.draw(st.floats(-3, 3).map(lambda size: np.full(len(self.model.inputs), size)))
        moved = self.model.move(fires, step)
        for index in self.indexes:
            index.update(self.model.position, moved)

    @rule(data=st.data())
    def ask_at_a_value(self, data):
        i = data.draw(st.integers(0, len(self.model.inputs) - 1))
        value = data.draw(st.sampled_from(self.model.values[:, i].tolist()))
        for index in self.indexes:
            self.model.check_query(index, i, value)
            self.model.check_query(index, i, np.nextafter(value, np.inf))

    @rule(data=st.data(), threshold=st.floats(-4, 4))
    def ask(self, data, threshold):
        i = data.draw(st.integers(0, len(self.model.inputs) - 1))
        for index in self.indexes:
            self.model.check_query(index, i, threshold)

    @rule(threshold=st.sampled_from([-1e300, 0.0, 0.7, 2.0, 1e300]))
    def ask_for_all(self, threshold):
        for index in self.indexes:
            self.model.check_firing(index, threshold)

    @precondition(lambda self: hasattr(self, "indexes"))
    @invariant()
    def effort_only_grows(self):
        spent = [index.spent for index in self.indexes]
        for before, now in zip(self.spent, spent, strict=True):
            assert all(a <= b for a, b in zip(before, now, strict=True))
        self.spent = spent


MovesAndQuestions.TestCase.settings = settings(deadline=None, max_examples=examples(60), stateful_step_count=30)
TestMovesAndQuestions = MovesAndQuestions.TestCase


@pytest.mark.slow
class TestManyMovesAndQuestions(MovesAndQuestions.TestCase):
    settings = settings(deadline=None, max_examples=examples(400), stateful_step_count=50)


def spent_by(index, action):
    before = index.spent
    value = action()
    return value, Effort(*(now - then for now, then in zip(index.spent, before, strict=True)))


def depth(width):
    return math.ceil(math.log2(width))


@settings(deadline=None, max_examples=examples(40))
@given(width=st.integers(1, 3000), seed=st.integers(0, 1000), threshold=st.floats(-2, 4))
def test_a_query_visits_a_path_for_each_answer(width, seed, threshold):
    model = Model(neurons=range(width), n=2, d=3, seed=seed)
    tree = Tournament()
    tree.init(model.position, model.neurons)
    for i in range(2):
        found, spent = spent_by(tree, lambda i=i: tree.query(i, threshold))
        assert 1 <= spent.visits <= 2 * len(found) * (depth(width) + 1) + 1
        assert spent.touches == 0
        assert spent.looks <= len(found)


@settings(deadline=None, max_examples=examples(40))
@given(width=st.integers(1, 3000), n=st.integers(1, 4), seed=st.integers(0, 1000), share=st.floats(0, 1))
def test_an_update_touches_a_path_for_each_neuron(width, n, seed, share):
    rng = np.random.default_rng(seed)
    model = Model(neurons=range(width), n=n, d=3, seed=seed)
    tree = Tournament()
    tree.init(model.position, model.neurons)
    moved = model.move(np.tile(rng.random(width) < share, (n, 1)).T, rng.normal(size=n))
    _, spent = spent_by(tree, lambda: tree.update(model.position, moved))
    path = n * (depth(width) + 1)
    assert n * len(moved) <= spent.touches <= path * len(moved)
    assert spent.looks == n * len(moved)
    assert spent.visits == 0

    one = np.zeros((width, n), bool)
    one[rng.integers(width)] = True
    moved = model.move(one, rng.normal(size=n))
    _, spent = spent_by(tree, lambda: tree.update(model.position, moved))
    assert path - n <= spent.touches <= path
    assert spent.looks == n


@pytest.mark.parametrize("width", [1, 2, 4, 64, 1024])
@pytest.mark.parametrize("n", [1, 3])
def test_an_update_touches_exactly_one_path_in_a_full_tree(width, n):
    model = Model(neurons=range(width), n=n, d=3)
    tree = Tournament()
    tree.init(model.position, model.neurons)
    for place in {0, width // 2, width - 1}:
        one = np.zeros((width, n), bool)
        one[place] = True
        moved = model.move(one, np.ones(n))
        _, spent = spent_by(tree, lambda moved=moved: tree.update(model.position, moved))
        assert spent == Effort(looks=n, touches=n * (depth(width) + 1))


def test_paths_that_meet_are_climbed_once():
    width, n = 1024, 2
    model = Model(neurons=range(width), n=n, d=3)
    tree = Tournament()
    tree.init(model.position, model.neurons)
    moved = model.move(np.ones((width, n), bool), np.ones(n))
    _, spent = spent_by(tree, lambda: tree.update(model.position, moved))
    assert spent.touches == n * (2 * width - 1)


@every_dtype
@settings(deadline=None, max_examples=examples(15))
@given(width=st.integers(1, 2500), n=st.integers(1, 4), seed=st.integers(0, 1000))
def test_init_costs_one_look_a_pair(dtype, width, n, seed):
    model = Model(neurons=range(width), n=n, d=3, seed=seed, dtype=dtype)
    tree = Tournament()
    _, spent = spent_by(tree, lambda: tree.init(model.position, model.neurons))
    assert spent == Effort(looks=n * width, touches=n * (2 * width - 1))


@settings(deadline=None, max_examples=examples(15))
@given(width=st.integers(1, 2500), n=st.integers(1, 4), seed=st.integers(0, 1000), threshold=st.floats(-2, 4))
def test_a_scan_looks_at_every_pair(width, n, seed, threshold):
    model = Model(neurons=range(width), n=n, d=3, seed=seed)
    doubtful = (np.abs(model.values - threshold) < 1e-12).sum(axis=0)
    scan = Scan()
    assert spent_by(scan, lambda: scan.init(model.position, model.neurons))[1] == Effort()
    _, spent = spent_by(scan, lambda: scan.firing(threshold))
    assert n * width <= spent.looks <= n * width + doubtful.sum()
    _, spent = spent_by(scan, lambda: scan.query(0, threshold))
    assert width <= spent.looks <= width + doubtful[0]
    assert spent == Effort(looks=spent.looks)


@every_dtype
def test_doubtful_pairs_are_looked_at_again_and_counted(dtype):
    model = Model(neurons=range(100), n=1, d=3, twins=True, dtype=dtype)
    value = model.values[10, 0]
    for index in (Scan(), Tournament()):
        index.init(model.position, model.neurons)
        _, at_a_value = spent_by(index, lambda index=index: index.query(0, value))
        _, at_nothing = spent_by(index, lambda index=index: index.query(0, 50.0))
        assert at_a_value.looks - at_nothing.looks == 2


@every_dtype
@every_index
def test_pairs_beyond_rounding_are_not_looked_at_again(index, dtype):
    model = Model(neurons=range(100), n=1, d=3, dtype=dtype)
    searched = index()
    searched.init(model.position, model.neurons)
    _, beside = spent_by(searched, lambda: searched.query(0, model.values[10, 0] + 1e-4))
    _, beyond = spent_by(searched, lambda: searched.query(0, 50.0))
    assert beside.looks == beyond.looks
