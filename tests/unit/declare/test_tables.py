"""Tables, views and sinks: the registered specs, and the rejected arguments."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from pyspark.sql.types import IntegerType, StructType

from framework import pipelines as dp
from framework.declare.registry import HookSpec, Registry
from framework.declare.specs import DatasetKind, DatasetSpec, FlowSpec
from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation
from framework.foundation.names import QualifiedName

face: Any = dp  # modules are not type-checked: they pass what they like

Call = Callable[[], object]


def name(table: str) -> QualifiedName:
    """A name of `main.shop`."""
    return QualifiedName(catalog="main", schema="shop", table=table)


def here(offset: int) -> SourceLocation:
    """The line `offset` lines above the caller's."""
    frame = inspect.stack()[1]
    return SourceLocation(file=__file__, line=frame.lineno - offset)


def test_a_bare_decorator_registers_a_dataset_and_its_flow_under_the_functions_name(registry: Registry) -> None:
    """`@dp.table` alone is enough, and stores its line."""

    @dp.table
    def orders() -> Any:
        return "rows"

    place = here(4)
    assert [DatasetSpec(name=name("orders"), kind=DatasetKind.TABLE, location=place)] == registry.datasets
    assert [FlowSpec(name=name("orders"), target=name("orders"), location=place)] == registry.flows
    query: Any = registry.queries[name("orders")]
    assert query() == "rows"
    kept: Any = orders
    assert kept() == "rows"
    assert orders.__name__ == "orders"


def test_a_table_keeps_every_argument(registry: Registry) -> None:
    """Every argument is registered unchanged, but for settings by which Databricks' runtime chooses a value."""
    face.table(
        name="sales.orders",
        comment="All orders.",
        spark_conf={"b": "2", "a": True, "spark.sql.shuffle.partitions": "auto"},
        table_properties={"pipelines.reset.allowed": False},
        path="/data/orders",
        cluster_by=["day"],
        cluster_by_auto=True,
        schema="id INT",
        row_filter="ROW FILTER f ON (id)",
        private=True,
        format="Delta",
    )(lambda: None)
    full = QualifiedName(catalog="main", schema="sales", table="orders")
    expected = DatasetSpec(
        name=full,
        kind=DatasetKind.TABLE,
        location=registry.datasets[0].location,
        comment="All orders.",
        spark_conf=(("a", "true"), ("b", "2")),
        table_properties=(("pipelines.reset.allowed", "false"),),
        path="/data/orders",
        cluster_by=("day",),
        cluster_by_auto=True,
        schema="id INT",
        row_filter="ROW FILTER f ON (id)",
        private=True,
    )
    assert [expected] == registry.datasets
    assert registry.flows[0].spark_conf == expected.spark_conf


def test_a_schema_may_be_a_struct_type(registry: Registry) -> None:
    """A StructType is stored as its JSON, from which Spark reads an equal one."""
    schema = StructType().add("a b", IntegerType())
    dp.create_streaming_table("t", schema=schema)
    kept = registry.datasets[0].schema
    assert kept is not None
    assert StructType.fromJson(json.loads(kept)) == schema


def test_each_decorator_has_its_kind(registry: Registry) -> None:
    """A table's kind depends on its DataFrame; the other decorators define it, in every spelling."""
    dp.materialized_view(name="mv", refresh_policy="Incremental", partition_cols=["p"])(_rows)
    dp.temporary_view(name="tv", comment="c", spark_conf={"k": "v"})(_rows)
    dp.view(_rows)
    dp.create_table(name="ct", temporary=True)(_rows)
    dp.create_view(name="cv")(_rows)
    dp.create_target_table("tt", "text")
    dp.create_streaming_live_table("sl")
    found = [
        (each.name.table, each.kind, each.comment, each.private, each.refresh_policy) for each in registry.datasets
    ]
    assert found == [
        ("mv", DatasetKind.MATERIALIZED_VIEW, None, False, "incremental"),
        ("tv", DatasetKind.TEMPORARY_VIEW, "c", False, None),
        ("_rows", DatasetKind.TEMPORARY_VIEW, None, False, None),
        ("ct", DatasetKind.TABLE, None, True, None),
        ("cv", DatasetKind.TEMPORARY_VIEW, None, False, None),
        ("tt", DatasetKind.STREAMING_TABLE, "text", False, None),
        ("sl", DatasetKind.STREAMING_TABLE, None, False, None),
    ]
    assert registry.datasets[0].partition_columns == ("p",)


