"""The planner decides from values alone: graph + request + stored state in, steps out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from framework.declare.specs import AutoCdcSpec, ColumnSelection, DatasetKind, DatasetSpec, FlowSpec
from framework.foundation.errors import RequestErrors, UserError
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow, Read
from framework.plan.continuous import rebuild_steps, supervised_steps
from framework.plan.explainer import explain, plan_json
from framework.plan.history import ALL_COLUMNS
from framework.plan.planner import make_plan
from framework.plan.request import UpdateRequest
from framework.plan.state import FlowState, StateFault, StoredState, TableState
from framework.plan.steps import (
    BeginGeneration,
    CreateTable,
    KeepStored,
    PublishRebuild,
    RefreshView,
    RefuseTable,
    RunFlow,
    SkipStep,
    Step,
    refusals,
)
from framework.schema.change import ColumnChange, SchemaChange
from framework.schema.lattice import TABLE
from framework.sources.starts import SourceStart


def name(table: str) -> QualifiedName:
    """The full name of a table of the tests' one schema."""
    return QualifiedName(catalog="main", schema="s", table=table)


RAW, CLEAN, TOTALS, SEED = name("raw"), name("clean"), name("totals"), name("seed")


def a_graph(*, reset_allowed: bool = True) -> DataflowGraph:
    """Raw (a stream from outside) -> clean (with a once flow `seed`) -> totals (a view)."""
    properties = () if reset_allowed else (("pipelines.reset.allowed", "false"),)

    def table(dataset: QualifiedName, kind: DatasetKind) -> GraphDataset:
        spec = DatasetSpec(name=dataset, kind=kind, table_properties=properties if dataset == RAW else ())
        return GraphDataset(spec=spec, kind=kind, schema="{}", table_schema="{}")

    def flow(flow_name: QualifiedName, target: QualifiedName, *reads: Read, once: bool = False) -> GraphFlow:
        spec = FlowSpec(name=flow_name, target=target, once=once)
        return GraphFlow(spec=spec, reads=reads, streaming=target != TOTALS and not once, fingerprint="code")

    return DataflowGraph(
        pipeline="p",
        datasets=(
            table(RAW, DatasetKind.STREAMING_TABLE),
            table(CLEAN, DatasetKind.STREAMING_TABLE),
            table(TOTALS, DatasetKind.MATERIALIZED_VIEW),
        ),
        flows=(
            flow(RAW, RAW, Read(text="outside", streaming=True)),
            flow(CLEAN, CLEAN, Read(text="raw", streaming=True, dataset=RAW)),
            flow(SEED, CLEAN, once=True),
            flow(TOTALS, TOTALS, Read(text="clean", streaming=False, dataset=CLEAN)),
        ),
    )


def settled(**changes: object) -> StoredState:
    """Return a state in which everything has run and there is no new data."""
    tables = {each: TableState(exists=True, definition="d", computed_from="c") for each in (RAW, CLEAN, TOTALS)}
    flows = {
        RAW: FlowState(generation=1, drained=True, latest=1),
        CLEAN: FlowState(generation=1, drained=True, latest=1),
        SEED: FlowState(generation=1, completed=True, latest=1),
    }
    tables |= {key: value for key, value in changes.items() if isinstance(value, TableState)}  # type: ignore[misc]
    return StoredState(
        tables=tables,
        flows={**flows, **{name(key): value for key, value in changes.items() if isinstance(value, FlowState)}},
        wanted_definitions=dict.fromkeys((RAW, CLEAN, TOTALS), "d"),
        computable_from={TOTALS: changes.get("totals_from", "c")},  # type: ignore[dict-item]
    )


def shape(steps: tuple[Step, ...]) -> list[tuple[str, str]]:
    """Return the steps as (kind, object), which most tests compare."""
    kinds = {
        CreateTable: "create", BeginGeneration: "begin", RunFlow: "run", PublishRebuild: "publish",
        RefreshView: "refresh", SkipStep: "skip",
    }  # fmt: skip
    return [(kinds[type(step)], (getattr(step, "flow", None) or step.dataset).table) for step in steps]


