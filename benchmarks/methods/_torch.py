"""The same network in torch, for its optimisers."""

from __future__ import annotations

import numpy as np
import torch

from benchmarks.log import Limits
from thresher import Problem
from thresher.losses import Logistic, Loss
from thresher.memory import require
from thresher.model.network import NetworkSettings, row_blocks

_CHUNK = 8192  # neurons at a time, so that activations stay in the cache


class TorchNetwork(torch.nn.Module):
    """f(x) from start weights and a trained change of them: added to weights near 1, small steps would be lost."""

    def __init__(self, problem: Problem, settings: NetworkSettings, limits: Limits, *, copies: int) -> None:
        super().__init__()
        numbers = settings.width * (3 * problem.size + copies * problem.dimension)
        what = f"a torch network of width {settings.width:,}"
        require(4 * numbers, budget=limits.memory, what=what, remedy="Use a smaller width.")
        blocks = row_blocks(0, settings.width, size=_CHUNK)
        start = np.concatenate([settings.start.block(block.start, block.stop) for block in blocks])
        signs = settings.start.signs(np.arange(settings.width)) * settings.scale
        self.start, self.signs = (
            torch.from_numpy(np.ascontiguousarray(start)),
            torch.from_numpy(signs.astype(np.float32)),
        )
        self.inputs = torch.from_numpy(problem.inputs.astype(np.float32)).T.contiguous()
        self.targets = torch.from_numpy(problem.targets.astype(np.float32))
        self.shift = torch.tensor(-settings.shift, dtype=torch.float32)
        self.change = torch.nn.Parameter(torch.zeros_like(self.start))

    def forward(self) -> torch.Tensor:
        """Return f (n,)."""
        parts = zip(self.start.split(_CHUNK), self.change.split(_CHUNK), self.signs.split(_CHUNK), strict=True)
        outputs = [
            signs @ torch.relu(torch.addmm(self.shift, start + change, self.inputs)) for start, change, signs in parts
        ]
        return torch.stack(outputs).sum(dim=0)

    def total(self, outputs: torch.Tensor, loss: Loss) -> torch.Tensor:
        """Return the sum of a loss: of squares, or of cross-entropy with targets 0 and 1."""
        if isinstance(loss, Logistic):
            return (torch.nn.functional.softplus(outputs) - self.targets * outputs).sum()
        return (outputs - self.targets).square().sum() / 2
