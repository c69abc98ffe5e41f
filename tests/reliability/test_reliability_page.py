"""The page of reliability: new figures replace a section, all others stay."""

from reliability import page

BEFORE = "# Reliability\n\nOld words.\n\n## Kills\n\n50 processes.\n\n## Lines covered\n\nOld figures.\n"
FIGURES = {
    "lines": 200,
    "covered": 190,
    "missing": {"cli/bench.py": [1, 2, 3], "memory.py": [4]},
    "compiled": 30,
}


def test_sections_without_new_figures_stay(monkeypatch):
    monkeypatch.setattr(page, "machine", lambda figures: "A machine.\n")
    made = page.page({"covered": FIGURES}, BEFORE)
    assert "50 processes." in made
    assert "Old figures." not in made
    assert "**95.0%** of 200 lines" in made
    assert "`cli/bench.py` (3), `memory.py` (1)" in made
    assert page.page({"covered": FIGURES}, made) == made
    assert made.startswith(page.PROMISES)
