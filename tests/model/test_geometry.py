"""What searches know of the inputs: products, the same in few steps, and the room that making them takes."""

import tracemalloc

import numpy as np
import pytest

from thresher.model.geometry import Geometry


def sphere(n, d, seed):
    inputs = np.random.default_rng(seed).normal(size=(n, d))
    return inputs / np.linalg.norm(inputs, axis=1, keepdims=True)


class TestCoarseProducts:
    @pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 200])
    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_each_is_off_by_the_error_at_most_and_one_by_as_much(self, n, dtype):
        geometry = Geometry.of(sphere(n, 7, seed=n), dtype=dtype)
        steps, step, error = geometry.coarse_products
        off = np.abs(geometry.products - steps * step)
        assert steps.dtype == np.int8
        assert off.max() == error <= step / 2 * (1 + 1e-9)

    def test_equal_opposite_and_orthogonal_inputs_lose_nothing(self):
        inputs = np.array([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
        steps, _, error = Geometry.of(inputs, dtype="float32").coarse_products
        assert steps.tolist()[0] == [127, 127, -127, 0]
        assert error < 1e-15

    def test_where_no_products_are_kept_there_are_none(self):
        geometry = Geometry.of(sphere(9, 3, seed=0), dtype="float32", products=False)
        assert geometry.coarse_products.steps.shape == (0, 0)
        assert geometry.coarse_products.error == 0.0

    def test_takes_no_room_for_another_matrix_of_float64(self):
        inputs, n = sphere(1000, 20, seed=0), 1000
        tracemalloc.start()
        try:
            geometry = Geometry.of(inputs, dtype="float32")
            kept, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert geometry.coarse_products.steps.shape == (n, n)
        assert kept < 13.5 * n * n  # float64, float32 and one byte
        assert peak < 24 * n * n
