"""Estimators and the command on a Ray of this machine: slices of rows give the same, whatever is killed."""

import numpy as np
import pytest

pytest.importorskip("ray", reason="Ray is not installed: pip install 'thresher-ml[ray]'")
from few import FEW, friedman, of_few
from test_cli import run
from test_ray import told

from thresher import (
    Ray,
    ThresherRegressor,
    WorkerLost,
    to_sphere,
)
from thresher.engines import ray_cluster
from thresher.engines.threads import Threads
from thresher.estimators.backends.cluster import Clustered
from thresher.estimators.kernels.kernel import SphereKernel
from thresher.estimators.models.centres import fit_centres
from thresher.runs import read_run

pytestmark = [pytest.mark.thorough, pytest.mark.usefixtures("ten_slices")]


@pytest.mark.slow
@pytest.mark.parametrize("ridge", [0, "auto"])
def test_estimators_on_a_cluster(cluster, diabetes, ridge):
    X, y, new, _ = diabetes
    options = {"width": 2048, "ridge": ridge, "random_state": 0}
    X, y = X[:40], y[:40]
    here, there = ThresherRegressor(**options).fit(X, y), ThresherRegressor(engine="ray", **options).fit(X, y)
    np.testing.assert_array_equal(here.predict(new), there.predict(new))
    assert there.results_[0].history[0].traffic["sent"]


@pytest.fixture
def limit():
    """A function that fits the limit to rows that count as many, and predicts them."""
    sizes = {"centres": 60, "more_centres": 100, "on_cluster": FEW["large"] + FEW["held"]}
    X, y = friedman(900)

    def fit(engine, way, **more):
        model = ThresherRegressor(engine=engine, approximation=way, feature_learning=0, random_state=0, **more)
        return of_few(model, **sizes).fit(X, y).predict(X)

    return fit


class Here:
    """A cluster that is none: slices in this process."""

    workers, room, require = staticmethod(len), staticmethod(lambda workers: 1e9), staticmethod(lambda *a, **k: None)
    __call__ = staticmethod(Threads)


def products_and_passes(made):
    """What comes of the answers of slices of 900 rows, in some calls of each kind."""
    rng = np.random.default_rng(0)
    rows, backend = to_sphere(rng.normal(size=(900, 5))).astype(np.float32), Clustered(made, 1, few=800)
    kernel = SphereKernel(1.0, 0.4)
    matrix, vectors = backend.operator(kernel, rows, memory=0.0), rng.normal(size=(800, 2))
    order, y = rng.permutation(900), rng.normal(size=(900, 1))
    said = [matrix.times(one) for one in (vectors, y, vectors)]
    del matrix  # with its workers, which have all the processors
    options = {"kept": order[:800], "held": order[800:], "kernel": kernel, "ridges": [0.1, 1.0], "centres": 50}
    fit = fit_centres(rows, y, np.ones(900), backend=backend, **options)
    return [*said, fit.alpha, fit.held_outputs]


@pytest.mark.slow
def test_slices_of_rows_that_are_killed_change_no_bit(cluster, kill):
    begun = kill({0: [("times", 2), ("nothing", 1), ("sums", 2)]})
    there = products_and_passes(ray_cluster.Cluster(Ray(workers=2)))
    assert begun == [0, 1, 0] * 2
    for one, other in zip(products_and_passes(Here()), there, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["exact", "centres"])
def test_many_rows_whatever_is_killed(cluster, kill, limit, way):
    here, alone = limit("local", way), limit(Ray(workers=1), way)
    np.testing.assert_array_equal(limit(Ray(workers=2), way), alone)
    call = "times" if way == "exact" else "sums"
    kill({0: [(call, 2), (call, 1)], 2: [(call, 4)]})
    np.testing.assert_array_equal(limit(Ray(workers=3), way), alone)
    np.testing.assert_allclose(alone, here, atol=1e-3)


@pytest.mark.slow
def test_rows_that_stay_away_are_an_error_and_the_fit_goes_on_elsewhere(cluster, kill, limit, tmp_path):
    file = tmp_path / "progress"
    kill({1: [("sums", 3)] * 9})
    with pytest.raises(
        WorkerLost, match=r"worker 2 of 2 \(rows 512 to 899\) was lost 1 times.*checkpoint= of an estim"
    ):
        limit(Ray(workers=2, retries=0), "centres", checkpoint=file)
    assert file.exists()
    np.testing.assert_allclose(limit("local", "centres", checkpoint=file), limit("local", "centres"), atol=1e-3)
    assert not file.exists()


def test_the_command_trains_on_a_cluster_and_the_report_tells_what_travelled(cluster, capsys, tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 4))
    np.savetxt(tmp_path / "table.csv", np.column_stack([rows, rows[:, 0] - rows[:, 1]]), delimiter=",")
    base = ["train", str(tmp_path / "table.csv"), "--ridge", "0", "--width", "4000"]
    there, here = (tmp_path / name for name in ("there", "here"))
    assert run(capsys, *base, "--save", str(here), "--quiet")[0] == 0
    page = tmp_path / "page.html"
    more = ["--engine", "ray", "--workers", "2", "--save", str(there), "--report", str(page)]
    assert run(capsys, *base, *more)[0] == 0
    runs = [read_run(place).trainings[0] for place in (here, there)]
    assert told(runs[0]) == told(runs[1])
    assert runs[1].history[1].traffic["received"] > 0
    assert "On the cluster" in page.read_text()
    code, _, err = run(capsys, *base, "--workers", "2")
    assert code
    assert "--workers is only for a cluster. Add --engine ray" in err
