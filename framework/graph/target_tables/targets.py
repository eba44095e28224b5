"""The schema of a dataset's table, from its flows, its declaration and its stored table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import DataType, StructField, StructType

from framework.cdc.analysis.target_schema import CdcInput, plan_target
from framework.cdc.model.reserved_names import HIDDEN_COLUMN
from framework.declare.specs import DatasetKind, DatasetSpec, ExpectationSpec, FlowSpec
from framework.foundation.computed_columns import as_read, is_computed, is_generated
from framework.foundation.errors import GraphErrors, UserError
from framework.foundation.names import QualifiedName
from framework.graph.graph import GraphDataset, GraphFlow
from framework.graph.queries.calls import SPARK_ERRORS, first_words
from framework.graph.reading.schemas import as_nullable, merge_schemas
from framework.graph.target_tables.computed_columns import check_computed, returned_identities
from framework.graph.target_tables.declared_schema import is_same_type, nullable_parts, parse_schema
from framework.graph.target_tables.dropped_columns import finds_dropped
from framework.schema.lattice import WIDENING_PROPERTY
from framework.sources.cloud_files.source import widens_types

_CHANGE_FEED = "delta.enableChangeDataFeed"
_MAPPING = "delta.columnMapping.mode"
_NOT_IN_PARQUET = frozenset(" ,;{}()\n\t=")
"""Delta allows these characters in column names only in tables with column mapping."""

Inputs = Sequence[tuple[FlowSpec, DataFrame]]
Versions = Mapping[QualifiedName, DataType]


def table_target(
    dataset: GraphDataset, inputs: Inputs, stored: StructType | None, versions: Versions | None = None
) -> GraphDataset:
    """Return the dataset with the schema that readers see and the schema of its table.

    Args:
        dataset: a dataset without a schema; its `widens` says whether types widen.
        inputs: its flows with their analysed queries.
        stored: the schema of its stored table, if there is one.
        versions: the version types of flows from snapshots.

    Raises:
        UserError: columns can't evolve by addition, differ from the declared schema, have names that Delta can't store,
            or the layout names columns that the table does not have.
    """
    declared = parse_schema(dataset.spec, inputs[0][1])
    if declared is not None:
        before = None if dataset.kind is DatasetKind.MATERIALIZED_VIEW else stored  # a view's rows are all computed
        check_computed(dataset.spec, declared, before, inputs[0][1].sparkSession)
    if any(spec.cdc is not None for spec, _ in inputs):
        return _cdc_table(dataset, inputs, declared, stored, versions or {})
    found = reduce(
        lambda merged, schema: merge_schemas(merged, schema, dataset=dataset.name, widens=dataset.widens),
        (as_read(frame.schema) for _, frame in inputs),
    )
    if declared is not None:
        _check_declared(dataset, declared, found, [frame.schema for _, frame in inputs])
        found = declared
    if dataset.kind is DatasetKind.STREAMING_TABLE:
        found = as_nullable(found) if declared is None else found
        if stored is not None:
            found = merge_schemas(stored, found, dataset=dataset.name, widens=dataset.widens)
    if dataset.is_table:
        check_layout(dataset.spec, found)
        check_column_names(dataset.spec, found, stored)
    return replace(dataset, schema=as_read(found).json(), table_schema=found.json())


def may_widen(
    spec: DatasetSpec, flows: Sequence[GraphFlow], datasets: Mapping[QualifiedName, GraphDataset | None]
) -> bool:
    """Return whether column types may widen: by the table's property, or else because its flows read files that do.

    Args:
        spec: the declaration of the dataset.
        flows: the flows into it.
        datasets: the resolved datasets, with all that the flows read.
    """
    given = {name.lower(): value for name, value in spec.table_properties}.get(WIDENING_PROPERTY.lower())
    if given is not None:
        return given.strip().lower() == "true"
    read = (datasets.get(read.dataset) for flow in flows for read in flow.reads if read.dataset is not None)
    of_files = any(widens_types(source) for flow in flows for source in flow.sources)
    return of_files or any(each is not None and each.widens for each in read)


def _cdc_table(
    dataset: GraphDataset,
    inputs: Inputs,
    declared: StructType | None,
    stored: StructType | None,
    versions: Versions,
) -> GraphDataset:
    known = {field.name.lower(): field for each in (stored, declared) if each is not None for field in each.fields}
    generated = [field for field in known.values() if is_generated(field)]
    target = plan_target(
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
        declared_schema=_without(declared, generated),
        stored=_without(stored, generated),
        partition_columns=dataset.spec.partition_columns,
        widens=dataset.widens,
    )
    visible, table = _with(target.visible_schema, generated), _with(target.table_schema, generated)
    check_layout(dataset.spec, visible)
    check_column_names(dataset.spec, visible, stored)
    _check_feed_names(dataset.spec, visible)
    return replace(dataset, schema=as_read(visible).json(), table_schema=table.json(), cdc=target.plan)


def _without(schema: StructType | None, columns: Sequence[StructField]) -> StructType | None:
    """Return a schema without some columns; AUTO CDC leaves out the columns that Delta generates."""
    names = {field.name.lower() for field in columns}
    return None if schema is None else StructType([f for f in schema.fields if f.name.lower() not in names])


def _with(schema: StructType, generated: Sequence[StructField]) -> StructType:
    """Return a target's columns with the columns that Delta generates; the hidden column stays the last."""
    hidden = [field for field in schema.fields if field.name == HIDDEN_COLUMN]
    return StructType([*(field for field in schema.fields if field.name != HIDDEN_COLUMN), *generated, *hidden])


