"""What `train` can do besides: part of the rows, cross-validation, a refit; and nothing is overwritten."""

import json
import os
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from learnable import SMALL, write_csv
from test_cli import run

import thresher
from thresher import ThresherClassifier, ThresherRegressor
from thresher.report import read_run


class TestTrain:
    def test_the_saved_model_knows_all_rows_and_the_score_is_of_the_one_before(self, capsys, places):
        one = read_run(places / "numbers")
        assert one.data["rows trained on"] == 60
        assert one.data["tested"] == "before the fit to all rows"
        assert len(thresher.load(places / "numbers").model_.inputs) == 60
        code, out, _ = run(capsys, "train", str(places / "numbers.csv"), *SMALL, "--seed", "7", "--json")
        told = json.loads(out)
        assert code == 0
        assert told["data"]["rows trained on"] == 48
        assert told["data"]["tested"] == "with this model"
        assert told["test"]["value"] == pytest.approx(one.test.value)

    def test_without_save_nothing_is_fitted_again(self, capsys, places):
        _, out, _ = run(capsys, "train", str(places / "numbers.csv"), *SMALL)
        assert "Fitting again" not in out
        assert out.count("Test on 12 unseen rows: R2 ") == 1

    @pytest.mark.parametrize("more", [SMALL, ("--width", "4096")])
    def test_cross_validation(self, capsys, places, tmp_path, more):
        folder = tmp_path / "run"
        arguments = ["train", str(places / "numbers.csv"), *more, "--cv", "3", "--save", str(folder)]
        code, out, _ = run(capsys, *arguments)
        assert code == 0, out
        told = [float(one) for one in re.findall(r"Fold \d of 3: R2 -?[\d.]+, RMSE ([\d.]+)", out)]
        assert len(told) == 3
        made = read_run(folder)
        assert made.folds["scores"]["RMSE"] == pytest.approx(told, rel=1e-2)
        assert made.scores["RMSE"] == pytest.approx(np.mean(told), rel=1e-2)
        assert made.folds["standard errors"]["RMSE"] == pytest.approx(np.std(told, ddof=1) / 3**0.5, rel=0.1)
        assert made.data["rows trained on"] == made.data["rows tested on"] == 60
        assert re.search(r"Cross-validated in 3 folds, on 60 unseen rows: R2 .* ± .*RMSE [\d.]+ ± [\d.]+", out)
        assert "±" in run(capsys, "inspect", str(folder))[1]

    def test_classes_have_their_shares(self, capsys, tmp_path):
        rng = np.random.default_rng(0)
        rows = [f"{a},{b},{'rare' if k < 5 else 'usual'}" for k, (a, b) in enumerate(rng.normal(size=(50, 2)))]
        (tmp_path / "t.csv").write_text("\n".join(["a,b,kind", *rows]))
        code, out, _ = run(capsys, "train", str(tmp_path / "t.csv"), *SMALL, "--json")
        assert code == 0
        assert json.loads(out)["scores"]["rows of each class"] == {"rare": 1, "usual": 9}

    def test_stalling_names_options_that_there_are(self, capsys, places):
        code, out, _ = run(capsys, "train", str(places / "numbers.csv"), "--width", "4")
        assert code == 1
        assert "--width (now 4)" in out
        assert "damping" not in out

    def test_too_many_rows_for_the_memory(self, capsys, tmp_path, monkeypatch):
        table = write_csv(tmp_path / "t.csv", rows=300)
        monkeypatch.setattr("thresher.memory.available_bytes", lambda: 2_000_000)
        code, _, err = run(capsys, "train", str(table), *SMALL, "--save", str(tmp_path / "new" / "run"))
        assert code == 2
        assert re.search(r"About \d+ rows would fit\. Give a file with fewer rows\.", err)
        assert not (tmp_path / "new").exists()

    @pytest.mark.parametrize("classes", [False, True])
    def test_the_model_is_that_of_python(self, capsys, tmp_path, classes):
        kind = ThresherClassifier if classes else ThresherRegressor
        X = np.random.default_rng(2).normal(size=(120, 3))
        y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2]
        table = pd.DataFrame(X, columns=list("abc")).assign(y=np.where(y > 0, "up", "down") if classes else y)
        table.to_csv(tmp_path / "t.csv", index=False)
        given = ["--test-size", "0", "--seed", "3", "--save", str(tmp_path / "run")]
        code, out, _ = run(capsys, "train", str(tmp_path / "t.csv"), *given)
        assert code == 0
        table = pd.read_csv(tmp_path / "t.csv")
        X, y = table[list("abc")], table["y"]
        ours, theirs = kind(random_state=3).fit(X, y), thresher.load(tmp_path / "run")
        found, expected = theirs.predict(X), ours.predict(X)
        if classes:
            np.testing.assert_array_equal(found, expected)
        else:  # BLAS may round differently where arrays begin elsewhere in memory
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
        assert all(line in out for line in str(ours.choices_).splitlines())
        assert theirs.choices_ == ours.choices_
        assert "limit of infinite width" in read_run(tmp_path / "run").what

    def test_numbers_that_are_names(self, capsys, tmp_path):
        rng = np.random.default_rng(0)
        rows = [
            f"{k},{m},{a},{(k * 7 + m) % 4 + a:.3f}"
            for k, m, a in zip(*rng.integers(1, 5, (2, 60)), rng.random(60), strict=True)
        ]
        (tmp_path / "t.csv").write_text("\n".join(["k,m,a,y", *rows]))
        code, out, _ = run(capsys, "train", str(tmp_path / "t.csv"), *SMALL, "--categorical", "k,m")
        assert code == 0
        assert "zeros and ones for each value of 'k' (4 values), 'm' (4 values)" in out
        code, _, err = run(capsys, "train", str(tmp_path / "t.csv"), *SMALL, "--categorical", "colour")
        assert code == 2
        assert "--categorical must name columns, k, m, a; got ['colour']." in err

    def test_bad_cells_are_words_in_a_column_that_is_named(self, capsys, tmp_path):
        rows = [f"{'inf' if k % 9 == 0 else k % 5},{k / 60},{k % 5 + k / 60}" for k in range(60)]
        (tmp_path / "t.csv").write_text("\n".join(["code,b,y", *rows]))
        given = [str(tmp_path / "t.csv"), *SMALL, "--save", str(tmp_path / "run")]
        code, _, err = run(capsys, "train", *given)
        assert code == 2
        assert "column 'code': row 1 is 'inf'" in err and "or take it as names: --categorical" in err
        code, out, _ = run(capsys, "train", *given, "--categorical", "code")
        assert code == 0
        assert "A column of zeros and ones for each value of 'code' (6 values)." in out
        code, out, err = run(capsys, "predict", str(tmp_path / "run"), str(tmp_path / "t.csv"))
        assert (code, len(out.splitlines())) == (0, 61)
        assert "no training row has" not in err

    def test_a_tiny_share_tests_a_row_and_none_is_said(self, capsys, places, tmp_path):
        code, out, _ = run(capsys, "train", str(places / "numbers.csv"), *SMALL, "--test-size", "0.001")
        assert code == 0
        assert "Test on 1 unseen row:" in out
        (tmp_path / "t.csv").write_text("a,y\n1,2.5\n2,3.5\n")
        code, out, _ = run(capsys, "train", str(tmp_path / "t.csv"), *SMALL, "--task", "regression")
        assert code == 0
        assert "No row is tested on" in out
        code, _, err = run(
            capsys, "train", str(tmp_path / "t.csv"), *SMALL, "--task", "regression", "--test-size", "0.1"
        )
        assert code == 2
        assert "--test-size 0.1 leaves 1 of 2 rows" in err

    def test_times_are_of_one_clock(self, capsys, places, tmp_path):
        folder = tmp_path / "run"
        _, out, _ = run(capsys, "train", str(places / "numbers.csv"), *SMALL, "--save", str(folder))
        seconds = read_run(folder).seconds
        assert set(seconds) == {"reading", "fitting", "testing", "fitting again"}
        assert f"Fitted in {sum(seconds.values()):.1f} s." in out
        shown = run(capsys, "inspect", str(folder))[1]
        assert re.search(rf"time +{sum(seconds.values()):.1f} s", shown)

    def test_warnings_of_scikit_learn_stay_inside(self, capsys, tmp_path):
        rows = "".join(f"{k},{k * k % 11},{k % 15}\n" for k in range(30))  # half as many classes as rows
        (tmp_path / "t.csv").write_text("a,b,kind\n" + rows)
        code, out, err = run(capsys, "train", str(tmp_path / "t.csv"), *SMALL, "--task", "classification")
        assert code == 0
        assert "Warning" not in out + err
        assert "unique classes" not in out + err


