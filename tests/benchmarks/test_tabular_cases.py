"""Tables that are made: the same from the same seed, damaged in training rows alone, scored on rows no fit has seen."""

import json

import numpy as np
import pytest
from benchmarks.tabular import __main__ as command
from benchmarks.tabular import cases, page, protocol, store
from benchmarks.tabular.cases import CASES, CATEGORICAL, CELL, CLEAN, NOISY, ROW, SKEWED, case_set
from benchmarks.tabular.models import TABLE_CLASSIFIERS, TABLE_REGRESSORS
from benchmarks.tabular.protocol import SUITES, Gaussian, Labels
from benchmarks.tabular.sets import Part
from scipy.stats import rankdata
from sklearn.metrics import log_loss, r2_score
from standins import NEIGHBOURS, Standin, fits, models

pytestmark = pytest.mark.thorough

SPLITS, TRAIN, TEST = 5, 20, 6
SMALL = "one-column", "friedman"  # what small cases of classes and of values are called here
CHANGED = "log-normal", "noise-columns", "heavy-tails"


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("name", CASES)
class TestEveryCase:
    def test_is_the_same_from_the_same_seed_alone(self, name):
        first, again, other = (CASES[name].make(split) for split in (3, 3, 4))
        assert all(same(one, two) for one, two in zip(first, again, strict=True))
        assert not any(np.array_equal(one.inputs, two.inputs) for one, two in zip(first, other, strict=True))

    def test_draws_training_and_test_rows_apart(self, name):
        train, test = CASES[name].make(0)
        size = min(len(train.targets), len(test.targets))
        assert not np.array_equal(train.inputs[:size], test.inputs[:size])
        assert not np.array_equal(train.targets[:size], test.targets[:size])
        if CASES[name].group != CATEGORICAL or name == "mixed":  # there rows repeat, in training as in testing
            assert not set(map(bytes, train.inputs)) & set(map(bytes, test.inputs))

    def test_has_what_is_measured(self, name):
        train, test = CASES[name].make(0)
        labelled = train.targets.dtype == np.int64
        assert CASES[name].measures[0] == ("accuracy" if labelled else "r2")
        assert train.inputs.dtype == np.float64 and train.targets.dtype == test.targets.dtype
        assert np.isfinite(train.inputs).all() and np.isfinite(test.inputs).all()
        if labelled:
            assert np.array_equal(np.unique(train.targets), np.unique(test.targets))


class TestDamage:
    def pair(self, name, split=1):
        return zip(CASES[CLEAN].make(split), CASES[name].make(split), strict=True)

    @pytest.mark.parametrize("name", [CELL, ROW, "cells-1000", "targets-100"])
    def test_is_done_to_training_rows_alone(self, name):
        (clean, damaged), (tested, also) = self.pair(name)
        assert same(tested, also)
        wrong, where = clean.inputs != damaged.inputs, np.flatnonzero(clean.targets != damaged.targets)
        assert wrong.sum() == {CELL: 1, ROW: 10, "cells-1000": 60, "targets-100": 0}[name]
        assert len(where) == (3 if name == "targets-100" else 0)
        if name == CELL:
            assert damaged.inputs[wrong] == [-999] and wrong[:, :5].any()
        if name == ROW:
            assert wrong.any(axis=1).sum() == 1 and (damaged.inputs[wrong] == 1e6).all()
        if name == "cells-1000":
            assert np.allclose(damaged.inputs[wrong], 1000 * clean.inputs[wrong])
        if name == "targets-100":
            assert np.allclose(damaged.targets[where], 100 * clean.targets[where])

    @pytest.mark.parametrize("name", CHANGED)
    def test_what_is_done_to_columns_is_done_to_both_parts(self, name):
        pairs = list(self.pair(name))
        assert all(np.array_equal(clean.targets, changed.targets) for clean, changed in pairs)
        clean, changed = (np.vstack([pair[place].inputs for pair in pairs]) for place in (0, 1))
        if name == SKEWED:
            assert np.array_equal(rankdata(clean, axis=0), rankdata(changed, axis=0)) and changed.min() > 0
            assert np.allclose(np.log(changed).std(axis=0), 2, atol=0.1)
            return
        assert np.array_equal(clean, changed[:, :10])
        more = changed[:, 10:]
        assert more.shape[1] == (60 if name == NOISY else 10)
        assert (np.abs(more).max() > 30) == (name == "heavy-tails") and abs(np.median(more)) < 0.1

    def test_noise_of_targets_is_in_training_rows_alone(self):
        def truth(x):
            return 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]

        train, test = CASES[CLEAN].make(0)
        assert np.allclose(test.targets, truth(test.inputs))
        assert (train.targets - truth(train.inputs)).std() == pytest.approx(1, abs=0.1)
        assert [part.inputs.shape for part in (train, test)] == [(600, 10), (1000, 10)]


