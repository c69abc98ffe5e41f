"""Say: names, and everything that is wrong with a table in one message."""

from __future__ import annotations

from collections.abc import Sequence

from thresher.errors import InvalidInput

__all__ = ["name_some", "say_all"]

_MOST = 10  # things that are wrong, in one message


def name_some(names: Sequence[str]) -> str:
    """Return the first dozen of the names, shortened, and how many there are besides."""
    return ", ".join(name[:40] for name in names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


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
