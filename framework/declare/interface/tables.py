"""Tables and views: `@table`, `@materialized_view`, `@temporary_view` and `create_streaming_table`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

from framework.declare.interface.call import Call, declaration
from framework.declare.interface.expectations import read_expectations
from framework.declare.interface.queries import Declared, QueryDecorator, check_query, declared_of, default_name, marked
from framework.declare.interface.table_properties import without_tuning
from framework.declare.registry import QueryFunction, active_registry
from framework.declare.specs import DatasetKind, DatasetSpec, FlowSpec
from framework.declare.sql.informational_keys import split_keys
from framework.declare.workspace.spark_paths import located
from framework.foundation.names import QualifiedName

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_REFRESH_POLICIES = frozenset({"auto", "incremental", "incremental_strict", "full"})
Texts = Mapping[str, str] | None
Columns = list[str] | tuple[str, ...] | None


class TableArguments(TypedDict, total=False):
    """The arguments that all tables share.

    Args:
        spark_conf: settings of Spark for the flows into the table.
        table_properties: Delta properties and `pipelines.*` settings of the table.
        path: the location of the table's files; default: in the storage of the pipeline or of the catalog.
        partition_cols: columns to partition by.
        cluster_by: columns to cluster by.
        cluster_by_auto: let Databricks choose the columns to cluster by; no effect outside Databricks.
        schema: the table's columns, as DDL text or a StructType.
        row_filter: a row filter clause of Unity Catalog; refused outside Databricks, where it would not filter.
        private: the table is visible inside the pipeline only; `temporary` is its older name.
        temporary: see `private`.
        format: `delta`, the only supported format.
    """

    spark_conf: Texts
    table_properties: Texts
    path: str | None
    partition_cols: Columns
    cluster_by: Columns
    cluster_by_auto: bool
    schema: StructType | str | None
    row_filter: str | None
    private: bool | None
    temporary: bool | None
    format: str | None


@overload
def table(query_function: QueryFunction, /) -> QueryFunction: ...
@overload
def table(
    *,
    name: str | None = None,
    comment: str | None = None,
    **arguments: Unpack[TableArguments],
) -> QueryDecorator: ...
@declaration
def table(
    query_function: QueryFunction | None = None,
    /,
    *,
    name: str | None = None,
    comment: str | None = None,
    **arguments: Unpack[TableArguments],
) -> QueryFunction | QueryDecorator:
    """Declare a table with the rows of the decorated function's DataFrame.

    It is a streaming table for a streaming DataFrame, and a materialized view for a batch DataFrame.

    Args:
        query_function: the decorated function, if the decorator is used without arguments.
        name: the table's name; default: the function's.
        comment: a description.
        **arguments: as described in `TableArguments`.

    Raises:
        UserError: INVALID_ARGUMENT.* for an invalid argument.
    """
    call = Call.of("table")
    draft = storage_draft(call, DatasetKind.TABLE, comment, arguments)
    return _decorate(draft, query_function, name)


@overload
def materialized_view(query_function: QueryFunction, /) -> QueryFunction: ...
@overload
def materialized_view(
    *,
    name: str | None = None,
    comment: str | None = None,
    refresh_policy: str | None = None,
    **arguments: Unpack[TableArguments],
) -> QueryDecorator: ...
@declaration
def materialized_view(
    query_function: QueryFunction | None = None,
    /,
    *,
    name: str | None = None,
    comment: str | None = None,
    refresh_policy: str | None = None,
    **arguments: Unpack[TableArguments],
) -> QueryFunction | QueryDecorator:
    """Declare a materialized view: a table that always equals the decorated function's batch DataFrame.

    Args:
        query_function: the decorated function, if the decorator is used without arguments.
        name: the view's name; default: the function's.
        comment: a description.
        refresh_policy: `auto` or `full`; `incremental` and `incremental_strict` on Databricks only.
        **arguments: as described in `TableArguments`.

    Raises:
        UserError: INVALID_ARGUMENT.* for an invalid argument.
    """
    call = Call.of("materialized_view")
    policy = call.choice("refresh_policy", refresh_policy, _REFRESH_POLICIES)
    draft = storage_draft(call, DatasetKind.MATERIALIZED_VIEW, comment, arguments, refresh_policy=policy)
    return _decorate(draft, query_function, name)


@overload
def temporary_view(query_function: QueryFunction, /) -> QueryFunction: ...
@overload
def temporary_view(
    *, name: str | None = None, comment: str | None = None, spark_conf: Texts = None
) -> QueryDecorator: ...
@declaration
def temporary_view(
    query_function: QueryFunction | None = None,
    /,
    *,
    name: str | None = None,
    comment: str | None = None,
    spark_conf: Texts = None,
) -> QueryFunction | QueryDecorator:
    """Declare a view that is visible in the pipeline only and is not stored.

    Args:
        query_function: the decorated function, if the decorator is used without arguments.
        name: the view's name; default: the function's.
        comment: a description.
        spark_conf: settings of Spark for the flows that read the view; a flow's own settings override them.

    Raises:
        UserError: INVALID_ARGUMENT.* for an invalid argument.
    """
    call = Call.of("temporary_view")
    draft = DatasetDraft(
        call=call,
        kind=DatasetKind.TEMPORARY_VIEW,
        fields={"comment": call.comment(comment), "spark_conf": call.pairs("spark_conf", spark_conf)},
    )
    return _decorate(draft, query_function, name)


@declaration
def create_streaming_table(
    name: str,
    comment: str | None = None,
    *,
    expect_all: Texts = None,
    expect_all_or_drop: Texts = None,
    expect_all_or_fail: Texts = None,
    **arguments: Unpack[TableArguments],
) -> None:
    """Declare a streaming table that append flows and AUTO CDC flows write to.

    Args:
        name: the table's name.
        comment: a description.
        expect_all: expectations by name; rows that fail them are kept and counted.
        expect_all_or_drop: expectations by name; rows that fail them are dropped.
        expect_all_or_fail: expectations by name; a row that fails one fails the flow.
        **arguments: as described in `TableArguments`.

    Raises:
        UserError: INVALID_ARGUMENT.* for an invalid argument.
    """
    call = Call.of("create_streaming_table")
    expectations = read_expectations(
        call, expect_all=expect_all, expect_all_or_drop=expect_all_or_drop, expect_all_or_fail=expect_all_or_fail
    )
    draft = storage_draft(call, DatasetKind.STREAMING_TABLE, comment, arguments, expectations=expectations)
    active_registry().datasets.append(draft.finish(call.qualified("name", name)))


def _decorate(
    draft: DatasetDraft, query_function: QueryFunction | None, name: str | None
) -> QueryFunction | Callable[[QueryFunction], QueryFunction]:
    """Return the decorated function, or the decorator if there is no function yet."""
    draft.call.optional_text("name", name)

    def decorate(function: QueryFunction) -> QueryFunction:
        check_query(draft.call, function)
        return declare_query(draft, function, name)

    return decorate if query_function is None else decorate(query_function)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetDraft:
    """A dataset with checked arguments, but not yet a name, which may come from the decorated function."""

    call: Call
    kind: DatasetKind
    fields: dict[str, Any]

    def finish(self, name: QualifiedName, **more: Any) -> DatasetSpec:
        """Return the dataset with its name and further fields."""
        return DatasetSpec(name=name, kind=self.kind, location=self.call.location, **self.fields, **more)


def storage_draft(
    call: Call, kind: DatasetKind, comment: object, arguments: TableArguments, **fields: Any
) -> DatasetDraft:
    """Check the arguments of a stored dataset and return its draft.

    Raises:
        UserError: INVALID_ARGUMENT.* for the first invalid argument.
    """
    call.choice("format", arguments.get("format"), {"delta"})
    partitions = call.names("partition_cols", arguments.get("partition_cols"))
    clusters = call.names("cluster_by", arguments.get("cluster_by"))
    schema, properties = arguments.get("schema"), call.pairs("table_properties", arguments.get("table_properties"))
    automatic = call.flag("cluster_by_auto", arguments.get("cluster_by_auto"))
    call.exclusive(partition_cols=partitions or None, cluster_by=clusters or None)
    call.exclusive(partition_cols=partitions or None, cluster_by_auto=automatic)
    checked: dict[str, Any] = {
        "comment": call.comment(comment),
        "spark_conf": call.pairs("spark_conf", arguments.get("spark_conf")),
        "table_properties": without_tuning(properties, call.location),
        "path": located(call.optional_text("path", arguments.get("path"))),
        "partition_columns": partitions,
        "cluster_by": clusters,
        "cluster_by_auto": automatic,
        "schema": read_schema(call, schema),
        "row_filter": call.optional_text("row_filter", arguments.get("row_filter")),
        "private": call.flag("private", arguments.get("private")) or call.flag("temporary", arguments.get("temporary")),
    }
    if isinstance(schema, str):
        columns, checked["keys"] = split_keys(schema)
        checked["schema"] = columns or None  # keys alone do not declare columns, which come from the query
    return DatasetDraft(call=call, kind=kind, fields=checked | fields)


def read_schema(call: Call, schema: object) -> str | None:
    """Return the schema as text: DDL text unchanged, or the JSON of a StructType."""
    if schema is None or isinstance(schema, str):
        return call.optional_text("schema", schema)
    from pyspark.sql.types import StructType

    if not isinstance(schema, StructType):
        call.wrong_type("schema", schema, "a DDL string or a StructType")
    return schema.json()


def declare_query(draft: DatasetDraft, function: QueryFunction, name: str | None) -> QueryFunction:
    """Register a dataset and its flow of the same name; return the function, marked with its dataset."""
    registry = active_registry()
    full_name = draft.call.qualified("name", name if name is not None else default_name(draft.call, function))
    waiting = declared_of(function).expectations
    dataset = draft.finish(full_name, expectations=waiting)
    registry.datasets.append(dataset)
    flow = FlowSpec(name=full_name, target=full_name, location=dataset.location, spark_conf=dataset.spark_conf)
    registry.flows.append(flow)
    registry.queries[full_name] = function
    registry.take_expectations(waiting)
    return marked(function, Declared(dataset=dataset, expectations=waiting))
