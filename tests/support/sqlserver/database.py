"""The model: a database in SQLite files, its log, the capture job, the clean-up job and change tracking."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from framework.sources.databases.sqlserver.lsn import Lsn
from tests.support.sqlserver.functions import register
from tests.support.sqlserver.translation import parsed, to_sqlite

_FILES = ("dbo", "sys", "cdc", "msdb")
_START = datetime(2026, 3, 1, 12, 0, 0)  # noqa: DTZ001 - the times of the server have no zone
_ZONE_HOURS = 1
_TYPES = [
    *("bit", "tinyint", "smallint", "int", "bigint", "decimal", "numeric", "money", "smallmoney", "real", "float"),
    *("char", "varchar", "text", "nchar", "nvarchar", "ntext", "uniqueidentifier", "binary", "varbinary", "image"),
    *("date", "time", "smalldatetime", "datetime", "datetime2", "datetimeoffset", "timestamp", "xml", "sql_variant"),
    *("hierarchyid", "geography"),
]
_WIDTHS = {"datetime2": 7, "time": 7, "datetimeoffset": 7}
_SCHEMA = """
CREATE TABLE IF NOT EXISTS sys.state (name TEXT PRIMARY KEY, value);
CREATE TABLE IF NOT EXISTS sys.databases (database_id, is_cdc_enabled, service_broker_guid, snapshot_isolation_state);
CREATE TABLE IF NOT EXISTS sys.database_recovery_status (database_id, recovery_fork_guid);
CREATE TABLE IF NOT EXISTS sys.schemas (schema_id, name);
CREATE TABLE IF NOT EXISTS sys.tables (object_id INTEGER PRIMARY KEY, name, schema_id, is_ms_shipped, source);
CREATE TABLE IF NOT EXISTS sys.columns (object_id, column_id, name, user_type_id, max_length, precision, scale,
  collation_name, is_nullable, is_computed);
CREATE TABLE IF NOT EXISTS sys.types (user_type_id, system_type_id, name);
CREATE TABLE IF NOT EXISTS sys.indexes (object_id, index_id, is_primary_key, is_unique, has_filter, is_disabled,
  is_hypothetical);
CREATE TABLE IF NOT EXISTS sys.index_columns (object_id, index_id, column_id, key_ordinal);
CREATE TABLE IF NOT EXISTS sys.partitions (partition_id, object_id, index_id, rows);
CREATE TABLE IF NOT EXISTS sys.allocation_units (container_id, type, used_pages);
CREATE TABLE IF NOT EXISTS sys.change_tracking_tables (object_id, begin_version, min_valid_version);
CREATE TABLE IF NOT EXISTS cdc.change_tables (object_id, source_object_id, capture_instance, start_lsn, create_date,
  partition_switch);
CREATE TABLE IF NOT EXISTS cdc.lsn_time_mapping (start_lsn PRIMARY KEY, tran_end_time);
CREATE TABLE IF NOT EXISTS cdc.cdc_jobs (job_type, retention);
CREATE TABLE IF NOT EXISTS sys.change_tracking_databases (database_id, retention_period, retention_period_units,
  is_auto_cleanup_on);
