"""``thresher serve``: it listens, answers, refuses wrong use in a line, and ends quietly; and the page with curl."""

import json
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from contextlib import contextmanager

import numpy as np
import pytest
from reader import DOCS, PART, code_of, run_command, same

from thresher import ThresherRegressor


@contextmanager
def serving(*given):
    """Run the command with a free port; give its process and the address it tells."""
    code = "from thresher.cli import main; main()"
    command = [sys.executable, "-c", code, "serve", *map(str, given), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            line = process.stderr.readline()
            address = re.fullmatch(r"Listening on (http://127\.0\.0\.1:\d+), for this machine alone; .*\n", line)
            assert address, line + process.stderr.read()
            yield process, address[1]
        finally:
            if process.poll() is None:
                process.kill()


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    X = np.random.default_rng(0).normal(size=(40, 2))
    path = tmp_path_factory.mktemp("served") / "model.thresher"
    fixed = {"width": float("inf"), "shift": 0.4, "bias": 1.0, "ridge": 0.01, "feature_learning": 0}
    ThresherRegressor(**fixed).fit(X, X[:, 0]).save(path)
    return path


def test_it_answers_until_it_is_interrupted(file):
    with serving(file, "--interval", "0") as (process, address):
        body = json.dumps([[0.5, 1.0]]).encode()
        told = json.loads(urllib.request.urlopen(f"{address}/predict", body, timeout=20).read())
        assert list(told["predictions"][0]) == ["prediction"]
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{address}/nothing", timeout=20)
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait(20) == 0
    assert rest.splitlines() == ["404 GET /nothing: there is no '/nothing'; there are /, /health, /predict.", "Ended."]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--interval", "2"], r"--interval must lie between 0 and 1, such as 0\.9; got 2\."),
        (["--port", "70000"], "70000 is not in the range"),
        (["--rows", "0"], "rows must be"),
        (["--seconds", "-1"], "seconds must be"),
        (["--host", "no.such.host.invalid"], r"cannot listen on no\.such\.host\.invalid"),
    ],
)
def test_wrong_use_is_refused_in_a_line(capsys, file, given, message):
    from thresher.cli import main

    with pytest.raises(SystemExit) as ended:
        main(["serve", str(file), *given])
    assert ended.value.code == 2
    assert re.search(message, capsys.readouterr().err)


@pytest.mark.thorough
def test_the_commands_of_the_page_answer_what_it_shows(tmp_path, monkeypatch):
    if shutil.which("curl") is None:
        pytest.skip("needs curl")
    monkeypatch.chdir(tmp_path)
    exec(code_of("tutorial_table")[0], {})
    run_command(["thresher", "train", "houses.csv", "--target", "price", "--save", "runs/houses", "--quiet"])
    text, told, compared = (DOCS / "serving.md").read_text(encoding="utf-8"), "", 0
    with serving("runs/houses") as (_, address):
        for kind, inside in (found.groups() for found in PART.finditer(text)):
            if kind == "text":
                assert same(told, inside), (told, inside)
                compared += 1
            elif inside.startswith("curl"):
                command = inside.replace("http://127.0.0.1:8000", address)
                told = subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout
    assert compared >= 3
