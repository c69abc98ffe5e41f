"""Estimators with device="cuda": on a GPU, or with Triton's interpreter on tensors of the processor."""

import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'thresher-ml[gpu]'")
pytest.importorskip("triton", reason="needs triton: pip install 'thresher-ml[gpu]'")

from few import with_sizes  # noqa: E402
from sklearn.datasets import make_friedman1  # noqa: E402

import thresher  # noqa: E402
from thresher import InvalidInput, NetworkRegressor, ThresherClassifier, ThresherRegressor  # noqa: E402
from thresher.estimators import solve  # noqa: E402
from thresher.estimators.centres import fit_centres  # noqa: E402
from thresher.estimators.data.observations import Observations  # noqa: E402
from thresher.estimators.kernel import SphereKernel  # noqa: E402
from thresher.estimators.leaves import fit_leaves  # noqa: E402
from thresher.estimators.processor import Cpu, descend, local_backend  # noqa: E402
from thresher.estimators.variance import Variance  # noqa: E402
from thresher.theory import firing_probability, limit_kernel  # noqa: E402

CPU = Cpu(1)
KERNEL = SphereKernel(1.0, 0.5)
SHIFTS = [0.0, 0.02, 0.5, 1.5]  # of 0.02 the polynomials are not close enough


@pytest.fixture(scope="module")
def gpu():
    return local_backend("cuda", 1)


def sphere(n, d=6, seed=0):
    rows = np.random.default_rng(seed).normal(size=(n, d))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def single(rows):
    return rows.astype(np.float32)


def kernel_of(inputs, shift):
    """The limit kernel in double precision, of inputs as they are in single precision."""
    exact = single(inputs).astype(np.float64)
    kernel = limit_kernel(exact @ exact.T, shift)
    np.fill_diagonal(kernel, firing_probability(shift))
    return kernel


@pytest.mark.parametrize("shift", SHIFTS)
def test_a_block_is_the_kernel(gpu, shift):
    left, right, kernel = sphere(70), sphere(50, seed=1), SphereKernel(1.0, shift)
    found = gpu.get(gpu.block(kernel, gpu.put(single(left)), gpu.put(single(right))))
    expected = limit_kernel(left @ right.T, shift, symmetric=False)
    np.testing.assert_allclose(found, expected, atol=2e-5 * firing_probability(shift))
    opposite = gpu.get(gpu.block(kernel, gpu.put(single(left)), gpu.put(single(-left)))).diagonal()
    np.testing.assert_allclose(opposite, 0.0, atol=4e-4)  # there the kernel has a kink


@pytest.mark.parametrize("kept", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("rows", [90, 60, 0])
def test_products_with_the_matrix(gpu, kept, rows, monkeypatch):
    monkeypatch.setattr("thresher.gpu.limit._BLOCK", 1000)  # several panels
    monkeypatch.setattr("thresher.gpu.limit._COLUMNS", 32)
    inputs, vectors = sphere(90), np.random.default_rng(1).normal(size=(rows, 3))
    matrix = gpu.operator(KERNEL, inputs, memory=kept * 4 * 90**2)
    assert matrix.kept == pytest.approx(kept)
    expected = kernel_of(inputs, 0.5)[:, :rows] @ vectors
    for _ in range(2):  # what is kept, and what is made again
        np.testing.assert_allclose(gpu.get(matrix.times(gpu.put(vectors))), expected, atol=1e-5 * max(rows, 1) ** 0.5)
    other = sphere(90, seed=5)
    found = gpu.get(matrix.renewed(SphereKernel(1.0, 1.0), other).times(gpu.put(vectors)))
    np.testing.assert_allclose(found, kernel_of(other, 1.0)[:, :rows] @ vectors, atol=1e-5 * max(rows, 1) ** 0.5)
    some = np.array([3, 80, 7])
    np.testing.assert_allclose(gpu.get(matrix.columns(some)), kernel_of(other, 1.0)[some], atol=1e-5)


@pytest.mark.parametrize("shift", SHIFTS)
def test_gradients(gpu, shift, monkeypatch):
    monkeypatch.setattr("thresher.gpu.limit._BLOCK", 1000)
    inputs, alpha = sphere(80), np.random.default_rng(2).normal(size=(80, 2))
    others = np.concatenate([inputs[:30], sphere(20, seed=3)])  # pairs of equal inputs count nothing
    kernel = SphereKernel(1.0, shift)
    found = gpu.gradients(kernel, single(others), single(inputs), alpha)
    assert found.shape == (2, 50, 6)
    expected = CPU.gradients(kernel, single(others), single(inputs), alpha)
    np.testing.assert_allclose(found, expected, atol=1e-3 * np.abs(expected).max())


@pytest.mark.parametrize("shift", SHIFTS)
def test_gradients_of_a_fit(gpu, shift):
    targets, weights = np.random.default_rng(4).normal(size=(60, 2)), np.random.default_rng(5).uniform(1, 10, size=60)
    data, kernel = Observations.merged(sphere(60), targets, weights=weights), SphereKernel(1.0, shift)
    found, expected = (kernel.outer_products(data, 0.1, one) for one in (gpu, CPU))
    assert found.shape == (6, 6)
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())
    assert kernel.outer_products(data, -10.0, gpu) is None


