"""What Gram matrices of a network's start are made of on a GPU: its rows, and counts on tensor cores."""

from __future__ import annotations

from typing import Any

import torch

from thresher.gpu.rows import Rows
from thresher.model.poisson import AnyStart
from thresher.model.start import Start

__all__ = ["cofiring", "start_rows"]

_MULTIPLE = 32  # products of bytes are of matrices whose sides are multiples of this


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
