"""Values of MySQL and MariaDB in a chunk: exactly those that the server has, by both readers."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal
from typing import Any

import pytest

from framework.foundation.errors import SourceError
from framework.sources.databases.mysql.values.types import column_types
from tests.support.mysql_servers import MysqlServer
from tests.support.mysql_snapshots import SnapshotWorld

_UTC = dt.UTC
_INTEGERS = {
    "tinyint": (8, "TINYINT", "SMALLINT"),
    "smallint": (16, "SMALLINT", "INT"),
    "mediumint": (24, "INT", "INT"),
    "int": (32, "INT", "BIGINT"),
    "bigint": (64, "BIGINT", "DECIMAL(20,0)"),
}


def _integers() -> list[tuple[str, str, list[tuple[str, Any]]]]:
    cases = []
    for name, (bits, signed, unsigned) in _INTEGERS.items():
        least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        cases.append((name, signed, [(str(each), each) for each in (least, -1, 0, most)]))
        whole = [0, 1, 2**bits - 1]
        value = Decimal if bits == 64 else int
        cases.append((f"{name} unsigned", unsigned, [(str(each), value(each)) for each in whole]))
    return cases


def _float(value: float) -> float:
    found: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return found


_LONGEST = "9" * 35 + "." + "9" * 30
# Type, Spark type, and literals with their values.
CASES: list[tuple[str, str, list[tuple[str, Any]]]] = [
    *_integers(),
    ("boolean", "TINYINT", [("true", 1), ("-128", -128)]),
    ("year", "SMALLINT", [("1901", 1901), ("2155", 2155), ("0", 0)]),
    ("bit(1)", "BOOLEAN", [("b'1'", True), ("b'0'", False)]),
    ("bit(9)", "BINARY", [("b'101010101'", b"\x01\x55"), ("0", b"\0\0")]),
    ("bit(64)", "BINARY", [("18446744073709551615", b"\xff" * 8)]),
    (
        "float",
        "FLOAT",
        [
            ("16777216", 16777216.0),
            ("0.1", _float(0.1)),
            ("-3.4028235e38", _float(-3.4028235e38)),
            ("1e-45", _float(1e-45)),
        ],
    ),
    ("double", "DOUBLE", [("0.1", 0.1), ("1.7976931348623157e308", 1.7976931348623157e308), ("5e-324", 5e-324)]),
    ("decimal(38,10)", "DECIMAL(38,10)", [("-" + "9" * 28 + ".0123456789", Decimal("-" + "9" * 28 + ".0123456789"))]),
    ("decimal(30,30)", "DECIMAL(30,30)", [("0." + "1" * 30, Decimal("0." + "1" * 30))]),
    ("decimal(65,30)", "STRING", [(_LONGEST, _LONGEST), ("-0.5", "-0.5" + "0" * 29)]),
    ("char(5)", "STRING", [("'ab  '", "ab"), ("''", ""), ("'日本'", "日本")]),
    ("varchar(20)", "STRING", [("'ab  '", "ab  "), ("'\\0x'", "\0x"), ("'😀'", "😀")]),
    ("varchar(20) character set latin1", "STRING", [("'é€'", "é€"), ("X'8190'", "\x81\x90")]),
    ("varchar(20) character set utf16", "STRING", [("'é😀'", "é😀")]),
    ("varchar(20) character set sjis", "STRING", [("'日本'", "日本")]),
    ("longtext", "STRING", [("repeat('日', 100000)", "日" * 100000)]),
    ("binary(4)", "BINARY", [("X'0100'", b"\1\0\0\0"), ("X'00'", b"\0" * 4)]),
    ("varbinary(10)", "BINARY", [("X'00ff'", b"\0\xff"), ("''", b"")]),
    ("longblob", "BINARY", [("X'fffe'", b"\xff\xfe")]),
    ("date", "DATE", [("'0001-01-01'", dt.date(1, 1, 1)), ("'9999-12-31'", dt.date(9999, 12, 31))]),
    (
        "datetime(6)",
        "TIMESTAMP_NTZ",
        [
            ("'0001-01-01 00:00:00'", dt.datetime(1, 1, 1)),  # noqa: DTZ001 - without a zone
            ("'9999-12-31 23:59:59.999999'", dt.datetime(9999, 12, 31, 23, 59, 59, 999999)),  # noqa: DTZ001 - the same
        ],
    ),
    ("datetime", "TIMESTAMP_NTZ", [("'2024-02-29 23:59:59'", dt.datetime(2024, 2, 29, 23, 59, 59))]),  # noqa: DTZ001 - also
    (
        "timestamp(3) null",
        "TIMESTAMP",
        [("'2024-10-27 01:30:00.125'", dt.datetime(2024, 10, 27, 1, 30, 0, 125000, tzinfo=_UTC))],
    ),
    ("timestamp null", "TIMESTAMP", [("'1970-01-01 00:00:01'", dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=_UTC))]),
    (
        "time(6)",
        "STRING",
        [("'-838:59:59'", "-838:59:59.000000"), ("'-00:00:00.000001'", "-00:00:00.000001")],
    ),
    ("time", "STRING", [("'838:59:59'", "838:59:59"), ("'01:02:03'", "01:02:03")]),
    ("enum('a','it''s','x,y','日')", "STRING", [("'it''s'", "it's"), ("'nope'", ""), ("4", "日")]),
    ("set('a','b','c')", "STRING", [("'c,a'", "a,c"), ("''", "")]),
    ("point", "BINARY", [("ST_GeomFromText('POINT(1 2)')", b"\0" * 4 + struct.pack("<BIdd", 1, 1, 1.0, 2.0))]),
]
MARIADB_CASES: list[tuple[str, str, list[tuple[str, Any]]]] = [
    ("json", "STRING", [('\'{"b": 1, "a":  2}\'', '{"b": 1, "a":  2}')]),
    ("inet6", "STRING", [("'2001:db8::ff00:42:8329'", "2001:db8::ff00:42:8329")]),
    ("inet4", "STRING", [("'192.0.2.1'", "192.0.2.1")]),
    ("uuid", "STRING", [("'123e4567-e89b-12d3-a456-426655440000'", "123e4567-e89b-12d3-a456-426655440000")]),
]
MYSQL_CASES: list[tuple[str, str, list[tuple[str, Any]]]] = [
    ("json", "STRING", [('\'{"b": 1.50, "a": [true, null]}\'', '{"a": [true, null], "b": 1.5}')]),
    ("vector(2)", "BINARY", [("STRING_TO_VECTOR('[1,2]')", struct.pack("<ff", 1.0, 2.0))]),
]
_DATES = ("date", "datetime(6)", "datetime", "timestamp(3) null", "timestamp null")


def cases(server: MysqlServer) -> list[tuple[str, str, list[tuple[str, Any]]]]:
    """The types of a server."""
    own = MARIADB_CASES if server.is_mariadb else MYSQL_CASES
    is_old = server.programs.name == "mariadb-10.11"
    return [*CASES, *(each for each in own if not (is_old and each[0] == "vector(2)"))]


@pytest.fixture
def world(mysql_server: MysqlServer, database: str) -> SnapshotWorld:
    """An empty database with the character set of the sources."""
    made = SnapshotWorld(mysql_server, database)
    made.run(f"ALTER DATABASE {made.database} CHARACTER SET utf8mb4")
    return made


def _fill(world: SnapshotWorld) -> list[dict[str, Any]]:
    """Make a table with a column of each type; return its rows."""
    known = cases(world.server)
    columns = ", ".join(f"c{place} {case[0]}" for place, case in enumerate(known))
    world.run(f"CREATE TABLE t (id INT PRIMARY KEY, {columns})")
    longest = max(len(case[2]) for case in known)
    expected = []
    for number in range(longest + 1):
        values = [(*case[2], *[("NULL", None)] * (longest + 1))[number] for case in known]
        world.run(f"INSERT INTO t VALUES ({number}, {', '.join(literal for literal, _ in values)})")
        expected.append({"id": number, **{f"c{place}": value for place, (_, value) in enumerate(values)}})
    return expected


@pytest.mark.parametrize("is_fast", [True, False], ids=["connectorx", "PyMySQL"])
def test_each_value_is_exact(world: SnapshotWorld, *, is_fast: bool) -> None:
    """For each type, its limits and NULL."""
    expected = _fill(world)
    types = {each.name: each.spark_type for each in column_types(world.describe().source)}
    assert {f"c{place}": case[1] for place, case in enumerate(cases(world.server))} == {
        name: kind for name, kind in types.items() if name != "id"
    }
    (chunk,) = world.snapshot(is_fast=is_fast)
    for place, case in enumerate(cases(world.server)):
        name = f"c{place}"
        assert [row[name] for row in expected] == [row[name] for row in chunk], case[0]


def test_text_columns_have_the_text_of_the_server(world: SnapshotWorld) -> None:
    """Both readers give the same text; it is the server's own, except of floating-point numbers and of bytes."""
    _fill(world)
    names = [each.name for each in world.describe().source.columns]
    (fast,) = world.snapshot(text_columns=names)
    (slow,) = world.snapshot(text_columns=names, is_fast=False)
    assert fast == slow
    kinds = {each.name: each.spark_type for each in column_types(world.describe().source)}
    own = [name for name in names if kinds[name] not in ("FLOAT", "DOUBLE", "BINARY", "BOOLEAN")]
    selected = ", ".join(f"CAST({name} AS CHAR CHARACTER SET utf8mb4)" for name in own)
    expected = world.rows(f"SELECT {selected} FROM t ORDER BY id")
    assert expected == [tuple(row[name] for name in own) for row in fast]


