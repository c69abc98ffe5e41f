"""A table with columns of all kinds, and what the terms of a model of it must add up to."""

import numpy as np
import pandas as pd

FIXED = {"bias": 1.0, "ridge": 0.05, "feature_learning": 0}


def table(n=60, seed=0):
    """Numbers, some missing, a category, a date, and whole numbers of few values."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "size": rng.normal(size=n),
            "age": np.where(rng.random(n) < 0.2, np.nan, rng.exponential(size=n)),
            "colour": rng.choice(["red", "green", "blue"], n),
            "sold": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
            "rooms": rng.integers(1, 6, n),
            "same": np.ones(n),
        }
    )
    effect = frame["colour"].map({"red": 0.0, "green": 1.0, "blue": -1.0})
    y = np.sin(2 * frame["size"]) + frame["age"].fillna(0) + effect * frame["size"] + frame["rooms"] % 2
    return frame, (y + 0.1 * rng.normal(size=n)).to_numpy()


def told(model, X):
    """What the terms must add up to."""
    if model._class_labels is not None:
        return model.decision_function(X)
    found = model.predict(X)
    floor = model.predictive_.floor
    return found if floor is None else np.log(found - floor.reshape((1,) * (found.ndim - 1) + (-1,)))
