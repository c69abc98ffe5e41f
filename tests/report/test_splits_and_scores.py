"""Which rows are trained on and tested on: every row once, every class with its share."""

import re
from types import SimpleNamespace

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thresher import InvalidInput, Problem
from thresher.cli.options import in_options
from thresher.cli.predict import _digits_for, _round_shares
from thresher.cli.train import train
from thresher.model.network import NetworkSettings
from thresher.report.scores import Test as Judged
from thresher.report.scores import find_thresholds, score_all
from thresher.report.splits import fold, split
from thresher.report.words import say_recall, say_scores, say_threshold
from thresher.training import objectives

LABELS = st.lists(st.sampled_from("aabbbbcd"), min_size=8, max_size=200).map(np.array)


def shares(labels, places):
    return {name: np.mean(labels[places] == name) for name in np.unique(labels)}


@given(LABELS, st.floats(0.05, 0.6), st.integers(0, 5))
def test_a_split_has_every_row_once_and_keeps_each_class(labels, share, seed):
    parts = split(labels, share, seed=seed, classes=True)
    assert sorted([*parts.train, *parts.test]) == list(range(len(labels)))
    assert set(labels[parts.train]) == set(labels)
    kinds = len(set(labels))
    assert abs(len(parts.test) - share * len(labels)) <= max(1, kinds)
    for name in set(labels):
        of_class, tested = (labels == name).sum(), (labels[parts.test] == name).sum()
        assert abs(tested - len(parts.test) * (of_class - 1) / max(len(labels) - kinds, 1)) <= 1


@given(LABELS, st.integers(2, 4), st.booleans())
def test_folds_test_every_row_once(labels, count, classes):
    try:
        parts = fold(labels, count, seed=1, classes=classes)
    except InvalidInput as error:
        assert "one class to train on" in str(error)
        assert np.unique(labels, return_counts=True)[1].max() >= len(labels) - 1 - count or len(set(labels)) < 3
        return
    assert len(parts) == count
    assert sorted(np.concatenate([one.test for one in parts])) == list(range(len(labels)))
    for one in parts:
        assert not set(one.train) & set(one.test)
        assert len(one.train) + len(one.test) == len(labels)
        for name in set(labels) if classes else ():
            assert abs((labels[one.test] == name).sum() - (labels == name).sum() / count) <= 1


def test_a_regression_is_split_at_random():
    targets = np.arange(1000.0)
    first, second = (split(targets, 0.2, seed=seed, classes=False).test for seed in (0, 1))
    assert len(first) == len(second) == 200
    assert 150 > len(set(first) & set(second)) > 5


def test_scores_are_those_of_scikit_learn():
    from sklearn import metrics

    generator = np.random.default_rng(0)
    y, predicted = generator.normal(size=(2, 50))
    found = score_all(predicted, y, task="regression")
    assert found["R2"] == pytest.approx(metrics.r2_score(y, predicted))
    assert found["RMSE"] == pytest.approx(metrics.root_mean_squared_error(y, predicted))
    assert found["MAE"] == pytest.approx(metrics.mean_absolute_error(y, predicted))
    classes = np.array(["a", "b", "c"])
    y = generator.choice(classes, size=60)
    chances = generator.dirichlet([1, 1, 1], size=60)
    predicted = classes[chances.argmax(axis=1)]
    found = score_all(predicted, y, task="classification", chances=chances, classes=classes)
    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(y, predicted))
    assert found["log loss"] == pytest.approx(metrics.log_loss(y, chances))
    recall = metrics.recall_score(y, predicted, average=None)
    assert list(found["recall"].values()) == pytest.approx(recall)


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_scores_of_probabilities_are_their_definitions(count, seed):
    generator = np.random.default_rng(seed)
    classes = np.array(["a", "b", "c"][:count])
    y, known = generator.choice(classes, size=(2, 40), p=[0.2, 0.8, 0.0][:count] if count == 2 else None)
    chances = generator.dirichlet([1] * count, size=40)
    predicted = classes[chances.argmax(axis=1)]
    found = score_all(predicted, y, task="classification", known=known, chances=chances, classes=classes)
    areas = [naive.area_under_curve(chances[:, k], y == one) for k, one in enumerate(classes)]
    assert found["AUC"] == pytest.approx(np.mean(areas))
    shares = [np.mean(known == one) for one in classes]
    assert found["log loss of the guess"] == pytest.approx(-np.mean([np.log(shares["abc".index(one)]) for one in y]))
    assert found["accuracy of the guess"] == np.mean(y == classes[np.argmax(shares)])
    assert ("average precision" in found) == (count == 2)
    if count == 2:
        assert found["rarer class"] == "a"
        assert found["average precision"] == pytest.approx(naive.average_precision(chances[:, 0], y == "a"))
        assert found["average precision of the guess"] == np.mean(y == "a")


