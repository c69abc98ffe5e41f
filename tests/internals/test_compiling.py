"""Compiling ahead: what is said of it, who does it, and that nothing is left to compile."""

import gc
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

import thresher.warmup as warmup
from thresher import NotAvailable
from thresher.loops import compiling, trees
from thresher.loops.instructions.whole import WAYS


def told(function):
    """What Numba says of a function that it compiles."""
    return SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=function)})


def loop(module="thresher.loops.trees", name="query"):
    def made():
        pass

    made.__module__, made.__name__ = module, name
    return told(made)


@pytest.fixture
def watch(monkeypatch):
    """A watch that speaks at once."""
    monkeypatch.setattr(compiling, "_AFTER", 0.0)
    monkeypatch.setattr(compiling, "is_stored", lambda name: False)
    monkeypatch.delenv("THRESHER_QUIET", raising=False)
    return compiling.Watch()


def speak(watch, event):
    watch.on_start(event)
    timer = watch._timer
    if timer is not None:
        timer.join()
    watch.on_end(event)


# What is said


def test_it_says_once_how_long_it_takes(watch, capsys):
    speak(watch, loop())
    speak(watch, loop())
    usual = sum(compiling.SECONDS.values())
    assert capsys.readouterr().err == f"compiling once for this machine, about {usual:.0f} s left\n"


def test_short_compiling_is_silent(watch, capsys, monkeypatch):
    monkeypatch.setattr(compiling, "_AFTER", 60.0)
    event = loop()
    watch.on_start(event)
    timer = watch._timer
    watch.on_end(event)
    timer.join(10)
    assert not timer.is_alive()  # it was taken back
    assert capsys.readouterr().err == ""


def test_nothing_is_said_that_is_not_known(watch, capsys):
    speak(watch, loop("thresher.loops.limit", "interpolate"))
    assert capsys.readouterr().err == "compiling once for this machine\n"


def test_quiet_settings_are_quiet(watch, capsys, monkeypatch):
    monkeypatch.setenv("THRESHER_QUIET", "1")
    speak(watch, loop())
    monkeypatch.delenv("THRESHER_QUIET")
    watch.quiet = True
    speak(watch, loop())
    watch.quiet = False
    monkeypatch.setattr("multiprocessing.current_process", lambda: SimpleNamespace(name="LokyProcess-1"))
    speak(watch, loop())
    assert capsys.readouterr().err == ""


def test_functions_of_others_are_theirs(watch, capsys):
    speak(watch, loop("somebody.elses", "query"))
    assert watch._all == 0.0
    assert gc.isenabled()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("collects", [True, False])
def test_the_collector_pauses_and_is_as_before(watch, collects):
    (gc.enable if collects else gc.disable)()
    try:
        outer, inner = loop(), loop("thresher.loops.trees", "build")
        watch.on_start(outer)
        watch.on_start(inner)
        watch.on_end(inner)
        assert not gc.isenabled()
        watch.on_end(outer)
        assert gc.isenabled() == collects
    finally:
        gc.enable()


@pytest.mark.parametrize("passes", [0, 1])
def test_an_interrupt_waits_for_the_end_of_a_pass(watch, passes):
    """Inside it LLVM calls back, and what is raised there is lost."""
    event, reached = loop(), []
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        watch.on_start(event)
        signal.raise_signal(signal.SIGINT)
        reached.append("the end of the pass")
        if passes:
            compiling.Pauses(watch).on_start(event)
        watch.on_end(event)
        reached.append("too far")
    assert reached == ["the end of the pass"]
    if passes:
        watch.on_end(event)  # as Numba does on the way out
    assert (signal.getsignal(signal.SIGINT), gc.isenabled()) == (before, True)


def test_time_left_goes_by_what_others_took(monkeypatch):
    monkeypatch.setattr(compiling, "is_stored", lambda name: name not in ("trees.query", "trees.build"))
    left = compiling.seconds_left("trees.query", spent=3.0, done=1.5, current=0.1)
    assert left == pytest.approx(2 * (compiling.SECONDS["trees.query"] + compiling.SECONDS["trees.build"]) - 0.1)
    assert compiling.seconds_left("limit.interpolate", spent=3.0, done=1.5, current=0.1) is None
    monkeypatch.setitem(compiling.ELSEWHERE, "trees.build", time.perf_counter() + 50.0)
    assert compiling.seconds_left("trees.query", spent=3.0, done=1.5, current=0.1) == pytest.approx(100, abs=5)


def test_a_cache_that_has_a_function_is_known(tmp_path, monkeypatch):
    assert all(isinstance(compiling.is_stored(name), bool) for name in compiling.SECONDS)  # and there are such loops
    line = trees.query.py_func.__code__.co_firstlineno
    fake = SimpleNamespace(signatures=[], py_func=trees.query.py_func, stats=SimpleNamespace(cache_path=str(tmp_path)))
    monkeypatch.setattr(trees, "query", fake)
    (tmp_path / f"trees.query-{line + 1}.py311.nbi").touch()  # of an older source
    assert not compiling.is_stored("trees.query")
    (tmp_path / f"trees.query-{line}.py311.nbi").touch()
    assert compiling.is_stored("trees.query")
    fake.stats.cache_path = None  # nothing can be kept: no process could help
    assert compiling.is_stored("trees.query")


