"""Machine code on disk, found by what it is made of, or made again.

Numba's own cache writes an index and the code it names in two steps, so that two processes may leave one's index with
the other's code; and it looks at the time stamp of one file, where helpers are inlined from others. Here a folder
belongs to one digest of all sources, versions and features of the processor, and a file in it to one function with its
types: whole when it appears, and compared with what was asked for when it is read. There are no locks.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import platform
import shutil
import sys
import time
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.dispatcher import Dispatcher
from numba.core.serialize import dumps
from numba.misc.appdirs import AppDirs

__all__ = ["CodeFolder", "is_quiet", "keep_code"]

_UNUSED = 30 * 24 * 3600.0  # seconds after which nobody will use a folder any more
_PREFIX = "thresher-"
# Settings of Numba that change the code it makes. Who names the processor that it is gets no instructions of its own.
_SETTINGS = (
    "OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "ENABLE_AVX", "USING_SVML", "BOUNDSCHECK", "DEBUGINFO_DEFAULT",
    "CPU_NAME", "CPU_FEATURES",
)  # fmt: skip

# Numba tells apart functions that a function makes by a count, which begins at 1 in each process: entries of two
# processes could have one symbol for different code, and whoever loads both would run the first for either.
FunctionIdentity._unique_ids = iter(lambda: int.from_bytes(os.urandom(8), "big"), None)  # type: ignore[assignment]


def is_quiet() -> bool:
    """Return whether this process has nobody to tell about compiling: a worker, THRESHER_QUIET, no standard error."""
    processes = sys.modules.get("multiprocessing")
    worker = processes is not None and processes.current_process().name != "MainProcess"
    return worker or bool(os.environ.get("THRESHER_QUIET")) or sys.stderr is None


def digest_sources(sources: Path) -> str | None:
    """Return a digest of all Python files below a folder; None where none can be read. Cost: reading them."""
    digest = hashlib.sha256()
    try:
        paths = sorted(sources.rglob("*.py"))
        for path in paths:
            content = path.read_bytes()
            digest.update(f"{path.relative_to(sources).as_posix()} {len(content)}\n".encode() + content)
    except OSError:
        return None
    return digest.hexdigest() if paths else None  # in an archive there are none


class CodeFolder:
    """The folder of machine code that was compiled from the sources below another one.

    It lies under ``NUMBA_CACHE_DIR`` or in the user's folder of caches. A folder that was not used for thirty days is
    removed when another is made.
    """

    def __init__(self, sources: Path) -> None:
        self.sources = sources
        self._digest = digest_sources(sources)  # now: these are the files that are being imported
        self._failed = False

    @property
    def path(self) -> Path | None:
        """Where the code lies; None where no folder is known for it. The folder is made when something is kept."""
        named = numba.config.CACHE_DIR  # type: ignore[attr-defined]
        parent = Path(named or AppDirs("thresher", appauthor=False).user_cache_dir)
        if self._digest is None or not (named or parent.is_absolute()):  # no sources, or a user without a home
            return None
        settings = [(name, getattr(numba.config, name, None)) for name in _SETTINGS]
        made_of = repr((self._digest, self._machine, settings))
        return parent.absolute() / (_PREFIX + hashlib.sha256(made_of.encode()).hexdigest()[:32])

    @cached_property
    def _machine(self) -> tuple[Any, ...]:
        from numba.core.registry import cpu_target

        processor = cpu_target.target_context.codegen().magic_tuple()
        return numba.__version__, llvmlite.__version__, np.__version__, sys.version, platform.machine(), processor

    def read(self, name: str) -> bytes | None:
        """Return what is kept under a name; None if nothing is, or nothing whole."""
        folder = self.path
        if folder is None:
            return None
        try:
            content = (folder / name).read_bytes()
            with suppress(OSError):  # it may be another user's
                os.utime(folder)  # it is used
        except OSError:
            return None
        digest, content = content[:32], content[32:]
        return content if hashlib.sha256(content).digest() == digest else None

    def write(self, name: str, content: bytes) -> None:
        """Keep something under a name: all of it, or nothing. That nothing can be kept is said once."""
        folder = self.path
        if folder is None:
            self._give_up("no folder is known for it, or no sources")
        elif not self._failed and digest_sources(self.sources) == self._digest:  # else changed since it was imported
            try:
                if not folder.is_dir():
                    folder.mkdir(parents=True, exist_ok=True)
                    _remove_unused(folder.parent)
                _write_whole(folder / name, hashlib.sha256(content).digest() + content)
            except OSError as error:
                self._give_up(f"{error.strerror or error}: {folder}")

    def _give_up(self, reason: str) -> None:
        if not self._failed and not is_quiet():
            remedy = "Set NUMBA_CACHE_DIR to a folder that can be written."
            print(f"compiled code cannot be kept, so each process compiles again ({reason}). {remedy}", file=sys.stderr)
        self._failed = True


def _remove_unused(parent: Path) -> None:
    for folder in parent.glob(_PREFIX + "[0-9a-f]" * 32):  # others may begin with our name too
        with suppress(OSError):  # somebody else removes it
            if folder.is_dir() and not folder.is_symlink() and time.time() - folder.stat().st_mtime > _UNUSED:
                shutil.rmtree(folder, ignore_errors=True)


def _write_whole(path: Path, content: bytes) -> None:
    """Write a file under a name of its own, then rename it: whoever looks sees all of it or none."""
    temporary = path.with_name(f".unfinished-{os.urandom(16).hex()}")
    try:
        with open(temporary, "xb") as file:  # others may read it, as the user's mask says
            file.write(content)
        os.replace(temporary, path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        # Windows renames nothing to a file that somebody reads, and what he reads was written meanwhile.
        if not (isinstance(error, PermissionError) and path.exists()):
            raise


class _CodeCache(_Cache):
    """What Numba asks for the code of one function."""

    def __init__(self, dispatcher: Dispatcher, folder: CodeFolder) -> None:
        function = dispatcher.py_func
        if function.__closure__:
            raise TypeError(f"{function.__qualname__} takes values from a function around it: its code has no name")
        options = {
            key: sorted(value) if isinstance(value, set) else value for key, value in dispatcher.targetoptions.items()
        }
        line = function.__code__.co_firstlineno  # there may be others of this name
        self._made_of = (function.__module__, function.__qualname__, line, sorted(options.items()))
        self._folder, self._enabled = folder, True

    @property
    def cache_path(self) -> str | None:
        """The folder of the code."""
        return None if self._folder.path is None else str(self._folder.path)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the function compiled for arguments of these types; None if it has to be compiled."""
        target_context.refresh()
        content = self._folder.read(self._file_of(sig)) if self._enabled else None
        if content is None:
            return None
        try:
            types, code = pickle.loads(content)
            return CompileResult._rebuild(target_context, *pickle.loads(code)) if types == sig else None
        except Exception:  # whatever is in such a file: it was not written here, and is written again
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a function that was compiled for arguments of these types."""
        if not self._enabled or data.lifted or data.library.has_dynamic_globals:
            return
        self._folder.write(self._file_of(sig), dumps((sig, dumps(data._reduce()))))

    def enable(self) -> None:
        """Use the folder."""
        self._enabled = True

    def disable(self) -> None:
        """Do not use it."""
        self._enabled = False

    def flush(self) -> None:
        """Nothing: what is kept never becomes wrong."""

    def _file_of(self, sig: Any) -> str:
        key = hashlib.sha256(repr((*self._made_of, sig)).encode()).hexdigest()[:32]
        return f"{self._made_of[0]}.{self._made_of[1]}-{key}"


def keep_code(dispatcher: Any, folder: CodeFolder) -> Any:
    """Return a compiled function that looks for its code in a folder, and keeps it there, if it is of those sources.

    Cost: a read, or compiling and a write, for each combination of types.
    """
    if not isinstance(dispatcher, Dispatcher):  # it is the plain function where compiling is turned off
        return dispatcher
    if Path(dispatcher.py_func.__code__.co_filename).is_relative_to(folder.sources):
        dispatcher._cache = _CodeCache(dispatcher, folder)  # type: ignore[attr-defined]
    return dispatcher
