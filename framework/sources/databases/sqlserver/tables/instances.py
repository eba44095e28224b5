"""Capture instances: the change tables of change data capture, each with its columns and the LSN where it begins.

A table has at most two. The clean-up job moves the begin of all of them; `fn_cdc_get_min_lsn` would show it only for an
instance that exists, and zero for any other name, so the catalog is read instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from framework.sources.databases.sqlserver.lsn import Lsn
from framework.sources.databases.sqlserver.session import Session
from framework.sources.databases.sqlserver.values.types import type_text

COMMAND = "__$command_id"
_IS_ENABLED = "SELECT is_cdc_enabled FROM sys.databases WHERE database_id = DB_ID()"
_INSTANCES = (
    "SELECT ct.source_object_id, ct.object_id, ct.capture_instance, ct.start_lsn, ct.partition_switch, "
    "CONVERT(varchar(33), ct.create_date, 126) FROM cdc.change_tables AS ct"
)
_COLUMNS = (
    "SELECT c.object_id, c.name, COALESCE(b.name, ty.name), c.max_length, c.precision, c.scale "
    "FROM cdc.change_tables AS ct JOIN sys.columns AS c ON c.object_id = ct.object_id "
    "JOIN sys.types AS ty ON ty.user_type_id = c.user_type_id "
    "LEFT JOIN sys.types AS b ON b.user_type_id = ty.system_type_id ORDER BY c.object_id, c.column_id"
)
_OWN = "__$"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureInstance:
    """A capture instance of a table.

    Args:
        source_id: the object id of the table.
        id: the object id of the change table.
        name: the name of the instance.
        begin: the LSN from which it has all changes; None while the capture job has not reached it.
        columns: the captured columns, each with its type in the change table.
        has_commands: whether its rows have the order of the commands in a transaction; old change tables have not.
        allows_switch: whether partitions may be switched, whose rows are in no log.
        created: when it was made, as text that sorts.
    """

    source_id: int
    id: int
    name: str
    begin: Lsn | None
    columns: tuple[tuple[str, str], ...]
    has_commands: bool = True
    allows_switch: bool = False
    created: str = ""

    @property
    def change_table(self) -> str:
        """The name of the change table, without its schema `cdc`."""
        return f"{self.name}_CT"


def is_capturing(session: Session) -> bool:
    """Return whether change data capture is enabled in the database.

    Raises:
        SourceError: the database can't be read.
    """
    return bool(session.rows(_IS_ENABLED)[0][0])


def read_instances(session: Session) -> tuple[CaptureInstance, ...]:
    """Return all capture instances, those of a table from the oldest to the newest; none without capture.

    Raises:
        SourceError: the database can't be read.
    """
    if not is_capturing(session):
        return ()
    rows = session.rows(_INSTANCES)
    columns: dict[int, list[tuple[str, str]]] = {}
    for number, name, kind, *sizes in session.rows(_COLUMNS) if rows else ():
        columns.setdefault(number, []).append((name, type_text(kind, *sizes)))
    found = [
        CaptureInstance(
            source_id=source,
            id=number,
            name=name,
            begin=None if begin is None else Lsn(bytes(begin)),
            columns=tuple(each for each in columns.get(number, ()) if not each[0].startswith(_OWN)),
            has_commands=COMMAND in {each for each, _ in columns.get(number, ())},
            allows_switch=bool(switch),
            created=created,
        )
        for source, number, name, begin, switch, created in rows
    ]
    # The clean-up job may give two instances the same begin, and object ids have no order.
    return tuple(sorted(found, key=lambda each: (each.created, each.id)))


def instances_of(instances: Sequence[CaptureInstance], source_id: int) -> tuple[CaptureInstance, ...]:
    """Return the capture instances of a table, from the oldest to the newest."""
    return tuple(each for each in instances if each.source_id == source_id)


def newest_of(instances: Sequence[CaptureInstance]) -> dict[int, CaptureInstance]:
    """Return the newest capture instance of each table by its object id; one that has begun if there is any."""
    begun = {each.source_id: each for each in instances if each.begin is not None}
    return {**{each.source_id: each for each in instances}, **begun}
