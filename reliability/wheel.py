"""Build wheel and sdist, install each into an empty environment, away from the sources, and run what is installed.

    python -m reliability.wheel

The wheel is tried with each Python that pyproject.toml names and that is found here. Installing it compiles nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

from reliability.record import keep

AUDIT = ("audit", "--inputs", "20", "--width", "2000")
NAME, MOST = "thresher-ml", 12  # packages that it may bring
# What builds packages, and no user needs.
BUILDERS = {
    "build", "cmake", "cython", "flit-core", "hatchling", "maturin", "meson", "meson-python", "ninja", "pybind11",
    "pythran", "scikit-build-core", "setuptools", "wheel",
}  # fmt: skip


def run(*command: str | Path, folder: Path | None = None) -> str:
    """Run a command; return what it printed, or end with what it complained of."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # nothing but what is installed
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=clean)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}\n{done.stderr}")
    return done.stdout.strip()


def pythons() -> list[str]:
    """Return this Python and the others that pyproject.toml names, if they are found; say which are not."""
    named = tomllib.loads(Path("pyproject.toml").read_text())["project"]["classifiers"]
    versions = [one.rpartition(" ")[2] for one in named if one.startswith("Programming Language :: Python :: 3.")]
    found = [sys.executable]
    for version in versions:
        program = shutil.which(f"python{version}")
        if version == ".".join(map(str, sys.version_info[:2])):
            continue
        if program and not subprocess.run([program, "--version"], capture_output=True).returncode:
            found.append(program)
        else:
            print(f"Python {version} is not found here, and not tried.", flush=True)
    return found


def environment(folder: Path, *, python: str = sys.executable) -> Path:
    """Make an empty environment; return its Python."""
    run(python, "-m", "venv", "--clear", folder)
    return folder / "bin" / "python"


def install(python: Path, *wanted: str | Path) -> list[str]:
    """Install packages; return the names of all that came. Only the package itself may be built."""
    pip = (python, "-m", "pip", "--disable-pip-version-check")
    before = json.loads(run(*pip, "list", "--format=json"))
    run(*pip, "install", "--quiet", "--only-binary=:all:", f"--no-binary={NAME}", *wanted)
    return sorted(one["name"].lower() for one in json.loads(run(*pip, "list", "--format=json")) if one not in before)


def check_packages(came: list[str]) -> None:
    """Refuse too many packages, or one that builds others."""
    others = [one for one in came if one != NAME]
    if NAME not in came or len(others) > MOST:
        sys.exit(f"{NAME} and at most {MOST} other packages were to come; it is {len(others)}: {', '.join(came)}.")
    if builders := BUILDERS & set(others):
        sys.exit(f"No package that builds others was to come; there is {', '.join(sorted(builders))}.")


def check_licence(made: Path) -> None:
    """Refuse a file without the licence."""
    if made.suffix == ".whl":
        with zipfile.ZipFile(made) as archive:
            names = archive.namelist()
    else:
        with tarfile.open(made) as archive:
            names = archive.getnames()
    if not any(name.endswith("/LICENSE") for name in names):
        sys.exit(f"{made.name} has no licence in it.")


def try_one(made: Path, folder: Path, *, python: str) -> dict[str, Any]:
    """Install one file and run the command line with it."""
    check_licence(made)
    installed = environment(folder / "empty", python=python)
    came = install(installed, made)
    check_packages(came)
    version = run(installed.with_name("thresher"), "--version", folder=folder)
    audited = run(installed.with_name("thresher"), *AUDIT, folder=folder).splitlines()[-1]
    place = run(installed, "-c", "import thresher; print(thresher.__file__)", folder=folder)
    if not Path(place).resolve().is_relative_to(folder.resolve()):
        sys.exit(f"What was run is not what was installed but {place}.")
    told = {"name": made.name, "bytes": made.stat().st_size, "version": version, "audit": audited}
    told |= {"python": run(installed, "--version"), "packages": [one for one in came if one != NAME]}
    print(f"{made.name}, {told['python']}: {version}; {len(told['packages'])} packages; {audited}", flush=True)
    return told


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        builder = environment(folder / "build")
        install(builder, "build")
        run(builder, "-m", "build", "--outdir", folder / "dist", Path.cwd(), folder=folder)
        files = {path.suffix: path for path in sorted((folder / "dist").iterdir())}
        if set(files) != {".whl", ".gz"}:
            sys.exit(f"A wheel and an sdist were to be made; there are {sorted(path.name for path in files.values())}.")
        made = [try_one(files[".whl"], folder, python=python) for python in pythons()]
        made.append(try_one(files[".gz"], folder, python=sys.executable))
    keep("wheel", {"made": made})


if __name__ == "__main__":
    main()
