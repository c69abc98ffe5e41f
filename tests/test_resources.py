"""Signals and resources: interrupts, memory limits, threads, hash seeds."""

import ctypes
import math
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joblib.externals.loky import get_reusable_executor
from properties import examples
from sklearn.base import BaseEstimator
from sklearn.model_selection import GridSearchCV
from threadpoolctl import ThreadpoolController, threadpool_info

from thresher import MemoryRefused, control_groups, memory, parallel, train
from thresher.datasets import random_problem
from thresher.engines import ShardEngine
from thresher.engines import engine as engine_module
from thresher.parallel import Pool, _anyone_may_change_it, blas_for_size, core_count, in_order, uninterrupted


def python(code, *, limit=None, **environment):
    def before():
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=600,
        preexec_fn=before,
        env={**os.environ, **environment},
    )


ONE = {"OPENBLAS_NUM_THREADS": "1"}  # each thread of BLAS takes address space of its own


def test_threads_stay_from_call_to_call():
    def work(_):
        return threading.get_ident()

    seen = set()
    for _ in range(20):
        seen |= set(in_order(work, range(8), threads=3))
    assert len(seen) <= 3
    inner = list(in_order(lambda _: len(list(in_order(work, range(4), threads=3))), range(6), threads=3))
    assert inner == [4] * 6  # a task may call it itself
    begun = in_order(work, range(100), threads=3)
    next(begun)
    begun.close()  # nobody goes on with what nobody waits for
    with pytest.raises(ZeroDivisionError):
        list(in_order(lambda k: 1 // (k - 5), range(8), threads=3))
    assert list(in_order(lambda k: k, range(8), threads=3)) == list(range(8))


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


@pytest.fixture
def two_blas_threads():
    """Two threads for BLAS, whoever may change that afterwards."""
    limit = ThreadpoolController().limit(limits=2, user_api="blas")
    _anyone_may_change_it()
    yield
    limit.restore_original_limits()


def test_ulimit_v_is_a_limit():
    found = python("from thresher.memory import available_bytes; print(available_bytes())", limit=3 << 30, **ONE)
    assert 0 < int(found.stdout) < 3 << 30
    code = """
from thresher import MemoryRefused, train
from thresher.datasets import random_problem
try:
    train(random_problem(inputs=500, dimension=10), width=2**23, shift=0.5, threads=1)
except MemoryRefused as error:
    print(error)
"""
    assert "may be taken" in python(code, limit=4 << 30, **ONE).stdout


def make_groups(folder, monkeypatch, *, version, controller):
    """Groups of a container in a folder, as the process finds them; return those of the process, above it, the root."""
    root = folder / controller if version == 1 else folder
    own = root / "slice" / "own"
    own.mkdir(parents=True)
    (folder / "groups").write_text(f"3:net:/other\n4:{controller}:/slice/own\n" if version == 1 else "0::/slice/own\n")
    monkeypatch.setattr(control_groups, "_ROOT", folder)
    monkeypatch.setattr(control_groups, "_OWN", folder / "groups")
    return {"own": own, "parent": own.parent, "root": root}


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("depth", ["own", "parent", "root"])
def test_control_groups_limit_memory(tmp_path, monkeypatch, version, depth):
    limit, use, idle = control_groups._MEMORY_1 if version == 1 else control_groups._MEMORY_2
    for name, folder in make_groups(tmp_path, monkeypatch, version=version, controller="memory").items():
        (folder / limit).write_text("5000000" if name == depth else "max" if version == 2 else str(2**63 - 4096))
        (folder / use).write_text("3000000")
        (folder / "memory.stat").write_text(f"anon 5\n{idle}1000000\nactive_file 7\n")
    assert memory.available_bytes() == 3_000_000


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("depth", ["own", "parent", "root"])
@pytest.mark.parametrize(("quota", "expected"), [(20000, 1), (200000, 2), (250000, 3), (99_900_000, 64)])
def test_control_groups_limit_cores(tmp_path, monkeypatch, version, depth, quota, expected):
    for name, folder in make_groups(tmp_path, monkeypatch, version=version, controller="cpu").items():
        if version == 2:
            (folder / "cpu.max").write_text(f"{quota if name == depth else 'max'} 100000\n")
        else:
            (folder / "cpu.cfs_quota_us").write_text(str(quota if name == depth else -1))
            (folder / "cpu.cfs_period_us").write_text("100000")
    monkeypatch.setattr(parallel, "_quota", control_groups.cpu_quota)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(64))
    assert core_count() == expected


def test_no_control_groups_no_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(control_groups, "_ROOT", tmp_path)
    monkeypatch.setattr(control_groups, "_OWN", tmp_path / "nobody")
    assert memory.available_bytes() > 1 << 20
    assert control_groups.cpu_quota() == control_groups.memory_left() == math.inf


def test_memory_that_runs_out_all_the_same_is_our_error(monkeypatch):
    def greedy(*_, **__):
        return np.empty(1 << 60, np.int8)

    monkeypatch.setattr(ShardEngine, "move", greedy)
    with pytest.raises(MemoryRefused, match="memory ran out while training 100 neurons: Unable to allocate"):
        train(random_problem(inputs=5, dimension=3), width=100)


def test_threads_of_blas_are_restored(two_blas_threads):
    problem = random_problem(inputs=20, dimension=5)
    before, running = blas_threads(), set(threading.enumerate())
    network = train(problem, width=500).network
    network.predict(problem.inputs)
    with pytest.raises(ZeroDivisionError):
        train(problem, width=500, callbacks=[lambda record: 1 / 0])
    with pytest.raises(KeyboardInterrupt), blas_for_size(5):
        raise KeyboardInterrupt
    assert blas_threads() == before
    assert set(threading.enumerate()) <= running  # those of earlier tests may have ended meanwhile


def test_predict_is_safe_in_threads_and_restores_those_of_blas(two_blas_threads):
    problem = random_problem(inputs=50, dimension=5)
    network = train(problem, width=5000).network
    alone = network.predict(problem.inputs)
    before = blas_threads()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: network.predict(problem.inputs), range(64)))
    assert blas_threads() == before
    assert all(np.array_equal(one, alone) for one in found)


