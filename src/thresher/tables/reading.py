"""How a file of text is read: chosen by its reader, told by the file, or as in the file that a model was trained on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

__all__ = ["ITSELF", "Like", "Reading", "is_delimiter", "is_encoding", "restore_reading"]

_NO_DELIMITERS = '"\r\n.+-'


class Reading(NamedTuple):
    """Whether the first line has names, what parts cells, the decimal sign, the encoding; None: the file tells it."""

    header: bool | None = None
    delimiter: str | None = None
    decimal: str | None = None
    encoding: str | None = None


ITSELF = Reading()  # the file tells all of it


class Like(NamedTuple):
    """The file that a model was trained on: how it was read, and the names of the columns that the model wants."""

    reading: Reading
    names: Collection[str]


def is_delimiter(sign: Any) -> bool:
    """Return whether a sign can part cells."""
    return isinstance(sign, str) and len(sign) == 1 and not sign.isalnum() and sign not in _NO_DELIMITERS


def is_encoding(name: Any) -> bool:
    """Return whether a name is that of an encoding of text."""
    try:
        return isinstance(name, str) and bool("a".encode(name))
    except (LookupError, ValueError):
        return False


def restore_reading(stored: Mapping[str, Any]) -> Reading:
    """Return what ``Reading._asdict`` described; ValueError or TypeError if that cannot be."""
    made = Reading(**stored)
    if not (
        isinstance(made.header, bool | None)
        and (made.delimiter is None or is_delimiter(made.delimiter))
        and made.decimal in (None, ".", ",")
        and (made.encoding is None or is_encoding(made.encoding))
    ):
        raise ValueError("no file can be read like that")
    return made
