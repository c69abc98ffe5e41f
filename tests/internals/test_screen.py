"""Screens in whole numbers: sums that are exact, bounds that hold, and the instructions that make them fast."""

import llvmlite.binding as llvm
import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llvmlite import ir
from properties import examples

from thresher import to_sphere
from thresher.loops import screen
from thresher.loops.instructions import whole
from thresher.loops.instructions.whole import PLAIN, WAYS, Way

BITS = (8, 16)
LARGEST = {8: 127, 16: 32767}


def make(rows, inputs, d, *, seed, spread=1.0):
    """Rows (rows, d) and inputs (inputs, d); a spread above 1 makes a few coordinates far larger than the others."""
    random = np.random.default_rng(seed)
    sizes = spread ** random.normal(size=d)
    W = (random.normal(size=(rows, d)) * sizes * 10.0 ** random.uniform(-3, 3)).astype(np.float32)
    return W, to_sphere(random.normal(size=(inputs, d)) * sizes[::-1])


@numba.njit
def bounds_of_row(rows, r, inputs, d, products, out):
    everything = np.arange(out.size)
    screen.pick_bounds(rows, r, inputs, screen.guard_of(rows, r, inputs, d), products, everything, out.size, out)


@numba.njit
def level_of_row(rows, r, inputs, d, level):
    return screen.level_of(rows, r, inputs, screen.guard_of(rows, r, inputs, d), level)


def products_of(rows, inputs, count):
    """The products of whole numbers of the first ``count`` rows with all inputs, chunk by chunk.

    Checks the bits that say which of them reach levels: here some product of each row.
    """
    room = screen.room_for(inputs)
    found = np.empty((count, room.sums.shape[1]), np.int32)
    for first in range(0, count, screen.IN_CACHE):
        last = min(first + screen.IN_CACHE, count)
        screen.multiply_rows(rows, first, last, inputs, room)
        found[first:last] = room.sums[: last - first]
        room.levels[: last - first] = [row[7 * r % len(row)] for r, row in enumerate(found[first:last])]
        screen.multiply_rows(rows, first, last, inputs, room)
        bits = np.unpackbits(room.reached.view(np.uint8), axis=1, bitorder="little")[: last - first]
        expected = found[first:last] >= room.levels[: last - first, None]
        np.testing.assert_array_equal(bits[:, : expected.shape[1]], expected)
    return found


def bounds_of(W, X, bits):
    """Upper bounds of W Xᵀ."""
    rows, inputs = screen.round_rows(np.ascontiguousarray(W.T), bits), screen.round_inputs(X, Way(bits, PLAIN))
    products, found = products_of(rows, inputs, len(W)), np.empty((len(W), len(X)), np.float32)
    for r in range(len(W)):
        bounds_of_row(rows, r, inputs, W.shape[1], products[r], found[r])
    return found


shapes = {
    "rows": st.integers(1, 60), "inputs": st.integers(1, 90), "d": st.integers(1, 70),
    "seed": st.integers(0, 2**16), "spread": st.sampled_from([1.0, 30.0]), "bits": st.sampled_from(BITS),
}  # fmt: skip


@settings(max_examples=examples(80), deadline=None)
@given(**shapes)
def test_bounds_are_above_what_they_bound_and_not_far(rows, inputs, d, seed, spread, bits):
    W, X = make(rows, inputs, d, seed=seed, spread=spread)
    exact, found = W.astype(np.float64) @ X.T, bounds_of(W, X, bits)
    assert (found >= exact).all()
    norms = np.linalg.norm(W, axis=1)[:, None]
    steps = (np.abs(W).max(axis=1)[:, None] + norms * np.abs(X).max()) / LARGEST[bits]
    if bits == 16:
        steps = np.maximum(steps, norms / 20_000)
    assert (found <= exact + 1.01 * np.sqrt(d) * steps + 4e-6 * norms).all()


