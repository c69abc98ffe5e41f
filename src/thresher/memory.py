"""Memory: what may be taken, and the refusal to take more."""

from __future__ import annotations

import os
from pathlib import Path

from thresher.errors import MemoryRefused

__all__ = ["available_bytes", "format_bytes", "require"]

_CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
_CGROUP_USE = (Path("/sys/fs/cgroup/memory.current"), Path("/sys/fs/cgroup/memory/memory.usage_in_bytes"))


def available_bytes() -> int:
    """Return how many bytes this process may still take: free memory, or less under a control group's limit."""
    free = _free_memory()
    for limit, use in zip(_CGROUP_LIMITS, _CGROUP_USE, strict=True):
        try:
            free = min(free, int(limit.read_text()) - int(use.read_text()))
        except (OSError, ValueError):  # no such group, or the limit reads "max"
            continue
    return max(free, 0)


def _free_memory() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def format_bytes(count: float) -> str:
    """Return a byte count as people write it: 512 B, 3.2 MiB, 1.5 GiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} TiB"


def require(estimate: float, *, budget: int | None, what: str, remedy: str) -> None:
    """Refuse with :class:`MemoryRefused` if ``estimate`` bytes are over the budget (default: 90 % of what is free)."""
    allowed = 0.9 * available_bytes() if budget is None else budget
    if estimate > allowed:
        raise MemoryRefused(
            f"{what} needs about {format_bytes(estimate)}, but {format_bytes(allowed)} may be taken. {remedy}"
        )