def test_a_first_update_creates_begins_and_runs_everything_inputs_first() -> None:
    """With an empty storage every table is created and every flow starts its first generation."""
    plan = make_plan(a_graph(), UpdateRequest(), StoredState())
    assert shape(plan.steps) == [
        ("create", "raw"), ("begin", "raw"), ("run", "raw"),
        ("create", "clean"), ("begin", "clean"), ("run", "clean"), ("begin", "seed"), ("run", "seed"),
        ("refresh", "totals"),
    ]  # fmt: skip


def test_an_update_with_nothing_new_only_skips_and_says_why() -> None:
    """Drained sources, a finished once flow, and a view with unchanged inputs need no step."""
    plan = make_plan(a_graph(), UpdateRequest(), settled())
    assert [(step.flow, step.reason) for step in plan.steps if isinstance(step, SkipStep)] == [
        (RAW, "no new data to read"),
        (CLEAN, "no new data to read"),
        (SEED, "ran once, in generation 1"),
        (TOTALS, "its inputs and its code have not changed"),
    ]
    assert len(plan.steps) == 4


def test_a_held_flow_is_excluded_with_its_reason() -> None:
    """Neither a first run nor new rows start it, in a continuous update either."""
    for continuous in (False, True):
        plan = make_plan(
            a_graph(),
            UpdateRequest(continuous=continuous),
            settled(raw=FlowState(held="paused"), seed=FlowState(held="x")),
        )
        held = {step.flow: (step.reason, step.excluded) for step in plan.steps if isinstance(step, SkipStep)}
        assert (held[RAW], held[SEED]) == (("paused", True), ("x", True))
        assert RAW not in {step.flow for step in plan.steps if isinstance(step, RunFlow)}


def test_what_reads_a_table_that_may_move_waits_for_it_and_looks_again() -> None:
    """Downstream of new rows, flows and views run with `check`, after their inputs."""
    plan = make_plan(a_graph(), UpdateRequest(), settled(raw=FlowState(generation=1, latest=1)))
    runs = {step.dataset: step for step in plan.steps if isinstance(step, RunFlow | RefreshView)}
    assert {key: (step.after, step.check) for key, step in runs.items()} == {
        RAW: ((), False),
        CLEAN: ((RAW,), True),
        TOTALS: ((CLEAN,), True),
    }


def test_a_view_is_computed_again_when_its_inputs_or_its_code_changed() -> None:
    """The fingerprint of code and inputs differs from the one its rows were computed from."""
    plan = make_plan(a_graph(), UpdateRequest(), settled(totals_from="other"))
    assert shape(plan.steps)[-1] == ("refresh", "totals")


def test_a_view_that_can_t_be_told_unchanged_is_always_computed() -> None:
    """Current time, randomness and data of unknown version have no fingerprint."""
    plan = make_plan(a_graph(), UpdateRequest(), settled(totals_from=None))
    assert shape(plan.steps)[-1] == ("refresh", "totals")


def test_an_unfinished_once_flow_goes_on_in_its_generation() -> None:
    """A once flow runs until it is finished: an interrupted run is continued."""
    plan = make_plan(a_graph(), UpdateRequest(), settled(seed=FlowState(generation=1, latest=1)))
    runs = [step for step in plan.steps if isinstance(step, RunFlow) and step.flow == SEED]
    assert [step.generation for step in runs] == [1]
    assert ("begin", "seed") not in shape(plan.steps)


def test_a_full_refresh_is_built_aside_and_published_last() -> None:
    """The old rows stay: new generations of all flows, once flows too, fill the copy, which is then published."""
    plan = make_plan(a_graph(), UpdateRequest(full_refresh=(CLEAN,)), settled())
    own = [step for step in plan.steps if step.dataset == CLEAN]
    assert shape(tuple(own)) == [
        ("create", "clean"), ("begin", "clean"), ("run", "clean"), ("begin", "seed"), ("run", "seed"),
        ("publish", "clean"),
    ]  # fmt: skip
    rebuilding = (CreateTable, BeginGeneration, RunFlow, PublishRebuild)
    assert {step.rebuild for step in own if isinstance(step, rebuilding)} == {1}
    assert {step.generation for step in own if isinstance(step, BeginGeneration)} == {2}