@pytest.mark.parametrize(
    ("make", "best", "most"),
    [
        (lambda: cases.one_column(0, train=200_000, test=1)[0], 0.85, 0.72),
        (lambda: cases.five_columns(0, train=200_000, test=1)[0], 0.78, None),
        (lambda: cases.exclusive_or(0, train=200_000, test=1)[0], 0.90, 0.5),
        (lambda: CASES["passengers"].make(0)[1], 0.79, 0.68),
    ],
)
def test_the_best_possible_accuracy_is_what_it_is_meant_to_be(make, best, most):
    part = make()
    _, kind = np.unique(part.inputs, axis=0, return_inverse=True)
    ones, count = np.bincount(kind.ravel(), weights=part.targets), np.bincount(kind.ravel())
    assert np.maximum(ones, count - ones).sum() / len(part.targets) == pytest.approx(best, abs=0.02)
    if most:
        assert max(part.targets.mean(), 1 - part.targets.mean()) == pytest.approx(most, abs=0.02)


def test_passengers_are_2201_of_14_kinds_either_way():
    for labels, values in zip(CASES["passengers"].make(2), CASES["passengers-values"].make(2), strict=True):
        assert labels.inputs.shape == (2201, 3) and len(np.unique(labels.inputs, axis=0)) == 14
        assert np.array_equal(labels.inputs, values.inputs) and np.array_equal(2.0 * labels.targets - 1, values.targets)


def test_digits_are_all_of_them_once():
    train, test = CASES["digits"].make(0)
    rows = np.vstack([train.inputs, test.inputs])
    assert rows.shape == (1797, 64) and len(np.unique(rows, axis=0)) == 1797 and rows.max() == 16


def test_rows_of_a_split_are_its_own(monkeypatch):
    monkeypatch.setattr(cases, "SPLITS", 3)
    found = case_set("houses")
    rows = np.concatenate([found.splits["train"].ravel(), found.splits["test"].ravel()])
    assert np.array_equal(np.sort(rows), np.arange(3 * 1800)) and len(found.inputs) == 3 * 1800
    for split in range(3):
        train, test = CASES["houses"].make(split)
        assert same(found.part(found.splits["train"][split]), train)
        assert same(found.part(found.splits["test"][split]), test)
    assert case_set("houses").digest == found.digest != case_set("friedman").digest


def small(labelled, poison=lambda part: part):
    """Return a case whose first column is the number of the row, over all splits."""

    def make(split):
        rng = np.random.default_rng(split)
        inputs = rng.standard_normal((TRAIN + TEST, 4))
        inputs[:, 0] = np.arange(TRAIN + TEST) + split * (TRAIN + TEST)
        targets = 30 + 5 * inputs[:, 1] + rng.standard_normal(TRAIN + TEST)
        if labelled:
            targets = (targets > 30).astype(np.int64)
        return Part(inputs[:TRAIN], targets[:TRAIN]), poison(Part(inputs[TRAIN:], targets[TRAIN:]))

    return make


@pytest.fixture
def standin(monkeypatch):
    monkeypatch.setattr(Standin, "seen", [])
    monkeypatch.setattr(Standin, "breaks", {})
    monkeypatch.setattr(protocol.Tables, "models", models("StandinClassifier") + models("StandinRegressor"))
    use(monkeypatch)
    return Standin


