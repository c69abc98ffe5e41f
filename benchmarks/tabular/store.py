"""Rows of results in one file: kept as they come, merged with those of other runs, never half written."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.environment import environment
from thresher import InvalidInput

Row = dict[str, Any]
Key = tuple[str, ...]
SCORE, CHOICE, TIMES = "score", "choice", "times"
RIVALS = ("xgboost", "catboost", "interpret-core")  # packages whose versions the environment does not name
PAUSE = 5.0  # seconds between writes: what a run that is killed may lose


def key_of(row: Row) -> Key:
    """Return what a row is about; a later row about the same replaces it."""
    return row["kind"], row["suite"], row["model"], row["set"], str(row["split"])


class Store:
    """The rows in a file and those of this run. Use as a context: what is not yet written is written at its end."""

    def __init__(self, path: Path, *, threads: int = 1) -> None:
        self._path, self._new, self._written = path, {}, time.monotonic()
        here = environment()
        here["versions"] = {**here["versions"], **_versions()}
        when = datetime.now(UTC).isoformat(timespec="microseconds")
        self.run, self._commit = f"{when} {os.getpid()}", here["commit"]
        self._runs = {self.run: {"environment": here, "when": when, "threads": threads}}
        with _alone(path):  # a file that cannot be read or written is found before the work, not after it
            self._rows = {key_of(row): row for row in read_rows(path)}

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.write()

    def __len__(self) -> int:
        return len(self._new)

    def get(self, key: Key) -> Row | None:
        return self._rows.get(key)

    def rows(self) -> list[Row]:
        return list(self._rows.values())

    def add(self, row: Row) -> Row:
        """Keep a row of this run; it reaches the file within `PAUSE` seconds of work."""
        row = {**row, "run": self.run, "commit": self._commit}
        self._rows[key_of(row)] = self._new[key_of(row)] = row
        if time.monotonic() - self._written >= PAUSE:
            self.write()
        return row

    def write(self) -> None:
        """Write what is new; rows that another run has put into the file meanwhile stay."""
        if not self._new:
            return
        with _alone(self._path):
            found = results.read(self._path)
            merged = {key_of(row): row for row in found.get("rows", [])} | self._new
            runs = {**found.get("runs", {}), **self._runs}
            used = {row["run"] for row in merged.values()}
            results.write(
                self._path,
                {
                    "runs": {run: one for run, one in runs.items() if run in used},
                    "rows": [merged[key] for key in sorted(merged)],
                },
            )
        self._written = time.monotonic()


def _versions() -> dict[str, str]:
    found = {}
    for name in RIVALS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def read_rows(path: Path) -> list[Row]:
    return results.read(path).get("rows", [])


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold the file against other runs while it is read and written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.with_name(f"{path.name}.lock").open("w")
    except OSError as error:
        raise InvalidInput(f"results cannot be written to {path}: {error.strerror}. Use --output.") from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
