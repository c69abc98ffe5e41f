"""What is shown while training runs: a bar and lines in a terminal, plain lines elsewhere, nothing if quiet."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from thresher import Callback, Iteration, Result, Status
from thresher.cli.options import in_options

__all__ = ["Live", "end", "notes", "say", "short"]

_BETWEEN = 2.0  # seconds between plain lines about the start scan
_EACH = 8  # workers up to which each is shown by itself


class Live(Callback):
    """Shows the start scan as a bar with its rate, and each iteration as a line, as they happen.

    Without a terminal the progress of the scan is printed as lines, one every two seconds. A quiet console shows
    nothing. ``names`` are the names of the outputs, if there are several.
    """

    def __init__(self, console: Console, neurons: int, *, inputs: int, names: Sequence[str] = ()) -> None:
        self._console, self._pairs = console, neurons * inputs
        self._names = list(names) if len(names) > 1 else []
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:3.0f} %"), _Rate())
        self._progress = Progress(*columns, console=console, transient=True)
        self._bar = console.is_terminal and not console.quiet
        self._task = self._progress.add_task("  start scan", total=neurons)
        self._began = self._told = time.perf_counter()
        self._by_worker, self._done, self._begun = "", 0, False

    def __enter__(self) -> Live:
        if self._bar:
            self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar:
            self._progress.stop()

    def on_workers(self, done: Sequence[int], total: Sequence[int]) -> None:
        """Show how far each worker of a cluster has come, or the slowest and the fastest of many."""
        shares = [f"{part / whole:.0%}" for part, whole in zip(done, total, strict=True)]
        if len(shares) > _EACH:
            order = sorted(range(len(shares)), key=lambda place: done[place] / total[place])
            shares = [f"{shares[order[0]]} to {shares[order[-1]]}"]
        self._by_worker = f", {len(done)} workers: {', '.join(shares)}"
        self._progress.update(self._task, description=f"  start scan{self._by_worker}")
        self.on_progress(sum(done), sum(total))

    def on_progress(self, done: int, total: int) -> None:
        """Move the bar, or print the progress of the scan."""
        self._done = done = max(done, self._done)  # workers of a cluster are told of before their sums are made
        self._progress.update(self._task, completed=done, total=total, refresh=self._bar)
        now = time.perf_counter()
        if not self._bar and now - self._told > _BETWEEN and done < total:
            rate = done / (now - self._began)
            left = (total - done) / rate if rate else math.inf
            spent = f"{short(int(rate))}/s, {left:.0f} s left{self._by_worker}"
            self._say(f"  start scan: {done / total:.0%} of {total:,} neurons, {spent}")
            self._told = now

    def on_iteration(self, record: Iteration) -> None:
        """Print a line: loss, contraction, looks, flips, seconds."""
        self._progress.update(self._task, visible=False, refresh=self._bar)
        if not self._begun:  # a resumed training may begin with a later one
            self._begun = True
            if self._names:
                self._say(f"  {self._names[0]}:")
            self._say("  iteration      loss   fell to      looks  of dense      flips  seconds")
        first = record.iteration == 0
        cells = (
            f"{'start' if first else record.iteration:>11}",
            f"{record.loss:9.3g}",
            f"{'' if math.isnan(record.contraction) else format(record.contraction, '.2g'):>9}",
            f"{short(record.looks):>10}",
            f"{record.looks / self._pairs:9.1e}",
            f"{'' if first else short(record.flips):>10}",
            f"{sum(record.seconds.values()):8.2f}",
        )
        self._say(" ".join(cells))

    def on_end(self, result: Result) -> None:
        """Turn to the next output."""
        self._begun, self._names = False, self._names[1:]

    def _say(self, line: str) -> None:
        say(self._console, line)


class _Rate(ProgressColumn):
    """Neurons per second since the start, and the time left at that rate."""

    def render(self, task: Task) -> Text:
        if not task.completed or not task.elapsed:
            return Text("")
        rate, left = task.completed / task.elapsed, task.remaining or 0
        return Text(f"{short(int(rate))} neurons/s, {left / rate:.0f} s left")


@contextmanager
def notes(console: Console, *, drop: bool = False, said: set[str] | None = None) -> Iterator[None]:
    """Say warnings of thresher as notes, or drop them; those of other libraries are for programmers.

    Notes that were ``said`` before are not repeated.
    """
    said = set() if said is None else said
    with warnings.catch_warnings(record=True, action="always") as told:
        yield
    from sklearn.exceptions import ConvergenceWarning

    for one in told:
        ours = one.category.__module__.startswith("thresher") or issubclass(one.category, ConvergenceWarning)
        line = f"Note: {in_options(str(one.message))}"
        if ours and not drop and line not in said:
            say(console, line)
            said.add(line)


def say(console: Console, line: str) -> None:
    """Print a line as it is: no colours, no markup, no added line breaks."""
    console.print(line, highlight=False, markup=False, soft_wrap=True)


def end(result: Result) -> None:
    """Exit with status 130 if training was interrupted."""
    if result.status == Status.INTERRUPTED:
        raise KeyboardInterrupt


def short(count: int) -> str:
    """Return a count in short form: 4.7 M."""
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count / size:.3g} {letter}"
    return str(count)
