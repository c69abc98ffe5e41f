"""``thresher predict`` with its options, and what is printed of a model."""

import csv
import io
import json
import os
import re
from importlib import import_module

import numpy as np
import pytest
from learnable import SMALL
from test_cli import run

import thresher
from thresher import estimators
from thresher.report import read_run


def predicted(out):
    """The columns of what was printed, by name."""
    head, *rows = csv.reader(io.StringIO(out))
    return {name: [row[place] for row in rows] for place, name in enumerate(head)}


class TestPredict:
    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
    def test_a_full_device_is_said_in_a_line(self, capsys, places):
        given = [str(places / "classes"), str(places / "classes.csv"), "--quiet", "--output", "/dev/full"]
        code, out, err = run(capsys, "predict", *given)
        assert (code, out) == (2, "")
        assert err == "Error: cannot write /dev/full: No space left on device. Choose another place with --output.\n"

    def test_no_number_is_minus_nothing(self):
        predict = import_module("thresher.cli.predict")
        assert [predict._say(value, 1) for value in (-0.04, -0.06, 0.0)] == ["0.0", "-0.1", "0.0"]

    def test_probabilities(self, capsys, places):
        folder, table = str(places / "classes"), str(places / "classes.csv")
        code, out, err = run(capsys, "predict", folder, table, "--proba")
        found = predicted(out)
        assert code == 0
        assert list(found) == ["prediction", "down", "up"]
        chances = np.array([found["down"], found["up"]], float)
        np.testing.assert_allclose(chances.sum(axis=0), 1, atol=1e-4)
        assert found["prediction"] == np.where(chances[1] > chances[0], "up", "down").tolist()
        assert re.search(
            r"60 rows: AUC [\d.]+, average precision of \w+ .*, log loss [\d.]+ \(base rate [\d.]+\), accuracy [\d.]+%",
            err,
        )
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
        model = thresher.ThresherRegressor(target_transform="log").fit(X, y)
        model.save(tmp_path / "m")
        np.savetxt(tmp_path / "t.csv", np.column_stack([X, y]), delimiter=",")
        full, short = (
            np.array(predicted(run(capsys, "predict", *given, "--digits", digits)[1])["prediction"], float)
            for given in [(str(tmp_path / "m"), str(tmp_path / "t.csv"))]
            for digits in ("full", "auto")
        )
        assert full.min() < 1e-3 and full.max() > 1e3
        np.testing.assert_array_less(np.abs(short - full), 0.05 * np.abs(full - model.predictive_.floor) + 1e-12)
        cells = predicted(run(capsys, "predict", str(tmp_path / "m"), str(tmp_path / "t.csv"))[1])["prediction"]
        assert max(map(len, cells)) < 12

    def test_error_bars_with_sensible_digits(self, capsys, places):
        folder, table = str(places / "numbers"), str(places / "numbers.csv")
        error = read_run(places / "numbers").test.value
        code, out, err = run(capsys, "predict", folder, table, "--interval", "0.9")
        found = predicted(out)
        assert code == 0
        assert list(found) == ["prediction", "lower", "upper"]
        decimals = {len(one.partition(".")[2]) for cells in found.values() for one in cells}
        assert decimals == {2}
        assert 0.1 < error < 1
        assert re.search(r"Compared with column 'y' of 60 rows: R2 [01]\.\d{3}, RMSE [\d.]+, MAE [\d.]+\.", err)
        _, out, _ = run(capsys, "predict", folder, table, "--interval", "0.9", "--digits", "full")
        full = predicted(out)
        assert any(len(one) > 12 for one in full["prediction"])
        for name, cells in full.items():
            np.testing.assert_allclose(np.array(cells, float), np.array(found[name], float), atol=0.005 + 1e-9)

    @pytest.mark.parametrize("outputs", [1, 2])
    def test_intervals_are_those_of_the_model(self, capsys, tmp_path, outputs):
        """Deviations of logarithms to either side were below any possible target."""
        X = np.random.default_rng(0).normal(size=(60, 2))
        y = np.exp(X[:, :1] + np.random.default_rng(1).normal(size=(60, outputs)))
        fixed = {"bias": 1.0, "ridge": 0.1, "feature_learning": 0}
        model = thresher.ThresherRegressor(target_transform="log", **fixed)
        model.fit(X, y if outputs > 1 else y[:, 0]).save(tmp_path / "m")
        np.savetxt(tmp_path / "t.csv", X, delimiter=",")
        asked = (str(tmp_path / "m"), str(tmp_path / "t.csv"), "--interval", "0.8", "--digits", "full")
        code, out, err = run(capsys, "predict", *asked)
        found, numbers = predicted(out), [""] if outputs == 1 else [" 1", " 2"]
        assert code == 0
        assert list(found) == [f"{name}{one}" for name in ("prediction", "lower", "upper") for one in numbers]
        told = np.array(list(found.values()), float).reshape(3, outputs, 60)
        expected = [one.reshape(60, -1).T for one in (model.predict(X), *model.predict_interval(X, 0.8))]
        np.testing.assert_allclose(told, expected, rtol=1e-6)
        assert (told[1] > model.predictive_.floor[:, None]).all()
        assert "--interval" not in err

    @pytest.mark.parametrize(
        ("kind", "option", "words"),
        [
            ("numbers", "--proba", "--proba is for classes; this model predicts numbers. Use --interval"),
            ("classes", "--interval=0.9", "--interval is for numbers; this model predicts classes. Use --proba"),
            ("numbers", "--interval=90", "--interval must lie between 0 and 1, such as 0.9; got 90."),
            ("numbers", "--interval=0", "--interval must lie between 0 and 1"),
            ("numbers", "--interval=nan", "--interval must lie between 0 and 1"),
        ],
    )
    def test_what_a_model_cannot_do(self, capsys, places, kind, option, words):
        code, _, err = run(capsys, "predict", str(places / kind), str(places / f"{kind}.csv"), option)
        assert code == 2
        assert words in err

    def test_error_bars_need_a_ridge(self, capsys, places, tmp_path):
        arguments = ["train", str(places / "numbers.csv"), "--width", "2^12", "--quiet"]
        assert run(capsys, *arguments, "--save", str(tmp_path / "run"))[0] == 0
        code, _, err = run(capsys, "predict", str(tmp_path / "run"), str(places / "numbers.csv"), "--interval=0.9")
        assert code == 2
        assert "--interval needs a model with a ridge" in err

    def test_a_refused_prediction_leaves_nothing_behind(self, capsys, places, tmp_path):
        (tmp_path / "t.csv").write_text("a,b\n1,2\n")
        output = tmp_path / "new" / "p.csv"
        code, _, _ = run(capsys, "predict", str(places / "numbers"), str(tmp_path / "t.csv"), "--output", str(output))
        assert code == 2
        assert os.listdir(tmp_path) == ["t.csv"]

    def test_several_outputs(self, capsys, tmp_path):
        X = np.random.default_rng(0).normal(size=(20, 2))
        model = thresher.ThresherRegressor(bias=1.0, feature_learning=0)
        model.fit(X, X @ [[1, 2], [3, 4]]).save(tmp_path / "m")
        (tmp_path / "t.csv").write_text("\n".join(",".join(map(str, row)) for row in X))
        code, out, _ = run(capsys, "predict", str(tmp_path / "m"), str(tmp_path / "t.csv"), "--digits", "full")
        found = predicted(out)
        assert code == 0
        assert list(found) == ["prediction 1", "prediction 2"]
        np.testing.assert_allclose(np.array(found["prediction 2"], float), model.predict(X)[:, 1])

    def test_a_parquet_file_is_read_in_blocks(self, capsys, places, tmp_path, monkeypatch):
        pyarrow = pytest.importorskip("pyarrow", reason="the extra 'parquet'")
        from pyarrow import csv as arrow_csv
        from pyarrow import parquet

        table = arrow_csv.read_csv(places / "numbers.csv")
        parquet.write_table(table, tmp_path / "t.parquet")
        read = []
        predict = estimators.ThresherRegressor.predict
        monkeypatch.setattr(import_module("thresher.cli.predict"), "_BLOCK", 25)
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


@pytest.mark.parametrize("more", [SMALL, ["--width", "2^12"]])
def test_json_has_no_word_that_json_does_not_know(capsys, places, tmp_path, more):
    def refuse(word):
        raise AssertionError(word)

    given = ["--test-size", "0.001", "--save", str(tmp_path / "run"), "--json"]  # R2 of a row is NaN
    _, told, _ = run(capsys, "train", str(places / "numbers.csv"), *more, *given)
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
