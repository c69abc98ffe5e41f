"""Count the lines of the package that the default tests run: those of ``make test``.

    python -m reliability.covered [ARGUMENTS OF PYTEST]

Lines count in whichever process they run, but for processes that are killed. What is not counted is written in
pyproject.toml, under ``tool.coverage``: functions that are compiled, and what runs on a GPU alone.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import coverage

from reliability.record import keep

PACKAGE = Path("src/thresher")


def main() -> None:
    Path("results").mkdir(exist_ok=True)
    tool = [sys.executable, "-m", "coverage"]
    subprocess.run([*tool, "erase"], check=True)
    tests = subprocess.run([*tool, "run", "-m", "pytest", *sys.argv[1:]], check=False).returncode
    subprocess.run([*tool, "combine", "-q"], check=True)
    measured = coverage.Coverage()
    measured.load()
    sizes, missing, compiled = {}, {}, 0
    for path in sorted(PACKAGE.rglob("*.py")):
        name = str(path.relative_to(PACKAGE))
        if not name.startswith("gpu/"):
            _, statements, excluded, absent, _ = measured.analysis2(str(path.resolve()))
            sizes[name], compiled = len(statements), compiled + (len(excluded) if name.startswith("loops/") else 0)
            missing |= {name: absent} if absent else {}
    lines, absent = sum(sizes.values()), sum(map(len, missing.values()))
    for name, places in sorted(missing.items(), key=lambda item: len(item[1])):
        print(f"  {name}: {len(places)} of {sizes[name]} missing: {places}")
    print(f"{lines - absent:,} of {lines:,} lines covered: {(lines - absent) / lines:.1%}")
    figures = {"lines": lines, "covered": lines - absent, "missing": missing, "compiled": compiled}
    if not sys.argv[1:] and not tests:  # of all tests, and of tests that pass
        keep("covered", figures)
    sys.exit(tests)


if __name__ == "__main__":
    main()
