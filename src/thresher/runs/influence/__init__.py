"""Which columns a model's answers depend on and how, and where its errors are."""

from thresher.runs.influence.finding import REPEATS, Importance, Influence, TestedModel, find_influence
from thresher.runs.influence.slices import Slice, find_slices
from thresher.runs.influence.values import Effect, cells_shown

__all__ = [
    "REPEATS",
    "Effect",
    "Importance",
    "Influence",
    "Slice",
    "TestedModel",
    "cells_shown",
    "find_influence",
    "find_slices",
]
