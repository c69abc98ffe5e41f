"""The tabular benchmark sees what the protocols let it see, keeps what it has computed, and says what it did."""

import json
import math

import numpy as np
import pytest
from benchmarks.tabular import __main__ as command
from benchmarks.tabular import measured, page, protocol, store, times
from benchmarks.tabular.models import CLASSIFIERS, COORDINATE, REGRESSORS, TIMED, Model, Tuning
from benchmarks.tabular.protocol import SUITES, Gaussian, Labels, search
from benchmarks.tabular.sets import CLASSIFICATION, REGRESSION, load_set
from scipy.stats import norm
from standins import HELD, NEIGHBOURS, ROWS, Standin, fits, models, write_classification, write_regression

pytestmark = pytest.mark.thorough


@pytest.fixture
def data(tmp_path):
    for name in ("one", "two"):
        write_classification(tmp_path, name, seed=len(name) + (name == "two"))
        write_regression(tmp_path, name, seed=7 + (name == "two"))
    return tmp_path


@pytest.fixture
def standin(monkeypatch):
    monkeypatch.setattr(Standin, "seen", [])
    monkeypatch.setattr(Standin, "breaks", {})
    monkeypatch.setattr(protocol.Classification, "models", models("StandinClassifier"))
    monkeypatch.setattr(protocol.Regression, "models", models("StandinRegressor"))
    monkeypatch.setattr(command, "TIMED", models("StandinClassifier", "OtherClassifier")[:2])
    return Standin


def run(data, *more, output="out.json"):
    code = command.main(["--data-dir", str(data), "--output", str(data / output), "--threads", "1", *more])
    path = data / output
    rows = json.loads(path.read_text())["rows"] if path.is_file() else []
    return code, {store.key_of(row): row for row in rows}


class TestNoTestRowDecides:
    def test_classification_shows_a_model_the_rows_of_its_stage_alone(self, data, standin):
        assert run(data, "--suite", "classification", "--sets", "one")[0] == 0
        splits = load_set(data / CLASSIFICATION, "one").splits
        shown = [frozenset(one[2].astype(int)) for one in fits(standin.seen)]
        asked = [frozenset(one[2].astype(int)) for one in fits(standin.seen, "ask")]
        trains, tests = [[frozenset(one) for one in splits[name]] for name in ("kf_train", "kf_test")]
        candidates = 1 + len(NEIGHBOURS.values["neighbours"])
        choosing = [frozenset(splits["hp_train"])] * candidates, [frozenset(splits["hp_val"])] * candidates
        assert shown == trains * 2 + choosing[0] + trains
        assert asked == tests * 2 + choosing[1] + tests

    def test_regression_chooses_inside_the_training_rows(self, data, standin, monkeypatch):
        monkeypatch.setattr(protocol, "_standard", lambda values: (0.0, 1.0))
        assert run(data, "--suite", "regression", "--sets", "one", "--models", "svc")[0] == 0
        splits = load_set(data / REGRESSION, "one").splits
        stages = list(zip(fits(standin.seen), fits(standin.seen, "ask"), strict=True))
        a_split = 2 + len(NEIGHBOURS.values["neighbours"])
        inner = []
        for split in range(20):
            train, test = set(splits["train"][split]), set(splits["test"][split])
            *choosing, last = stages[split * a_split : (split + 1) * a_split]
            for shown, asked in choosing:
                assert len(shown[2]) == 24 and set(shown[2]) | set(asked[2]) == train
                assert not set(shown[2]) & set(asked[2])
            assert set(last[0][2]) == train and set(last[1][2]) == test
            inner.append([row in set(choosing[0][0][2]) for row in splits["train"][split]])
        assert len(set(map(tuple, inner))) > 15, "the inner split is drawn anew"

    @pytest.mark.parametrize("poisoned", ["targets", "both"])
    def test_poisoned_test_rows_change_no_choice_and_no_fit(self, data, standin, poisoned):
        _, clean = run(data, "--sets", "one")
        before = fits(standin.seen)
        standin.seen.clear()
        splits = load_set(data / REGRESSION, "one").splits

        def poison(rows):
            def change(X, y):
                y[rows] = 1 - y[rows] if y.dtype == np.int16 else 1e6
                if poisoned == "both":
                    X[rows, 1:] = 1e4

            return change

        write_classification(data, "one", seed=3, change=poison(np.arange(ROWS - HELD, ROWS)))
        write_regression(data, "one", seed=7, change=poison(splits["test"][4]))
        _, after = run(data, "--sets", "one", "--again")
        assert_same_fits(before, fits(standin.seen), standin)
        for kind, suite, split in ((store.CHOICE, "classification", "hp"), (store.CHOICE, "regression", "4")):
            key = next(key for key in clean if key[:2] == (kind, suite) and key[3:] == ("one", split))
            assert clean[key]["data"] != after[key]["data"], "the file is another one"
            for name in ("chosen", "loss", "tried"):
                assert clean[key][name] == after[key][name]
        if poisoned == "targets":  # the same labels are said; every one of them counts the other way round
            for key in (("score", "classification", name, "one", "2") for name in ("thresher", "svc")):
                assert after[key]["accuracy"] == pytest.approx(1 - clean[key]["accuracy"])
        key = ("score", "regression", "svc", "one", "4")
        assert after[key]["rmse"] > 1e5 > clean[key]["rmse"]

    def test_standardised_on_the_training_part(self, data, standin):
        run(data, "--suite", "regression", "--sets", "one", "--models", "thresher")
        for _, _, column, targets, _ in fits(standin.seen):
            for values in (column, targets):
                assert values.mean() == pytest.approx(0, abs=1e-12) and values.std() == pytest.approx(1)


