"""`thresher train`, `predict`, `inspect`, `report`: as a newcomer uses them."""

import json
import os
import re
import shutil
import sys
from importlib import import_module

import numpy as np
import pytest
from learnable import ROWS, SMALL, write_csv
from pages import Whole
from test_cli import run

from thresher import estimators, tables
from thresher.cli.live import Live
from thresher.estimators.base import ThresherEstimator
from thresher.report import read_run


def let_sizes_be(monkeypatch, **sizes):
    """Of the estimators that the command makes, and of what it reads for them."""
    given = estimators.Sizes(**sizes)
    monkeypatch.setattr(ThresherEstimator, "_sizes", given)
    monkeypatch.setattr(estimators, "Sizes", lambda: given)


class TestTrain:
    def test_tells_what_it_does(self, capsys, tmp_path):
        table = write_csv(tmp_path / "table.csv", text=True)
        code, out, _ = run(capsys, "train", str(table), "--width", "2^12")
        assert code == 0
        assert f"Read {table}: 60 rows, 13 columns, target 'y'." in out
        assert "A column of zeros and ones for each value of 'colour' (2 values)." in out
        assert "Task: regression (the target is a number with 60 values; --task overrides)." in out
        assert re.search(r"\n +1 +[\d.e-]+ +[\d.]+ ", out)
        found = re.search(
            r"on 12 unseen rows: R2 [\d.]+, RMSE ([\d.]+), MAE [\d.]+ \(the mean as a guess: RMSE ([\d.]+)", out
        )
        rmse, guess = map(float, found.groups())
        assert rmse < 0.8 * guess

    def test_it_says_that_targets_are_learnt_as_logarithms(self, capsys, tmp_path):
        rng = np.random.default_rng(0)
        a, b = rng.uniform(-1, 1, size=(2, 80))
        rows = [f"{one},{two},{np.exp(4 * one + two**2)}" for one, two in zip(a, b, strict=True)]
        (tmp_path / "table.csv").write_text("\n".join(["a,b,price", *rows]))
        code, out, _ = run(capsys, "train", str(tmp_path / "table.csv"))
        assert code == 0
        assert re.search(r"\n  target +logarithms  \(CRPS: ", out)

    def test_json_is_one_object_and_nothing_else(self, capsys, tmp_path):
        table = write_csv(tmp_path / "table.csv", classes=True)
        code, out, err = run(capsys, "train", str(table), "--width", "2^12", "--json")
        told = json.loads(out)
        assert (code, err) == (0, "")
        assert told["status"] == ["converged"]
        assert told["test"]["measure"] == "log loss"
        assert told["test"]["value"] == told["scores"]["log loss"] < told["test"]["guess"]
        assert told["scores"]["accuracy"] > told["scores"]["accuracy of the guess"]

    def test_quiet_is_one_line(self, capsys, tmp_path):
        table = write_csv(tmp_path / "table.csv")
        _, out, _ = run(capsys, "train", str(table), "--width", "2^12", "--quiet", "--test-size", "0")
        assert re.fullmatch(r"Converged in [\d.]+ s\.\n", out)

    def test_not_converging_ends_with_1_and_says_what_to_do(self, capsys, tmp_path):
        table = write_csv(tmp_path / "table.csv")
        code, out, _ = run(capsys, "train", str(table), "--width", "4", "--save", str(tmp_path / "run"))
        assert code == 1
        assert re.search(
            r"(raise|too narrow|too small).*--width|--width.*(too small|too narrow|Raise)", " ".join(out.split())
        )
        assert (tmp_path / "run" / "run.json").is_file()

    def test_many_rows(self, capsys, tmp_path, monkeypatch):
        let_sizes_be(monkeypatch, chosen_on=100)
        table = str(write_csv(tmp_path / "t.csv", rows=300))
        folder, page = str(tmp_path / "run"), tmp_path / "page.html"
        code, out, _ = run(capsys, "train", table, "--target", "y", "--save", folder, "--report", str(page))
        assert code == 0
        assert "Fitted in" in out
        assert "The limit of infinite width was fitted to 300 rows" in page.read_text()
        Whole().check(page.read_text())
        assert re.search(r"\nsolve +(exact|centres|leaves)\n", run(capsys, "inspect", folder)[1])
        code, out, err = run(capsys, "predict", folder, table)
        assert code == 0
        assert "RMSE" in err + out

    @pytest.mark.parametrize("text", [False, True])
    def test_many_rows_of_a_parquet_file_stay_in_it(self, capsys, tmp_path, monkeypatch, text):
        pyarrow = pytest.importorskip("pyarrow", reason="the extra 'parquet'")
        from pyarrow import parquet

        let_sizes_be(monkeypatch, chosen_on=100, exact=200, centres=40, more_centres=60)
        rng = np.random.default_rng(0)
        columns = {name: rng.normal(size=500) for name in "abc"} | {
            "kind": ["red", "blue"] * 250 if text else [1, 2] * 250
        }
        columns["y"] = columns["a"] + columns["b"] ** 2
        parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
        read = []
        real = tables.ParquetRows.blocks
        monkeypatch.setattr(tables.ParquetRows, "blocks", lambda self, size: read.append(size) or real(self, size))
        folder, more = str(tmp_path / "run"), ("--drop", "c", "--json")
        code, out, _ = run(capsys, "train", str(tmp_path / "t.parquet"), "--save", folder, *more)
        assert code == 0
        assert json.loads(out)["test"]["value"] < 0.5 * json.loads(out)["test"]["guess"]
        assert bool(read) != text
        assert run(capsys, "predict", folder, str(tmp_path / "t.parquet"))[0] == 0
        columns["b"][[3, 400]] = np.nan
        parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
        code, _, err = run(capsys, "train", str(tmp_path / "t.parquet"), *more)
        assert (code, "missing" in err) == ((0, False) if text else (2, True))

    def test_an_estimator_by_default(self, capsys, tmp_path):
        table = write_csv(tmp_path / "table.csv", classes=True)
        page = tmp_path / "page.html"
        given = [*SMALL, "--report", str(page), "--save", str(tmp_path / "run")]
        code, out, _ = run(capsys, "train", str(table), *given)
        assert code == 0
        assert "Task: classification (the target is text with 2 values" in out
        right = float(re.search(r"Test on 12 unseen rows: AUC .* accuracy ([\d.]+)%", out).group(1))
        assert right >= 75
        nameless = tmp_path / "nameless.csv"
        nameless.write_text("".join(line.rpartition(",")[0] + "\n" for line in table.read_text().splitlines()[1:]))
        code, first, _ = run(capsys, "predict", str(tmp_path / "run"), str(table))
        code, again, err = run(capsys, "predict", str(tmp_path / "run"), str(table))
        assert code == 0
        assert first == again
        assert float(re.search(r"accuracy ([\d.]+)%", err).group(1)) >= 75
        code, bare, err = run(capsys, "predict", str(tmp_path / "run" / "model.thresher"), str(nameless), "--no-header")
        assert (code, bare) == (0, first)
        code, out, _ = run(capsys, "inspect", str(tmp_path / "run" / "model.thresher"))
        assert code == 0
        assert "ThresherClassifier" in out
        assert "with a ridge of" in page.read_text(encoding="utf-8")

    @pytest.mark.parametrize("kind", ["parquet", "no header", "semicolons"])
    def test_other_kinds_of_files(self, capsys, tmp_path, kind):
        generator = np.random.default_rng(0)
        X = generator.normal(size=(40, 10))
        y = X @ np.arange(10)
        table = tmp_path / f"table.{kind}"
        if kind == "parquet":
            pandas = pytest.importorskip("pandas", reason="writes the file for this test")
            pytest.importorskip("pyarrow", reason="the extra 'parquet'")
            pandas.DataFrame({**{f"x{k}": column for k, column in enumerate(X.T)}, "y": y}).to_parquet(table)
        else:
            mark = ";" if kind == "semicolons" else ","
            table.write_text("\n".join(mark.join(map(repr, row)) for row in np.column_stack([X, y]).tolist()))
        code, out, err = run(capsys, "train", str(table), "--width", "2^12", "--quiet")
        assert code == 0, err
        assert "RMSE" in out


