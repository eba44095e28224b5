"""The HTML page of a dataflow: its picture and a table of its datasets, in one file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from framework.diagrams.picture import column_count, flow_label, picture_of
from framework.diagrams.sources import sources_of
from framework.diagrams.svg import svg
from framework.diagrams.theme import BAD, FONT, GOOD
from framework.foundation.names import ShortNames
from framework.foundation.wording import counted
from framework.graph.graph import DataflowGraph, GraphDataset

_PAGE_STYLE = (
    ":root{color-scheme:light dark}"
    "body{margin:0;padding:28px 36px;background:#fff;color:#1c2530}"
    "h1{font-size:22px;margin:0 0 2px}h2{font-size:15px;margin:26px 0 0}p{margin:0 0 14px}"
    "@media (prefers-color-scheme:dark){body{background:#0d1117;color:#dbe2ea}}"
)
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
COLUMNS = ("dataset", "kind", "flows", "reads", "columns", "expectations", "declared at", "comment")


def graph_page(graph: DataflowGraph) -> str:
    """A complete HTML document without scripts or external files; all text is escaped."""
    name = escape(graph.pipeline)
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{name} · Sluice</title><style>{STYLE}{_PAGE_STYLE}</style></head>",
        f'<body class="sluice"><h1>{name}</h1><p class="quiet">{escape(graph_summary(graph))}</p>',
        f'<div class="picture">{svg(picture_of(graph))}</div>',
        f"<h2>Datasets</h2>{datasets_table(graph)}</body></html>",
    ]
    return "\n".join(parts) + "\n"


def graph_summary(graph: DataflowGraph) -> str:
    """The numbers of datasets, flows and external tables, and the common prefix of all names."""
    prefix = ShortNames.of(dataset.name for dataset in graph.datasets).prefix
    words = [counted(len(graph.datasets), "dataset"), counted(len(graph.flows), "flow")]
    if graph.external:
        words.append(counted(len(graph.external), "table read from outside", "tables read from outside"))
    return " · ".join([*words, *([f"names in {prefix}"] if prefix else [])])


def datasets_table(graph: DataflowGraph) -> str:
    """A table with a row per dataset, in topological order."""
    return html_table(COLUMNS, dataset_rows(graph))


def dataset_rows(graph: DataflowGraph) -> list[tuple[Cell | str, ...]]:
    """A row per dataset with the cells of `COLUMNS`, in topological order."""
    short = ShortNames.of(dataset.name for dataset in graph.datasets)
    datasets = [graph.dataset(name) for name in graph.order()]
    return [_row(graph, dataset, short) for dataset in datasets if dataset is not None]


def _row(graph: DataflowGraph, dataset: GraphDataset, short: ShortNames) -> tuple[Cell | str, ...]:
    flows = graph.flows_into(dataset.name)
    labels = [label for label in (flow_label(flow, short).text for flow in flows) if label]
    reads = [source.title(short) for flow in flows for source in sources_of(graph, flow)]
    expectations = [f"{entry.name} ({entry.action.value})" for entry in dataset.spec.expectations]
    count = column_count(dataset)
    return (
        Cell(text=short(dataset.name), look="name"),
        Cell(text=dataset.kind.value.replace("_", " "), look="name"),
        "; ".join(labels),
        ", ".join(dict.fromkeys(reads)),
        Cell(text="" if count is None else str(count), look="number"),
        ", ".join(expectations),
        Cell(text=str(dataset.spec.location or ""), look="quiet"),
        dataset.spec.comment or "",
    )


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
    """Text and its CSS classes: any of `quiet`, `bad`, `good`, `number`, `name`."""

    text: str
    look: str = ""


def html_table(columns: Sequence[str], rows: Sequence[Sequence[Cell | str]]) -> str:
    """A `<table>` with escaped text; a column is numeric if its first cell has the class `number`."""
    numbers = [isinstance(cell, Cell) and "number" in cell.look for cell in rows[0]] if rows else []
    heads = [
        f'<th class="number">{escape(column)}</th>' if number else f"<th>{escape(column)}</th>"
        for column, number in zip(columns, numbers or [False] * len(columns), strict=True)
    ]
    body = "".join(f"<tr>{''.join(_cell(cell) for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{''.join(heads)}</tr></thead><tbody>{body}</tbody></table>"


def fragment(*parts: str) -> str:
    """A fragment of HTML with its own style, for display in notebooks."""
    return f'<div class="sluice"><style>{STYLE}</style>{"".join(parts)}</div>'


def _cell(cell: Cell | str) -> str:
    if isinstance(cell, str):
        return f"<td>{escape(cell)}</td>"
    return f'<td class="{escape(cell.look)}">{escape(cell.text)}</td>' if cell.look else f"<td>{escape(cell.text)}</td>"
