"""Where an estimator computes: in this process, on a GPU or on a cluster."""

from __future__ import annotations

import math
from typing import Any

from thresher.engines import Ray
from thresher.errors import InvalidInput, NotAvailable
from thresher.estimators.backends.cluster import Clustered
from thresher.estimators.backends.processor import backend_of
from thresher.estimators.interfaces import Backend
from thresher.estimators.sizes import Sizes
from thresher.training.options import choose_executor

__all__ = ["Engine", "backend_for", "check_engine", "refuse_limit"]

Engine = str | Ray
_NAMES = ("local", "ray")


def check_engine(engine: Any, *, device: str, width: Any) -> None:
    """Refuse an engine that is none, a second place to compute on, and GPUs of a cluster for the limit."""
    if not (isinstance(engine, Ray) or (isinstance(engine, str) and engine in _NAMES)):
        raise InvalidInput(f"engine must be 'local', 'ray' or a thresher.Ray; got {engine!r}.")
    if engine == "local":
        return
    if device != "cpu":
        raise InvalidInput(
            f"device={device!r} is the GPU of this machine, and engine={engine!r} a cluster. Drop one; for GPUs of a "
            "cluster, with ridge=0, use engine=Ray(device='cuda')."
        )
    refuse_limit(engine, width)
    choose_executor(engine)  # refuses now, not after the choices, what is not installed


def refuse_limit(engine: Engine, width: Any) -> None:
    """Refuse to fit the limit of infinite width on the GPUs of a cluster."""
    if isinstance(engine, Ray) and engine.device == "cuda" and width == math.inf:
        raise NotAvailable(
            "the GPUs of a cluster hold the neurons of networks; the limit of infinite width, which width='auto' means "
            "above 4,096 rows, is fitted on its processors, or on one GPU. Use engine='ray', or device='cuda'."
        )


def backend_for(engine: Engine, device: str, threads: int, sizes: Sizes) -> Backend:
    """Return what computes with kernels: a device of this machine, with processors of a cluster for many rows."""
    if engine == "local" or (isinstance(engine, Ray) and engine.device == "cuda"):
        return backend_of(device, threads)
    return Clustered(choose_executor(engine), threads, few=sizes.on_cluster)