@settings(max_examples=examples(60), deadline=None)
@given(**shapes, level=st.floats(-3, 3))
def test_no_product_below_the_level_belongs_to_a_pair_that_reaches_it(rows, inputs, d, seed, spread, bits, level):
    W, X = make(rows, inputs, d, seed=seed, spread=spread)
    level *= float(np.abs(W).max())
    made, rounded = screen.round_rows(np.ascontiguousarray(W.T), bits), screen.round_inputs(X, Way(bits, PLAIN))
    products = products_of(made, rounded, rows)[:, :inputs]
    least = np.array([level_of_row(made, r, rounded, d, level) for r in range(rows)])[:, None]
    exact, bounds = W.astype(np.float64) @ X.T, bounds_of(W, X, bits)
    assert (products[exact >= level] >= np.broadcast_to(least, exact.shape)[exact >= level]).all()
    few = 1e-6 * np.linalg.norm(W, axis=1)[:, None] + 3 * made.steps[:, None] * rounded.step
    assert (bounds[products >= least] >= np.broadcast_to(level - few, exact.shape)[products >= least]).all()


@settings(max_examples=examples(60), deadline=None)
@given(**shapes)
def test_sums_are_those_of_the_whole_numbers(rows, inputs, d, seed, spread, bits):
    W, X = make(rows, inputs, d, seed=seed, spread=spread)
    made, rounded = screen.round_rows(np.ascontiguousarray(W.T), bits), screen.round_inputs(X, Way(bits, PLAIN))
    steps = made.steps.astype(np.float64)[:, None]
    numbers = np.rint(W / steps)
    numbers = np.where(np.abs(W / steps - np.rint(W / steps)) > 0.499, np.nan, numbers)  # rounded either way
    assert np.nanmax(np.abs(numbers), initial=0) <= LARGEST[bits]
    sure = ~np.isnan(numbers).any(axis=1)
    np.testing.assert_array_equal(made.sums[sure], numbers[sure].sum(axis=1))
    np.testing.assert_allclose(
        made.errors[sure], np.linalg.norm((W - numbers * steps)[sure], axis=1), rtol=1e-2, atol=1e-5 * np.abs(W).max()
    )
    others = np.rint(X / rounded.step) + (screen.OFFSET if bits == 8 else 0)
    products = products_of(made, rounded, rows)[:, :inputs]
    np.testing.assert_array_equal(products[sure], (numbers[sure] @ others.T))
    if any(way.bits == bits for way in WAYS):
        again = products_of(made, rounded._replace(plainly=None), rows)[:, :inputs]
        np.testing.assert_array_equal(again, products)


@pytest.mark.parametrize("d", [1, 200, 700])
def test_long_rows_are_multiplied_in_parts(d):
    W, X = make(50, 40, d, seed=d)
    made = screen.round_rows(np.ascontiguousarray(W.T), 16)
    rounded = screen.round_inputs(X, Way(16, PLAIN))
    plain = products_of(made, rounded, 50)
    if any(way.bits == 16 for way in WAYS):
        np.testing.assert_array_equal(products_of(made, rounded._replace(plainly=None), 50)[:, :40], plain[:, :40])
    assert (bounds_of(W, X, 16) >= W.astype(np.float64) @ X.T).all()


@settings(max_examples=examples(60), deadline=None)
@given(
    d=st.integers(1, 70), count=st.integers(0, 30), seed=st.integers(0, 2**16), size=st.sampled_from([1e-4, 1, 1e4]),
    plainly=st.sampled_from([True] if not WAYS else [True, None]), spike=st.booleans(),
)  # fmt: skip
def test_single_products_are_as_near_as_they_say(d, count, seed, size, plainly, spike):
    random = np.random.default_rng(seed)
    X, vector = to_sphere(random.normal(size=(40, d))), size * random.normal(size=d)
    if spike:
        vector[1:] = 0
    rounded = screen.round_inputs(X, Way(16, PLAIN))._replace(plainly=plainly)
    fast = screen.padded(vector[None], np.float32)[0]
    norm = float(np.linalg.norm(fast.astype(np.float64))) * (1 + 2.5e-5)
    listed = random.integers(0, 40, size=count).astype(np.uint16)
    halves, sums, found = np.zeros(rounded.rows.shape[1], np.int16), np.empty(40, np.int32), np.empty(40, np.float32)
    slack = screen.change_nearly(fast, norm, rounded, d, listed, count, halves, sums, found)
    error = np.abs(found[:count] - X[listed] @ fast[:d].astype(np.float64))
    assert error.max(initial=0) <= slack <= 1e-3 * norm * np.sqrt(d)


