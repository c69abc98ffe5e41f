"""The audit of a shard on a GPU: every pair once more, in float64, by matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from thresher.gpu.kernels.lists import LINEAR
from thresher.gpu.lists import Lists
from thresher.gpu.rows import Rows
from thresher.interfaces import ShardAudited
from thresher.loops.rounding import FINE, NORM_TOLERANCE, of_margin
from thresher.model.network import NetworkSettings
from thresher.shards.pairs import wrong_pair

__all__ = ["audit_device"]

_PAIRS = 1 << 26  # of a neuron and an input, at a time


def audit_device(
    lists: Lists, delta: Any, rows: Rows, settings: NetworkSettings, neurons: range, *, rounding: float
) -> ShardAudited:
    """Return what a scan of neurons in float64 finds; refuse watchlists that differ from it in more than ties.

    ``delta`` (n,) is the move since the last linearise. Cost: O(nd) per neuron.
    """
    X, device, (n, d) = rows.inputs, rows.device, rows.inputs.shape
    outputs = torch.zeros(n, dtype=torch.float64, device=device)
    firing = torch.zeros(n, dtype=torch.int64, device=device)
    ties, largest = 0, rounding
    order = torch.argsort(lists.neurons)
    known = lists.neurons[order]
    size = max(_PAIRS // n, 2)
    for first in range(neurons.start, neurons.stop, size):
        numbers = torch.arange(first, min(first + size, neurons.stop), device=device)
        begin, end = torch.searchsorted(known, torch.tensor([first, first + len(numbers)], device=device)).tolist()
        places = order[begin:end]
        owner, entries = lists.entries(places)
        owner = (lists.neurons[places] - first)[owner]
        coefficients = torch.zeros((len(numbers), n), dtype=torch.float64, device=device)
        inputs = lists.inputs[entries].long()
        coefficients[owner, inputs] = lists.coefficients_before(entries, rows.signs(first + owner), delta)
        maintained = torch.zeros((len(numbers), n), dtype=torch.bool, device=device)
        maintained[owner, inputs] = (lists.flags[entries] & LINEAR) != 0
        vectors = rows.make(rows.of_neurons(numbers)).double() + coefficients @ X
        margins = vectors @ X.T - settings.shift
        allowed = of_margin(d, FINE, vectors.norm(dim=1) * (1 + NORM_TOLERANCE), settings.shift) + rounding
        differ = maintained != (margins >= 0)
        wrong = (differ & (margins.abs() > allowed[:, None])).nonzero()
        if len(wrong):
            r, i = wrong[0].tolist()
            raise wrong_pair(first + r, i, fires=not maintained[r, i], count=len(wrong))
        ties += int(differ.sum())
        outputs += rows.signs(numbers).double() @ margins.clamp(min=0)
        firing += maintained.sum(0)
        largest = max(largest, float(allowed.max()))
    return ShardAudited(np.asarray(outputs.cpu()), ties, np.asarray(firing.cpu()), largest)
