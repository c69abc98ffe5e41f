"""A Ray of this machine, and how its workers are killed. Ray is imported where it is needed: it may not be there."""

import logging
import os
import signal
import subprocess

import pytest

from thresher.engines import engine as engines
from thresher.shards import Slice


@pytest.fixture(scope="module")
def cluster():
    import ray

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


@pytest.fixture
def ten_slices(monkeypatch):
    monkeypatch.setattr(engines, "_SHARD", 200)


def sabotage(name, time):
    """Return what makes a worker kill its process in the n-th call of a name, when its first slice has answered."""

    def arm(worker):
        slices, seen = worker._slices, [0]

        def dies(function, arguments):
            called = (arguments[1] if function is Slice.call else function).__name__ == name
            seen[0] += called
            return called and seen[0] == time

        def broken_map(function, *arguments):
            now = dies(function, arguments)
            for one in type(slices).map(slices, function, *arguments):
                if now:
                    os.kill(os.getpid(), signal.SIGKILL)
                yield one

        def broken_add_up(function, *arguments):
            total = type(slices).add_up(slices, function, *arguments)
            if dies(function, arguments):
                os.kill(os.getpid(), signal.SIGKILL)
            return total

        slices.map, slices.add_up = broken_map, broken_add_up

    return arm


@pytest.fixture
def kill(monkeypatch):
    """A function that takes, by worker, the calls in which it dies, one after the other: names and how many before."""
    from thresher.engines import ray_cluster

    begin = ray_cluster.RayExecutor._begin

    def plan(deaths):
        left, begun = {worker: list(some) for worker, some in deaths.items()}, []

        def armed(executor, seat):
            begin(executor, seat)
            begun.append(seat.number)
            if left.get(seat.number):
                seat.actor.__ray_call__.remote(sabotage(*left[seat.number].pop(0)))

        monkeypatch.setattr(ray_cluster.RayExecutor, "_begin", armed)
        return begun

    return plan
