"""Columns of the table and the units that a kernel sees alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["column_names", "unit_columns"]

Numbers = NDArray[np.int64]


def column_names(model: Any) -> list[str]:
    """Return the names of the columns of X, x0, x1, ... if they have none; then those of columns made of others."""
    names = getattr(model, "feature_names_in_", None)
    own = [f"x{k}" for k in range(model.n_features_in_)] if names is None else [str(one) for one in names]
    return own if model.encoder_ is None else [*own, *(one.name for one in model.encoder_.made_)]


def unit_columns(model: Any) -> Numbers:
    """Return for each unit (u,) that the kernel of a model sees alone the column of X that it comes from."""
    lift = model.lift_
    if lift.angles_ is None:
        return np.zeros(0, np.int64)
    places = np.array(lift.angles_.sources, np.int64)
    places = places if lift.indicators_ is None else lift.indicators_.sources[places]
    return places if model.encoder_ is None else model.encoder_.sources_[places]
