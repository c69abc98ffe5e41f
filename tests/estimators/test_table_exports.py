"""ONNX models of tables: an input for each column, read as the encoder reads it."""

import numpy as np
import pytest

from thresher import InvalidInput, TableEncoder, ThresherClassifier, ThresherRegressor
from thresher.export.graph import Graph
from thresher.export.table_graph import add_table, check_table
from thresher.tables import Column, Frame
from thresher.tables.kinds import Dates, describe_kind, restore_kind

onnx = pytest.importorskip("onnx", reason="an extra")
onnxruntime = pytest.importorskip("onnxruntime", reason="an extra")
LIMIT = {"width": float("inf"), "shift": 0.4, "bias": 1.0, "ridge": 0.01, "feature_learning": 0}


def cells(*values):
    return np.array(values, object)


def frame(rows=120, seed=0):
    rng = np.random.default_rng(seed)
    seconds = rng.integers(0, 900 * 86_400, rows).astype("timedelta64[s]")
    times = (np.datetime64("2022-11-03T00:00:00") + seconds).astype(str)
    words = ["Don't", "café", "red,blue", "fast", "the"]
    text = [" ".join(rng.choice(words, rng.integers(4, 9))) for _ in range(rows)]
    columns = {
        "the area": rng.normal(size=rows).astype(np.float32).astype(float),
        "built": np.where(rng.random(rows) < 0.2, np.nan, rng.integers(1900, 2000, rows)),
        "city": rng.choice(cells("Bern", "Łódź", "", "a b"), rows),
        "sold": rng.choice(cells("True", "False"), rows),
        "code": rng.choice(cells(*(f"c{k}" for k in range(50))), rows),
        "when": np.array([one.replace("T", " ") for one in times], object),
        "told": np.array(text, object),
    }
    target = columns["the area"] + (columns["city"] == "Bern") + 0.01 * (columns["built"] > 1950)
    return Frame([Column(name, values) for name, values in columns.items()]), target


def session_of(model, **options):
    return onnxruntime.InferenceSession(model.to_onnx(**options).SerializeToString())


def run(session, table):
    """What a session says of a table: strings for inputs of strings, numbers for the others."""
    given, truths = {}, {"True": 1.0, "False": 0.0}
    for one in session.get_inputs():
        kind = {"tensor(string)": object, "tensor(float)": np.float32, "tensor(double)": np.float64}[one.type]
        values = (
            [truths.get(cell, cell) for cell in table[one.name].values]
            if kind is not object
            else table[one.name].values
        )
        given[one.name] = np.array(values, kind)[:, None]
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(None, given), strict=True))


def encoded(kinds, table):
    """What a graph makes of the columns of a table, given what was learnt of each."""
    about = [(name, describe_kind(kind)) for name, kind in kinds.items()]
    graph = Graph()
    inputs, made = add_table(graph, about)
    graph("Identity", made, name="made")
    helper, strings, numbers = onnx.helper, onnx.TensorProto.STRING, onnx.TensorProto.DOUBLE
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "encoder",
            [helper.make_tensor_value_info(one.name, strings if one.text else numbers, [None, 1]) for one in inputs],
            [helper.make_tensor_value_info("made", numbers, [None, None])],
            [onnx.numpy_helper.from_array(value, name) for name, value in graph.constants.items()],
        ),
        opset_imports=[helper.make_opsetid(*one) for one in graph.domains.items()],
        ir_version=9,
    )
    return run(onnxruntime.InferenceSession(model.SerializeToString()), table)["made"]


@pytest.mark.parametrize(("dtype", "apart"), [("float64", 1e-7), ("float32", 1e-5)])
def test_a_table_goes_in_as_it_is(dtype, apart):
    table, target = frame()
    model = ThresherRegressor(**LIMIT).fit(table, target)
    assert {kind.kind for kind in model.encoder_.kinds_.values()} >= {"number", "date", "category", "levels", "text"}
    new = frame(seed=1)[0]
    for rows in (table, new):
        found, expected = run(session_of(model, dtype=dtype), rows)["outputs"][:, 0], model.predict(rows)
        np.testing.assert_allclose(found, expected, atol=apart * np.ptp(expected))


