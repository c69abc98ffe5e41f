"""The benchmark of the kernel's entries runs at small sizes, and its page shows what it wrote."""

import json

import pytest
from benchmarks import kernel_entries, page

pytestmark = pytest.mark.thorough


def test_it_writes_what_the_page_shows(tmp_path, capsys):
    path, text = tmp_path / "entries.json", tmp_path / "page.md"
    text.write_text(f"before\n{page.begin('kernel entries')}\n{page.END}\nafter\n", encoding="utf-8")
    kernel_entries.main(["--tiny", "--output", str(path), "--page", str(text)])
    figures = json.loads(path.read_text())
    assert [row["columns"] for row in figures["entries"]] == list(kernel_entries.COLUMNS)
    assert all(0 < row["plain"] < row["floor"] and row["mixed"] > 0 for row in figures["entries"])
    written = text.read_text(encoding="utf-8")
    assert figures["environment"]["commit"] in written and written.count("\n| ") == 2 + len(figures["entries"])
    assert "What an entry" in capsys.readouterr().out
