"""Screens in 8 bits: whole numbers that are exact, bounds that hold, and the instructions that make them fast."""

import llvmlite.binding as llvm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llvmlite import ir

from thresher import to_sphere
from thresher.loops import screen


def make(rows, inputs, d, *, seed, spread=1.0):
    """Rows (rows, d) and inputs (inputs, d); a spread above 1 makes a few coordinates far larger than the others."""
    random = np.random.default_rng(seed)
    sizes = spread ** random.normal(size=d)
    W = (random.normal(size=(rows, d)) * sizes * 10.0 ** random.uniform(-3, 3)).astype(np.float32)
    return W, to_sphere(random.normal(size=(inputs, d)) * sizes[::-1])


def bounds_of(W, X):
    """Upper bounds of W X^T, chunk by chunk."""
    rows, inputs = screen.round_rows(np.ascontiguousarray(W.T)), screen.round_inputs(X, plainly=True)
    room, found = screen.room_for(inputs), np.empty((len(W), len(X)), np.float32)
    for first in range(0, len(W), screen.CHUNK):
        last = min(first + screen.CHUNK, len(W))
        screen.bound_rows(rows, first, last, inputs, W.shape[1], room, found[first:last])
    return found


shapes = {
    "rows": st.integers(1, 40), "inputs": st.integers(1, 90), "d": st.integers(1, 70),
    "seed": st.integers(0, 2**16), "spread": st.sampled_from([1.0, 30.0]),
}  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(**shapes)
def test_bounds_are_above_what_they_bound_and_not_far(rows, inputs, d, seed, spread):
    W, X = make(rows, inputs, d, seed=seed, spread=spread)
    exact, found = W.astype(np.float64) @ X.T, bounds_of(W, X)
    assert (found >= exact).all()
    steps = (np.abs(W).max(axis=1)[:, None] + np.linalg.norm(W, axis=1)[:, None] * np.abs(X).max(axis=1)) / 127
    assert (found <= exact + 1.01 * np.sqrt(d) * steps).all()


@settings(max_examples=60, deadline=None)
@given(**shapes)
def test_sums_are_those_of_the_whole_numbers(rows, inputs, d, seed, spread):
    W, X = make(rows, inputs, d, seed=seed, spread=spread)
    made, rounded = screen.round_rows(np.ascontiguousarray(W.T)), screen.round_inputs(X, plainly=True)
    steps = made.steps.astype(np.float64)[:, None]
    whole = np.rint(W / steps)
    assert np.abs(whole).max() <= 127
    np.testing.assert_array_equal(made.sums, whole.sum(axis=1))
    np.testing.assert_allclose(made.errors, np.linalg.norm(W - whole * steps, axis=1), rtol=1e-3, atol=1e-6)
    first = (rows // 2) // 4 * 4
    count = min(rows - first, screen.CHUNK)
    products = screen.room_for(rounded)
    screen._multiply_plainly(rounded.panels, made.words, first, first + count, products)
    others = np.rint(X / rounded.steps.astype(np.float64)[:, None]) + screen.OFFSET
    np.testing.assert_array_equal(products[:count, :inputs], (whole @ others.T)[first : first + count])
    if screen.INSTRUCTIONS:
        again = screen.room_for(rounded)
        screen._multiply_in_tiles(rounded.panels, made.words, first, first + count, again)
        np.testing.assert_array_equal(again[:count], products[:count])


def test_the_largest_sums_fit():
    d = screen.LONGEST
    W, X = np.ones((4, d), np.float32), to_sphere(np.ones((2, d)))
    for sign in (1, -1):
        found = bounds_of(sign * W, X)
        np.testing.assert_allclose(found, sign * np.sqrt(d), rtol=1e-3)
        assert (found >= sign * W.astype(np.float64) @ X.T).all()


def test_rows_of_zeros_fire_on_nothing():
    W, X = make(9, 5, 6, seed=0)
    W[[0, 4]] = 0
    W[7] = 1e-30
    assert (np.isneginf(bounds_of(W, X)).all(axis=1) == np.isin(np.arange(9), [0, 4, 7])).all()


@pytest.mark.parametrize("lost", ["rows", "inputs"])
def test_each_part_of_the_guard_is_needed(lost, monkeypatch):
    """Coordinate vectors are rounded exactly, so that only the others need a guard."""
    W, X = make(40, 90, 20, seed=0)
    W, X = (W, np.eye(20)) if lost == "rows" else (np.eye(20, dtype=np.float32), X)
    exact, name = W.astype(np.float64) @ X.T, f"round_{lost}"
    assert (bounds_of(W, X) >= exact).all()
    original = getattr(screen, name)

    def careless(*given, **named):
        made = original(*given, **named)
        return made._replace(errors=0 * made.errors)

    monkeypatch.setattr(screen, name, careless)
    assert 0.2 < np.mean(bounds_of(W, X)[exact != 0] < exact[exact != 0]) < 0.8


@pytest.mark.parametrize(
    ("processor", "lanes", "vectors", "register"),
    [("icelake-server", 16, 4, "%zmm"), ("znver4", 16, 4, "%zmm"), ("alderlake", 8, 2, "%ymm")],
)
def test_a_tile_is_products_of_bytes_and_little_else(processor, lanes, vectors, register):
    """Compiled for processors that need not be at hand, and read."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple("x86_64-unknown-linux-gnu")
    module, long = ir.Module(), ir.IntType(64)
    module.triple = target.triple
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [long] * 6), "tile")
    builder = ir.IRBuilder(function.append_basic_block())
    screen.write_tile(builder, function.args, lanes=lanes, vectors=vectors)
    builder.ret_void()
    parsed = llvm.parse_assembly(str(module))
    parsed.verify()
    lines = target.create_target_machine(cpu=processor, opt=3).emit_assembly(parsed).splitlines()
    products = [line for line in lines if "vpdpbusd" in line]
    assert len(products) == 4 * vectors
    assert all(register in line for line in products)
    first, last = (lines.index(products[k]) for k in (0, -1))
    assert not [line for line in lines[first:last] if "rsp" in line]  # nothing is put aside
