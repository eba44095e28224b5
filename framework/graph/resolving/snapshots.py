"""Snapshot functions: the schema of their snapshots, calls, and validation of their results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from framework.cdc.analysis.compatibility import stored_kind
from framework.cdc.model.columns import match_field, struct_of
from framework.cdc.model.reserved_names import END_AT, HIDDEN_COLUMN, SEQUENCE, START_AT
from framework.cdc.model.snapshot_versions import SnapshotVersion
from framework.declare.session.mutations import unguarded
from framework.foundation.errors import UserError
from framework.graph.queries.calls import call_user_code
from framework.graph.reading.interception import not_reading

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

    from framework.declare.registry import SnapshotFunction
    from framework.declare.specs import FlowSpec


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Snapshot:
    """All rows of a source at one version."""

    frame: DataFrame
    version: SnapshotVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotShape:
    """The columns of snapshots and the type of their versions."""

    schema: StructType
    versions: DataType


def snapshot_shape(function: SnapshotFunction, flow: FlowSpec, stored: StructType | None) -> SnapshotShape:
    """Return the shape of a function's snapshots, from its stored target or, without one, from its first snapshot.

    No row of the snapshot is read.

    Raises:
        UserError: as for `next_snapshot`.
    """
    known = None if stored is None else _stored_shape(stored)
    if known is not None:
        return known
    with not_reading(), unguarded():  # the caller may be another query function that reads the target
        first = next_snapshot(function, flow, None)
    assert first is not None  # `next_snapshot` raises if there is no first snapshot
    return SnapshotShape(schema=first.frame.schema, versions=first.version.data_type)


def _stored_shape(stored: StructType) -> SnapshotShape | None:
    """Return the shape of the snapshots behind a stored table; None if the table has no sequence column."""
    sequence = match_field(struct_of(stored, HIDDEN_COLUMN), SEQUENCE) if stored_kind(stored) else None
    if sequence is None:
        return None
    ours = {HIDDEN_COLUMN, START_AT, END_AT}
    columns = StructType([field for field in stored.fields if field.name not in ours])
    return SnapshotShape(schema=columns, versions=sequence.dataType)


def next_snapshot(function: SnapshotFunction, flow: FlowSpec, latest: SnapshotVersion | None) -> Snapshot | None:
    """Return the snapshot after the latest applied one; None if there is none.

    Unlike a query function, a snapshot function may run any code: list files, collect rows, call a service.

    Raises:
        UserError: the function raised (FLOW_QUERY_FAILED, at the innermost line of the user's own code), returned
            no first snapshot, or returned anything but a snapshot with a later version.
    """
    given = None if latest is None else latest.to_python()
    found = call_user_code(lambda: function(given), flow.name, flow.location)
    if found is None and latest is None:
        raise UserError(
            "APPLY_CHANGES_FROM_SNAPSHOT_ERROR.FIRST_SNAPSHOT_EMPTY", location=flow.location, flow=flow.name
        )
    return None if found is None else _checked(found, flow, latest)


def _checked(found: object, flow: FlowSpec, latest: SnapshotVersion | None) -> Snapshot:
    if not isinstance(found, tuple) or len(found) != 2 or not isinstance(found[0], DataFrame):
        raise UserError(
            "APPLY_CHANGES_FROM_SNAPSHOT_ERROR.INVALID_SNAPSHOT_VERSION",
            location=flow.location,
            flow=flow.name,
            found=_described(found),
        )
    frame, value = found
    if value is None:
        raise UserError(
            "APPLY_CHANGES_FROM_SNAPSHOT_ERROR.INVALID_TUPLE_NULL_SNAPSHOT_VERSION",
            location=flow.location,
            flow=flow.name,
            target=flow.target,
        )
    version = SnapshotVersion.of(value)
    if version is None:
        raise UserError(
            "APPLY_CHANGES_FROM_SNAPSHOT_ERROR.INVALID_SNAPSHOT_VERSION_TYPE",
            location=flow.location,
            flow=flow.name,
            version=value,
            type=type(value).__name__,
        )
    if latest is not None:
        _check_order(version, latest, flow)
    return Snapshot(frame=frame, version=version)


def _check_order(version: SnapshotVersion, latest: SnapshotVersion, flow: FlowSpec) -> None:
    fields = {"flow": flow.name, "version": version.to_python(), "latest": latest.to_python()}
    if not version.is_comparable(latest):
        raise UserError(
            "APPLY_CHANGES_FROM_SNAPSHOT_ERROR.SNAPSHOT_VERSION_NOT_SORTABLE",
            location=flow.location,
            type=version.kind,
            latest_type=latest.kind,
            target=flow.target,
            **fields,
        )
    if not version.follows(latest):
        raise UserError(
            "APPLY_CHANGES_FROM_SNAPSHOT_ERROR.INVALID_SNAPSHOT_VERSION.NON_INCREASING",
            location=flow.location,
            **fields,
        )


def _described(found: object) -> str:
    if isinstance(found, tuple):
        return f"a tuple of ({', '.join(type(part).__name__ for part in found)})"
    return f"a value of type {type(found).__name__}"
