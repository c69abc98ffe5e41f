"""Arrays as a torch module."""

from __future__ import annotations

from typing import Any

from thresher.errors import NotAvailable
from thresher.export.arrays import Arrays

__all__ = ["to_torch"]


def to_torch(arrays: Arrays) -> Any:
    """Return a ``torch.nn.Module`` in double precision that takes raw rows (k, d) and gives (k, outputs)."""
    try:
        from thresher.export.torch_module import Model
    except ImportError as error:
        raise NotAvailable("to_torch needs torch. Install it with: pip install 'thresher[torch]'") from error
    return Model(arrays)
