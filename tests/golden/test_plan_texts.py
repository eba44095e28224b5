"""The words of every kind of step, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable

from framework.foundation.names import QualifiedName
from framework.plan.explainer import plan_json, plan_text
from framework.plan.state import StateFault
from framework.plan.steps import (
    BeginGeneration,
    Breakage,
    CreateTable,
    KeepStored,
    Plan,
    PublishRebuild,
    RefreshView,
    RefuseTable,
    RunFlow,
    SkipStep,
)
from framework.schema.change import ColumnChange, SchemaChange


def name(table: str, schema: str = "flights") -> QualifiedName:
    """A name of the catalog `main`."""
    return QualifiedName(catalog="main", schema=schema, table=table)


CHANGE = SchemaChange(
    added=(ColumnChange(path=("fare", "tax"), after="decimal(9,2)"),),
    widened=(ColumnChange(path=("miles",), before="int", after="bigint"),),
    dropped=(ColumnChange(path=("meal",), before="string"),),
)
EVERY_STEP = Plan(
    pipeline="flights",
    steps=(
        CreateTable(dataset=name("flights"), reason="it does not exist"),
        BeginGeneration(flow=name("schedule"), dataset=name("flights"), generation=1, reason="first run"),
        RunFlow(
            flow=name("schedule"),
            dataset=name("flights"),
            generation=1,
            after=(),
            reason="first run",
            finds_columns=True,
        ),
        SkipStep(dataset=name("flights"), flow=name("corrections"), reason="ran once, in generation 1"),
        CreateTable(dataset=name("seats"), reason="its definition changed", change=CHANGE.gained(widens=True)),
        CreateTable(
            dataset=name("bookings"), rebuild=4, reason="full refresh requested; the current rows stay readable"
        ),
        BeginGeneration(
            flow=name("bookings"), dataset=name("bookings"), generation=4, reason="full refresh requested", rebuild=4
        ),
        RunFlow(flow=name("bookings"), dataset=name("bookings"), generation=4, after=(), reason="its turn", rebuild=4),
        PublishRebuild(
            dataset=name("bookings"), rebuild=4, reason="all flows of the rebuild have completed", change=CHANGE
        ),
        RunFlow(
            flow=name("weather"),
            dataset=name("weather"),
            generation=2,
            after=(),
            reason="its sources may have new rows",
        ),
        BeginGeneration(
            flow=name("gates"),
            dataset=name("gates"),
            generation=3,
            reason="its checkpoint is reset to startingVersion=12; the rows it wrote are kept",
            start='{"main.flights.flights": "startingVersion=12"}',
        ),
        RunFlow(
            flow=name("bags"),
            dataset=name("bags"),
            generation=2,
            after=(),
            reason="its checkpoint does not fit its query",
            broken=Breakage(
                condition="STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
                problem="it holds the state of dropDuplicates, and the query has none.",
                ways="Restore the query.\n  -> Or: reset it.",
            ),
        ),
        RefreshView(
            dataset=name("delay_by_carrier"),
            flow=name("delay_by_carrier"),
            after=(name("flights"),),
            reason="if flights changed",
            check=True,
        ),
        SkipStep(
            dataset=name("worst_tails"), flow=name("worst_tails"), reason="its inputs and its code have not changed"
        ),
        SkipStep(dataset=name("planes"), flow=None, reason="not selected", excluded=True),
        SkipStep(
            dataset=name("crews"),
            flow=name("crews"),
            reason="waits for planes, whose columns are unknown",
            waits_for=(name("planes"),),
        ),
        RefuseTable(
            dataset=name("airports"),
            flows=(name("airports"),),
            path="/data/airports",
            owner="pipeline planes",
            reason="its table belongs to pipeline planes",
        ),
        RefuseTable(
            dataset=name("pilots"),
            flows=(name("pilots"),),
            path="/data/pilots",
            owner=None,
            reason="it can't be read, STORAGE_NOT_READABLE",
            fault=StateFault(
                condition="STORAGE_NOT_READABLE", fields=(("path", "/data/pilots"), ("problem", "closed"))
            ),
        ),
        KeepStored(dataset=name("flights"), columns=("gate", "belt"), reason="no flow writes them"),
        KeepStored(dataset=name("runways"), reason="no longer declared, table kept; `sluice prune` drops it"),
    ),
)


def test_every_step_is_said_in_words(golden: Callable[[str, str], None]) -> None:
    """For each kind of step, the text names the action, its object and the reason."""
    golden("plan.txt", plan_text(EVERY_STEP))


def test_every_step_is_said_in_json(golden: Callable[[str, str], None]) -> None:
    """The JSON of a plan contains full names, each step's own fields and the reasons of the text."""
    golden("plan.json", json.dumps(plan_json(EVERY_STEP), indent=2))


def test_a_plan_with_nothing_to_do_says_so() -> None:
    """A plan with skipped steps only says that there is nothing to do, and why."""
    plan = Plan(
        pipeline="flights", steps=(SkipStep(dataset=name("flights"), flow=None, reason="nothing new in its sources"),)
    )
    expected = [
        "Plan of flights (names in main.flights)",
        "",
        "  skip  flights  nothing new in its sources",
        "",
        "Nothing to do, 1 skipped.",
    ]
    assert expected == plan_text(plan).splitlines()


def test_an_empty_plan_is_a_plan() -> None:
    """A pipeline without steps still has a title and a summary."""
    assert plan_text(Plan(pipeline="empty", steps=())) == "Plan of empty\n\nNothing to do."


def test_names_of_two_schemas_stay_apart() -> None:
    """Names keep their schema when the plan has datasets of several schemas."""
    plan = Plan(
        pipeline="two",
        steps=(
            CreateTable(dataset=name("orders", "bronze"), reason="it does not exist"),
            CreateTable(dataset=name("orders", "silver"), reason="it does not exist"),
        ),
    )
    expected = [
        "Plan of two (names in main)",
        "",
        "  set up table  bronze.orders  it does not exist",
        "  set up table  silver.orders  it does not exist",
        "",
        "2 steps to do.",
    ]
    assert expected == plan_text(plan).splitlines()
