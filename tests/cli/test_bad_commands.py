"""Files, flags, models and runs that are bad end with 2 and a message; every command has help."""

import re
from pathlib import Path

import numpy as np
import pytest
from test_cli import run

from thresher.cli import commands

GOOD = "a,b,y\n" + "".join(f"{k},{k * k % 7},{k % 5}.5\n" for k in range(20))
MANY = "name,y\n" + "".join(f"person {k},{k}.5\n" for k in range(50))
MIXED = "a,y\n" + "".join(f"{k},{k}.5\n" for k in range(40)) + "red,1\n"
NAMED = "age,salary,fraud\n" + "".join(f"{k},{k * k % 7},{k % 5}.5\n" for k in range(20))
# What is in the file (None: there is none; bytes or text), its name, the arguments after it, and what is said.
BAD = {
    "no such file": (None, "t.csv", [], r"cannot read .*t\.csv: No such file or directory"),
    "a folder": ("folder", "t.csv", [], r"cannot read .*t\.csv: it is not a file"),
    "empty": ("", "t.csv", [], r"is empty"),
    "header only": ("a,b,y\n", "t.csv", [], r"has no rows below its header"),
    "one row": ("a,y\n1,2\n", "t.csv", [], r"at least 2 rows; it has 1"),
    "one column": ("y\n1\n2\n", "t.csv", [], r"at least 2 columns, inputs and a target; it has 1"),
    "binary": (bytes(range(256)), "t.csv", [], r"not a text file"),
    "damaged gzip": (b"\x1f\x8b nothing", "t.csv", [], r"packed by gzip and damaged"),
    "open quote": ('a,y\n"1,2\n3,4\n', "t.csv", [], r"no CSV file: .* quotation marks"),
    "ragged": ("a,y\n1,2\n3\n5,6\n", "t.csv", [], r"row 2 has 1 cells; expected 2"),
    "missing target": ("a,y\n1,2\n2,\n", "t.csv", [], r"'y' is there in 1 of 2 rows; at least 2 must"),
    "nothing but missing": ("a,y\nNA,2\n?,4\n", "t.csv", [], r"no column .* can be used: 'a' \(it has no value\)"),
    "infinite": ("a,y\n1,2\ninf,4\n", "t.csv", [], r"column 'a': row 2 is 'inf'; numbers must be finite"),
    "mixed target": (MIXED, "t.csv", ["--target", "a"], r"'a': row 41 is 'red'; the target must be numbers, as in"),
    "names twice": ("a,a,y\n1,2,3\n4,5,6\n", "t.csv", [], r"several columns have the same name: a"),
    "text of many values": (MANY, "t.csv", [], r"'name' \(nearly every row has a value of its own\)"),
    "unknown target": (GOOD, "t.csv", ["--target", "z"], r"no column 'z', as --target says; there are a, b, y"),
    "unknown drop": (GOOD, "t.csv", ["--drop", "z"], r"no column z, as --drop says"),
    "target nearly right": (NAMED, "t.csv", ["--target", "frod"], r"no column 'frod', .* Did you mean fraud\?$"),
    "drop nearly right": (NAMED, "t.csv", ["--drop", "agee,Salery"], r"Did you mean age\? Did you mean salary\?$"),
    "category nearly right": (
        NAMED,
        "t.csv",
        ["--categorical", "aeg"],
        r"\['aeg'\]. Did you mean age\?$",
    ),
    "target dropped": (GOOD, "t.csv", ["--drop", "y"], r"--drop y would leave out the target"),
    "one class": (
        "a,y\n1,x\n2,x\n3,x\n",
        "t.csv",
        [],
        r"'x' in all 3 rows: there is nothing",
    ),
    "regression on text": ("a,y\n1,x\n2,z\n", "t.csv", ["--task", "regression"], r"a regression cannot predict"),
    "array": ("array", "t.npy", [], r"t\.npy is not a text file\. Give a CSV or Parquet file"),
    "no parquet": (b"PAR1 nothing", "t.parquet", [], r"(no Parquet file|pip install 'thresher-ml\[parquet\]')"),
    "width of words": (GOOD, "t.csv", ["--width", "many"], r"expected a whole number such as 1048576, 1e6 or 2\^20"),
    "width of zero": (GOOD, "t.csv", ["--width", "0"], r"width must be at least 1; got 0"),
    "width of very many digits": (GOOD, "t.csv", ["--width", "2^1000000"], r"2\^1000000 is too large: .* below 2\^63"),
    "width beyond memory": (GOOD, "t.csv", ["--width", "2^60"], r"needs about .* TiB"),
    "infinite width": (GOOD, "t.csv", ["--width", "inf"], r"expected a whole number such as .* got 'inf'"),
    "parts of a network": (GOOD, "t.csv", ["--width", "64", "--parts", "pairs"], r"--parts is for the limit .*--width"),
    "loss of a network": (GOOD, "t.csv", ["--width", "64", "--loss", "huber"], r"--loss is for the limit .*--width"),
    "shift without a network": (GOOD, "t.csv", ["--shift", "1"], r"--shift is for a network, and no --width was given"),
    "log loss of numbers": (
        GOOD,
        "t.csv",
        ["--loss", "log_loss", "--task", "regression"],
        r"is for classes; .* numbers",
    ),
    "shift of words": (GOOD, "t.csv", ["--shift", "high"], r"expected a number such as 0\.5, or auto; got 'high'"),
    "test size of one": (GOOD, "t.csv", ["--test-size", "1"], r"--test-size must be at least 0 and below 1; got 1"),
    "nothing to train on": (GOOD, "t.csv", ["--test-size", "0.97"], r"leaves 1 of 20 rows to train on"),
    "negative seed": (GOOD, "t.csv", ["--seed", "-1"], r"--seed must be at least 0; got -1"),
    "unknown flag": (GOOD, "t.csv", ["--colour", "red"], r"No such option.*--colour"),
    "save into a file": (GOOD, "t.csv", ["--save", "t.csv"], r"cannot write to .*t\.csv: .*--save"),
    "save among other things": (GOOD, "t.csv", ["--save", "."], r"folder with other files in it.*new folder"),
    "report is a folder": (GOOD, "t.csv", ["--report", "."], r"is a folder\. Give --report a file"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files_and_flags(capsys, tmp_path, monkeypatch, case):
    content, name, arguments, message = BAD[case]
    monkeypatch.chdir(tmp_path)
    table = Path(name)
    if content == "folder":
        table.mkdir()
    elif content == "array":
        np.save(table, np.ones((3, 2)))
    elif content is not None:
        table.write_bytes(content if isinstance(content, bytes) else content.encode())
    before = sorted(tmp_path.rglob("*"))
    given = [] if {"--save", "--report"} & set(arguments) else ["--save", "run", "--report", "page.html"]
    code, out, err = run(capsys, "train", name, *arguments, *given)
    said = [line for line in err.splitlines() if line and not line.startswith(("Usage:", "Try "))]
    assert code == 2, out + err
    assert re.search(message, " ".join(said))
    assert len(said) <= 2
    assert "Traceback" not in err
    left = [path for path in sorted(tmp_path.rglob("*")) if path not in before]
    assert [path for path in left if path.is_file()] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["predict", "nowhere", "t.csv"], r"nowhere holds no run"),
        (["predict", "t.csv", "t.csv"], r"t\.csv is not a model of thresher"),
        (["inspect", "t.csv"], r"t\.csv is not a model of thresher"),
        (["predict", "RUN", "nowhere.csv"], r"cannot read nowhere\.csv"),
        (["predict", "RUN", "fewer.csv"], r"lacks columns that the model was trained on: b, c.*; it has a"),
        (["predict", "RUN", "bare.csv", "--no-header"], r"has 1 columns without names; the model wants 13"),
        (["report", "nowhere"], r"nowhere holds no run\. Give a folder"),
        (["report", "half"], r"half/run\.json is damaged"),
        (["report", "future"], r"future/run\.json cannot be understood: it has version 99, and this is 1"),
        (["inspect", "nowhere"], r"nowhere"),
    ],
)  # fmt: skip
def test_bad_models_and_runs(capsys, folder, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(GOOD)
    Path("fewer.csv").write_text("a,colour\n1,red\n")
    Path("bare.csv").write_text("1\n2\n")
    for name in ("half", "future"):
        Path(name).mkdir()
    Path("half", "run.json").write_bytes((folder / "run" / "run.json").read_bytes()[:100])
    Path("future", "run.json").write_text('{"version": 99}')
    code, _, err = run(capsys, *[str(folder / "run") if one == "RUN" else one for one in arguments])
    assert code == 2
    assert re.search(message, err)
    assert "Traceback" not in err


def test_every_command_has_help_with_an_example(capsys):
    assert "train" in commands.list_commands(None)
    for name in commands.list_commands(None):
        code, out, _ = run(capsys, name, "--help")
        assert code == 0
        assert f"Example: thresher {name}" in " ".join(out.split())


def test_completion_knows_the_commands(capsys, monkeypatch):
    from click.shell_completion import BashComplete

    found = BashComplete(commands, {}, "thresher", "_THRESHER_COMPLETE").get_completions([], "")
    assert {one.value for one in found} == set(commands.list_commands(None))
