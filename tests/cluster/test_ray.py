"""Training on Ray: the same history to the bit, whatever is killed meanwhile. One local Ray for all tests here."""

import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from dataclasses import fields
from importlib.util import find_spec

import numpy as np
import pytest

pytest.importorskip("ray", reason="Ray is not installed: pip install 'thresher-ml[ray]'")
import ray
from columns import train_columns

from thresher import (
    InvalidInput,
    MemoryRefused,
    NotAvailable,
    Problem,
    Ray,
    WorkerLost,
    to_sphere,
    train,
)
from thresher.engines import engine as engines
from thresher.engines import ray_cluster
from thresher.shards import Slice
from thresher.training.history import Iteration

SMALL = {"width": 2000, "shift": 0.6}
pytestmark = pytest.mark.usefixtures("ten_slices")


def problems(outputs=1):
    rng = np.random.default_rng(1)
    X = to_sphere(rng.normal(size=(20, 6)))
    return [Problem(X, rng.normal(size=20)) for _ in range(outputs)]


def told(result):
    """All that a history tells, but for seconds and traffic."""
    names = [one.name for one in fields(Iteration) if one.name not in ("seconds", "traffic")]
    return repr([[getattr(record, name) for name in names] for record in result.history])  # NaN is unlike itself


def assert_same(here, there):
    assert told(here) == told(there)
    assert (here.status, here.message, here.audit) == (there.status, there.message, there.audit)
    neurons = range(here.network.settings.neurons)
    np.testing.assert_array_equal(here.network.weights.vectors(neurons), there.network.weights.vectors(neurons))


def alive():
    """Actors that are alive: a moment after a training there are none."""
    gc.collect()
    return [one for one in ray._private.state.actors().values() if one["State"] != "DEAD"]


@pytest.mark.parametrize("start", ["random", pytest.param("hadamard", marks=pytest.mark.thorough)])
@pytest.mark.parametrize("workers", [pytest.param(k, marks=pytest.mark.slow) for k in (1, 2, 3)] + [7])
def test_the_number_of_shards_changes_no_bit(cluster, workers, start):
    (problem,) = problems()
    options = {**SMALL, "start": start, "audit": True}
    there = train(problem, engine=Ray(workers=workers), **options)
    assert_same(train(problem, **options), there)
    assert not sum(record.traffic["restarts"] for record in there.history)


