"""What compiling is like: what is said of it, and that an interrupt meanwhile is not lost."""

import gc
import signal
from types import SimpleNamespace

import pytest

from thresher.loops import compiling


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
    monkeypatch.delenv("THRESHER_QUIET", raising=False)
    return compiling.Watch()


def speak(watch, event):
    watch.on_start(event)
    timer = watch._timer
    if timer is not None:
        timer.join()
    watch.on_end(event)


def test_it_is_said_once(watch, capsys):
    speak(watch, loop())
    speak(watch, loop())
    assert capsys.readouterr().err == "compiling, once for this machine\n"


def test_a_terminal_shows_what_is_compiled_and_takes_it_away(watch, capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    speak(watch, loop())
    speak(watch, loop("thresher.loops.limit", "interpolate"))
    clear = "\r\x1b[K"
    said = "".join(
        f"{clear}compiling {name}, once for this machine{clear}" for name in ("trees.query", "limit.interpolate")
    )
    assert capsys.readouterr().err == said


def test_short_compiling_is_silent(watch, capsys, monkeypatch):
    monkeypatch.setattr(compiling, "_AFTER", 60.0)
    event = loop()
    watch.on_start(event)
    timer = watch._timer
    watch.on_end(event)
    assert not timer.is_alive()  # it was taken back
    assert capsys.readouterr().err == ""


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
    speak(watch, loop(None))  # as exec() makes them
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


def test_an_interrupt_just_before_they_go_on_is_not_lost(watch, monkeypatch):
    set_handler = signal.signal

    def interrupted(number, handler):
        signal.raise_signal(signal.SIGINT)
        return set_handler(number, handler)

    watch.on_start(loop())
    monkeypatch.setattr(signal, "signal", interrupted)
    with pytest.raises(KeyboardInterrupt):
        watch.on_end(loop())