def test_a_network_and_classes_behind_a_table():
    table, target = frame()
    network = ThresherRegressor(**LIMIT | {"width": 128}, random_state=0).fit(table, target)
    found = run(session_of(network, dtype="float64"), table)["outputs"][:, 0]
    np.testing.assert_allclose(found, network.predict(table), atol=1e-7)
    classifier = ThresherClassifier(**LIMIT).fit(table, np.where(target > 0.5, "dear", "cheap"))
    told = run(session_of(classifier, dtype="float64"), table)
    np.testing.assert_array_equal(told["label"], classifier.predict(table))
    np.testing.assert_allclose(told["probabilities"], classifier.predict_proba(table), atol=1e-6)


def test_every_column_is_encoded_as_by_the_encoder():
    table, target = frame()
    encoder = TableEncoder().fit(table, target)
    for rows in (table, frame(seed=2)[0]):
        np.testing.assert_allclose(encoded(encoder.kinds_, rows), encoder.transform(rows), atol=1e-9)


def test_names_in_other_forms_and_names_that_are_new():
    kind = restore_kind({"kind": "category", "values": ["", "True", "False", "3", "x"]})
    values = cells("", "True", "true", "TRUE", "1", "1.0", "false", "0", "3", "3.0", "x", "X", "Oslo")
    table = Frame([Column("a", values)])
    np.testing.assert_array_equal(encoded({"a": kind}, table), kind.encode(table["a"]))


DATES = cells(
    "2024-02-29", "2023-02-29", "2024-02-30", "1000-01-01", "0999-01-01", "3000-01-01", "2024-13-01", "2024-00-10",
    "2024-1-5", "29.02.2024", "02/29/2024", "5/6/07", "5/6/69", "5/6/70", "31.12.1999 23:59:59", "2024-05-06T07:08",
    "2024-05-06T07:08:09Z", "2024-05-06 07:08:09.25+02:00", "2024-05-06T07:08:09,5-0330", "2024-05-06  24:00",
    "2024-05-06   14:00", "2024-05-06T 14:00",
    "2024-05-06 12:30 PM", "2024-05-06 12:30 am", "2024-05-06 1:05p.m.", "2024-05-06 13:05 PM", "2024-05-06 0:05 am",
    "2024-05-06 10:60", "2024-05-06 10:10:60", "", "nan", "soon", "2024-05", "2024-05/06", "12-11-10-09", "1900-03-01",
    "2000-02-29", "1900-02-29", "1969-12-31 18:00", "1970-01-01", "2024-05-06 10:10\u00a0PM",
)  # fmt: skip


@pytest.mark.parametrize("order", ["ymd", "dmy", "mdy"])
def test_dates_are_read_as_the_encoder_reads_them(order):
    parts = (
        "day",
        "year",
        "sine of year",
        "cosine of year",
        "sine of week",
        "cosine of week",
        "sine of day",
        "cosine of day",
    )
    kind = Dates(order, parts, tuple(np.arange(8.0)), True)
    rng = np.random.default_rng(0)
    drawn = rng.integers([1, 1, 1950, 0, 0], [32, 13, 2050, 24, 60], size=(300, 5))
    made = ["{:02d}.{:02d}.{} {:02d}:{:02d}".format(*row) for row in drawn.tolist()]
    table = Frame([Column("a", cells(*DATES, *made))])
    np.testing.assert_allclose(encoded({"a": kind}, table), kind.encode(table["a"]), atol=1e-9)


def test_words_are_found_as_the_encoder_finds_them():
    kind = restore_kind({"kind": "text", "words": ["café", "don", "a_b", "7", "straße"]})
    values = cells("Café don't A_b", "cafés 7up", "", "7, (don) STRASSE Straße", "a_b\nDON\t7", "-- !", "9")
    table = Frame([Column("a", values)])
    np.testing.assert_allclose(encoded({"a": kind}, table), kind.encode(table["a"]), atol=1e-12)


