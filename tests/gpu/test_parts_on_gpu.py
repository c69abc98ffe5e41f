"""Kernels of parts on a GPU, and fits with them: those of the processor, see ``loops/parts.py``."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'thresher-ml[gpu]'")
pytest.importorskip("triton", reason="needs triton: pip install 'thresher-ml[gpu]'")

from few import with_parts, with_sizes  # noqa: E402

import thresher  # noqa: E402
from thresher import ThresherClassifier, ThresherRegressor  # noqa: E402
from thresher.estimators.kernel import SphereKernel  # noqa: E402
from thresher.estimators.processor import Cpu, local_backend  # noqa: E402
from thresher.gpu.dense import Side  # noqa: E402
from thresher.theory import Parts, Shares  # noqa: E402
from thresher.theory.parts import column_kernel  # noqa: E402

CPU = Cpu(1)
SHARES = {
    "mixed": Shares(0.5, 0.25, 0.25),
    "layer": Shares(0.5, layer=0.5),
    "all kinds": Shares(0.2, 0.3, 0.4, 0.1),
    "columns": Shares(0.0, 1.0),
    "pairs": Shares(0.0, 0.5, 0.5),
}
SHIFTS = [0.0, 0.02, 0.5]  # of 0.02 there are neither polynomials nor a table


@pytest.fixture(scope="module")
def gpu():
    return local_backend("cuda", 1)


@pytest.fixture(params=SHARES)
def shares(request):
    return SHARES[request.param]


def angles_of(n, columns=5, seed=0):
    """Angles of numbers, and codes of categories in the last two columns."""
    rng = np.random.default_rng(seed)
    found = rng.uniform(0.1, 3.0, size=(n, columns))
    if columns > 2:
        found[:, -2:] = 4.0 * rng.integers(7, size=(n, 2))
    return found


def inputs_of(n, columns=5, seed=0):
    rows = np.random.default_rng(seed).normal(size=(n, 4))
    return np.hstack([rows / np.linalg.norm(rows, axis=1, keepdims=True), angles_of(n, columns, seed)])


def kernel_of(shares, columns=5, shift=0.5):
    return SphereKernel(1.0, shift, parts=Parts.of(columns, shares))


def added(gpu, kernel, whole, left, right):
    """The block that parts make of the kernel of all columns, on the GPU and on the processor."""
    block, sides = gpu.put(whole.copy()), [Side.of(gpu.put(one), kernel) for one in (left, right)]
    sides[0].add_parts(block, sides[1], kernel)
    expected, angles = whole.copy(), [kernel.parts.split(one)[1] for one in (left, right)]
    kernel.parts.add(expected, angles[0], np.ascontiguousarray(angles[1].T), kernel.diagonal)
    return gpu.get(block), expected


class TestOnePass:
    @pytest.mark.parametrize(("kind", "close"), [(np.float32, 1e-6), (np.float64, 1e-14)])
    @pytest.mark.parametrize("columns", [1, 2, 7])
    def test_parts_are_added(self, gpu, shares, kind, close, columns, monkeypatch):
        monkeypatch.setattr("thresher.gpu.kernels.parts._TILE", (16, 64))  # several, and some that are not full
        whole = np.random.default_rng(3).uniform(0, 0.3, size=(37, 150)).astype(kind)
        left, right = inputs_of(37, columns).astype(kind), inputs_of(150, columns, seed=1).astype(kind)
        found, expected = added(gpu, kernel_of(shares, columns), whole, left, right)
        assert found.dtype == kind
        np.testing.assert_allclose(found, expected, atol=close, rtol=0)

    @pytest.mark.parametrize(("kind", "close"), [(np.float32, 1e-6), (np.float64, 1e-14)])
    @pytest.mark.parametrize("layer", [0.0, 1.0])
    def test_the_kernel_of_every_angle(self, gpu, kind, close, layer):
        kernel = kernel_of(Shares(0.0, 1.0 - layer, layer=layer), 1, shift=0.0)
        away = np.concatenate(
            [np.linspace(0.05, 4, 4000), np.pi - np.logspace(-12, -1, 100), np.logspace(-12, -1, 100)]
        )
        away = np.concatenate([[0.0], away]).astype(kind)
        left, right = np.zeros((1, 2), kind), np.column_stack([away, away])
        found = added(gpu, kernel, np.zeros((1, len(away)), kind), left, right)[0][0] / kernel.diagonal
        expected = column_kernel(np.zeros(1), away.astype(np.float64))[0]
        expected = expected * (1 - np.arccos(expected) / np.pi) if layer else expected
        kink = layer * (away < 0.05)  # there the rounding of the mean counts as its square root
        assert (np.abs(found - expected) <= close + kink * close**0.5).all()
        assert (found[away >= np.pi] == 0).all()

    def test_nothing_is_added_to_nothing(self, gpu, shares):
        for height, width in ((0, 3), (3, 0)):
            found, _ = added(gpu, kernel_of(shares), np.zeros((height, width)), inputs_of(height), inputs_of(width))
            assert found.shape == (height, width)

    @pytest.mark.parametrize("n", [1, 6])
    def test_inputs_stay_as_they_are(self, gpu, n):
        inputs, kernel = gpu.put(inputs_of(n)), kernel_of(SHARES["all kinds"])
        before = inputs.clone()
        side = Side.of(inputs, kernel)
        assert torch.equal(inputs, before)
        vectors, angles = kernel.parts.split(gpu.get(inputs))
        np.testing.assert_array_equal(gpu.get(side.vectors), vectors)
        np.testing.assert_array_equal(gpu.get(side.angles), angles.T)


@pytest.mark.parametrize("shift", SHIFTS)
class TestKernels:
    def test_blocks_and_products(self, gpu, shares, shift, monkeypatch):
        monkeypatch.setattr("thresher.gpu.limit._BLOCK", 1000)  # several blocks
        kernel, inputs, others = kernel_of(shares, shift=shift), inputs_of(80), inputs_of(33, seed=1)
        vectors, single = np.random.default_rng(9).normal(size=(80, 3)), inputs.astype(np.float32)
        for double, close in ((False, 1e-4), (True, 1e-10)):
            expected, found = (one.product(kernel, others, inputs, vectors, double=double) for one in (CPU, gpu))
            np.testing.assert_allclose(found, expected, atol=close)
        block = gpu.get(gpu.block(kernel, gpu.put(others.astype(np.float32)), gpu.put(single)))
        np.testing.assert_allclose(block, CPU.block(kernel, others.astype(np.float32), single), atol=1e-5)

    @pytest.mark.parametrize("kept", [0.0, 0.4, 1.0])
    def test_products_with_the_matrix(self, gpu, shares, shift, kept, monkeypatch):
        monkeypatch.setattr("thresher.gpu.limit._BLOCK", 1000)
        kernel, inputs, vectors = kernel_of(shares, shift=shift), inputs_of(90), np.eye(90)[:, :40]
        matrix = gpu.operator(kernel, inputs, memory=kept * 4 * 90**2)
        expected = CPU.dense(kernel, inputs).dense()
        for _ in range(2):  # what is kept, and what is made again
            np.testing.assert_allclose(gpu.get(matrix.times(gpu.put(vectors))), expected @ vectors, atol=1e-5)
        some = np.array([3, 80, 7])
        np.testing.assert_allclose(gpu.get(matrix.columns(some)), expected[some], atol=1e-5)

    def test_matrices_in_double_precision(self, gpu, shares, shift):
        kernel, inputs, others = kernel_of(shares, shift=shift), inputs_of(50), inputs_of(20, seed=1)
        expected, found = (one.dense(kernel, inputs) for one in (CPU, gpu))
        apart = 1 - np.eye(50)
        np.testing.assert_allclose(apart * found.dense(), apart * expected.dense(), rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(found.dense().diagonal(), kernel.diagonal, atol=3e-8)  # rounding of their products
        penalty = np.random.default_rng(1).uniform(0.01, 0.1, size=50)
        known = [one.explained(penalty)(others) for one in (expected, found)]
        np.testing.assert_allclose(known[1], known[0], rtol=1e-8)
        with pytest.raises(AssertionError, match="all columns"):
            gpu.dense(kernel, inputs, gradients=True)


# ---- whole fits


def table(n, seed=0):
    """Numbers and a category, and targets that are sums of functions of one and two of them."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 5))
    X[:, 4] = rng.integers(4, size=n)
    y = np.sin(6 * X[:, 0]) + 2 * X[:, 1] * X[:, 2] + np.array([0.0, 1.0, -1.0, 0.3])[X[:, 4].astype(int)]
    return X, y + 0.1 * rng.normal(size=n)


