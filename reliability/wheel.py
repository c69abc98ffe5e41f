"""Build wheel and sdist, install each into an empty environment, away from the sources, and run what is installed.

python -m reliability.wheel
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

from reliability.record import keep

AUDIT = ("audit", "--inputs", "20", "--width", "2000")


def run(*command: str | Path, folder: Path | None = None) -> str:
    """Run a command; return what it printed, or end with what it complained of."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # nothing but what is installed
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=clean)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}\n{done.stderr}")
    return done.stdout.strip()


def install(folder: Path, *wanted: str | Path) -> Path:
    """Make an empty environment with these packages; return the folder of its programs."""
    venv.create(folder, with_pip=True, clear=True)
    run(folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted)
    return folder / "bin"


def try_one(made: Path, folder: Path) -> dict[str, Any]:
    """Install one file and run the command line with it."""
    programs = install(folder / "empty", made)
    version = run(programs / "thresher", "--version", folder=folder)
    audited = run(programs / "thresher", *AUDIT, folder=folder).splitlines()[-1]
    place = run(programs / "python", "-c", "import thresher; print(thresher.__file__)", folder=folder)
    if not Path(place).resolve().is_relative_to(folder.resolve()):
        sys.exit(f"What was run is not what was installed but {place}.")
    print(f"{made.name}: {version}; {audited}", flush=True)
    return {"name": made.name, "bytes": made.stat().st_size, "version": version, "audit": audited}


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        programs = install(folder / "build", "build")
        run(programs / "python", "-m", "build", "--outdir", folder / "dist", Path.cwd(), folder=folder)
        made = [try_one(path, folder) for path in sorted((folder / "dist").iterdir())]
    if {Path(one["name"]).suffix for one in made} != {".whl", ".gz"}:
        sys.exit(f"A wheel and an sdist were to be made; there are {made}.")
    keep("wheel", {"made": made})


if __name__ == "__main__":
    main()
