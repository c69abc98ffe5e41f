"""A page of the docs, run from top to bottom as a reader would: code, commands, and what they print."""

import contextlib
import io
import re
import shlex
import subprocess
import sys
from pathlib import Path

from thresher.cli import main

DOCS = Path(__file__).parent.parent / "docs"
ALONE = "import runpy, sys; sys.modules['thresher'] = None; sys.path.insert(0, ''); runpy.run_path(sys.argv[1])"
PART = re.compile(r"^```(python|sh|text)\n(.*?)^```\n", re.DOTALL | re.MULTILINE)


def code_of(page):
    """The Python of a page, one string for each block."""
    return [
        found[2] for found in PART.finditer((DOCS / f"{page}.md").read_text(encoding="utf-8")) if found[1] == "python"
    ]


def run_page(page, smaller=()):
    """Run a page in the folder one stands in; yield pairs: what was printed, and what the page says is printed.

    Text right below code is what that prints. Code whose first line is the name of a file is that file, and ``python``
    runs it in a process without thresher. ``smaller`` are pairs of words, of which the second takes the first's place.
    """
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    names, printed, end = {"__name__": "docs"}, "", -1
    for found in PART.finditer(text):
        kind, inside = found.groups()
        if kind == "text":
            if text[end : found.start()].strip() == "":
                yield printed, inside
            continue
        for long, short in smaller:
            inside = inside.replace(long, short)
        place = f"{page}.md, line {1 + text.count(chr(10), 0, found.start())}"
        printed, end = run_part(kind, inside, names, place), found.end()


def run_part(kind, text, names, place):
    if kind == "sh":
        return "".join(run_command(shlex.split(line, comments=True)) for line in text.splitlines())
    if file := re.match(r"# (\w+\.py)\n", text):
        Path(file[1]).write_text(text)
        return ""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(text, place, "exec"), names)
    return out.getvalue()


def run_command(words):
    if words[0] == "python":
        command = [sys.executable, "-W", "error", "-c", ALONE, *words[1:]]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert words[0] == "thresher", words
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as told:
        try:
            main(words[1:])
        except SystemExit as end:
            assert not end.code, (words, told.getvalue())
    return out.getvalue()


def same(printed, said, within=0.1):
    """Whether two texts have the same words, and numbers within a tenth; lines with seconds may differ."""
    number = re.compile(r"\d[\d,]*(?:\.\d+)?")
    lines = [[line for line in one.strip().splitlines() if not re.search(r"\d s\b", line)] for one in (printed, said)]
    if len(lines[0]) != len(lines[1]):
        return False
    for ours, theirs in zip(*lines, strict=True):
        if " ".join(number.sub("#", ours).split()) != " ".join(number.sub("#", theirs).split()):
            return False
        pairs = zip(*(map(_float, number.findall(one)) for one in (ours, theirs)), strict=True)
        if any(abs(one - two) > within * max(abs(one), abs(two), 0.2) for one, two in pairs):
            return False
    return True


def _float(text):
    return float(text.replace(",", ""))
