"""Exports say what the model says: every kind of model, as arrays, in torch and in ONNX, in both precisions."""

import io
import sys
from typing import Any, NamedTuple

import naive
import numpy as np
import onnx
import onnxruntime
import pytest
from few import LAYER, MIXED, with_parts
from scipy.special import owens_t
from sklearn.datasets import load_diabetes

from thresher import (
    InvalidInput,
    NetworkClassifier,
    NetworkRegressor,
    NotAvailable,
    TableEncoder,
    ThresherClassifier,
    ThresherRegressor,
)
from thresher.estimators import Sizes
from thresher.export import classify_arrays, predict_arrays
from thresher.export.table_graph import check_table
from thresher.tables import Column, Frame
from thresher.theory.kernel import firing_probability, probability_cubics

NETWORK = {"width": 64, "random_state": 0, "shift": 0.5, "n_jobs": 1}
LIMIT = {"bias": 1.0, "ridge": 0.01, "feature_learning": 0}
LABELS = [["no", "yes"], [3, 5], ["a", "bb", "c"], [1.0, 2.0, 7.0], [True, False]]


class Few(ThresherRegressor):
    """Sixty rows are many here."""

    _sizes = Sizes(chosen_on=40, exact=60, exact_cheap=60, centres=20, more_centres=30)


class Precision(NamedTuple):
    """How far an export may be off: a share of each prediction, and one of the range of all."""

    relative: float
    absolute: float


class Kind(NamedTuple):
    """A fitted model, rows to predict, how many of them single precision can tell apart, and how far off it may be."""

    model: Any
    rows: Any
    inside: int | None = None
    double: Precision = Precision(0, 1e-7)
    single: Precision = Precision(0, 2e-5)


