"""Tables of a few hundred rows that count as many."""

from sklearn.datasets import make_friedman1

from thresher.estimators import base, regressor
from thresher.estimators.fits import many


def let_few_be_many(monkeypatch):
    for module in (base, many, regressor):
        monkeypatch.setattr(module, "MANY", 300)
    for name, size in (("HELD", 150), ("SMALL", 200), ("LARGE", 500)):
        monkeypatch.setattr(many, name, size)


def friedman(n, seed=0, noise=0.5):
    return make_friedman1(n, n_features=7, noise=noise, random_state=seed)