class TestNothingIsOverwritten:
    def test_another_run(self, capsys, places):
        before = (places / "numbers" / "run.json").read_bytes()
        arguments = ["train", str(places / "numbers.csv"), *SMALL, "--save", str(places / "numbers")]
        code, _, err = run(capsys, *arguments)
        assert code == 2
        assert "holds a run already" in err
        assert "--force" in err
        assert (places / "numbers" / "run.json").read_bytes() == before

    def test_force_replaces_it(self, capsys, tmp_path):
        table = write_csv(tmp_path / "t.csv")
        arguments = ["train", str(table), *SMALL, "--save", str(tmp_path / "run"), "--seed"]
        assert run(capsys, *arguments, "1")[0] == 0
        assert run(capsys, *arguments, "2", "--force")[0] == 0
        assert read_run(tmp_path / "run").network["seed"] == 2

    @pytest.mark.parametrize("command", ["train", "report", "predict"])
    def test_a_file(self, capsys, places, tmp_path, monkeypatch, command):
        monkeypatch.setitem(sys.modules, "matplotlib", None)  # figures take time
        there = tmp_path / "there"
        there.write_text("mine")
        table, folder = str(places / "numbers.csv"), str(places / "numbers")
        arguments = {
            "train": ["train", table, *SMALL, "--report", str(there)],
            "report": ["report", folder, "--output", str(there)],
            "predict": ["predict", folder, table, "--output", str(there)],
        }[command]
        code, out, err = run(capsys, *arguments)
        assert (code, out) == (2, "")
        assert "is there already" in err
        assert there.read_text() == "mine"
        assert run(capsys, *arguments, "--force")[0] == 0
        assert there.read_text() != "mine"

    @pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
    def test_a_folder_that_cannot_be_written_to(self, capsys, places, tmp_path):
        (tmp_path / "closed").mkdir(mode=0o500)
        for option in ("--save", "--report"):
            code, _, err = run(capsys, "train", str(places / "numbers.csv"), option, str(tmp_path / "closed" / "x"))
            assert code == 2
            assert f"Choose another place with {option}" in err

    @pytest.mark.parametrize("place", ["t.csv/run", "t.csv/a/b"])
    @pytest.mark.parametrize("option", ["--save", "--report"])
    def test_a_file_is_no_folder(self, capsys, places, tmp_path, monkeypatch, option, place):
        monkeypatch.chdir(tmp_path)
        Path("t.csv").write_bytes((places / "numbers.csv").read_bytes())
        code, _, err = run(capsys, "train", "t.csv", *SMALL, option, place)
        assert code == 2
        assert f"Choose another place with {option}" in err
        assert os.listdir() == ["t.csv"]

    def test_what_is_refused_late_leaves_nothing_behind(self, capsys, tmp_path):
        (tmp_path / "t.csv").write_text("a,y\n" + "".join(f"{k},{k % 7}.5\n" for k in range(30)))
        new = tmp_path / "a" / "b"
        code, _, err = run(capsys, "train", str(tmp_path / "t.csv"), "--width", "2^60", "--save", str(new / "run"))
        assert code == 2
        assert "needs about" in err
        assert os.listdir(tmp_path) == ["t.csv"]
