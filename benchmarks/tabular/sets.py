"""Published sets with their published splits, read from ``.npz`` files."""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from thresher import InvalidInput

CLASSIFICATION, REGRESSION, TABLES = "uci-classification", "uci-regression", "tables"
_SPLITS = {
    CLASSIFICATION: ("hp_train", "hp_val", "kf_train", "kf_test"),
    REGRESSION: ("train", "test"),
    TABLES: ("train", "test"),
}


class Part(NamedTuple):
    """Some rows of a set: all that a model is shown. ``inputs`` (n, d), ``targets`` (n,)."""

    inputs: np.ndarray
    targets: np.ndarray


class Set(NamedTuple):
    """A set with its splits: ``inputs`` (n, d) float64, ``targets`` (n,), row numbers by the name of the split."""

    name: str
    inputs: np.ndarray
    targets: np.ndarray
    splits: dict[str, np.ndarray]
    digest: str

    @property
    def labelled(self) -> bool:
        """Whether targets are classes, not values."""
        return self.targets.dtype.kind == "i"

    def part(self, rows: np.ndarray) -> Part:
        return Part(self.inputs[rows], self.targets[rows])


def set_names(folder: Path) -> list[str]:
    """Return the names of the sets in a folder, sorted."""
    names = sorted(path.stem for path in folder.glob("*.npz")) if folder.is_dir() else []
    if not names:
        raise InvalidInput(f"no .npz files found in {folder}; give the folder that holds {folder.name}/ by --data-dir.")
    return names


def load_set(folder: Path, name: str) -> Set:
    """Read one set and check its splits: no row number outside, none in both sides of a split.

    Cost: one pass over the file.
    """
    path = folder / f"{name}.npz"
    try:
        raw = path.read_bytes()
        with np.load(io.BytesIO(raw), allow_pickle=False) as file:
            inputs, targets = file["X"].astype(np.float64), file["y"]
            splits = {split: file[split].astype(np.int64) for split in _SPLITS[folder.name]}
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise InvalidInput(f"{path} cannot be read as a set with its splits: {error}.") from error
    labelled = {CLASSIFICATION: True, REGRESSION: False}.get(folder.name, targets.dtype.kind in "iu")
    targets = targets.astype(np.int64 if labelled else np.float64)
    if inputs.ndim != 2 or targets.shape != inputs.shape[:1]:
        raise InvalidInput(
            f"{path}: expected X (n, d) and y (n,); X is {inputs.shape}, y {targets.shape}. Get the file again."
        )
    if not (np.isfinite(inputs).all() and np.isfinite(targets).all()):
        raise InvalidInput(f"{path}: X or y holds numbers that are not finite. Get the file again.")
    _check(path, splits, len(inputs))
    return Set(name, inputs, targets, splits, hashlib.sha256(raw).hexdigest()[:12])


def _check(path: Path, splits: dict[str, np.ndarray], size: int) -> None:
    for split, rows in splits.items():
        if rows.size == 0 or rows.min() < 0 or rows.max() >= size:
            raise InvalidInput(
                f"{path}: {split} must hold row numbers from 0 to {size - 1}; got {rows.min(initial=0)} to "
                f"{rows.max(initial=0)}. Get the file again."
            )
    names = list(splits)
    for fitted, judged in zip(names[::2], names[1::2], strict=True):
        pairs = zip(np.atleast_2d(splits[fitted]), np.atleast_2d(splits[judged]), strict=True)
        if any(np.intersect1d(one, other).size for one, other in pairs):
            raise InvalidInput(f"{path}: {fitted} and {judged} share rows. Get the file again.")
