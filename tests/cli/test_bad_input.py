"""Input that is wrong: one clear message, exit code 2, and nothing left behind. Input that is only odd: an answer."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
from learnable import SMALL, write_csv
from test_cli import run

from thresher.cli import commands

NAMES = "name,a,y\n" + "".join(f"person {k},{k % 7},{k}.5\n" for k in range(150))
NUMBERS = "a,b,y\n" + "".join(f"{k % 13},{k * k % 7},{k}.25\n" for k in range(150))
CLASSES = "a,b,y\n" + "".join(f"{k % 13},{k * k % 7},{'up' if k % 2 else 'down'}\n" for k in range(20))
TEXT = ["--target", "name"]

# What is in the file, the arguments after it, and what is said.
BAD = {
    "identifiers are no target": (
        NAMES,
        TEXT,
        r"'name' is text with 150 different .* Name another column with --target",
    ),
    "nor for a regression": (NAMES, [*TEXT, "--task", "regression"], r"'name' is text with 150 .* --target"),
    "nor for a classification": (NAMES, [*TEXT, "--task", "classification"], r"'name' is text with 150 .* --target"),
    "numbers are no classes": (NUMBERS, ["--task", "classification"], r"150 different numbers .* Leave --task out"),
    "few words are no numbers": (CLASSES, ["--task", "regression"], r"such as 'down', 'up', .* Leave --task out"),
    "constant target": ("a,y\n1,5\n2,5\n3,5\n", [], r"'5' in all 3 rows: there is nothing to learn.*--target"),
    "all rows the same": ("a,b,y\n" + "1,2,3\n" * 5, [], r"nothing to learn"),
    "nothing but the target differs": ("a,b,y\n" + "".join(f"1,2,{k}.5\n" for k in range(9)), [], r"no column"),
    "dates as targets": ("a,y\n1,2024-01-02\n2,2024-01-03\n3,2024-01-04\n", [], r"'y' holds dates; expected numbers"),
    "one fold": (NUMBERS, ["--cv", "1"], r"--cv must be at least 2; got 1"),
    "more folds than rows": (
        CLASSES,
        ["--cv", "21"],
        r"--cv 21 needs at least 42 rows, two .*; there are 20",
    ),
    "folds without a class": ("a,y\n1,u\n2,v\n3,u\n4,u\n5,u\n6,u\n", ["--cv", "2"], r"a fold with one class .*'u'"),
    "two ways of testing": (NUMBERS, ["--cv", "3", "--test-size", "0.5"], r"--cv .* --test-size .*; give only one"),
    "all targets missing": ("a,y\n1,\n2,\n3,\n", [], r"'y' is there in 0 of 3 rows; at least 2 must have it"),
    "a quote too many": ('a,y\n1,"2\n3,4\n', [], r"quotation marks"),
    "spaces only": ("   \n\n  \n", [], r"is empty"),
    "a web page": ("<html><body>\n<p>Not found</p>\n</body></html>\n", [], r"at least 2 columns"),
    "nothing but a number": ("7", [], r"at least 2 (rows|columns)"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_tables(capsys, tmp_path, monkeypatch, case):
    content, arguments, message = BAD[case]
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(content)
    code, out, err = run(capsys, "train", "t.csv", *SMALL, *arguments, "--save", "new/run", "--report", "other/p.html")
    said = [line for line in err.splitlines() if line and not line.startswith(("Usage:", "Try "))]
    assert code == 2, out + err
    assert re.search(message, " ".join(said), re.DOTALL), err
    assert "Traceback" not in err
    assert os.listdir() == ["t.csv"]


ODD = {
    "rows without a target": (NUMBERS + "1,2,\n3,4,NA\n", [], "Left out 2 rows without a target."),
    "a class with one row": (CLASSES + "1,2,other\n", [], "Recall of each class"),
    "two values that are not whole": ("a,b,y\n" + "".join(f"{k},{k % 5},{k % 2}.5\n" for k in range(30)), [], "1.5"),
    "two rows": ("a,y\n1,2.5\n2,3.5\n", ["--test-size", "0"], "Fitted in"),
    "unseen classes in a fold": (CLASSES + "1,2,other\n", ["--cv", "2"], "Cross-validated in 2 folds"),
    "a column of its own for each row": (NAMES, [], "left out"),
    "blank lines and spaces": (NUMBERS.replace("\n", " \n\n"), [], "Fitted in"),
}


@pytest.mark.parametrize("case", ODD)
def test_odd_tables(capsys, tmp_path, monkeypatch, case):
    content, arguments, message = ODD[case]
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(content)
    code, out, err = run(capsys, "train", "t.csv", *SMALL, *arguments, "--save", "run")
    assert code == 0, err
    assert message.lower() in out.lower()
    code, out, err = run(capsys, "predict", "run", "t.csv")
    assert code == 0, err


@pytest.fixture(scope="module")
def run_of(tmp_path_factory):
    """A folder with a table, t.csv, and its run."""
    place = tmp_path_factory.mktemp("bad")
    write_csv(place / "t.csv", text=True, classes=True)
    given = ["train", str(place / "t.csv"), *SMALL, "--save", str(place / "run"), "--quiet"]
    commands.main(given, standalone_mode=False, obj=given)
    return place


class TestPredict:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (None, r"cannot read .*: No such file"),
            ("folder", r"it is not a file"),
            ("", r"is empty"),
            ("a,b\n", r"has no rows below its header"),
            (bytes(range(256)), r"not a text file"),
            ("a,colour\n1,red\n", r"lacks columns .*: b, c"),
            ("1,2,3\n4,5,6\n", r"first line is '1', '2', '3'; expected names of columns.*Add --no-header"),
        ],
    )
    def test_bad_files(self, capsys, run_of, tmp_path, monkeypatch, content, message):
        monkeypatch.chdir(tmp_path)
        if content == "folder":
            Path("new.csv").mkdir()
        elif content is not None:
            Path("new.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
        before = os.listdir()
        code, out, err = run(capsys, "predict", str(run_of / "run"), "new.csv", "--output", "there/p.csv")
        assert (code, out) == (2, "")
        assert re.search(message, err), err
        assert "Traceback" not in err
        assert os.listdir() == before

    def test_columns_that_are_too_many_do_not_matter_and_their_order_neither(self, capsys, run_of, tmp_path):
        head, *rows = (run_of / "t.csv").read_text().splitlines()
        turned = [
            ",".join([str(first), *reversed(line.split(","))]) for first, line in [("extra", head), *enumerate(rows)]
        ]
        (tmp_path / "turned.csv").write_text("\n".join(turned))
        _, true, _ = run(capsys, "predict", str(run_of / "run"), str(run_of / "t.csv"))
        code, out, _ = run(capsys, "predict", str(run_of / "run"), str(tmp_path / "turned.csv"))
        assert (code, out) == (0, true)

    def test_values_that_are_new_are_said_and_predicted(self, capsys, run_of, tmp_path):
        text = (run_of / "t.csv").read_text().replace("pale blue", "violet")
        (tmp_path / "new.csv").write_text(text)
        code, out, err = run(capsys, "predict", str(run_of / "run"), str(tmp_path / "new.csv"))
        assert code == 0
        assert len(out.splitlines()) == 61
        assert re.search(r"Column 'colour': \d+ of 60 rows have a value that no training row has", err)

    def test_numbers_that_cannot_be_read_are_said_and_predicted(self, capsys, run_of, tmp_path):
        head, *rows = (run_of / "t.csv").read_text().splitlines()
        rows[4] = "many" + rows[4][rows[4].index(",") :]
        rows[9] = rows[9][rows[9].index(",") :]
        (tmp_path / "new.csv").write_text("\n".join([head, *rows]))
        code, out, err = run(capsys, "predict", str(run_of / "run"), str(tmp_path / "new.csv"))
        assert (code, len(out.splitlines())) == (0, 61)
        assert "Column 'a': 2 of 60 rows have no number that can be read, where training rows have one." in err

    def test_targets_that_are_missing_or_strange_do_not_stop_it(self, capsys, run_of, tmp_path):
        head, *rows = (run_of / "t.csv").read_text().splitlines()
        rows = [
            line.rpartition(",")[0] + "," + cell for line, cell in zip(rows, ["up", "", "sideways"] * 20, strict=True)
        ]
        (tmp_path / "new.csv").write_text("\n".join([head, *rows]))
        code, out, err = run(capsys, "predict", str(run_of / "run"), str(tmp_path / "new.csv"))
        assert code == 0
        assert len(out.splitlines()) == 61
        assert "Compared with column 'y' of 40 rows" in err
        assert "sideways 0% of 20" in err

    @pytest.mark.parametrize("bad", ["run.json", "model.thresher"])
    def test_damaged_runs(self, capsys, run_of, tmp_path, bad):
        folder = tmp_path / "run"
        folder.mkdir()
        for name in ("run.json", "model.thresher"):
            raw = (run_of / "run" / name).read_bytes()
            (folder / name).write_bytes(raw[: len(raw) // 2] if name == bad else raw)
        for command in (["predict", str(folder), str(run_of / "t.csv")], ["inspect", str(folder)]):
            code, out, err = run(capsys, *command)
            assert (code, out) == (2, "")
            assert len(err.splitlines()) == 1
            assert bad in err

    def test_a_run_without_its_model(self, capsys, run_of, tmp_path):
        (tmp_path / "run.json").write_bytes((run_of / "run" / "run.json").read_bytes())
        for command in (["predict", str(tmp_path), str(run_of / "t.csv")], ["inspect", str(tmp_path)]):
            code, _, err = run(capsys, *command)
            assert code == 2
            assert "model.thresher" in err
        assert run(capsys, "report", str(tmp_path))[0] == 0  # all that it tells of is in run.json

    def test_a_model_without_its_run(self, capsys, run_of, tmp_path):
        (tmp_path / "model.thresher").write_bytes((run_of / "run" / "model.thresher").read_bytes())
        code, _, err = run(capsys, "inspect", str(tmp_path))
        assert code == 2
        assert f"Its model can be used alone: {tmp_path / 'model.thresher'}." in err
        assert run(capsys, "inspect", str(tmp_path / "model.thresher"))[0] == 0


def test_a_parquet_file_without_rows(capsys, tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="the extra 'parquet'")
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    table = pyarrow.table({"a": rng.normal(size=30), "b": rng.normal(size=30), "y": rng.normal(size=30)})
    parquet.write_table(table, tmp_path / "t.parquet")
    parquet.write_table(table.slice(0, 0), tmp_path / "none.parquet")
    given = ["train", str(tmp_path / "t.parquet"), *SMALL, "--save", str(tmp_path / "run")]
    assert run(capsys, *given)[0] == 0
    for arguments in (["predict", str(tmp_path / "run")], ["train"]):
        code, _, err = run(capsys, *arguments, str(tmp_path / "none.parquet"))
        assert code == 2
        assert "has no rows" in err
