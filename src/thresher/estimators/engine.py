"""Where an estimator computes: in this process, on a GPU or on a cluster; and old words for its options."""

from __future__ import annotations

import math
from typing import Any

from thresher.engines import Ray, Where, place_of
from thresher.errors import InvalidInput, NotAvailable, warn_of_old
from thresher.estimators.backends.cluster import Clustered
from thresher.estimators.backends.processor import local_backend
from thresher.estimators.interfaces import Backend
from thresher.estimators.sizes import Sizes

__all__ = ["Engine", "backend_for", "check_where", "start_of"]

Engine = str | Ray


def check_where(engine: Any, device: str, *, width: Any) -> Where:
    """Return where to compute; refuse what is no such place, and GPUs of a cluster for the limit."""
    if callable(engine):
        raise InvalidInput(f"engine must be 'local', 'ray' or a thresher.Ray; got {engine!r}.")
    where = Where.of(engine, device)
    if where.on_cluster and where.on_gpu and width == math.inf:
        raise NotAvailable(
            "the GPUs of a cluster hold the neurons of networks; the limit of infinite width, which width='auto' means "
            "above 4,096 rows, is fitted on its processors, or on one GPU. Leave device='cuda' out, or engine."
        )
    place_of(where)  # refuses now, not after the choices, what is not installed
    return where


def backend_for(where: Where, threads: int, sizes: Sizes) -> Backend:
    """Return what computes with kernels: a device of this machine, with processors of a cluster for many rows."""
    if not where.on_cluster:
        return local_backend(where.device, threads)
    return local_backend("cpu", threads) if where.on_gpu else Clustered(place_of(where), threads, few=sizes.on_cluster)


def start_of(start: str, sequence: str | None) -> str:
    """Return where start rows come from; ``sequence`` is the old word."""
    if sequence is None:
        return start
    warn_of_old(f"sequence={sequence!r}", f"start={sequence!r}", stacklevel=7)  # who calls fit
    return sequence
