"""Say: names, and everything that is wrong with a table in one message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from thresher.errors import InvalidInput

__all__ = ["find_twice", "name_some", "refuse_twice", "say_all"]

_MOST = 10  # things that are wrong, in one message


def name_some(names: Sequence[str]) -> str:
    """Return the first dozen of the names, shortened, and how many there are besides."""
    return ", ".join(name[:40] for name in names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def find_twice(names: Sequence[str]) -> list[str]:
    """Return the names that come more than once. Cost: O(d)."""
    return sorted(name for name, count in Counter(names).items() if count > 1)


def refuse_twice(names: Sequence[str], *, source: str = "") -> None:
    """Refuse columns of one name."""
    if twice := find_twice(names):
        raise InvalidInput(f"{source}several columns have the same name: {name_some(twice)}. Rename all but one.")


def say_all(wrong: Sequence[str], *, source: str = "") -> None:
    """Raise InvalidInput with everything that is wrong, if anything is: one line, or a line for each."""
    if not wrong:
        return
    begin = f"{source}: " if source else ""
    if len(wrong) == 1:
        raise InvalidInput(f"{begin}{wrong[0]}")
    more = [f"and {len(wrong) - _MOST} more"] if len(wrong) > _MOST else []
    lines = "\n".join(f"  - {one}" for one in [*wrong[:_MOST], *more])
    raise InvalidInput(f"{begin}{len(wrong)} things are wrong:\n{lines}")
