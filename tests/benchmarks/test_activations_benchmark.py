"""The benchmark of activations runs."""

from benchmarks.activations import looks


def test_looks_are_counted_at_each_width():
    rows = [looks.measure(name, width, inputs=4, dimension=5) for name in ("relu", "hat") for width in (256, 512)]
    fitted = looks.exponents(rows)
    assert set(fitted) == {"relu", "hat"}
    text = looks.sheet(rows, fitted).markdown()
    assert "| hat |" in text and "exponent" in text
