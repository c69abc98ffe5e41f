"""Files of results: JSON that is never half written."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

from thresher import InvalidInput


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
    """Write under another name first, then rename: no half file is ever left in place of a whole one."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.unfinished")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(json.dumps(_finite(results), indent=1, allow_nan=False))
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise InvalidInput(f"results cannot be written to {path}: {error.strerror}. Use --output.") from error


def _finite(value: Any) -> Any:
    """Return the value with None for numbers that JSON does not know: NaN and infinities."""
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