def table(rows=70, columns=4, seed=0):
    """Rows of which the first columns are whole numbers, all exact in single precision, and targets."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns))
    X[:, 0], X[:, 1] = rng.integers(3, size=rows), rng.integers(5, size=rows)
    X = X.astype(np.float32).astype(np.float64)
    return X, np.sin(2 * X[:, 2]) + X[:, 2] * X[:, 3] + (X[:, 0] == 1) + 0.1 * rng.normal(size=rows)


def rows_like(X):
    """Rows that were fitted, new ones, and some far outside."""
    return np.vstack([X[:30], table(seed=1, columns=X.shape[1])[0][:20], np.float32(100) * X[:3]])


def network(columns=4, of=lambda y: y):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, columns))
    X[:, 0], X[:, 1], X[:, 2] = rng.integers(2, size=40), rng.integers(4, size=40), 0.3
    rows = np.vstack([X[:5], 3 * rng.normal(size=(10, columns)), 1e4 * rng.normal(size=(5, columns)), X[:3] + 1e9])
    model = NetworkRegressor(**{**NETWORK, "width": 1024}).fit(X, of(np.exp(X[:, -1]) + X[:, 0]))
    return Kind(model, rows, 15, Precision(1e-6, 1e-7), Precision(1e-3, 2e-4))  # predict is in single precision


def network_of_classes(labels, **options):
    X = np.random.default_rng(0).normal(size=(30, 3))
    codes = (X @ [1.0, 2.0, -1.0] * 0.5).round().astype(int) % len(labels) if labels else 0
    y = np.array(labels)[codes] if labels else (X[:, :2] > 0).astype(int)
    model = NetworkClassifier(**{**NETWORK, "width": 4096, "tol": 1e-2, **options}).fit(X, y)
    return Kind(model, X, None, Precision(0, 1e-6), Precision(0, 1e-4))


def with_missing(estimator, **options):
    X = np.random.default_rng(0).normal(size=(60, 4))
    X[:, 3] = 1.0
    X[np.random.default_rng(1).random(X.shape) < 0.2] = np.nan
    X[0] = [1.0, 2.0, 3.0, 1.0]
    model = estimator(**options).fit(X, np.nan_to_num(X[:, 0]) + np.isnan(X[:, 1]))
    return Kind(model, np.vstack([X, np.full((1, 4), np.nan)]), None, Precision(0, 1e-7), Precision(0, 2e-4))


def limit(estimator=ThresherRegressor, of=lambda y: y, *, columns=4, fitted=70, parts="auto", **options):
    X, y = table(columns=columns)
    return Kind(with_parts(estimator(**LIMIT | options), parts).fit(X[:fitted], of(y)[:fitted]), rows_like(X))


def many_rows(way, parts):
    X, y = table(150)
    model = with_parts(Few(**LIMIT, approximation=way), parts).fit(X, y)
    assert model.model_.way == way
    return Kind(model, rows_like(X), None, Precision(0, 2e-4), Precision(0, 2e-4))  # predict is in single precision


def whole_numbers():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(8, size=200), rng.normal(size=200)])
    model = ThresherRegressor().fit(X, np.array([3, -1, 2, 5, -4, 0, 1, 7.0])[X[:, 0].astype(int)])
    assert model.categories_ and model.model_.lift.indicators_ is not None
    return Kind(model, np.vstack([X[:20], [[9, 0.0]]]), single=Precision(0, 2e-4))


def counts(y):
    return np.random.default_rng(0).poisson(np.exp(y / 2))


def three(y):
    return np.array(["no", "yes", "maybe"])[np.digitize(y, (0, 1))]


KINDS = {
    "network": network,
    "network, many columns": lambda: network(50),
    "network, several outputs": lambda: network(of=lambda y: np.c_[y, -(y**2)]),
    **{f"network, classes {one}": lambda one=one: network_of_classes(one) for one in LABELS},
    "network, several labels": lambda: network_of_classes([]),
    "network, log loss": lambda: network_of_classes(["a", "bb", "c"], loss="log_loss", tol=0.2),
    "network, missing": lambda: with_missing(NetworkRegressor, **{**NETWORK, "width": 2048}),
    **{f"limit, parts {one}": lambda one=one: limit(parts=one)
       for one in ("all", "columns", "pairs", MIXED, LAYER)},
    "limit, as chosen": limit,
    "limit, a metric": lambda: limit(feature_learning=2),
    "limit, a metric of the span": lambda: limit(feature_learning=1, columns=90, fitted=40),
    "limit, no bias": lambda: limit(bias=0.0),
    "limit, logarithms, several outputs, wide": lambda: limit(of=lambda y: np.exp(np.c_[y, -y]), columns=90, fitted=40,
                                                              target_transform="log", parts="all"),
    "limit, huber": lambda: limit(loss="huber"),
    "limit, poisson": lambda: limit(of=counts, loss="poisson"),
    "limit, two classes": lambda: limit(ThresherClassifier, lambda y: y > 0),
    "limit, three classes": lambda: limit(ThresherClassifier, three),
    "limit, a rare class": lambda: limit(ThresherClassifier, lambda y: y > 2),
    "limit, squares of classes": lambda: limit(ThresherClassifier, three, loss="squared_error"),
    "limit, several labels": lambda: limit(ThresherClassifier, lambda y: np.c_[y > 0, y > 1].astype(int)),
    "limit, several labels by squares": lambda: limit(ThresherClassifier, lambda y: np.c_[y > 0, y > 1].astype(int),
                                                      loss="squared_error"),
    "limit, classes with weights": lambda: limit(ThresherClassifier, three, class_weight="balanced", parts="all"),
    "limit, missing": lambda: with_missing(ThresherRegressor, **LIMIT),
    "limit, whole numbers": whole_numbers,
    **{f"{way}, {parts}": lambda way=way, parts=parts: many_rows(way, parts)
       for way in ("centres", "exact") for parts in ("all", "columns", MIXED, LAYER)},
}  # fmt: skip


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    return KINDS[request.param]()


def by_arrays(model, rows, dtype):
    """What a model's export says, by name."""
    arrays = model.to_numpy(dtype=dtype)
    told = {"outputs": predict_arrays(arrays, rows.astype(dtype))}
    if "classes" in arrays:
        told["label"], told["probabilities"] = classify_arrays(arrays, rows.astype(dtype))
    return told


