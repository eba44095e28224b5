"""The rows of the log are those that an independent reader finds in the same files."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from itertools import count, zip_longest

from framework.sources.databases.mysql.log.changes import CopiedTable
from framework.sources.databases.tables import TableName
from tests.support.judged_values import DIFFERENCES, both_of, kind_of
from tests.support.mysql_judge import Image, Judge, JudgedRow
from tests.support.mysql_log import Change, LogReading, end_of_log
from tests.support.mysql_servers import MysqlServer
from tests.support.mysql_types import COLUMNS, MARIADB, MYSQL, TypedColumn
from tests.support.seeds import fresh_seed

_ROUNDS = int(os.environ.get("SLUICE_JUDGED", "1"))
_GROUP, _ROWS, _LATER = 30, 10, 6


class _Load:
    """Random changes of a table, whose columns are added, dropped and renamed between them.

    Args:
        table: the name of the table.
        columns: of the table; a third of them is added later.
        draw: its choices.
    """

    def __init__(self, table: str, columns: list[TypedColumn], draw: random.Random) -> None:
        self.table = table
        self._draw = draw
        names = [f"c{number}" for number in range(len(columns))]
        self._later = list(zip(names, columns, strict=True))
        self._present = dict(self._later[_LATER:])
        del self._later[_LATER:]
        self._keys = count(1)
        # A column may get another name.
        self.types = {
            prefix + name: column for prefix in ("", "r") for name, column in zip(names, columns, strict=True)
        }

    def statements(self) -> Iterator[str]:
        """Yield the statements of the load."""
        columns = ", ".join(f"{name} {column.ddl}" for name, column in self._present.items())
        yield f"CREATE TABLE {self.table} (id INT PRIMARY KEY, {columns})"
        for listed in range(max(len(column.values) for column in self._present.values())):
            yield self._insert(listed)
        for _ in range(_LATER):
            yield from self._changes()
            yield self._alter()
        yield from self._changes()

    def _changes(self) -> Iterator[str]:
        draw = self._draw
        yield "BEGIN"
        for _ in range(_ROWS // 2):
            yield self._insert(None)
        for _ in range(4):
            name = draw.choice([*self._present])
            value = self._present[name].value(draw)
            yield f"UPDATE {self.table} SET {name} = {value} WHERE id % 5 = {draw.randrange(5)}"
        yield f"UPDATE {self.table} SET id = id + 1000 WHERE id % 7 = {draw.randrange(7)} AND id < 1000"
        yield f"DELETE FROM {self.table} WHERE id % 9 = {draw.randrange(9)}"
        yield draw.choice(["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"])

    def _insert(self, listed: int | None) -> str:
        def value(column: TypedColumn) -> str:
            is_listed = listed is not None and listed < len(column.values)
            return column.values[listed] if is_listed else column.value(self._draw)  # type: ignore[index]

        values = ", ".join(value(column) for column in self._present.values())
        return f"INSERT INTO {self.table} (id, {', '.join(self._present)}) VALUES ({next(self._keys)}, {values})"

    def _alter(self) -> str:
        """Add a column at any place, drop one, or rename one."""
        draw = self._draw
        if self._later and draw.random() < 0.6:
            name, column = self._later.pop()
            place = draw.choice(["", " FIRST", f" AFTER {draw.choice([*self._present])}"])
            self._present[name] = column
            return f"ALTER TABLE {self.table} ADD COLUMN {name} {column.ddl}{place}"
        name = draw.choice([*self._present])
        column = self._present.pop(name)
        if name.startswith("r") or draw.random() < 0.4:
            return f"ALTER TABLE {self.table} DROP COLUMN {name}"
        self._present[f"r{name}"] = column
        return f"ALTER TABLE {self.table} RENAME COLUMN {name} TO r{name}"


def test_an_independent_reader_finds_the_same_rows(mysql_server: MysqlServer, database: str, judge: Judge) -> None:
    """Of random loads with every type; but for the values that `DIFFERENCES` lists."""
    schema = database.rpartition("/")[2]
    for number in range(_ROUNDS):
        seed = int(os.environ.get("SLUICE_SEED", fresh_seed() - number)) + number
        differences = _round(mysql_server, schema, judge, random.Random(seed), number)  # noqa: S311 - not a secret
        assert (seed, []) == (seed, differences)


def _round(server: MysqlServer, schema: str, judge: Judge, draw: random.Random, number: int) -> list[object]:
    columns = [*COLUMNS, *(MARIADB if server.is_mariadb else MYSQL)]
    # The library does not know the compressed columns of MariaDB.
    columns = [column for column in columns if " compressed" not in column.ddl]
    draw.shuffle(columns)
    loads = [
        _Load(f"t{number}_{first}", columns[first : first + _GROUP], draw) for first in range(0, len(columns), _GROUP)
    ]
    copied = {
        TableName(schema=schema, table=load.table): CopiedTable(
            key=("id",), types={name: column.ddl for name, column in load.types.items()}
        )
        for load in loads
    }
    start = end_of_log(server)
    with LogReading(server, copied, start, keeps_unreadable=False) as reading:
        with server.connect(schema) as connection, connection.cursor() as cursor:
            cursor.execute("SET sql_mode = '', time_zone = '+00:00'")
            for load in loads:
                if not server.is_mariadb:
                    cursor.execute(f"SET binlog_transaction_compression = {draw.choice(['ON', 'OFF'])}")
                for statement in load.statements():
                    cursor.execute(statement)
        ours = reading.read()
    types = {f"{schema}.{load.table}": load.types for load in loads}
    return _compared(types, ours, judge.rows(server, start, end_of_log(server)), is_mariadb=server.is_mariadb)


def _compared(
    types: dict[str, dict[str, TypedColumn]], ours: list[Change], theirs: list[JudgedRow], *, is_mariadb: bool
) -> list[object]:
    """Return what differs: rows that one of both lacks, or values with their type."""
    forms = {
        (table, name): both_of(column.ddl, is_mariadb=is_mariadb)
        for table, columns in types.items()
        for name, column in columns.items()
    }
    judged = [row for each in theirs for row in _changes_of(each) if row[0] in types]
    found = [(change.table, change.operation, change.payload) for change in ours]
    heads = [[(table, operation) for table, operation, _ in rows] for rows in (judged, found)]
    if heads[0] != heads[1]:
        place = next(number for number, pair in enumerate(zip_longest(*heads)) if pair[0] != pair[1])
        return [("rows", found[place : place + 1], judged[place : place + 1], len(found), len(judged))]
    differences: list[object] = []
    for (table, _, expected), (_, _, payload) in zip(judged, found, strict=True):
        assert isinstance(payload, dict)
        if [*expected] != [*payload]:
            differences.append((table, [*expected], [*payload]))
            continue
        for name, value in payload.items():
            form = _ID if name == "id" else forms[table, name]
            pair = (_formed(form.ours, value), _formed(form.theirs, expected[name]))
            ddl = "int" if name == "id" else types[table][name].ddl
            if pair[0] != pair[1] and not _is_known(ddl, *pair):
                differences.append((ddl, *pair))
    return differences


_ID = both_of("int", is_mariadb=False)


def _changes_of(row: JudgedRow) -> list[tuple[str, str, Image]]:
    """Return a row of the judge as changes; an update of the key is a delete and an insert."""
    before, after = row.before, row.after
    if before is None or after is None:
        image = before or after
        assert image is not None
        return [(row.table, row.operation, image)]
    if before["id"] == after["id"]:
        return [(row.table, row.operation, after)]
    return [(row.table, "DELETE", before), (row.table, "INSERT", after)]


def _formed(form: Callable[[str], object], value: object) -> object:
    return None if value is None else form(str(value))


def _is_known(ddl: str, ours: object, theirs: object) -> bool:
    return any(kind_of(ddl) in each.kinds and each.is_it(ours, theirs) for each in DIFFERENCES)