def _check_declared(
    dataset: GraphDataset, declared: StructType, found: StructType, queries: Sequence[StructType]
) -> None:
    """Check that the queries' columns are declared with their types; a view must have all declared columns.

    A part of a column may be nullable, or have a comment, in the declaration only. Delta does not check every NOT NULL
    part, so a part that is declared NOT NULL must be NOT NULL in the queries.

    Args:
        dataset: the dataset.
        declared: its declared schema.
        found: the columns of all queries.
        queries: the columns of each query; needed because merging columns makes their parts nullable.

    Raises:
        UserError: USER_SPECIFIED_AND_INFERRED_SCHEMA_NOT_COMPATIBLE with the columns that differ.
    """
    wanted = {field.name.lower(): field.dataType for field in declared.fields}
    fitting = {
        field.name.lower()
        for field in found.fields
        if field.name.lower() in wanted and is_same_type(wanted[field.name.lower()], field.dataType)
    }
    wrong = [f"{f.name} {f.dataType.simpleString()}" for f in found.fields if f.name.lower() not in fitting]
    nullable = (
        part
        for query in queries
        for field in query.fields
        if field.name.lower() in fitting
        for part in nullable_parts(wanted[field.name.lower()], field.dataType, field.name)
    )
    wrong += [f"{part} (nullable, but declared NOT NULL)" for part in dict.fromkeys(nullable)]
    wrong += [f"{name} (GENERATED ALWAYS AS IDENTITY takes no values)" for name in returned_identities(declared, found)]
    wrong += _not_in_views(declared, found) if dataset.kind is DatasetKind.MATERIALIZED_VIEW else []
    if wrong:
        raise UserError(
            "USER_SPECIFIED_AND_INFERRED_SCHEMA_NOT_COMPATIBLE",
            location=dataset.spec.location,
            dataset=dataset.name,
            columns=", ".join(wrong),
            declared=declared.simpleString(),
        )


def _not_in_views(declared: StructType, found: StructType) -> list[str]:
    """Return the declared columns that a view can't have, because it has NULL where its query has no column."""
    present = {field.name.lower() for field in found.fields}
    return [
        f"{field.name} (missing, but NOT NULL)"
        for field in declared.fields
        if not field.nullable and not is_computed(field) and field.name.lower() not in present
    ]


def check_layout(spec: DatasetSpec, schema: StructType) -> None:
    """Check that partition and clustering columns are columns of the table.

    Raises:
        GraphErrors: one LAYOUT_COLUMN_NOT_FOUND per missing column.
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
    """Check that Delta can store the names of new columns and their fields.

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
    """Check that Delta can write the change data feed of the merges into a target.

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
    """Yield the names of fields at any depth."""
    if isinstance(data_type, StructType):
        for field in data_type.fields:
            yield field.name
            yield from _column_names(field.dataType)
    for part in ("elementType", "keyType", "valueType"):
        if hasattr(data_type, part):
            yield from _column_names(getattr(data_type, part))


def check_expectations(spec: DatasetSpec, flow: FlowSpec, frame: DataFrame) -> None:
    """Check that each expectation is a boolean expression over the query's columns, or has keys of appended rows.

    Raises:
        GraphErrors: one EXPECTATION_INVALID per invalid expectation, at its location.
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
        if (cause := _no_unique_keys(expectation, spec, flow, frame) or _invalid(expectation, frame))
    ]
    if errors:
        raise GraphErrors(errors)


def _no_unique_keys(expectation: ExpectationSpec, spec: DatasetSpec, flow: FlowSpec, frame: DataFrame) -> str:
    """Return why rows can't be compared with the table's rows; empty if they can, or need not be."""
    if expectation.unique is None:
        return ""
    if spec.kind is DatasetKind.TEMPORARY_VIEW:
        return "UNIQUE compares the rows of a table, and a temporary view has none: declare it for the table."
    if flow.cdc is not None or flow.from_snapshots:
        return (
            "UNIQUE is not checked for changes: AUTO CDC has one row for each of its keys. Check other columns in a "
            "materialized view of the table."
        )
    if not expectation.unique:
        return "UNIQUE has no column in its parentheses."
    try:
        frame.select(*(sql.expr(key) for key in expectation.unique)).distinct()
    except SPARK_ERRORS as error:
        return first_words(error)
    return ""


def _invalid(expectation: ExpectationSpec, frame: DataFrame) -> str:
    """Return why an expectation is invalid; empty if it is valid."""
    if expectation.unique is not None:
        return ""
    try:
        found = frame.select(sql.expr(expectation.condition)).schema.fields[0].dataType.simpleString()
    except SPARK_ERRORS as error:
        return "" if finds_dropped(frame, expectation.condition) else first_words(error)
    return "" if found == "boolean" else f"`{expectation.condition}` has type {found}; expected boolean."