def by_torch(model, rows, dtype):
    torch = pytest.importorskip("torch", reason="an extra")
    module, given = model.to_torch(dtype=dtype), torch.from_numpy(rows.astype(dtype))
    told = {"outputs": module(given).numpy()}
    if module.classes is not None:
        told |= {"label": module.labels(given), "probabilities": module.probabilities(given).numpy()}
    return told


def by_onnx(model, rows, dtype):
    session = session_of(model, dtype=dtype)
    told = dict(zip([one.name for one in session.get_outputs()],
                    session.run(None, {"X": rows.astype(dtype)}), strict=True))  # fmt: skip
    return told | ({"outputs": told["scores"]} if "scores" in told else {})


def session_of(model, **options):
    return onnxruntime.InferenceSession(model.to_onnx(**options).SerializeToString())


ways = pytest.mark.parametrize("way", [by_arrays, by_torch, by_onnx])


@ways
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_an_export_says_what_the_model_says(kind, way, dtype):
    model = kind.model
    rows = kind.rows[: kind.inside].astype(np.float32).astype(np.float64) if dtype == "float32" else kind.rows
    expected = model.decision_function(rows) if hasattr(model, "classes_") else model.predict(rows)
    apart = kind.single if dtype == "float32" else kind.double
    told, off = way(model, rows, dtype), apart.absolute * np.ptp(expected)
    assert np.ptp(expected) > 0.1
    assert told["outputs"].dtype == dtype
    np.testing.assert_allclose(told["outputs"], expected.reshape(told["outputs"].shape), rtol=apart.relative, atol=off)
    assert ("label" in told) == hasattr(model, "classes_")
    if "label" in told:
        np.testing.assert_array_equal(told["label"], model.predict(rows))
        np.testing.assert_allclose(told["probabilities"], model.predict_proba(rows), atol=10 * apart.absolute)


def slopes(model, rows):
    """The gradient of outputs, each with a weight of its own, at rows: by torch, and by differences."""
    torch = pytest.importorskip("torch", reason="an extra")
    arrays, d = model.to_numpy(dtype="float64"), rows.shape[1]
    weights = 1.0 + np.arange(len(arrays["mean"]))
    given = torch.tensor(rows, requires_grad=True)
    told = (model.to_torch(dtype="float64")(given) @ torch.from_numpy(weights)).sum()
    steps = [predict_arrays(arrays, rows + one) - predict_arrays(arrays, rows - one) for one in 1e-6 * np.eye(d)]
    return torch.autograd.grad(told, given)[0].numpy(), np.stack(steps, axis=1) @ weights / 2e-6


def test_torch_has_a_gradient(kind):
    found, expected = slopes(kind.model, np.random.default_rng(7).normal(size=(4, kind.rows.shape[1])))
    assert np.abs(expected).max() > 1e-3
    np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())
    assert np.isfinite(slopes(kind.model, kind.rows[:10])[0]).all()


@pytest.mark.parametrize("parts", ["all", MIXED, LAYER])
def test_rounding_is_no_gradient_at_rows_that_were_fitted(parts):
    """Kernels have cusps there, and what rounding leaves of a distance has the slope of one."""
    model = limit(parts=parts).model
    assert np.abs(slopes(model, table()[0])[0]).max() < 1e3 * np.abs(slopes(model, table(seed=1)[0])[0]).max()


def test_torch_saves_what_it_is_given(kind):
    torch = pytest.importorskip("torch", reason="an extra")
    module, given, file = kind.model.to_torch(), torch.from_numpy(kind.rows), io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert torch.equal(loaded(given), module(given))
    assert (loaded.classes is None) == (module.classes is None)
    if module.classes is not None:
        np.testing.assert_array_equal(loaded.labels(given), module.labels(given))


def test_torch_changes_its_precision(kind):
    torch = pytest.importorskip("torch", reason="an extra")
    given = torch.from_numpy(kind.rows)
    expected = kind.model.to_torch(dtype="float64")(given).numpy()
    for found in (kind.model.to_torch().double()(given), kind.model.to_torch(dtype="float64").float()(given)):
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-3 * max(1.0, np.abs(expected).max()))


