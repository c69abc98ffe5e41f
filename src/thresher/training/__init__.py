"""The loop, its history and its callbacks."""

from thresher.training.history import Callback, History, Iteration, Result, Status
from thresher.training.loop import train, train_together

__all__ = ["Callback", "History", "Iteration", "Result", "Status", "train", "train_together"]
