"""Memory: what may be taken, and the refusal to take more."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator

from thresher.errors import MemoryRefused

__all__ = ["allowed_bytes", "available_bytes", "format_bytes", "require"]

# Small files are read by their names, in one call: by `Path` it would take a tenth of the training of a small network.
_CGROUPS, _OWN_GROUPS = "/sys/fs/cgroup", "/proc/self/cgroup"
# Of a control group: its limit, its use, and the line of memory.stat that tells how much of that can be taken back.
_VERSION_2 = ("memory.max", "memory.current", "inactive_file ")
_VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file ")

_NO_LIMIT = 1 << 60  # bytes: what version 1 says where there is none


def available_bytes() -> int:
    """Return how many bytes this process may still take: free memory, or less under a limit that is set for it.

    Limits are those of its control groups (version 1 and 2, parents included) and of its address space (``ulimit -v``).
    """
    return int(max(min(_free_memory(), _address_space(), *_group_rooms()), 0))


def _address_space() -> float:
    """Return how far the address space of this process may still grow."""
    try:
        import resource  # not on every system

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit == resource.RLIM_INFINITY:
            return math.inf
        return limit - int(_read("/proc/self/statm").split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (ImportError, OSError, ValueError):
        return math.inf


def _group_rooms() -> Iterator[float]:
    """Yield what is left in each control group that this process stands in, and in those above it."""
    try:
        lines = _read(_OWN_GROUPS).splitlines()
    except OSError:
        lines = []
    seen = set()
    for line in [*lines, "0::/", "1:memory:/"]:  # inside a container its own group is the root
        _, controllers, place = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root, names = (f"{_CGROUPS}/memory", _VERSION_1) if controllers else (f"{_CGROUPS}", _VERSION_2)
        steps = [step for step in place.split("/") if step]
        for depth in range(len(steps), -1, -1):
            folder = "/".join([root, *steps[:depth]])
            if folder not in seen:
                seen.add(folder)
                yield _group_room(folder, *names)


def _group_room(folder: str, limit: str, use: str, idle: str) -> float:
    try:
        most = int(_read(f"{folder}/{limit}"))
        if most >= _NO_LIMIT:
            return math.inf
        room = most - int(_read(f"{folder}/{use}"))
        lines = _read(f"{folder}/memory.stat").splitlines()
        return room + sum(int(line.removeprefix(idle)) for line in lines if line.startswith(idle))
    except (OSError, ValueError):  # no such group, or the limit reads "max"
        return math.inf


def _free_memory() -> int:
    try:
        for line in _read("/proc/meminfo").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _read(path: str) -> str:
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, 1 << 16).decode()
    finally:
        os.close(file)


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
