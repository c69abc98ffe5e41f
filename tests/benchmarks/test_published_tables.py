"""The published tables: which rows are used, how long a fit may take, and what the page says of the rows."""

import json
import os
import time

import numpy as np
import pytest
from benchmarks.page import END, begin
from benchmarks.tabular import __main__ as command
from benchmarks.tabular import compared, page, protocol, store, tables
from benchmarks.tabular.goals import goals
from benchmarks.tabular.limited import within
from benchmarks.tabular.models import ADDITIVE, PUBLISHED_CLASSIFIERS, PUBLISHED_REGRESSORS, TREES, Model
from benchmarks.tabular.sets import TABLES, load_set
from standins import Standin, StandinClassifier, fits

pytestmark = pytest.mark.thorough

SUITE = "published-tables"
ROWS, HELD = 60, 15
RIVALS = {"lightgbm": 0.80, "xgboost": 0.85, "catboost": 0.90, "extra-trees": 0.70, "ebm": 0.60, "splines": 0.50}


class SlowClassifier(StandinClassifier):
    """Takes longer than the limit on all rows, not on the few that come first."""

    def fit(self, X, y):
        time.sleep(60 if len(y) > 20 else 0)
        return super().fit(X, y)


def write_table(folder, name, *, labelled, seed=0, change=lambda X, y: None):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((ROWS, 4)).astype(np.float32)
    X[:, 0] = np.arange(ROWS)
    y = np.array([2, 7, 9], np.int16)[np.arange(ROWS) % 3] if labelled else 5 * X[:, 1].astype(np.float64)
    change(X, y)
    order = rng.permutation(ROWS).astype(np.int32)
    (folder / TABLES).mkdir(exist_ok=True)
    np.savez(folder / TABLES / f"{name}.npz", X=X, y=y, train=order[HELD:], test=order[:HELD])


@pytest.fixture
def data(tmp_path, monkeypatch):
    write_table(tmp_path, "kinds", labelled=True)
    write_table(tmp_path, "values", labelled=False)
    standins = [("standins", "StandinClassifier"), ("standins", "StandinRegressor")]
    monkeypatch.setattr(Standin, "seen", [])
    monkeypatch.setattr(Standin, "breaks", {})
    monkeypatch.setattr(
        protocol.PublishedTables, "models", tuple(Model("thresher", "thresher, default", one) for one in standins)
    )
    monkeypatch.setattr(protocol.PublishedTables, "limit", None)
    monkeypatch.setattr(protocol, "FEW", 20)
    return tmp_path


def run(data, *more):
    output = data / "out.json"
    code = command.main(["--data-dir", str(data), "--suite", SUITE, "--output", str(output), "--threads", "1", *more])
    rows = json.loads(output.read_text())["rows"] if output.is_file() else []
    return code, {(row["model"], row["set"]): row for row in rows}