def test_rows_of_one_class_have_no_base_rate_of_their_own():
    chances, classes = np.array([[0.9, 0.1], [0.8, 0.2]]), np.array(["no", "yes"])
    y = np.array(["no", "no"])
    found = score_all(y, y, task="classification", chances=chances, classes=classes)
    assert np.isnan(found["log loss of the guess"])
    assert say_scores(found) == "log loss 0.164, accuracy 100.0% (commonest class 100.0%)"


def test_models_are_judged_by_a_score_that_sees_probabilities():
    """Of rare classes the commonest is the answer for every row, however good the probabilities are."""
    chances = np.column_stack([np.repeat([0.7, 0.99], 10), np.repeat([0.3, 0.01], 10)])
    y = np.array([1, 1, 1] + [0] * 17)
    found = score_all(np.zeros(20, int), y, task="classification", chances=chances, classes=np.array([0, 1]))
    assert found["accuracy"] == found["accuracy of the guess"] == 0.85
    judged = Judged.of(found, 20)
    assert judged == ("log loss", found["log loss"], 20, found["log loss of the guess"])
    assert judged.value < 0.75 * judged.guess
    assert say_scores(found).startswith("AUC 0.794, average precision of 1 0.3 (base rate 0.15), log loss 0.")
    assert "accuracy 85.0% (commonest class 85.0%)" in say_scores(found)
    assert "from 15.0% on, its share of the rows trained on, it finds 100%, and 30% of these" in say_threshold(found)
    assert say_threshold(found | {"recall": {"0": 1.0, "1": 0.6}}) == ""
    assert Judged.of(score_all(y, y, task="classification"), 20).measure == "accuracy"


def test_thresholds_are_known_before_the_rows_they_are_tried_on():
    generator = np.random.default_rng(0)
    known, classes = np.repeat(["no", "yes"], [95, 5]), np.array(["no", "yes"])
    told = []
    for seed in range(2):
        chance = np.random.default_rng(seed).uniform(size=50)
        y = np.where(generator.uniform(size=50) < chance, "yes", "no")
        told.append(find_thresholds(np.column_stack([1 - chance, chance]), y, known=known, classes=classes))
        for one in told[-1]:
            assert one.answers == np.sum(chance >= one.probability)
            assert one.right == np.sum((chance >= one.probability) & (y == "yes"))
            assert one.probability == pytest.approx(1 / (1 + one.cost))
    assert [one.probability for one in told[0]] == [one.probability for one in told[1]]
    assert any(one.probability == pytest.approx(0.05) for one in told[0])


def test_classes_that_are_unknown_are_wrong_and_have_no_log_loss():
    chances, classes = np.array([[0.5, 0.5], [0.25, 0.75]]), np.array(["a", "c"])
    y = np.array(["b", "c"])
    found = score_all(np.array(["a", "c"]), y, task="classification", chances=chances, classes=classes)
    assert found["accuracy"] == 0.5
    assert found["log loss"] == pytest.approx(-np.log(0.75))
    said = say_scores(found)
    assert "log loss 0.288" in said
    assert ", rows of classes that were not trained on: 1 (wrong, and left out of the log loss), accuracy" in said
    known = score_all(
        np.array(["a", "c"]), np.array(["c", "c"]), task="classification", chances=chances, classes=classes
    )
    assert "not trained on" not in say_scores(known)
    assert say_recall(found) == "Recall of each class: b 0% of 1, c 100% of 1."


