"""Lines, and the one below them that is drawn again: what stands on the screen, not what is sent to it."""

import fcntl
import io
import os
import pty
import re
import struct
import termios
import threading

import pytest

from thresher.output import Console, bar, clock


class Terminal(io.StringIO):
    def isatty(self):
        return True


def screen(sent):
    """What is to be seen after all this was sent to a terminal: lines, less empty ones at the end."""
    lines, row, column = [""], 0, 0
    for part in re.findall(r"\x1b\[J|\x1b\[A|\x1b\[\d+m|[^\x1b]", sent):
        if part == "\x1b[J":
            lines = [*lines[:row], lines[row][:column]]
        elif part == "\x1b[A":
            row -= 1
        elif part == "\r":
            column = 0
        elif part == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif len(part) == 1:
            lines[row] = lines[row][:column].ljust(column) + part + lines[row][column + 1 :]
            column += 1
    return "\n".join(lines).rstrip("\n").split("\n")


def test_the_last_line_stands_below_what_is_printed_and_is_gone_at_the_end():
    console, told = Console(file=io.StringIO(), terminal=True), "half"
    with console.status(lambda: told):
        console.print("first")
        assert screen(console.file.getvalue()) == ["first", "", "half"]
        told = "all"
        console.print("second")
        assert screen(console.file.getvalue()) == ["first", "second", "", "all"]
    assert screen(console.file.getvalue()) == ["first", "second"]
    console.print("third")
    assert screen(console.file.getvalue()) == ["first", "second", "third"]


def test_what_others_print_meanwhile_stands_above_it_too():
    console = Console(file=io.StringIO(), terminal=True)
    with console.status(lambda: "a bar that is much longer"):
        console.print("first")
        print("of another", file=console.file)
        console.draw()
        assert screen(console.file.getvalue()) == ["first", "of another", "", "a bar that is much longer"]
    assert screen(console.file.getvalue()) == ["first", "of another"]


def test_it_is_drawn_again_by_itself_and_no_longer_than_the_terminal_is_wide():
    drawn, console = threading.Semaphore(0), Console(file=io.StringIO(), terminal=True)

    def text():
        drawn.release()
        return "x" * 500

    with console.status(text):
        assert all(drawn.acquire(timeout=60) for _ in range(3))
    assert max(map(len, re.findall("x+", console.file.getvalue()))) == 79
    assert not [one for one in threading.enumerate() if getattr(one, "_target", None) == console._draw_until]


def test_an_error_takes_it_away():
    console = Console(file=io.StringIO(), terminal=True)
    with pytest.raises(KeyboardInterrupt), console.status(lambda: "half"):
        console.draw()
        raise KeyboardInterrupt
    assert screen(console.file.getvalue()) == [""]


@pytest.mark.parametrize("options", [{"terminal": False}, {"terminal": True, "quiet": True}, {}])
def test_without_a_terminal_lines_are_plain_text(options):
    console = Console(file=io.StringIO(), **options)
    with console.status(lambda: "half"):
        console.print(f"[a] {console.bold('b')}" if "quiet" not in options else "")
        console.draw()
    assert console.file.getvalue() == ("" if "quiet" in options else "[a] b\n")


def test_what_a_terminal_is(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    console = Console(file=Terminal())
    assert console.is_terminal
    assert console.bold("b") == "\x1b[1mb\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert console.bold("b") == "b"
    assert console.is_terminal  # a bar has no colours
    monkeypatch.setenv("TERM", "dumb")
    assert not console.is_terminal
    monkeypatch.setattr("sys.stdout", None)
    nowhere = Console()
    assert not nowhere.is_terminal
    nowhere.print("nothing")


def test_signs_that_a_terminal_does_not_know_are_left_out():
    sent = io.BytesIO()
    console = Console(file=io.TextIOWrapper(sent, encoding="ascii"), terminal=True)
    with console.status(lambda: bar(0.25, cells=8)):
        console.draw()
    assert b"##------" in sent.getvalue()


def test_names_that_a_stream_does_not_know_are_no_error():
    sent = io.BytesIO()
    file = io.TextIOWrapper(sent, encoding="latin-1")
    Console(file=file).print("target 'größe', 'цена'")
    assert sent.getvalue().decode("latin-1") == "target 'größe', '\\u0446\\u0435\\u043d\\u0430'\n"


def test_the_width_is_that_of_the_stream():
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb"), os.fdopen(theirs, "w") as file:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 33, 0, 0))
        assert Console(file=file)._width() == 33


def test_bars_and_clocks():
    assert [bar(share, cells=4) for share in (-1, 0, 0.5, 1, 2)] == ["────", "────", "━━──", "━━━━", "━━━━"]
    assert [clock(one) for one in (0, 61.9, 3600, 90000, float("inf"), float("nan"))] == [
        "0:00:00", "0:01:01", "1:00:00", "-:--:--", "-:--:--", "-:--:--"]  # fmt: skip
