"""What compiling is like for those who wait: nothing is said if it is short, and how long it takes if it is not.

Numba tells when it compiles a function that is not in its cache. Collecting garbage meanwhile would take a tenth of the
time and find nothing: the collector pauses. An interrupt waits for the end of a pass: where LLVM calls back it would be
lost, and leave a function without its code.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from numba.core import event

__all__ = ["ELSEWHERE", "SECONDS", "Pauses", "Watch", "is_stored", "seconds_left"]

_AFTER = 2.0  # seconds of compiling before anything is said
_HERE = "thresher.loops."
# Usual seconds of the loops of a training, as once measured. Machines differ by a factor: what was compiled before, of
# these and of _OTHERS, tells it.
SECONDS = {
    "certified.start_scan._scan_rows": 3.6, "certified.visits._visit_due": 1.8, "certified.watchlists.commit": 0.5,
    "certified.watchlists._rebuild_rows": 0.8, "certified.watchlists._extract_rows": 0.25, "trees.query": 0.2,
    "certified.watchlists.write_wake_ups": 0.1, "trees.climb": 0.15, "trees.build": 0.1,
    "pairs.counting.count_bits": 0.2, "pairs.counting.count_pairs": 0.1, "pairs.counting.cheaper_by_bits": 0.15,
}  # fmt: skip
_OTHERS = {
    "numbers.philox.fill_block": 0.2, "numbers.philox.fill_rows": 0.2, "numbers.philox.words_to_normals": 0.2,
    "screen._round": 0.3, "screen.squares": 0.2, "screen._transpose": 0.1,
}  # fmt: skip
ELSEWHERE: dict[str, float] = {}  # loops that another process compiles now, and when it ends, by time.perf_counter


def is_stored(name: str) -> bool:
    """Return whether Numba's cache has a function of a name such as ``trees.query``; True where there is no cache.

    It may have it for other types, or of an older source: the function is then compiled when it is called.
    """
    module, _, short = name.rpartition(".")
    function = getattr(sys.modules[_HERE + module], short)
    if not getattr(function, "signatures", True) and function.stats.cache_path is not None:
        line = function.py_func.__code__.co_firstlineno
        return any(Path(function.stats.cache_path).glob(f"*.{short}-{line}.py*.nbi"))
    return True


def seconds_left(name: str, *, spent: float, done: float, current: float) -> float | None:
    """Return about how many seconds the loops of a training still take; None if there may be no training.

    ``name`` has been compiled for ``current`` seconds, those that are ``done``, by their usual seconds, took ``spent``.
    """
    if name not in SECONDS and not ELSEWHERE:
        return None
    others = [one for one in SECONDS if one != name and one not in ELSEWHERE and not is_stored(one)]
    factor = spent / done if done > 0.2 else 1.0
    here = max(factor * SECONDS.get(name, 0.0) - current, 0.0) + factor * sum(SECONDS[one] for one in others)
    return max(here, factor * (max(ELSEWHERE.values(), default=0.0) - time.perf_counter()))


class Watch(event.Listener):
    """Says once, on standard error, that loops are compiled; not where THRESHER_QUIET is set, nor if ``quiet``."""

    def __init__(self) -> None:
        self.quiet = False
        self._depth, self._collects, self._name, self._began = 0, False, "", 0.0
        self._all = self._spent = self._done = 0.0  # seconds of all, of those with usual seconds: measured and usual
        self._timer: threading.Timer | None = None
        self._handler: Any = None  # of interrupts, while they are held back
        self._came = False  # one that was

    def on_start(self, event: Any) -> None:
        """Note which function is compiled; those that it calls are a part of it. Numba compiles one at a time."""
        self._depth += 1
        function = event.data["dispatcher"].py_func
        if self._depth > 1 or not function.__module__.startswith(_HERE):
            return
        self._name = f"{function.__module__.removeprefix(_HERE)}.{function.__name__}"
        self._began, self._collects = time.perf_counter(), gc.isenabled()
        gc.disable()
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is not None:
            self._handler = signal.signal(signal.SIGINT, self._hold_back)
        if self._all <= _AFTER:
            self._timer = threading.Timer(_AFTER - self._all, self._say)
            self._timer.daemon = True
            self._timer.start()

    def on_end(self, event: Any) -> None:
        """Count the seconds of a function that was compiled."""
        self._depth -= 1
        if self._depth or not self._name:
            return
        seconds, expected = time.perf_counter() - self._began, (SECONDS | _OTHERS).get(self._name, 0.0)
        self._all, self._name = self._all + seconds, ""
        if expected:
            self._spent, self._done = self._spent + seconds, self._done + expected
        if self._collects:
            gc.enable()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._let_go()

    def interrupt(self) -> None:
        """Let an interrupt go on that was held back."""
        if self._came:
            self._let_go()

    def _hold_back(self, *_: object) -> None:
        self._came = True

    def _let_go(self) -> None:
        handler, self._handler, came, self._came = self._handler, None, self._came, False
        if handler is not None:
            signal.signal(signal.SIGINT, handler)
        if came:
            signal.raise_signal(signal.SIGINT)

    def _say(self) -> None:
        name, current, processes = self._name, time.perf_counter() - self._began, sys.modules.get("multiprocessing")
        worker = processes is not None and processes.current_process().name != "MainProcess"
        if self.quiet or worker or not name or os.environ.get("THRESHER_QUIET") or sys.stderr is None:
            return
        left = seconds_left(name, spent=self._spent, done=self._done, current=current)
        more = "" if left is None else f", about {max(left, 1):.0f} s left"
        print(f"compiling once for this machine{more}", file=sys.stderr, flush=True)


class Pauses(event.Listener):
    """Between two passes of the compiler: interrupts may go on."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def on_start(self, event: Any) -> None:
        """Before a pass."""
        self._watch.interrupt()

    def on_end(self, event: Any) -> None:
        """After it, nothing."""
