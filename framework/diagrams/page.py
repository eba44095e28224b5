"""The HTML page of a dataflow: its picture and a table of its datasets, in one file."""

from __future__ import annotations

import html

from framework.diagrams.escaping import escape
from framework.diagrams.picture import picture_of
from framework.diagrams.svg import svg
from framework.diagrams.theme import BAD, FONT, GOOD, WARNING
from framework.graph.graph import DataflowGraph
from framework.views.graph import datasets_table, graph_summary
from framework.views.table import Cell, Column, Table

_PAGE_STYLE = (
    ":root{color-scheme:light dark}"
    "body{margin:0;padding:28px 36px;background:#fff;color:#1c2530}"
    "h1{font-size:22px;margin:0 0 2px}h2{font-size:15px;margin:26px 0 0}p{margin:0 0 14px}"
    "@media (prefers-color-scheme:dark){body{background:#0d1117;color:#dbe2ea}}"
)
# Jupyter draws `$...$` of any output with MathJax. Of `$\href{javascript:...}{x}$` it makes a link that runs a script.
# These classes exclude an element, in MathJax 2 and 3.
_NO_FORMULAS = "tex2jax_ignore mathjax_ignore"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def graph_page(graph: DataflowGraph) -> str:
    """Return a complete HTML document without scripts or external files; all text is escaped."""
    name = escape(graph.pipeline)
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{name} · Sluice</title><style>{STYLE}{_PAGE_STYLE}</style></head>",
        f'<body class="sluice"><h1>{name}</h1><p class="quiet">{escape(graph_summary(graph))}</p>',
        f'<div class="picture">{svg(picture_of(graph))}</div>',
        f"<h2>Datasets</h2>{html_table(datasets_table(graph))}</body></html>",
    ]
    return "\n".join(parts) + "\n"


STYLE = (
    f".sluice{{font-family:{FONT};font-size:14px;line-height:1.45}}"
    ".sluice table{border-collapse:collapse;margin:.6em 0;font-size:13px}"
    ".sluice th{font-weight:600;border-bottom:1.5px solid rgba(127,138,150,.6)}"
    ".sluice th,.sluice td{padding:5px 14px 5px 0;vertical-align:top}"
    ".sluice td{border-bottom:1px solid rgba(127,138,150,.25)}"
    # Jupyter aligns all cells to the right, and centres tables in some front ends, by more specific rules.
    ".sluice table{margin-left:0!important;margin-right:auto!important}"
    ".sluice td,.sluice th{text-align:left!important}"
    ".sluice td.number,.sluice th.number{text-align:right!important;font-variant-numeric:tabular-nums}"
    ".sluice td,.sluice th,.sluice h1,.sluice b,.sluice .quiet{white-space:pre-wrap}"
    ".sluice td.name{white-space:pre}.sluice td.number{padding-right:28px}.sluice th.number{padding-right:28px}"
    f".sluice .quiet{{opacity:.65}}.sluice .bad{{color:{BAD};font-weight:600}}.sluice .good{{color:{GOOD}}}"
    f".sluice .warning{{color:{WARNING}}}"
    ".sluice code{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:12px}"
    ".sluice .picture,.sluice .rows{overflow-x:auto;padding:4px 0}"
    ".sluice .rows td{white-space:pre;font-variant-numeric:tabular-nums}"
    f".sluice .error{{white-space:pre-wrap;margin:.6em 0;padding:8px 12px;border-left:3px solid {BAD};"
    "background:rgba(209,69,59,.08);font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:12px}"
)


def html_table(table: Table, *, is_data: bool = False) -> str:
    """Return a `<table>` with escaped text; a table of data also shows texts that are secrets elsewhere."""
    text = html.escape if is_data else escape
    heads = [
        f'<th class="number">{escape(column.name)}</th>' if column.right else f"<th>{escape(column.name)}</th>"
        for column in table.columns
    ]
    rows = (
        [_cell(cell, column, text(cell.text)) for cell, column in zip(row, table.columns, strict=False)]
        for row in table.rows
    )
    body = "".join(f"<tr>{''.join(cells)}</tr>" for cells in rows)
    return f"<table><thead><tr>{''.join(heads)}</tr></thead><tbody>{body}</tbody></table>"


def fragment(*parts: str) -> str:
    """Return a fragment of HTML with its own style, for display in notebooks; none of its text is a formula."""
    return f'<div class="sluice {_NO_FORMULAS}"><style>{STYLE}</style>{"".join(parts)}</div>'


def _cell(cell: Cell, column: Column, text: str) -> str:
    names = ["number" if column.right else "" if column.wraps else "name", cell.tone or ""]
    classes = " ".join(filter(None, names))
    return f'<td class="{classes}">{text}</td>' if classes else f"<td>{text}</td>"