def test_what_was_to_be_exported_was_there():
    for name in ("limit, a metric", "limit, a metric of the span"):
        lift = KINDS[name]().model.model_.lift
        assert lift.metric is not None and not lift.rest
    wide = KINDS["limit, logarithms, several outputs, wide"]().model
    assert wide.model_.lift.rest and wide.predictive_.floor is not None
    for name in ("limit, two classes", "limit, a rare class", "limit, several labels"):
        model = KINDS[name]().model
        assert model.loss_ == "log_loss" and np.abs(model.offset_).min() > 0.01  # which the scores are added to
        np.testing.assert_array_equal(model.to_numpy(dtype="float64")["mean"], model.offset_)


@ways
@pytest.mark.parametrize("estimator", [ThresherRegressor, NetworkRegressor])
def test_one_row_and_no_change(way, estimator):
    model = estimator(**({"width": 16, "random_state": 0} if estimator is NetworkRegressor else {}))
    model.fit([[1.0, 5.0]], [3.0])
    rows = np.array([[1.0, 5.0], [9.0, -1e6]])
    np.testing.assert_array_equal(way(model, rows, "float64")["outputs"], [[3.0], [3.0]])


@ways
def test_networks_that_never_moved(way):
    X = np.random.default_rng(0).normal(size=(9, 4))
    model = NetworkRegressor(width=512, random_state=0).fit(X, np.full(9, 3.0))
    np.testing.assert_array_equal(way(model, X, "float64")["outputs"], np.full((9, 1), 3.0))


def test_neurons_that_never_moved_are_dropped():
    X, y = load_diabetes(return_X_y=True)
    model = NetworkRegressor(shift=3.0, width=2000, random_state=0, tol=0.9).fit(X[:20], y[:20])
    arrays = model.to_numpy(dtype="float64")
    assert arrays["hidden"].shape[1] < 100
    np.testing.assert_allclose(predict_arrays(arrays, X)[:, 0], model.predict(X), rtol=1e-6)


@ways
def test_blocks_of_rows_say_what_single_rows_say(way, monkeypatch):
    model, X = limit(parts=MIXED).model, table()[0]
    whole = way(model, X, "float64")["outputs"]
    monkeypatch.setattr("thresher.export.arrays._BLOCK", 9 * 4 * len(X))
    np.testing.assert_allclose(way(model, X, "float64")["outputs"], whole, atol=1e-7)
    np.testing.assert_allclose(way(model, X[:1], "float64")["outputs"], whole[:1], atol=1e-7)
    assert way(model, X[:0], "float64")["outputs"].shape == (0, 1)


def test_the_table_of_cubics_is_the_probability():
    t = np.sqrt(np.random.default_rng(0).uniform(size=2000))
    for shift in (0.0, 1e-3, 0.3, 2.0):
        for side, rho in zip(probability_cubics(shift), (1 - t**4, t**4 - 1), strict=True):
            node = (t * len(side)).astype(int)
            u = (t * len(side) - node)[:, None]
            slope = np.sqrt((1 - rho) / np.maximum(1 + rho, 1e-300))
            expected = firing_probability(shift) - 2 * owens_t(shift, slope)
            found = (side[node] * u ** np.arange(4)).sum(axis=1)
            np.testing.assert_allclose(found, expected, atol=2e-8 * firing_probability(shift))


def test_what_is_added_up_is_the_kernel_of_the_definition():
    X, y = table()
    X, rows = X[:, 2:], rows_like(X)[:, 2:]
    model = with_parts(ThresherRegressor(**LIMIT), LAYER).fit(X, y)
    arrays, fitted = model.to_numpy(dtype="float64"), model.model_
    vectors, angles = zip(*map(fitted.kernel.split, (fitted.lift.transform(rows), fitted.inputs)), strict=True)
    cells = [1 / np.tan(one) for one in angles]
    kernel = naive.kernel_of_parts(*vectors, *cells, categories=[False] * 2, shift=0.0, shares=model.parts_)
    expected = kernel @ fitted.alpha * arrays["unit"] + arrays["mean"]
    np.testing.assert_allclose(predict_arrays(arrays, rows), expected, atol=2e-5)


