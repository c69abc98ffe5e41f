"""Tables of the tabular benchmark: goals are judged on whole tables, published figures stand beside ours."""

from benchmarks.tabular import tables


def scores(model, accuracy, *, sets=45, suite="classification", name="accuracy"):
    splits = tables.SPLITS[suite]
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
            return [goal.reached for goal in tables.goals("classification", rows)]

        assert reached(scores("thresher-tuned", 0.8381) + scores("thresher", 0.8339)) == [True, False]
        assert reached(scores("thresher-tuned", 0.8379) + scores("thresher", 0.8341)) == [False, True]
        assert reached(scores("thresher", 0.99, sets=44)) == [None, None]
        assert reached(scores("thresher", 0.99)[:-1]) == [None, None]
        failed = scores("thresher", 0.99)
        failed[0] = {**failed[0], "status": "failed"}
        assert reached(failed) == [None, None]

    def test_regression_goals(self):
        dropout = {"concrete": 4.82, "yacht": 0.67, "wine-quality-red": 0.62, "kin8nm": 0.08, "bostonHousing": 2.90}
        kind = {"sets": list(dropout), "suite": "regression", "name": "rmse"}
        ours = scores("thresher", {one: 0.99 * value for one, value in dropout.items()}, **kind)
        goals = tables.goals("regression", ours + scores("lightgbm", dropout, **kind))
        assert [goal.reached for goal in goals] == [True, True]
        assert goals[0].value == "5 of 5 (4 of 4 without Boston)"
        # LightGBM's earlier run was better on these two than the rows made up here; its better run counts.
        assert goals[1].value == "3 of 5; not on concrete, yacht (2 of 4 without Boston)"
        worse = scores("thresher", {**{one: 0.99 * value for one, value in dropout.items()}, "yacht": 0.68}, **kind)
        better = scores("lightgbm", {one: 0.9 * value for one, value in dropout.items()}, **kind)
        goals = tables.goals("regression", worse + better)
        assert [goal.reached for goal in goals] == [False, False]
        assert goals[0].value == "4 of 5; not on yacht (3 of 4 without Boston)"
        assert [goal.reached for goal in tables.goals("regression", ours)] == [True, None]

    def test_time_goal(self):
        about = {"kind": "times", "suite": "times", "status": "done", "run": "1"}
        names = [f"set{number}" for number in range(45)]
        ours = [{**about, "model": "thresher", "set": one, "seconds": 1.0} for one in names]
        theirs = [
            {**about, "model": "mlp", "set": one, "seconds": 1.0 + 0.1 * place} for place, one in enumerate(names)
        ]
        assert tables.goals("times", ours + theirs)[0].reached is True
        slow = [{**row, "seconds": 9.0} for row in ours]
        assert tables.goals("times", slow + theirs)[0].reached is False
        assert tables.goals("times", ours + theirs[1:])[0].reached is None

    def test_means_are_of_sets_with_published_ones_beside(self):
        rows = scores("thresher", 0.83) + scores("svc", 0.82, sets=44)
        mean, by_set, goals = tables.tables("classification", rows)
        assert mean.rows[0][:3] == ["thresher, default", "83.00", "45 of 45"]
        assert mean.rows[1][:4] == ["SVC, RBF, tuned", "82.00", "44 of 45", "+1.00 ± 0.00"]
        assert [row[1] for row in mean.rows[2:]] == ["83.40", "82.78", "82.27"]
        assert all("README of the data" in row[-1] for row in mean.rows[2:])
        assert by_set.rows[0][-2:] == ["**83.00**", "82.00"] and by_set.rows[-1][-1] in ("-", "82.00")
        assert goals.rows[1][-1] == "**missed**"