CASES = {
    "conjugate gradients": {"solver": "cg", "twins": False},
    "paper": {"method": "paper"},
    "dense": {"index": "dense", "width": 200},
    "poisson": {"twins": True, "start": "poisson", "width": 4000, "shift": 1.5},
    "no matrix": {"solver": "pivots"},
    "hadamard": {"start": "hadamard", "twins": True},
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_all_that_the_local_engine_has(cluster, case):
    some, options = problems(2), {**SMALL, "max_iterations": 4, **CASES[case]}
    for here, there in zip(train_columns(some, **options), train_columns(some, engine="ray", **options), strict=True):
        assert_same(here, there)


@pytest.mark.thorough
def test_shards_that_are_killed_change_no_bit(cluster, kill):
    (problem,) = problems()
    kill({0: [("start", 1), ("add_counts", 1)], 1: [("move", 2), ("weights", 1)], 2: [("linearise", 3)]})
    there = train(problem, engine=Ray(workers=3), **SMALL)
    assert_same(train(problem, **SMALL), there)
    assert sum(record.traffic["restarts"] for record in there.history) == 4  # weights leave after the last record


PHASES = {
    "start scan": ([("start", 1), ("start", 1)], {}),
    "move": ([("move", 2), ("move", 2)], {}),
    "first move": ([("move", 1)], {"first_step": "gram", "width": 300}),
    "sums of counts": ([("add_counts", 1)], {}),
    "change of counts": ([("linearise", 3)], {}),
    "products": ([("gram_times", 9)], {"solver": "cg"}),
    "sketch": ([("sketch", 1)], {"method": "paper"}),
    "audit": ([("audit", 2)], {"audit": True}),
}


@pytest.mark.slow
@pytest.mark.parametrize("phase", PHASES)
def test_a_shard_that_is_killed_in_any_phase_changes_no_bit(cluster, kill, phase):
    deaths, options = PHASES[phase]
    (problem,) = problems()
    kill({0: deaths})
    there = train(problem, engine=Ray(workers=2), **{**SMALL, **options})
    assert_same(train(problem, **{**SMALL, **options}), there)
    assert sum(record.traffic["restarts"] for record in there.history) == len(deaths)


@pytest.mark.slow
def test_shards_killed_at_random_change_no_bit(cluster, monkeypatch):
    rng, some = np.random.default_rng(0), problems(2)
    here = train_columns(some, **SMALL)
    ask, killed = ray_cluster.RayExecutor._ask, []

    def reckless(executor, call):
        if rng.random() < 0.15:
            seat = executor.seats[rng.integers(len(executor.seats))]
            pid = ray.get(seat.actor.__ray_call__.remote(lambda worker: os.getpid()))
            if rng.random() < 0.5:
                os.kill(pid, signal.SIGKILL)  # before the call
            else:
                threading.Timer(rng.random() / 50, os.kill, (pid, signal.SIGKILL)).start()
            killed.append(pid)
        return ask(executor, call)

    monkeypatch.setattr(ray_cluster.RayExecutor, "_ask", reckless)
    there = train_columns(some, engine=Ray(workers=3), **SMALL)
    assert len(killed) > 1
    for one, other in zip(here, there, strict=True):
        assert_same(one, other)


@pytest.mark.thorough
def test_a_shard_that_stays_away_is_an_error_and_the_checkpoint_is_kept(cluster, kill, tmp_path):
    (problem,) = problems()
    file = tmp_path / "checkpoint"
    kill({1: [("move", 2)] * 9})
    with pytest.raises(
        WorkerLost, match=r"worker 2 of 2 \(neurons 1,000 to 1,999\) was lost 2 times in one call, and st"
    ):
        train(problem, engine=Ray(workers=2, retries=1), checkpoint=file, **SMALL)
    assert_same(train(problem, **SMALL), train(problem, resume=file, **SMALL))


@pytest.mark.thorough
def test_a_killed_driver_resumes(cluster, tmp_path):
    (problem,) = problems()
    np.savez(tmp_path / "problem.npz", X=problem.inputs, y=problem.targets)
    code = f"""
import os, signal, numpy as np
from thresher import Ray, train
from thresher.engines import engine
engine._SHARD = 200
data = np.load({str(tmp_path / "problem.npz")!r})
train(data["X"], data["y"], engine=Ray({cluster!r}, workers=2), checkpoint={str(tmp_path / "checkpoint")!r},
      callbacks=[lambda record: record.iteration == 2 and os.kill(os.getpid(), signal.SIGKILL)], **{SMALL!r})
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (-signal.SIGKILL, "")
    there = train(problem, engine=Ray(workers=2), resume=tmp_path / "checkpoint", **SMALL)
    assert_same(train(problem, **SMALL), there)


@pytest.mark.thorough
def test_traffic_of_an_iteration_does_not_grow_with_the_width(cluster):
    (problem,) = problems()
    n, found = problem.size, {}
    for width in (2000, 16000):  # slices are as many
        engines._SHARD = width // 10
        result = train(problem, engine=Ray(workers=1), width=width, shift=0.6, max_iterations=3)
        found[width] = result.history[2:]
        kept = result.history[0].traffic
        assert kept["sent"] < 5000
        assert kept["compute"] > 0
        assert kept["wait"] > 0
    for small, large in zip(*found.values(), strict=True):
        assert small.traffic["sent"] == large.traffic["sent"]  # a step, and two orders
        counts = n * (n + 1) // 2  # in four bytes at the most
        for one in (small, large):
            parts = 10 * (8 * n + 200) + 500
            assert parts / 2 < one.traffic["received"] < parts + 4 * counts
    assert all(not record.traffic for record in train(problem, **SMALL).history)


@pytest.mark.thorough
def test_the_log_is_small_and_forgets_outputs(cluster, monkeypatch):
    kept, ask = [], ray_cluster.RayExecutor._ask

    def watched(executor, call):
        yield from ask(executor, call)
        kept.append((executor.kept, pickle.loads(call.data)[0].__name__))

    monkeypatch.setattr(ray_cluster.RayExecutor, "_ask", watched)
    some = problems(2)
    results = train_columns(some, engine=Ray(workers=1), **SMALL)
    for here, there in zip(train_columns(some, **SMALL), results, strict=True):
        assert_same(here, there)
    steps = 2 + sum(len(one.history) for one in results)
    assert max(size for size, _ in kept) < steps * (8 * some[0].size + 300)
    released = [size for size, name in kept if name == "release"]
    assert released[0] < 0.8 * max(size for size, _ in kept)


def test_refusals(cluster, monkeypatch):
    (problem,) = problems()
    with pytest.raises(MemoryRefused, match=r"each of 2 workers needs about .* have room for 0\."):
        train(problem, engine="ray", width=10**12)
    with pytest.raises(MemoryRefused, match=r"each of 2 workers needs about .* have room for 0\."):
        train(problem, engine="ray", width=10**14, twins=True, start="poisson")
    missing = [name for name in ("torch", "triton") if find_spec(name) is None]
    said = f"on GPUs need {missing[0]}" if missing else "2 workers on GPUs need as many GPUs; the cluster has 0"
    with pytest.raises(NotAvailable, match=said):
        train(problem, device="cuda", engine=Ray(workers=2), **SMALL)
    with pytest.raises(InvalidInput, match="this process has joined the Ray cluster"):
        train(problem, engine=Ray("10.0.0.1:6379"), **SMALL)
    monkeypatch.setitem(sys.modules, "thresher.engines.ray_cluster", None)
    with pytest.raises(InvalidInput, match=r"engine must be 'local', 'ray' or a thresher\.Ray; got 'spark'"):
        train(problem, engine="spark", **SMALL)


@pytest.mark.thorough
def test_an_error_of_a_shard_is_raised_here(cluster, monkeypatch):
    unknown = Slice.call, (0, dict.popitem)  # a method that no shard has
    monkeypatch.setattr(ray_cluster.Call, "of", lambda function, arguments, adds: of(*unknown, adds=adds))
    with pytest.raises(AttributeError, match="popitem"):
        train(problems()[0], engine=Ray(workers=1), **SMALL)


of = ray_cluster.Call.of


@pytest.mark.thorough
def test_nothing_is_left_behind(cluster):
    deadline = time.monotonic() + 30
    while alive() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not alive()
