"""A page about a dataflow: its picture and a table of its datasets, in one file."""

from __future__ import annotations

from html import escape

from framework.foundation.short_names import ShortNames
from framework.foundation.wording import counted
from framework.graph.graph import DataflowGraph, GraphDataset
from framework.web.picture import column_count, flow_label, picture_of
from framework.web.sources import sources_of
from framework.web.svg import svg
from framework.web.table import STYLE, Cell, html_table

_PAGE_STYLE = (
    ":root{color-scheme:light dark}"
    "body{margin:0;padding:28px 36px;background:#fff;color:#1c2530}"
    "h1{font-size:22px;margin:0 0 2px}h2{font-size:15px;margin:26px 0 0}p{margin:0 0 14px}"
    "@media (prefers-color-scheme:dark){body{background:#0d1117;color:#dbe2ea}}"
)
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
COLUMNS = ("dataset", "kind", "flows", "reads", "columns", "expectations", "declared at", "comment")


def graph_page(graph: DataflowGraph) -> str:
    """A whole HTML document without scripts or files from elsewhere; all text is escaped."""
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
    """How many datasets, flows and sources outside there are, and what all names begin with."""
    prefix = ShortNames.of(dataset.name for dataset in graph.datasets).prefix
    words = [counted(len(graph.datasets), "dataset"), counted(len(graph.flows), "flow")]
    if graph.external:
        words.append(counted(len(graph.external), "table read from outside", "tables read from outside"))
    return " · ".join([*words, *([f"names in {prefix}"] if prefix else [])])


def datasets_table(graph: DataflowGraph) -> str:
    """A table with a row per dataset, in the order in which an update does them."""
    return html_table(COLUMNS, dataset_rows(graph))


def dataset_rows(graph: DataflowGraph) -> list[tuple[Cell | str, ...]]:
    """A row per dataset with the cells of `COLUMNS`, in the order in which an update does them."""
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
