"""Files: arrays and a few words about them, written whole or not at all, and read with suspicion.

A file is in the safetensors format: a header in JSON, then plain numbers, so that nothing in it can be executed. Its
one entry of metadata says what kind of file it is, in which version of its layout, and the SHA-256 of all its bytes
(with 64 zeros in the place of the checksum itself).
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput
from thresher.memory import require
from thresher.output import place_of

__all__ = ["Stored", "WorkFile", "fingerprint", "header_of", "read_file", "sync_folder", "write_file"]

_BLANK = "0" * 64
_MARK = rb"\"checksum\":\""  # before the checksum: JSON inside a string of JSON
_LONGEST_HEADER = 100_000_000  # bytes, as safetensors has it


class Stored(NamedTuple):
    """What a file holds: named arrays, and metadata (JSON)."""

    tensors: dict[str, NDArray[Any]]
    metadata: dict[str, Any]


def fingerprint(about: object, arrays: Iterable[NDArray[Any]]) -> str:
    """Return a hash of a few words, such as shapes, and of the numbers of arrays. Cost: O(bytes)."""
    digest = hashlib.sha256(repr(about).encode())
    for values in arrays:
        digest.update(np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()


class WorkFile(NamedTuple):
    """A file with what was done so far of one piece of work: that of other data or settings is refused."""

    path: Path
    kind: str
    version: int
    problem: str  # fingerprint of the data
    settings: Mapping[str, Any]  # what else decides the result, as JSON

    def write(
        self, tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any], *, previous: Path | None = None
    ) -> None:
        """Write it whole or not at all; see :func:`write_file`."""
        about = {"settings": dict(self.settings), "problem": self.problem, **metadata}
        write_file(self.path, tensors, about, kind=self.kind, version=self.version, previous=previous)

    def check(self, stored: Stored) -> Stored:
        """Return what was read; refuse what belongs to another piece of work."""
        settings = stored.metadata.get("settings")
        for name, now in self.settings.items():
            then = settings.get(name) if isinstance(settings, dict) else None
            if then != now:
                raise InvalidInput(f"{self.path} was written with {name}={then!r}; this run has {name}={now!r}.")
        if stored.metadata.get("problem") != self.problem:
            raise InvalidInput(f"{self.path} belongs to another problem: inputs or targets differ from these.")
        return stored

    def broken(self) -> InvalidInput:
        """Return the error for a file whose parts do not fit."""
        return InvalidInput(f"{self.path} is not a {self.kind} that thresher wrote: its parts do not fit.")


def write_file(
    path: Path,
    tensors: Mapping[str, NDArray[Any]],
    metadata: Mapping[str, Any],
    *,
    kind: str,
    version: int,
    previous: Path | None = None,
) -> None:
    """Write a file under another name, ``path`` + ".unfinished", force it to the disk, then rename it.

    Whatever happens, ``path`` is the old file or the new one, never half of it; a link stays, and what it links to is
    written. ``previous`` is a name under which the old one is kept. A file must have one writer at a time.

    Raises InvalidInput if the disk refuses, or if ``path`` is a device or a pipe; nothing is left behind then.
    Cost: O(bytes), and a wait for the disk.
    """
    raw = _encode(tensors, metadata, kind=kind, version=version)
    place = place_of(path)
    unfinished = place.with_name(f"{place.name}.unfinished")
    try:
        try:
            with open(unfinished, "wb") as file:
                file.write(raw)
                file.flush()
                os.fsync(file.fileno())
            if previous is not None and place.exists():
                _keep(place, previous)
            os.replace(unfinished, place)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        sync_folder(place.parent)
    except OSError as error:
        raise InvalidInput(
            f"cannot write {path}: {error.strerror or error}. Make room, or choose another place."
        ) from None


def read_file(path: Path, *, kind: str, version: int) -> Stored:
    """Return what a file of that kind holds, or refuse it with one line that says why.

    ``version`` is that of the layout which the caller knows. Sizes are compared with those of the file before anything
    is allocated, so memory stays within a few times its size.

    Raises InvalidInput for a file that is missing, of another kind or version, cut short or damaged; MemoryRefused for
    one that does not fit into memory. Cost: O(bytes).
    """
    raw = _read(path)
    about, found = _header(raw), f"{path} is not a {kind} of thresher"
    if about is None:
        raise InvalidInput(f"{found}, or its first bytes are damaged. Give a file that thresher wrote.")
    if about.get("kind") != kind:
        raise InvalidInput(f"{found} but a {str(about.get('kind'))[:40]!r}. Give a {kind}.")
    written = about.get("version")
    if not isinstance(written, int) or isinstance(written, bool) or written < 1:
        raise InvalidInput(f"{found}: its version is {str(written)[:40]!r}. Give a file that thresher wrote.")
    if written != version:
        age, remedy = ("a newer", "Upgrade thresher.") if written > version else ("an older", "Fit or train again.")
        raise InvalidInput(
            f"{path} was written by {age} thresher: version {written} of its layout, and this one reads {version}. "
            f"{remedy}"
        )
    if about.get("checksum") != _checksum(raw):
        raise InvalidInput(f"{path} is damaged or cut short: its checksum does not fit its {len(raw):,} bytes.")
    metadata, tensors = about.get("metadata"), _tensors(raw)
    if not isinstance(metadata, dict) or tensors is None:
        raise InvalidInput(f"{found}: its header does not describe its bytes. Give a file that thresher wrote.")
    return Stored(tensors, metadata)


def header_of(path: Path) -> dict[str, Any]:
    """Return what a file says of itself: kind, version, checksum and metadata; nothing if there is no such file.

    Nothing is compared with the rest of the file. Cost: O(header).
    """
    try:
        if not path.is_file():
            return {}
        with path.open("rb") as file:
            length = file.read(8)
            most = min(int.from_bytes(length, "little"), os.fstat(file.fileno()).st_size)
            return _header(length + file.read(most)) or {}
    except OSError:
        return {}


def _encode(tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any], *, kind: str, version: int) -> bytes:
    from safetensors.numpy import save

    about = {"checksum": _BLANK, "kind": kind, "version": version, "metadata": metadata}
    dense = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    raw = save(dense, {"thresher": json.dumps(about, separators=(",", ":"))})
    place = _place(raw)
    return raw[:place] + _checksum(raw).encode() + raw[place + len(_BLANK) :]


def _read(path: Path) -> bytes:
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise InvalidInput(f"cannot read {path}: it is not a file.")
            require(3 * status.st_size, budget=None, what=f"reading {path}", remedy="Give a smaller file.")
            return file.read(status.st_size)
    except (OSError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidInput(f"cannot read {path}: {reason}.") from None


def _header(raw: bytes) -> dict[str, Any] | None:
    """Return what the header says about the file; None if it says nothing that can be understood."""
    length = int.from_bytes(raw[:8], "little")
    if len(raw) < 8 or length > min(len(raw) - 8, _LONGEST_HEADER):
        return None
    try:
        about = json.loads(json.loads(raw[8 : 8 + length])["__metadata__"]["thresher"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return about if isinstance(about, dict) else None


def _tensors(raw: bytes) -> dict[str, NDArray[Any]] | None:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return load(raw)
    except (SafetensorError, ValueError, LookupError, TypeError, OverflowError):
        return None


def _place(raw: bytes) -> int:
    return raw.find(_MARK) + len(_MARK)


def _checksum(raw: bytes) -> str:
    place = _place(raw)
    digest = hashlib.sha256(raw[:place])
    digest.update(_BLANK.encode())
    digest.update(memoryview(raw)[place + len(_BLANK) :])
    return digest.hexdigest()


def _keep(path: Path, previous: Path) -> None:
    """Give the old file a second name, so that there is no moment without it under its own."""
    linked = previous.with_name(f"{previous.name}.unfinished")
    linked.unlink(missing_ok=True)
    os.link(path, linked)
    os.replace(linked, previous)


def sync_folder(folder: Path) -> None:
    """Force the names in a folder to the disk."""
    place = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(place)
    finally:
        os.close(place)
