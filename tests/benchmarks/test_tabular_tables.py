"""Tables of the tabular benchmark: goals are judged on whole tables, published figures stand beside ours."""

import pytest
from benchmarks.tabular import goals, page, tables
from benchmarks.tabular.cases import CASES, CATEGORICAL, CELL, CLEAN, NOISY, ROW, SKEWED
from benchmarks.tabular.measured import SPLITS

pytestmark = pytest.mark.thorough

DROPOUT = {"concrete": 4.82, "yacht": 0.67, "wine-quality-red": 0.62, "kin8nm": 0.08, "bostonHousing": 2.90}
FIRST = {one: case.measures[0] for one, case in CASES.items() if case.group == CATEGORICAL}


def scores(model, accuracy, *, sets=45, suite="classification", name="accuracy"):
    splits = SPLITS[suite]
    names = [f"set{number}" for number in range(sets)] if isinstance(sets, int) else sets
    about = {"kind": "score", "suite": suite, "status": "done", "recipe": "r", "commit": "c", "run": "now"}
    about |= {"inputs": 10, "dimension": 2, "classes": 2}
    value = accuracy if isinstance(accuracy, dict) else dict.fromkeys(names, accuracy)
    return [
        {**about, "model": model, "set": one, "split": split, name: value[one] + 0.01 * (split % 2 - 0.5)}
        for one in names
        for split in range(splits)
    ]


class TestTables:
    def test_goals_are_judged_on_whole_tables_alone(self):
        def reached(rows):
            return [goal.reached for goal in goals.goals("classification", rows)]

        assert reached(scores("thresher-tuned", 0.8381) + scores("thresher", 0.8399)) == [True, False]
        assert reached(scores("thresher-tuned", 0.8379) + scores("thresher", 0.8401)) == [False, True]
        assert reached(scores("thresher", 0.99, sets=44)) == [None, None]
        assert reached(scores("thresher", 0.99)[:-1]) == [None, None]
        failed = scores("thresher", 0.99)
        failed[0] = {**failed[0], "status": "failed"}
        assert reached(failed) == [None, None]

    def test_regression_goals(self):
        kind = {"sets": list(DROPOUT), "suite": "regression", "name": "rmse"}
        ours = scores("thresher", {one: 0.99 * value for one, value in DROPOUT.items()}, **kind)
        found = goals.goals("regression", ours + scores("lightgbm", DROPOUT, **kind))[:2]
        assert [goal.reached for goal in found] == [True, True]
        assert found[0].value == "5 of 5 (4 of 4 without Boston)"
        # LightGBM's earlier run was better on these two than the rows made up here; its better run counts.
        assert found[1].value == "3 of 5; not on concrete, yacht (2 of 4 without Boston)"
        worse = scores("thresher", {**{one: 0.99 * value for one, value in DROPOUT.items()}, "yacht": 0.68}, **kind)
        better = scores("lightgbm", {one: 0.9 * value for one, value in DROPOUT.items()}, **kind)
        found = goals.goals("regression", worse + better)[:2]
        assert [goal.reached for goal in found] == [False, False]
        assert found[0].value == "4 of 5; not on yacht (3 of 4 without Boston)"
        assert [goal.reached for goal in goals.goals("regression", ours)] == [True, None, None]

    def test_coverage_is_shown_and_judged_where_rows_have_it(self):
        kind = {"sets": list(DROPOUT), "suite": "regression"}
        old = scores("thresher", DROPOUT, name="rmse", **kind)
        title = "Share of test targets inside 95 % error bars"

        def shown(**more):
            shares = dict.fromkeys(DROPOUT, 0.94) | more
            found = scores("thresher", shares, name="coverage", **kind)
            rows = [{**row, "coverage": one["coverage"]} for row, one in zip(old, found, strict=True)]
            return rows, goals.goals("regression", rows)[-1]

        assert title not in [sheet.title for sheet in tables.tables("regression", old)]
        assert goals.goals("regression", old)[-1].reached is None
        rows, goal = shown()
        assert (goal.reached, goal.value, goal.goal) == (True, "5 of 5", ">= 5")
        sheet = next(sheet for sheet in tables.tables("regression", rows) if sheet.title == title)
        assert sheet.rows == [["thresher, default", *["0.94 ± 0.0011"] * 5, "measured here"]]
        assert shown(yacht=0.9)[1].value == "4 of 5; not on yacht (90.0 %)" and shown(yacht=0.98)[1].reached is False
        mixed = [{**row, "coverage": 0.94} if row["split"] else row for row in old if row["set"] == "yacht"]
        mixed += [row for row in rows if row["set"] != "yacht"]
        sheet = next(sheet for sheet in tables.tables("regression", mixed) if sheet.title == title)
        assert sheet.rows[0][2] == "-" and goals.goals("regression", mixed)[-1].reached is None

    def test_time_goal(self):
        about = {"kind": "times", "suite": "times", "status": "done", "run": "1"}
        names = [f"set{number}" for number in range(45)]
        ours = [{**about, "model": "thresher", "set": one, "seconds": 1.0} for one in names]
        theirs = [
            {**about, "model": "mlp", "set": one, "seconds": 1.0 + 0.1 * place} for place, one in enumerate(names)
        ]
        assert goals.goals("times", ours + theirs)[0].reached is True
        slow = [{**row, "seconds": 9.0} for row in ours]
        assert goals.goals("times", slow + theirs)[0].reached is False
        assert goals.goals("times", ours + theirs[1:])[0].reached is None

    def test_means_are_of_sets_with_published_ones_beside(self):
        rows = scores("thresher", 0.83) + scores("svc", 0.82, sets=44)
        mean, by_set, goals = tables.tables("classification", rows)
        assert mean.rows[0][:3] == ["thresher, default", "83.00", "45 of 45"]
        assert mean.rows[1][:4] == ["SVC, RBF, tuned", "82.00", "44 of 45", "+1.00 ± 0.00"]
        assert [row[1] for row in mean.rows[2:]] == ["83.40", "82.78", "82.27"]
        assert all("README of the data" in row[-1] for row in mean.rows[2:])
        assert by_set.rows[0][-2:] == ["**83.00**", "82.00"] and by_set.rows[-1][-1] in ("-", "82.00")
        assert goals.rows[1][-1] == "**missed**"