def names_of(graph):
    inner = [one.g for node in graph.node for one in node.attribute if one.HasField("g")]
    return {name for node in graph.node for name in node.input}.union(*map(names_of, inner))


@pytest.mark.parametrize("name", ["network", "limit, no bias", "limit, parts all", "limit, parts columns"])
def test_onnx_models_are_small_and_hold_what_is_used(name, tmp_path):
    model = KINDS[name]().model.to_onnx(tmp_path / "model.onnx")
    assert {one.name for one in model.graph.initializer} <= names_of(model.graph)
    assert (tmp_path / "model.onnx").stat().st_size < 80_000
    assert onnx.load(tmp_path / "model.onnx").graph == model.graph


def test_what_has_no_export_is_refused():
    X, y = table()
    with pytest.raises(InvalidInput, match="one prediction for a row, and no quantiles"):
        ThresherRegressor(**LIMIT, loss="quantile").fit(X, y).to_onnx()
    with pytest.raises(InvalidInput, match="dtype must be 'float32' or 'float64'; got 'float16'"):
        limit().model.to_numpy(dtype="float16")


def test_without_the_extras_one_line_says_what_to_do(monkeypatch):
    model = limit().model
    for name in ("thresher.export.torch_module", "thresher.export.onnx"):
        monkeypatch.delitem(sys.modules, name, raising=False)  # as if nothing had needed them yet
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(NotAvailable, match=r"pip install 'thresher-ml\[torch\]'"):
        model.to_torch()
    with pytest.raises(NotAvailable, match=r"pip install 'thresher-ml\[onnx\]'"):
        model.to_onnx()


def cells(*values):
    return np.array(values, object)


def frame(rows=120, seed=0):
    """Numbers, some missing, categories of few and of many values, times, and numbers that are names."""
    rng = np.random.default_rng(seed)
    times = np.datetime64("2022-11-03") + rng.integers(0, 900 * 86_400, rows) * np.timedelta64(1, "s")
    shops = np.random.default_rng(3).choice(np.arange(10_000, 99_999), 20, replace=False)
    columns = {
        "the area": rng.normal(size=rows).astype(np.float32).astype(float),
        "built": np.where(rng.random(rows) < 0.2, np.nan, rng.integers(1900, 2000, rows)),
        "city": rng.choice(cells("Bern", "Łódź", "", "a b"), rows),
        "sold": rng.choice(cells("True", "False"), rows),
        "code": rng.choice(cells(*(f"c{k}" for k in range(50))), rows),
        "when": np.where(rng.random(rows) < 0.1, np.datetime64("NaT"), times).astype("datetime64[us]"),
        "shop": shops[rng.integers(0, 20, rows)].astype(float),
    }
    target = columns["the area"] + (columns["city"] == "Bern") + 0.01 * (columns["built"] > 1950)
    return Frame([Column(name, values) for name, values in columns.items()]), target


def run(session, table):
    """What a session says of a table: strings, numbers, or days since 1970, as its metadata say."""
    given, truths = {}, {"True": 1.0, "False": 0.0}
    wanted = session.get_modelmeta().custom_metadata_map
    for one in session.get_inputs():
        values = table[one.name].values
        if wanted[one.name].startswith("days since 1970-01-01"):
            assert one.type == "tensor(double)"
            cells = (values.astype("datetime64[us]") - np.datetime64("1970-01-01")) / np.timedelta64(1, "D")
        elif one.type == "tensor(string)":
            cells = values.astype(object)
        else:
            kind = {"tensor(float)": np.float32, "tensor(double)": np.float64}[one.type]
            cells = np.array([truths.get(cell, cell) for cell in values], kind)
        given[one.name] = cells[:, None]
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(None, given), strict=True))


