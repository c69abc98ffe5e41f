"""Count the lines of the package that tests reach, with compilation off, so that compiled loops are counted too.

    python -m reliability.uncompiled [--seconds 3] [--minutes 30]

Without compilation loops are hundreds of times slower, so a test is cut off once it has reached no new line for some
seconds, and of a test with many parameters the rest is left out once some in a row have reached nothing new. The lines
that a test reached before it was cut off count: what is measured is reach, not truth. Lines reached in other processes
(commands that are killed, limited or interrupted) are not seen.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

TOO_SLOW = "cut off where they reached nothing new"
LEFT_OUT = "left out after others with other parameters had reached nothing new"
TOO_LATE = "not begun when the minutes were over"
IDLE = 3  # sets of parameters in a row that reach nothing new, before the others are left out


class CutOff:
    """Ends tests that reach nothing new, and counts how tests ended."""

    def __init__(self, measured: Any, seconds: float, minutes: float) -> None:
        self._measured, self._seconds, self._end = measured, seconds, time.monotonic() + 60 * minutes
        self._known = self._before = 0
        self._cut = False  # whether the test that runs was cut off
        self._idle = Counter[str]()  # test function -> calls since the last that reached a new line
        self.ends = Counter[str]()

    def _reached(self) -> int:
        """Return the number of lines reached so far.

        Cost: a pass over all files of the package, some milliseconds.
        """
        # Coverage.get_data takes a lock, which a signal handler must not: the test below it may hold it.
        return sum(map(len, list(self._measured._collector.data.values())))

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._known = self._reached()
        name = _function(nodeid)
        self._idle[name] = 0 if self._known > self._before else self._idle[name] + 1

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: Any) -> Iterator[None]:
        self._before = self._known
        if time.monotonic() > self._end:
            pytest.skip(TOO_LATE)
        if self._idle[_function(item.nodeid)] >= IDLE:
            pytest.skip(LEFT_OUT)
        return (yield from self._timed())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        return (yield from self._timed())

    def _timed(self) -> Iterator[None]:
        signal.signal(signal.SIGALRM, self._look)
        signal.setitimer(signal.ITIMER_REAL, self._seconds, self._seconds)
        self._cut = False
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: Any) -> Iterator[None]:
        report = yield
        if report.failed and self._cut:  # while Hypothesis was drawing, say, which then calls the test flaky
            report.outcome, report.longrepr = "skipped", (str(item.path), 0, TOO_SLOW)
        return report

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" or (report.when == "setup" and not report.passed):
            reasons = [one for one in (TOO_SLOW, LEFT_OUT, TOO_LATE) if one in str(report.longrepr)]
            self.ends[reasons[0] if report.skipped and reasons else report.outcome] += 1

    def _look(self, _: int, frame: FrameType | None) -> None:
        if frame is not None and "/coverage/" in frame.f_code.co_filename:  # it may hold its lock: a little later
            signal.setitimer(signal.ITIMER_REAL, 0.01, self._seconds)
            return
        known, self._known = self._known, self._reached()
        if self._known == known or time.monotonic() > self._end:
            self._cut = True
            pytest.skip(TOO_SLOW)


def _function(test: str) -> str:
    """Return the name of a test without its parameters."""
    return test.partition("[")[0]


def plain_python() -> None:
    """Put plain Python in the place of instructions that exist in compiled code only."""
    from thresher.loops import outputs, transformed
    from thresher.loops.certified import start_scan, visits
    from thresher.loops.instructions import butterflies, places
    from thresher.loops.pairs import bits, counting

    counting.ones = places.ones = lambda word: np.uint64(int(word).bit_count())
    bits.trailing_zeros = visits.trailing_zeros = places.trailing_zeros = lambda word: (
        (int(word) & -int(word)).bit_length() - 1 if word else 64
    )
    places._at_least = lambda values, first, low, further: np.uint64(
        sum(1 << k for k in np.flatnonzero(values[first : first + 64] >= np.repeat([low, further], 32)).tolist())
    )
    visits.prefetch = lambda values, place: None
    visits.passed, visits.sum_rows = _passed, _sum_rows
    start_scan.sum_rows, start_scan.dot_rows = _sum_rows, _dot_rows
    visits.dot_rows = outputs.dot_rows = _dot_rows
    transformed.sum_rows, transformed.dot_pairs = _sum_rows, _dot_pairs
    butterflies._take_levels, butterflies._first_levels = _take_levels, _first_levels
    butterflies._last_levels = _last_levels


def _sum_rows(steps: Any, coefficients: Any, listed: Any, first: int, count: int, X: Any, vector: Any) -> Any:
    rows = X[listed[first : first + count]]
    vector[:] = coefficients[:count] @ rows
    walked = steps[:count] @ rows
    return walked @ walked


def _dot_rows(vector: Any, X: Any, listed: Any, count: int, out: Any) -> None:
    out[:count] = X[listed[:count]] @ vector


def _dot_pairs(vectors: Any, base: int, X: Any, first: int, width: int, listed: Any, count: int, out: Any) -> None:
    rows, others = np.divmod(listed[:count], width)
    out[:count] = np.einsum("ck,ck->c", vectors[base + rows], X[first + others])


def _rows_at(values: Any, place: int, apart: int, rows: int) -> Any:
    """Return a vector from each of some rows of an array, equally far apart: a view."""
    from thresher.loops.instructions import REGISTER

    flat, lanes = values.reshape(-1), 4 * REGISTER // values.itemsize
    last = place + (rows - 1) * apart + lanes
    assert place >= 0, "rows begin in their array"
    assert last <= flat.size, "rows end in their array"
    return np.lib.stride_tricks.as_strided(flat[place:last], (rows, lanes), (apart * flat.itemsize, flat.itemsize))


def _transformed(values: Any) -> Any:
    if len(values) == 1:
        return values
    first, second = np.split(values, 2)
    return np.concatenate([_transformed(first + second), _transformed(first - second)])


def _take_levels(count: int, values: Any, place: int, apart: int) -> None:
    rows = _rows_at(values, place, apart, 1 << count)
    rows[:] = _transformed(rows)


def _first_levels(
    source: Any, place: int, apart: int, factors: Any, factor: int, further: int, target: Any, there: int
) -> None:
    rows, signs = _rows_at(source, place, apart, 16), factors[factor::further][:16]
    _rows_at(target, there, apart, 16)[:] = _transformed(rows * signs[:, None])


def _last_levels(source: Any, place: int, factors: Any, row: int, target: Any, there: int, across: int) -> None:
    from thresher.loops.instructions.butterflies import TILE

    rows = _transformed(_rows_at(source, place, TILE, 16))
    _rows_at(target, there, across, 16)[:] = rows * factors[row : row + 16, None]


def _passed(expiry: Any, place: int, first: int, last: int, level: Any) -> tuple[Any, Any]:
    from thresher.loops.instructions.vectors import COMPARED

    places = np.arange(place, place + COMPARED)
    values, counts = expiry[place : place + COMPARED], (places >= first) & (places < last)
    word = sum(1 << k for k in np.flatnonzero(counts & (values <= level)).tolist())
    return np.uint64(word), values[counts & (values > level)].min(initial=np.inf)


def main() -> None:
    parser = argparse.ArgumentParser(description="Line coverage with compilation off.")
    parser.add_argument("--seconds", type=float, default=3.0, help="without a new line")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("tests", nargs="*", help="all by default")
    parser.add_argument("--output", type=Path, help="results/reliability.json by default")
    arguments = parser.parse_args()
    if os.environ.get("NUMBA_DISABLE_JIT") != "1":  # must be set before anything is imported
        os.execve(
            sys.executable,
            [sys.executable, "-m", "reliability.uncompiled", *sys.argv[1:]],
            {**os.environ, "NUMBA_DISABLE_JIT": "1"},
        )
    import coverage

    measured = coverage.Coverage(source_pkgs=["thresher"], data_file=None, config_file=False, concurrency=["thread"])
    measured.start()
    plain_python()
    np.seterr(over="ignore")  # words of random numbers are meant to overflow, and do so silently in compiled code
    cut_off = CutOff(measured, arguments.seconds, arguments.minutes)
    options = [
        "-q",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        "-o",
        "filterwarnings=ignore",
        "--tb=no",
        "--no-header",
        "--durations=25",
    ]
    pytest.main([*options, *arguments.tests], plugins=[cut_off])
    measured.stop()
    sizes, missing = {}, {}
    for path in sorted(Path("src/thresher").rglob("*.py")):
        _, statements, _, absent, _ = measured.analysis2(str(path.resolve()))
        name = str(path.relative_to("src/thresher"))
        sizes[name] = len(statements)
        if absent:
            missing[name] = absent
    lines = sum(sizes.values())
    reached = lines - sum(map(len, missing.values()))
    print(f"{reached} of {lines} lines reached: {reached / lines:.1%}")
    for name, absent in sorted(missing.items(), key=lambda item: -len(item[1])):
        print(f"  {name}: {len(absent)} missing: {absent}")
    from reliability.record import RECORD, keep  # imports the package, so not before its lines are counted

    figures = {"lines": lines, "reached": reached, "sizes": sizes, "missing": missing, "tests": dict(cut_off.ends)}
    keep("coverage", figures, output=arguments.output or RECORD)


if __name__ == "__main__":
    main()
