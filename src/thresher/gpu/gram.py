"""The Gram matrix of a network's start on a GPU: which pairs fire in float32 and float64, counts on tensor cores."""

from __future__ import annotations

from typing import Any

import torch

from thresher.gpu.rows import Rows
from thresher.loops.rounding import NORM_TOLERANCE, of_margin
from thresher.model.network import NetworkSettings
from thresher.model.poisson import AnyStart
from thresher.model.start import Start

__all__ = ["cofiring", "start_gram", "start_rows"]

_MULTIPLE = 32  # products of bytes are of matrices whose sides are multiples of this


def start_gram(inputs: Any, settings: NetworkSettings, slices: list[slice]) -> Any:
    """Return the Gram matrix (n, n), float64, of a network at its start, on inputs (n, d), a tensor of float64.

    ``slices`` are the blocks of neurons that are taken at a time; of twins one is counted. Which pairs fire is decided
    as on the processor: in float64 where float32 is not sure. Counts are sums of bytes, 0 or 1, in whole numbers:
    exact. Cost: O(mn(n + d)), the larger part on tensor cores.
    """
    n, device = len(inputs), inputs.device
    start, shift = settings.start, settings.shift
    neurons = settings.neurons // (2 if start.twins else 1)
    make, fast = start_rows(start, inputs), inputs.float()
    counts = torch.zeros((n, n), dtype=torch.float64, device=device)
    for some in slices:
        first, last = some.start, min(some.stop, neurons)
        rows = make(first, last)
        margins = fast @ rows.T
        margins -= shift
        longest = 1.01 * (1 + NORM_TOLERANCE) * float(torch.linalg.vector_norm(rows, dim=1).max())
        reach = float(of_margin(start.dimension, 2.0**-24, longest, shift))
        fires = margins >= 0
        near, neuron = (margins.abs() <= reach).nonzero().unbind(dim=1)
        fires[near, neuron] = (rows[neuron].double() * inputs[near]).sum(dim=1) - shift >= 0
        counts += cofiring(fires)
    return counts * (inputs @ inputs.T) / neurons


def cofiring(fires: Any) -> Any:
    """Return how many neurons fire on both of two inputs (n, n), int32, from which fire on which, (n, k) of bool.

    Cost: O(n²k), by products of bytes.
    """
    n, k = fires.shape
    numbers = torch.zeros((_filled(n), _filled(k)), dtype=torch.int8, device=fires.device)
    numbers[:n, :k] = fires
    return torch._int_mm(numbers, numbers.T)[:n, :n]


def _filled(size: int) -> int:
    return -(-size // _MULTIPLE) * _MULTIPLE


def start_rows(start: AnyStart, inputs: Any) -> Any:
    """Return a function that makes start rows ``first`` to ``last - 1``, (last - first, d)."""
    device = inputs.device
    assert isinstance(start, Start)
    made = Rows(start, inputs.cpu().numpy(), device)
    return lambda first, last: made.make(torch.arange(first, last, device=device))
