"""thresher: very wide two-layer ReLU networks, trained by exact Gauss-Newton steps at a cost sublinear in the width."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from thresher.errors import (
    BrokenCertificate,
    InvalidInput,
    MemoryRefused,
    NotAvailable,
    ThresherError,
    WorkerLost,
)

if TYPE_CHECKING:
    from thresher.engines import Ray
    from thresher.estimators import (
        TRUSTED_TYPES,
        Effects,
        Explanation,
        FarOutside,
        NetworkClassifier,
        NetworkRegressor,
        SphereLift,
        TableEncoder,
        ThresherClassifier,
        ThresherRegressor,
    )
    from thresher.model.activations import Activation
    from thresher.model.network import Network, default_shift
    from thresher.model.problem import Problem, to_sphere
    from thresher.report import Evaluation, evaluate, load
    from thresher.report.pictures import plot_effects
    from thresher.training import (
        Callback,
        CheckTheorems,
        History,
        Iteration,
        Result,
        Status,
        train,
    )

__all__ = [
    "TRUSTED_TYPES",
    "Activation",
    "BrokenCertificate",
    "Callback",
    "CheckTheorems",
    "Effects",
    "Evaluation",
    "Explanation",
    "FarOutside",
    "History",
    "InvalidInput",
    "Iteration",
    "MemoryRefused",
    "Network",
    "NetworkClassifier",
    "NetworkRegressor",
    "NotAvailable",
    "Problem",
    "Ray",
    "Result",
    "SphereLift",
    "Status",
    "TableEncoder",
    "ThresherClassifier",
    "ThresherError",
    "ThresherRegressor",
    "WorkerLost",
    "__version__",
    "default_shift",
    "evaluate",
    "load",
    "plot_effects",
    "to_sphere",
    "train",
]

__version__ = "0.3.0.dev0"

# What is imported once it is asked for: NumPy, SciPy and Numba take a second, scikit-learn takes another.
_LATER = {
    "thresher.engines": ("Ray",),
    "thresher.estimators": (
        "TRUSTED_TYPES", "Effects", "Explanation", "FarOutside", "NetworkClassifier", "NetworkRegressor", "SphereLift",
        "TableEncoder", "ThresherClassifier", "ThresherRegressor",
    ),
    "thresher.model.activations": ("Activation",),
    "thresher.model.network": ("Network", "default_shift"),
    "thresher.model.problem": ("Problem", "to_sphere"),
    "thresher.report": ("Evaluation", "evaluate", "load"),
    "thresher.report.pictures": ("plot_effects",),
    "thresher.training": (
        "Callback", "CheckTheorems", "History", "Iteration", "Result", "Status", "train",
    ),
}  # fmt: skip
_MODULES = {name: module for module, names in _LATER.items() for name in names}
_PACKAGES = ("export", "losses", "report", "tables")  # whose names the docs give in full


def __getattr__(name: str) -> Any:
    """Import what is public when it is first asked for."""
    if name in _MODULES:
        found = globals()[name] = getattr(import_module(_MODULES[name]), name)
        return found
    if name in _PACKAGES:
        return import_module(f"thresher.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return what is public: what this file imports for itself is not."""
    return sorted({*__all__, *_PACKAGES})
