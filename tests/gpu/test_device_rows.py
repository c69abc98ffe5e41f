"""Start rows on a GPU: the bits of the processor, products with inputs, the screen."""

import numpy as np
import pytest
from grams import random_inputs

from thresher.loops.rounding import longest_hadamard, of_half_transform
from thresher.model.hadamard import rotate
from thresher.model.network import NetworkSettings
from thresher.model.start import Start
from thresher.theory import firing_probability

torch = pytest.importorskip("torch", reason="needs torch: pip install 'thresher-ml[gpu]'")
pytest.importorskip("triton", reason="needs triton: pip install 'thresher-ml[gpu]'")

from thresher.devices import find_device  # noqa: E402
from thresher.gpu.rows import Rows  # noqa: E402
from thresher.gpu.scan import DeviceScan  # noqa: E402


def rows_of(start, X):
    return Rows(start, X, find_device("cuda"))


@pytest.mark.parametrize("kind", ["random", "hadamard"])
@pytest.mark.parametrize("seed", [0, 5, 2**32 - 1, 2**63 + 12345, 2**64 - 1])
@pytest.mark.parametrize("d", [1, 3, 64, 100, 300])
def test_start_rows_have_the_bits_of_the_processor(seed, d, kind):
    start, numbers = Start(seed, d, sequence=kind), np.array([0, 1, 2, 17, 255, 256, 2**31, 2**33 + 5, 10**10, 3])
    rows = rows_of(start, random_inputs(3, d))
    made, norms = rows.make_with_norms(torch.from_numpy(numbers).to(rows.device))
    np.testing.assert_array_equal(made.cpu().numpy().view(np.uint32), start.rows(numbers).view(np.uint32))
    np.testing.assert_allclose(norms.cpu(), np.linalg.norm(start.rows(numbers), axis=1), rtol=1e-5)
    signs = rows.signs(torch.from_numpy(numbers).to(rows.device))
    np.testing.assert_array_equal(signs.cpu(), start.signs(numbers))


def test_lengths_and_signs_of_many_rows_have_the_bits_of_the_processor():
    start = Start(3, 6, sequence="hadamard")
    numbers = np.arange(1 << 12)
    made = rows_of(start, random_inputs(2, 6)).make(torch.from_numpy(numbers).to(find_device("cuda"))).cpu().numpy()
    np.testing.assert_array_equal(made.view(np.uint32), start.rows(numbers).view(np.uint32))


def test_inputs_are_rotated_as_on_the_processor():
    X, start = random_inputs(7, 30), Start(2, 30, sequence="hadamard")
    np.testing.assert_allclose(rows_of(start, X).hadamard._rotated[0].cpu(), rotate(X, 2), rtol=0, atol=6e-8)


def test_many_numbers_reach_both_ends():
    start, numbers = Start(3, 64), np.arange(1 << 8)
    made = rows_of(start, random_inputs(2, 64)).make(torch.from_numpy(numbers).to(find_device("cuda"))).cpu().numpy()
    np.testing.assert_array_equal(made.view(np.uint32), start.rows(numbers).view(np.uint32))
    assert np.abs(made).max() > 3.5  # where the second polynomial counts


@pytest.mark.parametrize("kind", ["random", "hadamard"])
@pytest.mark.parametrize("d", [2, 64, 130, 700])
@pytest.mark.parametrize("double", [False, True])
def test_looks_are_inner_products(d, double, kind):
    start, X, rng = Start(1, d, sequence=kind), random_inputs(9, d), np.random.default_rng(0)
    rows = rows_of(start, X)
    numbers, inputs = rng.integers(0, 1000, 50), rng.integers(0, 9, 50).astype(np.int32)
    found = rows.look(*(torch.from_numpy(one).to(rows.device) for one in (numbers, inputs)), double=double)
    expected = np.einsum("pd,pd->p", start.rows(numbers).astype(float), X[inputs])
    np.testing.assert_allclose(found.cpu(), expected, rtol=0, atol=1e-13 if double else 3e-5)


@pytest.mark.parametrize("kind", ["random", "hadamard"])
@pytest.mark.parametrize(
    ("d", "twins", "shift"), [(5, False, 0.0), (64, True, 1.5), (100, False, 1.5), (150, True, 0.0), (600, True, 1.0)]
)
def test_a_scan_lists_every_pair_above_the_band(d, twins, shift, kind):
    X, band, width = random_inputs(40, d), 0.3, 600
    settings = NetworkSettings.checked(width=width, dimension=d, shift=shift, seed=4, twins=twins, sequence=kind)
    scan = DeviceScan(rows_of(settings.start, X), settings, range(width), band=band, fixed=2.0**40)
    lists, outputs, _ = scan.run()
    Z = settings.start.block(0, width).astype(float) @ X.T
    fires = shift <= Z
    awake = np.flatnonzero(fires.any(axis=1))
    assert sorted(lists.neurons.tolist()) == awake.tolist()
    assert scan.firing == fires.sum()
    signs = settings.start.signs(np.arange(width))
    np.testing.assert_allclose(outputs.cpu().numpy() / 2.0**40, signs @ np.maximum(Z - shift, 0), atol=1e-3)
    for place, neuron in enumerate(lists.neurons.tolist()):
        begin, length, fired = (int(one[place]) for one in (lists.begin, lists.length, lists.fired))
        mine = slice(begin, begin + length)
        inputs = lists.inputs[mine].cpu().numpy()
        assert len(set(inputs)) == length
        assert set(np.flatnonzero(Z[neuron] >= shift - band)) <= set(inputs)
        assert set(inputs[:fired]) == set(np.flatnonzero(fires[neuron]))
        assert lists.flags[mine].tolist() == [7] * fired + [0] * (length - fired)
        np.testing.assert_allclose(lists.start[mine].cpu(), Z[neuron, inputs], atol=3e-5)
        assert lists.sign[place] == signs[neuron]
        assert lists.soonest[place] <= min(band, np.abs(Z[neuron, inputs] - shift).min())


