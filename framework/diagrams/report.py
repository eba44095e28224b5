"""The report of a pipeline as one HTML file: without scripts, without files of its own, readable from a mail."""

from __future__ import annotations

from collections.abc import Sequence
from math import log1p

from framework.diagrams.escaping import escape
from framework.diagrams.page import STYLE, html_table
from framework.diagrams.picture import board_picture
from framework.diagrams.svg import svg
from framework.diagrams.theme import BAD, GOOD, WARNING
from framework.foundation.wording import seconds_text
from framework.recovery.doctor.finding import Finding
from framework.views.doctor import finding_table, finding_title, healthy_text
from framework.views.flow_board import FlowBoard, FlowProgress
from framework.views.graph import datasets_table, graph_summary
from framework.views.lag import lag_table
from framework.views.reports.report import MARKS, TONES, Report, attention_text, minute_text
from framework.views.reports.update_record import UpdateRecord

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_MOST_COLUMNS = 30
_MOST_SCALED_NODES = 40
"""A larger graph would be too small to read in the width of the page: it is scrolled."""

_BAR_WIDTH, _BAR_STEP, _STRIP_HEIGHT = 12, 16, 44
_COLOURS = {"good": GOOD, "bad": BAD, "warning": WARNING, "quiet": "#8a95a3"}
_RUNNING = "#2f7de1"
_STYLE = (
    ":root{color-scheme:light dark}"
    "body{margin:0;background:#fff;color:#1c2530}"
    "main{max-width:1180px;margin:0 auto;padding:28px 32px 60px}"
    "h1{font-size:24px;margin:0 0 2px}h2{font-size:16px;margin:34px 0 4px}h3{font-size:14px;margin:16px 0 0}"
    "p{margin:0 0 10px}section{overflow-x:auto}"
    ".pill{display:inline-block;margin:6px 8px 0 0;padding:2px 10px;border-radius:12px;font-size:13px;"
    "border:1px solid rgba(127,138,150,.5)}"
    f".pill.bad{{border-color:{BAD}}}.pill.good{{border-color:{GOOD}}}"
    ".card{margin:10px 0;padding:10px 16px;border:1px solid rgba(127,138,150,.35);border-radius:8px}"
    f".card.finding{{border-left:4px solid {BAD}}}.card.note{{border-left:4px solid {WARNING}}}"
    ".card thead{display:none}.sluice .card td{border:0;padding:2px 18px 2px 0}"
    ".sluice td.number{white-space:pre}"
    "@media (min-width:700px){.picture.scaled svg{max-width:100%;height:auto}}"
    ".sluice .grid td{padding:2px 5px 2px 0;text-align:center!important;border:0;font-size:14px}"
    ".sluice .grid td.name{padding-right:14px;text-align:left!important;font-size:13px}"
    ".sluice .grid th{font-weight:400;font-size:11px;border:0;padding:0}"
    ".strip text{font-size:10px;fill:currentColor;opacity:.65}"
    "@media (prefers-color-scheme:dark){body{background:#0d1117;color:#dbe2ea}}"
    "@media print{h2{break-after:avoid}.card,tr{break-inside:avoid}main{padding:0}}"
)


def report_page(report: Report) -> str:
    """Return a complete HTML document without scripts or external files; all text is escaped."""
    name = escape(report.pipeline)
    made = f"{report.made_at:%Y-%m-%d %H:%M} UTC"
    return "\n".join([
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{name} · Sluice report, {made}</title><style>{STYLE}{_STYLE}</style></head>",
        f'<body class="sluice"><main><h1>{name}</h1>',
        f'<p class="quiet">{escape(report.sentence())} · report of {made}</p>',
        f"<p>{_pills(report)}</p>",
        *(f"<section><h2>{title}</h2>{content}</section>" for title, content in _sections(report) if content),
        "</main></body></html>",
    ]) + "\n"  # fmt: skip


def _sections(report: Report) -> list[tuple[str, str]]:
    board = report.board()
    return [
        ("What is missing here", "".join(f'<div class="card note">{_error(each)}</div>' for each in report.faults)),
        ("Doctor", _doctor(report)),
        ("Graph", _graph(report, board)),
        ("Updates", _updates(report)),
        ("Flows", html_table(board.table(report.made_at)) if board.flows else ""),
        ("Flows by update", _grid(report, board)),
        ("Expectations", _quality(report)),
        ("Lag", html_table(lag_table(report.lag)) if report.lag else ""),
        ("Datasets", "" if report.graph is None else html_table(datasets_table(report.graph))),
    ]


def _pills(report: Report) -> str:
    pills = []
    if report.running is not None:
        pills.append(_pill(f"{MARKS['RUNNING']} {report.running.state}", ""))
    if report.last is not None:
        state = report.last.state
        pills.append(_pill(f"last {MARKS[state]} {state}", str(TONES.get(state, ""))))
    attention = attention_text(report)
    if attention:
        pills.append(_pill(f"! {attention}", "bad"))
    return "".join(pills)


