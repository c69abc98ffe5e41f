"""Every command that the README, the docs and the help texts show: run with small files, or at least understood."""

import csv
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from ordinary_files import make
from test_cli import run
from verification import ladder

from thresher.cli import commands

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FROM_TOP_TO_BOTTOM = ["example_churn", "example_counts", "tutorial_table"]  # these are run by tests/test_docs.py
FAST = {  # options that make a command small; the last one counts
    "train": ["--parts", "all"],
    "train a network": ["--width", "2^12"],
    "verify": ["--widths", "8,16,32", "--rows", "6"],
    "demo": ["--width", "2^10", "--rows", "50"],
    "audit": ["--inputs", "10", "--width", "2^8"],
}
ELSEWHERE = r" bench\b"  # these run in tests/benchmarks
STANDS_FOR = {
    "FILE": "table.csv",
    "COLUMN": "price",
    "MODEL": "made/exact",
    "RUN": "made/exact",
    "NEW": "table.csv",
}


def shown(page):
    """The lines of code of a page that are commands, without prompts, comments and line breaks."""
    text = re.sub(r"\\\n\s*", " ", page.read_text(encoding="utf-8"))
    blocks = re.findall(r"^```(?:sh|bash|console|shell)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = re.findall(r"^ {4,}(\S.*)$", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE)
    lines += [line for block in blocks for line in block.splitlines()]
    found = [re.sub(r"\s+#.*", "", line.strip().removeprefix("$ ")) for line in lines]
    return [line for line in found if re.match(r"(thresher|python|pip|cat|gzip|zcat|echo)\b", line)]


def commands_of(page, program):
    return [line for line in shown(page) if re.search(rf"(^|\| *){program}\b", line)]


def examples():
    found = {}
    for name in commands.list_commands(None):
        found[name] = re.search(r"Example: (thresher .*)", commands.get_command(None, name).help or "").group(1)
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the files that the docs speak of, and a run that was made before."""
    folder = tmp_path_factory.mktemp("docs")
    rng = np.random.default_rng(0)
    houses = make("mixed", folder)
    rows = list(csv.reader(houses.path.read_text().splitlines()))[:9]
    (folder / "new.csv").write_text("".join(",".join(row[:-1]) + "\n" for row in rows))
    X = rng.normal(size=(40, 10))
    y = X[:, 0] - 2 * X[:, 1]
    names = ",".join("abcdefghij")
    table = "\n".join(",".join(map(str, row)) for row in np.column_stack([X, y]))
    for name, target in (("table.csv", "price"), ("measurements.csv", "price")):
        (folder / name).write_text(f"{names},{target}\n{table}\n")
    kinds = np.where(y > 0, "yes", "no")
    both = [",".join(map(str, row)) for row in np.column_stack([np.round(X, 3), kinds])]
    for name, target in (("iris.csv", "species"), ("digits.csv", "odd")):
        (folder / name).write_text("\n".join([f"{names},{target}", *both]) + "\n")
    try:
        import pyarrow
        from pyarrow import parquet

        columns = {"a": X[:, 0], "b": X[:, 1], "yield": y}
        parquet.write_table(pyarrow.table(columns), folder / "measurements.parquet")
    except ModuleNotFoundError:
        pass
    given = ["train", str(folder / "table.csv"), "--width", "2^12", "--quiet"]
    commands.main([*given, "--save", str(folder / "made" / "exact")], standalone_mode=False, obj=[])
    return folder


def small(line):
    """The arguments of a command, of a size that takes a second, and with names in place of what stands for them."""
    words = [STANDS_FOR.get(word, word) for word in shlex.split(line)[1:]]
    words = [word for word in words if word]
    kind = "train a network" if words[0] == "train" and "--width" in line else words[0]
    more = FAST.get(kind, []) if not {"--billion"} & set(words) else []
    return [*words, *more]


def run_all(capsys, lines):
    """Run commands one after the other, as a reader would: what one writes the next may read."""
    for line in lines:
        *before, line = (part.strip() for part in line.split("|"))  # what comes before a pipe becomes standard input
        piped = subprocess.run(before[0], shell=True, capture_output=True, check=True).stdout if before else None
        if piped is not None:
            done = subprocess.run(
                [sys.executable, "-c", "from thresher.cli import main; main()", *small(line)],
                input=piped, capture_output=True, check=False,
            )  # fmt: skip
            assert done.returncode == 0, (line, done.stderr)
            continue
        code, out, err = run(capsys, *small(line))
        if "--device cuda" in line and code == 2:
            assert "GPU" in err
        elif "verify" in line:
            assert code in (0, 1), err  # at these sizes chance may break a promise
        else:
            assert code == 0, (line, out, err)
        assert "Traceback" not in err


@pytest.mark.parametrize(
    "page",
    [one for one in PAGES if commands_of(one, "thresher") and one.stem not in FROM_TOP_TO_BOTTOM],
    ids=lambda page: page.stem,
)
def test_commands_of_a_page(capsys, place, tmp_path, monkeypatch, page):
    lines = [line for line in commands_of(page, "thresher") if not re.search(ELSEWHERE, line)]
    if any(".parquet" in line for line in lines):
        pytest.importorskip("pyarrow", reason="the extra 'parquet'")
    prepare(place, tmp_path, monkeypatch)
    run_all(capsys, lines)


def test_examples_of_the_help(capsys, place, tmp_path, monkeypatch):
    found = examples()
    assert {"train", "predict", "inspect"} < set(found)
    prepare(place, tmp_path, monkeypatch)
    order = sorted(found.values(), key=lambda line: not line.startswith("thresher train"))
    run_all(
        capsys, [re.sub(r"runs/(?!houses)\w+", "made/exact", line) for line in order if not re.search(ELSEWHERE, line)]
    )


def prepare(place, tmp_path, monkeypatch):
    """Stand in a folder of one's own with all the files, and take what is slow out."""
    for one in place.iterdir():
        os.symlink(one, tmp_path / one.name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(import_module("thresher.cli.demo"), "BILLION", 10**5)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for name, size in {"_FEW": 2, "_SMALL": 3, "_FEW_WIDTH": 16, "_SMALL_WIDTH": 32, "_LIMIT_SEEDS": 1}.items():
        monkeypatch.setattr(ladder, name, size)
    for name, size in {"_INPUTS": 3, "_DIMENSION": 2}.items():
        monkeypatch.setattr(import_module("thresher.cli.verify"), name, size)


@pytest.mark.parametrize("page", [one for one in PAGES if "pip install" in one.read_text()], ids=lambda page: page.stem)
def test_what_is_installed_exists(page):
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for line in re.findall(r"pip install ([^`#\n]*)", page.read_text()):
        for name in re.findall(r"\[([\w,]+)\]", line):
            assert set(name.split(",")) <= set(extras), line
        for name in re.findall(r"-r (\S+)", line):
            assert (ROOT / name).is_file(), line


def modules():
    return sorted({line for page in PAGES for line in commands_of(page, "python") if " -m " in line})


@pytest.mark.parametrize("line", modules())
def test_modules_that_are_run_exist(line):
    name = re.search(r"-m ([\w.]+)", line).group(1)
    assert importlib.util.find_spec(name) is not None, line


@pytest.mark.slow
@pytest.mark.parametrize("line", modules())
def test_options_of_modules_are_known(line):
    name = re.search(r"-m ([\w.]+)", line).group(1)
    wanted = set(re.findall(r"\s(--[\w-]+)", line))
    if not wanted:
        return
    command = [sys.executable, "-m", name, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120, check=False)
    assert wanted <= set(re.findall(r"--[\w-]+", done.stdout)), line
