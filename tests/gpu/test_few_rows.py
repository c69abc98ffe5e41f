"""Kernels of few rows on a GPU, and fits with them: those of the processor, see ``estimators/processor.py``."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'thresher-ml[gpu]'")
pytest.importorskip("triton", reason="needs triton: pip install 'thresher-ml[gpu]'")

from sklearn.datasets import make_friedman1  # noqa: E402

import thresher  # noqa: E402
from thresher import ThresherClassifier, ThresherRegressor  # noqa: E402
from thresher.estimators import processor  # noqa: E402
from thresher.estimators.data.observations import Observations  # noqa: E402
from thresher.estimators.kernel import SphereKernel  # noqa: E402
from thresher.estimators.processor import Cpu, local_backend  # noqa: E402
from thresher.gpu.kernels import limit as kernels  # noqa: E402
from thresher.theory import cofiring_probability, limit_slopes  # noqa: E402
from thresher.theory.kernel import probability_table  # noqa: E402

CPU = Cpu(1)
SHIFTS = [0.0, 0.02, 0.5, 1.5]  # of 0.02 there is no table
EXACT = {"rtol": 1e-10, "atol": 1e-10}
SINGLE = {"rtol": 1e-4, "atol": 1e-5}  # what the processor makes in single precision, for slopes alone


@pytest.fixture(scope="module")
def gpu():
    return local_backend("cuda", 1)


def sphere(n, d=6, seed=0):
    rows = np.random.default_rng(seed).normal(size=(n, d))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def problem(n=50, outputs=2, seed=0):
    rng = np.random.default_rng(seed)
    return sphere(n, seed=seed), rng.uniform(0.01, 0.1, size=n), rng.normal(size=(n, outputs))


@pytest.fixture(params=SHIFTS)
def both(request, gpu):
    """The same kernel on the processor and on the GPU, of fifty inputs."""
    return [one.dense(SphereKernel(1.0, request.param), problem()[0]) for one in (CPU, gpu)]


class TestKernels:
    def test_the_matrix_and_its_corner(self, both):
        expected, found = both
        assert len(found) == len(expected) == 50
        np.testing.assert_allclose(found.dense(), expected.dense(), **EXACT)
        np.testing.assert_allclose(found.last(7).dense(), expected.dense()[-7:, -7:], **EXACT)
        assert len(found.last(80)) == 50

    def test_solutions(self, both):
        expected, found = both
        _, penalty, targets = problem()
        np.testing.assert_allclose(found.solve(penalty, targets), expected.solve(penalty, targets), **EXACT)
        some = found.solve(penalty[:40], targets[:40])
        np.testing.assert_allclose(some, expected.solve(penalty[:40], targets[:40]), **EXACT)
        assert found.solve(penalty - 1.0, targets) is None
        assert found.solve(penalty * np.nan, targets) is None

    @pytest.mark.parametrize("last", [1, 13, 50, 1024])
    def test_what_leaving_out_needs(self, both, last):
        _, penalty, targets = problem()
        expected, found = (one.invert(penalty, targets, last=last, whole=False) for one in both)
        np.testing.assert_allclose(found.alpha, expected.alpha, **EXACT)
        np.testing.assert_allclose(found.diagonal, expected.diagonal, **EXACT)
        assert found.changes is None
        assert both[1].invert(penalty - 1.0, targets, last=last, whole=False) is None

    def test_and_how_it_changes_with_the_ridge(self, both):
        _, penalty, targets = problem()
        expected, found = (one.invert(penalty, targets, last=1024, whole=True) for one in both)
        np.testing.assert_allclose(found.alpha, expected.alpha, **EXACT)
        np.testing.assert_allclose(found.changes[0], expected.changes[0], **EXACT)
        np.testing.assert_allclose(found.diagonal, expected.diagonal, **SINGLE)
        np.testing.assert_allclose(found.changes[1], expected.changes[1], **SINGLE)
        step, kernel = 1e-5, both[0].dense()
        ahead, behind = (np.linalg.inv(kernel + np.diag(penalty * np.exp(by))).diagonal() for by in (step, -step))
        np.testing.assert_allclose(found.changes[1], (behind - ahead) / (2 * step), rtol=1e-6)
        assert both[1].invert(penalty - 1.0, targets, last=1024, whole=True) is None


@pytest.mark.parametrize("shift", SHIFTS)
class TestTheLimit:
    @pytest.mark.parametrize(("outputs", "columns"), [(1, 6), (3, 5), (40, 6)])  # one by one, all at once
    def test_outer_products_of_gradients(self, gpu, shift, outputs, columns):
        inputs, scale, alpha = problem(outputs=outputs)
        expected, found = (
            one.dense(SphereKernel(1.0, shift), inputs, gradients=True).outer_products(
                alpha, scale=scale, columns=columns
            )
            for one in (CPU, gpu)
        )
        np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())

    def test_gradients_of_many_rows(self, gpu, shift):
        """From so many rows on they are made in single precision."""
        inputs, penalty, targets = problem(520)
        kernel, data = SphereKernel(1.0, shift), Observations.merged(inputs, targets, weights=0.1 / penalty)
        expected, found = (kernel.outer_products(data, 0.1, one) for one in (CPU, gpu))
        np.testing.assert_allclose(found, expected, atol=1e-3 * np.abs(expected).max())

    def test_products_and_variances_at_others(self, gpu, shift, monkeypatch):
        monkeypatch.setattr("thresher.gpu.limit._BLOCK", 1000)  # several blocks
        inputs, penalty, vectors = problem()
        others = np.concatenate([sphere(33, seed=1), inputs[:2], -inputs[:2]])
        kernel = SphereKernel(1.0, shift)
        expected, found = (one.product(kernel, others, inputs, vectors, double=True) for one in (CPU, gpu))
        np.testing.assert_allclose(found, expected, atol=1e-7)  # opposite inputs: the kernel has a kink there
        expected, found = (one.dense(kernel, inputs).explained(penalty)(others) for one in (CPU, gpu))
        np.testing.assert_allclose(found, expected, atol=1e-7)
        assert gpu.dense(kernel, inputs).explained(penalty - 1.0) is None


def friedman(n, seed=0):
    return make_friedman1(n, n_features=6, noise=1.0, random_state=seed)


def fits(estimator, *data, **options):
    options = {"n_jobs": 1, "random_state": 0, **options}
    return [estimator(device=name, **options).fit(*data) for name in ("cpu", "cuda")]


def same_choices(found, expected):
    taken = [[(choice.name, choice.taken) for choice in one.choices_] for one in (found, expected)]
    assert taken[0] == taken[1]
    assert found.loo_error_ == pytest.approx(expected.loo_error_, rel=1e-4)


class TestFits:
    def test_a_regressor(self, tmp_path):
        X, y = friedman(100)
        expected, found = fits(ThresherRegressor, X, y, feature_learning=0)
        same_choices(found, expected)
        others = friedman(40, seed=1)[0]
        results = zip(found.predict(others, return_std=True), expected.predict(others, return_std=True), strict=True)
        for mine, theirs in results:
            np.testing.assert_allclose(mine, theirs, atol=1e-6 * y.std())
        found.save(tmp_path / "model")
        loaded = thresher.load(tmp_path / "model").predict(others)
        np.testing.assert_allclose(loaded, found.predict(others), atol=1e-6 * y.std())

    def test_features_are_learnt(self):
        rng = np.random.default_rng(8)
        X = rng.normal(size=(130, 4))
        y = np.sin(2 * X[:, 0]) * np.sign(X[:, 1])
        expected, found = fits(ThresherRegressor, X, y, target_transform=None)
        assert found.choices_["rounds of the metric"].taken != "0"
        same_choices(found, expected)
        np.testing.assert_allclose(found.feature_importances_, expected.feature_importances_, atol=1e-4)
        others = rng.normal(size=(40, 4))
        np.testing.assert_allclose(found.predict(others), expected.predict(others), atol=1e-3)

    def test_a_classifier_with_weights_and_equal_rows(self):
        X, y = friedman(120)
        X[60:80] = X[:20]
        labels, weights = np.digitize(y, np.quantile(y, [0.3, 0.6])), np.linspace(0.5, 2.0, 120)
        expected, found = fits(ThresherClassifier, X, labels, weights, feature_learning=0)
        same_choices(found, expected)
        others = friedman(60, seed=1)[0]
        np.testing.assert_allclose(found.predict_proba(others), expected.predict_proba(others), atol=1e-6)

    def test_nothing_of_the_size_of_a_kernel_is_made_by_the_processor(self, monkeypatch):
        def refuse(*_, **__):
            raise AssertionError("on the processor")

        own = "ArrayLimit", "limit_block", "limit_product", "factor", "limit_kernel", "limit_cross"
        for name in own:
            monkeypatch.setattr(processor, name, refuse)
        X, y = friedman(60)
        model = ThresherRegressor(device="cuda").fit(X, y)
        assert np.isfinite(model.predict(X, return_std=True)).all()


def test_memory_is_refused_in_advance(gpu, monkeypatch):
    X, y = friedman(200)
    monkeypatch.setattr(type(gpu), "spare", lambda self: 1e6)
    with pytest.raises(thresher.MemoryRefused, match=r"fitting 200 rows of 6 columns on the GPU needs about"):
        ThresherRegressor(device="cuda", target_transform=None).fit(X, y)


def test_the_kernel_is_evaluated_in_double_precision(gpu):
    rho = np.concatenate([np.linspace(-1, 1, 501), 1 - np.logspace(-15, -3, 50), np.logspace(-15, -3, 50) - 1])
    products, out = gpu.put(rho), gpu.put(np.zeros_like(rho))
    slopes = torch.empty_like(out)
    kernels.interpolate(products, gpu.put(probability_table(0.5)), out, slopes)
    np.testing.assert_allclose(gpu.get(out), rho * cofiring_probability(rho, 0.5), atol=1e-12)
    expected = limit_slopes(rho[None], 0.5, symmetric=False)[1][0]
    np.testing.assert_allclose(gpu.get(slopes), expected, rtol=1e-8, atol=1e-8)