def _pill(text: str, tone: str) -> str:
    return f'<span class="pill {tone}">{escape(text)}</span>'


def _error(text: str) -> str:
    return f'<div class="error">{escape(text)}</div>'


def _doctor(report: Report) -> str:
    found = report.examination
    if found is None:
        return ""
    if not found.findings:
        parts = [f'<p class="good">✓ {escape(healthy_text(report.pipeline, found))}</p>']
    else:
        parts = [_finding(each) for each in found.findings]
    return "".join([*parts, *(f'<p class="warning">{escape(str(each))}</p>' for each in found.quarantined)])


def _finding(finding: Finding) -> str:
    table = html_table(finding_table(finding))
    return f'<div class="card finding"><b>{escape(finding_title(finding))}</b>{table}</div>'


def _graph(report: Report, board: FlowBoard) -> str:
    if report.graph is None:
        return '<p class="quiet">No graph is stored yet: the first validate or update stores one.</p>'
    picture = board_picture(report.graph, board.flows)
    size = "scaled" if len(picture.nodes) <= _MOST_SCALED_NODES else ""
    return f'<p class="quiet">{escape(graph_summary(report.graph))}</p><div class="picture {size}">{svg(picture)}</div>'


def _updates(report: Report) -> str:
    if not report.updates:
        return '<p class="quiet">Never run: the event log has no update.</p>'
    return f"{_strip(report)}{html_table(report.requests_table())}"


def _strip(report: Report) -> str:
    """Return the last requests as bars, oldest first: higher for a longer one, coloured by outcome."""
    requests = report.requests[:_MOST_COLUMNS][::-1]
    longest = max((log1p(each.seconds or 0.0) for each in requests), default=0.0) or 1.0
    bars = []
    for place, request in enumerate(requests):
        state = request.last.state
        height = max(4.0, (_STRIP_HEIGHT - 14) * log1p(request.seconds or 0.0) / longest)
        colour = _COLOURS.get(str(TONES.get(state, "")), _RUNNING)
        title = f"{minute_text(request.created_at)} {state} {seconds_text(request.seconds)}".strip()
        left = place * _BAR_STEP
        bars.append(
            f'<g><title>{escape(title)}</title><rect x="{left}" y="{_STRIP_HEIGHT - 12 - height:.1f}" '
            f'width="{_BAR_WIDTH}" height="{height:.1f}" rx="2" fill="{colour}"/>'
            f'<text x="{left + _BAR_WIDTH / 2}" y="{_STRIP_HEIGHT}" text-anchor="middle">{MARKS.get(state, "●")}</text>'
            "</g>"
        )
    width = max(len(requests) * _BAR_STEP, 1)
    return (
        f'<svg class="strip" role="img" width="{width}" height="{_STRIP_HEIGHT + 2}" '
        f'viewBox="0 0 {width} {_STRIP_HEIGHT + 2}"><title>The last requests by duration and outcome</title>'
        f"{''.join(bars)}</svg>"
    )


def _grid(report: Report, board: FlowBoard) -> str:
    """Return a row for each flow and a column for each of the last updates; empty for a single update."""
    updates = report.updates[-_MOST_COLUMNS:]
    if len(updates) < 2 or not board.flows:
        return ""
    by_flow = [{flow.flow: flow for flow in update.board.flows} for update in updates]
    titles = board.titles()
    rows = []
    for flow in board.flows:
        pairs = zip(by_flow, updates, strict=True)
        cells = "".join(_grid_cell(flows.get(flow.flow), update) for flows, update in pairs)
        rows.append(f'<tr><td class="name">{escape(titles[flow.flow])}</td>{cells}</tr>')
    used = dict.fromkeys(flow.state for each in by_flow for flow in each.values())
    legend = "  ".join(f"{MARKS.get(state, '●')} {state}" for state in used)
    first, last = minute_text(updates[0].created_at), minute_text(updates[-1].created_at)
    return (
        f'<p class="quiet">from {first} to {last} UTC, one column for each update; {escape(legend)}</p>'
        f'<table class="grid"><tbody>{"".join(rows)}</tbody></table>'
    )


def _grid_cell(flow: FlowProgress | None, update: UpdateRecord) -> str:
    if flow is None:
        return "<td></td>"
    words: Sequence[str] = [minute_text(update.created_at), flow.state, flow.rows and f"{flow.rows} rows", flow.reason]
    title = escape(" · ".join(filter(None, words)))
    return f'<td class="{TONES.get(flow.state, "")}" title="{title}">{MARKS.get(flow.state, "●")}</td>'


def _quality(report: Report) -> str:
    table = report.quality_table()
    return html_table(table) if table.rows else ""
