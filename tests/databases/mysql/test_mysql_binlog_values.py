"""Values in the log of MySQL and MariaDB: of every type, they are the values of the table."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from framework.sources.databases.mysql.log.changes import CopiedTable
from framework.sources.databases.tables import TableName
from tests.support.mysql_log import Change, LogReading
from tests.support.mysql_servers import MysqlServer
from tests.support.mysql_types import COLUMNS, MARIADB, MYSQL, TypedColumn
from tests.support.seeds import fresh_seed

_GROUP = 20


def test_the_log_has_the_values_of_the_table_for_every_type(mysql_server: MysqlServer, database: str) -> None:
    """After random inserts, updates, key updates and deletes, the changes applied in order give the table."""
    seed = fresh_seed()
    source = random.Random(seed)  # noqa: S311 - not a secret
    schema = database.rpartition("/")[2]
    columns = [*COLUMNS, *(MARIADB if mysql_server.is_mariadb else MYSQL)]
    for first in range(0, len(columns), _GROUP):
        differences = _differences(mysql_server, schema, f"t{first}", columns[first : first + _GROUP], source)
        assert (seed, []) == (seed, differences)


def _differences(
    server: MysqlServer, schema: str, table: str, columns: Sequence[TypedColumn], source: random.Random
) -> list[tuple[str, object, object]]:
    """Return the values that differ: the type, the value of the table, and that of the log."""
    names = [f"c{index}" for index in range(len(columns))]
    ddl = ", ".join(f"{name} {column.ddl}" for name, column in zip(names, columns, strict=True))
    server.query(f"CREATE TABLE {table} (id int PRIMARY KEY, {ddl})", database=schema)
    types = {name: column.ddl for name, column in zip(names, columns, strict=True)}
    copied = {TableName(schema=schema, table=table): CopiedTable(key=("id",), types=types)}
    with LogReading(server, copied) as reading:
        _load(server, schema, table, columns, source)
        changes = reading.read()
    select = ", ".join(column.select.format(name) for name, column in zip(names, columns, strict=True))
    expected = {row[0]: row[1:] for row in server.query(f"SELECT id, {select} FROM {table}", database=schema)}
    rows = _applied(changes)
    assert sorted(expected) == sorted(rows)
    return [
        (column.ddl, value, shown)
        for key, values in expected.items()
        for name, column, value in zip(names, columns, values, strict=True)
        if (shown := None if (found := rows[key][name]) is None else column.shown(str(found))) != value
    ]


def _load(server: MysqlServer, schema: str, table: str, columns: Sequence[TypedColumn], source: random.Random) -> None:
    with server.connect(schema) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = 'NO_BACKSLASH_ESCAPES', time_zone = '+00:00'")
        cursor.execute("SET sql_mode = '', time_zone = '+00:00'")
        most = max(len(column.values) for column in columns)
        for key in range(most + 40):
            # Each listed value once, then random ones.
            values = [column.values[key] if key < len(column.values) else column.value(source) for column in columns]
            cursor.execute(f"INSERT INTO {table} VALUES ({key}, {', '.join(values)})")
        for _ in range(20):
            index = source.randrange(len(columns))
            cursor.execute(
                f"UPDATE {table} SET c{index} = {columns[index].value(source)} WHERE id % 7 = {source.randrange(7)}"
            )
        cursor.execute(f"UPDATE {table} SET id = id + 1000 WHERE id % 5 = 0")
        cursor.execute(f"DELETE FROM {table} WHERE id % 11 = 3")


def _applied(changes: Sequence[Change]) -> Mapping[int, Mapping[str, object]]:
    rows: dict[int, Mapping[str, object]] = {}
    for change in changes:
        assert change.operation != "UNREADABLE", change.payload
        assert isinstance(change.payload, dict)
        key = int(str(change.payload["id"]))
        if change.operation == "DELETE":
            del rows[key]
        else:
            rows[key] = change.payload
    return rows


def test_the_log_has_the_texts_of_the_table_for_every_character_set(mysql_server: MysqlServer, database: str) -> None:
    """Each byte, and random ones, as the server keeps and converts them; half of a surrogate pair is unreadable."""
    schema, seed = database.rpartition("/")[2], fresh_seed()
    source = random.Random(seed)  # noqa: S311 - not a secret
    given = [bytes([byte]) for byte in range(256)]
    given += [source.randbytes(source.choice((2, 3, 4, 8))) for _ in range(20)]
    given += [bytes.fromhex(digits) for digits in ("d800", "d83dde00", "00d8", "eda080", "0000d800", "8ea1", "8fa2af")]
    rows = ", ".join(f"({key}, _binary X'{value.hex()}')" for key, value in enumerate(given))
    query = "SELECT character_set_name FROM information_schema.character_sets WHERE character_set_name <> 'binary'"
    sets = [name for (name,) in mysql_server.query(query)]
    tables = {TableName(schema=schema, table=name): CopiedTable(key=("id",)) for name in sets}
    with mysql_server.connect(schema) as connection, connection.cursor() as cursor:
        for name in sets:
            cursor.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, c varchar(20) CHARACTER SET {name})")
        with LogReading(mysql_server, tables) as reading:
            cursor.execute("SET sql_mode = ''")
            for name in sets:
                cursor.execute(f"INSERT INTO {name} VALUES {rows}")
            cursor.execute("INSERT INTO ucs2 VALUES (1000, _ucs2 X'D800')")
            changes = reading.read()
    found: dict[str, list[str | None]] = {name: [] for name in sets}
    for change in changes:
        found[change.table.rpartition(".")[2]].append(change.payload["c"] if isinstance(change.payload, dict) else None)
    for name in sets:
        query = f"SELECT HEX(CONVERT(c USING utf8mb4)) FROM {name} ORDER BY id"
        shown = [_unicode(digits) for (digits,) in mysql_server.query(query, database=schema)]
        assert (seed, name, shown) == (seed, name, found[name])


def _unicode(digits: str | None) -> str | None:
    """Return a text; None for one that is none in Unicode."""
    try:
        return None if digits is None else bytes.fromhex(digits).decode()
    except UnicodeDecodeError:
        return None
