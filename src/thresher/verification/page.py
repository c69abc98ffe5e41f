"""Tell: a report as rows of words, and as one self-contained HTML page."""

from __future__ import annotations

import html
import math
from pathlib import Path

from thresher.errors import NotAvailable
from thresher.theory import Statement, say_count
from thresher.verification.ladder import Report, power

__all__ = ["describe", "explain", "write_page"]


def describe(report: Report) -> list[tuple[str, str, str, str, str]]:
    """Return the rows of the table: sentence and label, measured, bound, where it holds, verdict; all as text."""
    return [(f"{one.sentence} {one.label}", *_sides(one), where, one.verdict) for one, where in _shown(report)]


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
        said.append(f"Our rule of thumb, on the safe side, asks for {report.practical:,} neurons.")
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
    written, pictures, remark = [], "", ""
    try:
        from thresher.figures import INK, draw

        for one in draw(report):
            path = folder / f"{one.name}.svg"
            path.write_text(one.svg, encoding="utf-8")
            written.append(path)
            svg = one.svg[one.svg.index("<svg") :].replace(INK, "currentColor")
            words = html.escape(one.caption)
            pictures += f'<figure role="img" aria-label="{words}">{svg}<figcaption>{words}</figcaption></figure>\n'
    except NotAvailable as error:
        remark = f"<p>{html.escape(str(error))}</p>"
    page = folder / "verify.html"
    page.write_text(_page(report, pictures, remark), encoding="utf-8")
    return [page, *written]


def _page(report: Report, pictures: str, remark: str) -> str:
    paragraphs = "\n".join(f"<p>{html.escape(one)}</p>" for one in (report.title, *explain(report)))
    rows = "\n".join(_html_row(one, where) for one, where in _shown(report))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>The paper's promises, checked</title><style>{_STYLE}</style></head><body>
<h1>The paper's promises, checked</h1>
{paragraphs}
<p>Each row is one statement of <em>Training Overparametrized Neural Networks in Sublinear Time</em>, by its label
there. The numbers are the worst of the training with the most neurons. A statement is <em>promised</em> if its
hypotheses are met at this size; without that it may hold or not, and neither says anything against the paper.</p>
<div class="wide"><table>
<thead><tr><th>statement</th><th>measured</th><th>bound</th><th>holds</th><th>verdict</th></tr></thead>
<tbody>
{rows}
</tbody></table></div>
{remark}{pictures}</body></html>
"""


def _html_row(one: Statement, where: str) -> str:
    sentence, label, verdict = html.escape(one.sentence), html.escape(one.label), html.escape(one.verdict)
    fine = html.escape(f"Promised {one.when}. Constant: {one.constant}.")
    kind = "bad" if one.broken else "good" if one.promised else "open"
    cells = "".join(f"<td>{cell}</td>" for cell in (*_sides(one), where))
    return (
        f"<tr><td>{sentence} <code>{label}</code><br><small>{fine}</small></td>"
        f'{cells}<td class="{kind}">{verdict}</td></tr>'
    )


_STYLE = """
:root{color-scheme:light dark;--line:#8884;--good:#00704f;--bad:#c03;--open:#777}
@media (prefers-color-scheme:dark){:root{--good:#4ecfa5;--bad:#ff7a7a;--open:#aaa}}
body{font:16px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;width:100%} .wide{overflow-x:auto}
th,td{text-align:left;vertical-align:top;padding:.45rem .7rem;border-bottom:1px solid var(--line)}
td:nth-child(n+2){white-space:nowrap;font-variant-numeric:tabular-nums} small{opacity:.75}
.good{color:var(--good)} .bad{color:var(--bad);font-weight:bold} .open{color:var(--open)}
figure{display:inline-block;width:min(31rem,100%);margin:1rem 0;vertical-align:top} figure svg{width:100%;height:auto}
"""


def _shown(report: Report) -> list[tuple[Statement, str]]:
    return [(row.shown, row.where) for row in report.rows.values()]


def _sides(one: Statement) -> tuple[str, str]:
    return _number(one.measured), f"{'≤' if one.upper else '≥'} {_number(one.bound)}"


def _separable(report: Report) -> str:
    facts = report.rungs[-1].facts
    if facts.separability == 0:
        return "Two inputs are equal or opposite: the paper's assumption fails, and no width is promised anything."
    if facts.smallest == 0:
        return "The kernel is singular to rounding: the inputs are too close together for any of the proofs."
    if report.enough is not None:
        return "That is separable enough for the widths tried."
    return "The paper's assumption, δ > 0, holds; but inputs this close need more neurons than were tried."


def _number(value: float) -> str:
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if abs(value) >= 1000 or value == round(value):
        return f"{value:,.0f}" if abs(value) < 1e7 else f"{value:.1e}"
    return f"{value:.3g}"