class TestRun:
    def test_the_page_is_whole(self, folder):
        text = (folder / "page.html").read_text(encoding="utf-8")
        Whole().check(text)
        assert text.count('<figure role="img" aria-label="') == 3
        assert f"thresher train {folder}/table.csv --width" in text
        assert not re.search(r'(src|href)="(?!data:|#)', text)
        assert "http" not in re.sub(r'xmlns(:\w+)?="[^"]*"', "", text)

    def test_predict_gives_what_was_tested(self, capsys, folder):
        code, out, err = run(capsys, "predict", str(folder / "run"), str(folder / "table.csv"))
        assert code == 0
        lines = out.splitlines()
        assert lines[0] == "prediction"
        assert len(lines) == 1 + ROWS
        assert set(lines[1:]) == {"up", "down"}
        assert float(re.search(r"accuracy ([\d.]+)%", err).group(1)) > 90

    def test_predict_writes_a_file(self, capsys, folder, tmp_path):
        output = tmp_path / "new" / "p.csv"
        code, out, _ = run(capsys, "predict", str(folder / "run"), str(folder / "table.csv"), "--output", str(output))
        assert (code, out) == (0, "")
        assert len(output.read_text().splitlines()) == 1 + ROWS

    def test_inspect(self, capsys, folder):
        _, out, _ = run(capsys, "inspect", str(folder / "run"))
        assert "4,096 neurons were trained on 48 rows" in " ".join(out.split())
        _, out, _ = run(capsys, "inspect", str(folder / "run"), "--json")
        assert json.loads(out)["width"] == 4096

    def test_report_again(self, capsys, folder, tmp_path):
        code, _, _ = run(capsys, "report", str(folder / "run"), "--output", str(tmp_path / "again.html"))
        assert code == 0
        again = (tmp_path / "again.html").read_text(encoding="utf-8")
        assert again == (folder / "page.html").read_text(encoding="utf-8")

    def test_nothing_else_is_left(self, folder):
        assert sorted(path.name for path in (folder / "run").iterdir()) == ["model.thresher", "run.json"]
        assert sorted(path.name for path in folder.iterdir()) == ["page.html", "run", "table.csv"]

    def test_damage_is_refused_in_a_line(self, capsys, folder, tmp_path):
        raw = (folder / "run" / "run.json").read_bytes()
        for bad in (
            raw[:99],
            b"[]",
            b"{}",
            b'{"version": 1, "evaluation": {}}',
            raw.replace(b'"rows": ', b'"rows": "', 1),
        ):
            (tmp_path / "run.json").write_bytes(bad)
            for command in (["inspect", str(tmp_path)], ["report", str(tmp_path)]):
                code, _, err = run(capsys, *command)
                assert (code, len(err.splitlines())) == (2, 1)
        assert os.listdir(tmp_path) == ["run.json"]

    def test_a_model_of_another_run_is_refused(self, capsys, folder, places, tmp_path):
        shutil.copytree(folder / "run", tmp_path / "run")
        shutil.copy(places / "numbers" / "model.thresher", tmp_path / "run")
        code, _, err = run(capsys, "predict", str(tmp_path / "run"), str(folder / "table.csv"))
        assert code == 2
        assert re.search(r"run\.json is of another model than model\.thresher.*--force", err)

    def test_an_interrupted_training_keeps_its_last_iteration(self, capsys, tmp_path, monkeypatch):
        table = write_csv(tmp_path / "table.csv", classes=True)
        arguments = ["train", str(table), "--width", "2^12", "--save", str(tmp_path / "run")]
        with monkeypatch.context() as patch:
            patch.setattr(Live, "on_iteration", lambda self, record: record.iteration == 2)
            code, out, _ = run(capsys, *arguments)
        assert code == 130
        assert "Interrupted" in out
        assert len(read_run(tmp_path / "run").trainings[0].history) == 3

    @pytest.mark.parametrize(
        ("moment", "kept"),
        [
            ("thresher.cli.train.read_table", "Nothing was kept of this run"),
            ("thresher.cli.train.test_model", "Nothing was kept of this run"),
            ("thresher.cli.train.save_run", "Nothing was kept of this run"),
            ("thresher.report.evaluation.render_page", "Its report is not: thresher report"),
        ],
    )
    def test_an_interrupt_says_what_was_kept(self, capsys, tmp_path, monkeypatch, moment, kept):
        def interrupt(*_, **__):
            raise KeyboardInterrupt

        table, folder = write_csv(tmp_path / "table.csv"), tmp_path / "run"
        arguments = ["train", str(table), "--width", "2^10", "--save", str(folder)]
        arguments += ["--report", str(tmp_path / "page.html")]
        with monkeypatch.context() as patch:
            module, _, name = moment.rpartition(".")
            patch.setattr(import_module(module), name, interrupt)
            code, _, err = run(capsys, *arguments)
        assert code == 130
        assert kept in err
        assert folder.exists() == ("report" in moment.rpartition(".")[0])
        if folder.exists():
            assert sorted(path.name for path in folder.iterdir()) == ["model.thresher", "run.json"]
        assert not (tmp_path / "page.html").exists()

    def test_without_matplotlib_the_tables_remain(self, capsys, folder, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        code, _, _ = run(capsys, "report", str(folder / "run"), "--output", str(tmp_path / "bare.html"))
        text = (tmp_path / "bare.html").read_text(encoding="utf-8")
        assert code == 0
        assert "<figure" not in text
        assert "Figures need matplotlib" in text

    def test_without_jinja_a_page_is_refused_before_any_work(self, capsys, folder, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "jinja2", None)
        table, page = write_csv(tmp_path / "table.csv"), tmp_path / "page.html"
        monkeypatch.setattr("thresher.cli.train._train", None)  # nothing is read
        refused = "Error: Pages need Jinja2, which is not installed. Run: pip install 'thresher-ml[plot]'\n"
        for command in (
            ("train", str(table), "--save", str(tmp_path / "run"), "--report", str(page)),
            ("report", str(folder / "run"), "--output", str(page)),
            ("verify", "--output", str(tmp_path / "verify")),
        ):
            assert run(capsys, *command) == (2, "", refused)
        assert os.listdir(tmp_path) == ["table.csv"]
