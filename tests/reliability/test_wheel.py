"""What is checked of the wheel and the sdist before they are run."""

import zipfile

import pytest
from reliability import wheel


def test_few_packages_come_and_none_that_builds_others():
    few = [wheel.NAME, *(f"package{number}" for number in range(wheel.MOST))]
    wheel.check_packages(few)
    with pytest.raises(SystemExit, match=f"at most {wheel.MOST} other packages were to come; it is {wheel.MOST + 1}"):
        wheel.check_packages([*few, "one-more"])
    with pytest.raises(SystemExit, match="were to come"):
        wheel.check_packages(few[1:])
    with pytest.raises(SystemExit, match="there is cython"):
        wheel.check_packages([wheel.NAME, "cython"])


def test_a_file_without_the_licence_is_refused(tmp_path):
    for name, known in (("bare", False), ("whole", True)):
        with zipfile.ZipFile(tmp_path / f"{name}.whl", "w") as archive:
            archive.writestr("thresher.dist-info/licenses/LICENSE" if known else "thresher/__init__.py", "")
    wheel.check_licence(tmp_path / "whole.whl")
    with pytest.raises(SystemExit, match=r"bare\.whl has no licence"):
        wheel.check_licence(tmp_path / "bare.whl")
