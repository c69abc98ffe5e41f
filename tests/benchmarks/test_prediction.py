"""The benchmark of predictions runs at small sizes, and its page shows what it wrote."""

import json

import pytest
from benchmarks import prediction

pytestmark = pytest.mark.thorough


def test_it_writes_what_the_page_shows(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(prediction, "ROWS", 100)
    path = tmp_path / "prediction.json"
    prediction.main(["--tiny", "--output", str(path)])
    figures = json.loads(path.read_text())
    models = [row["model"] for row in figures["rows"]]
    assert models[:2] == ["network", "compact form"]
    assert {"thresher", "SVC", "MLPRegressor"} <= set(models)
    assert all(row["milliseconds"] > 0 for row in figures["rows"])
    machine, table, _, defaults = prediction.part(figures)
    assert figures["environment"]["commit"] in machine
    assert table.count("\n") == len(models) + 2
    assert "compact form" in table
    assert defaults.count("\n") == len(figures["defaults"]) + 2
    assert {row["model"] for row in figures["defaults"][:2]} == {"thresher", "HistGradientBoostingRegressor"}
    assert all(row["seconds"] > 0 for row in figures["defaults"])
    assert "Prediction" in capsys.readouterr().out
