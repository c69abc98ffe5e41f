"""What an executor is made for: slices of neurons, or of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

from numpy.typing import NDArray

__all__ = ["Sliced"]


class Sliced(Protocol):
    """A recipe of slices, of neurons or of rows, that can be sent to another process."""

    UNIT: ClassVar[str]  # what slices hold

    @property
    def inputs(self) -> NDArray[Any]:
        """The inputs (n, d)."""

    def slice(self, numbers: range) -> Any:
        """Return the slice of some neurons or rows: the same in every process."""

    def part(self, ranges: Sequence[range]) -> Sliced:
        """Return what a worker needs to make these slices, which are neighbours."""
