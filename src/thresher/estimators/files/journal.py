"""The journal of a long fit: what has been computed so far, in a file, so that a fit that was stopped can go on.

A fit is a sequence of steps that depend on nothing but the data and the parameters. The result of each costly step is
written down; a fit with the same data and parameters reads it instead of computing it again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from thresher.errors import InvalidInput
from thresher.estimators.data.streams import Stream
from thresher.estimators.judging.holdout import Solved
from thresher.files import WorkFile, fingerprint, read_file
from thresher.tables.parts import BLOCK

__all__ = ["Journal"]

_KIND, _VERSION = "fit in progress", 2


class Journal:
    """Results of the steps of one fit, in their order; with no path nothing is written."""

    def __init__(self, path: Path | None, *arrays: Any, **about: Any) -> None:
        self._path, self.place = path, 0  # of the next step
        self._steps: list[dict[str, Any]] = []
        self._arrays: dict[str, Any] = {}
        self._file = WorkFile(path or Path(), _KIND, _VERSION, "", {})
        if path is None:
            return
        blocks = (block for array in arrays for _, block in Stream(array).blocks(BLOCK))
        settings = {name: one if isinstance(one, int | float | str) else repr(one) for name, one in about.items()}
        problem = fingerprint([one.shape for one in arrays], blocks)
        self._file = self._file._replace(problem=problem, settings=settings)
        if not path.parent.is_dir():
            raise InvalidInput(f"the checkpoint {path} is in a folder that does not exist. Make it, or choose another.")
        if path.exists():
            stored = self._file.check(read_file(path, kind=_KIND, version=_VERSION))
            self._steps, self._arrays = list(stored.metadata.get("steps") or ()), dict(stored.tensors)
            for place, step in enumerate(self._steps):
                if not _whole(step, self._arrays.get(f"alpha{place}"), self._arrays.get(f"outputs{place}")):
                    raise self._file.broken()

    def step(self, compute: Callable[[Solved | None], Solved | None]) -> Solved | None:
        """Return the result of the next step: the one in the journal, or what ``compute`` returns.

        ``compute`` is called with what was saved by :meth:`save` in the middle of this very step, or None.
        """
        place, self.place = self.place, self.place + 1
        known = self._steps[place] if place < len(self._steps) else None
        begun = None if known is None or known["failed"] else self._read(place, known)
        if known is not None and known["done"]:
            return begun
        found = compute(begun)
        self._write(place, found, done=True)
        return found

    def save(self, found: Solved) -> None:
        """Write down how far the step under way has come."""
        self._write(self.place - 1, found, done=False)

    def keep(self, name: str, arrays: Mapping[str, Any]) -> None:
        """Write down arrays under a name, in place of those that were kept under it."""
        others = {key: one for key, one in self._arrays.items() if not key.startswith(f"{name}.")}
        self._arrays = others | {f"{name}.{key}": np.atleast_1d(one) for key, one in arrays.items()}
        self._store()

    def kept(self, name: str) -> dict[str, Any]:
        """Return the arrays that were kept under a name; none if there are none."""
        begin = f"{name}."
        found = {key.removeprefix(begin): one for key, one in self._arrays.items() if key.startswith(begin)}
        return _Kept(found, self._file.broken())

    def finish(self) -> None:
        """Forget everything: the fit is complete."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def _read(self, place: int, about: dict[str, Any]) -> Solved:
        alpha, outputs = (self._arrays[f"{name}{place}"].astype(np.float64) for name in ("alpha", "outputs"))
        return Solved(about["ridge"], alpha, outputs, about["error"], about["residual"], about["steps"])

    def _write(self, place: int, found: Solved | None, *, done: bool) -> None:
        if self._path is None:
            return
        about: dict[str, Any] = {"done": done, "failed": found is None}
        if found is not None:
            names = ("ridge", "error", "residual", "steps")
            about |= {name: getattr(found, name) for name in names}
            self._arrays |= {f"alpha{place}": found.alpha, f"outputs{place}": found.outputs}
        self._steps[place:] = [about]
        self._store()

    def _store(self) -> None:
        if self._path is not None:
            self._file.write(self._arrays, {"steps": self._steps})


class _Kept(dict[str, Any]):
    """Arrays of a file; one that is missing is the file's fault."""

    def __init__(self, arrays: dict[str, Any], error: InvalidInput) -> None:
        super().__init__(arrays)
        self._error = error

    def __missing__(self, name: str) -> Any:
        raise self._error


def _whole(step: Any, alpha: Any, outputs: Any) -> bool:
    """Return whether a step of a file has all that it should have."""
    if not isinstance(step, dict) or not {"done", "failed"} <= set(step):
        return False
    if step["failed"]:
        return True
    numbers = all(isinstance(step.get(name), int | float) for name in ("ridge", "error", "residual", "steps"))
    shapes = alpha is not None and outputs is not None and alpha.ndim == outputs.ndim == 2
    return numbers and bool(shapes) and alpha.shape[1] == outputs.shape[1] and bool(np.isfinite(alpha).all())