def test_a_new_generation_names_the_data_that_is_gone() -> None:
    """A full refresh and a reset say what their sources have deleted; an update that goes on does not."""
    gone = settled(raw=FlowState(generation=1, latest=1, removed="2 files of /in were deleted"))
    reasons = [
        step.reason
        for request in (UpdateRequest(full_refresh=(RAW,)), UpdateRequest(reset_checkpoints=(RAW,)), UpdateRequest())
        for step in make_plan(a_graph(), request, gone).steps
        if step.dataset == RAW and isinstance(step, BeginGeneration)
    ]
    ends = [reason.rpartition("; ")[2] for reason in reasons]
    assert ends == ["2 files of /in were deleted: their rows can't be read again"] * 2


def test_a_full_refresh_that_was_cut_short_goes_on_where_it_was() -> None:
    """The next plain update continues the rebuild's generations instead of starting new ones."""
    state = StoredState(
        tables={CLEAN: TableState(exists=True, definition="d", rebuilding=3, last_rebuild=3)},
        flows={
            CLEAN: FlowState(generation=1, building=2, latest=2),
            SEED: FlowState(generation=1, completed=True, latest=1),
        },
    )
    plan = make_plan(a_graph(), UpdateRequest(refresh=(CLEAN,)), state)
    own = [step for step in plan.steps if step.dataset == CLEAN]
    assert [(step.flow, step.generation) for step in own if isinstance(step, RunFlow)] == [(CLEAN, 2), (SEED, 2)]
    assert [step.flow for step in own if isinstance(step, BeginGeneration)] == [SEED]
    assert own[-1] == PublishRebuild(dataset=CLEAN, rebuild=3, reason="all flows of the rebuild have completed")


def test_a_full_refresh_names_the_columns_that_leave_the_table() -> None:
    """A column that a user added to the table is not in the rows that the code computes."""
    state = settled()
    change = SchemaChange(dropped=tuple(ColumnChange(path=(each,), before="string") for each in ("own", "note")))
    wider = replace(state, tables={**state.tables, CLEAN: replace(state.tables[CLEAN], change=change)})
    plan = make_plan(a_graph(), UpdateRequest(full_refresh=(CLEAN,)), wider)
    (create,) = [step for step in plan.steps if isinstance(step, CreateTable) and step.dataset == CLEAN]
    lacks = "the new ones lack columns that the code does not have: own, note"
    assert create.reason == f"full refresh requested; the current rows stay readable; {lacks}"
    assert [step.change for step in plan.steps if isinstance(step, PublishRebuild)] == [change]


def test_a_changed_definition_says_which_columns_a_table_gets() -> None:
    """It keeps columns that the code does not have, and its types become wider if they may; a view has no others."""
    state, graph = settled(), a_graph()
    change = SchemaChange(
        added=(ColumnChange(path=("note",), after="string"),),
        widened=(ColumnChange(path=("n",), before="int", after="bigint"),),
        dropped=(ColumnChange(path=("own",), before="string"),),
    )
    tables = {name: replace(table, definition="old", change=change) for name, table in state.tables.items()}
    tables[RAW] = replace(tables[RAW], change=replace(change, widened=()))
    datasets = tuple(replace(dataset, widens=dataset.name == CLEAN) for dataset in graph.datasets)
    plan = make_plan(replace(graph, datasets=datasets), UpdateRequest(), replace(state, tables=tables))
    changes = {step.dataset: step.change for step in plan.steps if isinstance(step, CreateTable | RefreshView)}
    assert changes == {RAW: change.gained(widens=False), CLEAN: change.gained(widens=True), TOTALS: change}
    reasons = [step.reason for step in explain(plan) if step.action in {"set up table", "refresh view"}]
    assert reasons == [
        "its definition changed; adds note string",
        "its definition changed; adds note string; widens n from int to bigint",
        "its definition changed; adds note string; widens n from int to bigint; drops own",
    ]
    steps: Any = plan_json(plan)["steps"]
    first = next(step["change"] for step in steps if step["dataset"] == str(RAW) and "change" in step)
    added = [{"path": ["note"], "before": None, "after": "string", "was": []}]
    assert first == {"added": added, "widened": [], "renamed": [], "dropped": [], "retyped": []}


