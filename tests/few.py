"""Tables of a few hundred rows that count as many."""

import numpy as np
from sklearn.datasets import make_friedman1

from thresher.estimators.base import ThresherEstimator
from thresher.theory import Shares

MIXED, LAYER = (0.5, 0.25, 0.25), (0.5, 0.0, 0.0, 0.5)  # shares of kernels that no option asks for
FEW = {"chosen_on": 300, "held": 150}


def with_sizes(model, **sizes):
    """Return the same estimator, with other sizes at which its fit changes its ways."""
    model._sizes = model._sizes._replace(**sizes)
    return model


def with_parts(model, parts):
    """Return the same estimator with parts that have a name, or with these shares of them instead of those to try."""
    if isinstance(parts, str):
        return model.set_params(parts=parts)
    model._shares = (Shares(*parts),)
    return model


def of_few(model, **sizes):
    """Return the same estimator, for which a few hundred rows are many."""
    return with_sizes(model, **{**FEW, **sizes})


def let_few_be_many(monkeypatch, **sizes):
    """Do so for estimators that a test does not make itself."""
    monkeypatch.setattr(ThresherEstimator, "_sizes", ThresherEstimator._sizes._replace(**{**FEW, **sizes}))


def friedman(n, seed=0, noise=0.5):
    return make_friedman1(n, n_features=7, noise=noise, random_state=seed)


def lift_single(rows, last):
    """Return rows (k, d) with one more coordinate ``last``, divided by their norms: (k, d + 1), float32."""
    longer = np.column_stack([rows, np.full(len(rows), last)]).astype(np.float32)
    return longer / np.linalg.norm(longer, axis=1, keepdims=True)
