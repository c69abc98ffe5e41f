"""A file of text, or standard input, as columns of cells. Its encoding, packing and delimiter are found."""

from __future__ import annotations

import csv
import io
import re
import sys
import zlib
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from thresher.checks import find_twice, name_some
from thresher.errors import InvalidInput
from thresher.memory import require
from thresher.tables.cells import find_decimal, may_be_thousands, read_numbers
from thresher.tables.frame import Column, Reading
from thresher.tables.units.amounts import is_amount
from thresher.tables.units.known import number_in

__all__ = [
    "INPUT",
    "ITSELF",
    "SMALLER",
    "Like",
    "Sheet",
    "is_delimiter",
    "is_encoding",
    "read_sheet",
    "restore_reading",
]

SMALLER = "Give a part of it, or a Parquet file of numbers, which is read in blocks."

INPUT = Path("-")  # standard input
_BYTES_A_BYTE = 12  # of a file of text, in memory at the same time: cells are Python's strings
_GZIP, _CHUNK = b"\x1f\x8b", 1 << 22
_DELIMITERS = ",;\t|"
_SOME = 100  # lines that tell the delimiter, and whether there is a header
_MOST = 0.9  # share of lines that tell how many cells there are
_SEPARATOR_LINE = re.compile(r"sep=([^\w\r\n\".+-])\r?\n?", re.IGNORECASE)
_WHOLE = re.compile(r"[0-9]{1,15}")
_NO_TEXT = re.compile("[\0-\x08\x0e-\x1a\x1c-\x1f]")
_ENCODINGS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8-sig"}
_GUESSES = ("utf-8", "cp1252", "latin-1")
_SIGNS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "spaces"}
_NO_DELIMITERS = '"\r\n.+-'
ITSELF = Reading()  # the file tells all of it


class Like(NamedTuple):
    """The file that a model was trained on: how it was read, and the names of the columns that the model wants."""

    reading: Reading
    names: Collection[str]


class Sheet(NamedTuple):
    """Columns of text, how they were read, what is to be said of that, and what is wrong with the file so far."""

    columns: list[Column]
    reading: Reading
    notes: list[str]
    wrong: list[str]


def read_sheet(path: Path, *, how: Reading = ITSELF, like: Like | None = None, remedy: str) -> Sheet:
    """Return the cells of a CSV file, plain or packed by gzip; ``-`` is standard input. Blank lines do not count,
    but in a file of one column, where they are missing cells unless they are the last or come before a header.

    What ``how`` leaves open is as in a file that this one is to be ``like``; InvalidInput if it plainly is not. Else
    the file tells it. Text is UTF-8 or UTF-16 with its mark, else UTF-8, else Windows' Latin-1. The delimiter is a
    comma, a semicolon, a tab or a bar: that by which most lines have the same number of cells; a semicolon or a tab if
    all lines have; or what a first line ``sep=;`` of a spreadsheet says. Empty cells beyond those of the first line and
    columns without a name and a value are left out, and noted.

    Cost: O(bytes).
    """
    text, encoding, notes = _decode(_unpacked(path), path, how, like, remedy)
    if said := _SEPARATOR_LINE.match(text):
        text, how = text[said.end() :], how._replace(delimiter=how.delimiter or said[1])
    delimiter = how.delimiter or _find_delimiter(text, path, like)
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        rows = _without_blanks(list(reader), like.reading.header if like and how.header is None else how.header)
    except csv.Error as error:
        raise InvalidInput(f"{path} is no CSV file: {error}. Are its quotation marks in pairs?") from None
    if not rows:
        raise InvalidInput(f"{path} is empty. {remedy}")
    rows = _trimmed(rows, notes)
    width = len(rows[0])
    ragged = [(place, len(row)) for place, row in enumerate(rows) if len(row) != width]
    _refuse_title(ragged, rows, path)
    whole = next((row for row in rows[1:] if len(row) == width), [""] * width)
    for place, _ in ragged:
        rows[place] = whole  # so that all else that is wrong is found too, by its row
    cells = [list(map(str.strip, column)) for column in zip(*rows, strict=True)]
    header = _find_header(cells, path, how, like, notes)
    cells = _with_name_or_value(cells, notes) if header else cells
    names = [column[0] if header else "" for column in cells]
    names = [name or f"column {place}" for place, name in enumerate(names, start=1)]
    if header and like is None:
        counts = [name for name, column in zip(names, cells, strict=True) if _counts_rows(column)]
        notes += [f"Column {name!r} has no name and counts the rows. Leave it out with --drop." for name in counts]
    wrong = [_say_ragged(ragged, width, int(header))] if ragged else []
    if twice := find_twice(names):
        wrong.append(f"several columns have the same name: {name_some(twice)}; rename all but one")
        names = [f"column {place}" for place in range(1, len(names) + 1)]
    if len(rows) == header:
        raise InvalidInput(f"{path} has no rows below its header. {remedy} Is its one line no header? Add --no-header.")
    columns = [Column(name, np.array(column[header:], object)) for name, column in zip(names, cells, strict=True)]
    columns, decimal = _with_signs(columns, delimiter, how.decimal, like, notes)
    return Sheet(columns, Reading(header, delimiter, decimal, encoding), notes, wrong)


