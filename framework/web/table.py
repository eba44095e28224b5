"""A table as HTML, and the style that pages and notebooks share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from framework.web.theme import BAD, FONT, GOOD

STYLE = (
    f".sluice{{font-family:{FONT};font-size:14px;line-height:1.45}}"
    ".sluice table{border-collapse:collapse;margin:.6em 0;font-size:13px}"
    ".sluice th{text-align:left;font-weight:600;border-bottom:1.5px solid rgba(127,138,150,.6)}"
    ".sluice th,.sluice td{padding:5px 14px 5px 0;vertical-align:top}"
    ".sluice td{border-bottom:1px solid rgba(127,138,150,.25);text-align:left}"
    ".sluice td.number,.sluice th.number{text-align:right;font-variant-numeric:tabular-nums}"
    ".sluice td.name{white-space:nowrap}.sluice td.number{padding-right:28px}.sluice th.number{padding-right:28px}"
    f".sluice .quiet{{opacity:.65}}.sluice .bad{{color:{BAD};font-weight:600}}.sluice .good{{color:{GOOD}}}"
    ".sluice code{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:12px}"
    ".sluice .picture,.sluice .rows{overflow-x:auto;padding:4px 0}"
    ".sluice .rows td{white-space:pre;font-variant-numeric:tabular-nums}"
    f".sluice .error{{white-space:pre-wrap;margin:.6em 0;padding:8px 12px;border-left:3px solid {BAD};"
    "background:rgba(209,69,59,.08);font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:12px}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Text, and what it looks like: any of `quiet`, `bad`, `good`, `number`, `name`."""

    text: str
    look: str = ""


def html_table(columns: Sequence[str], rows: Sequence[Sequence[Cell | str]]) -> str:
    """A `<table>`; all text is escaped; a column of numbers is one whose first cell looks like one."""
    numbers = [isinstance(cell, Cell) and "number" in cell.look for cell in rows[0]] if rows else []
    heads = [
        f'<th class="number">{escape(column)}</th>' if number else f"<th>{escape(column)}</th>"
        for column, number in zip(columns, numbers or [False] * len(columns), strict=True)
    ]
    body = "".join(f"<tr>{''.join(_cell(cell) for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{''.join(heads)}</tr></thead><tbody>{body}</tbody></table>"


def fragment(*parts: str) -> str:
    """A piece of HTML that carries its own style, as a notebook shows it."""
    return f'<div class="sluice"><style>{STYLE}</style>{"".join(parts)}</div>'


def _cell(cell: Cell | str) -> str:
    if isinstance(cell, str):
        return f"<td>{escape(cell)}</td>"
    return f'<td class="{escape(cell.look)}">{escape(cell.text)}</td>' if cell.look else f"<td>{escape(cell.text)}</td>"
