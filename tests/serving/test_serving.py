"""A server answers what the model says, refuses all else with its row and column, and never with a traceback."""

import http.client
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import thresher
from thresher import InvalidInput, ThresherClassifier, ThresherRegressor
from thresher.runs.saved import SavedModel
from thresher.serving import Limits, server_of
from thresher.serving.answers import Answerer
from thresher.serving.rows import read_body
from thresher.tables import Column, Frame

LIMIT = {"width": float("inf"), "shift": 0.4, "bias": 1.0, "ridge": 0.01, "feature_learning": 0}
ROW = {"area": 1.5, "city": "Bern", "sold": "2024-03-04", "built": None}
QUICK = Limits(body=20_000, rows=50, seconds=0.4, head=2_000, connections=20, waiting=100)


def table(rows=60, seed=0):
    rng = np.random.default_rng(seed)
    days = (np.datetime64("2024-01-01") + rng.integers(0, 300, rows)).astype(str).astype(object)
    columns = {
        "area": rng.normal(size=rows),
        "city": rng.choice(np.array(["Bern", "Lyon", "True"], object), rows),
        "sold": days,
        "built": np.where(rng.random(rows) < 0.3, np.nan, rng.normal(size=rows)),
    }
    return Frame([Column(*one) for one in columns.items()]), columns["area"] + (columns["city"] == "Bern")


@pytest.fixture(scope="module")
def model():
    return ThresherRegressor(**LIMIT).fit(*table())


@pytest.fixture(scope="module")
def lines():
    return []


@pytest.fixture(scope="module")
def server(model, lines):
    with server_of(model, limits=QUICK, say=lines.append) as made:
        yield made


@pytest.fixture
def ask(server):
    """Send something, and return the status and the JSON that comes back."""
    return lambda *given, **more: asked(server, *given, **more)


def asked(server, body=None, *, method="POST", path="/predict"):
    line = http.client.HTTPConnection(server.host, server.port, timeout=20)
    sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    line.request(method, path, sent)
    told = line.getresponse()
    found = told.read()
    line.close()
    assert told.headers["Content-Type"] == "application/json"
    return told.status, json.loads(found) if found else None


def raw(server, data, *, wait=5.0):
    """Send bytes, and return all that comes until the server closes the connection, or nothing comes any more."""
    with socket.create_connection((server.host, server.port), timeout=wait) as line:
        line.sendall(data)
        found = b""
        try:
            while more := line.recv(1 << 16):
                found += more
        except (TimeoutError, ConnectionResetError):
            pass
    return found


def frame_of(*rows):
    columns = {name: [row[name] for row in rows] for name in ROW}
    numbers = ("area", "built")
    return Frame(
        [
            Column(
                name, np.array([np.nan if one is None else one for one in cells], float if name in numbers else object)
            )
            for name, cells in columns.items()
        ]
    )


def test_predictions_with_intervals(model, ask):
    rows = [ROW, ROW | {"area": -1, "built": 2.5}]
    status, told = ask({"rows": rows})
    assert status == 200
    assert told["coverage"] == 0.9
    lower, upper = model.predict_interval(frame_of(*rows))
    for place, one in enumerate(told["predictions"]):
        assert one == {
            "prediction": pytest.approx(model.predict(frame_of(*rows))[place]),
            "lower": pytest.approx(lower[place]),
            "upper": pytest.approx(upper[place]),
        }
    assert ask(rows)[1] == told
    assert ask([list(row.values()) for row in rows])[1] == told


def test_the_coverage_is_that_of_the_request(model, ask):
    told = ask({"rows": [ROW], "coverage": 0.5})[1]
    assert told["predictions"][0]["upper"] == pytest.approx(model.predict_interval(frame_of(ROW), 0.5)[1][0])
    assert ask({"rows": [ROW], "coverage": None})[1] == {
        "predictions": [{"prediction": pytest.approx(model.predict(frame_of(ROW))[0])}]
    }


