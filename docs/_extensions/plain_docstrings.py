"""Our docstrings for napoleon: ``name : what it is`` has words where napoleon expects a type, and a line of cost."""

from __future__ import annotations

import re
from typing import Any

LISTS = ("Parameters", "Attributes")


def rewrite(app: Any, what: str, name: str, obj: object, options: Any, lines: list[str]) -> None:
    """Put descriptions below their names, and the cost into a section of its own."""
    made: list[str] = []
    section = ""
    for place, line in enumerate(lines):
        if place + 1 < len(lines) and set(lines[place + 1]) == {"-"}:
            section = line
        entry = re.match(r"^(\w[\w, ]*) : (.*)$", line)
        if section in LISTS and entry:
            made += [entry[1], f"    {entry[2]}"]
        elif line.startswith("Cost: "):
            section = "Cost"
            made += ["Cost", "----", line.removeprefix("Cost: ")]
        else:
            made.append(line)
    lines[:] = made


def setup(app: Any) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", rewrite, priority=400)  # before napoleon
    return {"parallel_read_safe": True, "parallel_write_safe": True}
