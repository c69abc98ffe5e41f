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


def parts_of(page):
    """The fenced parts of a page: what they are (python, sh, text), and their lines."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    return re.findall(r"^```(python|sh|text)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def run_page(page):
    """Run a page in the folder one stands in; yield what each part printed and what the page says it prints.

    Code whose first line is the name of a file is that file; ``python`` runs it in a process without thresher.
    """
    names, printed = {"__name__": "docs"}, ""
    for number, (kind, text) in enumerate(parts_of(page)):
        if kind == "text":
            yield printed, text
        elif kind == "python" and (file := re.match(r"# (\w+\.py)\n", text)):
            Path(file[1]).write_text(text)
        elif kind == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(text, f"{page}.md, part {number}", "exec"), names)
            printed = out.getvalue()
        else:
            printed = "".join(run_command(shlex.split(line, comments=True)) for line in text.splitlines())


def run_command(words):
    if words[0] == "python":
        command = [sys.executable, "-W", "error", "-c", ALONE, *words[1:]]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert words[0] == "thresher", words
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()):
        try:
            main(words[1:])
        except SystemExit as end:
            assert not end.code, words
    return out.getvalue()
