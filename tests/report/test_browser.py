"""Pages in a real browser: nothing on the console, nothing from the network, light and dark, and on paper."""

import shutil
import subprocess

import numpy as np
import pytest

from thresher import NetworkRegressor, evaluate

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = [pytest.mark.thorough, pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine")]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = NetworkRegressor(width=2000, random_state=0).fit(X[:40], X[:40, 0])
    found = evaluate(model, X[40:], X[40:, 0], target="A <test>")
    return found.report(tmp_path_factory.mktemp("page") / "report.html")


def browse(page, profile, *arguments):
    command = [
        BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}",
        "--enable-logging=stderr", "--host-resolver-rules=MAP * ~NOTFOUND", *arguments, page.as_uri(),
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


@pytest.mark.parametrize("scheme", [0, 1], ids=["dark", "light"])
def test_no_errors_on_the_console(page, tmp_path, scheme):
    shot = tmp_path / "page.png"
    done = browse(page, tmp_path / "profile", f"--blink-settings=preferredColorScheme={scheme}", f"--screenshot={shot}")
    assert "CONSOLE" not in done.stderr
    assert shot.stat().st_size > 10_000


def test_it_is_what_was_written(page, tmp_path):
    done = browse(page, tmp_path / "profile", "--dump-dom")
    assert "<h1>Predicting A &lt;test&gt; from 3 columns</h1>" in done.stdout
    assert done.stdout.count("<figure") == 4


def test_it_prints(page, tmp_path):
    paper = tmp_path / "page.pdf"
    browse(page, tmp_path / "profile", "--no-pdf-header-footer", f"--print-to-pdf={paper}")
    assert paper.read_bytes().startswith(b"%PDF")