def test_scores_in_words():
    assert say_scores({"R2": float("nan"), "RMSE": 12345.6, "MAE": 0.01234}) == "RMSE 12,346, MAE 0.0123"
    assert say_scores({"accuracy": 0.9531, "log loss": 0.13}, {"accuracy": 0.008, "log loss": 0.0219}) == (
        "accuracy 95.3% ± 0.8%, log loss 0.13 ± 0.02"
    )
    many = {f"k{k}": k / 10 for k in range(9)}
    said = say_recall({"recall": many, "rows of each class": dict.fromkeys(many, 1000)})
    assert said.startswith("Recall, lowest of 9 classes: k0 0% of 1,000, k1 10%")
    assert "k7" not in said


@given(st.lists(st.lists(st.floats(1e-9, 1), min_size=7, max_size=7), min_size=1, max_size=20), st.integers(1, 6))
def test_rounded_shares_add_up_and_keep_their_order(parts, decimals):
    shares = np.array(parts) / np.sum(parts, axis=1, keepdims=True)
    found = _round_shares(shares, decimals)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(found, np.round(found, decimals), atol=1e-15)
    assert np.abs(found - shares).max() < 10.0**-decimals * (1 + 1e-9)
    for true, rounded in zip(shares, found, strict=True):
        order = np.argsort(true, kind="stable")
        assert (np.diff(rounded[order]) >= -1e-12).all() or len(set(true)) < len(true)


@given(st.integers(2, 300), st.floats(0, 0.3), st.booleans(), st.integers(0, 3))
def test_a_share_above_zero_tests_a_row(rows, share, classes, seed):
    targets = np.arange(rows) % 2 if classes else np.arange(rows) * 1.0
    try:
        parts = split(targets, share, seed=seed, classes=classes)
    except InvalidInput as error:
        assert rows - max(round(share * rows), 1) < 2
        assert "test_size=" in str(error)
        return
    assert (len(parts.test) == 0) == (share == 0 or (classes and rows == 2))


@given(st.floats(1e-12, 1e12))
def test_digits_reach_one_below_the_error(error):
    unit = 10.0 ** -_digits_for(error)
    assert unit <= 1
    assert unit == 1 or error / 100 < unit <= error / 10 * (1 + 1e-9)


def test_an_error_that_is_not_known_cuts_nothing():
    assert [_digits_for(error) for error in (0.0, float("nan"), float("inf"))] == [None] * 3


NEAR = np.eye(4)[[0, 0, 1]]
FAR = np.eye(4)[:3]


@pytest.mark.parametrize(
    ("inputs", "diagonal", "rank", "shift"),
    [
        (FAR, [0, 1, 1], 3, 3.0),
        (FAR, [0, 1, 1], 3, 0.1),
        (FAR, [1, 1, 1], 3, 1.0),
        (FAR, [1, 1, 1], 2, 1.0),
        (NEAR, [1, 1, 1], 2, 1.0),
    ],
)
@pytest.mark.parametrize("width", [4, 4096])
def test_advice_names_options_that_there_are(inputs, diagonal, rank, shift, width):
    gram = SimpleNamespace(diagonal=lambda: np.array(diagonal), size=3)
    solution = SimpleNamespace(rank=rank, status="solved" if rank == 3 else SimpleNamespace(value="singular"))
    settings = NetworkSettings.checked(width=width, dimension=4, shift=shift)
    problem = Problem(inputs, np.ones(3))
    missed = objectives.Squares(problem).missed(0.5)
    for message in (objectives.why_stalled(gram, solution, settings, problem), missed):
        said = in_options(message)
        known = {name for one in train.params for name in one.opts}
        assert set(re.findall(r"--[a-z-]+", said)) <= known
        assert re.search(r"--(width|shift)", said)
        assert not re.search(r"damping|max_iterations|ridge|dtype|tol|\w=|thresher\.", said)


def test_arguments_become_options():
    assert in_options("coverage must lie between 0 and 1.") == "--interval must lie between 0 and 1."
    assert in_options("no colour='red' here") == "no colour='red' here"
    assert in_options("Use loss='huber', or test_size=0.2.") == "Use --loss huber, or --test-size 0.2."