def _with_signs(
    columns: list[Column], delimiter: str, chosen: str | None, like: Like | None, notes: list[str]
) -> tuple[list[Column], str | None]:
    """Return columns with their decimal signs, and that of the file; None if its cells do not tell it.

    The sign of a column is the ``chosen`` one, else that of its own cells, else that of a file that this one is to be
    ``like``, else of most columns, else of the delimiter.
    """
    if chosen is not None:
        return [one._replace(decimal=chosen) for one in columns], chosen
    own = [find_decimal(one.values) for one in columns]
    points, commas = own.count("."), own.count(",")
    known = None if points == commas else "." if points > commas else ","
    expected = like.reading.decimal if like is not None else None
    sign = expected or known or ("," if delimiter == ";" else None)
    for one, found in zip(columns, own, strict=True):
        unsure = expected is None and known is None and found is None
        if open_ := next(filter(may_be_thousands, map(number_in, one.values)), None) if unsure else None:
            read = read_numbers(np.array([open_], object), decimal=sign or ".").values[0]
            notes.append(f"Column {one.name!r}: nothing tells its decimal sign; {open_} is read as {read:.12g}.")
    return [one._replace(decimal=found or sign) for one, found in zip(columns, own, strict=True)], known


def _without_blanks(rows: list[list[str]], header: bool | None) -> list[list[str]]:
    """Return the cells of lines without blank lines; in one column they are missing cells, but for the last ones."""
    there = [place for place, row in enumerate(rows) if len(row) > 1 or (row and row[0].strip())]
    if not there or len(rows[there[0]]) > 1:
        return [rows[place] for place in there]
    first = 0 if header is False else there[0]
    return [row or [""] for row in rows[first : there[-1] + 1]]


def _trimmed(rows: list[list[str]], notes: list[str]) -> list[list[str]]:
    """Return the cells of lines without empty ones beyond those of the first line."""
    width = len(rows[0])
    longer = [row for row in rows if len(row) > width]
    if width > 1 and longer and not any("".join(row[width:]).strip() for row in longer):
        notes.append(f"Left out empty cells beyond the {width} of the first line, in {len(longer):,} rows.")
        rows = [row[:width] for row in rows]
    return rows


def _with_name_or_value(cells: list[list[str]], notes: list[str]) -> list[list[str]]:
    """Return the columns but those that have neither a name nor a value."""
    kept = [column for column in cells if any(column)]
    if len(kept) < len(cells):
        notes.append(f"Left out {len(cells) - len(kept):,} columns without a name and a value.")
    return kept


def _counts_rows(column: list[str]) -> bool:
    """Return whether a column below its name has no name, or that of pandas for it, and the numbers of the rows."""
    name, *cells = column
    if name not in ("", "Unnamed: 0") or len(cells) < 2 or not _WHOLE.fullmatch(cells[0]):
        return False
    return cells == list(map(str, range(int(cells[0]), int(cells[0]) + len(cells))))


def _unpacked(path: Path) -> bytes:
    """Return the bytes of a file or of standard input, unpacked; refused before they are too many."""

    def allow(size: int) -> None:
        require(_BYTES_A_BYTE * size, budget=None, what=f"reading {path}", remedy=SMALLER)

    raw = sys.stdin.buffer.read() if path == INPUT else path.read_bytes()
    if not raw.startswith(_GZIP):
        allow(len(raw))
        return raw
    parts, size = [], 0
    try:
        while raw:  # a file may have several parts, one after the other
            unpacker = zlib.decompressobj(31)
            while not unpacker.eof:
                part = unpacker.decompress(raw, _CHUNK)
                raw = unpacker.unconsumed_tail
                if not part and not raw and not unpacker.eof:
                    raise zlib.error("it ends too early")
                size += len(part)
                allow(size)
                parts.append(part)
            raw = unpacker.unused_data
    except zlib.error as error:
        raise InvalidInput(f"{path} is packed by gzip and damaged: {error}. Pack it again.") from None
    return b"".join(parts)


def _decode(raw: bytes, path: Path, how: Reading, like: Like | None, remedy: str) -> tuple[str, str, list[str]]:
    """Return the text of a file, its encoding, and a note if that is a guess."""
    found = next((name for mark, name in _ENCODINGS.items() if raw.startswith(mark)), None)
    expected = (
        None if like is None or like.reading.encoding in (*_GUESSES, *_ENCODINGS.values()) else like.reading.encoding
    )
    chosen = how.encoding or found or expected
    notes = list[str]()
    for name in (chosen,) if chosen else _GUESSES:
        try:
            text = raw.decode(name).removeprefix("\ufeff")
            break
        except UnicodeError as error:
            line = raw[: getattr(error, "start", 0)].count(b"\n") + 1
            notes = notes or [f"Read as Latin-1, because line {line:,} is not UTF-8."]
    else:
        source = "" if how.encoding or found else ", as that of the file that the model was trained on is"
        raise InvalidInput(f"{path}: line {line:,} is not text in {chosen}{source}. Name its own with --encoding.")
    if _NO_TEXT.search(text):
        raise InvalidInput(f"{path} is not a text file. {remedy}")
    return text, name, notes


