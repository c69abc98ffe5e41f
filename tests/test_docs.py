"""The docs: every Python block runs, pages are reachable, figures exist, and the site builds without a warning."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from reader import code_of, run_page, same

import thresher
import thresher.errors
import thresher.report

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(path.stem for path in DOCS.glob("*.md"))
RUNNABLE = ["activations", "index", "quickstart", "choose", "coming_from", "effects", "estimators", "example_churn",
            "example_counts", "example_houses", "example_images", "example_million", "losses", "tables", "notebooks",
            "own_loss", "tutorial_digits", "tutorial_index", "tutorial_table"]  # fmt: skip
NAMES = {path.name for room in ("src", "tests", "benchmarks") for path in (ROOT / room).rglob("*.py")}
YOURS = {"score.py", "score_numpy.py"}  # a reader writes them
SMALLER = [("10**6", "10**4")]  # the tutorial says a million; here the words count, not the width


@pytest.mark.parametrize(
    "page",
    [page if page in ("index", "quickstart") else pytest.param(page, marks=pytest.mark.thorough) for page in RUNNABLE],
)
def test_code_in_the_docs_runs_and_prints_what_is_shown(page, monkeypatch, tmp_path):
    pytest.importorskip("matplotlib").use("agg")
    if page == "tutorial_table":
        pytest.importorskip("onnxruntime", reason="the extra 'onnx'")
    monkeypatch.chdir(tmp_path)
    assert code_of(page)
    for printed, said in run_page(page, SMALLER):
        assert same(printed, said), (printed, said)


@pytest.mark.parametrize(
    "printed, said, equal",
    [
        ("R2 0.95 on 40 rows\n", "R2 0.96 on 40 rows", True),
        ("R2 0.95 on 40 rows", "R2 0.75 on 40 rows", False),
        ("R2 0.95 on 40 rows", "R2 0.95 of 40 rows", False),
        ("a\nFitted in 3.1 s.", "a\nFitted in 19.4 s, and more", True),
        ("a\nb", "a", False),
    ],
)
def test_what_counts_as_the_same_output(printed, said, equal):
    assert same(printed, said) is equal


def test_no_page_has_blocks_that_are_never_run():
    # verify.md has one that needs a problem of the reader's own
    assert {page for page in PAGES if code_of(page)} == {*RUNNABLE, "verify"}


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


def anchors(page):
    """What a link to a part of a page may name: its headings, as repositories and the site spell them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = [
        re.sub(r"[^\w\- ]", "", words.strip().lower()) for words in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    ]
    return {words.replace(" ", "-") for words in headings}


@pytest.mark.parametrize(
    "page", [*(f"docs/{page}.md" for page in PAGES), "README.md", "CHANGELOG.md", "CONTRIBUTING.md"]
)
def test_parts_of_pages_that_are_named_exist(page):
    here = ROOT / page
    for name, part in re.findall(r"\]\(([\w/.]*)#([^)\s]+)\)", here.read_text(encoding="utf-8")):
        assert part in anchors(here.parent / name if name else here), f"{name}#{part}"


@pytest.mark.parametrize("room", [thresher, thresher.report], ids=lambda room: room.__name__)
def test_what_is_public_is_in_the_reference(room):
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    for name in room.__all__:
        told = name.isupper() or name.startswith("_") or hasattr(thresher.errors, name)  # the page lists all errors
        assert told or re.search(rf"[ .]{name}\b", text), name


@pytest.mark.parametrize("page", PAGES)
def test_source_files_that_are_named_exist(page):
    """By a path from the root or from the package, or by a name alone; measured tables name those of their commit."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    lines = [
        line
        for line in text.splitlines()
        if not re.search(r"^\| .*\.py.*, line \d+ \||in the files of that commit", line)
    ]
    for name in {*re.findall(r"[\w./]*\w\.py\b", "\n".join(lines))} - YOURS:
        assert name in NAMES or any((ROOT / room / name).is_file() for room in ("", "src", "src/thresher")), name


@pytest.mark.thorough
def test_the_site_builds_without_a_warning_and_asks_for_no_network(tmp_path):
    pytest.importorskip("furo", reason="the site needs pip install 'thresher-ml[docs]'")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", str(DOCS), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for page in tmp_path.glob("*.html"):
        loaded = re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(https?:)?//', page.read_text(encoding="utf-8"))
        assert not loaded, page.name
    assert "<math" in (tmp_path / "mathematics.html").read_text(encoding="utf-8")


def test_limits_are_those_of_the_code():
    text = (DOCS / "limits.md").read_text(encoding="utf-8")
    assert runpy.run_path(str(DOCS / "limits.py"))["page"](text) == text, "python docs/limits.py writes it again"


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md", "docs/estimators.md", "docs/architecture.md"])
def test_sentences_are_short(page):
    text = re.sub(r"```.*?```|^    .*?$|^\|.*?$|!\[.*?\]\(.*?\)", "", (ROOT / page).read_text(), flags=re.S | re.M)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    paragraphs = re.split(r"\n\s*\n|\n- |\n\d+\. |\n#+ [^\n]*", text)
    sentences = [
        one for part in paragraphs for one in re.split(r"(?<=[.!?])\s+(?=[A-Z`*\"\[(])", " ".join(part.split()))
    ]
    assert len(sentences) > 10
    assert not [one for one in sentences if len(one.split()) > 35]


def test_the_readme_can_be_taken_in_at_a_glance():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 90
