"""Threads: many tasks, results in a fixed order, one BLAS thread per task."""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import TypeVar

from threadpoolctl import ThreadpoolController

__all__ = ["blas_for_size", "core_count", "in_order", "uninterrupted"]

_SMALL = 2000  # rows of a matrix that one thread factors in a tenth of a second

Item = TypeVar("Item")
Value = TypeVar("Value")


def core_count() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_order(function: Callable[[Item], Value], items: Iterable[Item], *, threads: int) -> Iterator[Value]:
    """Yield ``function(item)`` for each item, in the order of the items, computed by up to ``threads`` threads.

    Results come in the order of the items and never in the order of completion, so a sum over them does not depend
    on the number of threads. At most ``threads + 1`` results wait at any time: memory is bounded by that.
    """
    # Each task calls single-threaded BLAS: pools that spin after their work would fight for the same cores, and what a
    # product rounds to must not depend on the number of threads.
    if threads <= 1:
        with _single_threaded_blas():
            yield from map(function, items)
        return
    with _single_threaded_blas(), ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[Value]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def blas_for_size(size: int) -> AbstractContextManager[object]:
    """Return a context in which BLAS works on matrices of that many rows: on one thread if they are small.

    Its threads wait for each other in a loop: on cores that are shared with anybody a small solve takes fifty times as
    long on two threads as on one. One thread also rounds in the same way, whatever the number of cores.
    """
    return _single_threaded_blas() if size <= _SMALL else nullcontext()


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold back Ctrl-C until the block is done: for changes that must be whole."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is None:
        yield
        return
    came: list[bool] = []
    handler = signal.signal(signal.SIGINT, lambda *_: came.append(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if came:
        raise KeyboardInterrupt


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def _single_threaded_blas() -> AbstractContextManager[object]:
    controller = _controller()
    return controller.limit(limits=1, user_api="blas") if controller.lib_controllers else nullcontext()
