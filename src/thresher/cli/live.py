"""What is shown while training runs: a bar and lines in a terminal, plain lines elsewhere, nothing if quiet."""

from __future__ import annotations

import math
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from thresher import Callback, Iteration, Result, Status
from thresher.cli.options import in_options
from thresher.output import Console, bar

__all__ = ["Live", "end", "notes", "short"]

_BETWEEN = 2.0  # seconds between plain lines about the start scan


class Live(Callback):
    """Shows the start scan as a bar with its rate, and each iteration as a line, as they happen.

    Without a terminal the progress of the scan is printed as lines, one every two seconds. A quiet console shows
    nothing. ``names`` are the names of the outputs, if there are several.
    """

    def __init__(self, console: Console, neurons: int, *, inputs: int, names: Sequence[str] = ()) -> None:
        self._console, self._pairs = console, neurons * inputs
        self._names = list(names) if len(names) > 1 else []
        self._began = self._told = time.perf_counter()
        self._done, self._total, self._scanned, self._begun = 0, neurons, False, False
        self._shown = ExitStack()

    def __enter__(self) -> Live:
        self._shown.enter_context(self._console.status(self._bar))
        return self

    def __exit__(self, *error: object) -> None:
        self._shown.close()

    def on_progress(self, done: int, total: int) -> None:
        """Move the bar, or print the progress of the scan."""
        self._done, self._total = done, total
        self._console.draw()
        now = time.perf_counter()
        if not self._console.is_terminal and now - self._told > _BETWEEN and done < total:
            rate = done / (now - self._began)
            left = (total - done) / rate if rate else math.inf
            spent = f"{short(int(rate))}/s, {left:.0f} s left"
            self._console.print(f"  start scan: {done / total:.0%} of {total:,} neurons, {spent}")
            self._told = now

    def on_iteration(self, record: Iteration) -> None:
        """Print a line: loss, contraction, looks, flips, seconds."""
        self._scanned = True
        if not self._begun:  # a resumed training may begin with a later one
            self._begun = True
            if self._names:
                self._console.print(f"  {self._names[0]}:")
            self._console.print("  iteration      loss   fell to      looks  of dense      flips  seconds")
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
        self._console.print(" ".join(cells))

    def on_end(self, result: Result) -> None:
        """Turn to the next output."""
        self._begun, self._names = False, self._names[1:]

    def _bar(self) -> str:
        """Return the start scan as a bar, with neurons per second since the start and the time left at that rate."""
        if self._scanned:
            return ""
        share, rate = self._done / self._total, self._done / (time.perf_counter() - self._began)
        told = f"{short(int(rate))} neurons/s, {(self._total - self._done) / rate:.0f} s left" if rate else ""
        return f"  start scan {bar(share)} {share:4.0%} {told}"


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
            console.print(line)
            said.add(line)


def end(result: Result) -> None:
    """Exit with status 130 if training was interrupted, and 1 if it did not converge."""
    if result.status == Status.INTERRUPTED:
        raise KeyboardInterrupt
    if result.status != Status.CONVERGED:
        sys.exit(1)


def short(count: int) -> str:
    """Return a count in short form: 4.7 M."""
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count / size:.3g} {letter}"
    return str(count)
