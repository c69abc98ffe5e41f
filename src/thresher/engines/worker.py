"""A worker: some slices of neurons, in a process of their own, which is told and answers in bytes.

Bytes can be counted, sent to many workers after being made once, and kept in a log: a worker that is lost is made again
from the recipe and from the calls that changed its slices.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.engines.threads import Threads
from thresher.errors import InvalidInput
from thresher.shards import Slice

__all__ = ["Answer", "Call", "Packed", "Worker", "here", "pack"]

# Methods of slices and shards that change nothing, by name. Any other is kept in the log.
_QUESTIONS = ("add_counts", "firing_counts", "gram_times", "sketch", "weights", "drifts", "audit")


def here() -> str:
    """Return the version of thresher in this process."""
    try:
        return version("thresher-ml")
    except PackageNotFoundError:
        return "of unknown version"


class Call(NamedTuple):
    """A call to all slices, as bytes, and what a log must know of it."""

    data: bytes
    output: int | None  # whose shards it changes; None for all
    changes: bool  # whether it changes anything
    forgets: bool  # whether it forgets an output

    @classmethod
    def of(cls, function: Callable[..., Any], arguments: Sequence[Any], *, adds: bool) -> Call:
        """Return a call of a function of a slice, which becomes its name; ``adds`` if to counts. Cost: O(bytes)."""
        data = pickle.dumps((function, tuple(arguments), adds), protocol=5)
        made = arguments[1] if function is Slice.call else function
        output = arguments[0] if function in (Slice.call, Slice.release) else None
        return cls(data, output, made.__name__ not in _QUESTIONS, function is Slice.release)


class Answer(NamedTuple):
    """What a worker answers: results by slice or counts, or an error; and the seconds it worked."""

    value: Any
    error: Exception | None
    seconds: float


class Packed(NamedTuple):
    """Counts (n, n), lower triangle, in few bytes: those that are not zero, or all of them row by row."""

    values: NDArray[Any]
    places: NDArray[Any] | None  # in the matrix row by row; None for all of the lower triangle

    def add_to(self, total: NDArray[np.int32]) -> None:
        """Add these counts to others (n, n)."""
        if self.places is not None:
            total.reshape(-1)[self.places] += self.values
            return
        first = 0
        for row, counts in enumerate(total):
            counts[: row + 1] += self.values[first : first + row + 1]
            first += row + 1


def pack(counts: NDArray[np.int32]) -> Packed:
    """Return counts (n, n), lower triangle, in the smaller of two forms. Cost: O(n²)."""
    values = np.concatenate([one[: row + 1] for row, one in enumerate(counts)])
    sizes = (np.int8, np.int16, np.int32)
    small = next(size for size in sizes if np.abs(values).max() <= np.iinfo(size).max)
    places = np.flatnonzero(counts)
    index = np.dtype(np.uint32 if counts.size <= 1 << 32 else np.int64)
    if len(places) * (index.itemsize + np.dtype(small).itemsize) < len(values) * np.dtype(small).itemsize:
        return Packed(counts.reshape(-1)[places].astype(small), places.astype(index))
    return Packed(values.astype(small), None)


class Worker:
    """Some slices, in order.

    Parameters
    ----------
    recipe : of the slices, pickled
    ranges : of neurons
    threads : that work on them
    expected : version of thresher of whoever calls
    """

    def __init__(self, recipe: bytes, ranges: Sequence[range], threads: int, expected: str) -> None:
        if here() != expected:
            raise InvalidInput(f"a worker has thresher {here()}, the caller {expected}. Install the same everywhere.")
        self._slices = Threads(pickle.loads(recipe), ranges, threads=threads)

    def do(self, call: bytes, before: Sequence[bytes] = ()) -> bytes:
        """Make calls that were made before, which bring the slices where they were, then this one; return an Answer."""
        began = time.perf_counter()
        try:
            for one in before:
                self._run(one)
            answer = Answer(self._run(call), None, time.perf_counter() - began)
            return pickle.dumps(answer, protocol=5)
        except Exception as error:
            return _failed(error, time.perf_counter() - began)

    def awake(self) -> bool:
        """Return True: who can be asked has been placed."""
        return True

    def _run(self, call: bytes) -> Any:
        function, arguments, adds = pickle.loads(call)
        if adds:
            return pack(self._slices.add_up(function, *arguments))
        return list(self._slices.map(function, *arguments))


def _failed(error: Exception, seconds: float) -> bytes:
    try:
        data = pickle.dumps(Answer(None, error, seconds), protocol=5)
        pickle.loads(data)  # some can be written and not read
        return data
    except Exception:
        return pickle.dumps(Answer(None, RuntimeError(f"{type(error).__name__}: {error}"), seconds), protocol=5)
