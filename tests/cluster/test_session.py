"""Ray is started once for all trainings of a process, and ended with the last. Ray itself is not started here."""

import gc
import threading
import time
from types import SimpleNamespace

import pytest

pytest.importorskip("ray", reason="needs Ray: pip install 'thresher-ml[ray]'")

from thresher import InvalidInput, NotAvailable
from thresher.engines import ray_cluster
from thresher.engines.ray_cluster import Session

pytestmark = pytest.mark.thorough


@pytest.fixture
def told(monkeypatch):
    """What a Ray that is none was told."""
    told = []

    def init(*_, **__):
        assert "up" not in told[-1:], "started twice"
        time.sleep(0.05)
        told.append("up")

    fake = SimpleNamespace(
        is_initialized=lambda: told[-1:] == ["up"],
        init=init,
        shutdown=lambda: told.append("down"),
        get_runtime_context=lambda: SimpleNamespace(gcs_address="here:1"),
    )
    monkeypatch.setattr(ray_cluster, "ray", fake)
    monkeypatch.setattr(Session, "_started", None)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    yield told
    gc.collect()


def test_the_last_that_needs_it_ends_it(told):
    first, second = Session.of(None), Session.of(None)
    del first
    gc.collect()
    assert told == ["up"]
    del second
    gc.collect()
    assert told == ["up", "down"]
    again = Session.of(None)
    assert told == ["up", "down", "up"]
    del again


def test_several_may_begin_at_once(told):
    found, both = [], threading.Barrier(4)

    def begin():
        both.wait()
        found.append(Session.of(None))

    threads = [threading.Thread(target=begin) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert told == ["up"] and len(found) == 4


def test_what_the_user_has_started_is_left_running(told):
    told.append("up")
    session = Session.of(None)
    del session
    gc.collect()
    assert told == ["up"]


def test_another_cluster_than_the_one_in_use_is_refused(told):
    session = Session.of(None)
    with pytest.raises(InvalidInput, match=r"has joined the Ray cluster here:1; got address='there:2'"):
        Session.of("there:2")
    del session


def test_whatever_ray_raises_is_one_line(told, monkeypatch):
    def init(*_, **__):
        raise Exception("The current node timed out during startup.")

    ray_cluster.ray.init = init
    with pytest.raises(NotAvailable, match=r"no Ray cluster at 'local': The current node timed out"):
        Session.of(None)
    assert told == ["down"]


def test_a_client_is_refused_wherever_its_address_stands(told, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "ray://10.0.0.1:10001")
    with pytest.raises(NotAvailable, match="does not train through a Ray client"):
        Session.of(None)
