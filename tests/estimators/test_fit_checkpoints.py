"""Checkpoints of long fits: what was computed is not computed again, and the model is the same."""

import numpy as np
import pytest
from few import FEW, friedman, of_few

from thresher import InvalidInput, ThresherRegressor
from thresher.estimators.backends.processor import Cpu
from thresher.estimators.files.journal import Journal
from thresher.estimators.judging.holdout import HoldOut, solve_ridges
from thresher.estimators.models import centres, exact, leaves


def regressor(sizes=None, **options):
    return of_few(ThresherRegressor(**{"random_state": 0, **options}), **sizes or {})


@pytest.fixture(scope="module")
def table():
    return friedman(700)


class Stop(Exception):
    pass


def test_a_fit_that_was_stopped_goes_on(table, tmp_path, monkeypatch):
    X, y = table
    path = tmp_path / "progress"
    whole = regressor().fit(X, y)
    work = []
    real = HoldOut.evaluate

    def counted(self, *arguments, **more):
        if len(self.data) > FEW["small"]:
            work.append(1)
            if len(work) == 3:
                raise Stop
        return real(self, *arguments, **more)

    monkeypatch.setattr(HoldOut, "evaluate", counted)
    with pytest.raises(Stop):
        regressor(checkpoint=path).fit(X, y)
    assert path.exists()
    with pytest.raises(InvalidInput, match="belongs to another problem: inputs or targets differ"):
        regressor(checkpoint=path).fit(X, y + 1)
    before = len(work)
    again = regressor(checkpoint=path).fit(X, y)
    straight = []
    spy = lambda self, *a, **k: straight.append(len(self.data)) or real(self, *a, **k)  # noqa: E731
    monkeypatch.setattr(HoldOut, "evaluate", spy)
    regressor().fit(X, y)
    assert len(work) - before == sum(size > FEW["small"] for size in straight) - 2  # two were in the journal
    np.testing.assert_allclose(again.predict(X[:50]), whole.predict(X[:50]), rtol=1e-9)
    assert not path.exists()


def test_the_last_solve_goes_on_too(table, tmp_path, monkeypatch):
    X, y = table
    path, options = tmp_path / "progress", {"random_state": 0, "feature_learning": 0}
    whole = regressor(**options).fit(X, y)
    real, steps = exact.refine, []

    def stopped(*arguments, save, **more):
        def then(values):
            save(values)
            raise Stop

        return real(*arguments, save=then, **more)

    monkeypatch.setattr(exact, "refine", stopped)
    with pytest.raises(Stop):
        regressor(**options, checkpoint=path).fit(X, y)
    monkeypatch.setattr(exact, "refine", real)
    monkeypatch.setattr(exact, "solve_ridges", lambda *a, **k: steps.append(1) or solve_ridges(*a, **k))
    again = regressor(**options, checkpoint=path).fit(X, y)
    assert not steps
    np.testing.assert_allclose(again.predict(X[:50]), whole.predict(X[:50]), atol=0.02 * y.std())


def test_bad_checkpoints_are_refused_in_one_line(table, tmp_path):
    X, y = table
    with pytest.raises(InvalidInput, match="in a folder that does not exist"):
        regressor(checkpoint=tmp_path / "no" / "file").fit(X, y)
    path = tmp_path / "other"
    path.write_bytes(b"something else")
    with pytest.raises(InvalidInput, match="is not a fit in progress"):
        regressor(checkpoint=path).fit(X, y)
    model = regressor(feature_learning=0, checkpoint=tmp_path / "progress").fit(X, y)
    model.save(tmp_path / "model")  # a path is no JSON
    with pytest.raises(InvalidInput, match="beyond single precision"):
        regressor(shift=20.0).fit(X, y)


@pytest.mark.parametrize("way", ["centres", "leaves", "auto"])
@pytest.mark.parametrize("stop", [1, 3])
def test_centres_and_leaves_go_on_too(table, tmp_path, monkeypatch, way, stop):
    """To the bit: the file has all that the next step depends on."""
    sizes = {"exact": 600, "leaf": 120, "leaves_judged": 40, "centres": 100, "more_centres": 200}
    monkeypatch.setattr(centres, "_SAMPLE", 2)  # with all rows in the sample one step may be enough, or not
    X, y = table
    path, options = tmp_path / "progress", {"random_state": 0, "feature_learning": 0, "approximation": way}
    work, saved = [], []
    for place, name in ((centres.Sweep, "sums"), (leaves, "_fit_leaf")):
        real = getattr(place, name)
        monkeypatch.setattr(place, name, lambda *a, real=real, **k: work.append(1) or real(*a, **k))
    whole = regressor(sizes, **options).fit(X, y)
    straight, real = len(work), Journal.keep

    def stopped(self, *arguments):
        real(self, *arguments)
        saved.append(1)
        if len(saved) == stop:
            raise Stop

    monkeypatch.setattr(Journal, "keep", stopped)
    with pytest.raises(Stop):
        regressor(sizes, **options, checkpoint=path).fit(X, y)
    work.clear()
    again = regressor(sizes, **options, checkpoint=path).fit(X, y)
    assert len(work) < straight
    assert again.approximation_errors_ == whole.approximation_errors_
    for name in ("alpha_", "inputs_", "noise_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(whole, name))
    np.testing.assert_array_equal(again.predict(X), whole.predict(X))
    assert not path.exists()


@pytest.mark.parametrize("other", ["device", "width"])
def test_a_fit_that_would_compare_others_does_not_go_on(table, tmp_path, monkeypatch, other):
    """The steps of a checkpoint have no names: another device, or a network, would take one for another."""
    X, y = table
    path, options = tmp_path / "progress", {"random_state": 0, "feature_learning": 0, "sizes": {"exact_cheap": 600}}
    real = Journal.step

    def stopped(self, compute):
        real(self, compute)
        raise Stop

    monkeypatch.setattr(Journal, "step", stopped)
    with pytest.raises(Stop):
        regressor(**options, checkpoint=path).fit(X, y)
    monkeypatch.setattr(Journal, "step", real)
    if other == "device":
        monkeypatch.setattr(Cpu, "exact_is_costly", False)
    else:
        options["width"] = 64
    with pytest.raises(InvalidInput, match="was written with compared="):
        regressor(**options, checkpoint=path).fit(X, y)