def use(monkeypatch, poison=lambda part: part):
    for name, labelled in zip(SMALL, (True, False), strict=True):
        monkeypatch.setitem(CASES, name, CASES[name]._replace(make=small(labelled, poison)))


def run(folder, *more):
    path = folder / "out.json"
    code = command.main(["--suite", "tables", "--output", str(path), "--threads", "1", "--sets", *SMALL, *more])
    return code, {store.key_of(row): row for row in json.loads(path.read_text())["rows"]}


class TestSuite:
    def test_runs_without_a_folder_and_shows_each_stage_its_rows(self, tmp_path, standin):
        code, rows = run(tmp_path)
        assert code == 0 and len(rows) == 2 * SPLITS * 4, "three scores and a choice for each split"
        shown, asked = ([one[2].astype(int) for one in fits(standin.seen, kind)] for kind in ("fit", "ask"))
        a_split = 2 + len(NEIGHBOURS.values["neighbours"])
        for place in range(2):
            begin = place * SPLITS * (2 + a_split)
            for split in range(SPLITS):
                first = split * (TRAIN + TEST)
                train, test = set(range(first, first + TRAIN)), set(range(first + TRAIN, first + TRAIN + TEST))
                tuned = begin + 2 * SPLITS + split * a_split
                for fit in (begin + split, begin + SPLITS + split, tuned + a_split - 1):
                    assert set(shown[fit]) == train and set(asked[fit]) == test
                for fit in range(tuned, tuned + a_split - 1):
                    assert len(shown[fit]) == 16 and not set(shown[fit]) & set(asked[fit])
                    assert set(shown[fit]) | set(asked[fit]) == train

    @pytest.mark.parametrize("poisoned", ["targets", "both"])
    def test_poisoned_test_rows_change_no_choice_and_no_fit(self, tmp_path, standin, monkeypatch, poisoned):
        def poison(part):
            inputs = part.inputs + 1e4 * (poisoned == "both")
            return Part(inputs, 1 - part.targets if part.targets.dtype == np.int64 else part.targets + 1e6)

        _, clean = run(tmp_path)
        before = fits(standin.seen)
        standin.seen.clear()
        use(monkeypatch, poison)
        _, after = run(tmp_path)
        assert len(before) == len(fits(standin.seen)), "another table is computed again"
        for one, other in zip(before, fits(standin.seen), strict=True):
            assert one[1] == other[1] and same(one[2:4], other[2:4]) and one[4] == other[4]
        for key, row in clean.items():
            if row["kind"] == store.CHOICE:
                assert all(row[name] == after[key][name] for name in ("chosen", "loss", "tried"))
            elif row["set"] == "friedman":
                assert after[key]["r2"] < -100 < row["r2"]
            elif poisoned == "targets":
                assert after[key]["accuracy"] == pytest.approx(1 - row["accuracy"])

    def test_classes_are_for_classifiers_and_values_for_regressors(self, tmp_path, standin):
        _, rows = run(tmp_path)
        for _, name, _, targets, _ in fits(standin.seen):
            assert (name == "StandinClassifier") == (targets.dtype == np.int64)
        for row in rows.values():
            labelled = row["set"] == "one-column"
            assert row["recipe"].startswith("StandinClassifier" if labelled else "StandinRegressor")
            assert ("classes" in row) == labelled and row["inputs"] == TRAIN and row["dimension"] == 4
            if row["kind"] == store.SCORE:
                assert {"accuracy"} == row.keys() & {"accuracy", "r2", "rmse"} if labelled else "coverage" in row

    def test_tables_are_shown_as_they_are(self, tmp_path, standin):
        run(tmp_path, "--models", "thresher")
        targets = np.concatenate([one[3] for one in fits(standin.seen) if one[1] == "StandinRegressor"])
        assert targets.mean() == pytest.approx(30, abs=1)

    def test_other_suites_ask_for_the_folder(self, tmp_path, capsys):
        for suite in ("regression", "times"):
            arguments = ["--output", str(tmp_path / "out.json"), "--suite", "tables", suite]
            assert command.main(arguments) == 2
            err = capsys.readouterr().err
            assert err.startswith(f"Error: suite {suite} reads published sets; give the folder that holds uci-")
            assert err.endswith("by --data-dir, or run --suite tables, which needs none.\n")
        assert not (tmp_path / "out.json").exists()

    def test_the_page_has_a_section_of_them(self, tmp_path, standin):
        run(tmp_path)
        written = tmp_path / "accuracy.md"
        assert page.main(["--results", str(tmp_path / "out.json"), "--output", str(written)]) == 0
        text = written.read_text()
        for expected in (
            "## Tables as people have them",
            f"- {CELL}: {CASES[CELL].about}.",
            "| case | rows | columns | measure | thresher, default |",
            f"| one-column | {TRAIN} | 4 | accuracy |",
            f"| friedman | {TRAIN} | 4 | R² |",
            "| R² lost where one training cell is -999 | - | <= 0.03 | rows missing |",
            "- **thresher, default**: `ThresherClassifier()`, `ThresherRegressor()`. **10 of 10 rows were made by",
            "| tables | thresher, default | 10 |",
        ):
            assert expected in text
        assert "## Classification" not in text and text.count("## ") == 5