def test_sinks_and_hooks_are_registered_with_their_functions(registry: Registry) -> None:
    """Both spellings of a foreach-batch sink and of a hook."""

    @dp.foreach_batch_sink
    def by_name(frame: Any, batch: int) -> None:
        pass

    @dp.foreach_batch_sink(name="other")
    def ignored(frame: Any, batch: int) -> None:
        pass

    @dp.on_event_hook
    def bare(event: dict[str, object]) -> None:
        pass

    @dp.on_event_hook(max_allowable_consecutive_failures=3)
    def limited(event: dict[str, object]) -> None:
        pass

    face.create_sink("out", "kafka", {"topic": "t", "acks": 1})
    found = [(each.name.table, each.kind, each.format, each.options) for each in registry.datasets]
    assert found == [
        ("by_name", DatasetKind.FOREACH_BATCH_SINK, None, ()),
        ("other", DatasetKind.FOREACH_BATCH_SINK, None, ()),
        ("out", DatasetKind.SINK, "kafka", (("acks", "1"), ("topic", "t"))),
    ]
    assert registry.batch_functions == {name("by_name"): by_name, name("other"): ignored}
    assert [(hook.name, hook.max_allowable_consecutive_failures) for hook in registry.hooks] == [
        ("bare", None),
        ("limited", 3),
    ]
    assert registry.hook_functions == {"bare": bare, "limited": limited}
    assert isinstance(registry.hooks[0], HookSpec)


def test_append_flows_are_named_after_their_function_or_by_name(registry: Registry) -> None:
    """The target is qualified like any other name, and `once` is stored."""

    @dp.append_flow("orders")
    def from_kafka() -> Any:
        return None

    @dp.append_flow(target="other.orders", name="old", once=True, spark_conf={"k": "v"}, comment="Backfill.")
    def ignored() -> Any:
        return None

    assert [
        FlowSpec(name=name("from_kafka"), target=name("orders"), location=registry.flows[0].location),
        FlowSpec(
            name=name("old"),
            target=QualifiedName(catalog="main", schema="other", table="orders"),
            location=registry.flows[1].location,
            once=True,
            spark_conf=(("k", "v"),),
            comment="Backfill.",
        ),
    ] == registry.flows
    assert registry.datasets == []
    assert registry.queries == {name("from_kafka"): from_kafka, name("old"): ignored}


def _rows() -> Any:
    return None


def _needs(day: str) -> Any:
    return day


