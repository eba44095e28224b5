"""Drawings in SVG, Mermaid, DOT and HTML: well-formed, complete and safe."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest

from framework.diagrams.dot import dot
from framework.diagrams.layout import LONGEST_TITLE, TITLE_SIZE, lay_out, shorten, text_width
from framework.diagrams.mermaid import mermaid
from framework.diagrams.notebook import board_html, graph_html, plan_html
from framework.diagrams.page import graph_page
from framework.diagrams.picture import Node, NodeKind, Picture, picture_of
from framework.diagrams.svg import svg
from framework.diagrams.theme import DARK, LIGHT, ON_PAGE
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph
from framework.plan.steps import Plan, SkipStep
from framework.views.flow_board import FlowBoard

NAMESPACE = "{http://www.w3.org/2000/svg}"


class Elements(HTMLParser):
    """Collects the elements and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the element."""
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        """Note the text."""
        self.words.append(data)


def luminance(colour: str) -> float:
    """The relative luminance of a `#rrggbb` colour, as WCAG defines it."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours, from 1 to 21."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_the_svg_has_every_box_and_label(flights_graph: DataflowGraph) -> None:
    """All titles, notes and flow labels are texts of the SVG, and its size is that of its view box."""
    root = ET.fromstring(svg(picture_of(flights_graph)))  # noqa: S314 - our own drawing
    texts = [element.text for element in root.iter(f"{NAMESPACE}text")]
    for expected in (
        "schedule",
        "streaming table · 19 columns",
        "snapshot · AUTO CDC · once",
        "alerting",
        "ref.schedule",
    ):
        assert texts.count(expected) == 1
    assert root.attrib["viewBox"].split()[2:] == [root.attrib["width"], root.attrib["height"]]


def test_a_graph_always_has_the_same_drawing(flights_graph: DataflowGraph) -> None:
    """A drawing in a repository changes only if the dataflow changes."""
    assert svg(picture_of(flights_graph)) == svg(picture_of(flights_graph))


def test_an_external_source_is_dashed(flights_graph: DataflowGraph) -> None:
    """External sources have the class whose rectangles are dashed."""
    text = svg(picture_of(flights_graph))
    assert ".sluice-external rect{stroke-dasharray:" in text
    assert text.count('class="node sluice-external"') == 2


@pytest.mark.parametrize("tones", [LIGHT, DARK])
def test_text_in_boxes_has_contrast(tones: dict[object, object]) -> None:
    """The contrast of each kind's text and box meets the accessibility rules."""
    assert {kind: contrast(tone.text, tone.fill) >= 4.5 for kind, tone in tones.items()} == dict.fromkeys(tones, True)  # type: ignore[attr-defined]


def test_text_without_a_box_is_readable_on_white_and_on_black() -> None:
    """The legend's colour has contrast with a white and with a dark page."""
    assert contrast(ON_PAGE, "#ffffff") >= 3.5
    assert contrast(ON_PAGE, "#0d1117") >= 3.5


def test_names_can_not_become_markup(hostile_graph: DataflowGraph) -> None:
    """Names with markup are text in the SVG, the page and the notebook."""
    root = ET.fromstring(svg(picture_of(hostile_graph)))  # noqa: S314 - our own drawing
    assert not [element for element in root.iter() if element.tag == f"{NAMESPACE}script"]
    for html in (graph_page(hostile_graph), graph_html(hostile_graph)):
        page = Elements(html)
        assert "script" not in page.tags
        assert '</title><script>alert("x")</script>&"\\' in page.words


def test_no_text_in_a_notebook_is_a_formula(hostile_graph: DataflowGraph) -> None:
    r"""Of `$\href{javascript:...}{x}$` MathJax makes a link that runs a script: its classes exclude all displays."""
    plan, board = Plan(pipeline="$x$", steps=()), FlowBoard(update_id="$x$")
    for html in (graph_html(hostile_graph), plan_html(plan), board_html(board, datetime(2026, 1, 1, tzinfo=UTC))):
        assert Elements(html).attributes[0] == ("class", "sluice tex2jax_ignore mathjax_ignore")


def test_texts_keep_their_spaces(hostile_graph: DataflowGraph) -> None:
    """Two names that differ only in the number of spaces are displayed as two."""
    page = graph_page(hostile_graph)
    assert ".sluice td.name{white-space:pre}" in page
    assert ".sluice td,.sluice th,.sluice h1,.sluice b,.sluice .quiet{white-space:pre-wrap}" in page
    assert re.search(r"\.sluice-graph text\{[^}]*;white-space:pre\}", page)


def test_a_title_is_measured_with_its_escapes() -> None:
    """A control character is shown as an escape, which has the width of its letters; Mermaid draws no other one."""
    node = Node(key="k", kind=NodeKind.EXTERNAL, title="\u202e" * 6)
    picture = Picture(title="t", nodes=(node,), edges=())
    assert shorten(node.title, LONGEST_TITLE) == r"\u202e" * 6
    assert shorten(node.title, 11) == "\\u202…u202e"
    assert lay_out(picture).width > text_width(r"\u202e" * 6, TITLE_SIZE)
    assert "#8238;" not in mermaid(picture)


def test_the_page_loads_no_external_resource(flights_graph: DataflowGraph) -> None:
    """The page has no script and no address of a resource, and forbids both."""
    page = Elements(graph_page(flights_graph))
    assert not {"script", "link", "iframe", "img"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name in {"src", "href", "data"} or name.startswith("on")]
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in page.attributes


def test_the_page_lists_datasets_in_order_of_update(flights_graph: DataflowGraph) -> None:
    """The table has a row per dataset, its expectations and where it was declared."""
    rows = re.findall(r'<td class="name">(\w+)</td><td class="name">([\w ]+)</td>', graph_page(flights_graph))
    assert sorted(rows) == [
        ("alerts", "sink"),
        ("delays", "materialized view"),
        ("events", "temporary view"),
        ("flights", "streaming table"),
        ("schedule", "temporary view"),
    ]
    names = [row[0] for row in rows]
    assert names.index("schedule") < names.index("flights") < names.index("delays")
    words = Elements(graph_page(flights_graph)).words
    assert "has_id (drop)" in words
    assert "transformations/flights.py:7" in words


def test_mermaid_has_character_codes_for_syntax_in_names(hostile_graph: DataflowGraph) -> None:
    """Characters that may be syntax in Mermaid or HTML are encoded."""
    labels = re.findall(r'"([^"]*)"', mermaid(picture_of(hostile_graph)))
    assert len(labels) == 3
    assert not [
        label for label in labels if re.search(r"[<>&\"\\]", label.replace("<br><small>", "").replace("</small>", ""))
    ]


def test_dot_escapes_names(hostile_graph: DataflowGraph) -> None:
    """Quotes and backslashes in names are escaped."""
    text = dot(picture_of(hostile_graph))
    assert 'label="</title><script>alert(\\"x\\")</script>&\\"\\\\' in text


def test_a_plan_is_html_in_a_notebook() -> None:
    """`_repr_html_` of a plan has its steps with their reasons, escaped."""
    name = QualifiedName(catalog="main", schema="flights", table="<b>")
    plan = Plan(pipeline="flights", steps=(SkipStep(dataset=name, flow=None, reason="nothing & nobody"),))
    html = plan._repr_html_()
    assert html is not None
    assert '<td class="quiet">&lt;b&gt;</td><td class="quiet">nothing &amp; nobody</td>' in html
