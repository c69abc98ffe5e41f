"""The comparison of preconditioners runs at small sizes and writes what it shows."""

import json

import pytest
from benchmarks import preconditioners

pytestmark = pytest.mark.thorough


def test_every_preconditioner_solves_the_same_systems(tmp_path, capsys):
    path = tmp_path / "preconditioners.json"
    preconditioners.main(["--tiny", "--output", str(path)])
    rows = json.loads(path.read_text())["rows"]
    names = {row["preconditioner"] for row in rows}
    assert names == {
        "diagonal",
        "sketch, 2 n rows",
        "sketch, 8 n rows",
        "random pivots, n / 16",
        "random pivots, n / 4",
    }
    assert len(rows) == len(names) * len(preconditioners.ITERATIONS)
    assert all(0 < row["products to 1e-02"] <= row["products to 1e-06"] for row in rows)
    table = preconditioners.table_of(rows).markdown()
    assert table.count("\n") == len(rows) + 2
    assert "random pivots, n / 16" in table
    assert "products to 1e-02" in capsys.readouterr().out
