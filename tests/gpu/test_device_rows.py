"""Start rows on a GPU: the bits of the processor, products with inputs, the screen."""

import numpy as np
import pytest
from grams import random_inputs

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


@pytest.mark.parametrize("seed", [0, 5, 2**32 - 1, 2**63 + 12345, 2**64 - 1])
@pytest.mark.parametrize("d", [1, 3, 64, 100])
def test_start_rows_have_the_bits_of_the_processor(seed, d):
    start, numbers = Start(seed, d), np.array([0, 1, 2, 17, 2**31, 2**33 + 5, 10**10])
    rows = rows_of(start, random_inputs(3, d))
    made, norms = rows.make_with_norms(torch.from_numpy(numbers).to(rows.device))
    np.testing.assert_array_equal(made.cpu().numpy().view(np.uint32), start.rows(numbers).view(np.uint32))
    np.testing.assert_allclose(norms.cpu(), np.linalg.norm(start.rows(numbers), axis=1), rtol=1e-5)
    signs = rows.signs(torch.from_numpy(numbers).to(rows.device))
    np.testing.assert_array_equal(signs.cpu(), start.signs(numbers))


def test_many_numbers_reach_both_ends():
    start, numbers = Start(3, 64), np.arange(1 << 8)
    made = rows_of(start, random_inputs(2, 64)).make(torch.from_numpy(numbers).to(find_device("cuda"))).cpu().numpy()
    np.testing.assert_array_equal(made.view(np.uint32), start.rows(numbers).view(np.uint32))
    assert np.abs(made).max() > 3.5  # where the second polynomial counts


@pytest.mark.parametrize("d", [2, 64, 130])
@pytest.mark.parametrize("double", [False, True])
def test_looks_are_inner_products(d, double):
    start, X, rng = Start(1, d), random_inputs(9, d), np.random.default_rng(0)
    rows = rows_of(start, X)
    numbers, inputs = rng.integers(0, 1000, 50), rng.integers(0, 9, 50).astype(np.int32)
    found = rows.look(*(torch.from_numpy(one).to(rows.device) for one in (numbers, inputs)), double=double)
    expected = np.einsum("pd,pd->p", start.rows(numbers).astype(float), X[inputs])
    np.testing.assert_allclose(found.cpu(), expected, rtol=0, atol=1e-13 if double else 3e-5)


@pytest.mark.parametrize(
    ("d", "twins", "shift"), [(5, False, 0.0), (64, True, 1.5), (100, False, 1.5), (150, True, 0.0)]
)
def test_a_scan_lists_every_pair_above_the_band(d, twins, shift):
    X, band, width = random_inputs(40, d), 0.3, 200
    settings = NetworkSettings.checked(width=width, dimension=d, shift=shift, seed=4, twins=twins)
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
