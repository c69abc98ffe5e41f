"""Runs that tests of several files read: made once."""

import pytest
from learnable import SMALL, write_csv

from thresher.cli import commands


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A network trained to zero loss, for all that only read it."""
    place = tmp_path_factory.mktemp("exact")
    write_csv(place / "table.csv", text=True, classes=True)
    arguments = [
        "train", str(place / "table.csv"), "--width", "2^12", "--save", str(place / "run"),
        "--report", str(place / "page.html"), "--quiet",
    ]  # fmt: skip
    commands.main(arguments, standalone_mode=False, obj=arguments)
    return place


@pytest.fixture(scope="session")
def places(tmp_path_factory):
    """A regression and a classification with their runs, for all that only read them."""
    place = tmp_path_factory.mktemp("runs")
    for name, classes in (("numbers", False), ("classes", True)):
        table = write_csv(place / f"{name}.csv", classes=classes)
        given = ["train", str(table), *SMALL, "--save", str(place / name), "--seed", "7", "--quiet"]
        commands.main(given, standalone_mode=False, obj=given)
    return place
