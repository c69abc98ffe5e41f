"""The record of reliability runs: results/reliability.json, one entry a command, each with its origin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.environment import environment

RECORD = Path("results/reliability.json")


def keep(name: str, figures: dict[str, Any], *, output: Path = RECORD) -> None:
    """Write the figures of a command into the record; those of other commands stay."""
    results.write(output, {**results.read(output), name: {**figures, "environment": environment()}})
