"""Training on Ray: the same history to the bit, whatever is killed meanwhile. One local Ray for all tests here."""

import gc
import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from dataclasses import fields

import numpy as np
import pytest

pytest.importorskip("ray", reason="Ray is not installed: pip install 'thresher[ray]'")
import ray
from few import friedman, let_few_be_many
from test_cli import run

from thresher import (
    InvalidInput,
    MemoryRefused,
    NotAvailable,
    Problem,
    Ray,
    ThresherRegressor,
    WorkerLost,
    to_sphere,
    train,
    train_together,
)
from thresher.engines import engine as engines
from thresher.engines import ray_cluster
from thresher.engines.threads import Threads
from thresher.estimators import beyond, clustered, many
from thresher.estimators.centres import fit_centres
from thresher.estimators.clustered import Clustered
from thresher.runs import read_run
from thresher.training.history import Iteration

SMALL = {"width": 2000, "shift": 0.6}


@pytest.fixture(scope="module")
def cluster():
    assert not ray.is_initialized()
    logging.getLogger("ray").setLevel(logging.ERROR)
    os.environ.setdefault("RAY_worker_niceness", "0")  # else tests take long where others work too
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False,
             object_store_memory=100 << 20)  # fmt: skip
    folder = ray._private.worker._global_node.get_session_dir_path()
    yield ray.get_runtime_context().gcs_address
    ray.shutdown()
    assert not running(folder)


def running(word):
    """Processes with a word in their command."""
    found = subprocess.run(["pgrep", "-f", word], capture_output=True, text=True, check=False).stdout.split()
    return [one for one in found if int(one) != os.getpid()]


@pytest.fixture(autouse=True)
def ten_slices(monkeypatch):
    monkeypatch.setattr(engines, "_SHARD", 200)


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


@pytest.mark.parametrize("shards", [pytest.param(k, marks=pytest.mark.slow) for k in (1, 2, 3)] + [7])
def test_the_number_of_shards_changes_no_bit(cluster, shards):
    (problem,) = problems()
    there = train(problem, engine=Ray(shards=shards), audit=True, **SMALL)
    assert_same(train(problem, audit=True, **SMALL), there)
    assert not sum(record.traffic["restarts"] for record in there.history)


