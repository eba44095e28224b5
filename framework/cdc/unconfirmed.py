"""Rows that a complete snapshot did not confirm: they are deleted at the snapshot's sequence.

A delete undoes older events, and events at or after its point win. So the result doesn't depend on when and how often
these deletes are applied, provided that the caller has applied all older events of the rows before.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, StringType, StructField, StructType, TimestampType

from framework.cdc.apply import apply_events
from framework.cdc.events.leaf_columns import event_names, wrote_names
from framework.cdc.events.normalize import DELETE, OPERATION, ORDER, align_sequence
from framework.cdc.model.columns import column
from framework.cdc.model.metrics import CdcMetrics
from framework.cdc.model.reserved_names import HIDDEN_COLUMN, SEQUENCE
from framework.cdc.scd1.flagged_rows import is_flagged
from framework.cdc.scd2.known_events import ended_at
from framework.engine.delta.table_version import read_table
from framework.engine.sessions.execution import computed_once, count_kept, planned_for

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

    from framework.cdc.analysis.target_schema import CdcTarget
    from framework.cdc.delta.destination import Destination

_PAGE = 50_000

Missing = Callable[[Sequence[Sequence[str]]], list[int]]
"""Returns the indexes of the keys that are missing at the source; a key is a list of strings."""


def delete_unconfirmed(
    session: SparkSession, destination: Destination, sequence: str, *, where: str | None, missing: Missing
) -> CdcMetrics:
    """Delete the rows that are older than a sequence, or flag them; for SCD type 2, close them.

    Args:
        session: the flow's session.
        destination: the target, and the flow of the snapshot.
        sequence: the sequence of the snapshot's rows, in SQL.
        where: the condition by which the source selected the rows of the snapshot; None if it read all rows. With a
            condition, a row is deleted only if the source no longer has its key: the source may evaluate the condition
            differently, or have a different row than the target. A condition that Spark can't evaluate selects all
            rows.
        missing: looks up keys at the source.
    """
    rows = _older_rows(session, destination, sequence)
    if where is None:
        # The table is read once, and usually has no such row, so there is nothing to apply.
        with planned_for(rows), computed_once(rows.select(*map(column, destination.target.keys))) as keys:
            return _apply(keys, destination, sequence) if count_kept(keys) else CdcMetrics()
    total = CdcMetrics()
    for gone in _missing_keys(session, _selected(rows, where), destination.target, missing):
        done = _apply(gone, destination, sequence)
        total = replace(total, rows=total.rows + done.rows, deleted=total.deleted + done.deleted)
    return total


def _older_rows(session: SparkSession, destination: Destination, sequence: str) -> DataFrame:
    target = destination.target
    table = read_table(session, destination.table)
    table = table.where(ended_at(target).isNull() if target.scd_type == 2 else ~is_flagged(target))
    own = column(HIDDEN_COLUMN).getField(SEQUENCE)
    return table.where(F.coalesce(own < _sequence(session, target, sequence), F.expr("true")))


def _sequence(session: SparkSession, target: CdcTarget, sequence: str) -> Column:
    given = session.range(1).select(F.expr(sequence).alias(SEQUENCE)).schema[SEQUENCE].dataType
    assert target.sequence_type is not None  # the flows of the target have one
    return align_sequence(F.expr(sequence), given, target.sequence_type)


def _apply(keys: DataFrame, destination: Destination, sequence: str) -> CdcMetrics:
    """Apply a delete for each key in a separate transaction; idempotent."""
    target, session = destination.target, keys.sparkSession
    point = {SEQUENCE: _sequence(session, target, sequence)}
    order = F.struct(*(point.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in target.order_type.fields))
    made = {ORDER: order, OPERATION: F.lit(DELETE)} | dict.fromkeys(wrote_names(target), F.expr("false"))
    fields = {field.name: field.dataType for field in target.row_schema.fields}
    values = [
        column(name) if name in target.keys else F.lit(None).cast(fields[name]).alias(name)
        for name in event_names(target)
        if name not in made
    ]
    events = keys.select(*values, *(value.alias(name) for name, value in made.items()))
    once = replace(destination, application_id=f"{destination.application_id}:{uuid.uuid4()}", truncates=False)
    return apply_events(events, once, 0)


def _selected(rows: DataFrame, where: str) -> DataFrame:
    try:
        return rows.where(where)
    except AnalysisException:
        return rows


def _missing_keys(session: SparkSession, rows: DataFrame, target: CdcTarget, missing: Missing) -> Iterator[DataFrame]:
    """Yield the rows whose keys are missing at the source, in parts.

    Python gets the keys only as strings. Its times have no years before 1, and are in the machine's time zone, where
    two instants have the same text when clocks are set back.
    """
    types = {field.name: field.dataType for field in target.row_schema.fields}
    texts = [_text(column(key), types[key]).alias(f"text_{index}") for index, key in enumerate(target.keys)]
    names = [f"text_{index}" for index in range(len(texts))]
    schema = StructType([StructField(name, StringType()) for name in names])

    def with_keys(keys: list[list[str]]) -> DataFrame:
        known = rows.select(F.struct(*map(column, target.keys)).alias("key"), *texts)
        wanted = F.broadcast(session.createDataFrame(keys, schema))
        return known.join(wanted, names, "left_semi").select("key.*")

    found = map(list, rows.select(*texts).toLocalIterator())
    gone: list[list[str]] = []
    while page := list(islice(found, _PAGE)):
        gone += [page[index] for index in missing(page)]
        if len(gone) >= _PAGE:
            yield with_keys(gone)
            gone = []
    if gone:
        yield with_keys(gone)


def _text(value: Column, data_type: DataType) -> Column:
    """Return a value of a key as text that a database reads without settings."""
    if isinstance(data_type, TimestampType):
        # In UTC, not in the session's zone, whose offset may have seconds and whose clocks repeat some hours.
        since = F.timestamp_add("MICROSECOND", F.unix_micros(value), F.lit("1970-01-01").cast("timestamp_ntz"))
        return F.concat(since.cast("string"), F.lit("+00"))
    if isinstance(data_type, BinaryType):
        return F.concat(F.lit("\\x"), F.hex(value))
    if isinstance(data_type, ArrayType):
        elements = F.transform(value, lambda element: _element_text(element, data_type.elementType))
        return F.concat(F.lit("{"), F.array_join(elements, ","), F.lit("}"))
    return value.cast("string")


def _element_text(element: Column, data_type: DataType) -> Column:
    escaped = F.regexp_replace(_text(element, data_type), r'(["\\])', r"\\$1")
    return F.coalesce(F.concat(F.lit('"'), escaped, F.lit('"')), F.lit("NULL"))
