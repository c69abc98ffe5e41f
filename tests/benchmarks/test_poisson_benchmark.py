"""The benchmark of starts drawn where they fire: it runs, and its page says what was measured."""

import json
import sys

from benchmarks import poisson
from benchmarks.page import poisson_part


def test_it_measures_and_writes_a_part_of_the_page(monkeypatch, tmp_path):
    monkeypatch.setattr(poisson, "TINY", [(4, 8, 2**12), (4, 8, 2**14)])
    monkeypatch.setattr(sys, "argv", ["poisson", "--tiny", "--output", str(tmp_path / "found.json")])
    poisson.main()
    found = json.loads((tmp_path / "found.json").read_text())
    assert [row["status"] for row in found["rows"]] == ["converged"] * 2
    assert all(row["peak"] > 0 and row["processor seconds"] > 0 for row in found["rows"])
    assert 0.5 < found["exponent of neurons drawn"][0] < 0.9
    page = "\n".join(poisson_part(found))
    assert "| 4, 8 | 16,384 |" in page
    assert "exponent of seconds" in page
