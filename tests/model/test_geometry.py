"""What searches know of the inputs, and the room that making it takes."""

import tracemalloc

import numpy as np

from thresher.model.geometry import Geometry


def test_products_take_no_room_for_another_matrix_of_float64():
    n = 1000
    inputs = np.random.default_rng(0).normal(size=(n, 20))
    inputs /= np.linalg.norm(inputs, axis=1, keepdims=True)
    tracemalloc.start()
    try:
        geometry = Geometry.of(inputs, dtype="float32")
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert geometry.products.shape == geometry.fast_products.shape == (n, n)
    assert kept < 12.5 * n * n  # float64 and float32
    assert peak < 24 * n * n
