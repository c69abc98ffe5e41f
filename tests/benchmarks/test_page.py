"""Commands write the tables of docs/benchmarks.md: each stands in a part that a command writes, with its commit."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from benchmarks import certified, environment, many_inputs, page, scaling

from thresher import InvalidInput

pytestmark = pytest.mark.thorough

TEXT = (Path(__file__).parents[2] / page.PAGE).read_text(encoding="utf-8")
MANY = (Path(__file__).parents[2] / many_inputs.PAGE).read_text(encoding="utf-8")  # has a part of one benchmark
TABLES = (Path(__file__).parents[2] / "docs" / "tables.md").read_text(encoding="utf-8")
WRITERS = [path.read_text(encoding="utf-8") for path in (Path(page.__file__).parent).rglob("*.py")]


def parts(text=TEXT):
    return dict(re.findall(rf"<!-- ([\w ]+): written from here -->\n(.*?){page.END}", text, re.DOTALL))


def test_every_table_stands_in_a_part_and_says_where_it_comes_from():
    by_hand = re.sub(rf"<!-- [\w ]+: written from here -->.*?{page.END}", "", TEXT, flags=re.DOTALL)
    assert "| ---" not in by_hand
    for name, text in parts().items():
        assert "| ---" not in text or re.search(r"Machine: .*; commit \w+", text), name


def test_every_part_has_a_command():
    written = {name for text in WRITERS for name in re.findall(r'page\.write\(\s*"([\w ]+)"', text)}
    rivals = {"race", "cross_entropy", "width", "problems", "methods"}  # written by `thresher bench --full`
    assert {*parts(), *parts(MANY), *parts(TABLES)} == written | rivals


def test_every_goal_of_the_start_that_is_missed_is_explained():
    words = TEXT.split("### Where a goal is missed\n")[1].split("\n#")[0]
    case = ""
    for line in parts()["start"].splitlines():
        case = (line.split("|")[1].strip() if line.startswith("|") else "") or case  # empty where it is the one above
        if "**missed**" in line:
            assert f"**{case}**" in words, f"say in docs/benchmarks.md why {case} misses a goal"


def test_a_part_alone_is_replaced(tmp_path, capsys):
    path = tmp_path / "page.md"
    path.write_text(f"a\n{page.begin('one')}\nold\n{page.END}\nb\n{page.begin('two')}\nkept\n{page.END}\nc\n")
    for _ in range(2):  # the second time changes nothing
        page.write("one", ["new\n"], page=path)
        assert path.read_text() == (
            f"a\n{page.begin('one')}\n\nnew\n\n{page.END}\nb\n{page.begin('two')}\nkept\n{page.END}\nc\n"
        )
    with pytest.raises(InvalidInput, match="must hold the line <!-- three: written from here -->"):
        page.write("three", ["new\n"], page=path)
    page.write("three", ["new\n"], page=None)  # no page was asked for
    page.write("two", [], page=path)  # nothing was measured
    assert "kept" in path.read_text()
    assert capsys.readouterr().out.count("Written") == 2


@pytest.mark.parametrize(
    ("part", "command", "arguments", "shown"),
    [
        ("certified", certified, ["--case", "numbers"], "| start weights, one thread |"),
        ("scaling", scaling, ["--inputs", "4", "--dimension", "5", "--least", "6", "--most", "8"], "| exponent |"),
    ],
)
def test_a_command_writes_its_part(part, command, arguments, shown, tmp_path, capsys):
    path = tmp_path / "page.md"
    path.write_text(f"{page.begin(part)}\n{page.END}\n")
    command.main([*arguments, "--output", str(tmp_path / "found.json"), "--page", str(path)])
    assert shown in path.read_text() and "; commit " in path.read_text()
    assert (tmp_path / "found.json").is_file()
    assert "Written" in capsys.readouterr().out


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_a_page_that_was_written_leaves_the_commit_as_it_is(tmp_path):
    def git(*arguments):
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    inside = tmp_path / "benchmarks"
    for name in ("docs/benchmarks.md", "benchmarks/start.py", "README.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("one")
    git("init")
    assert environment._commit(inside) == "unknown"
    git("add", "."), git("commit", "-m", "all")
    commit = environment._commit(inside)
    assert re.fullmatch(r"[0-9a-f]{7,}", commit)
    for name, said in (("docs/benchmarks.md", commit), ("README.md", commit), ("benchmarks/start.py", commit + "+")):
        (tmp_path / name).write_text("two")
        assert environment._commit(inside) == said