def case_scores(model, values):
    """Return the rows of cases; a value is that of the first measure."""
    rows = []
    for one, value in values.items():
        kind = {"suite": "tables", "name": CASES[one].measures[0]}
        rows += scores(model, {one: value}, sets=[one], **kind)
    return rows


class TestCases:
    def test_damage_is_judged_against_the_clean_table(self):
        reach = {CLEAN: 0.98, CELL: 0.951, ROW: 0.951, SKEWED: 0.971, NOISY: 0.901}

        def judged(**more):
            return [goal.reached for goal in goals.goals("tables", case_scores("thresher", reach | more))][:4]

        assert judged() == [True] * 4
        for place, one in enumerate((CELL, ROW, SKEWED, NOISY)):
            expected = [place != other for other in range(4)]
            assert judged(**{one: reach[one] - 0.003}) == expected
        assert goals.goals("tables", case_scores("thresher", reach))[0].value == "0.029"
        del reach[CLEAN], reach[NOISY]
        assert judged() == [None, None, True, None]

    def test_categories_are_judged_against_the_best_rival(self):
        reach = {"boosting": 0.6, "forest": 0.6, "linear": 0.6, "svm": 0.7}
        theirs = [row for name, value in reach.items() for row in case_scores(name, dict.fromkeys(FIRST, value))]

        def judged(rows, **more):
            return goals.goals("tables", rows + case_scores("thresher", dict.fromkeys(FIRST, 0.691) | more))[-1]

        assert (judged(theirs).reached, judged(theirs).value) == (True, "6 of 6")
        missed = judged(theirs, mixed=0.68)
        assert (missed.reached, missed.value) == (False, "5 of 6; not on mixed (-0.020)")
        few = [row for row in theirs if (row["model"], row["set"]) != ("svm", "mixed")]
        assert (judged(few).reached, judged(few).value) == (None, "5 of 5")

    def test_a_line_for_each_case_and_measure(self):
        rows = case_scores("thresher", {"houses": 0.9, "mixed": 0.7})
        rows += case_scores("svm", {"houses": -2e6, "mixed": 0.8})
        rows += scores("thresher", 0.5, sets=["mixed"], suite="tables", name="log_loss")
        rows += scores("thresher", 0.93, sets=["houses"], suite="tables", name="coverage")
        rows += scores("boosting", 0.99, sets=["houses"], suite="tables", name="coverage")
        sheet = tables.tables("tables", rows)[0]
        names = ["thresher, default", "HistGradientBoosting, default", "SVM, RBF, tuned"]
        assert sheet.header == ["case", "rows", "columns", "measure", *names]
        assert sheet.rows == [
            ["mixed", "10", "2", "accuracy", "0.699", "-", "**0.799**"],
            ["mixed", "10", "2", "log loss", "**0.499**", "-", "-"],
            ["houses", "10", "2", "R²", "**0.899**", "-", "-2e+06"],
            ["houses", "10", "2", "inside 95 % error bars", "**0.929**", "0.989", "-"],
        ]

    def test_what_is_lost_is_listed_in_accuracy_and_log_loss(self):
        rows = case_scores("thresher", {"houses": 0.9, "mixed": 0.7})
        rows += case_scores("svm", {"houses": 0.905, "mixed": 0.8})
        title, lines = page.case_losses(rows)
        assert "behind the best rival, 1 of 2 figures**" in title
        assert lines == "- mixed: accuracy 0.699, SVM, RBF, tuned 0.799\n"
        rows = scores("thresher", 0.6, sets=["mixed"], suite="tables", name="log_loss")
        rows += scores("boosting", 0.5, sets=["mixed"], suite="tables", name="log_loss")
        rows += scores("forest", 1.5, sets=["mixed"], suite="tables", name="log_loss")
        assert page.case_losses(rows)[1] == "- mixed: log loss 0.599, HistGradientBoosting, default 0.499\n"
        assert page.case_losses(rows[:5]) == []
