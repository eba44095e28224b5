"""A rewind takes along what its rows have reached."""

from __future__ import annotations

import pytest

from framework.declare.specs import DatasetKind, DatasetSpec, FlowSpec
from framework.foundation.errors import UserError
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow, Read
from framework.recovery.rewind.scope import Scope, chosen_tables, scope_of, with_readers
from framework.sources.delta.source import table_source
from tests.support.fake_pipeline import name

TABLE, VIEW, MATERIALIZED = DatasetKind.STREAMING_TABLE, DatasetKind.TEMPORARY_VIEW, DatasetKind.MATERIALIZED_VIEW
KINDS = {
    "orders": TABLE, "other": TABLE, "cleaned": VIEW, "by_day": MATERIALIZED, "by_month": MATERIALIZED,
    "joined": TABLE, "followed": TABLE, "by_path": TABLE, "delivered": DatasetKind.SINK,
}  # fmt: skip
READS = {
    "cleaned": [("orders", True)],
    "by_day": [("cleaned", False), ("orders", False)],
    "by_month": [("by_day", False)],
    "joined": [("other", True), ("by_month", False)],
    "followed": [("by_day", True)],
    "delivered": [("other", True)],
}


def graph() -> DataflowGraph:
    """Tables, views and a sink; `by_path` reads the folder of `orders`."""
    return DataflowGraph(
        pipeline="shop",
        datasets=tuple(
            GraphDataset(spec=DatasetSpec(name=name(each), kind=kind), kind=kind) for each, kind in KINDS.items()
        ),
        flows=tuple(
            GraphFlow(
                spec=FlowSpec(name=name(each), target=name(each)),
                reads=tuple(
                    Read(text=read, streaming=streaming, dataset=name(read)) for read, streaming in READS.get(each, [])
                ),
                sources=(table_source("/tables/orders"),) if each == "by_path" else (),
            )
            for each in KINDS
        ),
    )


def scope(*changed: str, chosen: tuple[str, ...] = ("orders", "other")) -> Scope:
    """The scope of a rewind."""
    return scope_of(
        graph(), [name(each) for each in chosen], [name(each) for each in changed], {"/tables/orders": name("orders")}
    )


def names(*tables: str) -> tuple[QualifiedName, ...]:
    """Full names."""
    return tuple(map(name, tables))


def test_rows_reach_tables_through_views_joins_and_paths() -> None:
    """Views are computed anew; one that is read as a stream goes back as a table does."""
    assert scope("orders") == Scope(
        tables=names("orders", "other", "by_day", "joined", "followed", "by_path"), computed=names("by_day", "by_month")
    )
    assert scope() == Scope(tables=names("orders", "other"))


def test_streams_of_a_table_are_found_through_views_and_paths() -> None:
    """Not what joins it, and no materialized view, which is computed anew; a table that is gone from the code stays."""
    paths = {"/tables/orders": name("orders")}
    assert with_readers(graph(), names("orders", "gone"), paths) == {*names("orders", "gone", "cleaned", "by_path")}
    assert with_readers(graph(), names("by_day"), paths) == {*names("by_day", "followed")}


def test_a_sink_stops_a_rewind_that_reaches_it() -> None:
    """The error names the sink and what it reads; a rewind of other tables is possible."""
    with pytest.raises(UserError, match=r"REWIND_REACHES_SINK.*delivered reads main\.shop\.other"):
        scope("orders", "other")


def test_streaming_tables_are_chosen_by_name() -> None:
    """All of them without a name; other kinds and unknown names are refused."""
    assert chosen_tables(graph(), ()) == names("orders", "other", "joined", "followed", "by_path")
    assert chosen_tables(graph(), names("other", "other")) == names("other")
    with pytest.raises(UserError, match=r"REWIND_NOT_A_STREAMING_TABLE.*by_day is a materialized view"):
        chosen_tables(graph(), names("by_day"))
    with pytest.raises(UserError, match=r"DATASET_NOT_FOUND.*Did you mean main\.shop\.orders"):
        chosen_tables(graph(), names("ordres"))
