"""The docs: every Python block runs, pages are reachable, figures exist, and the site builds without a warning."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(path.stem for path in DOCS.glob("*.md"))
RUNNABLE = ["quickstart", "choose", "estimators", "notebooks", "tutorial_digits", "tutorial_index"]
SMALLER = [("10**6", "10**4")]  # the tutorial says a million; here the words count, not the width


def blocks(page):
    return re.findall(
        r"^```python\n(.*?)^```", (DOCS / f"{page}.md").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )


@pytest.mark.parametrize("page", RUNNABLE)
def test_code_in_the_docs_runs(page, monkeypatch):
    pytest.importorskip("matplotlib").use("agg")
    names = {"__name__": "docs"}
    found = blocks(page)
    assert found
    for number, block in enumerate(found):
        for long, short in SMALLER:
            block = block.replace(long, short)
        exec(compile(block, f"{page}.md, block {number}", "exec"), names)


def test_no_page_has_blocks_that_are_never_run():
    # verify.md has one that needs a problem of the reader's own
    assert {page for page in PAGES if blocks(page)} == {*RUNNABLE, "verify"}


def test_every_page_is_in_the_table_of_contents():
    listed = set(re.findall(r"^(\w+)$", (DOCS / "index.md").read_text(), re.MULTILINE))
    assert {page for page in PAGES if page != "index"} <= listed


@pytest.mark.parametrize("page", PAGES)
def test_figures_and_pages_that_are_named_exist(page):
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    for words, target in re.findall(r"!\[([^]]*)\]\(([^)]+)\)", text):
        assert (DOCS / target).is_file(), target
        assert len(words) > 3, f"{target} has no words for those who do not see it"
    for target in re.findall(r"[^!]\[[^]]*\]\(([\w/.]+\.md)", text):
        assert (DOCS / target).is_file(), target


def test_the_site_builds_without_a_warning_and_asks_for_no_network(tmp_path):
    pytest.importorskip("furo", reason="the site needs pip install 'thresher[docs]'")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", str(DOCS), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for page in tmp_path.glob("*.html"):
        loaded = re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(https?:)?//', page.read_text(encoding="utf-8"))
        assert not loaded, page.name
    assert "<math" in (tmp_path / "mathematics.html").read_text(encoding="utf-8")
