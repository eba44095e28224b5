"""The display of graphs, plans and results in a notebook and at a prompt."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from framework.diagrams.picture import Outcome, outcome_picture
from framework.foundation.errors import OperationError
from framework.foundation.names import QualifiedName
from framework.plan.steps import Plan, SkipStep
from framework.run.update.results import FlowResult, FlowState, UpdateResult, UpdateState

if TYPE_CHECKING:
    from framework.graph.graph import DataflowGraph

ERROR = OperationError("FLOW_FAILED", flow="main.flights.delays", cause="<b>no</b>")


def flow(name: str, into: str, state: FlowState, reason: str = "", **counts: int) -> FlowResult:
    """The result of a flow."""
    return FlowResult(
        flow=QualifiedName(catalog="main", schema="flights", table=name),
        dataset=QualifiedName(catalog="main", schema="flights", table=into),
        state=state,
        reason=reason,
        error=ERROR if state is FlowState.FAILED else None,
        rows_written=counts.get("written"),
        rows_upserted=counts.get("upserted", 0),
    )


FLOWS = (
    flow("snapshot", "flights", FlowState.IDLE, "nothing new"),
    flow("changes", "flights", FlowState.COMPLETED, upserted=1204),
    flow("delays", "delays", FlowState.FAILED),
    flow("alerting", "alerts", FlowState.SKIPPED, "delays failed"),
)


def result(graph: DataflowGraph | None) -> UpdateResult:
    """An update with one flow of each state."""
    return UpdateResult(update_id="u-1", state=UpdateState.FAILED, flows=FLOWS, duration_seconds=3.25, graph=graph)


def test_the_picture_of_a_result_has_the_state_of_each_dataset(flights_graph: DataflowGraph) -> None:
    """The worst state of its flows and the written rows; views and sources have no state."""
    picture = outcome_picture(flights_graph, FLOWS)
    found = {node.title: (node.outcome, node.note) for node in picture.nodes if node.outcome is not None}
    assert found == {
        "flights": (Outcome.GOOD, "completed · 1,204 upserted"),
        "delays": (Outcome.BAD, "failed"),
        "alerts": (Outcome.BAD, "skipped"),
    }


def test_rows_of_several_flows_into_one_table_are_added_up(flights_graph: DataflowGraph) -> None:
    """The note has the sum of the rows, and only the state if no flow counts rows."""
    notes = []
    for flows in (
        (flow("a", "delays", FlowState.COMPLETED, written=1),),
        (flow("a", "delays", FlowState.COMPLETED, written=2), flow("b", "delays", FlowState.COMPLETED, written=3)),
        (flow("a", "delays", FlowState.COMPLETED),),
        (flow("a", "delays", FlowState.EXCLUDED),),
    ):
        picture = outcome_picture(flights_graph, flows)
        notes += [node.note for node in picture.nodes if node.title == "delays"]
    assert notes == ["completed · 1 row", "completed · 5 rows", "completed", "not selected"]


def test_a_result_has_its_picture_its_flows_and_its_errors(flights_graph: DataflowGraph) -> None:
    """Badges in the picture, a row per flow, and each error as its escaped paragraph."""
    html = result(flights_graph)._repr_html_()
    assert html is not None
    assert re.findall(r'class="badge (\w+)"', html) == ["good", "bad", "bad"]
    assert re.findall(r'<td class="name">(.*?)</td>', html) == [
        "snapshot into flights", "changes into flights", "delays", "alerting into alerts"
    ]  # fmt: skip
    assert "<b>no</b>" not in html
    assert '<div class="error">[FLOW_FAILED] Flow main.flights.delays failed: &lt;b&gt;no&lt;/b&gt;\n' in html


def test_values_at_a_prompt_are_aligned_text(flights_graph: DataflowGraph) -> None:
    """A result, a plan and a graph print as aligned text."""
    assert repr(result(None)).splitlines()[:7] == [
        "FAILED in 3.2 s (update u-1)",
        "",
        "flow                   state                rows  reason",
        "─────────────────────  ─────────  ──────────────  ─────────────",
        "snapshot into flights  IDLE                       nothing new",
        "changes into flights   COMPLETED  1,204 upserted",
        "delays                 FAILED",
    ]
    assert repr(result(None)).endswith(ERROR.render())
    skip = SkipStep(dataset=FLOWS[0].dataset, flow=None, reason="nothing new")
    assert repr(Plan(pipeline="p", steps=(skip,))) == (
        "Plan of p (names in main.flights)\n\n  skip  flights  nothing new\n\nNothing to do, 1 skipped."
    )
    assert str(flights_graph).splitlines()[:5] == [
        "flights: 5 datasets · 6 flows · 1 external table · names in main.flights",
        "",
        "dataset   kind               flows                                           reads             columns",
        "────────  ─────────────────  ──────────────────────────────────────────────  ────────────────  ───────",
        "schedule  temporary view                                                     ref.schedule            9",
    ]