def test_inputs_say_what_they_take():
    table, target = frame()
    graph = ThresherRegressor(**LIMIT).fit(table, target).to_onnx().graph
    assert [one.name for one in graph.input] == table.columns
    words = {one.name: one.doc_string for one in graph.input}
    assert words["built"] == "numbers, NaN where missing"
    assert words["when"] == "dates as text, '' where missing"


def test_what_a_graph_cannot_read_is_said_column_by_column():
    about = [("a", {"kind": "number"}), ("b", {"kind": "smell"}), ("c", {"kind": "date", "parts": ["day", "tide"]})]
    expected = r"'b' is smell, of which a graph makes no numbers; 'c' is a date of which a graph cannot make tide\."
    with pytest.raises(InvalidInput, match=expected):
        check_table(about)


@pytest.mark.parametrize("shop", ["number", "text"])
def test_columns_made_of_others(shop):
    rng = np.random.default_rng(0)
    begin = np.datetime64("2020-01-01") + rng.integers(0, 900, 600) * np.timedelta64(1, "D")
    end = begin + rng.integers(1, 400, 600) * np.timedelta64(1, "D")
    shops = rng.choice(np.arange(10_000, 99_999), 40, replace=False)[rng.integers(0, 40, 600)]
    level = {one: rng.normal() for one in np.unique(shops)}
    days = (end - begin) / np.timedelta64(1, "D")
    y = 3 * np.exp(-days / 60) + np.array([level[one] for one in shops]) + 0.1 * rng.normal(size=600)
    names = shops.astype(np.float64) if shop == "number" else shops.astype(str).astype(object)
    text = [one.astype(str).astype(object) for one in (begin, end)]
    text[0][:5] = ""
    columns = [Column("begin", text[0]), Column("end", text[1]), Column("shop", names)]
    table = Frame([*columns, Column("size", rng.normal(size=600))])
    model = ThresherRegressor(**LIMIT).fit(table, y)
    assert [one.name for one in model.encoder_.made_] == ["end - begin, days", "shop as names"]
    for there in (slice(None), slice(5, None)):  # dates are missing in some rows of the fit, and in none
        some = table.take(np.arange(600)[there])
        model = ThresherRegressor(**LIMIT).fit(some, y[there])
        new = Frame([Column("begin", np.array(["", "2020-01-01", "x", "2021-02-03"], object)),
                     Column("end", np.array(["2021-01-01", "", "2020-05-01", "2022-02-03"], object)),
                     Column("shop", np.array([7.0, shops[0], np.nan, shops[1]])),
                     Column("size", np.zeros(4))])  # fmt: skip
        for rows in (some, new):
            given = rows.take(np.arange(len(rows)))
            if given["shop"].is_text:
                given = Frame(
                    [one._replace(values=one.values.astype(np.float64)) if one.name == "shop" else one for one in given]
                )
            found = run(session_of(model, dtype="float64"), given)["outputs"][:, 0]
            np.testing.assert_allclose(found, model.predict(rows), atol=1e-6)


def test_columns_made_of_others_that_a_graph_cannot_make_are_said():
    amount, names = {"kind": "number", "unit": "g"}, {"kind": "category", "values": ["01", "1"]}
    about = [
        ("a", amount),
        ("b", {**amount, "unit": "mg"}),
        ["share", ["a", "b"], {"kind": "number"}],
        ["names", ["a"], names],
    ]
    with pytest.raises(InvalidInput, match=r"a and b are in different units.*; 'a' has names that are not different"):
        check_table(about)


def test_columns_may_have_any_name():
    rng = np.random.default_rng(0)
    names = ["scores", "label", "outputs", "X", "/step1", "//constant0", "step1", "a b", "probabilities", "\n"]
    city = Column("city", rng.choice(cells("a", "b"), 40))
    table = Frame([*(Column(name, rng.normal(size=40)) for name in names), city])
    model = ThresherClassifier(**LIMIT).fit(table, np.where(table["scores"].values > 0, "up", "down"))
    found = run(session_of(model, dtype="float64"), table)
    assert list(found) == ["label_", "probabilities_", "scores_"]
    np.testing.assert_allclose(found["probabilities_"], model.predict_proba(table), atol=1e-6)