@pytest.mark.parametrize(("dtype", "apart"), [("float64", 1e-7), ("float32", 1e-5)])
@pytest.mark.parametrize("kind", ["limit", "network"])
def test_onnx_takes_a_table_as_it_is(kind, dtype, apart):
    table, target = frame()
    model = ThresherRegressor(**LIMIT) if kind == "limit" else NetworkRegressor(**{**NETWORK, "width": 8192})
    model.fit(table, target)
    assert {kind.kind for kind in model.encoder_.kinds_.values()} >= {"number", "date", "category", "levels"}
    for rows in (table, frame(seed=1)[0]):
        found, expected = run(session_of(model, dtype=dtype), rows)["outputs"][:, 0], model.predict(rows)
        np.testing.assert_allclose(found, expected, atol=apart * np.ptp(expected))


def test_onnx_takes_a_table_of_classes():
    table, target = frame()
    model = ThresherClassifier(**LIMIT).fit(table, np.where(target > 0.5, "dear", "cheap"))
    told = run(session_of(model, dtype="float64"), table)
    np.testing.assert_array_equal(told["label"], model.predict(table))
    np.testing.assert_allclose(told["probabilities"], model.predict_proba(table), atol=1e-6)


def encoded(encoder, table, columns=None):
    """What a graph makes of the columns of a table, by a model whose outputs they are."""
    from thresher.export.graph import Graph
    from thresher.export.table_graph import add_table

    graph = Graph()
    inputs, made = add_table(graph, encoder.to_json())
    graph("Identity", made, name="made")
    helper = onnx.helper
    types = [helper.np_dtype_to_tensor_dtype(np.dtype(one.dtype)) for one in inputs]
    both = [helper.make_tensor_value_info(one.name, kind, [None, 1]) for one, kind in zip(inputs, types, strict=True)]
    made = helper.make_tensor_value_info("made", onnx.TensorProto.DOUBLE, [None, None])
    constants = [onnx.numpy_helper.from_array(value, name) for name, value in graph.constants.items()]
    model = helper.make_model(
        helper.make_graph(graph.nodes, "encoder", both, [made], constants),
        opset_imports=[helper.make_opsetid(*one) for one in graph.domains.items()],
        ir_version=9,
    )
    helper.set_model_props(model, {one.name: one.words for one in inputs})
    return run(onnxruntime.InferenceSession(model.SerializeToString()), table)["made"]


def test_every_column_is_encoded_as_by_the_encoder():
    table, target = frame()
    encoder = TableEncoder().fit(table, target)
    for rows in (table, frame(seed=2)[0]):
        np.testing.assert_allclose(encoded(encoder, rows), encoder.transform(rows), atol=1e-9)


def test_names_in_other_forms_and_names_that_are_new():
    encoder = TableEncoder.from_json([["a", {"kind": "category", "values": ["", "True", "False", "3", "x"]}]])
    values = cells("", "True", "true", "TRUE", "1", "1.0", "false", "0", "3", "3.0", "x", "X", "Oslo")
    rows = Frame([Column("a", values)])
    np.testing.assert_array_equal(encoded(encoder, rows), encoder.transform(rows))


def test_day_numbers_are_the_parts_of_their_days():
    angles = [f"{way} of {share}" for share in ("year", "week", "day") for way in ("sine", "cosine")]
    parts = {"parts": ["day", "year", *angles], "fill": list(np.arange(8.0)), "indicator": True, "order": "ymd"}
    encoder = TableEncoder.from_json([["a", {"kind": "date", **parts, "words": []}]])
    firsts = np.arange("1000", "3000", dtype="datetime64[Y]").astype("datetime64[D]")
    leaps = np.array(
        ["2024-02-29", "1900-02-28", "1900-03-01", "2000-02-29", "1969-12-31", "1970-01-01", "NaT"], "M8[D]"
    )
    days = np.concatenate([firsts, firsts - 1, leaps]).astype("datetime64[us]")
    times = days + np.random.default_rng(0).integers(0, 86_400_000_000, len(days)).astype("m8[us]")
    for some in (days, times):
        rows = Frame([Column("a", some)])
        np.testing.assert_allclose(encoded(encoder, rows), encoder.transform(rows), atol=2e-9, rtol=1e-12)


