"""What compiling is like for those who wait: nothing is said if it is short; a longer one is named while it lasts.

Collecting garbage meanwhile would take a tenth of the time and find nothing: the collector pauses. An interrupt waits
for the end of a pass: where LLVM calls back it would be lost, and leave a function without its code.
"""

from __future__ import annotations

import gc
import signal
import sys
import threading
import time
from typing import Any

from numba.core import event

from thresher.loops.cache import is_quiet

__all__ = ["Pauses", "Watch"]

_AFTER = 2.0  # seconds of compiling before anything is said
_HERE = "thresher.loops."
_CLEAR = "\r\x1b[K"


class Watch(event.Listener):
    """Tells, on standard error, what is compiled; not where THRESHER_QUIET is set, nor if ``quiet``.

    A terminal shows the name of each function and takes it away; elsewhere there is one line, once.
    """

    def __init__(self) -> None:
        self.quiet = False
        self._depth, self._collects, self._name, self._began = 0, False, "", 0.0
        self._all, self._told = 0.0, False
        self._timer: threading.Timer | None = None
        self._handler: Any = None  # of interrupts, while they are held back
        self._came = False  # one that was

    def on_start(self, event: Any) -> None:
        """Note which function is compiled; those that it calls are a part of it. Numba compiles one at a time."""
        self._depth += 1
        function = event.data["dispatcher"].py_func
        if self._depth > 1 or not (function.__module__ or "").startswith(_HERE):  # those of exec() may have none
            return
        self._name = f"{function.__module__.removeprefix(_HERE)}.{function.__name__}"
        self._began, self._collects = time.perf_counter(), gc.isenabled()
        gc.disable()
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is not None:
            self._handler = signal.signal(signal.SIGINT, self._hold_back)
        self._timer = threading.Timer(max(_AFTER - self._all, 0.0), self._say)
        self._timer.daemon = True
        self._timer.start()

    def on_end(self, event: Any) -> None:
        """Count the seconds of a function that was compiled."""
        self._depth -= 1
        if self._depth or not self._name:
            return
        self._all, self._name = self._all + time.perf_counter() - self._began, ""
        if self._collects:
            gc.enable()
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()
            self._timer = None
        if self._told and sys.stderr is not None and sys.stderr.isatty():
            print(end=_CLEAR, file=sys.stderr, flush=True)
        self._let_go()

    def interrupt(self) -> None:
        """Let an interrupt go on that was held back."""
        if self._came:
            self._let_go()

    def _hold_back(self, *_: object) -> None:
        self._came = True

    def _let_go(self) -> None:
        handler, self._handler = self._handler, None
        if handler is not None:
            signal.signal(signal.SIGINT, handler)
        came, self._came = self._came, False  # now that none is held back any more
        if came:
            signal.raise_signal(signal.SIGINT)

    def _say(self) -> None:
        name, told = self._name, self._told
        if self.quiet or is_quiet() or not name:
            return
        self._told = True
        if sys.stderr.isatty():
            print(f"{_CLEAR}compiling {name}, once for this machine", end="", file=sys.stderr, flush=True)
        elif not told:
            print("compiling, once for this machine", file=sys.stderr, flush=True)


class Pauses(event.Listener):
    """Between two passes of the compiler: interrupts may go on."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def on_start(self, event: Any) -> None:
        """Before a pass."""
        self._watch.interrupt()

    def on_end(self, event: Any) -> None:
        """After it, nothing."""
