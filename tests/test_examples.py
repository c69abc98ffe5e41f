"""The example of a server predicts what the model predicts, and refuses the rest with the message and the column."""

import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from thresher import ThresherClassifier, ThresherRegressor

SERVE = Path(__file__).parent.parent / "examples" / "serve.py"
FIXED = {"bias": 1.0, "ridge": 0.01, "feature_learning": 0}
ROW = {"area": 1.5, "city": "Bern", "sold": "2024-03-04", "built": None}


def houses():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"area": rng.normal(size=60), "city": rng.choice(["Bern", "Lyon"], 60)})
    table["sold"] = (np.datetime64("2024-01-01") + rng.integers(0, 300, 60)).astype(str)
    table["built"] = np.where(rng.random(60) < 0.3, np.nan, rng.normal(size=60))
    return table, table["area"] + (table["city"] == "Bern")


@contextmanager
def serve(model, folder):
    """Yield a question to the example that serves the file of a model: the status and the JSON that come back."""
    path = folder / "model.thresher"
    model.save(path)
    command = [sys.executable, str(SERVE), str(path), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            lines = iter(process.stderr.readline, "")
            address = next(found[0] for line in lines if (found := re.search(r"http://127\.0\.0\.1:\d+", line)))

            def ask(body):
                given = body if isinstance(body, bytes) else json.dumps(body).encode()
                try:
                    with urllib.request.urlopen(f"{address}/predict", given, timeout=60) as answer:
                        return answer.status, json.load(answer)
                except urllib.error.HTTPError as error:
                    return error.code, json.load(error)

            yield ask
        finally:
            process.terminate()


@pytest.fixture(scope="module", params=[ThresherRegressor, ThresherClassifier])
def served(request, tmp_path_factory):
    """A model, and a question to the example that serves it."""
    table, price = houses()
    classes = request.param is ThresherClassifier
    model = request.param(**FIXED).fit(table, np.where(price > 0.5, "dear", "cheap") if classes else price)
    with serve(model, tmp_path_factory.mktemp("served")) as ask:
        yield model, ask


def test_rows_are_answered_with_what_the_model_says(served):
    model, ask = served
    rows = [ROW, ROW | {"area": -0.5, "city": "Oslo", "built": 0.3}]
    table, (status, told) = pd.DataFrame(rows), ask(rows)
    assert status == 200
    np.testing.assert_array_equal(told.pop("prediction"), model.predict(table))
    if isinstance(model, ThresherClassifier):
        assert told.pop("classes") == ["cheap", "dear"]
        np.testing.assert_allclose(told.pop("probabilities"), model.predict_proba(table), atol=1e-9)
    else:
        np.testing.assert_allclose([told.pop("lower"), told.pop("upper")], model.predict_interval(table, 0.9))
    assert not told


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ([{"city": "Bern"}], "it lacks area, sold, built"),
        ([ROW | {"rooms": 3}], "it has also rooms"),
        ([ROW | {"area": "big"}], "column 'area' has no number that can be read"),
        ([ROW | {"area": None}], "column 'area' has no number that can be read, where training rows have one"),
        ([ROW | {"sold": "soon"}], "column 'sold' has no date that can be read"),
        ([ROW | {"city": {"name": "Bern"}}], "column 'city' holds a dict"),
        ([], "expected a list of rows"),
        ([{}], "X must have rows and columns"),
        (5, "expected a list of rows"),
        ([ROW, 5], "expected a list of rows"),
        ({"area": 5}, "expected a list of rows"),
        ([ROW | {"built": float("nan"), "area": float("inf")}], "column 'area': row 1 is 'inf'"),
        (b"[" * 100_000, "recursion"),
        (b"{", "Expecting property name"),
        (b'"\xc3"', "utf-8"),
    ],
)
def test_what_cannot_be_predicted_is_refused_with_the_column(served, body, message):
    status, told = served[1](body)
    assert status == 400
    assert message in told["error"]


def test_it_goes_on_after_a_refusal(served):
    assert [served[1](body)[0] for body in (b"no", [ROW])] == [400, 200]


def test_objects_have_no_order(served):
    assert served[1]([dict(reversed(ROW.items()))]) == served[1]([ROW])


def test_a_table_of_numbers_alone(tmp_path):
    table, price = houses()
    table = table[["area"]].assign(rooms=np.arange(60.0))
    model = ThresherRegressor(**FIXED).fit(table, price)
    with serve(model, tmp_path) as ask:
        status, told = ask([{"rooms": 3, "area": 1.5}])
        assert (
            status == 200 and told["prediction"] == model.predict(pd.DataFrame({"area": [1.5], "rooms": [3]})).tolist()
        )
        for row, message in [
            ({"area": "big"}, "column 'area': row 1 is 'big'; expected numbers"),
            ({"area": None}, "column 'area', contains NaN"),
            ({"area": float("inf")}, "column 'area': row 1 is 'inf'"),
            ({"area": [1]}, "column 'area' holds a list"),
            ({"area": {"m2": 1}}, "column 'area' holds a dict"),
            ({"area": 10**400}, "column 'area': row 1 is '1000"),
        ]:
            status, told = ask([{"rooms": 3} | row])
            assert status == 400 and message in told["error"]