def test_what_no_training_row_has_is_said(ask):
    assert "unseen" not in ask([ROW])[1]["predictions"][0]
    told = ask([ROW | {"city": "Oslo"}, ROW, ROW | {"area": None}])[1]["predictions"]
    assert [one.get("unseen") for one in told] == [["city"], None, ["area"]]


def test_the_schema(server, ask):
    status, told = ask(method="GET", path="/?page=1")
    assert status == 200
    assert told["model"]["task"] == "regression"
    assert [(one["name"], one["kind"]) for one in told["columns"]] == [
        ("area", "number"), ("city", "category"), ("sold", "date"), ("built", "number")
    ]  # fmt: skip
    assert told["columns"][1]["values"] == ["Bern", "Lyon", "True"]
    assert told["limits"]["rows of a request"] == QUICK.rows
    example = told["predict"]
    assert ask(example["body"], method=example["method"], path=example["path"])[0] == 200
    assert ask(method="HEAD", path="/") == (200, None)
    assert ask(method="GET", path="/health") == (200, {"status": "ok"})


def test_the_example_of_columns_with_units_is_one_that_is_answered():
    rng = np.random.default_rng(0)
    columns = {
        "clock": [f"{one}:{two:02d}" for one, two in rng.integers(0, 24, (40, 2))],
        "warm": [f"{one:.1f} °C".replace(".", ",") for one in rng.normal(20, 3, 40)],
        "share": [f"{one}%" for one in rng.integers(1, 99, 40)],
    }
    frame = Frame([Column(name, np.array(cells, object)) for name, cells in columns.items()])
    made = ThresherRegressor(**LIMIT).fit(frame, rng.normal(size=40))
    with server_of(made) as one:
        told = asked(one, method="GET", path="/")[1]["predict"]["body"]
        assert asked(one, told)[0] == 200


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b'{"\\ud800": 1}', 400, "the body has \ud800; expected 'rows', and 'coverage' if you like."),
        ([ROW | {"area": "big"}], 422, "row 1, column 'area': 'big' is no number that can be read."),
        ([ROW, ROW | {"sold": "soon"}], 422, "row 2, column 'sold': 'soon' is no date that can be read."),
        ([ROW, ROW | {"sold": 3}], 422, "column 'sold'"),
        ([ROW | {"area": [1]}], 422, "row 1, column 'area': expected a number, text, true, false or null; got a list."),
        ([ROW | {"area": {}}], 422, "got an object"),
        ([ROW | {"area": 10**400}], 422, "row 1, column 'area': the number is too large."),
        ([ROW | {"aera": 1}], 422, "row 1 has column 'aera', which the model does not know. Did you mean area?"),
        ([ROW, {"area": 1, "city": "Bern"}], 422, "row 2 lacks sold, built. Send null for a cell that is missing."),
        ([ROW, 3], 422, "row 2 must be an object with the columns area, city, sold, built."),
        ([[1, 2]], 422, "row 1 has 2 cells; expected 4"),
        ([], 422, "there are no rows"),
        ({"rows": [ROW], "coverage": 2}, 422, "coverage must lie between 0 and 1"),
        ({"rows": [ROW], "coverage": True}, 422, "coverage must lie between 0 and 1"),
        ({"rows": 3}, 400, "the body must be like"),
        ({}, 400, "the body must be like"),
        ({"rows": [ROW], "row": 1}, 400, "the body has row"),
        ("rows", 400, "the body must be like"),
        (b"", 400, "the body is no JSON"),
        (b"{", 400, "the body is no JSON"),
        (b"\xff\xfe", 400, "the body is no JSON"),
        (b"[" * 19_000, 400, "the body is no JSON"),
        (b'[{"area": NaN}]', 400, "NaN is none of its numbers. Send null for what is missing"),
        (b"[" + b"1" * 5000 + b"]", 400, "the body is no JSON"),
        ([ROW] * 51, 413, "a request may have 50 rows; got 51. Send fewer at a time."),
        (b" " * 20_001, 413, "a request may have 20,000 bytes; got 20,001."),
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_predicted_is_refused_with_its_row_and_column(ask, lines, body, status, message):
    found, told = ask(body)
    assert (found, list(told)) == (status, ["error"])
    assert message in told["error"]
    assert lines[-1].startswith(str(status))
    assert ask([ROW])[0] == 200