def test_a_table_whose_types_do_not_take_the_values_of_its_flows_is_refused() -> None:
    """Delta would cast the values. Wider integers take them, and a full refresh replaces the table, as does a view."""

    def refused(before: str, after: str, *, widens: bool = False, **request: Any) -> list[str]:
        column = ColumnChange(path=("n",), before=before, after=after)
        kind = "widened" if TABLE.wider(before, after) == after else "retyped"
        state, graph = settled(), a_graph()
        tables = {
            name: replace(table, change=SchemaChange(**{kind: (column,)})) for name, table in state.tables.items()
        }
        datasets = tuple(replace(dataset, widens=widens) for dataset in graph.datasets)
        plan = make_plan(replace(graph, datasets=datasets), UpdateRequest(**request), replace(state, tables=tables))
        steps = [step for step in plan.steps if isinstance(step, RefuseTable)]
        assert {step.fault.condition for step in steps if step.fault} <= {"SCHEMA_CANNOT_EVOLVE"}
        return [step.dataset.table for step in steps]

    assert refused("int", "string") == refused("double", "int") == refused("int", "bigint") == ["raw", "clean"]
    assert refused("bigint", "int") == refused("void", "string") == refused("int", "bigint", widens=True) == []
    assert refused("int", "string", full_refresh=(RAW, CLEAN)) == []


def test_columns_that_only_a_running_stream_finds_are_said_to_be_unknown() -> None:
    """No plan can have them: the flow stops for them, and the next plan adds them."""
    state = settled()
    flows = {**state.flows, RAW: replace(state.flows[RAW], drained=False, finds_columns=True)}
    plan = make_plan(a_graph(), UpdateRequest(), replace(state, flows=flows))
    (run,) = [step for step in explain(plan) if step.action == "run flow" and step.what == "raw"]
    assert run.reason == "its sources may have new rows; columns that only its files have are added when it finds them"


def test_a_full_refresh_with_history_says_so_and_keeps_saying_so() -> None:
    """The request's keys are in the step that begins the rebuild; a continued rebuild has its own."""
    request = UpdateRequest(full_refresh=(CLEAN,), keep_history=True, history_keys=ALL_COLUMNS)
    state = settled()
    begun = replace(state.tables[CLEAN], rebuilding=1, last_rebuild=1, keeps_history=True)
    continued = replace(state, tables={**state.tables, CLEAN: begun})
    for plan, history in (
        (make_plan(a_graph(), request, state), ALL_COLUMNS),
        (make_plan(a_graph(), UpdateRequest(refresh=(CLEAN,)), continued), None),
    ):
        (create,) = [step for step in plan.steps if isinstance(step, CreateTable) and step.dataset == CLEAN]
        (publish,) = [step for step in plan.steps if isinstance(step, PublishRebuild)]
        assert create.history == history
        assert create.reason.endswith("; a copy of the table is kept, and the current rows stay readable")
        assert publish.reason.endswith(", and the rows that its sources no longer have are put back")
    # A full refresh without history starts over without it.
    anew = make_plan(a_graph(), UpdateRequest(full_refresh=(CLEAN,)), continued)
    (publish,) = [step for step in anew.steps if isinstance(step, PublishRebuild)]
    assert publish == PublishRebuild(dataset=CLEAN, rebuild=2, reason="all flows of the rebuild have completed")


