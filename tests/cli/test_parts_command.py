"""What `train` says of parts and categories, and how it is overruled."""

import numpy as np
import pandas as pd
import pytest
from test_cli import run

from thresher.cli.options import LOSSES, PARTS, in_options
from thresher.estimators.classifier import LOSSES as OF_CLASSES
from thresher.estimators.regressor import LOSSES as OF_NUMBERS
from thresher.estimators.settings import PARTS as NAMED
from thresher.report import read_run

NAMES = np.random.default_rng(7).normal(size=15)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Whole numbers that are names, and steps of single columns."""
    rng, path = np.random.default_rng(0), tmp_path_factory.mktemp("tables") / "names.csv"
    code, other = rng.integers(0, 15, size=(2, 200))
    x, z = rng.normal(size=(2, 200))
    y = 2 * NAMES[code] + 2 * NAMES[other] + np.sign(x) + 0.2 * rng.normal(size=200)
    pd.DataFrame({"code": code, "other": other, "x": x, "z": z, "y": y}).to_csv(path, index=False)
    return path


def test_options_have_the_names_of_the_library():
    assert ("auto", *NAMED) == PARTS
    assert {"regression": OF_NUMBERS, "classification": OF_CLASSES} == LOSSES
    assert in_options("Use parts='all', or loss='huber'.") == "Use --parts all, or --loss huber."


def test_what_was_chosen_is_said_once(capsys, table, tmp_path):
    code, out, _ = run(capsys, "train", str(table), "--target", "y", "--save", str(tmp_path / "run"))
    assert code == 0
    assert out.count("--categorical NAME says which are names instead.") == 1 and "in code, other." in out
    lines = out.splitlines()
    told = lines.index("Chosen by rows left out, of which the errors are:")
    assert lines.count(lines[told]) == 1
    made = read_run(tmp_path / "run")
    names = [one.name for one in made.choices]
    assert [line[2:].startswith(name) for line, name in zip(lines[told + 1 :], names, strict=False)] == [True] * len(
        names
    )
    assert {"bias", "ridge", "rounds of the metric", "share of single columns"} < set(names)
    assert made.network["whole numbers taken as categories"].startswith("code: ")
    code, out, _ = run(capsys, "inspect", str(tmp_path / "run"))
    assert code == 0 and "what the kernel sees" in out and "share of single columns" in out


def test_it_is_overruled(capsys, table, tmp_path):
    told = ["train", str(table), "--target", "y", "--save", str(tmp_path / "run")]
    code, out, _ = run(capsys, *told, "--parts", "columns", "--categorical", "code")
    assert code == 0 and "share of single columns" not in out and "Whole numbers are taken as" not in out
    chosen = read_run(tmp_path / "run").network
    assert chosen["what the kernel sees"] == "single columns alone"
    assert chosen["whole numbers taken as categories"] == "none"


def test_what_does_not_go_together(capsys, table):
    code, _, err = run(capsys, "train", str(table), "--target", "y", "--parts", "each")
    assert code == 2 and "'each' is not one of 'auto', 'all'" in err
