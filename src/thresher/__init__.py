"""thresher: very wide two-layer ReLU networks, trained by exact Gauss-Newton steps at a cost sublinear in the width."""

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from thresher.engines import Ray
from thresher.errors import (
    BrokenCertificate,
    InvalidInput,
    MemoryRefused,
    NotAvailable,
    ThresherError,
    WorkerLost,
)
from thresher.model.network import Network, default_shift
from thresher.model.problem import Problem, to_sphere
from thresher.training import (
    Callback,
    CheckTheorems,
    History,
    Iteration,
    Result,
    Status,
    TensorBoard,
    replay,
    replay_together,
    train,
    train_together,
)

if TYPE_CHECKING:
    from thresher.estimators import (
        FarOutside,
        SphereLift,
        TableEncoder,
        ThresherClassifier,
        ThresherRegressor,
        TooNarrow,
    )
    from thresher.runs.saved import load

__all__ = [
    "BrokenCertificate",
    "Callback",
    "CheckTheorems",
    "FarOutside",
    "History",
    "InvalidInput",
    "Iteration",
    "MemoryRefused",
    "Network",
    "NotAvailable",
    "Problem",
    "Ray",
    "Result",
    "SphereLift",
    "Status",
    "TableEncoder",
    "TensorBoard",
    "ThresherClassifier",
    "ThresherError",
    "ThresherRegressor",
    "TooNarrow",
    "WorkerLost",
    "__version__",
    "default_shift",
    "load",
    "replay",
    "replay_together",
    "to_sphere",
    "train",
    "train_together",
]

__version__ = "0.2.0.dev0"

_ESTIMATORS = ("FarOutside", "SphereLift", "TableEncoder", "ThresherClassifier", "ThresherRegressor", "TooNarrow")


def __getattr__(name: str) -> Any:
    """Import estimators, and scikit-learn with them, when they are first asked for."""
    if name in _ESTIMATORS:
        return getattr(import_module("thresher.estimators"), name)
    if name == "load":
        return import_module("thresher.runs.saved").load
    if name == "Certify":  # until 0.3
        warnings.warn("thresher.Certify is now called CheckTheorems.", DeprecationWarning, stacklevel=2)
        return CheckTheorems
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
