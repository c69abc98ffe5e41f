"""Parts of a kernel on a GPU: ``theory/parts.py`` with tensors."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import torch

from thresher.gpu.kernels.parts import add_parts
from thresher.theory import Limit, Parts

__all__ = ["Side"]


class Side(NamedTuple):
    """Inputs on one side of a block: unit vectors (n, d), and the angles (columns, n) of parts."""

    vectors: Any
    angles: Any  # times the sharpness; None without parts

    @classmethod
    def of(cls, inputs: Any, kernel: Limit) -> Side:
        """Return a side of inputs (n, d), whose last coordinates are the angles of parts if the kernel has them."""
        if kernel.parts is None:
            return cls(inputs, None)
        columns, sharpness = kernel.parts.columns, float(kernel.parts.shares.sharpness)
        return cls(inputs[:, :-columns], (inputs[:, -columns:] * sharpness).T.contiguous())

    def add_parts(self, block: Any, right: Side, kernel: Limit) -> None:
        """Turn the kernel of all columns (k, n) in a block, contiguous, into that of parts, if there are any.

        Cost: O(columns) per entry.
        """
        if kernel.parts is not None:
            factors = _factors(kernel.parts, float(kernel.diagonal), block.dtype, block.device)
            add_parts(block, self.angles, right.angles, factors, layer=kernel.parts.shares.layer > 0)


@lru_cache(maxsize=32)
def _factors(parts: Parts, diagonal: float, kind: Any, device: Any) -> Any:
    return torch.as_tensor(parts.factors(diagonal), dtype=kind, device=device)
