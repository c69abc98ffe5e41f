"""Activations that are linear between knots, and the inputs at knots on which such a network is a ReLU network."""

from thresher.model.activations.curves import (
    Activation,
    ActivationName,
    Pieces,
    choose_activation,
    curve_of,
    tell,
    told,
)
from thresher.model.activations.knots import Knots, neurons_at_knots

__all__ = [
    "Activation", "ActivationName", "Knots", "Pieces", "choose_activation", "curve_of", "neurons_at_knots", "tell",
    "told",
]  # fmt: skip
