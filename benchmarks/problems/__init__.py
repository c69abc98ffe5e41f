"""The problems that methods are measured on: one file each, found by listing this folder.

A problem is a module with ``LABEL``, ``WHY`` (it is there), ``SIZES`` for the tiers "tiny" (for tests), "quick" and
"full", and ``make(inputs=, dimension=) -> Problem``. ``LOSS`` is what is minimised, if not squares.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from thresher import Problem


class Size(NamedTuple):
    inputs: int
    dimension: int
    width: int


class Made(Protocol):
    LABEL: str
    WHY: str
    SIZES: dict[str, Size]

    def make(self, *, inputs: int, dimension: int) -> Problem: ...


def problem_names() -> list[str]:
    return sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_"))


def load_problem(name: str) -> Made:
    module: Any = import_module(f"benchmarks.problems.{name}")
    return module


def loss_of(name: str) -> str:
    return getattr(load_problem(name), "LOSS", "squared_error")
