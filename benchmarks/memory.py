"""How much memory this process takes, and has taken at most."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def reset_peak() -> int:
    """Forget the peak where the system can (Linux); return the bytes taken now, or at most so far."""
    try:
        _CLEAR.write_text("5")
        return _read("VmRSS")
    except OSError:
        return peak()


def peak() -> int:
    """Return the most bytes taken since the last reset."""
    try:
        return _read("VmHWM")
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else 1024 * most


def _read(name: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(name + ":"):
            return 1024 * int(line.split()[1])
    raise OSError(f"{_STATUS} does not tell {name}")
