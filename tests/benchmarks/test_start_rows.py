"""Start rows side by side: at small sizes every training is told of, and a mean that is off by chance is not worse."""

import json

import pytest
from benchmarks import start_rows

pytestmark = pytest.mark.thorough


def test_every_kind_of_row_trains_on_every_problem(tmp_path, capsys):
    path = tmp_path / "rows.json"
    start_rows.main(["--tiny", "--seeds", "2", "--output", str(path)])
    rows = json.loads(path.read_text())["rows"]
    names = {row["problem"] for row in rows}
    assert names == {"sphere", "circle", "diabetes", "breast cancer", "wine", "digits, odd or even"}
    assert len(rows) == len(names) * len(start_rows.STARTS) * 2 * 2
    assert {row["start"] for row in rows} == set(start_rows.STARTS)
    told = start_rows.summarise(rows)
    table = start_rows.table_of(told).markdown()
    assert table.count("\n") == len(told) + 2 == len(rows) // 2 + 2
    assert "hadamard" in capsys.readouterr().out


def row(start, seed, iterations):
    about = {"problem": "one", "inputs": 5, "dimension": 2, "width": 8, "twins": False, "converged": True}
    return about | {"start": start, "seed": seed, "iterations": iterations, "second": -1.0, "last": -6.0, "missed": 0.1}


@pytest.mark.parametrize(
    ("other", "worse", "better"),
    [
        ((5, 6, 5, 6), [], []),
        ((6, 7, 6, 6), [], []),
        ((9, 9, 8, 9), ["iterations"], []),
        ((1, 2, 1, 1), [], ["iterations"]),
    ],
)
def test_only_what_noise_does_not_explain_is_worse_or_better(other, worse, better):
    rows = [row("random", seed, count) for seed, count in enumerate((5, 5, 6, 6))]
    rows += [row("hadamard", seed, count) for seed, count in enumerate(other)]
    base, found = start_rows.summarise(rows)
    assert (base["worse"], base["better"]) == ([], [])
    assert (found["worse"], found["better"]) == (worse, better)
