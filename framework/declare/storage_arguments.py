"""Validation of the arguments that all stored datasets share, and registration of the datasets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from framework.declare.call import Call
from framework.declare.queries import Declared, declared_of, default_name, marked
from framework.declare.registry import QueryFunction, active_registry
from framework.declare.specs import DatasetKind, DatasetSpec, FlowSpec
from framework.foundation.names import QualifiedName


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetDraft:
    """A dataset with checked arguments but without a name, which may depend on the decorated function."""

    call: Call
    kind: DatasetKind
    fields: dict[str, Any]

    def finish(self, name: QualifiedName, **more: Any) -> DatasetSpec:
        """The dataset with its name and further fields."""
        return DatasetSpec(name=name, kind=self.kind, location=self.call.location, **self.fields, **more)


def storage_draft(
    call: Call,
    kind: DatasetKind,
    *,
    comment: object,
    spark_conf: object,
    table_properties: object,
    path: object,
    partition_cols: object,
    cluster_by: object,
    cluster_by_auto: object,
    schema: object,
    row_filter: object,
    private: object,
    temporary: object,
    format: object,
    **fields: Any,
) -> DatasetDraft:
    """Check the arguments of a stored dataset and return its draft.

    Raises:
        UserError: INVALID_ARGUMENT.* for the first invalid argument.
    """
    call.choice("format", format, {"delta"})
    partitions = call.names("partition_cols", partition_cols)
    clusters = call.names("cluster_by", cluster_by)
    automatic = call.flag("cluster_by_auto", cluster_by_auto)
    call.exclusive(partition_cols=partitions or None, cluster_by=clusters or None)
    call.exclusive(partition_cols=partitions or None, cluster_by_auto=automatic)
    checked = {
        "comment": call.comment(comment),
        "spark_conf": call.pairs("spark_conf", spark_conf),
        "table_properties": call.pairs("table_properties", table_properties),
        "path": call.optional_text("path", path),
        "partition_columns": partitions,
        "cluster_by": clusters,
        "cluster_by_auto": automatic,
        "schema": read_schema(call, schema),
        "row_filter": call.optional_text("row_filter", row_filter),
        "private": call.flag("private", private) or call.flag("temporary", temporary),
    }
    return DatasetDraft(call=call, kind=kind, fields=checked | fields)


def read_schema(call: Call, schema: object) -> str | None:
    """The schema as text: DDL text unchanged, or the JSON of a StructType."""
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
