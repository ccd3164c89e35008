"""Reports as one HTML page: no other file, no network, readable by people and by screen readers,
light or dark as the reader's system is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape

from mopt_mlir.explain import picture
from mopt_mlir.explain.explanation import Explanation
from mopt_mlir.explain.report import Report, Section, Table, report

DARK = {
    picture.INK: "#e8e8e8",
    picture.FAINT: "#5c5c5c",
    picture.PAPER: "#15171a",
    picture.MEMORY_COLOURS["L1"]: "#4da3dc",
    picture.MEMORY_COLOURS["DRAM"]: "#b495d6",
}
"""The picture's colours that would be hard to see on a dark page, and what they are there."""

STYLE = """
:root { color-scheme: light dark; --ink: INK; --faint: FAINT; --paper: PAPER; }
@media (prefers-color-scheme: dark) {
  :root { --ink: DARK_INK; --faint: DARK_FAINT; --paper: DARK_PAPER; }
PICTURE
}
body { margin: 2rem auto; max-width: 72rem; padding: 0 1rem; line-height: 1.45;
       font-family: system-ui, sans-serif; color: var(--ink); background: var(--paper); }
a { color: inherit; }
h1, h2 { line-height: 1.2; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 0.15rem 0.7rem; text-align: right; white-space: nowrap; }
tr > .text { text-align: left; }
thead th { border-bottom: 1px solid var(--faint); }
tbody th { font-weight: normal; }
pre { line-height: 1.3; }
figure { margin: 1.5rem 0; }
svg { width: 100%; height: auto; }
"""


def to_html(explanations: tuple[Explanation, ...]) -> str:
    """The page. Raises UserError where a picture is not possible, see `picture`."""
    reports = [report(explanation) for explanation in explanations]
    title = f"Plans of {len(reports)} operators" if len(reports) > 1 else reports[0].title
    lines = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        '<head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title>",
        f"<style>{_style()}</style></head>",
        "<body><main>",
        f"<h1>{escape(title)}</h1>",
    ]
    if len(reports) > 1:
        lines += ["<nav><ul>"]
        lines += [f'<li><a href="#{_id(n)}">{escape(r.title)}</a>' for n, r in enumerate(reports)]
        lines += ["</ul></nav>"]
    for number, (told, explanation) in enumerate(zip(reports, explanations, strict=True)):
        lines += _article(told, explanation, number, titled=len(reports) > 1)
    return "\n".join([*lines, "</main></body>", "</html>"])


def _style() -> str:
    words = {
        "DARK_INK": DARK[picture.INK],
        "DARK_FAINT": DARK[picture.FAINT],
        "DARK_PAPER": DARK[picture.PAPER],
        "INK": picture.INK,
        "FAINT": picture.FAINT,
        "PAPER": picture.PAPER,
        "PICTURE": "\n".join(_recolouring()),
    }
    return re.sub("|".join(words), lambda match: words[match[0]], STYLE)


def _recolouring() -> Iterator[str]:
    """Rules that replace colours of the picture on a dark page; where they are not understood, it
    stays what it is on paper."""
    for light, dark in DARK.items():
        for use in ("fill", "stroke"):
            yield f'  svg [style*="{use}: {light}"] {{ {use}: {dark} !important; }}'


def _id(number: int) -> str:
    return f"operator-{number + 1}"


def _article(told: Report, explanation: Explanation, number: int, *, titled: bool) -> Iterator[str]:
    yield f'<article id="{_id(number)}">'
    if titled:
        yield f"<h2>{escape(told.title)}</h2>"
    for sentence in told.summary:
        yield f"<p>{escape(sentence)}</p>"
    if explanation.forecast is not None:
        yield _figure(told, explanation, number)
    for section in told.sections:
        yield from _section(section, 3 if titled else 2)
    yield "</article>"


def _section(section: Section, level: int) -> Iterator[str]:
    yield f"<section><h{level}>{escape(section.title)}</h{level}>"
    for sentence in section.sentences:
        yield f"<p>{escape(sentence)}</p>"
    if section.listing:
        yield f'<pre class="wide" tabindex="0">{escape(chr(10).join(section.listing))}</pre>'
    if section.table is not None:
        yield from _table(section.table, section.title)
    yield "</section>"


def _table(table: Table, title: str) -> Iterator[str]:
    """Scrolls sideways on its own where it is wider than the page; the keyboard can reach it."""
    yield f'<div class="wide" tabindex="0" role="region" aria-label="{escape(title)}"><table>'
    cells = (_cell(text, "th", n, table, "col") for n, text in enumerate(table.header))
    yield f"<thead><tr>{''.join(cells)}</tr></thead><tbody>"
    for row in table.rows:
        first = _cell(row[0], "th", 0, table, "row")
        rest = (_cell(text, "td", n, table) for n, text in enumerate(row[1:], 1))
        yield f"<tr>{first}{''.join(rest)}</tr>"
    yield "</tbody></table></div>"


def _cell(text: str, tag: str, column: int, table: Table, scope: str = "") -> str:
    scoped = f' scope="{scope}"' if scope else ""
    aligned = ' class="text"' if column in table.text else ""
    return f"<{tag}{scoped}{aligned}>{escape(text)}</{tag}>"


def _figure(told: Report, explanation: Explanation, number: int) -> str:
    """The picture, made part of the page: its colours follow the theme, its names are unique, and
    it says what it shows; the tables have its figures."""
    document = picture.to_svg(explanation)
    _, _, drawing = document.partition("<svg ")
    attributes, _, svg = drawing.partition(">")
    box = next(part for part in re.findall(r'\w+="[^"]*"', attributes) if "viewBox" in part)
    svg = svg.replace("xlink:href", "href")
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{_id(number)}-", svg)
    label = escape(f"Data volumes and roofline of {told.title}; the tables below have the figures")
    return f'<figure><svg role="img" aria-label="{label}" {box}>{svg}</figure>'
