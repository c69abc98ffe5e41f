"""Fits of many rows by slices of rows that workers hold: the same for any number of workers, to the bit."""

import pickle
import weakref

import numpy as np
import pytest
from few import FEW, friedman, of_few
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import examples

from thresher import MemoryRefused, ThresherClassifier, ThresherRegressor, to_sphere
from thresher.engines.cluster import Node, deal, require_nodes, room_for
from thresher.engines.worker import Call, Worker, here
from thresher.estimators.backends.cluster import Clustered, KernelRows, row_ranges
from thresher.estimators.backends.processor import Cpu
from thresher.estimators.data.lift import lift_single
from thresher.estimators.data.streams import Stream
from thresher.estimators.kernels.kernel import SphereKernel
from thresher.estimators.models.centres import fit_centres
from thresher.estimators.sizes import Sizes
from thresher.tables.parts import Part

KERNEL = SphereKernel(1.0, 0.4)


class Workers:
    """A cluster within this process: workers that are told and answer in bytes; each may be lost before a call."""

    def __init__(self, workers, *, memory=1e10, lost=()):
        self.count, self.memory, self.lost, self.made, self.calls = workers, memory, set(lost), [], []

    def workers(self, ranges):
        return min(self.count, len(ranges))

    def room(self, workers):
        return self.memory / workers

    def require(self, shares, workers, *, facts, outputs, kind):
        require_nodes([Node(1.0, self.memory)], shares, workers=workers, share=0.0, remedy=kind.REMEDY)

    def __call__(self, recipe, ranges, *, threads):
        made = Executor(self, recipe, ranges)
        self.made.append(weakref.ref(made))
        return made


class Executor:
    def __init__(self, cluster, recipe, ranges):
        self.cluster, self.parts = cluster, deal(ranges, cluster.workers(ranges))
        self.recipes = [pickle.dumps(recipe.part(part)) for part in self.parts]
        self.workers = [self.begin(k) for k in range(len(self.parts))]

    def begin(self, number):
        return Worker(self.recipes[number], self.parts[number], 1, here())

    def map(self, method, *arguments):
        call = Call.of(method, arguments, adds=False)
        assert not call.changes  # a worker that is lost has nothing to repeat
        self.cluster.calls.append(method.__name__)
        for number in range(len(self.workers)):
            if len(self.cluster.calls) in self.cluster.lost:
                self.workers[number] = self.begin(number)
            value, error, _ = pickle.loads(self.workers[number].do(call.data))
            assert error is None
            yield from value


def inputs_of(n, seed=0):
    return to_sphere(np.random.default_rng(seed).normal(size=(n, 4))).astype(np.float32)