def test_a_limit_that_is_left_early_holds_for_the_others(two_blas_threads):
    inside, leave = threading.Event(), threading.Event()

    def other():
        with blas_for_size(5):
            inside.set()
            leave.wait()

    thread = threading.Thread(target=other)
    with blas_for_size(5):
        thread.start()
        inside.wait()
    assert set(blas_threads()) <= {1}  # the other one is still at work
    leave.set()
    thread.join()
    assert set(blas_threads()) <= {2}


def cores():
    return len(os.sched_getaffinity(0))


@pytest.mark.parametrize(("value", "least"), [("1", 1), (" 1 ", 1), ("1000", cores()), ("2", min(2, cores()))])
def test_no_more_cores_than_omp_num_threads(value, least, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert core_count() == least


@pytest.mark.parametrize("value", [None, "", "0", "-1", "1.5", "1,2", "many"])
def test_omp_num_threads_that_says_nothing(value, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if value is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert core_count() == cores()


class Counting(BaseEstimator):
    """Its score is the number of cores that fit was given, or a thread of joblib that fit begins."""

    def __init__(self, inner=False):
        self.inner = inner

    def fit(self, X, y):
        self.cores_ = joblib.Parallel(2)([joblib.delayed(core_count)()] * 2)[0] if self.inner else core_count()
        return self

    def score(self, X, y):
        return self.cores_


def cores_in_a_search(inner=(False,), **config):
    with joblib.parallel_config(n_jobs=2, **config):
        search = GridSearchCV(Counting(), {"inner": inner}, cv=2, refit=False).fit(np.zeros((4, 1)), np.zeros(4))
    get_reusable_executor().shutdown(wait=True)
    return search.cv_results_["mean_test_score"].tolist()


@pytest.mark.thorough
def test_searches_beside_each_other_share_the_cores(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert cores_in_a_search(backend="sequential") == [cores()]
    assert cores_in_a_search(backend="threading") == [1]
    assert cores_in_a_search(backend="loky") == [max(1, min(cores(), joblib.cpu_count() // 2))]
    assert cores_in_a_search([False, True], backend="loky", inner_max_num_threads=2) == [min(2, cores()), 1]
    with ThreadPoolExecutor(1) as pool:  # a thread that is not joblib's
        assert pool.submit(core_count).result() == cores()


@pytest.mark.thorough
def test_processes_and_hash_seeds_change_no_bit():
    code = """
import hashlib
from thresher import train
from thresher.datasets import random_problem
problem = random_problem(inputs=30, dimension=8)
result = train(problem, width=3000, solver="sketched")
weights = result.network.weights
steps = [step for step in result.steps]
parts = (*weights.support, weights.coefficients, *steps, result.network.predict(problem.inputs))
print(hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest())
"""
    found = [python(code, PYTHONHASHSEED=seed) for seed in ("0", "1", "12345")]
    assert len({one.stdout for one in found}) == 1, found[0].stderr
    assert len(found[0].stdout) == 65


# Signals go to the process itself, at a given moment: from outside they might come before it, or after the end.
INTERRUPTED = """
import os, signal, sys
from thresher.cli import main
from thresher.cli.live import Live

class HalfWay:
    def __del__(self):  # as a library does that is taken down in the middle of its work
        raise RuntimeError("half-way")

def interrupt(*_):
    kept = HalfWay()
    os.kill(os.getpid(), signal.SIGINT)

setattr(Live, sys.argv.pop(), interrupt)
main()
"""


@pytest.mark.parametrize("moment", ["on_progress", "on_iteration"])
def test_ctrl_c_ends_the_command_with_130_and_no_traceback(moment, tmp_path):
    command = [sys.executable, "-c", INTERRUPTED, "demo", "--width", "2^12", "--rows", "50", moment]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=600)
    assert done.returncode == 130, (done.stdout, done.stderr)
    assert "Training 4,096 neurons" in done.stdout
    if moment == "on_iteration":  # the network of the last whole iteration is tested all the same
        assert "Interrupted: " in done.stdout
    assert done.stderr.strip() == "Interrupted."
    assert not os.listdir(tmp_path)


@settings(deadline=None, max_examples=examples(40))
@given(items=st.lists(st.integers(), max_size=12), threads=st.integers(1, 4), cut=st.none() | st.integers(0, 12))
def test_a_pool_works_in_order_and_leaves_nobody_at_work(items, threads, cut):
    """Also where a task fails, or where whoever asked goes away; the pool can be used again afterwards."""
    pool, inside, most, left = Pool(threads), [], [], []

    def task(item):
        inside.append(item)
        most.append(len(inside))
        time.sleep(1e-4)
        inside.remove(item)
        if cut is not None and len(most) > cut:
            raise ZeroDivisionError
        return -item

    for _ in range(2):
        most.clear()
        try:
            left = list(pool.in_order(task, iter(items)))
        except ZeroDivisionError:
            assert len(items) > cut
        else:
            assert left == [-item for item in items]
            assert cut is None or len(items) <= cut
        assert not inside
        assert max(most, default=0) <= threads
    for _ in pool.in_order(task, items if cut is None else []):
        break
    assert not inside
    pool.close()


def test_a_pool_keeps_its_threads_and_needs_none_for_a_single_task():
    pool, here = Pool(2), threading.get_ident()
    assert list(pool.in_order(lambda _: threading.get_ident(), [0])) == [here]
    barrier = threading.Barrier(2)

    def task(_):
        barrier.wait(30)
        return threading.get_ident()

    first, second = (set(pool.in_order(task, range(2))) for _ in range(2))
    assert first == second
    assert len(first) == 2
    assert here not in first
    running = threading.active_count()
    pool.close()
    assert threading.active_count() == running - 2


def test_a_training_keeps_one_pool_and_ends_its_threads(monkeypatch):
    monkeypatch.setattr(engine_module, "_SHARD", 64)
    running, seen = set(threading.enumerate()), []
    callback = [lambda record: seen.append(set(threading.enumerate()) - running)]
    result = train(random_problem(inputs=20, dimension=5), width=500, threads=2, callbacks=callback)
    assert len(result.history) > 3
    assert all(one == seen[0] for one in seen)
    assert 1 <= len(seen[0]) <= 2
    for thread in seen[0]:
        thread.join(30)
        assert not thread.is_alive()


def test_ctrl_c_waits_for_what_must_be_whole():
    done, before = [], signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        signal.raise_signal(signal.SIGINT)
        done.append("whole")
    assert done == ["whole"]
    assert signal.getsignal(signal.SIGINT) is before


def unreadable(path):
    raise FileNotFoundError(path)


@pytest.fixture
def nothing_known(monkeypatch):
    """A system without /proc and control groups."""
    monkeypatch.setattr(memory, "read_text", unreadable)
    monkeypatch.setattr(control_groups, "read_text", unreadable)


def test_where_nothing_is_known_of_memory_the_machine_has_all_of_it(nothing_known):
    assert memory.available_bytes() == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.parametrize(("answers", "expected"), [(1, 3 << 30), (0, 1 << 60)])
def test_windows_is_asked_for_its_free_memory(nothing_known, monkeypatch, answers, expected):
    """It has no ``os.sysconf``; where it does not answer, no limit is known."""

    def status(pointer):
        told = pointer._obj
        assert told.length == ctypes.sizeof(told) == 64
        told.free, told.total = 3 << 30, 8 << 30
        return answers

    windows = SimpleNamespace(kernel32=SimpleNamespace(GlobalMemoryStatusEx=status))
    monkeypatch.setattr(ctypes, "windll", windows, raising=False)
    monkeypatch.delattr(os, "sysconf")
    assert memory.available_bytes() == expected
    with pytest.raises(MemoryRefused) if answers else nullcontext():
        memory.require(4 << 30, budget=None, what="this", remedy="")
