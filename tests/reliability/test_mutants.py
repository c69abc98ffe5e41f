"""Mutants: each is one change, has a name of its own, and is shown to the tests that reach its line."""

import ast

import pytest
from reliability import changes, mutants

pytestmark = pytest.mark.thorough

TEXT = '''"""A file."""
__all__ = ["half"]
LIMIT = 3  # on import


def half(x: int = 7) -> float:
    if (
        x > LIMIT
        and x
    ):
        return x / 2
    return 0 if x is None else 0.5
'''


@pytest.fixture
def found(tmp_path, monkeypatch):
    monkeypatch.setattr(changes, "SOURCE", tmp_path)
    path = tmp_path / "thresher" / "shards" / "file.py"
    path.parent.mkdir(parents=True)
    path.write_text(TEXT)
    return list(changes.mutants(path))


def test_every_operator_condition_and_number_is_changed_once(found):
    changes = [one.what.split("  ->  ")[1] for one in found]
    assert sorted(changes) == sorted(
        [
            "LIMIT = 4",
            "if not (x > LIMIT and x):",
            "if x > LIMIT or x:",
            "if x >= LIMIT and x:",
            "return x * 2",
            "return x / 3",
            "return 0 if not x is None else 0.5",
            "return 0 if x is not None else 0.5",
            "return 1 if x is None else 0.5",
            "return 0 if x is None else 0.751",
        ]
    )
    unchanged = ast.unparse(ast.parse(TEXT))
    for one in found:
        lines = zip(one.text.splitlines(), unchanged.splitlines(), strict=True)
        assert sum(after != before for after, before in lines) == 1
        compile(one.text, "mutant", "exec")


def test_the_lines_of_a_mutant_are_those_of_the_copy(found):
    copy = ast.unparse(ast.parse(TEXT)).splitlines()
    for one in found:
        (line,) = one.lines
        assert copy[line - 1].strip() == one.what.split("  ->  ")[0]
        assert one.place == ("shards/file.py" if "LIMIT =" in one.what else "shards/file.py half")
    assert {one.line for one in found} == {3, 7, 11, 12}


def test_equal_changes_in_one_function_have_different_names(tmp_path, monkeypatch):
    monkeypatch.setattr(changes, "SOURCE", tmp_path)
    path = tmp_path / "thresher" / "shards" / "file.py"
    path.parent.mkdir(parents=True)
    path.write_text("def twice(x):\n    x += 1\n    x += 1\n")
    names = [one.name for one in changes.mutants(path)]
    assert len(names) == len(set(names)) == 4


def test_one_of_so_many_is_of_a_loop(found):
    everything = found * 10 + [one._replace(room="loops") for one in found]
    order = mutants.order(list(everything), seed=3)
    assert sorted(order) == sorted(everything)
    assert order != everything
    places = [place for place, one in enumerate(order) if one.room == "loops"]
    every = mutants.LOOPS_EVERY
    assert places[:3] == [every - 1, 2 * every - 1, 3 * every - 1]
