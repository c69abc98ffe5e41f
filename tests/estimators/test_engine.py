"""Where estimators train: what is no engine, or cannot be with another option, is refused by name."""

import math

import numpy as np
import pytest
from sklearn.base import clone

from thresher import InvalidInput, NotAvailable, Ray, ThresherClassifier, ThresherRegressor

X, y = np.random.default_rng(0).normal(size=(12, 2)), np.arange(12) % 2


@pytest.mark.parametrize("kind", [ThresherRegressor, ThresherClassifier])
@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"engine": "spark"}, InvalidInput, "engine must be 'local', 'ray' or a thresher.Ray; got 'spark'"),
        ({"engine": 3}, InvalidInput, "engine must be"),
        ({"engine": "ray", "device": "cuda"}, InvalidInput, "Drop one"),
        ({"engine": Ray(device="cuda"), "width": math.inf}, NotAvailable, "is fitted on its processors, or on one GPU"),
    ],
)
def test_engines_that_cannot_be(kind, options, error, words):
    with pytest.raises(error, match=words):
        kind(**options).fit(X, y)


def test_the_limit_that_width_auto_means_is_refused_on_gpus_too(monkeypatch):
    monkeypatch.setattr("thresher.estimators.base.MANY", 10)
    monkeypatch.setattr("thresher.estimators.engine.choose_executor", lambda engine: None)  # with or without Ray
    with pytest.raises(NotAvailable, match="the limit of infinite width"):
        ThresherRegressor(engine=Ray(device="cuda")).fit(X, y)


def test_a_clone_has_the_same_cluster():
    model = ThresherRegressor(engine=Ray("auto", workers=3))
    assert clone(model).engine == Ray("auto", workers=3)
