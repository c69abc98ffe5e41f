"""Weights that were trained on a GPU and stay there until they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.gpu.kernels.lists import FIRED
from thresher.gpu.lists import Lists
from thresher.model.network import NetworkSettings
from thresher.model.weights import Weights

__all__ = ["DeviceWeights"]


class DeviceWeights:
    """Stands for ``Weights``; the first question moves them to the processor and frees the device."""

    dense = False

    def __init__(self, lists: Lists, delta: Any, settings: NetworkSettings, inputs: NDArray[np.float64]) -> None:
        self.start, self.inputs, self.dtype = settings.start, inputs, np.dtype(np.float32)
        self._made: tuple[Lists, Any] | None = (lists, delta)

    @cached_property
    def _here(self) -> Weights:
        assert self._made is not None
        lists, delta = self._made
        support, coefficients = lists.extract(FIRED, delta, moved=True)
        self._made = None
        return Weights(self.start, self.inputs, support, coefficients, self.dtype)

    def joined(self, parts: Sequence[DeviceWeights]) -> Any:
        """Return the weights of all parts: one, as a device holds one shard."""
        (only,) = parts
        return only

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._here, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return Weights, tuple(self._here)
