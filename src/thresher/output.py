"""Output: text files that are written whole or not at all, and folders for them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from thresher.errors import InvalidInput

__all__ = ["make_folder", "write_text", "writing"]


@contextmanager
def writing(path: Path, *, remedy: str = "Choose another place.") -> Iterator[Path]:
    """Give a temporary name beside ``path`` to write to; it takes the place of ``path`` when all went well.

    Raises InvalidInput if the file cannot be written; whatever stood at ``path`` stays then.
    """
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.unfinished")
    try:
        yield unfinished
        unfinished.replace(path)
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
