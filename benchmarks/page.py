"""The parts of docs/benchmarks.md: a benchmark that was run at full size writes its tables between the marks of its part.

What stands outside the marks is written by hand.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.methods import load_method
from benchmarks.methods._tuning import HOW
from benchmarks.problems import load_problem
from benchmarks.summary import tables
from thresher import InvalidInput

PAGE = Path("docs/benchmarks.md")
END = "<!-- to here -->"


def begin(part: str) -> str:
    """Return the line after which a part is written; the next END ends it."""
    return f"<!-- {part}: written from here -->"


def add_options(parser: argparse.ArgumentParser, *, output: str) -> None:
    """Add where figures and tables go; with ``--tiny`` there is no page unless one is named."""
    parser.add_argument("--output", type=Path, default=Path(output), help="JSON file of the figures")
    parser.add_argument("--page", type=Path, help=f"page that the tables are written into; default: {PAGE}")


def page_of(options: argparse.Namespace) -> Path | None:
    """Return the page that was asked for, or that of a run at full size."""
    asked: Path | None = options.page
    return asked or (None if getattr(options, "tiny", False) else PAGE)


def write(part: str, lines: Sequence[str], *, page: Path | None) -> None:
    """Replace a part of a page by these paragraphs; do nothing without a page, or without any."""
    if page is None or not lines:
        return
    text = page.read_text(encoding="utf-8")
    before, mark, rest = text.partition(begin(part))
    _, end, after = rest.partition(END)
    if not mark or not end:
        raise InvalidInput(f"{page} must hold the line {begin(part)} and, below it, {END}: tables go between them.")
    page.write_text("\n".join([f"{before}{mark}\n", *lines, f"{end}{after}"]), encoding="utf-8")
    print(f"Written: {part!r} in {page}.", flush=True)


def machine(figures: dict[str, Any]) -> str:
    """Return where figures come from, in one line."""
    e = figures["environment"]
    return f"{computer(e)}; commit {e['commit']}.\n"


def computer(e: dict[str, Any]) -> str:
    """Return an environment in one line, without its commit."""
    versions = ", ".join(f"{name} {version}" for name, version in e["versions"].items())
    cores = "1 core" if e["cores"] == 1 else f"{e['cores']} cores"
    return f"Machine: {e['processor']}, {cores}, {e['memory_gib']} GiB; Python {e['python']}; {versions}"


def rivals(results: dict[str, Any], *, figures: Path) -> dict[str, list[str]]:
    """Return the parts on rivals, one for each case of ``{case: result}`` and one on methods; draw their figures."""
    from benchmarks.figures import draw  # needs matplotlib, which is an extra

    drawn = {path.stem: path.name for path in draw(results, figures)}
    parts = {}
    for case, result in results.items():
        lines = [machine(result), f"Run with `thresher bench --full --case {case}`.\n"]
        pictures = {"race": ("race",), "width": ("cost", "memory")}.get(case, (case,) if case in drawn else ())
        lines += [f"![{name}](figures/{drawn[name]})\n" for name in pictures]
        if case == "problems":
            names = dict.fromkeys(row["problem"] for row in result["rows"])
            lines.append(
                "\n".join(f"- **{load_problem(name).LABEL}**: {load_problem(name).WHY}." for name in names) + "\n"
            )
        for sheet in tables(case, result):
            lines += [f"**{sheet.title}**\n", sheet.markdown()]
        if case == "cross_entropy":
            lines.append(describe_tuning(result["rows"]))
        parts[case] = lines
    if "race" in results:
        parts["methods"] = [describe_methods(results["race"]["rows"])]
    return parts


def describe_methods(rows: list[dict[str, Any]]) -> str:
    """Return what each method is, in the words of its file, how it was tuned and what was chosen."""
    lines = []
    for row in rows:
        lines.append(f"- **{row['label']}**: " + " ".join((load_method(row["method"]).__doc__ or "").split()))
        if "tuning" in row:
            chosen = ", ".join(f"{name} {_short(value)}" for name, value in row["tuning"]["chosen"].items())
            lines[-1] += f" *Tuned*: {row['tuning']['how']}; chosen: {chosen}."
    return "\n".join(lines) + f"\n\nTuning: {HOW}\n"


def describe_tuning(rows: list[dict[str, Any]]) -> str:
    """Return what tuning has chosen."""
    chosen = {row["label"]: row["tuning"]["chosen"] for row in rows if "tuning" in row}
    told = [
        f"{label}: " + ", ".join(f"{name} {_short(value)}" for name, value in one.items())
        for label, one in chosen.items()
    ]
    return f"Tuning chose, for {'; for '.join(told)}.\n" if told else ""


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