def test_a_reset_in_the_middle_of_a_full_refresh_is_refused() -> None:
    """The refresh reads everything anew and ends with checkpoints of its own; a new full refresh is possible."""
    state = settled()
    begun = replace(state.tables[CLEAN], rebuilding=1, last_rebuild=1)
    state = replace(state, tables={**state.tables, CLEAN: begun})
    with pytest.raises(UserError, match="FULL_REFRESH_UNFINISHED"):
        make_plan(a_graph(), UpdateRequest(reset_checkpoints=(SEED,)), state)
    plan = make_plan(a_graph(), UpdateRequest(reset_checkpoints=(SEED,), full_refresh=(CLEAN,)), state)
    assert {step.rebuild for step in plan.steps if isinstance(step, PublishRebuild)} == {2}


def test_full_refreshes_of_a_continuous_update_follow_each_other() -> None:
    """A table that reads another waits for its new rows; where a refresh did not end, no flow goes on in the table."""
    plan = make_plan(a_graph(), UpdateRequest(full_refresh=(RAW, CLEAN), continuous=True), settled())
    rebuilt = {step.flow: step.after for step in rebuild_steps(plan).steps if isinstance(step, RunFlow)}
    assert rebuilt == {RAW: (), CLEAN: (RAW,), SEED: ()}
    alone = make_plan(a_graph(), UpdateRequest(full_refresh=(CLEAN,), refresh=(RAW,), continuous=True), settled())
    assert {step.after for step in rebuild_steps(alone).steps if isinstance(step, RunFlow)} == {()}
    assert {step.flow for step in supervised_steps(plan)} == {RAW, CLEAN, SEED}
    assert {step.flow for step in supervised_steps(plan, {CLEAN})} == {RAW}


def test_history_that_cannot_be_kept_is_refused_before_anything_runs() -> None:
    """A view, no table, unknown keys, and keys without history: each condition names its dataset."""
    requests = {
        "HISTORY_NOT_KEPT": UpdateRequest(full_refresh=(TOTALS,), keep_history=True),
        "HISTORY_WITHOUT_TABLE": UpdateRequest(full_refresh_all=True, keep_history=True),
        "HISTORY_KEYS_WITHOUT_HISTORY": UpdateRequest(full_refresh=(CLEAN,), history_keys=("id",)),
        "HISTORY_NEEDS_KEYS": UpdateRequest(full_refresh=(CLEAN,), keep_history=True),
        "HISTORY_KEY_NOT_FOUND": UpdateRequest(full_refresh=(CLEAN,), keep_history=True, history_keys=("id",)),
    }
    found = {}
    for condition, request in requests.items():
        with pytest.raises(UserError) as raised:
            make_plan(a_graph(), request, settled())
        found[condition] = raised.value.condition
    assert found == {condition: condition for condition in requests}


def test_a_reset_begins_a_new_generation_and_keeps_the_rows() -> None:
    """Only the named flow starts again; its table is neither created nor rebuilt."""
    plan = make_plan(a_graph(), UpdateRequest(reset_checkpoints=(CLEAN,)), settled())
    assert shape(tuple(step for step in plan.steps if step.dataset == CLEAN)) == [
        ("begin", "clean"),
        ("run", "clean"),
        ("skip", "seed"),
    ]


def test_a_selection_leaves_everything_else_out() -> None:
    """Datasets outside of the selection are excluded, by name."""
    plan = make_plan(a_graph(), UpdateRequest(refresh=(TOTALS,)), settled(totals_from="other"))
    assert [(step.dataset, step.excluded) for step in plan.steps if isinstance(step, SkipStep)] == [
        (RAW, True),
        (CLEAN, True),
    ]
    assert shape(plan.steps)[-1] == ("refresh", "totals")


