"""A session at a ledger."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from framework.foundation.errors import SourceError, UserError
from framework.sources.databases.connections import Connection
from framework.sources.databases.findings import PreflightFinding
from framework.sources.databases.position import Position, position_of
from framework.sources.databases.source_session import Gap, KnownTable, LogName, LogReach, LogStatus, Obstacle
from framework.sources.databases.tables import ColumnIdentity, KeyKind, SourceColumn, SourceTable, TableName
from tests.support.ledger.database import LOG_VERSION, SCHEMA, Ledger
from tests.support.ledger.positions import gap_of


@dataclass(frozen=True, slots=True)
class LedgerTables:
    """The tables that have triggers."""

    ledger: Ledger
    members: Mapping[TableName, int]

    @property
    def has_log(self) -> bool:
        """Whether any table is followed."""
        return bool(self.members)

    def has_table(self, name: TableName) -> bool:
        """Whether it has triggers."""
        return name in self.members

    def continuity(self, source: SourceTable) -> str:
        """Return the page of its first row, and the number of its triggers."""
        return continuity(source, self.members.get(source.name, 0))

    def among(self, sources: Sequence[SourceTable]) -> LedgerTables:
        """Return the same tables."""
        del sources
        return self

    def refuse(self, source: SourceTable, known: KnownTable | None) -> None:
        """Refuse a table that is another one, or was without triggers."""
        if known is None:
            return
        fault = self.fault(source, known.continuity) or self.fault(source, known.planned)
        if fault is not None:
            raise fault
        if known.is_begun and not self.has_table(source.name):
            raise UserError("INGESTION_TABLE_UNPUBLISHED", table=source.name, members="the tables with triggers")

    def fault(self, source: SourceTable, continuity: str) -> UserError | None:
        """Return the fault of a table whose page or triggers are others."""
        page, _, member = continuity.partition("/")
        if page and page != source.identity:
            return UserError("INGESTION_TABLE_REPLACED", table=source.name)
        if member not in ("", "0", str(self.members.get(source.name, 0))):
            return UserError("INGESTION_TABLE_UNPUBLISHED", table=source.name, members="the tables with triggers")
        return None


def continuity(source: SourceTable, member: int) -> str:
    """Return what identifies a table and its triggers."""
    return f"{source.identity}/{member}"


class LedgerSource:
    """A session."""

    def __init__(self, connection: Connection) -> None:
        self.ledger = Ledger.of(connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self.ledger.close()

    def list_tables(self, schemas: Sequence[str]) -> tuple[TableName, ...]:
        """Return the tables, without those of the ledger itself."""
        if SCHEMA not in schemas:
            raise SourceError("DATABASE_SCHEMA_MISSING", schema=schemas[0], hint="")
        found = self.ledger.rows("SELECT name FROM sqlite_master WHERE type = 'table'")
        own = ("ledger_", "sqlite_")
        return tuple(TableName(schema=SCHEMA, table=name) for (name,) in found if not name.startswith(own))

    def read_table(self, name: TableName) -> SourceTable:
        """Return a table; the page of its first row identifies it."""
        root = self.ledger.one("SELECT rootpage FROM sqlite_master WHERE type = 'table' AND name = ?", [name.table])
        if root is None:
            raise SourceError("DATABASE_TABLE_MISSING", table=name, hint="")
        columns = self.ledger.rows('SELECT name, type, "notnull", pk, cid FROM pragma_table_info(?)', [name.table])
        key = tuple(each[0] for each in sorted(columns, key=lambda each: each[3]) if each[3])
        return SourceTable(
            name=name,
            columns=tuple(_column(each) for each in columns),
            key=key,
            key_kind=KeyKind.PRIMARY if key else KeyKind.NONE,
            storage_id="",
            estimated_rows=0,
            estimated_bytes=0,
            identity=str(root),
            most_columns=len(columns),
            log_version=LOG_VERSION,
        )

    def read_tables(self, names: Sequence[TableName]) -> Mapping[TableName, SourceTable | SourceError]:
        """Return tables or their faults."""
        found: dict[TableName, SourceTable | SourceError] = {}
        for name in names:
            try:
                found[name] = self.read_table(name)
            except SourceError as error:
                found[name] = error
        return found

    def read_sizes(self, names: Sequence[TableName]) -> dict[TableName, tuple[int, int]]:
        """Count the rows."""
        known = {*self.list_tables([SCHEMA])}
        return {
            name: (int(self.ledger.one(f'SELECT count(*) FROM "{name.table}"')), 0) for name in names if name in known
        }

    def read_children(self, names: Sequence[TableName]) -> Mapping[TableName, tuple[str, ...]]:
        """Return that no table inherits."""
        del names
        return {}

    def check_filter(self, name: TableName, condition: str) -> None:
        """Prepare a query with the condition."""
        self.ledger.rows(f'SELECT 1 FROM "{name.table}" WHERE ({condition}) LIMIT 0')

    def missing_keys(
        self, table: SourceTable, columns: Sequence[str], keys: Sequence[Sequence[str]], as_text: Collection[str]
    ) -> list[int]:
        """Look up each key."""
        del as_text
        where = " AND ".join(f'"{name}" = ?' for name in columns)
        lookup = f'SELECT 1 FROM "{table.name.table}" WHERE {where}'
        return [index for index, key in enumerate(keys) if not self.ledger.rows(lookup, list(key))]

    def check(self, names: Sequence[TableName], log: LogName) -> tuple[PreflightFinding, ...]:
        """Find nothing."""
        del names, log
        return ()

    def logged_tables(self, log: LogName) -> LedgerTables:
        """Return the tables that have triggers."""
        del log
        return LedgerTables(self.ledger, self.ledger.members())

    def ensure_position(self, log: LogName, names: Sequence[TableName], *, reader: str = "") -> Position:
        """Follow the tables; SQLite has one writer, so each later change has a later number."""
        del reader
        for name in names:
            self.ledger.follow(name.table)
        return self.settled_position(log)

    def settled_position(self, log: LogName, after: str | None = None) -> Position:
        """Return the end, which every later read sees."""
        del log, after
        return Position(order=self.ledger.end, text=f"change {self.ledger.end}")

    def drop_position(self, log: LogName, *, reader: str = "") -> None:
        """Drop the triggers."""
        del log, reader
        self.ledger.unfollow()

    def find_gap(self, stored: str, log: LogName) -> Gap | None:
        """Return the gap between a stored position and the changes that are left."""
        return gap_of(self.ledger, stored, log.position)

    def log_reach(self, stored: str | None, log: LogName) -> LogReach:
        """Return whether there are changes after a position; it keeps them for ever."""
        del log
        is_current = stored is not None and position_of(stored).order >= self.ledger.end
        return LogReach(behind_bytes=0 if is_current else None, behind_seconds=0.0 if is_current else None)

    def log_status(self, log: LogName) -> LogStatus | None:
        """Return that nothing is kept for a reader."""
        del log
        return None

    def is_waiting(self) -> bool:
        """Nobody waits."""
        return False

    def starting_waits(self, log: LogName, *, is_certain: bool) -> Sequence[Obstacle]:
        """Nobody waits."""
        del log, is_certain
        return ()

    def table_locks(self, names: Sequence[TableName]) -> Sequence[Obstacle]:
        """Nothing is locked."""
        del names
        return ()

    def log_holder(self, log: LogName) -> Obstacle | None:
        """Everybody may read."""
        del log
        return None


def _column(row: tuple[Any, ...]) -> SourceColumn:
    name, type_name, is_not_null, _, place = row
    return SourceColumn(
        name=name, type_name=type_name, nullable=not is_not_null, identity=ColumnIdentity(number=place + 1)
    )
