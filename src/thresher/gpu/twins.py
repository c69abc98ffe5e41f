"""Outputs of networks of twins on a GPU: ``model/twins.py`` with tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from thresher.gpu.gram import start_rows
from thresher.loops.rounding import of_margin
from thresher.model.network import Network
from thresher.model.twins import moved_twins

__all__ = ["predict_twins"]

_INPUTS = 4096  # rows of one matrix product, at most
_NUMBERS = 1 << 26  # at a time: of what was added to neurons that are looked at closely


def predict_twins(networks: Sequence[Network], inputs: NDArray[np.float64], gpu: Any) -> Any:
    """Return the outputs (k, networks), a tensor, of dense networks of twins with the same start, on inputs (k, d).

    Exact to double precision, as on the processor. Cost: O(md/2) per row, and as much per network.
    """
    settings, moved, X = networks[0].settings, moved_twins(networks), gpu.put(inputs)
    pairs, (k, d) = settings.neurons // 2, X.shape
    total = torch.zeros((k, len(networks)), dtype=torch.float64, device=X.device)
    make, longest = start_rows(settings.start, X), float(torch.linalg.vector_norm(X, dim=1).amax())
    for some in gpu.slices(pairs, min(k, _INPUTS) + 2 * len(networks) * d):
        first, last = some.start, min(some.stop, pairs)
        start, twins = make(first, last), slice(2 * first, 2 * last)
        added = torch.stack([gpu.put(one[twins]) for one in moved], dim=1)  # (neurons, networks, d)
        both = (added[::2].double() - added[1::2]).reshape(last - first, -1)
        farthest = torch.linalg.vector_norm(added, dim=2).amax(dim=1).reshape(-1, 2).amax(dim=1)
        rounding = of_margin(d, 2.0**-24, torch.linalg.vector_norm(start, dim=1), settings.shift)
        reach = (farthest + rounding) * longest * 1.001
        for begin in range(0, k, _INPUTS):
            here, out = X[begin : begin + _INPUTS], total[begin : begin + _INPUTS]
            above = here.float() @ start.T - settings.shift
            pushed = ((above > reach).double() @ both).reshape(len(here), len(networks), d)
            out += torch.einsum("knd,kd->kn", pushed, here)
            near = (above.abs() <= reach).nonzero()
            for rows, which in (part.unbind(dim=1) for part in near.split(max(1, _NUMBERS // added[0].numel()))):
                _add_near(out, here[rows], rows, start[which], added, which, settings.shift)
    return total * settings.scale


def _add_near(out: Any, inputs: Any, rows: Any, start: Any, added: Any, pairs: Any, shift: float) -> None:
    """Add the outputs of pairs of twins on inputs (p, d), the rows (p,) of ``out``, computed in full."""
    margins = (start.double() * inputs).sum(dim=1, keepdim=True) - shift
    for twin, sign in ((0, 1.0), (1, -1.0)):
        moved = torch.einsum("pnd,pd->pn", added[2 * pairs + twin].double(), inputs)
        out.index_put_((rows,), sign * (margins + moved).clamp(min=0.0), accumulate=True)  # in a fixed order
