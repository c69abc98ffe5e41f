"""The loop, its history and its callbacks."""

from thresher.training.history import Callback, History, Iteration, Result, State, Status
from thresher.training.restore import restore_result, restore_results
from thresher.training.theorems import CheckTheorems
from thresher.training.train import train

__all__ = [
    "Callback",
    "CheckTheorems",
    "History",
    "Iteration",
    "Result",
    "State",
    "Status",
    "restore_result",
    "restore_results",
    "train",
]