def test_paths_and_methods(ask):
    assert ask(method="GET", path="/predict") == (405, {"error": "/predict takes POST; got GET."})
    assert ask([ROW], path="/")[0] == 405
    assert ask(method="GET", path="/etc/passwd")[0] == 404
    assert ask(method="DELETE", path="/health")[0] == 405


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 3000 + b"\r\n\r\n", 431),
        (b"A" * 3000, 431),
        (b"hello\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\n\r\n", 505),
        (b"GET http://x/ HTTP/1.1\r\n\r\n", 400),
        (b"G\x00T / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n folded: 1\r\n\r\n", 400),
        (b"POST /predict HTTP/1.1\r\n\r\n", 411),
        (b"POST /predict HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
        (b"POST /predict HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST /predict HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"POST /predict HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", 400),
        (b"POST /predict HTTP/1.1\r\nContent-Length: 30000\r\n\r\n", 413),
    ],
    ids=str,
)
def test_what_is_no_request_is_refused_and_the_connection_closed(server, data, status):
    found = raw(server, data)
    assert found.startswith(f"HTTP/1.1 {status} ".encode())
    assert b"Connection: close" in found
    assert b"Traceback" not in found


def test_slow_clients_are_given_up(server, ask):
    assert raw(server, b"POST /predict HTTP/1.1\r\nContent-").startswith(b"HTTP/1.1 408")
    assert raw(server, b"POST /predict HTTP/1.1\r\nContent-Length: 50\r\n\r\n[").startswith(b"HTTP/1.1 408")
    assert raw(server, b"") == b""
    assert ask([ROW])[0] == 200


def test_requests_one_after_the_other_on_a_connection(server):
    body = json.dumps([ROW]).encode()
    one = b"POST /predict HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    last = one.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1)
    found = raw(server, one * 3 + b"GET /health HTTP/1.1\r\n\r\n" + last)
    assert found.count(b"HTTP/1.1 200 OK") == 5
    assert found.index(b'{"status"') > found.index(b'"predictions"')
    assert raw(server, one.replace(b"HTTP/1.1", b"HTTP/1.0")).count(b"200 OK") == 1


def test_a_client_that_says_it_has_sent_all(server):
    body = json.dumps([ROW]).encode()
    with socket.create_connection((server.host, server.port), timeout=5) as line:
        line.sendall((b"POST /predict HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)) * 2)
        line.shutdown(socket.SHUT_WR)
        found = b""
        while more := line.recv(1 << 16):
            found += more
    assert found.count(b"200 OK") == 2
    assert found.count(b"Connection: close") == 1


def test_a_client_that_waits_to_be_told_to_go_on(server):
    body = json.dumps([ROW]).encode()
    head = b"POST /predict HTTP/1.1\r\nExpect: 100-continue\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(
        body
    )
    with socket.create_connection((server.host, server.port), timeout=5) as line:
        line.sendall(head)
        assert line.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        line.sendall(body)
        assert line.recv(1000).startswith(b"HTTP/1.1 200 OK")


def test_many_at_once_get_their_own_answers(model, server):
    rows = [ROW | {"area": float(place) / 10} for place in range(200)]
    expected = model.predict(frame_of(*rows))
    wrong = [ROW | {"area": "big"}, ROW | {"city": 7}]

    def one(place):
        return asked(server, [wrong[0]] if place % 7 == 3 else [rows[place]])

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(one, range(200)))
    for place, (status, told) in enumerate(found):
        assert status == (422 if place % 7 == 3 else 200)
        if status == 200:
            assert told["predictions"][0]["prediction"] == pytest.approx(expected[place])


