"""Colours and shapes of the pictures, shared by SVG, page and legend.

Boxes are opaque and have their own text colour. Lines and texts on the page's background have a medium
tone, so that a picture is readable on white and on black in any theme. In a dark theme the boxes are dark.
"""

from __future__ import annotations

from dataclasses import dataclass

from framework.diagrams.picture import NodeKind, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Tone:
    """The colours of one kind of node: fill, border and text."""

    fill: str
    border: str
    text: str


LIGHT = {
    NodeKind.STREAMING_TABLE: Tone(fill="#e8f1ff", border="#2f7de1", text="#0b3a78"),
    NodeKind.MATERIALIZED_VIEW: Tone(fill="#f1ebff", border="#8457e0", text="#43208a"),
    NodeKind.TEMPORARY_VIEW: Tone(fill="#eef1f5", border="#7a8797", text="#33404f"),
    NodeKind.SINK: Tone(fill="#fff3da", border="#cf8a0b", text="#6d4500"),
    NodeKind.EXTERNAL: Tone(fill="#ffffff", border="#7a8797", text="#4a5767"),
    NodeKind.FLOW: Tone(fill="#ffffff", border="#9aa6b4", text="#3b4857"),
}
DARK = {
    NodeKind.STREAMING_TABLE: Tone(fill="#10284a", border="#4c94f0", text="#cfe3ff"),
    NodeKind.MATERIALIZED_VIEW: Tone(fill="#2a1d4d", border="#a283f0", text="#e4d9ff"),
    NodeKind.TEMPORARY_VIEW: Tone(fill="#252c36", border="#8f9cad", text="#d5dce6"),
    NodeKind.SINK: Tone(fill="#3f2c08", border="#dba13a", text="#ffe3b0"),
    NodeKind.EXTERNAL: Tone(fill="#161b22", border="#8f9cad", text="#b6c1cf"),
    NodeKind.FLOW: Tone(fill="#1c232c", border="#6d7a8a", text="#c4ceda"),
}
FLOW_LINE = "#5a8fd6"
BATCH_LINE = "#8a95a3"
ON_PAGE = "#77828f"
GOOD, BAD, WARNING = "#2c9a5b", "#d1453b", "#b5770a"
FONT = 'ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'

ICONS = {
    NodeKind.STREAMING_TABLE: "M1 4q2.5-2.6 5 0t5 0M1 8q2.5-2.6 5 0t5 0M1 12q2.5-2.6 5 0t5 0",
    NodeKind.MATERIALIZED_VIEW: "M1 2.5h11v10.500h-11zM1 6h11M4.7 6v7M8.3 6v7",
    NodeKind.TEMPORARY_VIEW: "M.5 7.500q6-8 12 0q-6 8-12 0zM6.5 5.600a1.9 1.9 0 1 0 .01 0z",
    NodeKind.SINK: "M6.5 1v7.500M3.5 5.800l3 3 3-3M1 9.500v3.500h11v-3.5",
    NodeKind.EXTERNAL: "M1.5 3.500a5 2.2 0 0 1 10 0a5 2.2 0 0 1-10 0v8a5 2.2 0 0 0 10 0v-8",
}

BADGES = {
    Outcome.GOOD: "M-3.4 .2L-1 2.700L3.5-2.6",
    Outcome.BAD: "M-2.7-2.700L2.7 2.700M2.7-2.700L-2.7 2.7",
    Outcome.UNCHANGED: "M-3.3 0H3.3",
    Outcome.RUNNING: "M-1.6-3L2.9 0L-1.6 3z",
}


def css_class(kind: NodeKind) -> str:
    """Return the CSS class of the elements of a kind of node."""
    return "sluice-" + kind.name.lower().replace("_", "-")


def svg_style() -> str:
    """Return the style sheet of the pictures, for light and for dark themes."""
    shapes = (
        f".sluice-graph text{{font-family:{FONT};font-size:13px;white-space:pre}}"
        ".sluice-graph .title{font-weight:600}"
        ".sluice-graph .note{font-size:11px;opacity:.82}"
        ".sluice-graph .label text{font-size:11px}"
        ".sluice-graph rect{stroke-width:1.3}"
        ".sluice-graph .icon{fill:none;stroke-width:1.3;stroke-linecap:round;stroke-linejoin:round}"
        f".sluice-graph .good circle{{fill:{GOOD}}}.sluice-graph .bad circle{{fill:{BAD}}}"
        f".sluice-graph .unchanged circle{{fill:{BATCH_LINE}}}.sluice-graph .running circle{{fill:{FLOW_LINE};"
        "animation:sluice-running 1s ease-in-out infinite alternate}@keyframes sluice-running{to{opacity:.45}}"
        ".sluice-graph .badge path{fill:none;stroke:#fff;stroke-width:1.8;stroke-linecap:round;stroke-linejoin:round}"
        ".sluice-external rect{stroke-dasharray:5 3.5}"
        ".sluice-graph .edge{fill:none;stroke-width:1.5}"
        f".sluice-graph .batch{{stroke:{BATCH_LINE}}}.sluice-graph .stream{{stroke:{FLOW_LINE}}}"
        f".sluice-graph .legend text{{font-size:11px;fill:{ON_PAGE}}}"
    )
    return f"{shapes}{_tones(LIGHT)}@media (prefers-color-scheme:dark){{{_tones(DARK)}}}"


def _tones(tones: dict[NodeKind, Tone]) -> str:
    return "".join(
        f".{css_class(kind)} rect{{fill:{tone.fill};stroke:{tone.border}}}"
        f".{css_class(kind)} text{{fill:{tone.text}}}"
        f".{css_class(kind)} .icon{{stroke:{tone.border}}}"
        for kind, tone in tones.items()
    )