FIXED = {"categorical_features": [4], "random_state": 0, "n_jobs": 1, "bias": 1.0}
MANY = {"chosen_on": 300, "held": 100}


def fits(estimator, *data, sizes=None, parts="auto", **options):
    made = [estimator(device=name, **FIXED, **options) for name in ("cpu", "cuda")]
    return [with_parts(with_sizes(one, **sizes or {}), parts).fit(*data) for one in made]


def same(found, expected, others, close):
    assert found.parts_ == expected.parts_
    results = zip(found.predict(others, return_std=True), expected.predict(others, return_std=True), strict=True)
    for mine, theirs in results:
        np.testing.assert_allclose(mine, theirs, atol=close)


class TestFits:
    @pytest.mark.parametrize("parts", [SHARES["mixed"], "columns", SHARES["layer"], SHARES["all kinds"], "auto"])
    def test_few_rows(self, parts, tmp_path):
        X, y = table(110)
        expected, found = fits(ThresherRegressor, X, y, parts=parts, feature_learning=0, target_transform=None)
        assert found.ridge_ == pytest.approx(expected.ridge_)
        same(found, expected, table(40, seed=1)[0], 1e-6)
        if parts == "auto":
            tried = [one.choices_["share of single columns"].tried for one in (found, expected)]
            assert tried[0] == pytest.approx(tried[1], rel=1e-6)
        found.save(tmp_path / "model")
        np.testing.assert_allclose(thresher.load(tmp_path / "model").predict(X), found.predict(X), atol=1e-6)

    def test_features_are_learnt_with_all_columns(self):
        X, y = table(120)
        expected, found = fits(
            ThresherRegressor, X, y, parts=SHARES["mixed"], feature_learning=1, target_transform=None
        )
        same(found, expected, table(40, seed=1)[0], 1e-3)

    def test_a_classifier(self):
        X, y = table(130)
        labels = np.digitize(y, np.quantile(y, [0.3, 0.6]))
        expected, found = fits(ThresherClassifier, X, labels, parts=SHARES["mixed"], feature_learning=0)
        others = table(60, seed=1)[0]
        np.testing.assert_allclose(found.predict_proba(others), expected.predict_proba(others), atol=1e-6)

    @pytest.mark.parametrize("parts", [SHARES["mixed"], SHARES["layer"], SHARES["all kinds"]])
    def test_many_rows(self, parts):
        X, y = table(450)
        options = {"parts": parts, "feature_learning": 0, "target_transform": None, "ridge": 1e-2}
        expected, found = fits(ThresherRegressor, X, y, sizes=MANY, **options)
        same(found, expected, table(50, seed=1)[0], 0.02 * y.std())

    @pytest.mark.parametrize("way", ["centres", "leaves"])
    def test_beyond_the_exact_fit(self, way):
        X, y = table(500)
        sizes = {**MANY, "exact": 400, "leaf": 150, "centres": 60, "more_centres": 100}
        options = {
            "parts": SHARES["mixed"],
            "feature_learning": 0,
            "target_transform": None,
            "ridge": 1e-2,
            "approximation": way,
        }
        expected, found = fits(ThresherRegressor, X, y, sizes=sizes, **options)
        same(found, expected, table(50, seed=1)[0], 0.03 * y.std())

    def test_parts_are_not_added_by_the_processor(self, monkeypatch):
        def refuse(*_):
            raise AssertionError("on the processor")

        monkeypatch.setattr(Parts, "add", refuse)
        X, y = table(60)
        model = ThresherRegressor(device="cuda", parts="pairs", feature_learning=0, **FIXED).fit(X, y)
        assert np.isfinite(model.predict(X, return_std=True)).all()
