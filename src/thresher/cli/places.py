"""Where a command writes: nothing is overwritten unasked, and a command that is refused leaves nothing behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from thresher import InvalidInput
from thresher.output import is_stream, make_folder, place_of
from thresher.report.saved import MODEL_FILE, RUN_FILE

__all__ = ["check_run", "new_file", "new_folders"]


def check_run(save: Path, *, force: bool) -> None:
    """Refuse a folder for a run that holds other things, or a run already without ``force``."""
    if not save.is_dir():
        return
    names = {one for one in os.listdir(save) if not one.endswith(".unfinished")}  # left by a kill
    if names - {MODEL_FILE, RUN_FILE} and RUN_FILE not in names:
        raise InvalidInput(f"{save} is a folder with other files in it. Give --save a new folder.")
    if names & {MODEL_FILE, RUN_FILE} and not force:
        raise InvalidInput(f"{save} holds a run already. Give --save another folder, or add --force to replace it.")
    for name in (MODEL_FILE, RUN_FILE):
        place_of(save / name, remedy="Choose another folder with --save.")
    if not os.access(save, os.W_OK):
        raise InvalidInput(f"cannot write to {save}: permission denied. Choose another place with --save.")


@contextmanager
def new_folders(*wanted: tuple[Path | None, str]) -> Iterator[None]:
    """Make folders, each with the option that names it; remove those that were made if the work does not end well."""
    made: list[Path] = []
    try:
        for folder, option in wanted:
            if folder is not None:
                made += _missing(folder)
                make_folder(folder, remedy=f"Choose another place with {option}.")
        yield
    except BaseException:
        for folder in sorted(made, key=lambda one: len(one.parts), reverse=True):
            with suppress(OSError):  # it holds what was written, or was never made
                folder.rmdir()
        raise


def new_file(path: Path, *, option: str, force: bool, streams: bool = False) -> None:
    """Refuse a file that cannot be written, or that is there already and may not be replaced.

    Devices and pipes may be written to where ``streams`` are allowed, and are never replaced.
    """
    if streams and is_stream(path):
        return
    if path.is_dir():
        raise InvalidInput(f"{path} is a folder. Give {option} a file, in it or elsewhere.")
    place = place_of(path, remedy=f"Give {option} another name.")
    if path.exists() and not force:
        raise InvalidInput(f"{path} is there already. Give {option} another name, or add --force to replace it.")
    near = place.parent
    while not near.exists():
        near = near.parent
    if not near.is_dir():
        raise InvalidInput(
            f"cannot write to {path}: {near} is a file and no folder. Choose another place with {option}."
        )
    if not os.access(near, os.W_OK):
        raise InvalidInput(f"cannot write to {near}: permission denied. Choose another place with {option}.")


def _missing(folder: Path) -> list[Path]:
    """Return the folder and those above it that do not exist."""
    return [one for one in (folder, *folder.parents) if not one.exists()]
