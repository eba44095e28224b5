"""The dashboard and the alert rules that ship are valid PromQL over the metrics that the collector has."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

import framework.operations.metrics
from framework.operations.metrics.collector import PipelineSample, Sample, ServerSample, SluiceCollector
from framework.operations.metrics.event_counts import PipelineCounts

FOLDER = Path(framework.operations.metrics.__path__[0])
RULES = yaml.safe_load((FOLDER / "alerts.yml").read_text("utf-8"))["groups"][0]["rules"]
BOARD: dict[str, Any] = json.loads((FOLDER / "grafana.json").read_text("utf-8"))
EXPRESSIONS = [
    *((rule["alert"], rule["expr"]) for rule in RULES),
    *((panel["title"], target["expr"]) for panel in BOARD["panels"] for target in panel["targets"]),
]
SERVER = ServerSample(version="", pipelines=0, engines_running=0, engines_queued=0, engines_most=0, streams=0)


def families() -> dict[str, tuple[str, frozenset[str]]]:
    """The type and the labels of each family of the collector, by the name of its samples."""
    sample = Sample(pipelines=[PipelineSample(name="shop", state="IDLE", counts=PipelineCounts("shop"))], server=SERVER)
    found = {}
    for family in SluiceCollector(lambda: sample).collect():
        suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}.get(family.type, ("",))
        labels = frozenset(getattr(family, "_labelnames"))  # noqa: B009 - the client has no public name for it
        for suffix in suffixes:
            found[family.name + suffix] = (family.type, labels | ({"le"} if suffix == "_bucket" else set()))
    return found


def selectors(expression: str) -> list[tuple[str, frozenset[str]]]:
    """The metrics of an expression with the labels that their selectors name."""
    found = []

    def visit(node: Any) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            found.append((str(node.name), frozenset(each.name for each in node.matchers.matchers)))
        for name in ("expr", "lhs", "rhs", "vector_selector", "args", "param"):
            child = getattr(node, name, None)
            for each in child if isinstance(child, list) else [child]:
                if each is not None and not isinstance(each, str):
                    visit(each)

    visit(promql_parser.parse(expression.replace("$pipeline", "shop")))
    return found


@pytest.mark.parametrize(("title", "expression"), EXPRESSIONS)
def test_expressions_are_promql_over_metrics_that_exist(title: str, expression: str) -> None:
    """Prometheus' grammar accepts them, and each metric has the labels that they select."""
    known, found = families(), selectors(expression)
    assert found, title
    assert [] == [(name, labels) for name, labels in found if name not in known or not labels <= known[name][1]]


@pytest.mark.parametrize("expression", ["sum by (", "sluice_nothing > 0", 'sluice_update_total{colour="red"}'])
def test_a_wrong_expression_is_found(expression: str) -> None:
    """The check itself fails for a wrong grammar, metric or label."""
    with pytest.raises((ValueError, AssertionError)):
        test_expressions_are_promql_over_metrics_that_exist("wrong", expression)


def test_labels_in_texts_are_those_of_the_metrics() -> None:
    """`$labels.x` of an annotation, and `{{x}}` of a legend, name labels that the samples have."""
    known = families()
    allowed = {"instance"}  # Prometheus adds it
    for rule in RULES:
        labels = {label for name, _ in selectors(rule["expr"]) for label in known[name][1]} | allowed
        texts = " ".join(rule["annotations"].values())
        assert set(re.findall(r"\$labels\.(\w+)", texts)) <= labels, rule["alert"]
    for panel in BOARD["panels"]:
        for target in panel["targets"]:
            labels = {label for name, _ in selectors(target["expr"]) for label in known[name][1]}
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= labels, panel["title"]


def test_the_dashboard_shows_every_metric() -> None:
    """And the rules name only conditions and alerts once."""
    shown = {name for _, expression in EXPRESSIONS for name, _ in selectors(expression)}
    names = {re.sub(r"_(bucket|count|sum)$", "", name) for name in families()} - {"sluice_server_info"}
    assert names == {re.sub(r"_(bucket|count|sum)$", "", name) for name in shown}
    assert len(RULES) == len({rule["alert"] for rule in RULES})
    assert len(BOARD["panels"]) == len({panel["id"] for panel in BOARD["panels"]})