# Who does it


@pytest.fixture
def cold(monkeypatch):
    """Nothing is in the cache, two cores, and processes that were started."""
    started = []
    process = warmup._process

    def start(parts, **options):
        started.append(process(parts, **options))
        return started[-1]

    monkeypatch.setattr(compiling, "is_stored", lambda name: False)
    monkeypatch.setattr(warmup, "core_count", lambda: 2)
    monkeypatch.setattr(warmup, "_process", start)
    monkeypatch.setattr(warmup, "start", lambda **_: None)
    return started


def sleeping(monkeypatch, tmp_path):
    """A process that does nothing, for long."""
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))


@pytest.mark.parametrize(("stored", "cores"), [(True, 2), (False, 1)])
def test_no_process_is_started_for_nothing(cold, monkeypatch, stored, cores):
    monkeypatch.setattr(compiling, "is_stored", lambda name: stored)
    monkeypatch.setattr(warmup, "core_count", lambda: cores)
    warmup.compile_training(inputs=1000, columns=64)
    assert cold == []


@pytest.mark.parametrize("program", ["/no/such/python", "/bin/false", None])
def test_a_process_that_fails_harms_nobody(cold, monkeypatch, program):
    monkeypatch.setattr(sys, "executable", program)
    warmup.compile_training(inputs=1000, columns=64)
    assert all(child.returncode for child in cold)
    assert compiling.ELSEWHERE == {}


def test_an_interrupt_ends_the_process(cold, monkeypatch, tmp_path):
    sleeping(monkeypatch, tmp_path)

    def interrupt(**_):
        assert compiling.ELSEWHERE
        raise KeyboardInterrupt

    monkeypatch.setattr(warmup, "start", interrupt)
    with pytest.raises(KeyboardInterrupt):
        warmup.compile_training(inputs=1000, columns=64)
    assert [child.poll() for child in cold] == [-9]


def test_compiling_everything_ends_with_what_went_wrong(cold, monkeypatch):
    monkeypatch.setattr(warmup, "_LINES", [[("no such part",), ("neither",)]])
    with pytest.raises(NotAvailable, match="no such part"):
        list(warmup.compile_all())
    assert all(child.poll() is not None for child in cold)


def test_nothing_is_compiled_that_could_not_be_kept(cold, monkeypatch):
    monkeypatch.setattr(trees, "query", SimpleNamespace(stats=SimpleNamespace(cache_path=None)))
    with pytest.raises(NotAvailable, match="Set NUMBA_CACHE_DIR"):
        list(warmup.compile_all())
    assert cold == []


def test_files_of_the_folder_it_is_run_in_are_no_modules(monkeypatch, tmp_path):
    (tmp_path / "numba.py").write_text("raise SystemExit('this is not Numba')")
    monkeypatch.chdir(tmp_path)
    child = warmup._process(["steps"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.communicate() == ("steps\n", "")


def test_every_part_is_compiled_once():
    assert sorted(part for line in warmup._LINES for parts in line for part in parts) == sorted(warmup.PARTS)


NOTHING_LEFT = """
from numba.core import event
compiled = []
class Listener(event.Listener):
    def on_start(self, event):
        compiled.append(event.data["dispatcher"].py_func.__qualname__)
    def on_end(self, event):
        pass
event.register("numba:compile", Listener())
import warnings
warnings.simplefilter("ignore")
import numpy as np
from thresher import ThresherRegressor, train
from thresher.datasets import digits, random_problem
split = digits(rows=300)
for options in ({"width": 2**16}, {"width": 300}):
    network = train(split.train, **options).network
    for number in (400, 100, 2):
        network.predict(split.test.inputs[:number])
X = np.random.default_rng(1).normal(size=(150, 4))
ThresherRegressor(random_state=0).fit(X, X[:, 0]).predict(X)
print(*compiled)
"""


EVERYTHING = """
from importlib import import_module
from pkgutil import walk_packages
from thresher import loops
for name in [found.name for found in walk_packages(loops.__path__, "thresher.loops.")]:
    for short, function in vars(import_module(name)).items():
        if hasattr(function, "py_func") and function.py_func.__module__ == name:
            one = f"{name.removeprefix('thresher.loops.')}.{short}"
            if not loops.compiling.is_stored(one):
                print(one)
"""


@pytest.mark.thorough
def test_nothing_is_left_to_compile(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "thresher.warmup", *warmup.PARTS]
    subprocess.run(command, env=environment, check=True, capture_output=True)
    left = []
    for code in (NOTHING_LEFT, EVERYTHING):
        done = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
        assert done.stderr == ""
        left.append(done.stdout.split())
    assert left == [[], ["instructions.whole.multiply_plainly"] if WAYS else []]  # that one is for tests
