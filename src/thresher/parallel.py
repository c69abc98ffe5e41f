"""Threads: many tasks, results in a fixed order, one BLAS thread per task."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from itertools import chain, islice
from typing import Any, TypeVar

from threadpoolctl import OpenBLASController, ThreadpoolController

from thresher.control_groups import cpu_quota

__all__ = ["Pool", "blas_for_size", "core_count", "in_order", "uninterrupted"]

_SMALL = 2000  # rows of a matrix that one thread factors in a tenth of a second

Item = TypeVar("Item")
Value = TypeVar("Value")


def core_count() -> int:
    """Return the number of cores that the caller may use: those of this process, or its share of them.

    No more than the quota of its container, rounded up, and than ``OMP_NUM_THREADS``, which users set on clusters and
    joblib in its processes; 1 in a thread of joblib.
    """
    if _in_thread_of_joblib():
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if (quota := _quota()) < cores:
        cores = max(1, math.ceil(quota))
    most = os.environ.get("OMP_NUM_THREADS", "").strip()
    return min(cores, int(most)) if most.isdecimal() and int(most) >= 1 else cores


_quota = cache(cpu_quota)  # read once: it is asked for at every call


def _in_thread_of_joblib() -> bool:
    joblib: Any = sys.modules.get("joblib.parallel")  # in its threads it has been imported
    # Tasks in its processes are told of a threading backend too, for what they begin; they run in the main thread.
    if joblib is None or threading.current_thread() is threading.main_thread():
        return False
    backend, _ = joblib.get_active_backend()
    return bool(backend.nesting_level) and getattr(backend, "uses_threads", False)


def in_order(function: Callable[[Item], Value], items: Iterable[Item], *, threads: int) -> Iterator[Value]:
    """Yield ``function(item)`` for each item, in the order of the items, computed by up to ``threads`` threads.

    Results come in the order of the items and never in the order of completion, so a sum over them does not depend
    on the number of threads. At most ``threads + 1`` results wait at any time: memory is bounded by that.
    """
    idle = _IDLE[threads]
    try:
        pool = idle.pop()
    except IndexError:  # none, or all are in use: a task may call this itself
        pool = Pool(threads)
    try:
        yield from pool.in_order(function, items)
    finally:
        idle.append(pool)


class Pool:
    """Threads that are kept from one call to the next: to start them takes longer than a step of a small network."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None  # made when first needed

    def in_order(self, function: Callable[[Item], Value], items: Iterable[Item]) -> Iterator[Value]:
        """Do as :func:`in_order`. A single item is computed by the thread that asks."""
        items = iter(items)
        ahead = list(islice(items, min(self._threads, 2)))
        items = chain(ahead, items)
        # Each task calls single-threaded BLAS: pools that spin after their work would fight for the same cores, and
        # what a product rounds to must not depend on the number of threads.
        with _single_threaded_blas():
            yield from self._deal(function, items) if len(ahead) > 1 else map(function, items)

    def close(self) -> None:
        """End the threads, once they have done what they are at; what waits is dropped."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(cancel_futures=True)

    def _deal(self, function: Callable[[Item], Value], items: Iterable[Item]) -> Iterator[Value]:
        waiting: deque[Future[Value]] = deque()
        pool = self._pool = self._pool or ThreadPoolExecutor(self._threads)
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) > self._threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BaseException:  # whoever goes on after an interrupt must find nobody at work
            self.close()
            raise


# Pools, by their number of threads, that wait for the next call of ``in_order``: a fit makes thousands of calls.
_IDLE: defaultdict[int, deque[Pool]] = defaultdict(deque)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_IDLE.clear)  # threads are not copied


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


class _Limit:
    """BLAS on one thread as long as anybody wants it: the first sets the limit for the process, the last lifts it."""

    def __init__(self) -> None:
        self._lock, self._wanted = threading.Lock(), 0
        self._limiter: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._wanted == 0 and _controller().lib_controllers:
                self._limiter = _controller().limit(limits=1, user_api="blas")
                _anyone_may_change_it()
            self._wanted += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._wanted -= 1
            if self._wanted == 0 and self._limiter is not None:
                self._limiter.restore_original_limits()
                _anyone_may_change_it()
                self._limiter = None


def _anyone_may_change_it() -> None:
    """Give back the control of OpenBLAS, which newer threadpoolctl leaves with the thread that set a limit.

    The thread that lifts it may be another one.
    """
    give_back = getattr(OpenBLASController, "clear_controlling_thread", None)
    if give_back is not None:
        give_back()


_LIMIT = _Limit()


def _single_threaded_blas() -> AbstractContextManager[object]:
    return _LIMIT
