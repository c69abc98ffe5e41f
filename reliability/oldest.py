"""Print the oldest versions that pyproject.toml allows, as constraints for pip; record how the tests went with them.

python -m reliability.oldest > oldest.txt && pip install -c oldest.txt '.[test]'
pytest --junitxml=oldest.xml; python -m reliability.oldest --record oldest.xml    # in that environment
"""

from __future__ import annotations

import argparse
import re
import tomllib
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

# What these want is newer than they are: the oldest matplotlib calls what pyparsing has come to warn of since.
OF_THEIR_TIME = ("pyparsing<3.2",)


def oldest(project: Path = Path("pyproject.toml")) -> list[str]:
    """Return ``name==version.*`` for each lower bound of the package and of what its tests use."""
    table = tomllib.loads(project.read_text())["project"]
    extras = [one for name, extra in table["optional-dependencies"].items() if name != "torch" for one in extra]
    wanted = table["dependencies"] + extras  # torch is not among what tests need
    bounds = [re.fullmatch(r"([\w-]+)>=([\d.]+)", one) for one in wanted]
    return [*(f"{bound[1]}=={bound[2]}.*" for bound in bounds if bound), *OF_THEIR_TIME]


def record(report: Path) -> None:
    """Keep the counts of a report of pytest (JUnit's XML), and the versions that are installed here."""
    from reliability.record import keep

    suites = list(ElementTree.parse(report).getroot().iter("testsuite"))
    counts = {name: sum(int(one.attrib[name]) for one in suites) for name in ("tests", "failures", "errors", "skipped")}
    names = [one.partition("==")[0] for one in oldest() if "==" in one]
    keep("oldest", {**counts, "versions": {name: version(name) for name in names}})


def main() -> None:
    parser = argparse.ArgumentParser(description="The oldest versions, and how the tests went with them.")
    parser.add_argument("--record", type=Path, metavar="XML")
    arguments = parser.parse_args()
    if arguments.record is None:
        print("\n".join(oldest()))
    else:
        record(arguments.record)


if __name__ == "__main__":
    main()