def test_requests_that_wait_are_predicted_together_and_spoil_no_others(model):
    answerer = Answerer(SavedModel.of(model), coverage=0.9, rows=10)
    bodies = [[ROW], [ROW | {"area": "1.5"}], [ROW | {"area": "big"}], [ROW, ROW], {"rows": [ROW], "coverage": 0.5}]
    asked = [answerer.read(json.dumps(one).encode()) for one in bodies]
    together = answerer.answer(asked)
    alone = [answerer.answer([one])[0] for one in asked]
    assert str(together[2]) == str(alone[2]) == "row 1, column 'area': 'big' is no number that can be read."
    for place in (0, 1, 3, 4):
        one, other = (json.loads(given[place]) for given in (together, alone))
        assert one["coverage"] == other["coverage"]
        for row, same in zip(one["predictions"], other["predictions"], strict=True):
            assert row == pytest.approx(same)
    calls = []
    model_predict = model.predict
    answerer.saved.model.predict = lambda X, **more: calls.append(len(X)) or model_predict(X, **more)
    try:
        answerer.answer(asked[:1] * 5)
    finally:
        del answerer.saved.model.predict
    assert calls == [5]


def test_too_many_connections(model):
    with server_of(model, limits=QUICK._replace(connections=2, seconds=5.0)) as server:
        lines = [socket.create_connection((server.host, server.port)) for _ in range(2)]
        time.sleep(0.05)
        assert raw(server, b"GET / HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 503")
        for line in lines:
            line.close()


def test_a_fault_of_ours_is_one_line(model, monkeypatch):
    lines = []
    with server_of(model, say=lines.append) as server:
        monkeypatch.setattr(server._answerer, "answer", lambda asked: 1 / 0)
        assert asked(server, [ROW]) == (500, {"error": "the server failed to answer; its log says why."})
        assert lines == ["500 POST /predict: ZeroDivisionError: division by zero"]
        monkeypatch.undo()
        assert asked(server, [ROW])[0] == 200


def test_requests_under_way_end_when_the_server_does(model, monkeypatch):
    with server_of(model) as server:
        answer, began = server._answerer.answer, threading.Event()

        def slow(given):
            began.set()
            time.sleep(0.2)
            return answer(given)

        monkeypatch.setattr(server._answerer, "answer", slow)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(asked, server, [ROW])
            began.wait(5)
            server.__exit__()
            assert waiting.result()[0] == 200
    with pytest.raises(OSError):
        socket.create_connection((server.host, server.port), timeout=1)


def test_classes_and_several_labels():
    X, y = table()
    classes = ThresherClassifier(**LIMIT).fit(X, np.where(y > 0.5, "dear", "cheap"))
    with server_of(classes) as server:
        (told,) = asked(server, [ROW])[1]["predictions"]
        assert told["prediction"] == classes.predict(frame_of(ROW))[0]
        assert list(told["probabilities"].values()) == pytest.approx(classes.predict_proba(frame_of(ROW))[0])
        assert asked(server, {"rows": [ROW], "coverage": 0.9})[0] == 422
        assert asked(server, method="GET", path="/")[1]["model"]["classes"] == ["cheap", "dear"]
    several = ThresherClassifier(**LIMIT).fit(X, np.column_stack([y > 0, y > 1]).astype(int))
    with server_of(several) as server:
        (told,) = asked(server, [ROW])[1]["predictions"]
        assert told["prediction"] == several.predict(frame_of(ROW))[0].tolist()
        assert len(told["probabilities"]) == 2


def test_plain_numbers_and_several_targets():
    X = np.random.default_rng(0).normal(size=(40, 2))
    model = ThresherRegressor(**LIMIT).fit(X, X)
    with server_of(model) as server:
        status, told = asked(server, {"rows": [[0.5, 1]]})
        assert status == 200
        np.testing.assert_allclose(told["predictions"][0]["prediction"], model.predict([[0.5, 1.0]])[0])
        assert len(told["predictions"][0]["lower"]) == 2
        assert "row 1, column 'column 2': expected a number" in asked(server, [[0.5, None]])[1]["error"]
        assert "expected a number; got 'x'" in asked(server, [[0.5, "x"]])[1]["error"]
        assert asked(server, [{"column 1": 0.5, "column 2": 1}])[1] == told


