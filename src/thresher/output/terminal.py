"""Lines, and below them in a terminal one more that is drawn again and again, such as a bar, and is gone at the end.

The cursor waits on an empty line above that one, so that what others print meanwhile stands above it too.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

__all__ = ["Console", "bar", "clock"]

_AGAIN = 0.2  # seconds after which the last line is drawn again
_CLEAR = "\x1b[J"  # from the cursor to the end of the screen
_WIDTH = 80  # where it is not known
_FULL, _EMPTY = "━", "─"
_PLAIN = str.maketrans({_FULL: "#", _EMPTY: "-"})  # for terminals that do not know these signs


class Console:
    """Where lines are shown: standard output, standard error or a ``file``; nowhere if ``quiet``.

    It is a terminal if the stream says so and can move its cursor, or as ``terminal`` says. Elsewhere lines are plain
    text, and there is no last line.
    """

    def __init__(
        self, *, stderr: bool = False, quiet: bool = False, file: TextIO | None = None, terminal: bool | None = None
    ) -> None:
        self.quiet = quiet
        self._stderr, self._file, self._terminal = stderr, file, terminal
        self._lock = threading.RLock()
        self._last: Callable[[], str] | None = None

    @property
    def file(self) -> TextIO | None:
        """The stream: the one that is standard now, if no file was given. None where there is none, as in a window."""
        return self._file or (sys.stderr if self._stderr else sys.stdout)

    @property
    def is_terminal(self) -> bool:
        """Whether a line can be drawn again."""
        if self._terminal is None:
            file = self.file
            return file is not None and file.isatty() and os.environ.get("TERM") != "dumb"
        return self._terminal

    def print(self, line: str) -> None:
        """Print a line as it is, above the one that is drawn again."""
        if not self.quiet:
            with self._lock:
                self._write(f"{_CLEAR if self._last else ''}{line}\n")
                self.draw()

    def bold(self, text: str) -> str:
        """Return a text in bold letters, or as it is where there is no terminal or NO_COLOR is set."""
        return f"\x1b[1m{text}\x1b[0m" if self.is_terminal and not os.environ.get("NO_COLOR") else text

    @contextmanager
    def status(self, text: Callable[[], str]) -> Iterator[None]:
        """Draw what ``text`` returns as the last line, several times a second; nothing where there is no terminal."""
        if self.quiet or not self.is_terminal:
            yield
            return
        self._last, done = text, threading.Event()
        drawing = threading.Thread(target=self._draw_until, args=(done,), daemon=True)
        drawing.start()
        try:
            yield
        finally:
            done.set()
            drawing.join()
            with self._lock:
                self._last = None
                self._write(_CLEAR)

    def draw(self) -> None:
        """Draw the last line now, if there is one."""
        with self._lock:
            if self._last is not None:
                line = self._last()[: self._width() - 1]
                self._write(f"{_CLEAR}\n{line}\x1b[A\r" if line else _CLEAR)

    def _draw_until(self, done: threading.Event) -> None:
        with suppress(OSError, ValueError):  # the terminal is gone
            self.draw()
            while not done.wait(_AGAIN):
                self.draw()

    def _write(self, text: str) -> None:
        if (file := self.file) is not None:
            encoding = getattr(file, "encoding", None) or "utf-8"
            if not encoding.lower().startswith("utf"):  # names in a table may have any signs
                text = text.translate(_PLAIN).encode(encoding, "backslashreplace").decode(encoding)
            file.write(text)
            file.flush()

    def _width(self) -> int:
        with suppress(OSError, ValueError, AttributeError):
            return os.get_terminal_size(self.file.fileno()).columns or _WIDTH  # type: ignore[union-attr]
        return _WIDTH


def bar(share: float, *, cells: int = 30) -> str:
    """Return a bar of which a share is full."""
    full = round(cells * min(max(share, 0.0), 1.0))
    return _FULL * full + _EMPTY * (cells - full)


def clock(seconds: float) -> str:
    """Return a time as 0:01:40; more than a day is not shown."""
    if not 0 <= seconds < 86400:
        return "-:--:--"
    return f"{int(seconds) // 3600}:{int(seconds) // 60 % 60:02}:{int(seconds) % 60:02}"
