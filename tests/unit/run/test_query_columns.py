"""A query whose external source has other columns than the update has analysed."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest
from pyspark.sql.types import DataType, IntegerType, LongType, StructField, StructType

from framework.declare.specs import FlowSpec
from framework.foundation.errors import OperationError
from framework.graph.graph import DataflowGraph, GraphFlow, Read
from framework.run.flows.reads import TableQueries
from tests.support.fake_pipeline import name

FLOW = FlowSpec(name=name("f"), target=name("f"))
TYPES: dict[str, DataType] = {"INT": IntegerType(), "BIGINT": LongType()}


@dataclass(frozen=True)
class Frame:
    """A query with some columns."""

    schema: StructType


def schema(columns: str) -> StructType:
    """The type of a query's rows, from names and types."""
    parts = (column.split() for column in columns.split(", "))
    return StructType([StructField(each, TYPES[kind], nullable=not rest) for each, kind, *rest in parts])


def graph_of(columns: str, *, dataset: str | None = None) -> DataflowGraph:
    """A graph whose flow was analysed with some columns, of a table at a path or of a dataset."""
    read = Read(text="/source", streaming=True, dataset=None if dataset is None else name(dataset))
    flow = GraphFlow(spec=FLOW, reads=(read,), streaming=True, schema=schema(columns).json())
    return DataflowGraph(pipeline="p", datasets=(), flows=(flow,))


def queries_of(graph: DataflowGraph) -> TableQueries:
    """The queries of a graph, of which nothing else is needed."""
    nothing = cast("Any", None)
    return TableQueries(graph=graph, registry=nothing, spark=nothing, store=nothing, tables=nothing)


def stops(queries: TableQueries, columns: str) -> bool:
    """Whether a query with these columns stops the flow."""
    with suppress(OperationError):
        queries._check_columns(FLOW, cast("Any", Frame(schema(columns))))
        return False
    return True


def test_a_flow_stops_for_other_columns_until_the_graph_is_resolved_again() -> None:
    """A retry with the former graph would leave them out; those that no analysis sees are left out after one stop."""
    queries = queries_of(graph_of("id INT"))
    assert not stops(queries, "id INT NOT NULL")
    assert [stops(queries, "id INT, more INT") for _ in range(2)] == [True, True]
    again = replace(queries, graph=graph_of("id INT"))
    assert not stops(again, "id INT, more INT")
    assert stops(again, "id BIGINT")
    grown = replace(again, graph=graph_of("id BIGINT"))
    assert not stops(grown, "id BIGINT")
    assert stops(grown, "id INT, more INT")


def test_columns_that_users_add_to_a_table_of_the_pipeline_stop_nothing() -> None:
    """The analysis knows the columns that its flows have."""
    assert not stops(queries_of(graph_of("id INT", dataset="bronze")), "id INT, more INT")


def test_the_error_names_the_columns_with_their_types() -> None:
    """New, missing and changed ones."""
    with pytest.raises(
        OperationError, match=r"a \(int before, bigint now\), b \(int before, none now\), c \(none before"
    ):
        queries_of(graph_of("a INT, b INT"))._check_columns(FLOW, cast("Any", Frame(schema("a BIGINT, c INT"))))