class TestRows:
    def test_a_table_has_its_split_and_what_its_targets_are(self, data):
        kinds, values = (load_set(data / TABLES, name) for name in ("kinds", "values"))
        assert kinds.labelled and not values.labelled
        code, rows = run(data)
        assert code == 0 and set(rows) == {("thresher", "kinds"), ("thresher", "values")}
        assert {"accuracy"} == rows["thresher", "kinds"].keys() & {"accuracy", "r2", "rmse"}
        assert rows["thresher", "kinds"]["classes"] == 3 and rows["thresher", "kinds"]["inputs"] == ROWS - HELD
        row, test = rows["thresher", "values"], values.splits["test"]
        assert row["r2"] == pytest.approx(1 - row["rmse"] ** 2 / values.targets[test].var())

    def test_every_model_is_shown_the_training_rows_alone(self, data):
        run(data)
        for name, first, real in zip(
            ("kinds", "values"), fits(Standin.seen)[::2], fits(Standin.seen)[1::2], strict=True
        ):
            splits = load_set(data / TABLES, name).splits
            assert list(first[2]) == list(splits["train"][:20]), "a few rows for compiling"
            assert list(real[2]) == list(splits["train"])
        assert sorted(set(fits(Standin.seen)[1][3])) == [0, 1, 2], "classes are told as 0, 1, ..."
        asked = [set(one[2]) for one in fits(Standin.seen, "ask")]
        assert all(one == set(load_set(data / TABLES, "kinds").splits["test"]) for one in asked[:1])

    def test_poisoned_test_rows_change_no_fit(self, data):
        run(data)
        before = [(one[2].tobytes(), one[3].tobytes()) for one in fits(Standin.seen)]
        Standin.seen.clear()
        for name in ("kinds", "values"):
            test = load_set(data / TABLES, name).splits["test"]

            def poison(X, y, test=test):
                y[test] = y.max()
                X[test, 1:] = 1e4

            write_table(data, name, labelled=name == "kinds", change=poison)
        run(data)
        assert [(one[2].tobytes(), one[3].tobytes()) for one in fits(Standin.seen)] == before

    def test_labels_come_back_as_they_were(self, data):
        kinds = load_set(data / TABLES, "kinds")
        suite = protocol.SUITES[SUITE]
        train, test = suite.score_parts(kinds, 0)
        told = suite.predict(StandinClassifier(), train, train.inputs)
        assert (told.told.labels == train.targets).all() and suite.score(told, train.targets)["accuracy"] == 1
        assert suite.score(told, train.targets)["seconds"] == told.seconds
        assert len(test.targets) == HELD

    def test_of_many_rows_some_are_drawn_the_same_for_all(self, data, monkeypatch):
        monkeypatch.setattr(protocol, "MOST", 10)
        kinds = load_set(data / TABLES, "kinds")
        suite = protocol.SUITES[SUITE]
        (train, test), (again, _) = (suite.score_parts(kinds, 0) for _ in range(2))
        expected = np.random.default_rng(0).choice(kinds.splits["train"], 10, replace=False)
        assert list(train.inputs[:, 0]) == list(expected) == list(again.inputs[:, 0])
        assert list(test.inputs[:, 0]) == list(kinds.splits["test"])
        assert run(data)[1]["thresher", "kinds"]["inputs"] == 10

    def test_no_suite_that_is_not_named_needs_the_folder(self):
        assert SUITE not in protocol.PUBLISHED and SUITE in protocol.SUITES


class TestLimit:
    def test_a_fit_that_takes_too_long_is_a_row_that_says_so(self, data, monkeypatch):
        slow = Model("ebm", "EBM", (__name__, "SlowClassifier"))
        monkeypatch.setattr(protocol.PublishedTables, "models", (*protocol.PublishedTables.models, slow))
        monkeypatch.setattr(protocol.PublishedTables, "limit", 3.0)
        began = time.monotonic()
        code, rows = run(data)
        assert code == 1 and time.monotonic() - began < 30
        assert rows["ebm", "kinds"]["reason"] == "TimeoutError: not finished after 0.05 minutes"
        assert rows["thresher", "kinds"]["status"] == rows["thresher", "values"]["status"] == "done"
        assert not Standin.seen, "all fits were made elsewhere"
        assert run(data)[1] == rows, "what failed is not tried again"

    def test_what_is_returned_or_raised_comes_back(self):
        assert within(None, os.getpid) == os.getpid() != within(30, os.getpid)
        with pytest.raises(FloatingPointError, match="lost"):
            within(30, lambda: (_ for _ in ()).throw(FloatingPointError("lost")))
        with pytest.raises(RuntimeError, match="exit code 3"):
            within(30, lambda: os._exit(3))

    def test_an_error_that_cannot_be_sent_comes_back_in_words(self):
        class Local(Exception):
            pass

        def work():
            raise Local("here only")

        with pytest.raises(RuntimeError, match="Local: here only"):
            within(30, work)


def row(model, one, value=None, *, measure="accuracy", **more):
    about = {"kind": "score", "suite": SUITE, "model": model, "set": one, "split": 0, "inputs": 100, "dimension": 4}
    about |= {"recipe": "r", "commit": "abc1234", "run": "now", "data": "d"}
    about |= {"classes": 2} if measure == "accuracy" else {}
    if value is None:
        return about | {"status": "failed", "reason": "TimeoutError: not finished after 15 minutes"} | more
    other = {"accuracy": "log_loss", "r2": "rmse"}[measure]
    return about | {"status": "done", measure: value, other: 1 - value, "seconds": 2.0} | more


