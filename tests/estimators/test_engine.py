"""Where estimators compute, and old words for options: what is no device is refused, old words warn."""

import math

import numpy as np
import pytest

from thresher import InvalidInput, Problem, Ray, ThresherClassifier, ThresherRegressor, to_sphere
from thresher.engines import Where
from thresher.shards import SHARDS
from thresher.training.options import Setup
from thresher.training.train import complete

X, y = np.random.default_rng(0).normal(size=(12, 2)), np.arange(12) % 2


@pytest.mark.parametrize("kind", [ThresherRegressor, ThresherClassifier])
def test_what_is_no_device_is_refused(kind):
    with pytest.raises(InvalidInput, match="device must be one of 'cpu', 'cuda'; got 'tpu'"):
        kind(device="tpu").fit(X, y)


@pytest.mark.parametrize("engine", ["gpu", Ray(device="cuda")])
def test_old_words_for_where_to_compute_warn_and_mean_the_same(engine, monkeypatch):
    asked = []
    monkeypatch.setattr("thresher.training.options.place_of", asked.append)
    monkeypatch.setattr("thresher.training.options._device_kind", lambda *_, **__: SHARDS["certified"])
    with pytest.warns(FutureWarning, match=r"is now device='cuda'.*; the old spelling will be refused in the next"):
        Setup.of([Problem(to_sphere(X), y)], complete({"width": 16, "engine": engine, "solver": "cg"}))
    assert asked == [Where("local" if engine == "gpu" else Ray(), "cuda")]


def test_the_old_word_for_start_warns_once_where_fit_is_called():
    with pytest.warns(FutureWarning, match="sequence='random' is now start='random'") as told:
        ThresherRegressor(sequence="random", width=math.inf).fit(X, y)
    assert [one.filename for one in told if one.category is FutureWarning] == [__file__]
