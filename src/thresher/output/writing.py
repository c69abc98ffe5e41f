"""Files that are written whole or not at all, folders for them, and what is written to but never replaced."""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from thresher.errors import InvalidInput

__all__ = ["is_stream", "make_folder", "place_of", "to_json", "write_text", "writing"]

_STREAMS = ("/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/")  # where a shell may have put a file of its own


def is_stream(path: Path) -> bool:
    """Whether a path, or what it links to, is written to and not replaced: a device, a pipe or a socket."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) or str(path).startswith(_STREAMS)


def place_of(path: Path, *, remedy: str = "Choose another place.") -> Path:
    """Return where a file is to stand: ``path``, or what it links to, so that links stay.

    Raises InvalidInput for a folder, a device, a pipe or a socket, which no file may replace.
    """
    if path.is_dir():
        raise InvalidInput(f"cannot write {path}: it is a folder. {remedy}")
    if is_stream(path):
        raise InvalidInput(f"cannot write {path}: it is a device, a pipe or a socket, and no file. {remedy}")
    place = Path(os.path.realpath(path)) if path.is_symlink() else path
    if place.is_symlink():
        raise InvalidInput(f"cannot write {path}: it is a link that leads to itself. {remedy}")
    return place


@contextmanager
def writing(path: Path, *, remedy: str = "Choose another place.") -> Iterator[Path]:
    """Give a temporary name beside ``path`` to write to; it takes the place of ``path`` when all went well.

    If ``path`` is a link, the file that it links to is written, and the link stays.

    Raises InvalidInput if the file cannot be written; whatever stood at ``path`` stays then.
    """
    place = place_of(path, remedy=remedy)
    unfinished = place.with_name(f"{place.name}.{os.getpid()}.unfinished")
    try:
        yield unfinished
        unfinished.replace(place)
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {error.strerror or error}. {remedy}") from None
    finally:
        unfinished.unlink(missing_ok=True)


def write_text(path: Path, text: str, *, remedy: str = "Choose another place.") -> Path:
    """Write a text file, whole or not at all; return its path."""
    with writing(path, remedy=remedy) as unfinished:
        unfinished.write_text(text, encoding="utf-8")
    return path


def make_folder(folder: Path, *, remedy: str) -> Path:
    """Make a folder before the work begins, rather than find out after it that this cannot be done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"cannot write to {folder}: {error.strerror}. {remedy}") from None
    return folder


def to_json(value: Any, *, indent: int | None = None) -> str:
    """Return a value as JSON, with null in place of NaN and infinities, which JSON does not know."""
    return json.dumps(_finite(value), indent=indent, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