@pytest.mark.parametrize("shop", ["number", "text"])
def test_days_between_dates_and_numbers_that_are_names(shop):
    rng = np.random.default_rng(0)
    begin = np.datetime64("2020-01-01", "us") + rng.integers(0, 900, 600) * np.timedelta64(1, "D")
    end = begin + rng.integers(1, 400, 600) * np.timedelta64(1, "D")
    shops = rng.choice(np.arange(10_000, 99_999), 40, replace=False)[rng.integers(0, 40, 600)]
    level = {one: rng.normal() for one in np.unique(shops)}
    days = (end - begin) / np.timedelta64(1, "D")
    y = 3 * np.exp(-days / 60) + np.array([level[one] for one in shops]) + 0.1 * rng.normal(size=600)
    names = shops.astype(np.float64) if shop == "number" else shops.astype(str).astype(object)
    begin[:5] = np.datetime64("NaT")
    columns = [Column("begin", begin), Column("end", end), Column("shop", names)]
    table = Frame([*columns, Column("size", rng.normal(size=600))])
    for there in (slice(None), slice(5, None)):  # dates are missing in some rows of the fit, and in none
        some = table.take(np.arange(600)[there])
        model = ThresherRegressor(**LIMIT).fit(some, y[there])
        assert [one.name for one in model.encoder_.made_] == ["end - begin, days", "shop as names"]
        new = Frame([Column("begin", np.array(["NaT", "2020-01-01", "NaT", "2021-02-03"], "datetime64[us]")),
                     Column("end", np.array(["2021-01-01", "NaT", "2020-05-01", "2022-02-03"], "datetime64[us]")),
                     Column("shop", np.array([7.0, shops[0], np.nan, shops[1]])),
                     Column("size", np.zeros(4))])  # fmt: skip
        for rows in (some, new):
            given = [one._replace(values=one.values.astype(float)) if one.name == "shop" else one for one in rows]
            found = run(session_of(model, dtype="float64"), Frame(given))["outputs"][:, 0]
            np.testing.assert_allclose(found, model.predict(rows), atol=1e-6)


def test_inputs_say_what_they_take():
    table, target = frame()
    model = ThresherRegressor(**LIMIT).fit(table, target).to_onnx()
    assert [one.name for one in model.graph.input] == table.columns
    words = {one.name: one.doc_string for one in model.graph.input}
    assert words["built"] == "numbers, NaN where missing"
    assert words["when"] == "days since 1970-01-01, the time of day as their fraction, NaN where missing"
    assert words["city"] == "names as text, '' where missing"
    assert words == {one.key: one.value for one in model.metadata_props}


def test_columns_that_a_graph_cannot_read_are_named_with_what_to_use_instead():
    rng = np.random.default_rng(0)
    words = [" ".join(rng.choice(cells("red", "blue", "fast", "the", "car"), 6)) for _ in range(60)]
    table = Frame([Column("a", rng.normal(size=60)), Column("told", np.array(words, object))])
    model = ThresherRegressor(**LIMIT).fit(table, table["a"].values)
    with pytest.raises(InvalidInput, match=r"take numbers, categories and dates; not 'told'\. Use .*to_numpy\(enc"):
        model.to_onnx()
    with pytest.raises(InvalidInput, match=r"takes numbers, and told of the table are not\. Export with encoded=True"):
        model.to_numpy()
    rows = model.encoder_.transform(table)
    for way in (by_arrays, by_onnx, by_torch):

        class Encoded:
            to_numpy, to_torch, to_onnx = (
                lambda self, to=to, **options: to(encoded=True, **options)
                for to in (model.to_numpy, model.to_torch, model.to_onnx)
            )

        np.testing.assert_allclose(way(Encoded(), rows, "float64")["outputs"][:, 0], model.predict(table), atol=1e-7)


def test_columns_made_of_others_that_a_graph_cannot_make_are_named():
    amount, names = {"kind": "number"}, {"kind": "category", "values": ["01", "1"]}
    made = [["words", ["a"], amount], ["difference", ["a", "b"], amount], ["names", ["b"], names]]
    about = [("a", amount), ("b", amount), *made, ("", amount)]
    told = (
        r"not 'a, of which another column is made', 'a and b, of .*, 'b, of which .*, 'a column without a name'\. Use"
    )
    with pytest.raises(InvalidInput, match=told):
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