def test_models_without_error_bars():
    X = np.random.default_rng(0).normal(size=(12, 2))
    model = ThresherRegressor(ridge=0, width=4096, random_state=0).fit(X, X[:, 0])
    with server_of(model) as server:
        assert list(asked(server, [[0.5, 1]])[1]["predictions"][0]) == ["prediction"]
        assert "numbers without error bars" in asked(server, {"rows": [[0.5, 1]], "coverage": 0.9})[1]["error"]


def test_intervals_are_those_of_the_loss():
    X, y = table()
    for loss, target in (("poisson", np.random.default_rng(0).poisson(np.exp(y / 2))), ("quantile", y)):
        model = ThresherRegressor(**LIMIT, loss=loss).fit(X, target)
        with server_of(model) as server:
            (told,) = asked(server, [ROW])[1]["predictions"]
            assert told["prediction"] == pytest.approx(model.predict(frame_of(ROW))[0])
            lower, upper = model.predict_interval(frame_of(ROW))
            assert (told["lower"], told["upper"]) == (pytest.approx(lower[0]), pytest.approx(upper[0]))
    with server_of(model) as server:
        status, told = asked(server, {"rows": [ROW], "coverage": 0.99})
        assert status == 422
        assert "has learnt quantiles from 0.05 to 0.95" in told["error"]
    with pytest.raises(InvalidInput, match="has learnt quantiles"):
        server_of(model, coverage=0.99)


def test_it_reads_model_files_alone(model, tmp_path):
    model.save(tmp_path / "houses.thresher")
    with server_of(tmp_path / "houses.thresher") as server:
        assert asked(server, [ROW])[1]["predictions"][0]["prediction"] == pytest.approx(model.predict(frame_of(ROW))[0])
    (tmp_path / "evil.pkl").write_bytes(b"\x80\x04\x95cos\nsystem\n")
    with pytest.raises(InvalidInput):
        server_of(tmp_path / "evil.pkl")


def test_arguments(model):
    with pytest.raises(InvalidInput, match="port must be at most 65535"):
        thresher.serve(model, port=70_000)
    with pytest.raises(InvalidInput, match="coverage must lie between 0 and 1"):
        thresher.serve(model, coverage=1.5)
    with pytest.raises(InvalidInput, match="rows must be"):
        thresher.serve(model, rows=0)
    with server_of(model) as server, pytest.raises(InvalidInput, match=r"cannot listen on 127\.0\.0\.1, port"):
        server_of(model, port=server.port).__enter__()


def test_error_bars_are_factored_once(model, monkeypatch):
    calls = []
    made = ThresherRegressor._make_variance
    monkeypatch.setattr(
        ThresherRegressor, "_make_variance", lambda self, backend: calls.append(1) or made(self, backend)
    )
    fitted = ThresherRegressor(**LIMIT).fit(*table())
    for _ in range(3):
        fitted.predict_interval(frame_of(ROW))
    assert len(calls) == 1
    first = fitted.predict_interval(frame_of(ROW))[0]
    fitted.set_params(ridge=1.0).fit(*table(seed=3))
    assert fitted.predict_interval(frame_of(ROW))[0] != first
    assert len(calls) == 2


def test_reading_bodies_never_fails_otherwise():
    rng = np.random.default_rng(0)
    whole = json.dumps({"rows": [ROW], "coverage": 0.9}).encode()
    for _ in range(500):
        cut = bytearray(whole)
        for place in rng.integers(len(cut), size=rng.integers(1, 4)):
            cut[place] = rng.integers(256)
        try:
            read_body(bytes(cut), list(ROW), most=5, coverage=0.9)
        except Exception as error:
            assert type(error).__name__ == "Refused"
