"""The schema a dataset's table must have, from its flows, its declaration and what is stored."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import DataType, StructType

from framework.cdc.analysis.target_schema import CdcInput, CdcTarget, plan_target
from framework.declare.specs import DatasetKind, DatasetSpec, ExpectationSpec, FlowSpec
from framework.foundation.errors import GraphErrors, UserError
from framework.foundation.names import QualifiedName
from framework.foundation.wording import exception_text
from framework.graph.calls import SPARK_ERRORS, first_words
from framework.graph.graph import GraphDataset
from framework.graph.schemas import as_nullable, merge_schemas

_CHANGE_FEED = "delta.enableChangeDataFeed"
_MAPPING = "delta.columnMapping.mode"
_NOT_IN_PARQUET = frozenset(" ,;{}()\n\t=")
"""Delta stores names with these characters only in tables with column mapping."""

Inputs = Sequence[tuple[FlowSpec, DataFrame]]
Versions = Mapping[QualifiedName, DataType]


def table_target(
    dataset: GraphDataset, inputs: Inputs, stored: StructType | None, versions: Versions | None = None
) -> GraphDataset:
    """The dataset with the schema that readers see and the one that its table needs.

    Args:
        dataset: without schema.
        inputs: its flows with their analysed queries.
        stored: the schema of its present table, if there is one.
        versions: of flows from snapshots the type of their versions.

    Raises:
        UserError: columns that can't evolve by addition, differ from the declared schema, or that the
            layout names and the table lacks.
    """
    declared = parse_schema(dataset.spec, inputs[0][1])
    if any(spec.cdc is not None for spec, _ in inputs):
        return _cdc_table(dataset, inputs, declared, stored, versions or {})
    found = reduce(
        lambda merged, schema: merge_schemas(merged, schema, dataset=dataset.name),
        (frame.schema for _, frame in inputs),
    )
    if declared is not None:
        check_declared(dataset.spec, declared, found)
        found = declared
    if dataset.kind is DatasetKind.STREAMING_TABLE:
        found = as_nullable(found) if declared is None else found
        found = found if stored is None else merge_schemas(stored, found, dataset=dataset.name)
    if dataset.is_table:
        check_layout(dataset.spec, found)
        check_column_names(dataset.spec, found, stored)
    return replace(dataset, schema=found.json(), table_schema=found.json())


def _cdc_table(
    dataset: GraphDataset,
    inputs: Inputs,
    declared: StructType | None,
    stored: StructType | None,
    versions: Versions,
) -> GraphDataset:
    target: CdcTarget = plan_target(
        dataset.name,
        [
            CdcInput(
                name=spec.name,
                spec=spec.cdc,
                once=spec.once,
                location=spec.location,
                source=frame,
                versions=versions.get(spec.name),
            )
            for spec, frame in inputs
            if spec.cdc is not None
        ],
        declared_schema=declared,
        stored=stored,
        partition_columns=dataset.spec.partition_columns,
    )
    check_layout(dataset.spec, target.visible_schema)
    check_column_names(dataset.spec, target.visible_schema, stored)
    _check_feed_names(dataset.spec, target.visible_schema)
    return replace(dataset, schema=target.visible_schema.json(), table_schema=target.table_schema.json(), cdc=target)


def parse_schema(spec: DatasetSpec, frame: DataFrame) -> StructType | None:
    """The declared schema, from DDL text or JSON; None when none was declared.

    Raises:
        UserError: INVALID_SCHEMA when the text can't be read.
    """
    if spec.schema is None:
        return None
    if spec.schema.lstrip().startswith("{"):
        return _schema_of_json(spec)
    jvm: Any = frame.sparkSession._jvm
    try:
        text = jvm.org.apache.spark.sql.types.StructType.fromDDL(spec.schema).json()
    except SPARK_ERRORS as error:
        raise UserError(
            "INVALID_SCHEMA", location=spec.location, dataset=spec.name, cause=first_words(error)
        ) from error
    return StructType.fromJson(json.loads(text))


def _schema_of_json(spec: DatasetSpec) -> StructType:
    try:
        return StructType.fromJson(json.loads(spec.schema or ""))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        cause = exception_text(error)
        raise UserError("INVALID_SCHEMA", location=spec.location, dataset=spec.name, cause=cause) from error


def check_declared(spec: DatasetSpec, declared: StructType, found: StructType) -> None:
    """Every column that the query gives is declared, with its type.

    Raises:
        UserError: USER_SPECIFIED_AND_INFERRED_SCHEMA_NOT_COMPATIBLE with the columns that differ.
    """
    wanted = {field.name.lower(): field.dataType for field in declared.fields}
    wrong = [
        f"{field.name} {field.dataType.simpleString()}"
        for field in found.fields
        if wanted.get(field.name.lower()) != field.dataType
    ]
    if wrong:
        raise UserError(
            "USER_SPECIFIED_AND_INFERRED_SCHEMA_NOT_COMPATIBLE",
            location=spec.location,
            dataset=spec.name,
            columns=", ".join(wrong),
            declared=declared.simpleString(),
        )


def check_layout(spec: DatasetSpec, schema: StructType) -> None:
    """Partition and clustering columns are columns of the table.

    Raises:
        GraphErrors: a LAYOUT_COLUMN_NOT_FOUND for each that is none.
    """
    names = {field.name.lower() for field in schema.fields}
    errors = [
        UserError(
            "LAYOUT_COLUMN_NOT_FOUND",
            location=spec.location,
            dataset=spec.name,
            column=column,
            columns=", ".join(sorted(names)),
        )
        for column in (*spec.partition_columns, *spec.cluster_by)
        if column.split(".")[0].strip("`").lower() not in names
    ]
    if errors:
        raise GraphErrors(errors)


def check_column_names(spec: DatasetSpec, schema: StructType, stored: StructType | None) -> None:
    """Delta can store the names of new columns and their fields.

    Raises:
        UserError: COLUMN_NAME_NEEDS_MAPPING.
    """
    if dict(spec.table_properties).get(_MAPPING, "none").lower() != "none":
        return
    known = set() if stored is None else set(_column_names(stored))
    names = [name for name in _column_names(schema) if _NOT_IN_PARQUET & set(name) and name not in known]
    if names:
        raise UserError(
            "COLUMN_NAME_NEEDS_MAPPING",
            location=spec.location,
            dataset=spec.name,
            columns=", ".join(f"`{name}`" for name in names),
            property=_MAPPING,
        )


def _check_feed_names(spec: DatasetSpec, schema: StructType) -> None:
    """Delta can write the change data feed of the merges into a target.

    Raises:
        UserError: COLUMN_NAME_IN_CHANGE_FEED.
    """
    names = [name for name in schema.fieldNames() if "`" in name]
    if names and dict(spec.table_properties).get(_CHANGE_FEED, "").lower() == "true":
        raise UserError(
            "COLUMN_NAME_IN_CHANGE_FEED",
            location=spec.location,
            dataset=spec.name,
            columns=", ".join(names),
            property=_CHANGE_FEED,
        )


def _column_names(data_type: DataType) -> Iterator[str]:
    """The names of fields at any depth."""
    if isinstance(data_type, StructType):
        for field in data_type.fields:
            yield field.name
            yield from _column_names(field.dataType)
    for part in ("elementType", "keyType", "valueType"):
        if hasattr(data_type, part):
            yield from _column_names(getattr(data_type, part))


def check_expectations(spec: DatasetSpec, frame: DataFrame) -> None:
    """Each expectation is a boolean over the columns of the rows it judges.

    Raises:
        GraphErrors: an EXPECTATION_INVALID for each that is not, at the place of the expectation.
    """
    errors = [
        UserError(
            "EXPECTATION_INVALID",
            location=expectation.location or spec.location,
            dataset=spec.name,
            expectation=expectation.name,
            cause=cause,
        )
        for expectation in spec.expectations
        if (cause := _invalid(expectation, frame))
    ]
    if errors:
        raise GraphErrors(errors)


def _invalid(expectation: ExpectationSpec, frame: DataFrame) -> str:
    """Why an expectation can't be judged; empty if it can."""
    try:
        found = frame.select(sql.expr(expectation.condition)).schema.fields[0].dataType.simpleString()
    except SPARK_ERRORS as error:
        return first_words(error)
    return "" if found == "boolean" else f"`{expectation.condition}` is {found}, not boolean."