WRONG: list[tuple[Call, str, dict[str, object]]] = [
    (lambda: face.table("orders"), "DECORATOR_ARGUMENT_NOT_CALLABLE", {"function": "table", "actual": "str"}),
    (lambda: face.table(commment="x"), "INVALID_ARGUMENT.UNKNOWN", {"advice": "Did you mean `comment`?"}),
    (face.create_streaming_table, "INVALID_ARGUMENT.CALL", {"function": "create_streaming_table"}),
    (lambda: face.create_streaming_table(3), "INVALID_ARGUMENT.TYPE", {"argument": "name", "actual": "int"}),
    (lambda: face.create_streaming_table(""), "INVALID_ARGUMENT.VALUE", {"argument": "name"}),
    (lambda: face.create_streaming_table("a.b.c.d"), "INVALID_NAME", {"name": "a.b.c.d"}),
    (lambda: face.table(name="x", cluster_by="day"), "INVALID_ARGUMENT.TYPE", {"argument": "cluster_by"}),
    (lambda: face.table(name="x", cluster_by=["a", "a"]), "INVALID_ARGUMENT.VALUE", {"argument": "cluster_by"}),
    (lambda: face.table(name="x", cluster_by=["a", 1]), "INVALID_ARGUMENT.TYPE", {"argument": "cluster_by[1]"}),
    (
        lambda: face.table(cluster_by=["a"], partition_cols=["b"]),
        "INVALID_ARGUMENT.BOTH",
        {"first": "partition_cols", "second": "cluster_by"},
    ),
    (lambda: face.table(table_properties=["a"]), "INVALID_ARGUMENT.TYPE", {"argument": "table_properties"}),
    (lambda: face.table(spark_conf={"a": None}), "INVALID_ARGUMENT.TYPE", {"argument": "spark_conf['a']"}),
    (lambda: face.table(format="parquet"), "INVALID_ARGUMENT.VALUE", {"argument": "format", "value": "parquet"}),
    (lambda: face.table(schema=[("a", "int")]), "INVALID_ARGUMENT.TYPE", {"argument": "schema"}),
    (lambda: face.table(private="yes"), "INVALID_ARGUMENT.TYPE", {"argument": "private"}),
    (lambda: face.table(comment=1), "INVALID_ARGUMENT.TYPE", {"argument": "comment"}),
    (lambda: face.materialized_view(refresh_policy="daily"), "INVALID_ARGUMENT.VALUE", {"argument": "refresh_policy"}),
    (lambda: face.table(_needs), "QUERY_FUNCTION_HAS_PARAMETERS", {"name": "_needs", "parameters": "day"}),
    (lambda: face.table(partial(_needs, "x")), "INVALID_ARGUMENT.NO_NAME", {"function": "table"}),
    (lambda: face.append_flow(target=None), "INVALID_ARGUMENT.TYPE", {"argument": "target"}),
    (lambda: face.append_flow("t", once=1), "INVALID_ARGUMENT.TYPE", {"argument": "once"}),
    (lambda: face.create_sink("s", None), "INVALID_ARGUMENT.TYPE", {"argument": "format"}),
    (lambda: face.create_sink("s", "kafka", "x"), "INVALID_ARGUMENT.TYPE", {"argument": "options"}),
    (lambda: face.foreach_batch_sink(_rows), "INVALID_ARGUMENT.VALUE", {"argument": "batch_function"}),
    (lambda: face.on_event_hook(max_allowable_consecutive_failures="3"), "INVALID_ARGUMENT.TYPE", {"actual": "str"}),
    (lambda: face.on_event_hook(max_allowable_consecutive_failures=-1), "INVALID_ARGUMENT.VALUE", {"value": -1}),
]


@pytest.mark.parametrize(("call", "condition", "fields"), WRONG, ids=range(len(WRONG)))
def test_a_wrong_argument_is_refused_with_its_name_and_place(
    registry: Registry, call: Call, condition: str, fields: dict[str, object]
) -> None:
    """Nothing is registered, and the error names the function, the argument and the line."""
    with pytest.raises(UserError) as caught:
        call()
    assert caught.value.condition == condition
    assert caught.value.fields | fields == caught.value.fields
    assert caught.value.location is not None
    assert caught.value.location.file == __file__
    assert registry == Registry(catalog="main", schema="shop")


def test_two_hooks_of_one_name_are_refused(registry: Registry) -> None:
    """Hooks are identified by name."""

    def hook(event: dict[str, object]) -> None:
        pass

    dp.on_event_hook(hook)
    with pytest.raises(UserError) as caught:
        dp.on_event_hook(hook)
    assert (caught.value.condition, caught.value.fields["name"]) == ("DUPLICATE_EVENT_HOOK", "hook")
    assert len(registry.hooks) == 1


def test_declaring_outside_a_pipeline_is_refused_with_the_line() -> None:
    """A module that is executed directly raises an error that says how to run it."""
    with pytest.raises(UserError) as caught:
        dp.create_streaming_table("t")
    assert caught.value.condition == "GRAPH_ELEMENT_DEFINED_OUTSIDE_OF_DECLARATIVE_PIPELINE"
    assert caught.value.location == here(2)


READS = """
from framework import pipelines as dp
from framework.declare.registry import Registry, registering
from framework.foundation.errors import UserError

for read in (dp.read, dp.read_stream, dp.readStream):
    with registering(Registry(catalog="main", schema="shop")):
        try:
            read("t")
        except UserError as error:
            print(error.condition, error.location.line)
"""


def test_reading_without_a_session_is_refused() -> None:
    """The older reads need the session of a query function; a separate process has none."""
    done = subprocess.run([sys.executable, "-c", READS], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["NO_ACTIVE_SESSION 9"] * 3
