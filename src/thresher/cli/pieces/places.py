"""Where a command writes: nothing is overwritten unasked, and a command that is refused leaves nothing behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from thresher import InvalidInput
from thresher.output import is_stream, make_folder, place_of
from thresher.runs.pair import MODEL_FILE, NEW, RUN_FILE

__all__ = ["CHECKPOINT", "forget_checkpoint", "new_file", "new_folders", "new_places", "say_kept"]

CHECKPOINT = "checkpoint"
_FILES_OF_A_RUN = (MODEL_FILE, RUN_FILE, CHECKPOINT, f"{CHECKPOINT}.previous")
# What is left of them if the process is killed.
_UNFINISHED = {f"{name}{end}" for name in _FILES_OF_A_RUN for end in (NEW, ".unfinished", f"{NEW}.unfinished")}


@contextmanager
def new_places(save: Path | None, page: Path | None, *, force: bool, resume: bool) -> Iterator[None]:
    """Make the folders of a run and of its report before the work begins; remove them if it does not end well.

    Refuses a folder with another run or a checkpoint in it, or a report that exists, without ``force``.
    """
    if resume and save is None:
        raise InvalidInput("--resume needs --save RUN, the folder of the run to go on with.")
    resume = resume and save is not None and (save / CHECKPOINT).is_file()  # else it starts
    if save is not None:
        _check_folder(save, force=force, resume=resume)
    if page is not None:
        new_file(page, option="--report", force=force or resume)
    with new_folders((save, "--save"), (page and page.parent, "--report")):
        yield


def forget_checkpoint(save: Path) -> None:
    """Remove the checkpoint of a run that is there whole, or that is to be replaced."""
    for name in (CHECKPOINT, f"{CHECKPOINT}.previous"):
        (save / name).unlink(missing_ok=True)


def say_kept(save: Path | None, page: Path | None, *, before: bool) -> str:
    """Return what an interrupted command has left behind, and how to go on; ``before``: a run was there already."""
    if save is not None and (save / CHECKPOINT).is_file():
        return f"The steps made so far are in {save}: the same command with --resume goes on from there."
    if save is not None and (save / RUN_FILE).is_file() and not before:
        more = "" if page is None or page.exists() else f" Its report is not: thresher report {save} --output {page}"
        return f"The run is written: {save}.{more}"
    return "Nothing was kept of this run. Start it again with the same command."


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
            with suppress(OSError):  # it holds a checkpoint, or was never made
                folder.rmdir()
        raise


def new_file(path: Path, *, option: str, force: bool, streams: bool = False) -> None:
    """Refuse a file that cannot be written, or that is there already and may not be replaced.

    Devices and pipes may be written to where ``streams`` are allowed, and are never replaced.
    """
    if streams and is_stream(path):
        return
    if path.is_dir():
        raise InvalidInput(f"{path} is a folder. Give {option} a file, such as {path / 'new'}{path.suffix or '.html'}.")
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


def _check_folder(save: Path, *, force: bool, resume: bool) -> None:
    if not save.is_dir() or resume:
        return
    if (save / CHECKPOINT).exists() and not force:
        raise InvalidInput(f"{save} holds an interrupted run. Add --resume to go on with it, or --force to replace it.")
    if (save / RUN_FILE).exists() and not force:
        raise InvalidInput(f"{save} holds a run already. Give --save another folder, or add --force to replace it.")
    names = set(os.listdir(save)) - _UNFINISHED
    if not names & {RUN_FILE, CHECKPOINT} and names - set(_FILES_OF_A_RUN):
        raise InvalidInput(f"{save} is a folder with other files in it. Give --save a new folder.")
    if names and not force:
        raise InvalidInput(
            f"{save} holds a model without a run. Give --save another folder, or add --force to replace it."
        )
    for name in _FILES_OF_A_RUN:
        place_of(save / name, remedy="Choose another folder with --save.")
    if not os.access(save, os.W_OK):
        raise InvalidInput(f"cannot write to {save}: permission denied. Choose another place with --save.")


def _missing(folder: Path) -> list[Path]:
    """Return the folder and those above it that do not exist."""
    return [one for one in (folder, *folder.parents) if not one.exists()]