@pytest.mark.parametrize("is_fast", [True, False], ids=["connectorx", "PyMySQL"])
@pytest.mark.parametrize(
    ("kind", "literal", "text"),
    [
        ("date", "'0000-00-00'", "0000-00-00"),
        ("date", "'2024-00-10'", "2024-00-10"),
        ("date", "'2023-02-31'", "2023-02-31"),
        ("date", "'0000-01-01'", "0000-01-01"),
        ("datetime(3)", "'0000-00-00 00:00:00'", "0000-00-00 00:00:00.000"),
        ("timestamp", "0", "0000-00-00 00:00:00"),
    ],
)
def test_dates_that_do_not_exist_are_named(
    world: SnapshotWorld, kind: str, literal: str, text: str, *, is_fast: bool
) -> None:
    """They are an error with the value, never NULL; as text they are read."""
    world.run(f"CREATE TABLE t (id INT PRIMARY KEY, d {kind} NULL)", f"INSERT INTO t VALUES (1, NULL), (2, {literal})")
    with pytest.raises(SourceError) as caught:
        world.snapshot(is_fast=is_fast)
    assert caught.value.condition == "DATABASE_VALUE_NOT_REPRESENTABLE"
    assert caught.value.fields["value"] == text
    assert [[{"id": 1, "d": None}, {"id": 2, "d": text}]] == world.snapshot(text_columns=["d"], is_fast=is_fast)


def test_generated_and_invisible_columns(world: SnapshotWorld) -> None:
    """Generated columns are left out, invisible ones are read."""
    world.run(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, g INT AS (a + 1) VIRTUAL, s INT AS (a + 2) STORED, "
        "h INT INVISIBLE DEFAULT 5)",
        "INSERT INTO t (id, a) VALUES (1, 2)",
    )
    assert world.snapshot() == [[{"id": 1, "a": 2, "h": 5}]]
    assert world.describe().source.generated == ("g", "s")
