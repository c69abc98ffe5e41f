"""A run and its model: two files of a folder that are replaced one after the other, and belong together at any moment.

A run tells the checksum of its model. Both new files are on the disk before the first takes its place. If a kill comes
between the two, the model is the new one, and the run that belongs to it is still called ``run.thresher.new``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from thresher.errors import InvalidInput
from thresher.files import header_of, sync_folder
from thresher.output import place_of

__all__ = ["MODEL_FILE", "NEW", "RUN_FILE", "find_run", "replace_pair"]

MODEL_FILE, RUN_FILE = "model.thresher", "run.thresher"
NEW = ".new"  # ends the names of a run and its model until both are on the disk


def find_run(folder: Path) -> Path:
    """Return the file of the run in a folder, the one that belongs to the model there; it need not exist.

    Raises InvalidInput if it is of another model. Cost: O(headers).
    """
    run = folder / RUN_FILE
    new = _new(Path(os.path.realpath(run)))
    model, told = header_of(folder / MODEL_FILE).get("checksum"), _model_of(run)
    if model is None or told == model:
        return run
    if _model_of(new) == model:
        return new
    if told is not None:
        raise InvalidInput(
            f"{folder}: {RUN_FILE} is of another model than {MODEL_FILE}; one of them was replaced. Train again with "
            f"--force, or use {folder / MODEL_FILE} alone."
        )
    return run


def replace_pair(folder: Path, write_model: Callable[[Path], object], write_run: Callable[[Path, str], object]) -> None:
    """Write a model and then its run, which gets the checksum of the model, under other names; then rename both.

    What was there stays readable until then. Raises InvalidInput if a file cannot be written. Cost: that of writing.
    """
    model, run = (place_of(folder / name) for name in (MODEL_FILE, RUN_FILE))
    try:
        if _model_of(_new(run)) == header_of(model).get("checksum") != _model_of(run):
            _rename(_new(run), run)  # what a kill left half-way
        write_model(_new(model))
        write_run(_new(run), header_of(_new(model))["checksum"])
        _rename(_new(model), model)
        _rename(_new(run), run)
    except OSError as error:
        raise InvalidInput(
            f"cannot write to {folder}: {error.strerror or error}. Choose another folder with --save."
        ) from None
    finally:
        if _new(model).exists():  # else the new run belongs to the model that is there
            _new(run).unlink(missing_ok=True)
            _new(model).unlink(missing_ok=True)


def _new(place: Path) -> Path:
    return place.with_name(f"{place.name}{NEW}")


def _rename(old: Path, new: Path) -> None:
    os.replace(old, new)
    sync_folder(new.parent)


def _model_of(run: Path) -> str | None:
    """Return the checksum of the model of a run; None if there is no such file, or it tells none."""
    about = header_of(run).get("metadata")
    model = about.get("model") if isinstance(about, dict) else None
    return model.get("checksum") if isinstance(model, dict) else None