class TestScores:
    def test_are_those_of_scikit_learn(self):
        rng = np.random.default_rng(0)
        targets, mean, std = rng.standard_normal((3, 50))
        told = Gaussian(mean, np.exp(std))
        score = SUITES["tables"].score(told, targets)
        assert score["r2"] == pytest.approx(r2_score(targets, mean))
        assert score["coverage"] == np.mean([abs(t - m) <= 1.96 * s for t, m, s in zip(targets, *told, strict=True)])
        assert 0 < score["coverage"] < 1
        assert {**SUITES["regression"].score(told, targets), "rmse": 0}.keys() - score.keys() == {"rmse"}
        assert SUITES["tables"].score(Gaussian(mean, None), targets).keys() == {"r2"}
        chances, truth = rng.dirichlet([1, 1, 1], 50), rng.integers(3, size=50)
        chances[0] = np.eye(3)[(truth[0] + 1) % 3]  # a sure mistake
        said = Labels(chances.argmax(axis=1), chances, np.arange(3))
        assert SUITES["tables"].score(said, truth)["log_loss"] == pytest.approx(log_loss(truth, chances))
        unseen = SUITES["tables"].score(Labels(truth[:1], np.ones((1, 1)), np.array([7])), truth[:1])
        assert unseen["log_loss"] == pytest.approx(-np.log(np.finfo(float).eps))
        assert SUITES["tables"].score(said._replace(probabilities=None), truth).keys() == {"accuracy"}


class TestModels:
    def test_come_in_pairs(self):
        for one, other in zip(TABLE_CLASSIFIERS, TABLE_REGRESSORS, strict=True):
            assert (one.name, one.label) == (other.name, other.label) and one.classifies and not other.classifies
        assert len({model.name for model in TABLE_CLASSIFIERS}) == len(TABLE_CLASSIFIERS)

    def test_scaled_ones_care_for_no_unit(self):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((40, 3))
        y = X[:, 0] + 0.1 * rng.standard_normal(40)
        for model in (model for model in TABLE_CLASSIFIERS + TABLE_REGRESSORS if model.scaled):
            assert model.recipe.startswith("StandardScaler, ")
            targets, unit, zero = ((y > 0).astype(int), 1, 0) if model.classifies else (y, 1000, 50)
            plain = model.make({}, seed=0, threads=1).fit(X, targets)
            other = model.make({}, seed=0, threads=1).fit(X * [1, 1e6, 1e-6] + 3, unit * targets + zero)
            assert np.allclose(unit * plain.predict(X) + zero, other.predict(X * [1, 1e6, 1e-6] + 3), rtol=1e-4)

    def test_chosen_arguments_reach_the_estimator_behind_the_scaling(self):
        for model in (model for model in TABLE_CLASSIFIERS + TABLE_REGRESSORS if model.name == "svm"):
            made = model.make({"C": 7.0}, seed=0, threads=1)
            assert 7.0 in [value for name, value in made.get_params().items() if name.endswith("__C")]
            assert model.choices[1].startswith(f"StandardScaler, {model.source[1]}()")
