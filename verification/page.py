"""Tell: a report as rows of words, and as one self-contained HTML page."""

from __future__ import annotations

import math
from pathlib import Path

from thresher.errors import NotAvailable
from thresher.figures import Drawn, draw
from thresher.output import write_text
from thresher.report.page import render_page, sides
from thresher.theory import Statement, say_count
from verification.ladder import Report, power
from verification.pictures import FIGURES

__all__ = ["describe", "explain", "write_page"]


def describe(report: Report) -> list[tuple[str, str, str, str, str]]:
    """Return the rows of the table: sentence and label, measured, bound, where it holds, verdict; all as text."""
    return [(f"{one.sentence} {one.label}", *sides(one), where, one.verdict) for one, where in _shown(report)]


def explain(report: Report) -> list[str]:
    """Return what the table comes to, in plain sentences."""
    facts = report.rungs[-1].facts
    said = [
        f"The two closest inputs are {facts.separability:.3g} apart (δ); the smallest eigenvalue of the "
        f"limit kernel (λ) is {facts.smallest:.3g} at the largest width. {_separable(report)}"
    ]
    proofs = f"The proofs ask for {say_count(facts.convergence_width)} neurons"
    proofs += f", or {say_count(facts.combined_width)} when only δ is known"
    if report.enough is None:
        last = power(report.rungs[-1].width)
        said.append(f"{proofs}. No width up to {last} was enough for every step to halve the residual.")
    else:
        said.append(f"{proofs}. In practice {power(report.enough)} were enough: every step halved the residual.")
    if report.practical is None:
        said.append(
            "Our rule of thumb knows no width for these inputs: merge those that are equal, opposite or nearly so."
        )
    else:
        said.append(
            f"Our rule of thumb, on the safe side, asks for {power(report.practical)} neurons with the paper's shift, "
            f"which grows with their number. With the shift of {power(facts.width)} neurons kept, {facts.shift:.3g}, "
            f"it asks for {say_count(math.log10(max(facts.practical_width, 1.0)))}."
        )
    broken = list(dict.fromkeys(one.name for one in report.broken))
    if broken:
        counted = "1 promised statement fails" if len(broken) == 1 else f"{len(broken)} promised statements fail"
        said.append(f"{counted}: {', '.join(broken)}.")
    else:
        said.append("Every statement that is promised at these sizes holds.")
    return said


def write_page(report: Report, folder: Path) -> list[Path]:
    """Write ``verify.html`` and, where matplotlib is installed, one SVG for each figure; return the files.

    The folder must exist.
    """
    remark, drawn = "", list[Drawn]()
    try:
        drawn = draw(FIGURES, report)
    except NotAvailable as error:
        remark = str(error)
    written = [write_text(folder / f"{one.name}.svg", one.svg) for one in drawn]
    page = render_page(
        Path(__file__).with_name("verify.html"),
        paragraphs=[report.title, *explain(report)],
        rows=_shown(report),
        figures=drawn,
        remark=remark,
    )
    return [write_text(folder / "verify.html", page), *written]


def _shown(report: Report) -> list[tuple[Statement, str]]:
    return [(row.shown, row.where) for row in report.rows.values()]


def _separable(report: Report) -> str:
    facts = report.rungs[-1].facts
    if facts.separability == 0:
        return "Two inputs are equal or opposite: the paper's assumption fails, and no width is promised anything."
    if facts.smallest == 0:
        return "The kernel is singular to rounding: the inputs are too close together for any of the proofs."
    if report.enough is not None:
        return "That is separable enough for the widths tried."
    return "The paper's assumption, δ > 0, holds; but inputs this close need more neurons than were tried."