def everything(ours, *, sets=24, rivals=RIVALS):
    """Return rows of all rivals and of the default, on tables of which every other one has values."""
    rows = []
    for number in range(sets):
        measure = ("accuracy", "r2")[number % 2]
        rows += [row(name, f"t{number:02}", value, measure=measure) for name, value in rivals.items()]
        mine = ours(number) if callable(ours) else ours
        rows.append(row("thresher", f"t{number:02}", mine, measure=measure))
    return rows


class TestStanding:
    def test_level_is_at_most_two_thousandths_behind_the_best_of_three(self):
        for value, level in ((0.86, 24), (0.848, 24), (0.8479, 0)):
            known = compared.reached(everything(value))
            assert compared.standing("thresher", TREES, known)[:2] == (level, 24), value
        known = compared.reached(everything(0.848))
        assert compared.standing("thresher", compared.RIVALS, known).behind["t00"] == pytest.approx(0.848 - 0.90)

    def test_the_goal_is_judged_on_all_tables(self):
        def judged(rows):
            (goal,) = goals(SUITE, rows)
            return goal.reached, goal.value

        assert judged(everything(lambda number: 0.85 if number < 18 else 0.80))[0] is True
        reached, value = judged(everything(lambda number: 0.85 if number < 17 else 0.80))
        assert reached is False and value.startswith("17 of 24; not on t17 (-0.050), ")
        assert judged(everything(0.9, sets=23)) == (None, "23 of 23")
        assert judged([one for one in everything(0.9) if one["model"] != "xgboost"]) == (None, "0 of 0")

    def test_a_fit_that_failed_is_behind_and_a_rival_that_failed_does_not_count(self):
        rows = everything(0.75, sets=2)
        failed = [one if (one["model"], one["set"]) != ("thresher", "t00") else row("thresher", "t00") for one in rows]
        known = compared.reached(failed)
        assert compared.standing("thresher", ("extra-trees",), known)[:2] == (1, 2)
        assert compared.mean_rank("thresher", known) == (7 + 4) / 2
        rows = everything(0.75, sets=2)
        failed = [one if one["model"] not in ("xgboost", "lightgbm") else row(one["model"], one["set"]) for one in rows]
        assert compared.standing("thresher", TREES, compared.reached(failed))[:2] == (2, 2)

    def test_ranks_are_among_the_rivals_and_one_of_ours(self):
        rows = everything(0.85) + [row("thresher-all", f"t{number:02}", 0.99) for number in range(24)]
        known = compared.reached(rows)
        assert compared.mean_rank("thresher", known) == 2.5, "as good as XGBoost"
        assert compared.mean_rank("thresher-all", known) == 1
        assert compared.mean_rank("catboost", known) == 1, "models of ours but the default do not move a rival"
        assert compared.mean_rank("splines", known) == 7
        assert compared.mean_rank("thresher-pairs", known) is None

    def test_names_are_those_of_models(self):
        for known in (PUBLISHED_CLASSIFIERS, PUBLISHED_REGRESSORS):
            names = [model.name for model in known]
            assert len(set(names)) == len(names) and {*TREES, *ADDITIVE, *RIVALS} <= set(names)
        assert set(compared.RIVALS) == set(RIVALS)
        splines = next(model for model in PUBLISHED_REGRESSORS if model.name == "splines")
        assert splines.recipe.startswith("SplineTransformer(n_knots=10, knots='quantile'), RidgeCV(")
        values = np.random.default_rng(0).standard_normal((80, 2))
        fitted = splines.make({}, seed=0, threads=1).fit(values, values[:, 0] ** 2)
        assert fitted.score(values, values[:, 0] ** 2) > 0.95


