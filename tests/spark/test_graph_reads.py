"""Resolution of names in query functions, in every spelling, without running anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework import pipelines as dp
from framework.declare.specs import DatasetKind
from framework.engine.sessions.session import cloned
from framework.graph.reading.interception import reading
from tests.support.engine_world import EngineWorld

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from framework.graph.graph import DataflowGraph
    from framework.sources.cloud_files.columns.schemas import SchemaStore


def graph_of(spark: SparkSession, root: Path, *queries: str) -> DataflowGraph:
    """A pipeline of `orders` (streamed), `Order Lines` in another schema, a view, and one view a query."""

    def declare() -> None:
        @dp.table
        def orders() -> DataFrame:
            return spark.readStream.format("rate").load().selectExpr("value AS id", "timestamp AS at")

        @dp.materialized_view(name="sales.`Order Lines`")
        def lines() -> DataFrame:
            return spark.range(1).selectExpr("id", "id AS line")

        @dp.temporary_view
        def recent() -> DataFrame:
            return spark.read.table("orders").where("id > 3")

        for number, query in enumerate(queries):
            declare_query(number, query)

    def declare_query(number: int, query: str) -> None:
        @dp.materialized_view(name=f"q{number}")
        def view() -> DataFrame:
            return spark.sql(query)

    return EngineWorld(spark, root).pipeline(declare).validate()


def reads(graph: DataflowGraph, flow: str) -> list[tuple[str, bool]]:
    """Return the reads of a flow: (dataset, streaming)."""
    found = next(each for each in graph.flows if each.spec.name.table == flow)
    return [(str(read.dataset or read.text), read.streaming) for read in found.reads]


def test_sql_names_are_found_by_sparks_parser_in_every_place(spark: SparkSession, tmp_path: Path) -> None:
    """Joins, subqueries, quoted and qualified names, LIVE; columns can be qualified by the table's name."""
    graph = graph_of(
        spark,
        tmp_path,
        "SELECT orders.id FROM orders WHERE orders.id IN (SELECT l.line FROM sales.`Order Lines` l)",
        "SELECT * FROM LIVE.orders JOIN main.sales.`order lines` USING (id)",
        "FROM recent |> SELECT id",
    )
    assert reads(graph, "q0") == [("main.s.orders", False), ("main.sales.order lines", False)]
    assert reads(graph, "q1") == [("main.s.orders", False), ("main.sales.order lines", False)]
    assert reads(graph, "q2") == [("main.s.recent", False), ("main.s.orders", False)]


def test_a_common_table_expression_hides_a_table_exactly_where_sql_says(spark: SparkSession, tmp_path: Path) -> None:
    """Inside its own definition the name is still the table's; after it, it is the expression's."""
    graph = graph_of(
        spark,
        tmp_path,
        "WITH orders AS (SELECT id FROM orders WHERE id > 1) SELECT * FROM orders",
        "WITH x AS (SELECT 1 AS id) SELECT * FROM x",
    )
    assert reads(graph, "q0") == [("main.s.orders", False)]
    assert reads(graph, "q1") == []


def test_streams_in_sql_are_streams(spark: SparkSession, tmp_path: Path) -> None:
    """`STREAM(t)` and `STREAM t` make a streaming table."""

    def declare() -> None:
        @dp.table
        def orders() -> DataFrame:
            return spark.readStream.format("rate").load()

        @dp.table
        def first() -> DataFrame:
            return spark.sql("SELECT value FROM STREAM(orders)")

        @dp.table
        def second() -> DataFrame:
            return spark.sql("SELECT o.value FROM STREAM LIVE.orders AS o")

    graph = EngineWorld(spark, tmp_path).pipeline(declare).validate()
    assert [dataset.kind for dataset in graph.datasets] == [DatasetKind.STREAMING_TABLE] * 3
    assert (reads(graph, "first"), reads(graph, "second")) == ([("main.s.orders", True)], [("main.s.orders", True)])


def test_a_chain_that_is_declared_backwards_resolves(spark: SparkSession, tmp_path: Path) -> None:
    """Sixty datasets, each declared before the one it reads."""

    def declare_view(number: int) -> None:
        @dp.materialized_view(name=f"v{number}")
        def view() -> DataFrame:
            return spark.range(1) if number == 59 else spark.read.table(f"v{number + 1}")

    def declare() -> None:
        for number in range(60):
            declare_view(number)

    graph = EngineWorld(spark, tmp_path).pipeline(declare).validate()
    assert [name.table for name in graph.order()] == [f"v{number}" for number in reversed(range(60))]


def test_reads_outside_a_pipeline_are_pysparks_own(spark: SparkSession, tmp_path: Path) -> None:
    """The interception is removed after the graph is resolved, also after a fault."""
    methods: list[Callable[..., object]] = [type(spark).sql, type(spark.read).table, type(spark.readStream).table]
    graph_of(spark, tmp_path, "SELECT 1 AS one")
    assert [type(spark).sql, type(spark.read).table, type(spark.readStream).table] == methods


class _NoTables:
    """Reads of a pipeline without datasets."""

    def read(self, spark: SparkSession, name: str, options: object, *, streaming: bool) -> DataFrame:
        """Not reached."""
        raise AssertionError(spark, name, options, streaming)

    def is_view(self, name: str) -> bool:
        """Not reached."""
        raise AssertionError(name)

    def schemas(self) -> SchemaStore:
        """Not reached."""
        raise AssertionError


def test_settings_in_sql_are_those_of_the_session_that_reads(spark: SparkSession) -> None:
    """`${key}` is the flow's own setting, whichever session is active in the thread; that session stays active."""
    own = cloned(spark)
    own.conf.set("sluice.test.own", "7")
    spark.createDataFrame([(1,)], "a int")  # this is what makes a session the active one
    with reading(_NoTables()):
        rows = own.sql("SELECT ${sluice.test.own} AS n")
    assert rows.collect() == [(7,)]
    active = type(spark).getActiveSession()
    assert active is not None
    assert active._jsparkSession.equals(spark._jsparkSession)
