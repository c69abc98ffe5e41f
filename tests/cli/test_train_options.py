"""What `train` and `predict` can do besides: part of the rows, cross-validation, a refit, error bars, probabilities."""

import csv
import io
import json
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from test_cli import run
from test_train_command import write_csv

import thresher
from thresher import estimators
from thresher.runs import read_run

SMALL = ("--width", "256", "--shift", "1", "--bias", "1")


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A regression and a classification with their runs, for all that only read them."""
    from thresher.cli import commands

    place = tmp_path_factory.mktemp("runs")
    for name, classes in (("numbers", False), ("classes", True)):
        table = write_csv(place / f"{name}.csv", classes=classes)
        given = ["train", str(table), *SMALL, "--save", str(place / name), "--seed", "7", "--quiet"]
        commands.main(given, standalone_mode=False, obj=given)
    return place


def predicted(out):
    """The columns of what was printed, by name."""
    head, *rows = csv.reader(io.StringIO(out))
    return {name: [row[place] for row in rows] for place, name in enumerate(head)}


class TestTrain:
    def test_part_of_the_rows(self, capsys, tmp_path):
        table = write_csv(tmp_path / "t.csv", classes=True)
        code, out, _ = run(capsys, "train", str(table), *SMALL, "--rows", "40", "--save", str(tmp_path / "run"))
        assert code == 0
        assert "Using 40 of 60 rows, chosen at random." in out
        assert "Fitting again, to all 40 rows" in out
        assert read_run(tmp_path / "run").data["rows trained on"] == 40
        code, out, _ = run(capsys, "train", str(table), *SMALL, "--rows", "1e4")
        assert code == 0
        assert "--rows 10,000 is more than the file has; using all 60." in out

    def test_the_saved_model_knows_all_rows_and_the_score_is_of_the_one_before(self, capsys, places, tmp_path):
        table, one = str(places / "numbers.csv"), read_run(places / "numbers")
        assert one.data["rows trained on"] == 60
        assert one.data["tested"] == "before the fit to all rows"
        assert len(one.seen) == 60
        arguments = ["train", table, *SMALL, "--seed", "7", "--json", "--save", str(tmp_path / "run")]
        code, out, _ = run(capsys, *arguments, "--no-refit")
        told = json.loads(out)
        assert code == 0
        assert told["data"]["rows trained on"] == 48
        assert told["data"]["tested"] == "with this model"
        assert told["test"]["value"] == pytest.approx(one.test.value)
        assert len(read_run(tmp_path / "run").seen) == 48

    def test_without_save_nothing_is_fitted_again(self, capsys, places):
        _, out, _ = run(capsys, "train", str(places / "numbers.csv"), *SMALL)
        assert "Fitting again" not in out
        assert "Test on 12 rows that were kept for it: R2 " in out

    @pytest.mark.parametrize("ridge", ["auto", "0"])
    def test_cross_validation(self, capsys, places, tmp_path, ridge):
        folder = tmp_path / "run"
        arguments = ["train", str(places / "numbers.csv"), *SMALL, "--cv", "3", "--ridge", ridge, "--save", str(folder)]
        if ridge == "0":
            arguments[arguments.index("256")] = "4096"
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

    def test_precision_of_exact_training(self, capsys, places, tmp_path):
        given = [
            "--ridge",
            "0",
            "--width",
            "2^12",
            "--dtype",
            "float64",
            "--tol",
            "1e-9",
            "--save",
            str(tmp_path / "r"),
        ]
        code, _, err = run(capsys, "train", str(places / "numbers.csv"), *given)
        assert code == 0, err
        assert read_run(tmp_path / "r").options["dtype"] == "float64"
        assert run(capsys, "audit", str(tmp_path / "r"))[0] == 0

    def test_stalling_names_options_that_there_are(self, capsys, places):
        code, out, _ = run(capsys, "train", str(places / "numbers.csv"), "--ridge", "0", "--width", "4")
        assert code == 1
        assert "--width (now 4)" in out
        assert "damping" not in out

    def test_too_many_rows_for_the_memory(self, capsys, places, tmp_path, monkeypatch):
        monkeypatch.setattr("thresher.memory.available_bytes", lambda: 1_000_000)
        code, _, err = run(
            capsys, "train", str(places / "numbers.csv"), *SMALL, "--save", str(tmp_path / "new" / "run")
        )
        assert code == 2
        fit, advised = re.search(
            r"About (\d+) rows would fit\. Use --rows (\d+) to train on a random part", err
        ).groups()
        assert 0.9 * int(fit) <= int(advised) <= int(fit)
        assert not (tmp_path / "new").exists()

    def test_the_limit_of_infinite_width(self, capsys, places):
        code, out, _ = run(capsys, "train", str(places / "numbers.csv"), "--width", "inf", "--shift", "1", "--json")
        assert code == 0
        assert "The limit of infinite width was fitted" in json.loads(out)["what"]
        code, _, err = run(capsys, "train", str(places / "numbers.csv"), "--width", "inf", "--ridge", "0")
        assert code == 2
        assert "Give --width a number" in err

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

    def test_a_tiny_share_tests_a_row_and_none_is_said(self, capsys, places, tmp_path):
        code, out, _ = run(capsys, "train", str(places / "numbers.csv"), *SMALL, "--test-size", "0.001")
        assert code == 0
        assert "Test on 1 rows" in out
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
        before = (places / "numbers" / "run.thresher").read_bytes()
        arguments = ["train", str(places / "numbers.csv"), *SMALL, "--save", str(places / "numbers")]
        code, _, err = run(capsys, *arguments)
        assert code == 2
        assert "holds a run already" in err
        assert "--force" in err
        assert (places / "numbers" / "run.thresher").read_bytes() == before

    def test_force_replaces_it(self, capsys, tmp_path):
        table = write_csv(tmp_path / "t.csv")
        arguments = ["train", str(table), *SMALL, "--save", str(tmp_path / "run"), "--seed"]
        assert run(capsys, *arguments, "1")[0] == 0
        assert run(capsys, *arguments, "2", "--force")[0] == 0
        assert read_run(tmp_path / "run").network["seed"] == 2

    def test_a_checkpoint(self, capsys, places, tmp_path):
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "checkpoint").write_text("something")
        arguments = ["train", str(places / "numbers.csv"), "--ridge", "0", "--save", str(tmp_path / "run")]
        code, _, err = run(capsys, *arguments)
        assert code == 2
        assert "holds an interrupted run. Add --resume to go on with it, or --force" in err
        assert (tmp_path / "run" / "checkpoint").read_text() == "something"

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
        (tmp_path / "t.csv").write_text("a,y\n" + "".join(f"{k % 3},{k}.5\n" for k in range(30)))
        new = tmp_path / "a" / "b"
        code, _, err = run(capsys, "train", str(tmp_path / "t.csv"), "--ridge", "0", "--save", str(new / "run"))
        assert code == 2
        assert "rows of X come with more than one" in err
        assert "Use --ridge auto" in err
        assert os.listdir(tmp_path) == ["t.csv"]


class TestPredict:
    def test_probabilities(self, capsys, places):
        folder, table = str(places / "classes"), str(places / "classes.csv")
        code, out, err = run(capsys, "predict", folder, table, "--proba")
        found = predicted(out)
        assert code == 0
        assert list(found) == ["prediction", "down", "up"]
        chances = np.array([found["down"], found["up"]], float)
        np.testing.assert_allclose(chances.sum(axis=0), 1, atol=1e-4)
        assert found["prediction"] == np.where(chances[1] > chances[0], "up", "down").tolist()
        assert re.search(r"60 rows: accuracy [\d.]+%, log loss [\d.]+\.", err)
        assert re.search(r"Recall of each class: down \d+% of \d+, up \d+% of \d+\.", err)

    def test_a_class_that_has_the_name_of_a_column(self, capsys, tmp_path):
        X = np.random.default_rng(0).normal(size=(60, 2))
        labels = np.array(["prediction", "other", "third"])[np.digitize(X[:, 0], [-0.4, 0.4])]
        rows = [f"{a},{b},{c}" for (a, b), c in zip(X, labels, strict=True)]
        (tmp_path / "t.csv").write_text("\n".join(["a,b,y", *rows]))
        given = [str(tmp_path / "t.csv"), *SMALL, "--quiet", "--save", str(tmp_path / "run")]
        assert run(capsys, "train", *given)[0] == 0
        code, out, err = run(capsys, "predict", str(tmp_path / "run"), str(tmp_path / "t.csv"), "--proba")
        names = [f"probability of {one}" for one in ("other", "prediction", "third")]
        found = predicted(out)
        assert code == 0
        assert list(found) == ["prediction", *names]
        assert "A class is called 'prediction'" in err
        chances = np.array([found[name] for name in names], float)
        np.testing.assert_allclose(chances.sum(axis=0), 1, atol=1e-9)
        code, out, err = run(capsys, "predict", str(tmp_path / "run"), str(tmp_path / "t.csv"))
        assert out.startswith("prediction\n")
        assert "is called" not in err

    def test_small_numbers_that_were_learnt_as_logarithms_keep_their_digits(self, capsys, tmp_path):
        X = np.random.default_rng(0).normal(size=(60, 2))
        y = np.exp(4 * X[:, 0])  # from 1e-4 to 1e4
        model = thresher.ThresherRegressor(width=256, target="log", random_state=0).fit(X, y)
        model.save(tmp_path / "m")
        np.savez(tmp_path / "t.npz", X=X, y=y)
        full, short = (
            np.array(predicted(run(capsys, "predict", *given, "--digits", digits)[1])["prediction"], float)
            for given in [(str(tmp_path / "m"), str(tmp_path / "t.npz"))]
            for digits in ("full", "auto")
        )
        assert full.min() < 1e-3 and full.max() > 1e3
        np.testing.assert_array_less(np.abs(short - full), 0.05 * np.abs(full - model.floor_) + 1e-12)
        cells = predicted(run(capsys, "predict", str(tmp_path / "m"), str(tmp_path / "t.npz"))[1])["prediction"]
        assert max(map(len, cells)) < 12

    def test_error_bars_with_sensible_digits(self, capsys, places):
        folder, table = str(places / "numbers"), str(places / "numbers.csv")
        error = read_run(places / "numbers").test.value
        code, out, err = run(capsys, "predict", folder, table, "--std")
        found = predicted(out)
        assert code == 0
        assert list(found) == ["prediction", "std"]
        decimals = {len(one.partition(".")[2]) for one in found["prediction"] + found["std"]}
        assert decimals == {2}
        assert 0.1 < error < 1
        assert re.search(r"Compared with column 'y' of 60 rows: R2 [01]\.\d{3}, RMSE [\d.]+, MAE [\d.]+\.", err)
        _, out, _ = run(capsys, "predict", folder, table, "--std", "--digits", "full")
        full = predicted(out)
        assert any(len(one) > 12 for one in full["prediction"])
        for name, cells in full.items():
            np.testing.assert_allclose(np.array(cells, float), np.array(found[name], float), atol=0.005 + 1e-9)

    def test_rows_that_were_trained_on_are_noticed(self, capsys, places, tmp_path):
        old, new = (places / "numbers.csv").read_text().splitlines(), write_csv(tmp_path / "n.csv", seed=1).read_text()
        head, *others = new.splitlines()
        for rows, words in (
            (others, None),
            (others[:3] + old[1:3], "2 of 5 rows have the inputs of rows that the model was trained on"),
            (old[1:], "all rows have the inputs of rows"),
        ):
            (tmp_path / "t.csv").write_text("\n".join([head, *rows]))
            _, _, err = run(capsys, "predict", str(places / "numbers"), str(tmp_path / "t.csv"))
            assert (words or "Compared") in err
            assert ("trained on" in err) == (words is not None)

    def test_a_refit_model_has_seen_every_row(self, places):
        assert len(read_run(places / "classes").seen) == 60

    @pytest.mark.parametrize(
        ("kind", "option", "words"),
        [
            ("numbers", "--proba", "--proba is for classes; this model predicts numbers. Use --std"),
            ("classes", "--std", "--std is for numbers; this model predicts classes. Use --proba"),
        ],
    )
    def test_what_a_model_cannot_do(self, capsys, places, kind, option, words):
        code, _, err = run(capsys, "predict", str(places / kind), str(places / f"{kind}.csv"), option)
        assert code == 2
        assert words in err

    def test_error_bars_need_a_ridge(self, capsys, places, tmp_path):
        arguments = ["train", str(places / "numbers.csv"), "--ridge", "0", "--width", "2^12", "--quiet"]
        assert run(capsys, *arguments, "--save", str(tmp_path / "run"))[0] == 0
        code, _, err = run(capsys, "predict", str(tmp_path / "run"), str(places / "numbers.csv"), "--std")
        assert code == 2
        assert "--std needs a model with a ridge" in err

    def test_a_refused_prediction_leaves_nothing_behind(self, capsys, places, tmp_path):
        (tmp_path / "t.csv").write_text("a,b\n1,2\n")
        output = tmp_path / "new" / "p.csv"
        code, _, _ = run(capsys, "predict", str(places / "numbers"), str(tmp_path / "t.csv"), "--output", str(output))
        assert code == 2
        assert os.listdir(tmp_path) == ["t.csv"]

    def test_several_outputs(self, capsys, tmp_path):
        X = np.random.default_rng(0).normal(size=(20, 2))
        model = thresher.ThresherRegressor(width=64, shift=1.0, bias=1.0, feature_learning=0, random_state=0)
        model.fit(X, X @ [[1, 2], [3, 4]]).save(tmp_path / "m")
        (tmp_path / "t.csv").write_text("\n".join(",".join(map(str, row)) for row in X))
        code, out, _ = run(capsys, "predict", str(tmp_path / "m"), str(tmp_path / "t.csv"), "--std")
        found = predicted(out)
        assert code == 0
        assert list(found) == ["prediction 1", "prediction 2", "std 1", "std 2"]
        np.testing.assert_allclose(np.array(found["prediction 2"], float), model.predict(X)[:, 1])

    def test_a_parquet_file_is_read_in_blocks(self, capsys, places, tmp_path, monkeypatch):
        pyarrow = pytest.importorskip("pyarrow", reason="the extra 'parquet'")
        from pyarrow import csv as arrow_csv
        from pyarrow import parquet

        table = arrow_csv.read_csv(places / "numbers.csv")
        parquet.write_table(table, tmp_path / "t.parquet")
        read = []
        predict = estimators.ThresherRegressor.predict
        monkeypatch.setattr(sys.modules["thresher.cli.predict"], "_BLOCK", 25)
        monkeypatch.setattr(
            estimators.ThresherRegressor,
            "predict",
            lambda self, X, **more: read.append(len(X)) or predict(self, X, **more),
        )
        _, whole, _ = run(capsys, "predict", str(places / "numbers"), str(places / "numbers.csv"))
        code, out, err = run(capsys, "predict", str(places / "numbers"), str(tmp_path / "t.parquet"))
        assert (code, out) == (0, whole)
        assert read == [60, 25, 25, 10]
        assert "Compared with column 'y' of 60 rows" in err
        assert isinstance(table, pyarrow.Table)


@pytest.mark.parametrize("ridge", [[], ["--ridge", "0", "--width", "2^12"]])
def test_json_has_no_word_that_json_does_not_know(capsys, places, tmp_path, ridge):
    def refuse(word):
        raise AssertionError(word)

    given = ["--test-size", "0.001", "--save", str(tmp_path / "run"), "--no-refit", "--json"]  # R2 of a row is NaN
    _, told, _ = run(capsys, "train", str(places / "numbers.csv"), *SMALL, *ridge, *given)
    assert json.loads(told, parse_constant=refuse)["scores"]["R2"] is None
    for model in (tmp_path / "run", tmp_path / "run" / "model.thresher"):
        _, told, _ = run(capsys, "inspect", str(model), "--json")
        assert json.loads(told, parse_constant=refuse)


def test_columns_go_by_name_if_the_model_has_names(capsys, places, tmp_path):
    X = np.random.default_rng(0).normal(size=(40, 3))
    y = X @ [1, 10, 100]

    def write(name, head, columns):
        lines = [",".join(f"{one:.6f}" for one in row) for row in np.column_stack(columns)]
        (tmp_path / name).write_text("\n".join([head, *lines] if head else lines))
        return str(tmp_path / name)

    a, b, c = X.T
    table = write("t.csv", "column 3,column 1,column 7,y", (a, b, c, y))
    assert run(capsys, "train", table, *SMALL, "--save", str(tmp_path / "run"), "--quiet")[0] == 0
    true = run(capsys, "predict", str(tmp_path / "run"), table)[1]
    turned = write("turned.csv", "column 1,column 7,column 3", (b, c, a))
    assert run(capsys, "predict", str(tmp_path / "run"), turned)[1] == true
    code, _, err = run(
        capsys, "predict", str(tmp_path / "run"), write("o.csv", "column 1,column 2,column 3", (b, c, a))
    )
    assert code == 2 and "lacks columns that the model was trained on: column 7" in err
    other = write("other.csv", ",".join(f"column {k}" for k in range(33, 20, -1)), [a] * 13)
    code, _, err = run(capsys, "predict", str(places / "numbers"), other)
    assert code == 2 and "lacks columns that the model was trained on" in err
    bare = write("bare.csv", "", (y, a, b, c))  # without names, and the target first
    assert run(capsys, "train", bare, *SMALL, "--target", "column 1", "--save", str(tmp_path / "b"), "--quiet")[0] == 0
    true = run(capsys, "predict", str(tmp_path / "b"), bare)[1]
    assert run(capsys, "predict", str(tmp_path / "b"), write("inputs.csv", "", (a, b, c)))[1] == true


def test_inspect_shows_the_seed_that_was_given(capsys, places):
    _, out, _ = run(capsys, "inspect", str(places / "numbers"))
    assert re.search(r"\nseed +7 *\n", out)
    _, out, _ = run(capsys, "inspect", str(places / "numbers" / "model.thresher"), "--json")
    assert json.loads(out)["seed"] == 7
