"""thresher: very wide two-layer ReLU networks, trained by exact Gauss-Newton steps at a cost sublinear in the width."""

from thresher.errors import BrokenCertificate, InvalidInput, MemoryRefused, NotAvailable, ThresherError
from thresher.model.network import Network, default_shift
from thresher.model.problem import Problem, to_sphere
from thresher.training import Callback, Certify, History, Iteration, Result, Status, train, train_together

__all__ = [
    "BrokenCertificate",
    "Callback",
    "Certify",
    "History",
    "InvalidInput",
    "Iteration",
    "MemoryRefused",
    "Network",
    "NotAvailable",
    "Problem",
    "Result",
    "Status",
    "ThresherError",
    "__version__",
    "default_shift",
    "to_sphere",
    "train",
    "train_together",
]

__version__ = "0.1.0"
