"""The command line and the README, as a newcomer uses them."""

import importlib
import os
import re
import signal
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import thresher
from thresher.cli import main

README = Path(__file__).parent.parent.parent / "README.md"


def run(capsys, *arguments):
    try:
        main(list(arguments))
        code = 0
    except SystemExit as end:
        code = end.code
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_demo_tells_each_iteration_and_ends_with_a_test(capsys):
    code, out, _ = run(capsys, "demo", "--width", "2^12", "--rows", "100")
    assert code == 0
    assert "Training 4,096 neurons on 100 handwritten digits" in out
    assert re.search(r"iteration +loss +fell to +looks +of dense +flips +seconds\n +start .*\n +1 +[\d.e-]+ ", out)
    assert "Converged" in out
    right, seen = map(int, re.search(r"Test: (\d+) of (\d+) unseen digits right", out).groups())
    assert seen == 1797 - 100
    assert right > 0.75 * seen


def test_demo_of_a_billion_neurons(capsys, monkeypatch):
    monkeypatch.setattr(import_module("thresher.cli.demo"), "BILLION", 10**6)
    code, out, _ = run(capsys, "demo", "--billion")
    assert code == 0
    assert "Training 1,000,000 neurons on 16 random inputs" in out
    assert re.search(r"Converged: .*\n\d\d,\d{3} neurons were drawn, one in 1\d;", out)


@pytest.mark.parametrize("other", [["--width", "100"], ["--rows", "5"], ["--paper"]])
def test_demo_of_a_billion_neurons_takes_no_other_size(other, capsys):
    code, _, err = run(capsys, "demo", "--billion", *other)
    assert code != 0 and other[0] in err


def test_demo_by_the_paper(capsys):
    code, out, _ = run(capsys, "demo", "--width", "1e4", "--rows", "20", "--paper")
    assert code == 0
    assert "Converged" in out


def test_audit_says_how_much_it_compared(capsys):
    code, out, _ = run(capsys, "audit", "--inputs", "30", "--width", "5000", "--twins")
    assert code == 0
    audited = int(re.search(r"Audited ([\d,]+) pairs", out).group(1).replace(",", ""))
    assert audited >= 3 * 30 * 5000
    assert audited % (30 * 5000) == 0


def test_an_interrupt_while_importing_is_quiet(tmp_path):
    (tmp_path / "numba.py").write_text("import time; print('importing', flush=True); time.sleep(60)")
    paths = os.pathsep.join([str(tmp_path), str(Path(thresher.__file__).parent.parent)])
    command = [sys.executable, "-c", "import thresher_command; thresher_command.main()", "demo"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths}, **pipes) as started:
        assert started.stdout.readline() == "importing\n"
        started.send_signal(signal.SIGINT)
        out, err = started.communicate(timeout=30)
    assert (started.returncode, out, err) == (130, "", "Interrupted.\n")


def test_the_entry_point_runs_the_command_line(capsys, monkeypatch):
    entry = tomllib.loads((README.parent / "pyproject.toml").read_text())["project"]["scripts"]["thresher"]
    module, _, name = entry.partition(":")
    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(sys, "argv", ["thresher", "--version"])
    try:
        getattr(importlib.import_module(module), name)()
    finally:
        signal.signal(signal.SIGINT, before)
    assert thresher.__version__ in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["demo", "--width", "many"], r"expected a whole number such as 1048576, 1e6 or 2\^20; got 'many'"),
        (["demo", "--width", "1.5"], r"expected a whole number"),
        (["demo", "--width", "0"], r"width must be at least 1; got 0"),
        (["demo", "--width", "2^60"], r"needs about .* TiB, but .* may be taken\. Use a larger shift"),
        (["demo", "--rows", "1"], r"--rows must be at least 2, .* got 1"),
        (["demo", "--rows", "0"], r"rows must be at least 1; got 0"),
        (["demo", "--rows", "1797"], r"rows must be at most 1796; got 1797"),
        (["demo", "--colour", "red"], r"No such option.*--colour"),
        (["audit", "--inputs", "-3"], r"inputs must be at least 1; got -3"),
        (["audit", "--twins", "--width", "3"], r"width must be even; got 3"),
        (["thresh"], r"No such command 'thresh'"),
    ],
)
def test_bad_use_ends_with_one_line_and_code_2(capsys, arguments, message):
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert re.search(message, err)
    assert "Traceback" not in err


def test_the_examples_of_the_readme_run():
    text = README.read_text()
    assert "```" in text.splitlines()[:20]
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert "converged" in {line.split(" ")[0] for line in done.stdout.splitlines()}
    shares = re.findall(r"([\d.]+)% of (?:143 new rows|unseen digits) right", done.stdout)
    assert len(shares) == 2 and min(map(float, shares)) > 95


def test_pages_that_the_readme_names_exist():
    for page in re.findall(r"\]\(([\w/.]+\.md)\)", README.read_text()):
        assert (README.parent / page).is_file(), page


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_under_what_is_printed_is_said_in_a_line():
    code = "import thresher_command; thresher_command.main()"
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-c", code, "--help"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr == "Error: cannot write: No space left on device. Make room, or choose another place.\n"


def test_a_demo_that_does_not_converge_ends_with_1(capsys):
    assert run(capsys, "demo", "--rows", "30", "--width", "2")[0] == 1
