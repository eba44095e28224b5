"""The picture of a dataflow after an update: each dataset with the state of its flows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from framework.diagrams.picture import Outcome, Picture, dataset_key, picture_of
from framework.foundation.wording import rows_text
from framework.graph.graph import DataflowGraph
from framework.run.update.results import FlowResult, FlowState

# By precedence: a dataset with several flows has the first of these states that one of them has.
_WORDS = {
    FlowState.FAILED: "failed",
    FlowState.SKIPPED: "skipped",
    FlowState.STOPPED: "stopped",
    FlowState.COMPLETED: "completed",
    FlowState.IDLE: "nothing new",
    FlowState.EXCLUDED: "not selected",
}
OUTCOMES = {
    FlowState.FAILED: Outcome.BAD,
    FlowState.SKIPPED: Outcome.BAD,
    FlowState.STOPPED: Outcome.BAD,
    FlowState.COMPLETED: Outcome.GOOD,
    FlowState.IDLE: Outcome.UNCHANGED,
    FlowState.EXCLUDED: Outcome.UNCHANGED,
}


def outcome_picture(graph: DataflowGraph, flows: Sequence[FlowResult]) -> Picture:
    """The picture of a graph with a badge and a note on the datasets that the flows write to."""
    picture = picture_of(graph)
    by_key: dict[str, list[FlowResult]] = {}
    for flow in flows:
        by_key.setdefault(dataset_key(flow.dataset), []).append(flow)
    nodes = []
    for node in picture.nodes:
        state = _state(by_key.get(node.key, ()))
        if state is not None:
            node = replace(node, outcome=OUTCOMES[state], note=_note(state, by_key[node.key]))  # noqa: PLW2901 - the same node
        nodes.append(node)
    return replace(picture, nodes=tuple(nodes))


def _state(flows: Sequence[FlowResult]) -> FlowState | None:
    states = {flow.state for flow in flows}
    return next((state for state in _WORDS if state in states), None)


def _note(state: FlowState, flows: Sequence[FlowResult]) -> str:
    """The state, and the number of rows that the flows wrote if they completed."""
    if state is not FlowState.COMPLETED:
        return _WORDS[state]
    counted = [flow.rows_written for flow in flows if flow.rows_written is not None]
    upserted, deleted = sum(flow.rows_upserted for flow in flows), sum(flow.rows_deleted for flow in flows)
    text = rows_text(sum(counted) if counted else None, upserted, deleted)
    unit = "" if upserted or deleted else " row" if text == "1" else " rows"
    return f"{_WORDS[state]} · {text}{unit}" if text else _WORDS[state]
