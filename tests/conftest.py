"""Settings of Hypothesis, and fitted estimators that several files ask for.

Hypothesis draws the same few examples in every run, so that a test fails for a change and not by chance.
``pytest --hypothesis-profile=many`` draws all that a test asks for, ``--hypothesis-profile=random`` others each time.
A slow machine is no fault of a test.
"""

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from properties import FEW

os.environ.setdefault("THRESHER_QUIET", "1")  # standard error is what tests look at, whatever was compiled

COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow], "print_blob": True}
settings.register_profile("random", **COMMON)
settings.register_profile("many", derandomize=True, **COMMON)
settings.register_profile("few", max_examples=FEW, derandomize=True, **COMMON)
settings.load_profile("few")

SMALL = {"random_state": 0}


def pytest_runtest_setup(item):
    """Begin every test with the same random state, from which estimators without one of their own take their seed."""
    np.random.seed(0)  # noqa: NPY002


@pytest.fixture(scope="session")
def diabetes():
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True)
    return X[:200], y[:200], X[200:300], y[200:300]


@pytest.fixture(scope="session")
def iris():
    from sklearn.datasets import load_iris

    X, y = load_iris(return_X_y=True)
    return X, np.array(["setosa", "versicolor", "virginica"])[y]


@pytest.fixture(scope="session")
def growth():
    """Rows whose targets grow exponentially, by a thousand from the least to the largest."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(300, 3))
    y = np.exp(3.5 * X[:, 0] + X[:, 1] ** 2 + 0.02 * rng.normal(size=300))
    return X[:200], y[:200], X[200:], y[200:]


@pytest.fixture(scope="session")
def regressor(diabetes):
    from thresher import ThresherRegressor

    return ThresherRegressor().fit(*diabetes[:2])


@pytest.fixture(scope="session")
def classifier(iris):
    from thresher import ThresherClassifier

    X, y = iris
    return ThresherClassifier().fit(X[::2], y[::2])


@pytest.fixture(scope="session")
def logarithmic(growth):
    from thresher import ThresherRegressor

    return ThresherRegressor().fit(*growth[:2])
