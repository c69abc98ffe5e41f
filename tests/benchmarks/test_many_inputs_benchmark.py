"""The benchmark of many inputs trains on files of digits, and writes its table between the marks of a page."""

import gzip
import json

import numpy as np
import pytest
from benchmarks import many_inputs, page

pytestmark = pytest.mark.thorough


def test_it_writes_a_row_for_each_step(tmp_path):
    rng = np.random.default_rng(0)
    files = {"train-images-idx3-ubyte.gz": (16, 40 * 784), "train-labels-idx1-ubyte.gz": (8, 40)}
    for name, (header, size) in files.items():
        with gzip.open(tmp_path / name, "wb") as file:
            file.write(bytes(header) + rng.integers(0, 256, size).astype(np.uint8).tobytes())
    figures, shown = tmp_path / "figures.json", tmp_path / "page.md"
    shown.write_text(f"Before\n\n{page.begin('many_inputs')}\nold\n{page.END}\n\nAfter\n")
    options = {"mnist": tmp_path, "inputs": 40, "width": 2000, "threads": 1, "output": figures, "page": shown}
    many_inputs.main([word for name, value in options.items() for word in (f"--{name}", str(value))])
    found, text = json.loads(figures.read_text()), shown.read_text()
    assert "old" not in text and text.startswith("Before") and text.endswith("After\n")
    for row in found["rows"][1:]:
        assert f"| {row['iteration']} | {row['residual']:.3g} | " in text
        assert f" | {row['flips']:,} | " in text
    assert text.count("\n| ") == len(found["rows"]) + 2
    assert found["environment"]["commit"] in text


def test_the_page_has_the_marks_and_the_header_that_it_writes():
    row = {"iteration": 0, "residual": 1.0, "products": 0, "flips": 0, "seconds": 1.0, "gib": 1.0}
    shape = {"cores": 1, "processor": "", "memory_gib": 1, "python": "", "versions": {}, "commit": ""}
    table, _ = many_inputs.part({"rows": [row], "device": "cuda", "threads": 1, "environment": shape})
    _, mark, rest = many_inputs.PAGE.read_text(encoding="utf-8").partition(page.begin("many_inputs"))
    assert mark and rest.strip().startswith("\n".join(table.splitlines()[:2]))