def test_the_screen_keeps_few_that_are_far_below():
    X, width, shift = random_inputs(200, 64), 256, 2.0
    settings = NetworkSettings.checked(width=width, dimension=64, shift=shift, seed=4)
    masks, counts, _ = DeviceScan(rows_of(settings.start, X), settings, range(width), band=0.1, fixed=1.0).screen(
        0, width
    )
    found = np.unpackbits(masks.cpu().numpy().view(np.uint8), axis=1, bitorder="little")[:, :200].astype(bool)
    Z = settings.start.block(0, width).astype(float) @ X.T
    assert found[shift - 0.1 <= Z].all()
    assert not found[shift - 0.15 > Z].any()
    np.testing.assert_array_equal(counts.cpu(), found.sum(axis=1))
    assert found.mean() == pytest.approx(firing_probability(shift - 0.11), rel=0.1)


def bits(masks):
    """Marks (rows, n) from numbers (chunks, n) of 64 rows each."""
    found = (masks.cpu().numpy()[:, None, :] >> np.arange(64)[None, :, None]) & 1
    return found.reshape(-1, masks.shape[1]).astype(bool)


def test_the_screen_by_additions_keeps_few_that_are_far_below():
    X, width, level = random_inputs(200, 64), 768, 1.9
    start = Start(4, 64, sequence="hadamard")
    found = bits(rows_of(start, X).hadamard.screen(0, width, level))
    Z = start.block(0, width).astype(float) @ X.T
    assert found[level <= Z].all()
    assert not found[level - 2.5 * of_half_transform(256) > Z].any()
    assert found.mean() == pytest.approx(firing_probability(level - of_half_transform(256)), rel=0.1)


@pytest.mark.parametrize("d", [2, 30, 300, 1000])
def test_a_range_that_begins_within_a_group_has_its_own_rows_alone(d):
    start, X = Start(9, d, sequence="hadamard"), random_inputs(70, d)
    rows, begin, length, inputs = rows_of(start, X).hadamard.candidates(1300, 500, 1.0)
    rows, inputs = rows.cpu().numpy(), inputs.cpu().numpy()
    Z = start.block(1300, 1800).astype(float) @ X.T
    assert set(rows) <= set(range(1300, 1800))
    pairs = {(r, i) for r, b, k in zip(rows, begin, length, strict=True) for i in inputs[b : b + k]}
    assert len(pairs) == len(inputs)
    assert {(1300 + r, i) for r, i in np.argwhere(Z >= 1.0)} <= pairs
    assert len(pairs) < 1.5 * (Z >= 1.0).sum()


def worst_inputs(start, rows):
    """Inputs of norm 1 that lose much: rows themselves, two coordinates, tiny numbers, numbers between two halves."""
    rng, d = np.random.default_rng(0), start.dimension
    tied = (1 + 2.0**-11) * rng.choice([-1, 1], size=(8, d))
    tiny = np.where(np.arange(d) < 1, 1.0, 1e-7 * rng.normal(size=(8, d)))
    few = np.zeros((8, d))
    few[np.arange(8), np.arange(8) % d] = 1.0
    few[np.arange(8), (np.arange(8) + 1) % d] += 2.0**-6
    X = np.concatenate([start.rows(rows).astype(float), tied, tiny, few, rng.normal(size=(8, d))])
    return X / np.linalg.norm(X, axis=1, keepdims=True)


@pytest.mark.parametrize("d", [2, 30, 64, 300, 1000])
def test_the_bound_of_the_screen_holds_for_inputs_that_lose_much(d):
    """The highest level that a pair reaches is at least its product, and at most twice the bound below it."""
    start, numbers = Start(5, d, sequence="hadamard"), np.arange(8) * 3
    X = worst_inputs(start, numbers)
    hadamard = rows_of(start, X).hadamard
    Z = start.block(0, 256).astype(float) @ X.T
    bound = 1.01 * longest_hadamard(hadamard.p) / np.sqrt(hadamard.p) * of_half_transform(hadamard.p)
    for level in np.linspace(-3, 3, 13):
        found = bits(hadamard.screen(0, 256, level))
        assert found[level <= Z].all()
        assert not found[level - 2 * bound - 0.004 * abs(level) - 1e-4 > Z].any()
