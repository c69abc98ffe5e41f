"""Read: a file of text, or standard input, as columns of cells. Its encoding, packing and delimiter are found."""

from __future__ import annotations

import csv
import io
import re
import sys
import zlib
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from thresher.errors import InvalidInput
from thresher.memory import require
from thresher.tables.cells import find_decimal, may_be_thousands, read_numbers
from thresher.tables.frame import Column
from thresher.tables.saying import name_some

__all__ = ["INPUT", "SMALLER", "Sheet", "read_sheet"]

SMALLER = "Give a part of it, or a Parquet file of numbers, which is read in blocks."

INPUT = Path("-")  # standard input
_BYTES_A_BYTE = 12  # of a file of text, in memory at the same time: cells are Python's strings
_GZIP, _CHUNK = b"\x1f\x8b", 1 << 22
_DELIMITERS = ",;\t|"
_SOME = 100  # lines that tell the delimiter
_NO_TEXT = re.compile("[\0-\x08\x0e-\x1a\x1c-\x1f]")
_ENCODINGS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8-sig"}


class Sheet(NamedTuple):
    """Columns of text, what is to be said of how they were read, and what is wrong with the file so far."""

    columns: list[Column]
    notes: list[str]
    wrong: list[str]


def read_sheet(path: Path, *, header: bool | None, remedy: str) -> Sheet:
    """Return the cells of a CSV file, plain or packed by gzip; ``-`` is standard input. Blank lines do not count,
    but in a file of one column, where they are missing cells unless they are the last or come before a header.

    Text is UTF-8 or UTF-16 with its mark, else UTF-8, else Windows' Latin-1. The delimiter is a comma, a semicolon, a
    tab or a bar: that by which most lines have the same number of cells; a semicolon or a tab if all lines have.

    Cost: O(bytes).
    """
    text, notes = _decode(_unpacked(path), path, remedy)
    delimiter = _find_delimiter(text)
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        rows = _without_blanks(list(reader), header)
    except csv.Error as error:
        raise InvalidInput(f"{path} is no CSV file: {error}. Are its quotation marks in pairs?") from None
    if not rows:
        raise InvalidInput(f"{path} is empty. {remedy}")
    width = len(rows[0])
    ragged = [(place, len(row)) for place, row in enumerate(rows) if len(row) != width]
    whole = next((row for row in rows[1:] if len(row) == width), rows[0])
    for place, _ in ragged:
        rows[place] = whole  # so that all else that is wrong is found too, by its row
    cells = [list(map(str.strip, column)) for column in zip(*rows, strict=True)]
    if header is None:
        header = _has_names(cells)
        if not header:
            notes.append("No header found: columns are called column 1, column 2 and so on.")
    names = [column[0] if header else "" for column in cells]
    names = [name or f"column {place}" for place, name in enumerate(names, start=1)]
    wrong = [_say_ragged(ragged, width, int(header))] if ragged else []
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        wrong.append(f"several columns have the same name: {name_some(twice)}; rename all but one")
        names = [f"column {place}" for place in range(1, width + 1)]
    if len(rows) == header:
        raise InvalidInput(f"{path} has no rows below its header. {remedy}")
    columns = [Column(name, np.array(column[header:], object)) for name, column in zip(names, cells, strict=True)]
    return Sheet(_with_signs(columns, delimiter, notes), notes, wrong)


def _with_signs(columns: list[Column], delimiter: str, notes: list[str]) -> list[Column]:
    """Return columns with their decimal signs: that of its own cells, else of most columns, else of the delimiter."""
    own = [find_decimal(one.values) for one in columns]
    points, commas = own.count("."), own.count(",")
    known = None if points == commas else "." if points > commas else ","
    sign = known or ("," if delimiter == ";" else None)
    for one, found in zip(columns, own, strict=True):
        unsure = known is None and found is None
        if open_ := next(filter(may_be_thousands, one.values), None) if unsure else None:
            read = read_numbers(np.array([open_], object), decimal=sign or ".").values[0]
            notes.append(f"Column {one.name!r}: nothing tells its decimal sign; {open_} is read as {read:.12g}.")
    return [one._replace(decimal=found or sign) for one, found in zip(columns, own, strict=True)]


def _without_blanks(rows: list[list[str]], header: bool | None) -> list[list[str]]:
    """Return the cells of lines without blank lines; in one column they are missing cells, but for the last ones."""
    there = [place for place, row in enumerate(rows) if len(row) > 1 or (row and row[0].strip())]
    if not there or len(rows[there[0]]) > 1:
        return [rows[place] for place in there]
    first = 0 if header is False else there[0]
    return [row or [""] for row in rows[first : there[-1] + 1]]


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


def _decode(raw: bytes, path: Path, remedy: str) -> tuple[str, list[str]]:
    """Return the text of a file, and a note if its encoding is a guess."""
    found = next((name for mark, name in _ENCODINGS.items() if raw.startswith(mark)), None)
    text, notes = None, list[str]()
    for name in (found,) if found else ("utf-8", "cp1252", "latin-1"):
        try:
            text = raw.decode(name)
            break
        except UnicodeDecodeError as error:
            line = raw[: error.start].count(b"\n") + 1
            notes = notes or [f"Read as Latin-1, because line {line:,} is not UTF-8."]
    if text is None or _NO_TEXT.search(text):
        raise InvalidInput(f"{path} is not a text file. {remedy}")
    return text, notes


def _find_delimiter(text: str) -> str:
    """Return the delimiter by which the first lines have the same number of cells, of several the most frequent.

    A semicolon or a tab comes before others if it parts all lines alike: commas may be decimal signs.
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

    return max(_DELIMITERS, key=judge)


def _has_names(cells: list[list[str]]) -> bool:
    """Return whether the first line has the names of columns: it has text, and that does not come again."""

    def is_text(cell: str) -> bool:
        return all(read_numbers(np.array([cell], object), decimal=sign).strange[0] for sign in ".,")

    texts = [column for column in cells if is_text(column[0])]
    return bool(texts) and not any(column[0] in column[1:] for column in texts)


def _say_ragged(ragged: list[tuple[int, int]], width: int, header: int) -> str:
    some = ", ".join(f"row {place + 1 - header} has {count} cells" for place, count in ragged[:3])
    more = f", and {len(ragged) - 3:,} more rows have another number" if len(ragged) > 3 else ""
    return f"{some}{more}; expected {width}, as in the first line"