def assert_same_fits(before, after, standin):
    """Of the fits before, those of set "one" that cannot have seen a poisoned row come again to the bit."""
    known = {(one[2].tobytes(), one[3].tobytes(), str(one[4])) for one in before}
    clean = [one for one in after if (one[2].tobytes(), one[3].tobytes(), str(one[4])) in known]
    a_split = 3 + 1 + len(NEIGHBOURS.values["neighbours"])  # two plain fits, the candidates, the chosen one
    everything_classified = 4 * 3 + 1 + len(NEIGHBOURS.values["neighbours"])
    assert len(clean) >= everything_classified + a_split


class TestScores:
    def test_likelihood_and_error_are_in_the_units_of_the_targets(self):
        rng = np.random.default_rng(0)
        mean, std, targets = rng.standard_normal(9), rng.uniform(0.5, 2, 9), rng.standard_normal(9)
        score = SUITES["regression"].score(Gaussian(mean, std), targets)
        assert score["nll"] == pytest.approx(-norm.logpdf(targets, mean, std).mean())
        assert score["rmse"] == pytest.approx(math.sqrt(((mean - targets) ** 2).mean()))

    def test_rows_hold_original_units(self, data, standin):
        _, rows = run(data, "--suite", "regression", "--sets", "one", "--models", "thresher")
        one = load_set(data / REGRESSION, "one")
        for split in range(20):
            train, test = (one.part(one.splits[name][split]) for name in ("train", "test"))
            spread = train.targets.std()
            scaled = (train.inputs / train.inputs.std(axis=0))[None, :, 1:]
            nearest = ((test.inputs / train.inputs.std(axis=0))[:, None, 1:] - scaled) ** 2
            said = train.targets[nearest.sum(axis=2).argmin(axis=1)]
            row = rows["score", "regression", "thresher", "one", str(split)]
            assert row["rmse"] == pytest.approx(math.sqrt(((said - test.targets) ** 2).mean()))
            assert row["nll"] == pytest.approx(-norm.logpdf(test.targets, said, 0.5 * spread).mean())
            assert row["coverage"] == (np.abs(test.targets - said) <= 1.96 * 0.5 * spread).mean()
            assert row["fitted"]["count_"] == 30
            assert row["split"] == split and row["commit"] and row["run"] and row["recipe"] == "StandinRegressor()"

    def test_the_seed_is_the_split(self, data, standin):
        run(data, "--suite", "classification", "--sets", "one", "--models", "thresher")
        assert [one[4]["random_state"] for one in fits(standin.seen)] == [0, 1, 2, 3]

    def test_brier_decides_between_equals(self):
        truth, classes = np.array([0, 1, 7]), np.array([0, 1])
        sure = Labels(np.array([0, 1, 1]), np.array([[1.0, 0], [0, 1], [0, 1]]), classes)
        unsure = Labels(np.array([0, 1, 1]), np.array([[0.6, 0.4], [0.4, 0.6], [0.5, 0.5]]), classes)
        loss = SUITES["classification"].loss
        assert loss(sure, truth) == (pytest.approx(1 / 3), pytest.approx(2 / 3))  # the third class was never seen
        assert loss(unsure, truth)[1] == pytest.approx((2 * 0.32 + 1.5) / 3)
        assert loss(unsure, truth)[0] == loss(sure, truth)[0] and loss(sure, truth) < loss(unsure, truth)
        assert loss(Labels(truth, None, classes), truth) == (0.0,)

    def test_search_finds_the_least_and_keeps_the_first_on_a_tie(self):
        asked = []

        def judged(one):
            asked.append(one)
            return ((one.get("a", 5) - 2) ** 2 + (one.get("b", 5) - 3) ** 2 // 4,)

        values = {"a": (0, 1, 2, 3), "b": (1, 2, 3, 4)}
        assert search(Tuning("t", values), judged) == ({"a": 2, "b": 2}, (0,))
        assert asked[0] == {} and len(asked) == 17
        asked.clear()
        found, loss = search(Tuning("t", values, search=COORDINATE, start={"a": 0, "b": 1}), judged)
        assert loss == (0,) and found == {"a": 2, "b": 2}
        assert len(asked) == len({tuple(one.items()) for one in asked}) < 16
        assert search(Tuning("t", values), lambda one: (1,))[0] == {}


class TestStore:
    def test_what_is_finished_is_not_computed_again(self, data, standin, monkeypatch):
        code, first = run(data)
        count = len(fits(standin.seen))
        assert code == 0 and count > 100
        assert run(data) == (0, first)
        assert len(fits(standin.seen)) == count
        run(data, "--again", "--suite", "classification", "--sets", "two", "--models", "thresher")
        assert len(fits(standin.seen)) == count + 4
        run(data, "--again", "--suite", "classification", "--sets", "two", "--models", "svc")
        assert len(fits(standin.seen)) == count + 4 + 5 + 4, "one choice for the four splits"

        other = Tuning("neighbours", {"neighbours": (1, 7)})
        changed = (*models("StandinClassifier")[:2], Model("svc", "", ("standins", "StandinClassifier"), {}, other))
        monkeypatch.setattr(protocol.Classification, "models", changed)
        standin.seen.clear()
        run(data, "--suite", "classification", "--sets", "one")
        assert len(fits(standin.seen)) == 3 + 4, "another recipe is another cell"
        write_classification(data, "one", seed=99)
        standin.seen.clear()
        run(data, "--suite", "classification", "--sets", "one", "--models", "thresher")
        assert len(fits(standin.seen)) == 4, "another file is another cell"

    def test_an_interrupted_run_goes_on_where_it_was(self, data, standin, capsys):
        standin.breaks[15] = KeyboardInterrupt()
        asked = ("--suite", "regression", "--sets", "one", "--models", "thresher")
        code, rows = run(data, *asked)
        done = len(rows)
        assert code == 130 and done == 14
        assert "goes on from there" in capsys.readouterr().out
        standin.breaks.clear()
        standin.seen.clear()
        code, rows = run(data, *asked)
        assert code == 0 and len(rows) == 20 and len(fits(standin.seen)) == 20 - done
        assert not list(data.glob("*.unfinished"))

    def test_failures_are_rows_with_a_reason(self, data, standin, capsys):
        standin.breaks[2] = FloatingPointError("lost\nin detail")
        code, rows = run(data, "--suite", "classification", "--sets", "one", "--models", "thresher")
        assert code == 1 and len(rows) == 4
        failed = [row for row in rows.values() if row["status"] == "failed"]
        assert [row["reason"] for row in failed] == ["FloatingPointError: lost"]
        assert "FloatingPointError: lost" in capsys.readouterr().out
        standin.breaks.clear()
        standin.seen.clear()
        run(data, "--suite", "classification", "--sets", "one", "--models", "thresher")
        assert not standin.seen
        code, rows = run(data, "--suite", "classification", "--sets", "one", "--models", "thresher", "--retry")
        assert code == 0 and len(fits(standin.seen)) == 1
        assert {row["status"] for row in rows.values()} == {"done"}

    def test_a_candidate_that_fails_loses_and_a_choice_without_any_fails(self, data, standin):
        asked = ("--suite", "classification", "--sets", "one", "--models", "svc")
        standin.breaks[1] = ValueError("no start")
        code, rows = run(data, *asked)
        choice = rows["choice", "classification", "neighbours", "one", "hp"]
        assert code == 0 and choice["tried"][0] == [{}, "ValueError: no start"] and choice["chosen"]
        standin.seen.clear()
        standin.breaks.update({place: ValueError("bad") for place in range(1, 6)})
        code, rows = run(data, *asked, "--again")
        assert code == 1 and len(fits(standin.seen)) == 5
        reason = rows["score", "classification", "svc", "one", "3"]["reason"]
        assert reason == "no choice: all 5 candidates failed, the last one with ValueError: bad"

    def test_runs_at_the_same_time_keep_each_others_rows(self, tmp_path):
        path = tmp_path / "rows.json"
        about = {"kind": "score", "suite": "regression", "model": "m", "split": 0}
        with store.Store(path) as mine, store.Store(path) as other:
            mine.add({**about, "set": "a"})
            other.add({**about, "set": "b"})
        found = json.loads(path.read_text())
        assert [row["set"] for row in found["rows"]] == ["a", "b"]
        assert {row["run"] for row in found["rows"]} == set(found["runs"])
        assert all(run["environment"]["versions"]["numpy"] for run in found["runs"].values())

    def test_a_row_is_in_the_file_soon(self, tmp_path, monkeypatch):
        monkeypatch.setattr(store, "PAUSE", 0.0)
        about = {"kind": "score", "suite": "regression", "model": "m", "split": 0, "set": "a"}
        kept = store.Store(tmp_path / "rows.json")
        kept.add(about)
        assert len(store.read_rows(tmp_path / "rows.json")) == 1


class TestTimes:
    def test_models_take_turns_and_a_set_is_of_one_run(self, data, standin):
        code, rows = run(data, "--suite", "times")
        names = [one[1] for one in fits(standin.seen)]
        assert code == 0
        assert (
            names == ["StandinClassifier"] * 2 + ["OtherClassifier"] * 2 + ["StandinClassifier", "OtherClassifier"] * 6
        )
        assert len(rows) == 4 and len({row["run"] for row in rows.values()}) == 1
        assert all(row["seconds"] == sorted(row["fits"])[1] and row["warm_up"] > 0 for row in rows.values())
        standin.seen.clear()
        assert run(data, "--suite", "times")[1] == rows and not standin.seen
        run(data, "--suite", "times", "--again", "--sets", "one", "--models", "thresher")
        standin.seen.clear()
        _, rows = run(data, "--suite", "times")
        assert len(standin.seen) == 4 + 6, "the other model of that set is timed again as well"
        seconds = measured.timed(list(rows.values()))
        assert {name: set(of) for name, of in seconds.items()} == {"thresher": {"one", "two"}, "mlp": {"one", "two"}}

    def test_figures_of_two_runs_are_not_compared(self):
        about = {"kind": "times", "suite": "times", "set": "a", "status": "done"}
        rows = [
            {**about, "model": "mlp", "run": "1", "seconds": 9.0},
            {**about, "model": "svc", "run": "2", "seconds": 1.0},
        ]
        assert measured.timed(rows) == {"svc": {"a": 1.0}}

    def test_a_long_fit_is_made_once(self, data, standin, monkeypatch):
        monkeypatch.setattr(times, "LONG", 0.0)
        run(data, "--suite", "times", "--sets", "one")
        assert len(fits(standin.seen)) == 4 + 2


def test_the_page_is_written_from_the_file(data, standin, capsys, monkeypatch):
    monkeypatch.chdir(data)
    (data / "docs").mkdir()
    run(data, "--suite", "classification", "regression", "times")
    assert page.main(["--results", "out.json"]) == 0
    text = (data / "docs" / "accuracy.md").read_text()
    for expected in (
        "| mean accuracy, thresher, default |",
        "| rows missing |",
        "| NTK, depth up to 5, SVM, tuned | 83.40 | 45 |",
        "hp_train and hp_val together cover all rows",
        "Boston set is left out of headlines",
        "rows were made by another recipe",  # the stand-ins are not what the page calls by these names
        "Machine: ",
    ):
        assert expected in text
    assert text.count("## ") == 9 and str(data) not in text
    assert page.main(["--results", "nothing.json"]) == 2
    assert capsys.readouterr().err == "Error: nothing.json holds no rows; run python -m benchmarks.tabular first.\n"


def spoil_splits(data):
    path = data / CLASSIFICATION / "one.npz"
    parts = dict(np.load(path))
    np.savez(path, **{**parts, "kf_test": parts["kf_train"][:, :HELD]})


@pytest.mark.parametrize(
    ("arguments", "spoil", "said"),
    [
        (["--models", "tree"], None, "model must be one of mlp, svc, thresher; got 'tree'."),
        (["--sets", "iris"], None, "set must be one of one, two; got 'iris'."),
        (["--threads", "0"], None, "--threads must be at least 1; got 0."),
        (["--data-dir", "nowhere"], None, "no .npz files found in nowhere/uci-classification; give the folder"),
        (
            [],
            lambda data: (data / CLASSIFICATION / "one.npz").write_text("?"),
            "cannot be read as a set with its splits",
        ),
        ([], spoil_splits, "kf_train and kf_test share rows"),
        ([], lambda data: (data / "out.json").write_text("{"), "cannot be read as results of an earlier run"),
    ],
)
def test_bad_use_ends_with_one_line(data, standin, capsys, arguments, spoil, said):
    if spoil:
        spoil(data)
    assert command.main(["--data-dir", str(data), "--output", str(data / "out.json"), *arguments]) == 2
    err = capsys.readouterr().err
    assert err.startswith("Error: ") and said in err and err.count("\n") == 1
    assert not standin.seen


def test_a_model_that_is_not_here_is_left_out_unless_it_was_named(data, standin, capsys, monkeypatch):
    missing = Model("lightgbm", "LightGBM", ("lightgbm.nowhere", "LGBMClassifier"))
    monkeypatch.setattr(protocol.Classification, "models", (*models("StandinClassifier"), missing))
    code, rows = run(data, "--suite", "classification", "--sets", "one")
    install = "pip install -r benchmarks/requirements.txt"
    line = f"model lightgbm needs LGBMClassifier of lightgbm, which is not here: {install}."
    assert code == 0 and f"Left out: {line}" in capsys.readouterr().out
    assert "lightgbm" not in {key[2] for key in rows}
    assert run(data, "--suite", "classification", "--models", "lightgbm")[0] == 2
    assert capsys.readouterr().err == f"Error: {line}\n"


def test_models_are_what_they_are_called():
    for known in (CLASSIFIERS, REGRESSORS, TIMED):
        assert len({model.name for model in known}) == len(known)
    named = {model.name: model for model in CLASSIFIERS}
    assert named["thresher"].recipe == "ThresherClassifier()"
    assert named["forest"].make({}, seed=3, threads=2).get_params()["random_state"] == 3
    assert "C in {0.25, 1, 4" in named["svc"].recipe
    tuning = named["thresher-tuned"].tuning
    apart = [Model(name, "", ("thresher", "X"), fixed, tuning) for name, fixed in (("a", {}), ("b", {"ridge": 9.0}))]
    assert apart[0].choices[0] != apart[1].choices[0], "choices of models with other arguments are kept apart"
