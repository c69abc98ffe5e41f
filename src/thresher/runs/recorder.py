"""Record: a callback that keeps what a report tells of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput
from thresher.model.activations import tell
from thresher.runs.record import Histogram, Training
from thresher.runs.run import Run
from thresher.training import Callback, Result, State

__all__ = ["Recorder"]

_BINS = 40


class Recorder(Callback):
    """Keeps what a report tells of: pass it to ``train`` or ``train_together``, then ask for the run.

    Parameters
    ----------
    names : what the outputs are called, if there are several

    Cost: O(d) per coefficient of the weights, once, at the end of each training.
    """

    def __init__(self, names: Sequence[str] = ("output",)) -> None:
        self._names = list(names)
        self._bands: Histogram | None = None
        self._states: list[State] = []
        self.trainings: list[Training] = []

    def on_finish(self, state: State) -> None:
        """Keep how much of their bands the neurons have used up."""
        found = state.engine.drifts()
        if found is not None:
            drifts, bands = found
            share = drifts / bands
            far = max(1.0, float(share.max(initial=0.0)))
            self._bands = _histogram(share, np.linspace(0.0, far, _BINS + 1))
        # The engine is large, and the run does not need it.
        self._states.append(state._replace(engine=None))  # type: ignore[arg-type]

    def on_end(self, result: Result) -> None:
        """Keep the history, and how far the neurons have travelled."""
        distances = result.network.weights.distances()
        far = float(distances.max(initial=0.0)) or 1.0
        histograms = {"distance": _histogram(distances, np.append(0.0, np.geomspace(far / 1e3, far, _BINS)))}
        if self._bands is not None:
            histograms["band"] = self._bands
            self._bands = None
        place = len(self.trainings)
        name = self._names[place] if place < len(self._names) else f"output {place + 1}"
        self.trainings.append(
            Training(name, result.history, result.status, result.message, result.audited, histograms, result.steps)
        )

    def run(self, what: str, *, options: Mapping[str, Any], **more: Any) -> Run:
        """Return the run: ``what`` was trained in one sentence, and the options that were passed to ``train``.

        ``more`` are other fields of :class:`Run`: model, test, data, command.
        """
        if not self.trainings:
            raise InvalidInput("nothing has been trained with this recorder. Pass it to train in callbacks.")
        settings = self._states[0].settings
        network = {
            "width": settings.width, "inputs": self._states[0].problem.size, "shift": settings.shift,
            "seed": settings.start.seed, "dimension": settings.start.dimension, "activation": tell(settings.activation),
            "twins": settings.start.twins,
        }  # fmt: skip
        return Run(
            what,
            self.trainings,
            dict(options),
            inputs=self._states[0].problem.inputs,
            targets=np.array([state.problem.targets for state in self._states]),
            network=network,
            **more,
        )


def _histogram(values: NDArray[np.float64], edges: NDArray[np.float64]) -> Histogram:
    return Histogram(edges, np.histogram(values, bins=edges)[0])
