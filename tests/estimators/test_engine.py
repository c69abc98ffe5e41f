"""Where estimators train: what is no engine, or cannot be with another option, is refused by name."""

import math

import numpy as np
import pytest
from few import with_sizes
from sklearn.base import clone

from thresher import (
    InvalidInput,
    NotAvailable,
    Problem,
    Ray,
    ThresherClassifier,
    ThresherRegressor,
    to_sphere,
)
from thresher.engines import Where
from thresher.estimators.engine import check_where
from thresher.shards import SHARDS
from thresher.training.options import Setup
from thresher.training.train import complete

X, y = np.random.default_rng(0).normal(size=(12, 2)), np.arange(12) % 2


@pytest.mark.parametrize("kind", [ThresherRegressor, ThresherClassifier])
@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"engine": "spark"}, InvalidInput, "engine must be 'local', 'ray' or a thresher.Ray; got 'spark'"),
        ({"engine": 3}, InvalidInput, "engine must be"),
        ({"engine": Ray}, InvalidInput, "engine must be"),
        ({"device": "tpu"}, InvalidInput, "device must be one of 'cpu', 'cuda'; got 'tpu'"),
        ({"engine": "ray", "device": "cuda", "width": math.inf}, NotAvailable, "is fitted on its processors, or on"),
    ],
)
def test_engines_that_cannot_be(kind, options, error, words):
    with pytest.raises(error, match=words):
        kind(**options).fit(X, y)


def test_the_limit_that_width_auto_means_is_refused_on_gpus_too(monkeypatch):
    monkeypatch.setattr("thresher.estimators.engine.place_of", lambda where: None)  # with or without Ray
    with pytest.raises(NotAvailable, match="the limit of infinite width"):
        with_sizes(ThresherRegressor(device="cuda", engine="ray"), one_by_one=10).fit(X, y)


def test_a_clone_has_the_same_cluster():
    model = ThresherRegressor(engine=Ray("auto", workers=3))
    assert clone(model).engine == Ray("auto", workers=3)


@pytest.mark.parametrize("engine", ["gpu", Ray(device="cuda")])
def test_old_words_for_where_to_compute_warn_and_mean_the_same(engine, monkeypatch):
    asked = []
    monkeypatch.setattr("thresher.estimators.engine.place_of", asked.append)
    monkeypatch.setattr("thresher.training.options.place_of", asked.append)
    monkeypatch.setattr("thresher.training.options._device_kind", lambda *_, **__: SHARDS["certified"])
    with pytest.warns(FutureWarning, match=r"is now device='cuda'.*; the old spelling will be refused in the next"):
        Setup.of([Problem(to_sphere(X), y)], complete({"width": 16, "engine": engine, "solver": "cg"}))
    with pytest.warns(FutureWarning, match="is now device='cuda'"):
        check_where(engine, "cpu", width=16)
    new = Where("local" if engine == "gpu" else Ray(), "cuda")
    assert asked == [new, new]


def test_an_engine_among_the_options_of_training_warns():
    with pytest.warns(FutureWarning, match=r"train_options=\{'engine': ...\} is now engine=..."):
        model = ThresherRegressor(ridge=0, width=512, train_options={"engine": "local"}, random_state=0).fit(X, y)
    np.testing.assert_array_equal(
        model.predict(X), ThresherRegressor(ridge=0, width=512, random_state=0).fit(X, y).predict(X)
    )


def test_the_old_word_for_start_warns_once_where_fit_is_called():
    with pytest.warns(FutureWarning, match="sequence='random' is now start='random'") as told:
        ThresherRegressor(sequence="random", width=math.inf).fit(X, y)
    assert [one.filename for one in told if one.category is FutureWarning] == [__file__]