@pytest.mark.parametrize("n", [50, 500])
def test_pivots_and_their_inverse(gpu, n):
    inputs, rank = sphere(n), 40
    mine, theirs = (one.pivots(one.operator(KERNEL, inputs, memory=0.0), rank=rank, seed=3) for one in (gpu, CPU))
    np.testing.assert_array_equal(mine.pivots, theirs.pivots)
    np.testing.assert_allclose(gpu.get(mine.factor), theirs.factor, atol=1e-3)
    assert mine.left == pytest.approx(theirs.left, abs=1e-5)
    added = np.random.default_rng(6).uniform(0.01, 0.1, size=n - 5)  # for the first rows alone
    vectors = np.random.default_rng(7).normal(size=(n - 5, 2))
    found = gpu.get(gpu.inverse(mine, added)(gpu.put(vectors)))
    np.testing.assert_allclose(found, CPU.inverse(theirs, added)(vectors), rtol=1e-3, atol=1e-2)
    factor = gpu.get(mine.factor)[:, : n - 5].astype(float)
    dense = factor.T @ factor + np.diag(added + mine.left)
    np.testing.assert_allclose(dense @ found, vectors, atol=1e-3)


def test_weights_too_far_apart_still_have_an_inverse(gpu):
    low = gpu.pivots(gpu.operator(KERNEL, sphere(60), memory=0.0), rank=30)
    added = np.geomspace(1e-20, 1e20, 60)
    assert np.isfinite(gpu.get(gpu.inverse(low, added)(gpu.put(np.ones((60, 1)))))).all()


@pytest.mark.parametrize("start", [False, True])
def test_conjugate_gradients_arrive(gpu, start):
    inputs, rng = sphere(120), np.random.default_rng(8)
    kernel, targets = kernel_of(inputs, 0.5), rng.normal(size=(100, 2))
    added = rng.uniform(0.05, 0.1, size=100)
    matrix = gpu.operator(KERNEL, inputs, memory=np.inf)
    descent = descend(
        gpu,
        matrix.times,
        targets,
        added=np.outer(added, np.ones(2)),
        inverse=gpu.inverse(gpu.pivots(matrix, rank=30), added),
        start=rng.normal(size=(100, 2)) if start else None,
    )
    for _ in range(40):
        descent.step()
    expected = np.linalg.solve(kernel[:100, :100] + np.diag(added), targets)
    np.testing.assert_allclose(gpu.get(descent.values), expected, atol=1e-3)
    np.testing.assert_allclose(gpu.get(descent.images), kernel[:, :100] @ expected, atol=1e-3)
    assert gpu.get(descent.residuals).max() < 1e-4
    descent.keep([1])
    assert descent.values.shape == (100, 1)
    descent.step()


