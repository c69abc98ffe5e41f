"""TensorBoard: every iteration as points on its curves. The one file that imports tensorboardX, when asked for."""

from __future__ import annotations

import math
from pathlib import Path

from thresher.errors import not_installed
from thresher.training.history import Callback, Iteration, Result

__all__ = ["TensorBoard"]

_CURVES = ("loss", "residual", "contraction", "step", "looks", "flips", "moved", "firing", "rescans")


class TensorBoard(Callback):
    """Writes every iteration to a folder that ``tensorboard --logdir FOLDER`` shows.

    Parameters
    ----------
    folder : where event files go; made if there is none

    Raises
    ------
    NotAvailable
        If tensorboardX is not installed.
    """

    def __init__(self, folder: str | Path) -> None:
        try:
            from tensorboardX import SummaryWriter
        except ModuleNotFoundError as error:
            raise not_installed("TensorBoard needs tensorboardX", extra="tensorboard") from error
        self._writer = SummaryWriter(str(folder))

    def on_iteration(self, record: Iteration) -> None:
        """Write the numbers of an iteration."""
        for name in _CURVES:
            value = float(getattr(record, name))
            if math.isfinite(value):
                self._writer.add_scalar(f"training/{name}", value, record.iteration)
        for part, seconds in record.seconds.items():
            self._writer.add_scalar(f"seconds/{part}", seconds, record.iteration)

    def on_end(self, result: Result) -> None:
        """Write how training ended, and see to it that all is on disk."""
        self._writer.add_text("status", f"{result.status.value}: {result.message}", len(result.history) - 1)
        self._writer.close()
