"""Free text as components: the same every time, exact in files, kept where rows left out are predicted better."""

import json

import numpy as np
import pandas as pd
import pytest

import thresher
from thresher import InvalidInput, TableEncoder, ThresherClassifier
from thresher.estimators.data.grams import _BUCKETS, Grams, learn_grams, restore_grams
from thresher.tables.frame import Column

TOPICS = ("invoice payment refund charged twice card", "parcel delivery late courier tracking damaged")
FILLER = [
    "hello",
    "please",
    "the",
    "my",
    "is",
    "and",
    "have",
    "since",
    "yesterday",
    "can",
    "you",
    "help",
    "with",
    "this",
]


def told(n=240, seed=0):
    """Messages of two topics, one misspelt word in each, and which topic it is."""
    rng = np.random.default_rng(seed)
    topic = rng.integers(0, 2, n)
    cells = []
    for k in topic:
        words = [*rng.choice(TOPICS[k].split(), 2), *rng.choice(FILLER, 6)]
        words[0] = words[0][:3] + words[0][4] + words[0][3] + words[0][5:] if len(words[0]) > 5 else words[0]
        rng.shuffle(words)
        cells.append(" ".join(words))
    return pd.DataFrame({"message": cells, "hour": rng.integers(0, 24, n)}), np.array(["bill", "ship"])[topic]


@pytest.fixture(scope="module")
def model():
    return ThresherClassifier(width=float("inf"), random_state=0).fit(*told())


def test_messages_are_told_apart(model):
    frame, topic = told(seed=1)
    assert [one.name for one in model.encoder_.made_] == ["words of message"]
    assert (model.predict(frame) == topic).mean() > 0.9
    assert model.feature_importances_.shape == (2,) and model.feature_importances_.sum() == pytest.approx(1)
    assert "'words of message'" in " ".join(model.encoder_.summary())


def test_files_hold_them_exactly(model, tmp_path):
    model.save(tmp_path / "a")
    frame, _ = told(seed=2)
    again = thresher.load(tmp_path / "a")
    np.testing.assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))
    kind = model.encoder_.made_[0].kind
    assert restore_grams(json.loads(json.dumps(kind.describe()))) == kind
    assert TableEncoder.from_json(json.loads(json.dumps(model.encoder_.to_json()))).made_ == model.encoder_.made_


def test_files_are_checked(model):
    about = model.encoder_.made_[0].kind.describe()
    one_nan = Grams(1, "AAA=", "AACAPw==", "AADAfw==").describe()
    for change in ({"numbers": 0}, {"numbers": 7}, {"numbers": "x"}, {"used": about["used"][::-1]}, {"used": ""},
                   {"rarity": "AAAA"}, {"loadings": "!"}, {"strange": 1}, {"used": "//8="}, one_nan):  # fmt: skip
        with pytest.raises((ValueError, TypeError)):
            restore_grams({**about, **change})


def test_they_are_the_same_whatever_else_is_there():
    cells = np.array(told()[0]["message"], object)
    kind = learn_grams(Column("a", cells))
    assert kind == learn_grams(Column("b", cells.copy()))
    whole = kind.encode(Column("a", cells))
    np.testing.assert_allclose(kind.encode(Column("a", cells[7:9])), whole[7:9], atol=1e-12)
    new = np.array(["", "zzzz qqqq", "ÄÖ ☃ \x00", "invoice " * 100_000, "INVOICE"], object)
    made = kind.encode(Column("a", new))
    assert np.isfinite(made).all() and not made[0].any()
    used, _, loadings = kind.arrays()
    assert used.max() < _BUCKETS and loadings.shape == (len(used), kind.numbers)


@pytest.mark.parametrize("cells", [["one two three four"], ["a b c d", "e f g h"], [""] * 9], ids=str)
def test_text_without_words_that_come_again_has_none(cells):
    assert learn_grams(Column("a", np.array(cells, object))) is None


def test_text_that_tells_nothing_is_left_as_it_was():
    frame, _ = told()
    for seed in range(3):
        model = ThresherClassifier(width=float("inf"), random_state=0)
        model.fit(frame, np.random.default_rng(seed + 7).integers(0, 2, 240))
        assert not model.encoder_.made_


def test_a_graph_of_them_is_refused(model):
    with pytest.raises(InvalidInput, match=r"take numbers, categories and dates; not 'message'\. Use"):
        model.to_onnx()
