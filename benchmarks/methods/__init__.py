"""The methods that are measured: one file each, found by listing this folder. Files named _*.py are shared parts.

A method is a module with

- ``LABEL``: what a reader sees; ``COST``: of an iteration, in words; ``ORDER``: "first", "second" or "none"
- ``CASES``: those it takes part in
- ``REQUIRES``: modules that must be installed beyond thresher's own, each an extra of that name
- ``run(problem, settings, log, **options)``: trains from the start that the settings give and writes into the log; the
  first record is the start, before any step
- ``warm_up()``, if a run on a tiny problem does not compile all that a large one needs
- ``tune(problem, settings, log) -> options``, if it has anything to tune, and ``TUNING``, which says how; tuning is not
  charged to the method

Those of the case "cross_entropy" minimise ``log.loss``; all others take squares for granted.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from benchmarks.log import Log
from thresher import Problem
from thresher.errors import not_installed
from thresher.model.network import NetworkSettings

OURS = ("ours", "ours_hadamard")  # all others are rivals


class Method(Protocol):
    LABEL: str
    COST: str
    ORDER: str
    CASES: tuple[str, ...]
    REQUIRES: tuple[str, ...]

    def run(self, problem: Problem, settings: NetworkSettings, log: Log, **options: Any) -> None: ...


def method_names() -> list[str]:
    return sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_"))


def load_method(name: str) -> Method:
    method: Any = import_module(f"benchmarks.methods.{name}")
    return method


def require_installed(method: Method) -> None:
    """Raise NotAvailable if a module that the method requires is not installed."""
    for name in method.REQUIRES:
        if find_spec(name) is None:
            raise not_installed(f"needs {name}", extra=name)