def test_a_table_that_must_not_be_reset_is_refreshed_by_full_refresh_all_and_refused_by_name() -> None:
    """`pipelines.reset.allowed=false` protects the rows in both ways."""
    graph = a_graph(reset_allowed=False)
    plan = make_plan(graph, UpdateRequest(full_refresh_all=True), settled())
    assert ("publish", "raw") not in shape(plan.steps)
    assert ("publish", "clean") in shape(plan.steps)
    with pytest.raises(UserError) as caught:
        make_plan(graph, UpdateRequest(full_refresh=(RAW,)), settled())
    assert caught.value.condition == "TABLE_NOT_RESETTABLE"


def test_unknown_names_of_a_request_are_all_reported_with_the_nearest() -> None:
    """A typo in a dataset and in a flow are two faults, each with a hint."""
    request = UpdateRequest(refresh=(name("claen"),), reset_checkpoints=(name("sed"),))
    with pytest.raises(RequestErrors) as caught:
        make_plan(a_graph(), request, settled())
    assert [(error.condition, error.fields["hint"]) for error in caught.value.errors] == [
        ("DATASET_NOT_FOUND", " Did you mean main.s.clean?"),
        ("FLOW_NOT_FOUND", " Did you mean main.s.seed?"),
    ]


def test_a_table_that_is_gone_begins_its_flows_again() -> None:
    """With its old checkpoint, the flow would omit rows that it has read before."""
    state = settled(raw=FlowState(generation=4, drained=True, latest=4))
    tables = {key: value for key, value in state.tables.items() if key != RAW}
    gone = StoredState(
        tables=tables, flows=state.flows, wanted_definitions=state.wanted_definitions,
        computable_from=state.computable_from,
    )  # fmt: skip
    plan = make_plan(a_graph(), UpdateRequest(refresh=(RAW,)), gone)
    own = [step for step in plan.steps if step.dataset == RAW]
    assert shape(tuple(own)) == [("create", "raw"), ("begin", "raw"), ("run", "raw")]
    assert [step.generation for step in own if isinstance(step, BeginGeneration)] == [5]


@pytest.mark.parametrize(
    ("source", "state", "reason"),
    [
        ("daily", FlowState(generation=1, latest=1), "its source may have changed since the last snapshot"),
        ("daily", FlowState(generation=1, drained=True, latest=1), "no change since the last snapshot"),
        (None, FlowState(generation=1, latest=1), "its function may return a newer snapshot"),
    ],
)
def test_a_flow_from_snapshots_runs_unless_its_source_stood_still(
    source: str | None, state: FlowState, reason: str
) -> None:
    """The versions of a function are known only after its call."""
    spec = DatasetSpec(name=CLEAN, kind=DatasetKind.STREAMING_TABLE)
    flow = FlowSpec(name=CLEAN, target=CLEAN, source=source, from_snapshots=True)
    graph = DataflowGraph(
        pipeline="p", datasets=(GraphDataset(spec=spec, kind=spec.kind),), flows=(GraphFlow(spec=flow),)
    )
    (step,) = make_plan(graph, UpdateRequest(), settled(clean=state)).steps
    assert isinstance(step, SkipStep) is state.drained
    assert step.reason == reason


@pytest.mark.parametrize(
    "request_of_it", [UpdateRequest(), UpdateRequest(full_refresh=(CLEAN,)), UpdateRequest(reset_checkpoints=(SEED,))]
)
def test_a_table_of_somebody_else_is_refused_whatever_is_asked(request_of_it: UpdateRequest) -> None:
    """No step touches it, not even a full refresh: its flows fail, and the plan says so in advance."""
    state = settled()
    foreign = TableState(exists=True, path="/t/clean", other_owner="pipeline other")
    state = replace(state, tables={**state.tables, CLEAN: foreign})
    plan = make_plan(a_graph(), request_of_it, state)
    assert [step for step in plan.steps if step.dataset == CLEAN] == [
        RefuseTable(
            dataset=CLEAN, flows=(CLEAN, SEED), path="/t/clean", owner="pipeline other",
            reason="its table belongs to pipeline other",
        )
    ]  # fmt: skip
    (error,) = refusals(a_graph(), plan)
    assert (error.condition, error.fields["owner"]) == ("TABLE_NOT_OWNED", "pipeline other")