def _find_delimiter(text: str, path: Path, like: Like | None) -> str:
    """Return the delimiter by which the first lines have the same number of cells, of several the most frequent.

    A semicolon or a tab comes before others if it parts all lines alike: commas may be decimal signs. A file that is to
    be ``like`` another has its delimiter, and InvalidInput if the first line lacks that, or another parts all lines.
    """
    lines = [line for line in text[: 1 << 20].splitlines()[:_SOME] if line.strip()]

    def judge(delimiter: str) -> tuple[float, bool, int]:
        try:
            whole = (
                row for row in csv.reader(lines, delimiter=delimiter) if not any(one.count('"') % 2 for one in row)
            )
            widths = Counter(map(len, whole))
        except csv.Error:
            return 0.0, False, 0
        ((width, count),) = widths.most_common(1) or [(1, 0)]
        all_alike = delimiter in ";\t" and count == len(lines)
        return (count / len(lines), all_alike, width) if width > 1 else (0.0, False, 0)

    found = max(_DELIMITERS, key=judge)
    expected = like.reading.delimiter if like is not None else None
    if like is None or expected is None or expected == found:
        return found
    share, _, width = judge(found)
    first = {cell.strip() for cell in next(csv.reader(lines, delimiter=expected), [])}
    if width < 2 or (share < 1 and len(first) > 1) or (like.names and first.issuperset(like.names)):
        return expected
    raise InvalidInput(
        f"{path}: cells are parted by {_say_sign(found)}; expected {_say_sign(expected)}, as in the file that the "
        f"model was trained on. Add --delimiter {_option(found)} to read it so, or --delimiter {_option(expected)}."
    )


def _find_header(cells: list[list[str]], path: Path, how: Reading, like: Like | None, notes: list[str]) -> bool:
    """Return whether the first line has the names of columns; InvalidInput if it plainly is not ``like`` another."""
    if how.header is not None:
        return how.header
    first = [column[0] for column in cells]
    if like is not None and like.names and set(like.names) <= set(first):
        return True
    guess, expected = _has_names(cells), like.reading.header if like is not None else None
    shown = ", ".join(repr(cell[:20]) for cell in first[:3])
    if expected is True and not guess:
        raise InvalidInput(
            f"{path}: the first line is {shown}; expected names of columns, as in the file that the model was trained "
            "on. Add --no-header if it has none: columns go by their place then."
        )
    if expected is False:
        if any(_is_text(head) and rest and not any(map(_is_text, rest)) for head, *rest in cells):
            raise InvalidInput(
                f"{path}: the first line is {shown}, which look like names; the file that the model was trained on has "
                "none. Add --no-header to predict that line too, or remove it."
            )
        return False
    if not guess:
        notes.append("No header found: columns are called column 1, column 2 and so on.")
    return guess


def _has_names(cells: list[list[str]]) -> bool:
    """Return whether the first line has the names of columns: it has text, and that does not come again.

    It may come again, as a station called station, if all of the line is text and some column has none below.
    """
    texts = [column for column in cells if _is_text(column[0])]
    if bool(texts) and not any(column[0] in column[1:] for column in texts):
        return True
    heads = {column[0] for column in texts}
    return len(heads) == len(cells) and any(_begins_with_numbers(rest) for _, *rest in cells)


def _begins_with_numbers(cells: list[str]) -> bool:
    """Return whether the first of these cells that are not empty are no text, and some are there."""
    there = [cell for cell in cells[:_SOME] if cell.strip()]
    return bool(there) and not any(map(_is_text, there))


def _is_text(cell: str) -> bool:
    return not is_amount(cell) and all(read_numbers(np.array([cell], object), decimal=sign).strange[0] for sign in ".,")


def _say_sign(delimiter: str) -> str:
    return _SIGNS.get(delimiter, repr(delimiter))


def _option(delimiter: str) -> str:
    return "tab" if delimiter == "\t" else f"'{delimiter}'"


def _refuse_title(ragged: list[tuple[int, int]], rows: list[list[str]], path: Path) -> None:
    """Refuse a file whose first line has fewer cells than nearly all others."""
    ((others, count),) = Counter(count for _, count in ragged).most_common(1) or [(0, 0)]
    if others > len(rows[0]) and count >= _MOST * (len(rows) - 1):
        raise InvalidInput(
            f"{path}: the first line is {', '.join(rows[0])[:40]!r}, with fewer cells than others: {len(rows[0])}, and "
            f"{others} in {count:,} lines. Remove what stands before the header, or correct the header."
        )


def _say_ragged(ragged: list[tuple[int, int]], width: int, header: int) -> str:
    some = ", ".join(f"row {place + 1 - header} has {count} cells" for place, count in ragged[:3])
    more = f", and {len(ragged) - 3:,} more rows have another number" if len(ragged) > 3 else ""
    return f"{some}{more}; expected {width}, as in the first line"


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