CREATE TABLE IF NOT EXISTS msdb.cdc_jobs (database_id, job_type, retention);
CREATE TABLE IF NOT EXISTS dbo.transactions (number INTEGER PRIMARY KEY, ended);
"""
_CREATE = re.compile(r"CREATE TABLE (\S+) \((.*)\)$", re.DOTALL)
_COLUMN = re.compile(r"\[?(\w+)\]? (\w+)(?:\(([^)]*)\))?(.*)", re.DOTALL)
_RENAME = re.compile(r"ALTER TABLE (\w+) RENAME TO (\w+)")
_ADD = re.compile(r"ALTER TABLE (\w+) ADD (.+)", re.DOTALL)
_DROP = re.compile(r"DROP TABLE (\w+)")
_PROCEDURE = re.compile(r"EXEC sys\.(\w+)\s*(.*)", re.DOTALL)
_ARGUMENT = re.compile(r"@(\w+) = (?:N'((?:[^']|'')*)'|(\w+))")
_TEXTS = {
    "rights": "Only members of the sysadmin fixed server role and db_owner can perform this operation.",
    "procedure": "Could not find stored procedure.",
    "instance": "Could not create a capture instance because the capture instance name already exists.",
}
_DEFAULT_COLLATION = "SQL_Latin1_General_CP1_CI_AS"


class ServerError(Exception):
    """An error of the server, by its name in `_TEXTS`."""

    def __init__(self, name: str) -> None:
        super().__init__(_TEXTS[name])


@dataclass(frozen=True)
class Column:
    """A column of a new table."""

    name: str
    kind: str
    sizes: str
    rest: str

    @property
    def collation(self) -> str | None:
        """The collation of a text."""
        if self.kind not in ("char", "varchar", "nchar", "nvarchar", "text", "ntext"):
            return None
        return _DEFAULT_COLLATION if "COLLATE " not in self.rest else self.rest.split("COLLATE ")[1].split()[0]

    @property
    def sqlite(self) -> str:
        """The definition for SQLite, without an affinity that would change a value."""
        kind = {"real": "REAL", "float": "REAL"}.get(self.kind, "")
        kind = "INTEGER" if self.kind in ("bit", "tinyint", "smallint", "int", "bigint") else kind
        nocase = " COLLATE NOCASE" if self.collation and "_CI_" in self.collation else ""
        return f"[{self.name}] {kind}{nocase}"


def lsn_of(number: int) -> Lsn:
    """Return the LSN of the n-th transaction: several are in one block, and blocks are in several files."""
    file, rest = divmod(number, 50)
    block, record = divmod(rest, 3)
    return Lsn(bytes.fromhex(f"{file + 31:08x}{8 * block + 16:08x}{3 * record + 1:04x}"))


class Database:
    """The model.

    Args:
        folder: the folder of its files.
        captures: whether the capture job runs after each transaction.
    """

    def __init__(self, folder: Path, *, captures: bool = True) -> None:
        self.folder = folder
        self.captures = captures
        folder.mkdir(exist_ok=True)
        is_new = not (folder / "sys.db").exists()
        self.raw = open_files(folder, is_new=is_new)
        register(self.raw, self.now, self.get)
        if is_new:
            self.raw.executescript(_SCHEMA)
            self._make()

    def _make(self) -> None:
        with self.transaction():
            self.raw.execute("INSERT INTO sys.databases VALUES (5, 1, ?, 1)", [str(uuid4()).upper()])
            self.raw.execute("INSERT INTO sys.database_recovery_status VALUES (5, ?)", [str(uuid4()).upper()])
            self.raw.execute("INSERT INTO sys.schemas VALUES (1, 'dbo')")
            rows = [(place + 100, place + 100, name) for place, name in enumerate(_TYPES)]
            self.raw.executemany("INSERT INTO sys.types VALUES (?, ?, ?)", rows)
            self.raw.execute("INSERT INTO msdb.cdc_jobs VALUES (5, 'cleanup', 4320)")
            self.raw.execute("INSERT INTO sys.change_tracking_databases VALUES (5, 2, 3, 1)")
            for name, value in {"objects": 1000, "transactions": 1, "captured": 1, "versions": 0, "minutes": 0}.items():
                self.put(name, value)

    # What the server knows

    def get(self, name: str) -> Any:
        """Return a value of the state; None if there is none."""
        row = self.raw.execute("SELECT value FROM sys.state WHERE name = ?", [name]).fetchone()
        return None if row is None else row[0]

    def put(self, name: str, value: Any) -> None:
        """Set a value of the state."""
        self.raw.execute("INSERT OR REPLACE INTO sys.state VALUES (?, ?)", [name, value])

    def rows(self, query: str, arguments: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a query of SQLite."""
        return self.raw.execute(query, arguments).fetchall()

    def now(self) -> datetime:
        """Return the time of the server, in its own zone."""
        return _START + timedelta(hours=_ZONE_HOURS, minutes=int(self.get("minutes") or 0))

    def wait(self, minutes: int) -> None:
        """Let time pass; the capture job writes an entry without changes."""
        with self.transaction():
            self.put("minutes", int(self.get("minutes")) + minutes)
            self._end_transaction()
        if self.captures:
            self.capture()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run a block in one transaction of all files."""
        self.raw.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.raw.execute("ROLLBACK")
            raise
        self.raw.execute("COMMIT")

    # What users do

    def execute(self, *statements: str) -> None:
        """Run statements, each in a transaction of its own."""
        for statement in statements:
            self.run(statement)

    def run(self, *statements: str) -> None:
        """Run statements in one transaction."""
        with self.transaction():
            for statement in statements:
                self._run(statement.strip())
            self._end_transaction()
        if self.captures:
            self.capture()

    def _run(self, statement: str) -> None:
        for pattern, method in (
            (_CREATE, self._create), (_RENAME, self._rename), (_ADD, self._add), (_DROP, self._drop),
            (_PROCEDURE, self._call),
        ):  # fmt: skip
            found = pattern.fullmatch(statement)
            if found is not None:
                method(*found.groups())
                return
        self.raw.execute(to_sqlite(statement))

    def _end_transaction(self) -> None:
        """Give the transaction its LSN, and the version of change tracking."""
        number = int(self.get("transactions")) + 1
        self.put("transactions", number)
        self.raw.execute("INSERT INTO dbo.transactions VALUES (?, ?)", [number, self.now().isoformat()])
        changed = False
        for (table,) in self.rows("SELECT object_id FROM sys.tables WHERE is_ms_shipped = 0"):
            found = self.raw.execute(f"UPDATE dbo.log_{table} SET [#tran] = ? WHERE [#tran] IS NULL", [number])
            changed = changed or found.rowcount > 0
        if changed:
            version = int(self.get("versions")) + 1
            self.put("versions", version)
            for (table,) in self.rows("SELECT object_id FROM sys.change_tracking_tables"):
                self._track(table, number, version)

    def _create(self, name: str, body: str) -> None:
        number = self._new_object()
        name = name.removeprefix("dbo.").strip("[]")
        parts = [part.strip() for part in re.split(r",(?![^(]*\))", body)]
        key = [part for part in parts if part.upper().startswith(("PRIMARY KEY", "UNIQUE"))]
        columns = [_column(part) for part in parts if part not in key]
        self.raw.execute("INSERT INTO sys.tables VALUES (?, ?, 1, 0, NULL)", [number, name])
        for place, column in enumerate(columns, 1):
            self._describe(number, place, column)
        # SQLite compares a key after each row, SQL Server at the end of a statement: a heap is a table without one.
        kept = () if _is_heap(key) else key
        definitions = ", ".join((*(column.sqlite + _flags(column) for column in columns), *kept))
        self.raw.execute(f"CREATE TABLE dbo.[{name}] ({definitions})")
        logged = "".join(f", [{column.name}]" for column in columns)
        own = "[#n] INTEGER PRIMARY KEY AUTOINCREMENT, [#tran], [#seq], [#op]"
        self.raw.execute(f"CREATE TABLE dbo.log_{number} ({own}{logged})")
        self._index(number, columns, key)
        self.raw.execute("INSERT INTO sys.partitions VALUES (?, ?, 1, 0)", [number, number])
        self.raw.execute("INSERT INTO sys.allocation_units VALUES (?, 1, 1)", [number])
        self._log(number, name)

    def _describe(self, number: int, place: int, column: Column) -> None:
        sizes = [int(each) if each.strip() != "max" else -1 for each in column.sizes.split(",") if each]
        kind = 100 + _TYPES.index(column.kind)
        length = sizes[0] if sizes else 8
        if column.kind.startswith("n") and column.kind in ("nchar", "nvarchar") and length > 0:
            length *= 2
        precision, scale = (sizes[0], (*sizes, 0)[1]) if column.kind in ("decimal", "numeric") and sizes else (0, 0)
        if column.kind in _WIDTHS:
            scale = sizes[0] if sizes else _WIDTHS[column.kind]
        self.raw.execute(
            "INSERT INTO sys.columns VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0)",
            [number, place, column.name, kind, length, precision, scale, column.collation,
             int("NOT NULL" not in column.rest)],
        )  # fmt: skip

    def _index(self, number: int, columns: Sequence[Column], keys: Sequence[str]) -> None:
        found = [(True, [column.name]) for column in columns if "PRIMARY KEY" in column.rest]
        found += [(False, [column.name]) for column in columns if "UNIQUE" in column.rest]
        found += [(key.startswith("PRIMARY"), re.findall(r"\w+", key.partition("(")[2])) for key in keys]
        names = [column.name for column in columns]
        # The first one is clustered unless it says otherwise; the number 1 is for a clustered index alone.
        for index, (is_primary, members) in enumerate(found, 2 if _is_heap(keys) else 1):
            self.raw.execute("INSERT INTO sys.indexes VALUES (?, ?, ?, 1, 0, 0, 0)", [number, index, int(is_primary)])
            for place, name in enumerate(members, 1):
                row = [number, index, names.index(name) + 1, place]
                self.raw.execute("INSERT INTO sys.index_columns VALUES (?, ?, ?, ?)", row)

    def _log(self, number: int, name: str) -> None:
        """Let triggers write the log of a table."""
        columns = [
            row[0] for row in self.rows("SELECT name FROM sys.columns WHERE object_id = ? ORDER BY column_id", [number])
        ]
        listed = "".join(f", [{column}]" for column in columns)
        heap = self.rows("SELECT min(index_id) FROM sys.indexes WHERE object_id = ?", [number])[0][0] == 2
        key = self._key(number, 2) if heap else []
        # An update that moves a row of a heap is a deletion and an insertion next to each other.
        moves = " OR ".join(f"old.[{name}] IS NOT new.[{name}]" for name in key) or "0"
        later = f"(SELECT coalesce(max([#seq]), 0) + 1 FROM log_{number})"
        same = f"(SELECT max([#seq]) FROM log_{number})"
        for event, writes in {
            "INSERT": ((2, "new", later),),
            "DELETE": ((1, "old", later),),
            "UPDATE": ((f"iif({moves}, 1, 3)", "old", later), (f"iif({moves}, 2, 4)", "new", same)),
        }.items():
            body = " ".join(
                f"INSERT INTO log_{number} ([#seq], [#op]{listed}) SELECT {seq}, {operation}"
                + "".join(f", {row}.[{column}]" for column in columns) + ";"
                for operation, row, seq in writes
            )  # fmt: skip
            self.raw.execute(f"DROP TRIGGER IF EXISTS dbo.[log_{number}_{event}]")
            self.raw.execute(f"CREATE TRIGGER dbo.[log_{number}_{event}] AFTER {event} ON [{name}] BEGIN {body} END")

    def _rename(self, old: str, new: str) -> None:
        self.raw.execute("UPDATE sys.tables SET name = ? WHERE name = ?", [new, old])
        self.raw.execute(f"ALTER TABLE dbo.[{old}] RENAME TO [{new}]")

    def _add(self, table: str, definition: str) -> None:
        number, column = self.object_id(table), _column(definition)
        place = self.rows("SELECT max(column_id) + 1 FROM sys.columns WHERE object_id = ?", [number])[0][0]
        self._describe(number, place, column)
        self.raw.execute(f"ALTER TABLE dbo.[{table}] ADD COLUMN {column.sqlite}")
        self.raw.execute(f"ALTER TABLE dbo.log_{number} ADD COLUMN [{column.name}]")
        self._log(number, table)

    def _drop(self, table: str) -> None:
        number = self.object_id(table)
        self.raw.execute(f"DROP TABLE dbo.[{table}]")
        for (name,) in self.rows("SELECT capture_instance FROM cdc.change_tables WHERE source_object_id = ?", [number]):
            self._disable(name)
        for catalog in ("tables", "columns", "indexes", "index_columns", "partitions", "change_tracking_tables"):
            self.raw.execute(f"DELETE FROM sys.{catalog} WHERE object_id = ?", [number])

    def object_id(self, table: str) -> int:
        """Return the object id of a table."""
        return int(self.rows("SELECT object_id FROM sys.tables WHERE name = ?", [table])[0][0])

    def _new_object(self) -> int:
        number = int(self.get("objects")) + 17
        self.put("objects", number)
        return number

    # Change data capture

    def _call(self, name: str, text: str) -> None:
        given = {key: value.replace("''", "'") or other for key, value, other in _ARGUMENT.findall(text)}
        if self.get("is_plain_user"):
            raise ServerError("rights")
        if name == "sp_cdc_enable_db":
            self.raw.execute("UPDATE sys.databases SET is_cdc_enabled = 1")
        elif name == "sp_cdc_change_job":
            self.raw.execute("UPDATE msdb.cdc_jobs SET retention = ?", [int(given["retention"])])
        elif name == "sp_cdc_start_job":
            self.captures = True  # it reads the log when this transaction has ended
        elif name == "sp_cdc_enable_table":
            self.enable(given["source_name"], given["capture_instance"], switch=given["allow_partition_switch"] == "1")
        elif name == "sp_cdc_disable_table":
            self._disable(given["capture_instance"])
        else:
            raise ServerError("procedure")

    def enable(self, table: str, instance: str, *, switch: bool = False) -> None:
        """Make a capture instance, which begins at the end of the log."""
        source, number = self.object_id(table), self._new_object()
        columns = self.rows("SELECT * FROM sys.columns WHERE object_id = ? ORDER BY column_id", [source])
        if self.rows("SELECT 1 FROM cdc.change_tables WHERE capture_instance = ?", [instance]):
            raise ServerError("instance")
        begin = lsn_of(int(self.get("transactions")) + 1).value
        created = f"{self.now().isoformat()}.{int(self.get('objects')):06}"
        self.raw.execute(
            "INSERT INTO cdc.change_tables VALUES (?, ?, ?, ?, ?, ?)",
            [number, source, instance, None if self.get("begins_late") else begin, created, int(switch)],
        )
        own = ("__$start_lsn", "__$end_lsn", "__$seqval", "__$operation", "__$update_mask", "__$command_id")
        names = [*own, *(row[2] for row in columns)]
        self.raw.execute(f"CREATE TABLE cdc.[{instance}_CT] ({', '.join(f'[{name}]' for name in names)})")
        described = [(number, -place, name, 100, 8, 0, 0, None, 1, 0) for place, name in enumerate(own, 1)]
        described += [(number, place, *row[2:]) for place, row in enumerate(columns, 1)]
        self.raw.executemany("INSERT INTO sys.columns VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", described)

    def _disable(self, instance: str) -> None:
        ((number,),) = self.rows("SELECT object_id FROM cdc.change_tables WHERE capture_instance = ?", [instance])
        self.raw.execute(f"DROP TABLE cdc.[{instance}_CT]")
        self.raw.execute("DELETE FROM cdc.change_tables WHERE object_id = ?", [number])
        self.raw.execute("DELETE FROM sys.columns WHERE object_id = ?", [number])

    def disable(self, instance: str) -> None:
        """Drop a capture instance."""
        with self.transaction():
            self._disable(instance)

    def capture(self, most: int | None = None) -> None:
        """Let the capture job read the log, at most so many transactions of it."""
        with self.transaction():
            first, last = int(self.get("captured")) + 1, int(self.get("transactions"))
            last = last if most is None else min(last, first + most - 1)
            for number in range(first, last + 1):
                self._capture(number)
            self.put("captured", max(last, first - 1))

    def _capture(self, number: int) -> None:
        lsn = lsn_of(number).value
        query = "SELECT object_id, source_object_id, capture_instance, start_lsn FROM cdc.change_tables"
        for instance, source, name, begin in self.rows(query):
            if begin is None:
                self.raw.execute("UPDATE cdc.change_tables SET start_lsn = ? WHERE object_id = ?", [lsn, instance])
            if begin is not None and begin > lsn:
                continue
            columns = self.rows(
                "SELECT name FROM sys.columns WHERE object_id = ? AND column_id > 0 ORDER BY column_id", [instance]
            )
            listed = "".join(f", [{column}]" for (column,) in columns)
            self.raw.execute(
                f"INSERT INTO cdc.[{name}_CT] ([__$start_lsn], [__$seqval], [__$operation], [__$command_id]{listed}) "
                f"SELECT ?, [#seq], [#op], [#seq]{listed} FROM dbo.log_{source} WHERE [#tran] = ? ORDER BY [#n] DESC",
                [lsn, number],
            )
        ((ended,),) = self.rows("SELECT ended FROM dbo.transactions WHERE number = ?", [number])
        self.raw.execute("INSERT INTO cdc.lsn_time_mapping VALUES (?, ?)", [lsn, ended])

    def clean_up(self, before: Lsn) -> None:
        """Let the clean-up job remove the changes below an LSN, and move the begin of all instances to it."""
        with self.transaction():
            for name, begin in self.rows("SELECT capture_instance, start_lsn FROM cdc.change_tables"):
                if begin is None or begin >= before.value:
                    continue
                self.raw.execute(f"DELETE FROM cdc.[{name}_CT] WHERE [__$start_lsn] < ?", [before.value])
                values = [before.value, name]
                self.raw.execute("UPDATE cdc.change_tables SET start_lsn = ? WHERE capture_instance = ?", values)
            self.raw.execute("DELETE FROM cdc.lsn_time_mapping WHERE start_lsn < ?", [before.value])

    @property
    def captured(self) -> Lsn:
        """The LSN up to which the capture job has come."""
        return lsn_of(int(self.get("captured")))

    # Change tracking

    def track(self, table: str) -> None:
        """Enable change tracking of a table."""
        with self.transaction():
            number = self.object_id(table)
            version = int(self.get("versions"))
            self.raw.execute("INSERT INTO sys.change_tracking_tables VALUES (?, ?, ?)", [number, version, version])
            names = "".join(f", [{name}]" for name in self._key(number))
            self.raw.execute(f"DROP TABLE IF EXISTS dbo.[tracked_{table}]")
            self.raw.execute(f"CREATE TABLE dbo.[tracked_{table}] (SYS_CHANGE_VERSION, made, is_gone{names})")

    def _key(self, number: int, index: int = 1) -> list[str]:
        query = (
            "SELECT c.name FROM sys.index_columns i JOIN sys.columns c USING (object_id, column_id) "
            "WHERE i.object_id = ? AND i.index_id = ? ORDER BY i.key_ordinal"
        )
        return [name for (name,) in self.rows(query, [number, index])]

    def _track(self, number: int, transaction: int, version: int) -> None:
        key = self._key(number)
        ((table,),) = self.rows("SELECT name FROM sys.tables WHERE object_id = ?", [number])
        where = " AND ".join(f"[{name}] = ?" for name in key)
        listed = ", ".join(f"[{name}]" for name in key)
        query = f"SELECT [#op], {listed} FROM dbo.log_{number} WHERE [#tran] = ? ORDER BY [#n]"
        for operation, *values in self.rows(query, [transaction]):
            found = self.rows(f"SELECT made, is_gone FROM dbo.[tracked_{table}] WHERE {where}", values)
            made = found[0][0] if found and not found[0][1] else version if operation in (2, 4) and not found else 0
            if operation == 2:
                made = version
            gone = int(operation in (1, 3))  # an update of the same key follows with 4
            self.raw.execute(f"DELETE FROM dbo.[tracked_{table}] WHERE {where}", values)
            marks = ", ".join("?" * (3 + len(values)))
            self.raw.execute(f"INSERT INTO dbo.[tracked_{table}] VALUES ({marks})", [version, made, gone, *values])

    def clean_up_tracking(self, version: int) -> None:
        """Remove the changes up to a version."""
        with self.transaction():
            for number, name in self.rows("SELECT object_id, name FROM sys.tables WHERE is_ms_shipped = 0"):
                if self.rows("SELECT 1 FROM sys.change_tracking_tables WHERE object_id = ?", [number]):
                    self.raw.execute(f"DELETE FROM dbo.[tracked_{name}] WHERE SYS_CHANGE_VERSION <= ?", [version])
            self.raw.execute("UPDATE sys.change_tracking_tables SET min_valid_version = ?", [version])

    def restore(self) -> None:
        """Give the database another recovery fork, as a restore does."""
        self.raw.execute("UPDATE sys.database_recovery_status SET recovery_fork_guid = ?", [str(uuid4()).upper()])

    def close(self) -> None:
        """Close the files."""
        self.raw.close()


def open_files(folder: Path, *, is_new: bool) -> sqlite3.Connection:
    """Open the files of a database."""
    raw = sqlite3.connect(":memory:", isolation_level=None, timeout=30, check_same_thread=False)
    for name in _FILES:
        raw.execute(f"ATTACH DATABASE ? AS {name}", [str(folder / f"{name}.db")])
        if is_new:
            raw.execute(f"PRAGMA {name}.journal_mode = WAL")
        raw.execute(f"PRAGMA {name}.synchronous = OFF")
    return raw


def _column(text: str) -> Column:
    found = _COLUMN.fullmatch(text.strip())
    assert found is not None, text
    name, kind, sizes, rest = found.groups()
    return Column(name, kind.lower(), sizes or "", rest)


def _flags(column: Column) -> str:
    flags = " NOT NULL" if "NOT NULL" in column.rest else ""
    flags += " UNIQUE" if "UNIQUE" in column.rest else ""
    return f"{flags} PRIMARY KEY" if "PRIMARY KEY" in column.rest else flags


def _is_heap(keys: Sequence[str]) -> bool:
    return any("NONCLUSTERED" in key for key in keys)


__all__ = ["Database", "ServerError", "lsn_of", "open_files", "parsed"]
