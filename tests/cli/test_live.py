"""What one sees while training runs, in a terminal and elsewhere."""

import io

from thresher import train
from thresher.cli.live import Live, short
from thresher.datasets import random_problem
from thresher.output import Console


def watch(*, terminal, quiet=False, names=()):
    console = Console(file=io.StringIO(), terminal=terminal, quiet=quiet)
    with Live(console, 2000, inputs=10, names=names) as live:
        result = train(random_problem(inputs=10, dimension=5), width=2000, callbacks=[live])
    return result, console.file.getvalue()


def test_one_line_an_iteration_where_there_is_no_terminal():
    result, shown = watch(terminal=False)
    head, *lines = shown.splitlines()
    assert head.split() == ["iteration", "loss", "fell", "to", "looks", "of", "dense", "flips", "seconds"]
    assert len(lines) == len(result.history)
    for line, record in zip(lines[1:], result.history[1:], strict=True):
        number, loss, fell = line.split()[:3]
        assert int(number) == record.iteration
        assert float(loss) == float(f"{record.loss:.3g}")
        assert float(fell) == float(f"{record.contraction:.2g}")
        assert len(line) <= 80


def test_a_bar_with_a_rate_in_a_terminal():
    _, shown = watch(terminal=True)
    assert "start scan" in shown
    assert "neurons/s" in shown


def test_the_bar_is_gone_once_neurons_are_scanned():
    _, shown = watch(terminal=True)
    head = shown.index("iteration      loss")
    assert "start scan" in shown[:head]
    assert "start scan" not in shown[head:]


def test_nothing_if_quiet():
    assert watch(terminal=True, quiet=True)[1] == ""
    assert watch(terminal=False, quiet=True)[1] == ""


def test_outputs_are_named_if_there_are_several():
    assert watch(terminal=False, names=["red", "blue"])[1].startswith("  red:\n")
    assert "red" not in watch(terminal=False, names=["red"])[1]


def test_a_long_scan_is_told_in_lines(monkeypatch):
    seconds = iter(range(0, 100, 3))
    monkeypatch.setattr("thresher.cli.live.time.perf_counter", lambda: float(next(seconds)))
    console = Console(file=io.StringIO(), terminal=False)
    live = Live(console, 1000, inputs=10)
    live.on_progress(500, 1000)
    live.on_progress(1000, 1000)
    assert console.file.getvalue() == "  start scan: 50% of 1,000 neurons, 166/s, 3 s left\n"


def test_counts_as_people_say_them():
    assert [short(count) for count in (7, 1200, 4_700_000, 2 * 10**9)] == ["7", "1.2 k", "4.7 M", "2 G"]
