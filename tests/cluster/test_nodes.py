"""Training on two machines, one of which is lost; and on GPUs. Each in a process of its own, with a Ray of its own."""

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.thorough

pytest.importorskip("ray", reason="Ray is not installed: pip install 'thresher-ml[ray]'")

PREPARED = """
import logging, warnings
warnings.simplefilter("error")
logging.getLogger("ray").setLevel(logging.ERROR)
import numpy as np, ray
from dataclasses import fields
from thresher import Iteration, NotAvailable, Problem, Ray, to_sphere, train
from thresher.engines import engine, ray_cluster
engine._SHARD = 200
rng = np.random.default_rng(1)
problem = Problem(to_sphere(rng.normal(size=(20, 6))), rng.normal(size=20))
SMALL = {"width": 2000, "shift": 0.6}
def told(result):
    names = [one.name for one in fields(Iteration) if one.name not in ("seconds", "traffic")]
    return repr([[getattr(record, name) for name in names] for record in result.history])
"""


def run(code, **environment):
    code = PREPARED + textwrap.dedent(code)
    given = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0", **environment}
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=given)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.slow
def test_a_node_that_is_killed_changes_no_bit():
    told = run("""
        import os, time
        from ray.cluster_utils import Cluster
        quiet = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 100 << 20}
        nodes = Cluster(initialize_head=True, head_node_args=quiet)
        other = nodes.add_node(num_cpus=1, object_store_memory=100 << 20)
        ray.init(nodes.address, log_to_driver=False, configure_logging=False)
        lost = []

        def lose(record):
            if record.iteration == 1:
                ask = lambda worker: (ray.get_runtime_context().get_node_id(), os.getpid())
                found = [ray.get(seat.actor.__ray_call__.remote(ask)) for seat in made[0].seats]
                lost.extend(node for node, _ in found)
                nodes.remove_node(other, allow_graceful=False)
                ends = time.monotonic() + 60
                while all(os.path.exists(f"/proc/{pid}") for _, pid in found):  # it ends a moment after its node
                    assert time.monotonic() < ends
                    time.sleep(0.1)

        made, begin = [], ray_cluster.RayExecutor.__init__
        def watched(executor, *given):
            begin(executor, *given)
            made.append(executor)
        ray_cluster.RayExecutor.__init__ = watched
        there = train(problem, engine=Ray(workers=2), callbacks=[lose], **SMALL)
        assert len(set(lost)) == 2, lost  # one worker on each node
        restarts = sum(record.traffic["restarts"] for record in there.history)
        assert 1 <= restarts <= 3, restarts  # the cluster may not know yet that the node is gone
        assert told(there) == told(train(problem, **SMALL))
        ray.shutdown()
        nodes.shutdown()
        print("same")
    """)
    assert told.endswith("same\n")


def test_a_local_ray_ends_with_the_training():
    told = run("""
        import gc, subprocess
        there = train(problem, engine=Ray(workers=2), **SMALL)
        gc.collect()
        assert not ray.is_initialized()
        assert told(there) == told(train(problem, **SMALL))
        try:
            train(problem, engine=Ray("127.0.0.1:1"), **SMALL)
        except NotAvailable as error:
            print(error)
    """)
    assert told.startswith("no Ray cluster at '127.0.0.1:1': ")
    assert "Start one with `ray start --head`, or leave address out." in told


@pytest.mark.slow
def test_shards_on_gpus():
    pytest.importorskip("triton", reason="Triton is not installed: pip install 'thresher-ml[gpu]'")
    told = run(
        """
        ray.init("local", num_cpus=2, num_gpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False,
                 object_store_memory=100 << 20)
        options = {"width": 600, "shift": 0.6, "max_iterations": 2}
        here = train(problem, **options)
        there = train(problem, device="cuda", engine="ray", **options)
        for one, other in zip(here.history, there.history, strict=True):
            assert (one.firing, one.flips) == (other.firing, other.flips)
            assert abs(one.residual - other.residual) < 1e-5
        assert there.history[0].traffic["sent"] > 0
        assert len(ray._private.state.actors()) == 2
        print("same")
        """,
        TRITON_INTERPRET="1",
    )
    assert told.endswith("same\n")
