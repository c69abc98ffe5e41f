"""What the page on depth stands on: kernels of more layers, leave-one-out, and certificates when inputs move."""

import json

import naive
import numpy as np
import pytest
from benchmarks import page
from benchmarks.depth import __main__ as depth
from benchmarks.depth import layers, moving, trained
from benchmarks.depth.tables import Split, friedman
from scipy import integrate, stats

from thresher.theory import limit_kernel

WIDTH, SHIFT, RIDGE = 600, 1.2, 0.05


@pytest.fixture(scope="module")
def data():
    inputs, targets = friedman(columns=6, rows=25)
    return layers.lifted(Split(inputs, targets, inputs, targets), 0.5)[0], (targets - targets.mean()) / targets.std()


def network_of(data, **options):
    return moving.Network(*data, width=WIDTH, shift=SHIFT, ridge=RIDGE, **options)


def test_kernels_of_more_layers_are_the_expectations_that_define_them():
    """E[relu(u) relu(v)] and E[u > 0, v > 0] over normal numbers, layer after layer, by numerical integration."""
    for start in (-0.6, 0.0, 0.3, 0.95):
        correlation, kernel = start, start
        for depth_ in (1, 2, 3):
            covariance = [[1, correlation], [correlation, 1]]
            both = stats.multivariate_normal(cov=covariance, allow_singular=True).cdf([0, 0])
            rest = np.sqrt(1 - correlation**2)

            def weighted(u, rho=correlation, rest=rest):  # u phi(u) E[relu(v) | u]
                mean = rho * u
                return u * stats.norm.pdf(u) * (mean * stats.norm.cdf(mean / rest) + rest * stats.norm.pdf(mean / rest))

            correlation = 2 * integrate.quad(weighted, 0, 12)[0]
            kernel = 2 * both * kernel + correlation
            assert layers.tangent_kernel(np.array([[start]]), depth_)[0, 0] == pytest.approx(
                kernel / (depth_ + 1), abs=1e-5
            )
    assert np.allclose([kernel(np.ones((1, 1)))[0, 0] for kernel in layers.KERNELS.values()], 1.0)


def test_rows_are_left_out_exactly(data):
    rows, targets = data
    kernel, codes = layers.tangent_kernel(rows @ rows.T, 2), np.column_stack([targets, targets**2])
    for ridge, told in zip((1e-3, 0.1), layers.left_out_errors(kernel, codes, (1e-3, 0.1)), strict=True):
        missed = []
        for i in range(len(rows)):
            rest = np.delete(np.arange(len(rows)), i)
            solution = np.linalg.solve(kernel[np.ix_(rest, rest)] + ridge * np.eye(len(rest)), codes[rest])
            missed.append(kernel[i, rest] @ solution - codes[i])
        assert told == pytest.approx(np.mean(np.square(missed)))


def test_a_wide_step_is_the_dense_one(data):
    """What it leads to is the least of the penalised loss, were the network linear."""
    rows, _ = data
    network = network_of(data)
    J = naive.jacobian(network.start, network.signs, rows, SHIFT)
    G = naive.gram(network.start, network.signs, rows, SHIFT)
    np.testing.assert_allclose(network.gram(), G, atol=1e-12)
    expected = J.T @ np.linalg.solve(G + RIDGE * np.eye(len(rows)), network.targets)
    assert np.linalg.norm(network.moved) == 0
    network.wide_step()
    np.testing.assert_allclose(network.moved.ravel(), expected, atol=1e-10)
    W = network.start + network.moved
    np.testing.assert_allclose(network.outputs(), naive.outputs(W, network.signs, rows, SHIFT), atol=1e-10)
    np.testing.assert_allclose(network.predict(rows), network.gain * network.outputs(), atol=1e-9)


def test_the_direction_of_the_first_layer_is_that_of_differences(data):
    network = network_of(data)
    network.wide_step()
    change = network.descent(rotations=True)
    other, size = np.random.default_rng(0).standard_normal(change.shape), 1e-6
    before, losses = network.rows, []
    for sign in (1, -1):
        raw = before + sign * size * before @ other.T
        network.rows = raw / np.linalg.norm(raw, axis=1, keepdims=True)
        network.values = (network.start + network.moved) @ network.rows.T
        losses.append(network.loss())
    assert np.sum(change * other) == pytest.approx(-(losses[0] - losses[1]) / (2 * size), rel=1e-3)


@pytest.mark.parametrize("options", [{}, {"rank": 2}, {"rotations": True}])
@pytest.mark.parametrize("travel", [0.003, 0.1])
def test_no_flip_is_missed_and_few_pairs_are_looked_at(data, options, travel):
    _, records, _ = moving.train(*data, width=WIDTH, ridge=RIDGE, travel=travel, steps=6, **options)
    assert all(0 < one["flips"] <= one["looks"] < 1 for one in records)
    if travel < 0.01:
        assert max(one["looks"] for one in records) < 0.05


def test_certificates_that_forget_the_lengths_of_rows_are_caught(data):
    """Sabotage: a reach of the travel alone is what flips on average, not what is certain."""
    network = network_of(data)
    network.wide_step()
    change = moving.scaled_to(network.descent(), network.rows, 0.1)
    network.lengths, network.drift = 0.3 + 0 * network.lengths, 0 * network.drift
    with pytest.raises(moving.Missed, match="flipped before"):
        for _ in range(3):
            network.move_inputs(change)


def test_looks_and_flips_are_those_of_normal_numbers(data):
    rows, targets = data
    _, records, _ = moving.train(rows, targets, width=40000, ridge=RIDGE, travel=0.03, steps=1, shift=1.5)
    assert records[0]["looks"] == pytest.approx(records[0]["expected looks"], rel=0.1)
    assert records[0]["flips"] == pytest.approx(moving.expected_flips(1.5, 0.03), rel=0.1)


def test_a_rotation_of_all_inputs_changes_no_kernel(data):
    rows, _ = data
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((rows.shape[1],) * 2))[0]
    turned = rows @ turn.T
    kernels = [limit_kernel(np.clip(one @ one.T, -1, 1), SHIFT) for one in (rows, turned)]
    np.testing.assert_allclose(*kernels, atol=1e-12)
    network = network_of(data)
    network.wide_step()
    signs, W = network.signs, network.start + network.moved
    np.testing.assert_allclose(
        naive.outputs(W, signs, rows, SHIFT), naive.outputs(W @ turn.T, signs, turned, SHIFT), atol=1e-10
    )


@pytest.mark.thorough
def test_the_command_writes_the_page(tmp_path, capsys):
    path, text = tmp_path / "depth.json", tmp_path / "page.md"
    text.write_text("".join(f"{page.begin(name)}\n{page.END}\n" for name in depth.PARTS), encoding="utf-8")
    depth.main(["--tiny", "--output", str(path), "--page", str(text)])
    found = json.loads(path.read_text())
    assert set(found) == set(depth.PARTS) - {"sets"}  # these need a folder
    assert (tmp_path / "figures" / "depth_looks.svg").is_file()
    written = text.read_text(encoding="utf-8")
    assert written.count("Machine:") == len(found) and "better / worse than no features" in written
    for row in found["travel"]["rows"]:
        assert row["first"] <= 2 * row["theory"] + 0.01
    slope, _ = trained.exponents(found["width"]["rows"], 0.0, "pairs")
    assert slope == pytest.approx(1)
    capsys.readouterr()