@given(st.integers(1, 10**6))
def test_slices_of_rows_are_whole_tiles(rows):
    ranges = row_ranges(rows)
    assert [one.start for one in ranges] == [0, *(one.stop for one in ranges[:-1])]
    assert ranges[-1].stop == rows
    assert len(ranges) == min(64, -(-rows // 256))
    assert all(one.start % 256 == 0 and len(one) for one in ranges)


@settings(max_examples=examples(15))
@given(n=st.integers(300, 1100), share=st.floats(0.01, 1.0), outputs=st.integers(1, 3), kept=st.floats(0.0, 1.2))
def test_products_are_those_of_one_process_whatever_is_kept_and_lost(n, share, outputs, kept):
    inputs, rng = inputs_of(n, n), np.random.default_rng(n)
    vectors = rng.normal(size=(max(int(share * n), 1), outputs))
    said = []
    for cluster in (Workers(1), Workers(2, memory=600e6 + 4 * n * n * kept), Workers(3, lost={2})):
        matrix = Clustered(cluster, 1, few=100).operator(KERNEL, inputs, memory=0.0)
        assert not cluster.made  # columns need no workers
        said += [matrix.times(vectors), matrix.times(vectors)]
    for one in said:
        np.testing.assert_array_equal(one, said[0])
    alone = Cpu(1).operator(KERNEL, inputs, memory=0.0).times(vectors)
    np.testing.assert_allclose(said[0], alone, atol=1e-5)


def test_a_slice_keeps_what_fits_and_no_more():
    inputs, vectors = inputs_of(700), np.ones((700, 1), np.float32)
    made = []
    for memory, tiles in ((0.0, 0), (256 * 700 * 4, 1), (1e9, 3)):
        rows = KernelRows(inputs, 0.4, None, memory=memory).slice(range(700))
        made += [rows.times(vectors), rows.times(vectors)]
        assert len(rows._tiles) == tiles
    for one in made:
        np.testing.assert_array_equal(one, made[0])


@settings(max_examples=examples(8), deadline=None)
@given(seed=st.integers(0, 99), outputs=st.integers(1, 2), kind=st.sampled_from(["lifted", "array", "part"]))
def test_centres_are_those_of_one_process(seed, outputs, kind):
    rng = np.random.default_rng(seed)
    rows, n = rng.normal(size=(900, 3)), 900
    targets, weights = np.sin(rows[:, :outputs]) + 0.1 * rng.normal(size=(n, outputs)), rng.uniform(0.5, 2.0, n)
    order = rng.permutation(n)
    options = {"kept": order[:700], "held": order[750:], "ridges": [1e-2, 1.0], "centres": 40}
    options["kernel"] = SphereKernel(1.0, 0.5)
    stream = Stream(Part(rows) if kind == "part" else rows, lambda block: lift_single(block, 1.0))
    stream = Stream(lift_single(rows, 1.0)) if kind == "lifted" else stream
    alone = fit_centres(stream, targets, weights, backend=Cpu(1), **options)
    clusters = [Workers(1), Workers(2), Workers(3, lost={2, 3})]
    backends = [Clustered(one, 1, few=800) for one in clusters]
    fits = [fit_centres(stream, targets, weights, backend=one, **options) for one in backends]
    assert all(set(one.calls) == {"sums"} and len(one.made) == 1 for one in clusters)
    for one in fits:
        for name in ("inputs", "alpha", "held_outputs"):
            np.testing.assert_array_equal(getattr(one, name), getattr(fits[0], name))
    np.testing.assert_array_equal(fits[0].inputs, alone.inputs)
    np.testing.assert_allclose(fits[0].alpha, alone.alpha, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(fits[0].held_outputs, alone.held_outputs, rtol=1e-6, atol=1e-8)


def test_a_worker_receives_its_own_rows_alone():
    recipes = []

    class Watched(Workers):
        def __call__(self, recipe, ranges, **more):
            made = super().__call__(recipe, ranges, **more)
            recipes.extend(map(len, made.recipes))
            return made

    rng = np.random.default_rng(0)
    stream = Stream(lift_single(rng.normal(size=(3072, 30)), 1.0))
    kept = {"kept": np.arange(3000), "held": np.arange(3000, 3072), "ridges": [0.1], "centres": 20}
    kept["kernel"], backend = SphereKernel(1.0, 0.5), Clustered(Watched(4), 1, few=100)
    fit_centres(stream, rng.normal(size=(3072, 1)), np.ones(3072), backend=backend, **kept)
    assert len(recipes) == 4
    assert sum(recipes) < 1.5 * stream.rows.nbytes


@pytest.mark.parametrize("way", ["exact", "centres", "auto"])
def test_estimators_fit_many_rows_on_a_cluster(monkeypatch, way):
    sizes = {"leaf": 120, "leaves_judged": 40, "centres": 60, "more_centres": 100}
    sizes |= {"on_cluster": FEW["large"] + FEW["held"], "exact": 600 if way == "auto" else Sizes().exact}
    X, y = friedman(1000)
    kind, y = (ThresherClassifier, y > np.median(y)) if way == "auto" else (ThresherRegressor, y)
    options = {"random_state": 0, "feature_learning": 0, "approximation": way, "n_jobs": 1}
    alone = of_few(kind(**options), **sizes).fit(X, y)
    said = []
    for cluster in (Workers(1), Workers(3, lost={2, 5})):
        monkeypatch.setattr("thresher.estimators.engine.place_of", lambda where, made=cluster: made)
        model = of_few(kind(engine="ray", **options), **sizes).fit(X, y)
        assert set(cluster.calls) == {"times" if way == "exact" else "sums"}
        assert not [one for one in cluster.made if one() is not None]  # nothing holds workers after a fit
        assert model.approximation_ == alone.approximation_
        said.append(pickle.loads(pickle.dumps(model)).predict(X))
    np.testing.assert_array_equal(said[0], said[1])
    if way == "auto":
        assert np.mean(said[0] != alone.predict(X)) < 0.01
    else:
        np.testing.assert_allclose(said[0], alone.predict(X), atol=1e-4 * np.ptp(y))


def test_few_rows_stay_here():
    cluster = Workers(2)
    backend, inputs = Clustered(cluster, 1, few=Sizes().on_cluster), inputs_of(300)
    np.testing.assert_array_equal(
        backend.operator(KERNEL, inputs, memory=1e9).times(np.ones((300, 1))),
        Cpu(1).operator(KERNEL, inputs, memory=1e9).times(np.ones((300, 1))),
    )
    assert not cluster.made


def test_what_no_machine_has_room_for_is_refused():
    matrix = Clustered(Workers(2, memory=1e8), 1, few=100).operator(KERNEL, inputs_of(300), memory=0.0)
    with pytest.raises(MemoryRefused, match=r"each of 2 workers needs .* room for 0\. Use approximation='centres'"):
        matrix.times(np.ones((300, 1)))


@given(st.lists(st.integers(1, 8), min_size=1, max_size=3), st.integers(1, 20))
def test_shards_have_room_for_what_they_keep(cpus, workers):
    nodes = [Node(float(one), 1e9 * one) for one in cpus]
    assert room_for(nodes, workers, 0.0) == min(node.memory for node in nodes) / workers
    assert room_for(nodes, workers, 1.0) == max(1e9, min(1e9 * one / min(one, workers) for one in cpus))
    assert room_for([], workers, 1.0) == 0
