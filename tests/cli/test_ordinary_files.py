"""From a file on disk to a model in use, twelve times: trained, reported, predicted in the shell and from Python."""

import csv
import io
import re
import sys

import numpy as np
import pytest
from learnable import SMALL
from ordinary_files import MAKERS, large, make
from pages import Whole
from test_cli import run

import thresher
from thresher.report import read_run


def go_through(capsys, tmp_path, name):
    """Take a file all the way, without a hand being laid on it; return what the report says."""
    pandas = pytest.importorskip("pandas", reason="reads the file in Python")
    file = make(name, tmp_path)
    folder, page = tmp_path / "runs" / name, tmp_path / "report.html"
    given = ["--target", file.target, *file.options, *SMALL, "--save", str(folder), "--report", str(page)]
    code, out, err = run(capsys, "train", str(file.path), *given)
    assert code == 0, err
    assert "Traceback" not in out + err
    assert "Warning" not in out + err
    tested = read_run(folder)
    assert tested.test.rows > 0
    if name not in ("tiny", "wide"):
        assert tested.test.value < tested.test.guess, tested.test
    classes = tested.test.measure == "log loss"
    more = ["--proba"] if classes else ["--interval", "0.9"]
    code, out, err = run(capsys, "predict", str(folder), str(file.path), *more, "--digits", "full")
    assert code == 0, err
    head, *rows = csv.reader(io.StringIO(out))
    assert head[0] == "prediction"
    assert "Compared with column" in err
    frame = pandas.read_csv(file.path, **file.pandas).drop(columns=file.target)
    assert len(rows) == len(frame)
    model = thresher.load(folder)
    answers = model.predict(frame)
    assert re.search(r"(accuracy|R2)", err)
    if classes:
        assert [row[0] for row in rows] == [str(one) if isinstance(one, str) else f"{one:g}" for one in answers]
        chances = model.predict_proba(frame)
        np.testing.assert_allclose(np.array([row[1:] for row in rows], float), chances, atol=1e-6)
    else:
        spread = np.std(answers) + 1e-300
        np.testing.assert_allclose(np.array([row[0] for row in rows], float) / spread, answers / spread, atol=1e-6)
    return page.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [one.__name__ for one in MAKERS if one is not large])
def test_from_a_file_to_a_report_and_back(capsys, tmp_path, monkeypatch, name):
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # figures take most of the time
    text = go_through(capsys, tmp_path, name)
    assert "Figures need matplotlib" in text


@pytest.mark.slow
@pytest.mark.parametrize("name", [one.__name__ for one in MAKERS])
def test_with_figures(capsys, tmp_path, name):
    pytest.importorskip("matplotlib", reason="an extra")
    text = go_through(capsys, tmp_path, name)
    Whole().check(text)
    assert "<svg" in text
