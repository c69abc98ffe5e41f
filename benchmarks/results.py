"""Files of results: JSON that is never half written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from thresher import InvalidInput
from thresher.output import make_folder, to_json, write_text


def read(path: Path) -> dict[str, Any]:
    """Return what an earlier run wrote; nothing if there is no such file."""
    try:
        found = json.loads(path.read_text()) if path.is_file() else {}
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path} cannot be read as results of an earlier run: {error}. Remove it.") from error
    if not isinstance(found, dict):
        raise InvalidInput(f"{path} holds no results of an earlier run. Remove it, or write elsewhere with --output.")
    return found


def write(path: Path, results: dict[str, Any]) -> None:
    """Write results, whole or not at all."""
    remedy = "Choose another place with --output."
    make_folder(path.parent, remedy=remedy)
    write_text(path, to_json(results, indent=1), remedy=remedy)