CASES = {
    "conjugate gradients": {"solver": "cg"},
    "paper": {"method": "paper"},
    "dense with a penalty": {"index": "dense", "penalty": 0.1, "width": 200},
    "poisson": {"twins": True, "start": "poisson", "width": 4000, "shift": 1.5},
    "no matrix": {"solver": "pivots"},
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_all_that_the_local_engine_has(cluster, case):
    some, options = problems(2), {**SMALL, "max_iterations": 4, **CASES[case]}
    for here, there in zip(train_together(some, **options), train_together(some, engine="ray", **options), strict=True):
        assert_same(here, there)


def sabotage(name, time):
    """Return what makes a worker kill its process in the n-th call of a name, when its first slice has answered."""

    def arm(worker):
        slices, seen = worker._slices, [0]

        def dies(method, arguments):
            called = (arguments[1] if method == "call" else method) == name
            seen[0] += called
            return called and seen[0] == time

        def broken_map(method, *arguments):
            now = dies(method, arguments)
            for one in type(slices).map(slices, method, *arguments):
                if now:
                    os.kill(os.getpid(), signal.SIGKILL)
                yield one

        def broken_add_up(method, *arguments):
            total = type(slices).add_up(slices, method, *arguments)
            if dies(method, arguments):
                os.kill(os.getpid(), signal.SIGKILL)
            return total

        slices.map, slices.add_up = broken_map, broken_add_up

    return arm


@pytest.fixture
def kill(monkeypatch):
    """A function that takes, by shard, the calls in which it dies, one after the other: names and how many before."""
    begin = ray_cluster.RayExecutor._begin

    def plan(deaths):
        left, begun = {shard: list(some) for shard, some in deaths.items()}, []

        def armed(executor, seat):
            begin(executor, seat)
            begun.append(seat.number)
            if left.get(seat.number):
                seat.actor.__ray_call__.remote(sabotage(*left[seat.number].pop(0)))

        monkeypatch.setattr(ray_cluster.RayExecutor, "_begin", armed)
        return begun

    return plan


def test_shards_that_are_killed_change_no_bit(cluster, kill):
    (problem,) = problems()
    kill({0: [("start", 1), ("add_counts", 1)], 1: [("move", 2), ("weights", 1)], 2: [("linearise", 3)]})
    there = train(problem, engine=Ray(shards=3), **SMALL)
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
    there = train(problem, engine=Ray(shards=2), **{**SMALL, **options})
    assert_same(train(problem, **{**SMALL, **options}), there)
    assert sum(record.traffic["restarts"] for record in there.history) == len(deaths)


@pytest.mark.slow
def test_shards_killed_at_random_change_no_bit(cluster, monkeypatch):
    rng, some = np.random.default_rng(0), problems(2)
    here = train_together(some, **SMALL)
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
    there = train_together(some, engine=Ray(shards=3), **SMALL)
    assert len(killed) > 1
    for one, other in zip(here, there, strict=True):
        assert_same(one, other)


def test_a_shard_that_stays_away_is_an_error_and_the_checkpoint_is_kept(cluster, kill, tmp_path):
    (problem,) = problems()
    file = tmp_path / "checkpoint"
    kill({1: [("move", 2)] * 9})
    with pytest.raises(
        WorkerLost, match=r"shard 2 of 2 \(neurons 1,000 to 1,999\) was lost 2 times in one call, and st"
    ):
        train(problem, engine=Ray(shards=2, retries=1), checkpoint=file, **SMALL)
    assert_same(train(problem, **SMALL), train(problem, resume=file, **SMALL))


def test_a_killed_driver_resumes(cluster, tmp_path):
    (problem,) = problems()
    np.savez(tmp_path / "problem.npz", X=problem.inputs, y=problem.targets)
    code = f"""
import os, signal, numpy as np
from thresher import Ray, train
from thresher.engines import engine
engine._SHARD = 200
data = np.load({str(tmp_path / "problem.npz")!r})
train(data["X"], data["y"], engine=Ray({cluster!r}, shards=2), checkpoint={str(tmp_path / "checkpoint")!r},
      callbacks=[lambda record: record.iteration == 2 and os.kill(os.getpid(), signal.SIGKILL)], **{SMALL!r})
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (-signal.SIGKILL, "")
    there = train(problem, engine=Ray(shards=2), resume=tmp_path / "checkpoint", **SMALL)
    assert_same(train(problem, **SMALL), there)


def test_traffic_of_an_iteration_does_not_grow_with_the_width(cluster):
    (problem,) = problems()
    n, found = problem.size, {}
    for width in (2000, 16000):  # slices are as many
        engines._SHARD = width // 10
        result = train(problem, engine=Ray(shards=1), width=width, shift=0.6, max_iterations=3)
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


def test_the_log_is_small_and_forgets_outputs(cluster, monkeypatch):
    kept, ask = [], ray_cluster.RayExecutor._ask

    def watched(executor, call):
        yield from ask(executor, call)
        kept.append((executor.kept, pickle.loads(call.data)[0]))

    monkeypatch.setattr(ray_cluster.RayExecutor, "_ask", watched)
    some = problems(2)
    results = train_together(some, engine=Ray(shards=1), **SMALL)
    for here, there in zip(train_together(some, **SMALL), results, strict=True):
        assert_same(here, there)
    steps = 2 + sum(len(one.history) for one in results)
    assert max(size for size, _ in kept) < steps * (8 * some[0].size + 300)
    released = [size for size, name in kept if name == "release"]
    assert released[0] < 0.8 * max(size for size, _ in kept)


def test_refusals(cluster, monkeypatch):
    (problem,) = problems()
    with pytest.raises(MemoryRefused, match=r"each of 2 shards needs about .* have room for 0\."):
        train(problem, engine="ray", width=10**12)
    with pytest.raises(MemoryRefused, match=r"each of 2 shards needs about .* have room for 0\."):
        train(problem, engine="ray", width=10**14, twins=True, start="poisson")
    with pytest.raises(NotAvailable, match="2 shards on GPUs need as many GPUs; the cluster has 0"):
        pytest.importorskip("torch")
        train(problem, engine=Ray(device="cuda", shards=2), **SMALL)
    with pytest.raises(InvalidInput, match="this process has joined the Ray cluster"):
        train(problem, engine=Ray("10.0.0.1:6379"), **SMALL)
    monkeypatch.setitem(sys.modules, "thresher.engines.ray_cluster", None)
    with pytest.raises(InvalidInput, match="engine must be one of 'local', 'gpu', 'ray'; got 'spark'"):
        train(problem, engine="spark", **SMALL)


def test_an_error_of_a_shard_is_raised_here(cluster, monkeypatch):
    monkeypatch.setattr(
        ray_cluster.Call, "of", lambda method, arguments, adds: of("no_such_method", arguments, adds=adds)
    )
    with pytest.raises(AttributeError, match="no_such_method"):
        train(problems()[0], engine=Ray(shards=1), **SMALL)


of = ray_cluster.Call.of


def test_nothing_is_left_behind(cluster):
    deadline = time.monotonic() + 30
    while alive() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not alive()


@pytest.mark.slow
@pytest.mark.parametrize("ridge", [0, "auto"])
def test_estimators_on_a_cluster(cluster, diabetes, ridge):
    X, y, new, _ = diabetes
    options = {"width": 2048, "ridge": ridge, "random_state": 0}
    X, y = X[:40], y[:40]
    here, there = ThresherRegressor(**options).fit(X, y), ThresherRegressor(engine="ray", **options).fit(X, y)
    np.testing.assert_array_equal(here.predict(new), there.predict(new))
    assert there.results_[0].history[0].traffic["sent"]


@pytest.fixture
def limit(monkeypatch):
    """A function that fits the limit to rows that count as many, and predicts them."""
    let_few_be_many(monkeypatch)
    monkeypatch.setattr(beyond, "CENTRES", (60, 100))
    monkeypatch.setattr(clustered, "FEW", many.LARGE + many.HELD)
    X, y = friedman(900)

    def fit(engine, way, **more):
        model = ThresherRegressor(engine=engine, approximation=way, feature_learning=0, random_state=0, **more)
        return model.fit(X, y).predict(X)

    return fit


class Here:
    """A cluster that is none: slices in this process."""

    shards, room, require = staticmethod(len), staticmethod(lambda shards: 1e9), staticmethod(lambda *a, **k: None)
    __call__ = staticmethod(Threads)


def products_and_passes(made):
    """What comes of the answers of slices of 900 rows, in some calls of each kind."""
    rng = np.random.default_rng(0)
    rows, device = to_sphere(rng.normal(size=(900, 5))).astype(np.float32), Clustered(made, 1)
    matrix, vectors = device.matrix(rows, 0.4, memory=0.0), rng.normal(size=(800, 2))
    order, y = rng.permutation(900), rng.normal(size=(900, 1))
    said = [matrix.times(one) for one in (vectors, y, vectors)]
    del matrix  # with its workers, which have all the processors
    options = {"kept": order[:800], "held": order[800:], "shift": 0.4, "ridges": [0.1, 1.0], "centres": 50}
    fit = fit_centres(rows, y, np.ones(900), device=device, **options)
    return [*said, fit.alpha, fit.held_outputs]


@pytest.mark.slow
def test_slices_of_rows_that_are_killed_change_no_bit(cluster, kill, monkeypatch):
    monkeypatch.setattr(clustered, "FEW", 800)
    begun = kill({0: [("times", 2), ("nothing", 1), ("sums", 2)]})
    there = products_and_passes(ray_cluster.Cluster(Ray(shards=2)))
    assert begun == [0, 1, 0] * 2
    for one, other in zip(products_and_passes(Here()), there, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["exact", "centres"])
def test_many_rows_whatever_is_killed(cluster, kill, limit, way):
    here, alone = limit("local", way), limit(Ray(shards=1), way)
    np.testing.assert_array_equal(limit(Ray(shards=2), way), alone)
    call = "times" if way == "exact" else "sums"
    kill({0: [(call, 2), (call, 1)], 2: [(call, 4)]})
    np.testing.assert_array_equal(limit(Ray(shards=3), way), alone)
    np.testing.assert_allclose(alone, here, atol=1e-3)


@pytest.mark.slow
def test_rows_that_stay_away_are_an_error_and_the_fit_goes_on_elsewhere(cluster, kill, limit, tmp_path):
    file = tmp_path / "progress"
    kill({1: [("sums", 3)] * 9})
    with pytest.raises(WorkerLost, match=r"shard 2 of 2 \(rows 512 to 899\) was lost 1 times.*checkpoint= of an estim"):
        limit(Ray(shards=2, retries=0), "centres", checkpoint=file)
    assert file.exists()
    np.testing.assert_allclose(limit("local", "centres", checkpoint=file), limit("local", "centres"), atol=1e-3)
    assert not file.exists()


def test_the_command_trains_on_a_cluster_and_the_report_tells_what_travelled(cluster, capsys, tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 4))
    np.savetxt(tmp_path / "table.csv", np.column_stack([rows, rows[:, 0] - rows[:, 1]]), delimiter=",")
    base = ["train", str(tmp_path / "table.csv"), "--ridge", "0", "--width", "4000"]
    there, here = (tmp_path / name for name in ("there", "here"))
    assert run(capsys, *base, "--save", str(here), "--quiet")[0] == 0
    page = tmp_path / "page.html"
    more = ["--engine", "ray", "--shards", "2", "--save", str(there), "--report", str(page)]
    assert run(capsys, *base, *more)[0] == 0
    runs = [read_run(place).trainings[0] for place in (here, there)]
    assert told(runs[0]) == told(runs[1])
    assert runs[1].history[1].traffic["received"] > 0
    assert "On the cluster" in page.read_text()
    code, _, err = run(capsys, *base, "--shards", "2")
    assert code
    assert "--shards is only for a cluster. Add --engine ray" in err