def test_a_dataset_with_a_fault_fails_alone() -> None:
    """Its flows fail with the fault and its table is not changed; what does not read it is planned as ever."""
    fault = UserError("INVALID_NAME", name="x")
    graph = a_graph()
    datasets = tuple(replace(each, fault=fault) if each.name == CLEAN else each for each in graph.datasets)
    faulty = DataflowGraph(pipeline="p", datasets=datasets, flows=graph.flows)
    plan = make_plan(faulty, UpdateRequest(), settled())
    (step,) = (step for step in plan.steps if step.dataset == CLEAN)
    assert isinstance(step, RefuseTable)
    assert (step.flows, step.owner) == ((CLEAN, SEED), None)
    assert [after for step in plan.steps if isinstance(step, RefreshView) for after in step.after] == [CLEAN]
    assert refusals(faulty, plan) == faulty.faults == (fault,)
    of_raw = [step for step in make_plan(graph, UpdateRequest(), settled()).steps if step.dataset == RAW]
    assert [step for step in plan.steps if step.dataset == RAW] == of_raw


def test_a_table_that_can_not_be_read_is_refused_and_its_readers_wait() -> None:
    """Also if its readers could be planned, or their own state is unknown without it; the rest is planned as ever."""
    fault = StateFault(condition="STORAGE_NOT_READABLE", fields=(("path", "/t/clean"), ("problem", "no permission")))
    for waits in ({}, {TOTALS: (CLEAN,)}):
        plan = make_plan(a_graph(), UpdateRequest(), replace(settled(), unread={CLEAN: fault}, waits=waits))
        (step,) = (step for step in plan.steps if step.dataset == CLEAN)
        assert isinstance(step, RefuseTable)
        assert (step.flows, step.fault, step.owner) == ((CLEAN, SEED), fault, None)
        (error,) = refusals(a_graph(), plan)
        assert (error.condition, error.what) == (
            "STORAGE_NOT_READABLE", "/t/clean cannot be read: no permission."
        )  # fmt: skip
        (reader,) = (step for step in plan.steps if step.dataset == TOTALS)
        if waits:
            assert reader == SkipStep(
                dataset=TOTALS, flow=TOTALS, reason="waits for clean, whose table can't be read", waits_for=(CLEAN,)
            )
        else:
            assert isinstance(reader, RefreshView)
            assert reader.after == (CLEAN,)
        of_raw = [step for step in make_plan(a_graph(), UpdateRequest(), settled()).steps if step.dataset == RAW]
        assert [step for step in plan.steps if step.dataset == RAW] == of_raw


def test_a_table_that_can_not_be_written_is_refused_if_a_step_writes_it() -> None:
    """One without a step stays as it is: nothing would be written. A storage that can't be written is told once."""
    fault = StateFault(
        condition="DATASET_NOT_WRITABLE", fields=(("dataset", "clean"), ("path", "/t"), ("problem", "it is not ours"))
    )
    unwritable = replace(settled(), unwritable=dict.fromkeys((RAW, CLEAN, TOTALS), fault))
    assert make_plan(a_graph(), UpdateRequest(), unwritable) == make_plan(a_graph(), UpdateRequest(), settled())
    new = replace(unwritable, flows={**unwritable.flows, CLEAN: FlowState(generation=1, latest=1)})
    plan = make_plan(a_graph(), UpdateRequest(), new)
    assert [step.dataset for step in plan.steps if isinstance(step, RefuseTable)] == [CLEAN, TOTALS]
    assert [error.condition for error in refusals(a_graph(), plan)] == ["DATASET_NOT_WRITABLE"]
    plan = make_plan(a_graph(), UpdateRequest(), replace(settled(), fault=fault))
    assert [error.what for error in refusals(a_graph(), plan)] == [
        "/t, a folder of clean, cannot be written: it is not ours."
    ]
    assert plan_json(plan)["fault"] == {
        "kind": "state_fault", "condition": "DATASET_NOT_WRITABLE",
        "fields": [["dataset", "clean"], ["path", "/t"], ["problem", "it is not ours"]],
    }  # fmt: skip


