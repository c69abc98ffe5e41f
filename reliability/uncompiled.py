"""Count the lines of the package that tests reach, with compilation off, so that compiled loops are counted too.

    python -m reliability.uncompiled [--seconds 2] [--minutes 15]

Without compilation loops are a thousand times slower: a test that takes longer than some seconds is cut off there (the
lines it has reached count), and when the minutes are over the rest is left out. What is measured is reach, not truth.
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
from typing import Any

import numpy as np
import pytest

from reliability.record import RECORD, keep

TESTS = (
    "edges replay checkpoint files certified search solvers limit sketches theory trajectory training parallel ridge"
)


class CutOff:
    """Ends tests that take too long, and counts how tests ended."""

    def __init__(self, seconds: int, minutes: float) -> None:
        self._seconds, self._end = seconds, time.monotonic() + 60 * minutes
        self.ends = Counter[str]()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        if time.monotonic() > self._end:
            pytest.skip("the minutes are over")
        signal.signal(signal.SIGALRM, self._cut)
        signal.alarm(self._seconds)
        try:
            return (yield)
        finally:
            signal.alarm(0)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call":
            self.ends[report.outcome] += 1

    @staticmethod
    def _cut(*_: object) -> None:
        pytest.skip("too slow without compilation")


def plain_python() -> None:
    """Put plain Python in the place of instructions that exist in compiled code only."""
    from thresher.kernels import counting, start_scan

    counting._ones = lambda word: int(word).bit_count()
    start_scan._trailing_zeros = lambda word: (int(word) & -int(word)).bit_length() - 1
    start_scan._at_least = lambda values, first, low: np.uint64(
        sum(1 << k for k in np.flatnonzero(values[first : first + 64] >= low).tolist())
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Line coverage with compilation off.")
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--output", type=Path, default=RECORD)
    arguments = parser.parse_args()
    if os.environ.get("NUMBA_DISABLE_JIT") != "1":  # must be set before anything is imported
        os.execve(
            sys.executable,
            [sys.executable, "-m", "reliability.uncompiled", *sys.argv[1:]],
            {**os.environ, "NUMBA_DISABLE_JIT": "1"},
        )
    import coverage

    measured = coverage.Coverage(source_pkgs=["thresher"], data_file=None, concurrency=["thread"])
    measured.start()
    plain_python()
    cut_off = CutOff(arguments.seconds, arguments.minutes)
    first = [f"tests/test_{name}.py" for name in TESTS.split()]
    rest = [str(path) for path in sorted(Path("tests").glob("test_*.py")) if str(path) not in first]
    options = ["-q", "-n", "0", "-p", "no:cacheprovider", "-o", "filterwarnings=ignore", "--tb=no", "--no-header"]
    pytest.main([*options, *first, *rest], plugins=[cut_off])
    measured.stop()
    lines, missing = 0, {}
    for path in sorted(Path("src/thresher").rglob("*.py")):
        _, statements, _, absent, _ = measured.analysis2(str(path.resolve()))
        lines += len(statements)
        if absent:
            missing[str(path.relative_to("src/thresher"))] = absent
    reached = lines - sum(map(len, missing.values()))
    print(f"{reached} of {lines} lines reached: {reached / lines:.1%}")
    for name, absent in sorted(missing.items(), key=lambda item: -len(item[1])):
        print(f"  {name}: {len(absent)} missing: {absent[:25]}")
    keep(
        "coverage",
        {"lines": lines, "reached": reached, "missing": missing, "tests": dict(cut_off.ends)},
        output=arguments.output,
    )


if __name__ == "__main__":
    main()