@pytest.mark.parametrize("bits", BITS)
def test_the_largest_sums_fit(bits):
    d = screen.LONGEST
    W, X = np.ones((4, d), np.float32), to_sphere(np.ones((2, d)))
    for sign in (1, -1):
        found = bounds_of(sign * W, X, bits)
        np.testing.assert_allclose(found, sign * np.sqrt(d), rtol=3e-2)
        assert (found >= sign * W.astype(np.float64) @ X.T).all()
    for unit in (np.eye(1, d), np.eye(1, 3)):
        np.testing.assert_allclose(bounds_of(50 * unit.astype(np.float32), unit, bits), 50, rtol=3e-2)


@pytest.mark.parametrize("bits", BITS)
def test_rows_of_zeros_fire_on_nothing(bits):
    W, X = make(9, 5, 6, seed=0)
    W[[0, 4]] = 0
    W[7] = 1e-30
    made, rounded = screen.round_rows(np.ascontiguousarray(W.T), bits), screen.round_inputs(X, Way(bits, PLAIN))
    products = products_of(made, rounded, 9)[:, :5]
    fires = [(products[r] >= level_of_row(made, r, rounded, 6, -1e9)).any() for r in range(9)]
    assert (np.array(fires) == ~np.isin(np.arange(9), [0, 4, 7])).all()


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("lost", ["rows", "inputs"])
def test_each_part_of_the_guard_is_needed(lost, bits, monkeypatch):
    """Coordinate vectors are rounded exactly, so that only the others need a guard."""
    W, X = make(40, 90, 20, seed=0)
    W, X = (W, np.eye(20)) if lost == "rows" else (np.eye(20, dtype=np.float32), X)
    exact, name, part = W.astype(np.float64) @ X.T, f"round_{lost}", "errors" if lost == "rows" else "error"
    assert (bounds_of(W, X, bits) >= exact).all()
    original = getattr(screen, name)

    def careless(*given, **named):
        made = original(*given, **named)
        return made._replace(**{part: 0 * getattr(made, part)})

    monkeypatch.setattr(screen, name, careless)
    assert 0.15 < np.mean(bounds_of(W, X, bits)[exact != 0] < exact[exact != 0]) < 0.8


@pytest.mark.parametrize(
    ("processor", "way", "shape", "instruction", "register"),
    [
        ("haswell", Way(16, "avx2"), (8, 2, 6), "vpmaddwd", "%ymm"),
        ("znver3", Way(16, "avx2"), (8, 2, 6), "vpmaddwd", "%ymm"),
        ("skylake-avx512", Way(16, "avx512"), (16, 4, 4), "vpmaddwd", "%zmm"),
        ("icelake-server", Way(16, "avx512-vnni"), (16, 4, 4), "vpdpwssd", "%zmm"),
        ("icelake-server", Way(8, "avx512-vnni"), (16, 4, 4), "vpdpbusd", "%zmm"),
        ("znver4", Way(8, "avx512-vnni"), (16, 4, 4), "vpdpbusd", "%zmm"),
        ("alderlake", Way(8, "avx-vnni"), (8, 2, 6), "vpdpbusd", "%ymm"),
        ("alderlake", Way(16, "avx-vnni"), (8, 2, 6), "vpdpwssd", "%ymm"),
    ],
    ids=str,
)
@pytest.mark.parametrize("adds", [False, True])
def test_a_tile_is_products_and_little_else(processor, way, shape, instruction, register, adds):
    """Compiled for processors that need not be at hand, and read."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target, (lanes, vectors, rows) = llvm.Target.from_triple("x86_64-unknown-linux-gnu"), shape
    module, long = ir.Module(), ir.IntType(64)
    module.triple = target.triple
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [long] * 8), "tile")
    builder = ir.IRBuilder(function.append_basic_block())
    whole.write_tile(builder, function.args, way=way, adds=adds, lanes=lanes, vectors=vectors, rows=rows)
    builder.ret_void()
    parsed = llvm.parse_assembly(str(module))
    parsed.verify()
    lines = target.create_target_machine(cpu=processor, opt=3).emit_assembly(parsed).splitlines()
    products = [line for line in lines if instruction in line]
    assert len(products) % (rows * vectors) == 0
    assert products
    assert all(register in line for line in products)
    first, last = (lines.index(products[k]) for k in (0, -1))
    assert not [line for line in lines[first:last] if "rsp" in line]  # nothing is put aside