def test_a_table_that_left_the_code_is_kept_and_named() -> None:
    """A table without code is neither dropped nor forgotten."""
    state = replace(settled(), left={name("old"): None, name("used"): "b reads it"})
    plan = make_plan(a_graph(), UpdateRequest(refresh=(RAW,)), state)
    reason = "no longer declared, table kept; "
    assert plan.steps[-2:] == (
        KeepStored(dataset=name("old"), reason=f"{reason}`sluice prune` drops it"),
        KeepStored(dataset=name("used"), reason=f"{reason}b reads it"),
    )


def schema(columns: Sequence[Any]) -> str:
    """The JSON of a schema of integers; a dict is a struct."""

    def struct(names: Sequence[Any]) -> dict[str, object]:
        fields = []
        for each in names:
            column, kind = (each, "integer") if isinstance(each, str) else next(iter(each.items()))
            fields.append({"name": column, "type": kind if kind == "integer" else struct(kind)})
        return {"type": "struct", "fields": fields}

    return json.dumps(struct(columns))


@pytest.mark.parametrize(
    ("stored", "written", "cdc", "kept"),
    [
        (("id", "note"), ("ID", "note"), None, ()),
        (("id", "note"), ("id",), None, ("note",)),
        (("id", {"a": ("x", "y")}), ("id", {"a": ("x",)}), None, ("a.y",)),
        (("id", {"a": ("x", "y")}), ("id",), None, ("a",)),
        (("id", "n", "__START_AT", "__END_AT"), ("id", "n"), ColumnSelection(), ()),
        (("id", "n"), ("id", "n"), ColumnSelection(columns=("n",), excluded=True), ("n",)),
        (("id", "n", "m"), ("id", "n", "m"), ColumnSelection(columns=("m",)), ("n",)),
    ],
)
def test_columns_that_no_flow_writes_are_named(
    stored: tuple[Any, ...], written: tuple[Any, ...], cdc: ColumnSelection | None, kept: tuple[str, ...]
) -> None:
    """A streaming table keeps a column that its query no longer returns; the plan names it."""
    spec = DatasetSpec(name=CLEAN, kind=DatasetKind.STREAMING_TABLE)
    keys = None if cdc is None else AutoCdcSpec(keys=("id",), sequence_by="id", columns=cdc)
    graph = DataflowGraph(
        pipeline="p",
        datasets=(GraphDataset(spec=spec, kind=spec.kind, schema=schema(stored)),),
        flows=(GraphFlow(spec=FlowSpec(name=CLEAN, target=CLEAN, cdc=keys), schema=schema(written)),),
    )
    plan = make_plan(graph, UpdateRequest(), settled())
    assert [step.columns for step in plan.steps if isinstance(step, KeepStored)] == ([kept] if kept else [])
    rebuilt = make_plan(graph, UpdateRequest(full_refresh=(CLEAN,)), settled())
    assert [step for step in rebuilt.steps if isinstance(step, KeepStored)] == []


def test_what_was_asked_for_datasets_that_were_not_set_up_is_asked_again() -> None:
    """Their full refreshes and resets have not begun, unlike those of all other datasets."""
    a, b, c = name("a"), name("b"), name("c")
    request = UpdateRequest(
        full_refresh=(a, b), reset_checkpoints=(b, c), starts=((c, SourceStart(option="earliest")),), keep_history=True,
        history_keys=("id",),
    )  # fmt: skip
    assert request.part([a], (), ()) == UpdateRequest(full_refresh=(a,), keep_history=True, history_keys=("id",))
    assert request.part([c], (), [c]) == UpdateRequest(reset_checkpoints=(c,), starts=request.starts)
    assert request.part([], (), ()) == UpdateRequest()
    assert UpdateRequest(full_refresh_all=True).part([a, b], [b], ()) == UpdateRequest(full_refresh=(b,))
