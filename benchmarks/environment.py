"""Where figures come from: machine, versions, commit."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from thresher import __version__
from thresher.parallel import core_count

PACKAGES = ("numpy", "scipy", "numba", "scikit-learn", "torch", "lightgbm")


def environment() -> dict[str, object]:
    return {
        "processor": _processor(),
        "cores": core_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {"thresher": __version__, **{name: found for name in PACKAGES if (found := _version(name))}},
        "commit": _commit(),
        "load": os.getloadavg()[0],
    }


def _version(package: str) -> str:
    """Return the version that is installed; nothing if none is."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def _commit(folder: Path = Path(__file__).parent) -> str:
    """Return the commit of a clone, with a plus if anything but prose differs from it: commands write into docs/."""

    def git(*arguments: str) -> str:
        command = ["git", *arguments]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--", ":/", ":(top,exclude)docs", ":(top,exclude)*.md")
        return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
