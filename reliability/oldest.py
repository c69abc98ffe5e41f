"""Print the oldest versions that pyproject.toml allows, one a line, as constraints for pip.

python -m reliability.oldest > oldest.txt && pip install -c oldest.txt '.[test]'
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path


def oldest(project: Path = Path("pyproject.toml")) -> list[str]:
    """Return ``name==version.*`` for each lower bound of the package and its tests."""
    table = tomllib.loads(project.read_text())["project"]
    extras = table["optional-dependencies"]
    bounds = [
        re.fullmatch(r"([\w-]+)>=([\d.]+)", one) for one in table["dependencies"] + extras["plot"] + extras["test"]
    ]
    return [f"{bound[1]}=={bound[2]}.*" for bound in bounds if bound]


if __name__ == "__main__":
    print("\n".join(oldest()))
