"""Read: arrays from .npz and .npy, with suspicion. Sizes are compared before anything is allocated; no pickle."""

from __future__ import annotations

import io
import math
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from thresher.errors import InvalidInput
from thresher.memory import require
from thresher.tables.saying import name_some

__all__ = ["read_arrays"]

# What comes out of the depths of an archive that is none, or is damaged, or wants to be more than it is.
_NO_ARCHIVE = (
    ValueError,
    LookupError,
    TypeError,
    EOFError,
    RuntimeError,
    OverflowError,
    zipfile.BadZipFile,
    zlib.error,
)


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return X (n, d) and y (n,) of an .npz file, or X (n, d) of an .npy file; a vector becomes one column.

    Cost: O(nd).
    """
    packed = path.suffix.lower() == ".npz"
    try:
        arrays = _read_npz(path) if packed else {"X": _parse(path.read_bytes())}
    except _NO_ARCHIVE as error:
        if isinstance(error, InvalidInput):
            raise
        advice = "numpy.savez(..., X=X, y=y)" if packed else "numpy.save(..., X)"
        raise InvalidInput(f"{path} is not a file of plain arrays. Write it with {advice}.") from None
    X = arrays["X"]
    if X.ndim == 1 and not packed:
        arrays["X"] = X = X[:, None]
    if X.ndim != 2:
        raise InvalidInput(f"{path}: X must have shape (n, d); it has {X.shape}. Reshape it.")
    if packed and arrays["y"].shape != (len(X),):
        shape = arrays["y"].shape
        raise InvalidInput(f"X and y must have as many rows; {path} has {len(X)} and {shape}. Give one y a row.")
    return arrays


def _read_npz(path: Path) -> dict[str, NDArray[Any]]:
    with zipfile.ZipFile(path) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
        if {"X", "y"} - set(names):
            held = name_some(names) or "none"
            raise InvalidInput(
                f"{path} must hold arrays X and y; it holds {held}. Write it with numpy.savez(..., X=X, y=y)."
            )
        arrays = {}
        for name in ("X", "y"):
            entry = archive.getinfo(f"{name}.npy")
            require(3 * entry.file_size, budget=None, what=f"reading {name} of {path}", remedy="Give a smaller file.")
            arrays[name] = _parse(archive.read(entry))
        return arrays


def _parse(raw: bytes) -> NDArray[Any]:
    """Return the array in the bytes of an .npy file; ValueError if they are not as many as it claims."""
    stream = io.BytesIO(raw)
    read_header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[npy.read_magic(stream)]
    shape, _, dtype = read_header(stream)
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize > len(raw) - stream.tell():
        raise ValueError
    return np.asarray(npy.read_array(io.BytesIO(raw), allow_pickle=False))
