"""Memory: what is estimated before the work begins, beside what is taken."""

import gc
import tracemalloc

import numpy as np
import pytest
from columns import train_columns

from thresher import Problem, ThresherRegressor, to_sphere, train
from thresher.datasets import random_problem
from thresher.engines import Footprint, footprint
from thresher.estimators import memory as memory_of_fits
from thresher.model.hadamard import Rotated
from thresher.model.network import NetworkSettings
from thresher.shards import SHARDS

pytestmark = pytest.mark.thorough


def peak_of(work):
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        gc.enable()


@pytest.mark.parametrize(
    ("n", "d", "width", "outputs"), [(1000, 10, 1 << 13, 1), (64, 32, 1 << 17, 1), (64, 20, 1 << 15, 4)]
)
@pytest.mark.parametrize("threads", [1, 2])
def test_training_takes_what_is_estimated(n, d, width, outputs, threads):
    rng = np.random.default_rng(0)
    X = to_sphere(rng.normal(size=(n, d)))
    problems = [Problem(X, rng.normal(size=n)) for _ in range(outputs)]
    options = {"width": width, "shift": 0.3, "twins": True}
    settings = NetworkSettings.checked(dimension=d, **options)
    train_columns(problems[:1], index="dense", max_iterations=1, **options | {"width": 100})  # all is compiled
    peak = peak_of(
        lambda: train_columns(problems, index="dense", tol=1e-6, max_iterations=2, threads=threads, **options)
    )
    estimate = (
        Footprint([one.targets for one in problems], settings, "dense", SHARDS["dense"], threads=threads).here()
        - footprint._FIXED
    )
    assert peak < estimate < 6 * peak


@pytest.mark.parametrize("start", ["random", "hadamard"])
@pytest.mark.parametrize(("n", "d"), [(1000, 20), (600, 700)])
def test_the_certified_search_takes_what_is_estimated(n, d, start):
    """Many products of inputs, or long rows of few inputs."""
    problem, options = random_problem(inputs=n, dimension=d), {"width": 1 << 13, "shift": 1.5, "start": start}
    settings = NetworkSettings.checked(dimension=d, width=1 << 13, shift=1.5, sequence=start)
    train(random_problem(inputs=20, dimension=d), max_iterations=1, **options)  # all is compiled
    peak = peak_of(lambda: train(problem, max_iterations=1, threads=1, **options))
    estimate = Footprint([problem.targets], settings, "certified", SHARDS["certified"]).here() - footprint._FIXED
    assert peak < estimate < 6 * peak


def test_what_hadamard_rows_need_is_counted(monkeypatch):
    """Rotated inputs once, and the products of a block for each thread."""
    X = random_problem(inputs=100, dimension=3000).inputs

    def footprints(sequence, dtype):
        settings = NetworkSettings.checked(width=1 << 16, dimension=3000, sequence=sequence)
        shard = SHARDS["certified"]
        made = [Footprint([np.ones(100)], settings, "certified", shard, dtype, threads=threads) for threads in (1, 2)]
        return np.array([*(one.here() for one in made), made[0].shares(workers=3, threads=1).worker])

    rotated = Rotated.of(X, seed=0)
    block = rotated.room(rotated.tiles.shape[1]).nbytes
    one, two, worker = footprints("hadamard", "float32")
    assert block <= two - one <= 1.5 * block
    monkeypatch.setattr(footprint, "block_size", lambda dimension: 0)
    monkeypatch.setattr(SHARDS["certified"], "block_memory", lambda facts: 0.0)
    bare = footprints("hadamard", "float32")
    needed = rotated.tiles.nbytes
    for with_rows, without in ((2 * one - two, bare[0]), (worker - (two - one), bare[2])):
        assert needed <= with_rows - without <= 1.5 * needed
    np.testing.assert_array_equal(footprints("hadamard", "float64"), footprints("random", "float64"))


@pytest.mark.parametrize(("n", "d"), [(300, 8), (300, 60), (800, 8)])
def test_fits_take_what_is_estimated(n, d, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=n)
    estimates = []
    monkeypatch.setattr(memory_of_fits, "require", lambda estimate, **_: estimates.append(estimate))
    model = ThresherRegressor(feature_learning=1, n_jobs=1)
    ThresherRegressor().fit(X[:60], y[:60])  # all is compiled
    peak = peak_of(lambda: model.fit(X, y))
    assert peak < max(estimates) < 6 * peak
