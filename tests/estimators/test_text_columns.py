"""Free text as components: the same every time, exact in files, kept where rows left out are predicted better."""

import json

import numpy as np
import pandas as pd
import pytest

import thresher
from thresher import InvalidInput, TableEncoder, ThresherClassifier, ThresherRegressor
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
    return ThresherClassifier(random_state=0).fit(*told())


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
        model = ThresherClassifier(random_state=0)
        model.fit(frame, np.random.default_rng(seed + 7).integers(0, 2, 240))
        assert not model.encoder_.made_


def test_a_graph_of_them_is_refused(model):
    with pytest.raises(InvalidInput, match=r"take numbers, categories and dates; not 'message'\. Use"):
        model.to_onnx()


def addresses(n=400, seed=0):
    """E-mail addresses, no two alike, whose provider tells much of the target; numbers of customers, which do not."""
    rng = np.random.default_rng(seed)
    providers = ["gmail.com", "web.de", "acme-corp.com", "uni-bonn.de", "example.org", "post.fr"]
    provider, x = rng.integers(0, 6, n), rng.normal(size=n)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    email = ["".join(rng.choice(letters, 8)) + f"{k}@{providers[one]}" for k, one in enumerate(provider)]
    customer = [f"C-{one}" for one in rng.permutation(n) + 10_000 * (seed + 1)]
    y = np.array([0.0, 1.5, -1.5, 3.0, -3.0, 0.5])[provider] + x + 0.3 * rng.normal(size=n)
    return pd.DataFrame({"email": email, "customer": customer, "x": x}), y


@pytest.fixture(scope="module")
def of_addresses():
    return ThresherRegressor(random_state=0).fit(*addresses())


class TestOwnValues:
    """Columns with another value in each row were left out unseen."""

    def test_their_pieces_are_used_and_said(self, of_addresses):
        frame, y = addresses(seed=1)
        assert [one.name for one in of_addresses.encoder_.made_] == ["pieces of email"]
        assert of_addresses.score(frame, y) > 0.85
        assert of_addresses.score(frame.assign(email=""), y) < 0.5
        told = " ".join(of_addresses.encoder_.summary())
        assert "'pieces of email'" in told and "eft out: 'email'" not in told
        assert of_addresses.feature_importances_[0] > 0.2

    def test_files_hold_them_exactly(self, of_addresses, tmp_path):
        of_addresses.save(tmp_path / "a")
        frame, _ = addresses(seed=2)
        np.testing.assert_array_equal(thresher.load(tmp_path / "a").predict(frame), of_addresses.predict(frame))
        stored = json.loads(json.dumps(of_addresses.encoder_.to_json()))
        assert TableEncoder.from_json(stored).made_ == of_addresses.encoder_.made_
        stored[0][1]["own"] = False
        with pytest.raises(ValueError, match="cannot be made like that"):
            TableEncoder.from_json(stored)

    def test_a_graph_of_them_is_refused(self, of_addresses):
        pytest.importorskip("onnx")
        with pytest.raises(InvalidInput, match="categories and dates; not 'email, of which another column is made'"):
            of_addresses.to_onnx()

    def test_those_that_tell_nothing_are_left_out_as_before(self):
        frame, y = addresses()
        model = ThresherRegressor(random_state=0).fit(frame[["customer", "x"]], y)
        assert not model.encoder_.made_
        assert "Left out: 'customer' (nearly every row has a value of its own)." in model.encoder_.summary()
        plain = ThresherRegressor(random_state=0).fit(frame[["x"]], y)
        np.testing.assert_array_equal(model.predict(frame[["customer", "x"]]), plain.predict(frame[["x"]]))

    def test_chance_is_no_reason(self):
        frame, _ = addresses()
        made = 0
        for seed in range(5):
            y = np.random.default_rng(seed).normal(size=400)
            made += len(ThresherRegressor(random_state=0).fit(frame, y).encoder_.made_)
        assert made <= 1

    def test_who_names_categories_has_the_last_word(self):
        frame, y = addresses()
        model = ThresherRegressor(random_state=0, categorical_features=["email"]).fit(frame, y)
        assert not model.encoder_.made_
