"""Which flows are foretold to fail, and with which ways out, from values alone."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from framework.cdc.model.target_plan import TargetPlan
from framework.checkpoints.operators import StatefulOperator, StoredQuery
from framework.declare.specs import DatasetKind, DatasetSpec, FlowSpec
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow
from framework.plan.foretelling import foretell, ways_out
from framework.plan.planner import make_plan
from framework.plan.request import UpdateRequest
from framework.plan.state import FlowState, StoredState, TableState
from framework.plan.steps import Breakage, RunFlow
from framework.sources.port import Gap

NAME = QualifiedName(catalog="main", schema="s", table="orders")
DEDUPE = StatefulOperator(number=0, name="dedupe", key_types='["long"]')
COUNT = StatefulOperator(number=0, name="stateStoreSave", key_types='["string"]', value_types='["long"]')
TABLE = GraphDataset(
    spec=DatasetSpec(name=NAME, kind=DatasetKind.STREAMING_TABLE), kind=DatasetKind.STREAMING_TABLE, schema="{}"
)
FLOW = GraphFlow(spec=FlowSpec(name=NAME, target=NAME), streaming=True, operators=(), source_count=1)


def state(*operators: StatefulOperator, sources: int | None = 1) -> FlowState:
    """A drained checkpoint with these operators."""
    query = StoredQuery(operators=operators, source_count=sources)
    return FlowState(generation=1, latest=1, drained=True, query=query)


def condition(flow: GraphFlow, stored: FlowState) -> str:
    """The condition that is foretold; "" for none."""
    found = foretell(TABLE, flow, stored)
    return "" if found is None else found.condition


def test_only_certain_failures_are_foretold() -> None:
    """What is unknown on either side is left to Spark."""
    deduped, counted = replace(FLOW, operators=(DEDUPE,)), replace(FLOW, operators=(COUNT,))
    mismatch = "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"
    found = {
        "removed": condition(FLOW, state(DEDUPE)),
        "replaced": condition(counted, state(DEDUPE)),
        "added to a stateless checkpoint": condition(deduped, state()),
        "unchanged": condition(deduped, state(DEDUPE)),
        "key": condition(replace(FLOW, operators=(replace(DEDUPE, key_types='["int"]'),)), state(DEDUPE)),
        "value": condition(replace(FLOW, operators=(replace(COUNT, value_types='["int"]'),)), state(COUNT)),
        "unknown types": condition(replace(FLOW, operators=(replace(DEDUPE, key_types=None),)), state(DEDUPE)),
        "unknown query": condition(replace(FLOW, operators=None), state(DEDUPE)),
        "unknown checkpoint": condition(FLOW, FlowState(generation=1)),
        "sources": condition(FLOW, state(sources=2)),
        "unknown sources": condition(FLOW, state(sources=None)),
        "sources in another order": condition(FLOW, replace(state(), misplaced=("/b (files)", "/a (files)"))),
        "completed once flow": condition(
            replace(FLOW, spec=replace(FLOW.spec, once=True)), replace(state(DEDUPE), completed=True)
        ),
    }
    assert {what: each for what, each in found.items() if each} == {
        "removed": mismatch,
        "replaced": mismatch,
        "added to a stateless checkpoint": "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY",
        "key": "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
        "value": "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
        "sources": "STREAMING_SOURCES_CHANGED",
        "sources in another order": "STREAMING_SOURCES_CHANGED",
    }


def test_a_table_that_is_missing_may_be_created_by_the_same_update() -> None:
    """Only positions that a table has lost are foretold."""
    gaps = [
        Gap(condition=each, location="/t", problem="It is gone.")
        for each in ("DELTA_TABLE_NOT_FOUND", "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE")
    ]
    assert condition(FLOW, replace(state(), gaps=(gaps[0],))) == ""
    found = foretell(TABLE, FLOW, replace(state(), gaps=tuple(gaps), resume=("startingVersion=3",)))
    assert found is not None
    assert (found.condition, found.problem) == (gaps[1].condition, "It is gone. Source: /t.")
    assert "startingVersion=3" not in found.ways


def test_a_flow_that_begins_with_new_rows_only_is_offered_no_way_that_passes_over_unread_ones() -> None:
    """Neither a reset without a start nor a full refresh, which would leave out the rows of the table as well."""
    lost = "STREAMING_CHECKPOINT_MISSING_METADATA_FILE"
    for count, start in ((1, "its source a start"), (2, "each source a start")):
        found = ways_out(lost, TABLE, replace(FLOW, source_count=count), FlowState(generation=1, begins_late=True))
        command = f"sluice run --reset-checkpoint main.s.orders --from {'START' if count == 1 else 'SOURCE:START'}"
        reset = f"give {start} that is not behind unread rows: `{command}`. Rows that are read again repeat."
        assert found == (
            f"Put the files of the checkpoint back, as they were last.\n  -> Or: keep the table, and {reset}"
        )
    starts = ("startingVersion=3",)
    resumed = ways_out("STREAMING_SOURCES_CHANGED", TABLE, FLOW, FlowState(begins_late=True, resume=starts))
    assert ("--from startingVersion=3" in resumed, "full-refresh" in resumed) == (True, False)


def test_the_ways_out_are_commands_with_the_checkpoints_position() -> None:
    """Several sources have their names, and offsets are quoted for a shell."""
    starts = ("main.s.a:startingVersion=3", 'b:offsets={"b":{"0":5}}')
    ways = ways_out("STREAMING_SOURCES_CHANGED", TABLE, FLOW, replace(state(DEDUPE), resume=starts)).splitlines()
    assert ways[0] == "Restore the sources of its query."
    command = "sluice run --reset-checkpoint main.s.orders --from main.s.a:startingVersion=3 --from"
    assert f"""`{command} 'b:offsets={{"b":{{"0":5}}}}'`.""" in ways[1]
    assert ways[2].endswith("`sluice run --full-refresh main.s.orders`.")


def test_a_position_behind_the_table_is_offered_with_the_rows_that_repeat() -> None:
    """The checkpoint is an older copy: an append repeats the batches after it, and AUTO CDC does not."""
    older = replace(state(), deleted=True, resume=("startingVersion=3",))
    lost = "STREAMING_CHECKPOINT_MISSING_METADATA_FILE"
    ways = ways_out(lost, TABLE, FLOW, older).splitlines()
    keyed = ways_out(lost, replace(TABLE, cdc=cast("TargetPlan", object())), FLOW, older).splitlines()
    reset = "`sluice run --reset-checkpoint main.s.orders --from startingVersion=3`."
    assert [line.partition(": ")[2].partition("state: ")[2] for line in (ways[1], keyed[1])] == [
        f"{reset} Rows of the batches that only the table has repeat.", reset
    ]  # fmt: skip


def test_a_checkpoint_from_before_a_reset_offers_neither_its_position_nor_a_roll_back() -> None:
    """Both would repeat rows that the table has of the later checkpoint."""
    older = replace(state(), restarted=True, has_kept=True, resume=("startingVersion=3",))
    found = foretell(TABLE, FLOW, older)
    assert found is not None
    assert found.condition == "STREAMING_CHECKPOINT_MISSING_METADATA_FILE"
    assert ("startingVersion" in found.ways, "rollback" in found.ways, "--from START" in found.ways) == (
        False, False, True
    )  # fmt: skip


def test_a_flow_that_would_fail_is_planned_also_without_new_data() -> None:
    """The step has the breakage, and a reset of the flow replaces it by a new generation."""
    graph = DataflowGraph(pipeline="p", datasets=(TABLE,), flows=(FLOW,))
    stored = StoredState(tables={NAME: TableState(exists=True)}, flows={NAME: state(DEDUPE)})
    broken = [step.broken for step in make_plan(graph, UpdateRequest(), stored).steps if isinstance(step, RunFlow)]
    assert [isinstance(each, Breakage) for each in broken] == [True]
    again = make_plan(graph, UpdateRequest(reset_checkpoints=(NAME,)), stored)
    assert [step.broken for step in again.steps if isinstance(step, RunFlow)] == [None]


def test_a_roll_back_is_advised_as_the_command_line_takes_it() -> None:
    """One that repeats rows says so, needs the permission, and comes after the reset."""
    damaged = "STREAMING_CHECKPOINT_MISSING_METADATA_FILE"

    def ways(stored: FlowState) -> list[str]:
        return [line.removeprefix("Or: ") for line in ways_out(damaged, TABLE, FLOW, stored).split("\n  -> ")]

    command = f"sluice checkpoints rollback {NAME} --target {NAME}"
    first, reset, *others = ways(state())
    assert first == "Put the files of the checkpoint back, as they were last."
    assert ways(replace(state(), has_kept=True)) == [
        first, f"continue from a kept generation: `{command}`.", reset, *others
    ]  # fmt: skip
    repeated = f"continue from a kept generation: `{command} --allow-repeats`. Rows that were read since repeat."
    assert ways(replace(state(), has_kept=True, repeats=True)) == [first, reset, repeated, *others]