def test_products_for_predictions(gpu, monkeypatch):
    monkeypatch.setattr("thresher.gpu.limit._BLOCK", 1000)
    inputs, others, alpha = sphere(80), sphere(33, seed=1), np.random.default_rng(9).normal(size=(80, 3))
    found = gpu.product(KERNEL, others, inputs, alpha)
    np.testing.assert_allclose(found, CPU.product(KERNEL, others, inputs, alpha), atol=1e-5)
    assert gpu.product(KERNEL, others[:0], inputs, alpha).shape == (0, 3)


def test_variances(gpu):
    inputs, penalty = sphere(90), np.random.default_rng(10).uniform(0.01, 0.1, size=90)
    found = [
        Variance.of_pivots(inputs[:30], KERNEL, backend=one).with_rows(inputs[:50], penalty[:50]).with_rows(
            inputs[50:], penalty[50:]
        ).at(sphere(40, seed=2))
        for one in (gpu, CPU)
    ]  # fmt: skip
    np.testing.assert_allclose(found[0], found[1], atol=1e-4)


def test_tensor_cores_are_not_used_for_products(gpu):
    torch.set_float32_matmul_precision("medium")
    try:
        with gpu.session():
            assert torch.get_float32_matmul_precision() == "highest"
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")


def test_too_many_rows_are_refused_with_the_number_that_fits(gpu, monkeypatch):
    monkeypatch.setattr(type(gpu), "spare", lambda self: 20e9)
    gpu.require(100_000, 100, 1)
    with pytest.raises(thresher.MemoryRefused, match=r"on the GPU needs about .* rows would fit"):
        gpu.require(10**8, 100, 1)


# ---- whole fits, of few rows that count as many


def of_few(model, **sizes):
    return with_sizes(model, **{"chosen_on": 300, "held": 100, **sizes})


FIXED = {"bias": 1.0, "ridge": 1e-2, "feature_learning": 0, "n_jobs": 1}


def friedman(n, seed=0):
    return make_friedman1(n, n_features=6, noise=1.0, random_state=seed)


def both(estimator, *data, sizes=None, **options):
    options = {"n_jobs": 1, "random_state": 0, **options}
    return [of_few(estimator(device=name, **options), **sizes or {}).fit(*data) for name in ("cpu", "cuda")]


def test_a_regressor_is_that_of_the_processor(tmp_path):
    X, y = friedman(450)
    expected, found = both(ThresherRegressor, X, y, target_transform=None, ridge=1e-2)
    others = friedman(50, seed=1)[0]
    assert found.bias_ == expected.bias_
    rounds = [one.choices_["rounds of the metric"].taken for one in (found, expected)]
    assert rounds[0] == rounds[1] != "0"
    assert found.loo_error_ == pytest.approx(expected.loo_error_, rel=1e-2)
    for mine, theirs in zip(
        found.predict(others, return_std=True), expected.predict(others, return_std=True), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, atol=0.02 * y.std())
    np.testing.assert_allclose(found.feature_importances_, expected.feature_importances_, atol=0.01)
    found.save(tmp_path / "model")
    loaded = of_few(thresher.load(tmp_path / "model"))
    assert loaded.device == "cpu"  # a file is read anywhere
    np.testing.assert_allclose(loaded.predict(others), found.predict(others), atol=1e-4 * y.std())


def test_a_classifier_is_that_of_the_processor():
    X, y = friedman(450)
    labels = np.digitize(y, np.quantile(y, [0.2, 0.4, 0.6, 0.8]))
    expected, found = both(ThresherClassifier, X, labels, feature_learning=0, ridge=1e-2)
    others = friedman(200, seed=1)[0]
    np.testing.assert_allclose(found.predict_proba(others), expected.predict_proba(others), atol=0.02)
    assert np.mean(found.predict(others) == expected.predict(others)) > 0.98


def test_what_does_not_fit_on_the_device_is_made_again(gpu, monkeypatch):
    X, y = friedman(350)
    options = {"target_transform": None, "random_state": 0, "device": "cuda", **FIXED}
    whole = of_few(ThresherRegressor(**options)).fit(X, y)
    monkeypatch.setattr(solve, "_ROOM", 0.0)
    nothing = of_few(ThresherRegressor(**options)).fit(X, y)
    np.testing.assert_allclose(nothing.predict(X[:50]), whole.predict(X[:50]), rtol=1e-3)


