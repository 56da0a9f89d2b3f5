"""The report as one HTML page that needs nothing but itself.

All text from outside, such as the names of categories, passes through `escape`. The page allows no script and no
request to any host.
"""

import base64
from collections.abc import Mapping, Sequence
from html import escape as escape_html
from pathlib import Path

import numpy as np

from adobest_pp._text import visible
from adobest_pp._wording import intervals_in_words, verdict_cells, verdict_columns
from adobest_pp.report.conclusions import (
    conclusions,
    contraction_in_words,
    estimate_in_words,
    privacy_in_words,
    samplers_in_words,
)
from adobest_pp.report.figures import Figure, most_probable
from adobest_pp.report.findings import Findings

__all__ = ["page"]

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"

STYLE = """
body { font: 16px/1.55 system-ui, sans-serif; color: #1a1a1a; background: #fff; margin: 0 auto; max-width: 60rem;
       padding: 1.5rem; overflow-wrap: anywhere; }
h1 { font-size: 1.7rem; line-height: 1.25; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #ddd; text-align: right; vertical-align: top; }
th, td { white-space: nowrap; }
th:first-child, td:first-child, th.words, td.words { text-align: left; }
td:first-child, td.words { white-space: normal; min-width: 7rem; }
figure { margin: 1rem 0; } img { max-width: 100%; height: auto; } figcaption { color: #444; }
.short { background: #f2f6fa; border-left: 4px solid #3572a5; padding: .6rem 1.2rem; }
.wide { overflow-x: auto; } code { background: #f4f4f4; padding: .1rem .3rem; }
"""

DESCRIPTIONS = {
    "estimate": "The estimate by category, with 95 % intervals.",
    "comparison": "How the means, standard deviations and quantiles of each sampler differ from those of NUTS, and its "
    "efficiency. Filled markers of means and standard deviations are beyond what Monte-Carlo error explains.",
    "traces": "The chains of the categories that mix worst. Chains that have mixed look alike and have no trend.",
    "ranks": "The share of each chain's draws up to a rank, less the share of all draws up to it. Chains that have "
    "mixed stay near zero (dashed line).",
    "contraction": "Squared error and radius of the posterior against the number of answers, on logarithmic axes.",
}


def page(findings: Findings, figures: Mapping[str, Figure], settings: Mapping[str, object]) -> str:
    """Return the whole report.

    Parameters
    ----------
    findings : Findings
        Of `grade_samplers`.
    figures : mapping of str to Figure
        Of `save_figures`. The page includes them.
    settings : mapping
        Printed under "How to repeat this".
    """
    poll = findings.poll
    pictures = {name: _figure(figure) for name, figure in figures.items()}
    sections = [
        f"<h1>{escape(poll.question)}</h1>",
        _paragraphs([poll.origin, *([poll.asked] if poll.asked else [])]),
        f'<div class="short"><h2>In short</h2>{_list(conclusions(findings))}</div>',
        "<h2>What protects the people who answered</h2>",
        _paragraphs(privacy_in_words(poll)),
        "<h2>The estimate</h2>",
        _paragraphs([estimate_in_words(findings)]),
        _estimate_table(findings),
        pictures["estimate"],
        "<h2>Are the samplers right?</h2>",
        _paragraphs([samplers_in_words(findings)]),
        _verdict_table(findings),
        _parts_table(findings),
        pictures.get("comparison", ""),
        "<h2>Traces</h2>",
        pictures["traces"],
        "<h2>Ranks</h2>",
        pictures["ranks"],
        "<h2>Contraction</h2>",
        pictures.get("contraction", ""),
        _paragraphs([contraction_in_words(findings)]),
        "<h2>How to repeat this</h2>",
        _table(["setting", "value"], [[name, str(value)] for name, value in settings.items()], words=(1,)),
    ]
    return _document(poll.question, "\n".join(sections))


def escape(text: str) -> str:
    """Return a text from outside as HTML."""
    return escape_html(visible(text))


def _document(title: str, body: str) -> str:
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{escape(title)}</title>
<style>{STYLE}</style>
</head>
<body>
{body}
</body>
</html>
"""


def _figure(figure: Figure) -> str:
    description = escape(DESCRIPTIONS[figure.name])
    return (
        f'<figure><img id="{figure.name}" src="{_data_address(figure.svg)}" alt="{description}">'
        f"<figcaption>{description}</figcaption></figure>"
    )


def _data_address(svg: Path) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.read_bytes()).decode('ascii')}"


def _estimate_table(findings: Findings) -> str:
    estimate = findings.estimate()
    known, listed = estimate["category"].values.tolist(), most_probable(findings)
    shown = estimate.sel(category=listed)
    columns = (shown["mean"].values, intervals_in_words(shown), shown["privacy"].values)
    rows = [
        [str(label), f"{100 * mean:.1f} %", interval, f"{100 * privacy:.0f} %"]
        for label, mean, interval, privacy in zip(listed, *columns, strict=True)
    ]
    headings = ["category", "estimate", "95 % interval", "of its width, due to privacy"]
    if findings.poll.truth is not None:
        headings.append("true share")
        for label, row in zip(listed, rows, strict=True):
            row.append(f"{100 * findings.poll.truth[known.index(label)]:.1f} %")
    left_out = len(known) - len(listed)
    note = _paragraphs([f"The {left_out} least probable categories are in posterior.nc."]) if left_out else ""
    return _table(headings, rows) + note


def _verdict_table(findings: Findings) -> str:
    graded = findings.comparison
    rows = [verdict_cells(graded, name) for name in graded["sampler"].values.tolist()]
    return _table(verdict_columns(findings.reference), rows, words=(1,))


def _parts_table(findings: Findings) -> str:
    """Return what the error of SGLD is made of; nothing where it is at the posterior."""
    tables = []
    for name, found in findings.explanations.items():
        words = (found["cause"].values.tolist(), found["part"].values, found["part_mcse"].values)
        rows = [
            [cause.replace("_", " "), *("–" if np.isnan(value) else f"{value:.3f}" for value in values)]
            for cause, *values in zip(*words, strict=True)
        ]
        told = (
            f"What the squared error of {name} comes from, in squared standard deviations of NUTS "
            "(diagnostics.explain); a dash where its chains did not mix long enough to tell."
        )
        tables += [_paragraphs([told]), _table(["cause", "part", "error at most"], rows)]
    return "".join(tables)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], words: Sequence[int] = ()) -> str:
    def cells(tag: str, values: Sequence[str]) -> str:
        kinds = (' class="words"' if i in words else "" for i in range(len(values)))
        return "".join(f"<{tag}{kind}>{escape(value)}</{tag}>" for kind, value in zip(kinds, values, strict=True))

    lines = "".join(f"<tr>{cells('td', row)}</tr>\n" for row in rows)
    head = f"<tr>{cells('th', headings)}</tr>"
    return f'<div class="wide"><table><thead>{head}</thead>\n<tbody>{lines}</tbody></table></div>'


def _paragraphs(sentences: Sequence[str]) -> str:
    return "\n".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)


def _list(sentences: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences) + "</ul>"
