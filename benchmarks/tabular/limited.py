"""A time limit that holds for work in any library: the work runs in a process of its own, which is ended."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any


def within(limit: float | None, work: Callable[[], Any]) -> Any:
    """Return what ``work`` returns, or raise what it raises; `TimeoutError` after ``limit`` seconds.

    Without a limit it runs here. Otherwise it runs in a copy of this process, so nothing that it changes stays.
    """
    if limit is None:
        return work()
    context = multiprocessing.get_context("fork")
    mine, its = context.Pipe(duplex=False)
    process = context.Process(target=_told, args=(work, its))
    process.start()
    its.close()
    try:
        if not mine.poll(limit):
            raise TimeoutError(f"not finished after {limit / 60:g} minutes")
        returned, found = mine.recv()
    except EOFError:
        process.join()
        raise RuntimeError(f"the process ended without a result, exit code {process.exitcode}") from None
    finally:
        process.kill()  # does nothing to one that has ended
        process.join()
        mine.close()
    if not returned:
        raise found
    return found


def _told(work: Callable[[], Any], its: Connection) -> None:
    try:
        answer = True, work()
    except Exception as error:  # raised again on the other side
        answer = False, error
    try:
        its.send(answer)
    except Exception:  # an error that cannot be pickled
        its.send((False, RuntimeError(f"{type(answer[1]).__name__}: {answer[1]}")))