@pytest.mark.parametrize("way", ["centres", "leaves", "auto"])
def test_beyond_the_exact_fit(way):
    sizes = {"exact": 400, "leaf": 150, "centres": 60, "more_centres": 100}
    X, y = friedman(500)
    expected, found = both(ThresherRegressor, X, y, sizes=sizes, target_transform=None, approximation=way, **FIXED)
    assert found.model_.way == expected.model_.way
    others = friedman(60, seed=1)[0]
    for mine, theirs in zip(
        found.predict(others, return_std=True), expected.predict(others, return_std=True), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, atol=0.03 * y.std())


@pytest.mark.parametrize("outputs", [1, 2])
def test_centres(gpu, outputs):
    inputs, rng = single(sphere(700)), np.random.default_rng(11)
    targets = np.column_stack([inputs[:, 0] > 0, inputs[:, 1] * inputs[:, 2]])[:, :outputs] - 0.2
    weights = rng.uniform(0.5, 2.0, size=700)
    options = {"kept": rng.permutation(600), "held": np.arange(600, 700), "kernel": KERNEL, "ridges": [1e-3, 1e-2]}
    expected, found = (fit_centres(inputs, targets, weights, **options, centres=50, backend=one) for one in (CPU, gpu))
    np.testing.assert_array_equal(found.inputs, expected.inputs)
    assert found.ridge == expected.ridge
    np.testing.assert_allclose(found.held_outputs, expected.held_outputs, atol=1e-2)


def test_leaves_learn_metrics(gpu):
    X, y = friedman(500)
    rows, targets, weights = X - X.mean(axis=0), (y[:, None] - y.mean()) / y.std(), np.ones(500)
    options = {"held": 100, "kernel": KERNEL, "ridges": [1e-2], "size": 150}
    expected, found = (fit_leaves(rows, targets, weights, **options, backend=one) for one in (CPU, gpu))
    np.testing.assert_allclose(found.leaves.thresholds, expected.leaves.thresholds, atol=1e-6)
    np.testing.assert_allclose(found.leaves.metrics, expected.leaves.metrics, atol=1e-2)
    np.testing.assert_allclose(found.held_outputs, expected.held_outputs, atol=3e-2)


def test_without_the_device_a_fit_is_refused_and_a_prediction_warns(monkeypatch):
    X, y = friedman(400)
    model = of_few(ThresherRegressor(random_state=0, target_transform=None, device="cuda", **FIXED)).fit(X, y)
    expected = model.predict(X[:20])

    def missing(name):
        raise thresher.NotAvailable("there is none")

    with monkeypatch.context() as patched:
        patched.setattr("thresher.estimators.processor.find_device", missing)
        with pytest.raises(thresher.NotAvailable, match="there is none"):
            of_few(ThresherRegressor(device="cuda")).fit(X, y)
        with pytest.warns(UserWarning, match="Predicting on the CPU: there is none"):
            found = model.predict(X[:20])
    np.testing.assert_allclose(found, expected, atol=1e-3 * y.std())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(X[:20])


def test_what_is_no_device_is_refused():
    X, y = friedman(20)
    with pytest.raises(InvalidInput, match="device must be one of 'cpu', 'cuda'; got 'tpu'"):
        ThresherRegressor(device="tpu").fit(X, y)


def test_training_to_zero_loss_is_on_the_device(tmp_path):
    X, y = friedman(12)
    found, expected = (NetworkRegressor(width=1024, random_state=0, device=name).fit(X, y) for name in ("cuda", "cpu"))
    assert found.results_[0].history[0].residual == pytest.approx(expected.results_[0].history[0].residual, rel=1e-5)
    np.testing.assert_allclose(found.predict(X), y, atol=1e-4 * y.std())
    found.save(tmp_path / "model")
    np.testing.assert_allclose(thresher.load(tmp_path / "model").predict(X), y, atol=1e-4 * y.std())
