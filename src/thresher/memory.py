"""Memory: what may be taken, and the refusal to take more."""

from __future__ import annotations

import ctypes
import math
import os
from contextlib import suppress

from thresher.control_groups import memory_left, read_text
from thresher.errors import MemoryRefused

__all__ = ["allowed_bytes", "available_bytes", "format_bytes", "require"]

_UNKNOWN = 1 << 60  # bytes, where nothing tells how many there are


def available_bytes() -> int:
    """Return how many bytes this process may still take: free memory, or less under a limit that is set for it.

    Limits are those of its control groups (version 1 and 2, parents included) and of its address space (``ulimit -v``).
    """
    return int(min(max(min(_free_memory(), _address_space(), memory_left()), 0), _UNKNOWN))


def _address_space() -> float:
    """Return how far the address space of this process may still grow."""
    try:
        import resource  # not on every system

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit == resource.RLIM_INFINITY:
            return math.inf
        return limit - int(read_text("/proc/self/statm").split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (ImportError, OSError, ValueError):
        return math.inf


def _free_memory() -> float:
    with suppress(OSError):
        for line in read_text("/proc/meminfo").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    if hasattr(os, "sysconf"):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return _free_on_windows()


class _MemoryStatus(ctypes.Structure):
    """``MEMORYSTATUSEX`` of Windows."""

    _fields_ = (
        ("length", ctypes.c_uint32), ("load", ctypes.c_uint32), ("total", ctypes.c_uint64), ("free", ctypes.c_uint64),
        ("others", ctypes.c_uint64 * 5),
    )  # fmt: skip


def _free_on_windows() -> float:
    status = _MemoryStatus(length=ctypes.sizeof(_MemoryStatus))
    asked = ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status))  # type: ignore[attr-defined]
    return float(status.free) if asked else math.inf


def format_bytes(count: float) -> str:
    """Return a byte count as people write it: 512 B, 3.2 MiB, 1.5 GiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} TiB"


def allowed_bytes(budget: int | None) -> float:
    """Return how many bytes may be taken: the budget, or 90 % of what is free."""
    return 0.9 * available_bytes() if budget is None else float(budget)


def require(estimate: float, *, budget: int | None, what: str, remedy: str, rows: int | None = None) -> None:
    """Refuse with :class:`MemoryRefused` if ``estimate`` bytes are over the budget (default: 90 % of what is free).

    ``rows`` is about how many rows would fit, if the caller knows.
    """
    allowed = allowed_bytes(budget)
    if estimate > allowed:
        raise MemoryRefused(
            f"{what} needs about {format_bytes(estimate)}, but {format_bytes(allowed)} may be taken. {remedy}",
            rows=rows,
        )