class TestTables:
    def test_every_table_and_every_model_has_a_cell(self):
        rows = everything(0.95, sets=2)
        rows = [one for one in rows if (one["model"], one["set"]) not in (("ebm", "t01"), ("splines", "t00"))]
        rows += [row("ebm", "t01", measure="r2"), row("splines", "t00", reason="ValueError: no")]
        standing, first, additive, second, seconds = compared.published_tables(rows)
        labels = ["thresher, default", "LightGBM", "XGBoost", "CatBoost", "ExtraTrees, 500 trees", "EBM", "splines"]
        assert first.header == ["table", "rows", "columns", "measure", *labels]
        assert first.rows == [
            ["t00", "100", "4", "accuracy", "**0.9500**", "0.8000", "0.8500", "0.9000", "0.7000", "0.6000", "failed"],
            ["t01", "100", "4", "R²", "**0.9500**", "0.8000", "0.8500", "0.9000", "0.7000", "too slow", "0.5000"],
        ]
        assert additive.header[4:] == ["EBM", "splines"] and additive.rows[1][4:] == ["too slow", "**0.5000**"]
        assert [one[3] for one in second.rows] == ["log loss", "RMSE"] and second.rows[0][4] == "**0.05**"
        assert [one[3] for one in seconds.rows] == ["seconds"] * 2 and seconds.rows[0][5] == "**2**"
        assert standing.rows[0] == ["thresher, default", "2 of 2", "2 of 2", "1.00"]
        titles = [sheet.title for sheet in tables.tables(SUITE, rows)]
        assert titles[-2:] == ["Failed", "Against the goals"] and titles[0] == "Standing"

    def test_what_is_lost_is_listed_worst_first(self):
        rows = everything(lambda number: (0.95, 0.89, 0.8985, 0.85)[number], sets=4)
        title, lines = page.table_losses(rows)
        assert "more than 0.002 behind the best rival, 2 of 4 tables**" in title
        assert lines == "- t03: 0.8500, CatBoost 0.9000\n- t01: 0.8900, CatBoost 0.9000\n"
        assert page.table_losses(everything(0.95)) == []


HERE = {"processor": "P", "cores": 2, "memory_gib": 8, "python": "3", "versions": {"numpy": "2"}}


def found(*rows):
    return {"rows": list(rows), "runs": {"now": {"environment": HERE, "threads": 1}}}


class TestPage:
    def test_the_part_alone_is_written_from_rows_of_its_own(self):
        before = f"# Title\n\n{begin(page.PART)}\n{END}\n\n## By another run\n"
        text = page.page(found(*everything(0.95)), before=before)
        head, tail = text.split(begin(page.PART))[0], text.split(END)[1]
        assert (head, tail) == ("# Title\n\n", "\n\n## By another run\n")
        for expected in (
            "## Published tables\n",
            "| thresher, default | 24 of 24 | 24 of 24 | 1.00 |",
            "| t23 | 100 | 4 | R² | **0.9500** |",
            "| 24 of 24 | >= 18 | reached |",
            "| published-tables | CatBoost | 24 | abc1234 |",
            "Machine: P, 2 cores, 8 GiB; Python 3; numpy 2; 1 threads.",
        ):
            assert expected in text
        assert page.page(found(*everything(0.95)), before=text) == text

    def test_rows_of_other_suites_leave_the_part_as_it_was(self):
        with_part = page.page(found(*everything(0.95)))
        other = {**row("thresher", "houses", 0.9, measure="r2"), "suite": "tables"}
        text = page.page(found(other), before=with_part)
        assert text.split(begin(page.PART))[1].split(END)[0] == with_part.split(begin(page.PART))[1].split(END)[0]
        assert "## Tables as people have them" in text and "| tables | thresher, default | 1 |" in text
        both = page.page(found(other, *everything(0.5)), before=text)
        assert both.count("## Published tables") == 1 and "| thresher, default | 0 of 24 |" in both
        assert both.split(END)[1] == text.split(END)[1]

    def test_the_published_page_has_the_part_and_begins_as_the_command_writes_it(self):
        text = (command.Path(__file__).parents[2] / "docs" / "accuracy.md").read_text(encoding="utf-8")
        assert text.startswith(page.INTRODUCTION)
        assert text.count(begin(page.PART)) == text.count(END) == 1

    def test_versions_of_rivals_are_kept_with_a_run(self, tmp_path, monkeypatch):
        monkeypatch.setattr(store, "RIVALS", ("numpy", "no-such-package"))
        assert store._versions() == {"numpy": np.__version__}
        with store.Store(tmp_path / "rows.json") as kept:
            kept.add(row("thresher", "a", 0.5))
        (run,) = json.loads((tmp_path / "rows.json").read_text())["runs"].values()
        assert run["environment"]["versions"]["numpy"] == np.__version__
