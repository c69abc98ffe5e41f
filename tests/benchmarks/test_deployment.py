"""The benchmark of deployment runs at small sizes, and its page shows what it wrote."""

import json

import pytest
from benchmarks import deployment, page

pytestmark = pytest.mark.thorough


def test_it_writes_what_the_page_shows(tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime", reason="an extra")
    monkeypatch.setattr(deployment, "MANY", 20)
    path, shown = tmp_path / "deployment.json", tmp_path / "page.md"
    shown.write_text(f"{page.begin('deployment')}\n{page.END}\n")
    deployment.main(["--tiny", "--output", str(path), "--page", str(shown)])
    found = json.loads(path.read_text())
    assert [row["apart"] < 1e-3 for row in found["models"]] == [True] * 5
    assert "numbers, names, dates" in shown.read_text()
    assert shown.read_text().count("\n|") == 5 + 2
