"""Values of every type of PostgreSQL: a snapshot and the log give the same exact values on a real server."""

from __future__ import annotations

import base64
import datetime as dt
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from framework.foundation.errors import SourceError, UserError
from framework.sources.databases.connections import Connection
from framework.sources.databases.postgres.session import EXACT_SETTINGS, Session, arrow_connection
from framework.sources.databases.postgres.tables.catalog import read_table
from framework.sources.databases.postgres.values.types import (
    MAPPINGS,
    ColumnType,
    check_text_columns,
    column_types,
)
from framework.sources.databases.tables import TableName, quote_identifier

_SETUP = """
    CREATE DOMAIN price AS numeric(10,2);
    CREATE DOMAIN positive_price AS price CHECK (value > 0);
    CREATE DOMAIN code AS char(3);
    CREATE DOMAIN numbers AS integer[];
    CREATE DOMAIN mask AS inet;
    CREATE TYPE mood AS ENUM ('sad', 'a "b", c', 'ünï\\code', '');
    CREATE TYPE pair AS (a integer, b text);
    CREATE TYPE float_range AS RANGE (subtype = float8);
"""
# The embedded server has no extensions.
_EXTENSION = """
    CREATE SCHEMA ext;
    CREATE TYPE ext.{name};
    CREATE FUNCTION ext.{name}_in(cstring) RETURNS ext.{name} LANGUAGE internal IMMUTABLE STRICT AS 'textin';
    CREATE FUNCTION ext.{name}_out(ext.{name}) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'textout';
    CREATE TYPE ext.{name} (INPUT = ext.{name}_in, OUTPUT = ext.{name}_out, LIKE = text);
"""
_INF, _NAN = float("inf"), float("nan")
_UTC = dt.UTC
_LONG = "9" * 700 + "." + "1" * 300
_ALL_BYTES = bytes(range(256))


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A type with SQL literals of its edge values and their exact values at the target."""

    type: str
    spark: str
    values: dict[str, Any]


def _texts(type_name: str, *texts: str) -> Case:
    """Values that are their own text."""
    return Case(type=type_name, spark="STRING", values={text: text for text in texts})


CASES = (
    Case(type="smallint", spark="SMALLINT", values={"-32768": -32768, "32767": 32767, "0": 0}),
    Case(type="integer", spark="INT", values={"-2147483648": -(2**31), "2147483647": 2**31 - 1}),
    Case(type="bigint", spark="BIGINT", values={str(-(2**63)): -(2**63), str(2**63 - 1): 2**63 - 1}),
    Case(
        type="real", spark="FLOAT",
        values={"-0": -0.0, "NaN": _NAN, "Infinity": _INF, "-Infinity": -_INF, "1e-45": 1e-45,
                "3.4028235e38": 3.4028235e38, "0.1": 0.1, "16777216": 16777216.0, "1e20": 1e20},
    ),
    Case(
        type="double precision", spark="DOUBLE",
        values={"-0": -0.0, "0": 0.0, "NaN": _NAN, "Infinity": _INF, "-Infinity": -_INF, "5e-324": 5e-324,
                "1.7976931348623157e308": 1.7976931348623157e308, "0.1": 0.1, "9007199254740993": 9007199254740992.0,
                "-123456789012345": -123456789012345.0},
    ),
    Case(
        type="numeric(38,0)", spark="DECIMAL(38,0)",
        values={"9" * 38: Decimal("9" * 38), "-" + "9" * 38: Decimal("-" + "9" * 38), "0": Decimal(0)},
    ),
    Case(
        type="numeric(38,38)", spark="DECIMAL(38,38)",
        values={"0." + "9" * 38: Decimal("0." + "9" * 38), "1e-38": Decimal("1e-38")},
    ),
    Case(
        type="numeric(10,2)", spark="DECIMAL(10,2)",
        values={"-99999999.99": Decimal("-99999999.99"), "0.005": Decimal("0.01"), "-0.00": Decimal("0.00"),
                "1": Decimal("1.00")},
    ),
    Case(
        type="numeric", spark="STRING",
        values={_LONG: _LONG, "NaN": "NaN", "Infinity": "Infinity", "-Infinity": "-Infinity", "1.50": "1.50",
                "1e-10": "0.0000000001", "1e10": "10000000000"},
    ),
    Case(type="numeric(39,2)", spark="STRING", values={"9" * 37 + ".99": "9" * 37 + ".99"}),
    Case(type="numeric(5,-2)", spark="STRING", values={"1234567": "1234600", "NaN": "NaN"}),
    Case(type="numeric(3,5)", spark="STRING", values={"0.00123": "0.00123"}),
    Case(type="boolean", spark="BOOLEAN", values={"true": True, "false": False}),
    _texts("text", "", "O'Hara", 'a "b"', "back\\slash", "NULL", "\\N",
           "tab\tnew\nline\r\b\f\x01\x7f", "ünïcödé \U0001f600 \u2028"),
    _texts("varchar(5)", "", "  a  ", "äöüß€"),
    Case(type="char(5)", spark="STRING", values={"ab": "ab   ", "": "     ", "äöüß€": "äöüß€"}),
    Case(type="bpchar", spark="STRING", values={"ab  ": "ab  "}),
    Case(type='"char"', spark="STRING", values={"x": "x", "": ""}),
    _texts("name", "a b", "x" * 63),
    Case(
        type="bytea", spark="BINARY",
        values={"": b"", "\\x" + _ALL_BYTES.hex(): _ALL_BYTES, "\\x00": b"\0", "abc": b"abc"},
    ),
    Case(
        type="date", spark="DATE",
        values={"0001-01-01": dt.date.min, "9999-12-31": dt.date.max, "1582-10-10": dt.date(1582, 10, 10),
                "1970-01-01": dt.date(1970, 1, 1), "2000-02-29": dt.date(2000, 2, 29)},
    ),
    Case(
        type="timestamp", spark="TIMESTAMP_NTZ",
        values={"0001-01-01 00:00:00": dt.datetime.min,  # noqa: DTZ901 - without zone
                "9999-12-31 23:59:59.999999": dt.datetime.max,  # noqa: DTZ901 - without zone
                "2016-12-31 23:59:60": dt.datetime(2017, 1, 1),  # noqa: DTZ001 - without zone
                "2024-03-31 02:30:00.5": dt.datetime(2024, 3, 31, 2, 30, 0, 500_000),  # noqa: DTZ001 - without zone
                "2024-01-01 24:00:00": dt.datetime(2024, 1, 2)},  # noqa: DTZ001 - without zone
    ),
    Case(
        type="timestamp(0)", spark="TIMESTAMP_NTZ",
        values={"2024-01-01 00:00:00.9": dt.datetime(2024, 1, 1, 0, 0, 1)},  # noqa: DTZ001 - without zone
    ),
    Case(
        type="timestamptz", spark="TIMESTAMP",
        values={"0001-01-01 00:00:00+00": dt.datetime.min.replace(tzinfo=_UTC),
                "9999-12-31 23:59:59.999999+00": dt.datetime.max.replace(tzinfo=_UTC),
                "2024-01-01 00:00:00.000001+05:30": dt.datetime(2023, 12, 31, 18, 30, 0, 1, _UTC),
                "2016-12-31 23:59:60+00": dt.datetime(2017, 1, 1, tzinfo=_UTC)},
    ),
    Case(type="integer[]", spark="ARRAY<INT>", values={"{}": [], "{1,NULL,-3}": [1, None, -3], "{NULL}": [None]}),
    Case(type="smallint[]", spark="ARRAY<SMALLINT>", values={"{-32768,32767}": [-32768, 32767]}),
    Case(type="bigint[]", spark="ARRAY<BIGINT>", values={f"{{{-(2**63)},{2**63 - 1}}}": [-(2**63), 2**63 - 1]}),
    Case(
        type="text[]", spark="ARRAY<STRING>",
        values={'{"",NULL,"NULL","null","a,b","a\\"b","a\\\\b","{}","  ","ä\nö"}':
                ["", None, "NULL", "null", "a,b", 'a"b', "a\\b", "{}", "  ", "ä\nö"],
                "{NULL}": [None], '{"{"}': ["{"], '{"["}': ["["], "{a}": ["a"], "{}": []},
    ),
    Case(type="varchar(3)[]", spark="ARRAY<STRING>", values={"{a,b}": ["a", "b"]}),
    Case(type="char(3)[]", spark="ARRAY<STRING>", values={"{a,NULL}": ["a  ", None]}),
    Case(
        type="float8[]", spark="ARRAY<DOUBLE>",
        values={"{NaN,Infinity,-Infinity,-0,5e-324,0.1}": [_NAN, _INF, -_INF, -0.0, 5e-324, 0.1]},
    ),
    Case(type="real[]", spark="ARRAY<FLOAT>", values={"{0.1,1e-45}": [0.1, 1e-45]}),
    Case(
        type="numeric(10,2)[]", spark="ARRAY<DECIMAL(10,2)>",
        values={"{1,NULL,-99999999.99}": [Decimal("1.00"), None, Decimal("-99999999.99")]},
    ),
    Case(type="numeric[]", spark="ARRAY<STRING>", values={f"{{{_LONG},NaN}}": [_LONG, "NaN"]}),
    Case(type="boolean[]", spark="ARRAY<BOOLEAN>", values={"{t,f,NULL}": [True, False, None]}),
    Case(type="bytea[]", spark="ARRAY<BINARY>", values={'{"\\\\x00ff",NULL,""}': [b"\0\xff", None, b""]}),
    Case(type="date[]", spark="ARRAY<DATE>", values={"{0001-01-01,NULL,9999-12-31}": [dt.date.min, None, dt.date.max]}),
    Case(
        type="timestamp[]", spark="ARRAY<TIMESTAMP_NTZ>",
        values={'{"0001-01-01 00:00:00","9999-12-31 23:59:59.999999",NULL}':
                [dt.datetime.min, dt.datetime.max, None]},  # noqa: DTZ901 - without zone
    ),
    Case(
        type="timestamptz[]", spark="ARRAY<TIMESTAMP>",
        values={'{"2024-01-01 00:00:00.5+02",NULL}': [dt.datetime(2023, 12, 31, 22, 0, 0, 500_000, _UTC), None]},
    ),
    Case(type="positive_price", spark="DECIMAL(10,2)", values={"1.5": Decimal("1.50")}),
    Case(type="positive_price[]", spark="ARRAY<DECIMAL(10,2)>", values={"{1.5,NULL}": [Decimal("1.50"), None]}),
    Case(type="code", spark="STRING", values={"a": "a  "}),
    Case(type="numbers", spark="ARRAY<INT>", values={"{1,2}": [1, 2]}),
    Case(type="numbers[]", spark="STRING", values={'{"{1,2}",NULL}': '{"{1,2}",NULL}'}),
    _texts("uuid", "00000000-0000-0000-0000-000000000000", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    _texts("uuid[]", "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11,NULL}"),
    _texts("json", '{"a": 1,  "a": 2}', "null", '"\\u00e4"', "[1.10]"),
    Case(type="jsonb", spark="STRING", values={'{"b":1.10, "a":1, "a":2}': '{"a": 2, "b": 1.10}', "null": "null"}),
    Case(type="jsonb[]", spark="STRING", values={'{"{\\"a\\": 1}"}': '{"{\\"a\\": 1}"}'}),
    Case(
        type="xml", spark="STRING",
        values={"<a b='c'>&lt;</a>": "<a b='c'>&lt;</a>", '<?xml version="1.0" encoding="UTF-8"?><a/>': "<a/>"},
    ),
    _texts("mood", "sad", 'a "b", c', "ünï\\code", ""),
    _texts("mood[]", '{sad,"a \\"b\\", c",""}'),
    Case(
        type="inet", spark="STRING",
        values={"10.0.0.1": "10.0.0.1", "10.0.0.1/8": "10.0.0.1/8", "::1": "::1", "2001:DB8::/32": "2001:db8::/32"},
    ),
    Case(type="mask", spark="STRING", values={"10.0.0.1": "10.0.0.1"}),
    Case(
        type="cidr", spark="STRING",
        values={"10.0.0.0/8": "10.0.0.0/8", "192.168.1.1": "192.168.1.1/32", "::/0": "::/0"},
    ),
    _texts("macaddr", "08:00:2b:01:02:03"),
    _texts("macaddr8", "08:00:2b:01:02:03:04:05"),
    Case(
        type="interval", spark="STRING",
        values={"1 year 2 mons -3 days 04:05:06.789": "1 year 2 mons -3 days +04:05:06.789", "0": "00:00:00",
                "-178000000 years": "-178000000 years"},
    ),
    _texts("time", "00:00:00", "24:00:00", "23:59:59.999999"),
    _texts("timetz", "00:00:00+15:59", "24:00:00-15:59"),
    _texts("bit(3)", "101"),
    _texts("varbit", "", "0", "1" * 100),
    Case(
        type="money", spark="STRING",
        values={"-92233720368547758.08": "-$92,233,720,368,547,758.08", "0.5": "$0.50"},
    ),
    Case(
        type="int4range", spark="STRING", values={"[1,5]": "[1,6)", "empty": "empty", "(,)": "(,)", "[1,)": "[1,)"},
    ),
    Case(type="tstzrange", spark="STRING", values={
        "[2024-01-01 00:00:00+02,infinity]": '["2023-12-31 22:00:00+00",infinity]'}),
    _texts("float_range", "[0.1,NaN)"),
    _texts("int4multirange", "{}", "{[1,3),[5,7)}"),
    Case(type="point", spark="STRING", values={"(0.1,-0)": "(0.1,-0)"}),
    _texts("box", "(1,1),(0,0)"),
    _texts("box[]", "{(1,1),(0,0);(3,3),(2,2)}"),
    _texts("polygon", "((0,0),(1,1),(2,0))"),
    Case(type="pair", spark="STRING", values={"(,)": "(,)", '(1,"a,b")': '(1,"a,b")', '(,"")': '(,"")'}),
    _texts("pair[]", '{"(1,\\"a b\\")",NULL}'),
    _texts("tsvector", "'a':1 'b':2A"),
    _texts("oid", "4294967295"),
    _texts("regclass", "pg_class"),
    _texts("pg_lsn", "16/B374D848"),
    _texts("int2vector", "1 2 3"),
)  # fmt: skip

UNREPRESENTABLE = {
    "date": ("infinity", "-infinity", "0001-12-31 BC", "4713-01-01 BC", "10000-01-01", "5874897-12-31"),
    "timestamp": ("infinity", "-infinity", "0001-12-31 23:59:59 BC", "10000-01-01 00:00:00", "294276-12-31 23:59:59"),
    "timestamptz": ("infinity", "-infinity", "4713-01-01 00:00:00+00 BC", "10000-01-01 00:00:00+00"),
    "numeric(5,2)": ("NaN",),
    "numeric(5,2)[]": ("{1.00,NaN}",),
    "integer[]": ("{{1,2},{3,4}}", "[0:1]={1,2}", "[2:3][1:1]={{1},{2}}"),
    "text[]": ('{{a,"b"}}',),
    "date[]": ("{infinity}", '{"0044-03-15 BC"}'),
    "timestamp[]": ("{-infinity}",),
}


@pytest.fixture
def connection(database: str) -> Connection:
    """A connection to an empty database with types of its own, and a setting that changes the names of functions."""
    made = Connection(name="bank", uri=database)
    with Session(made, read_only=False) as session:
        session.execute(f"RESET search_path; {_SETUP}")
        session.execute(f"ALTER DATABASE {database.rpartition('/')[2]} SET quote_all_identifiers = on")
    return made


def snapshot_values(connection: Connection, kind: ColumnType, *, table: str = "t") -> list[Any]:
    """The values of a column as a snapshot reads them, without Python's lossy conversion of Arrow's timestamps."""
    query = f"SELECT {kind.select_expression(quote_identifier(kind.name))} FROM ONLY public.{table} ORDER BY id"
    with arrow_connection(connection) as opened, opened.cursor() as cursor:
        cursor.execute(query)
        batches = [kind.from_arrow(batch.column(0)) for batch in cursor.fetch_record_batch()]
    assert {batch.type for batch in batches} == {kind.arrow_type}
    return [value for batch in batches for value in batch.to_pylist()]


def logged_texts(session: Session, slot: str, table: str = "t") -> list[str | None]:
    """The texts of the second column in the log, in the order of the inserts, from the messages of pgoutput."""
    query = (
        "SELECT data FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL, 'proto_version', '1',"
        " 'publication_names', %s)"
    )
    messages = (bytes(row[0]) for row in session.rows(query, [slot, f"p_{table}"]))
    return [_second_value(message) for message in messages if message[:1] == b"I"]


def _second_value(message: bytes) -> str | None:
    values: list[str | None] = []
    position = 1 + 4 + 1 + 2
    while position < len(message):
        kind = message[position : position + 1]
        position += 1
        if kind == b"n":
            values.append(None)
            continue
        (length,) = struct.unpack_from(">I", message, position)
        values.append(message[position + 4 : position + 4 + length].decode())
        position += 4 + length
    return values[1]


def value_of(parsed: Any, kind: pa.DataType) -> Any:  # noqa: PLR0911 - one for each kind of type
    """The value that Spark's `from_json` makes of parsed JSON."""
    if parsed is None:
        return None
    if pa.types.is_list(kind):
        return [value_of(each, kind.value_type) for each in parsed]
    if pa.types.is_floating(kind):
        assert isinstance(parsed, Decimal | int) or parsed in ("NaN", "Infinity", "-Infinity")
        return float(pa.scalar(float(parsed), kind).as_py())
    if pa.types.is_decimal(kind):
        assert not isinstance(parsed, str)
        return Decimal(parsed)
    if pa.types.is_binary(kind):
        return base64.b64decode(parsed, validate=True)
    if pa.types.is_date(kind):
        return dt.date.fromisoformat(parsed)
    if pa.types.is_timestamp(kind):
        assert parsed[10] == "T"
        assert parsed.endswith("Z") == (kind.tz is not None)
        assert len(parsed.removesuffix("Z")) == len("2024-01-31T23:59:59.123456")
        return dt.datetime.fromisoformat(parsed)
    return parsed


def same(value: Any, kind: pa.DataType) -> str:
    """A text that differs for NaN and numbers, for the signs of zeros and for the scales of decimals."""
    if isinstance(value, list):
        return f"[{', '.join(same(each, kind.value_type) for each in value)}]"
    if isinstance(value, dt.datetime):
        return value.isoformat()
    if isinstance(value, float):
        return repr(pa.scalar(value, kind).as_py())
    return repr(value)


@pytest.fixture
def writer(connection: Connection) -> Iterator[Session]:
    """A session that may write."""
    with Session(connection, read_only=False) as session:
        session.execute("RESET search_path")
        yield session


def make_table(session: Session, type_name: str, literals: list[str | None], slot: str | None = None) -> ColumnType:
    """Make table `t` with a slot and these values of one column, and return the type of the column."""
    session.execute(f"CREATE TABLE t (id integer PRIMARY KEY, v {type_name})")
    session.execute("CREATE PUBLICATION p_t FOR TABLE t")
    if slot is not None:
        session.rows("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
    for number, literal in enumerate(literals):
        session.execute(f"INSERT INTO t VALUES (%s, %s::{type_name})", [number, literal])
    return column_types(read_table(session, TableName(schema="public", table="t")))[1]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.type))
def test_snapshot_and_log_give_the_exact_values(case: Case, connection: Connection, writer: Session) -> None:
    """Every edge value of the type, and NULL, is exact on both paths; the Spark type is that of the table of types."""
    if case.type == "xml" and not writer.rows("SELECT FROM pg_config WHERE setting LIKE '%--with-libxml%'"):
        pytest.skip("the server has no XML")
    slot = connection.address.rpartition("/")[2]
    kind = make_table(writer, case.type, [*case.values, None], slot)
    assert kind.spark_type == case.spark
    expected = [same(value, kind.arrow_type) for value in [*case.values.values(), None]]
    assert [same(value, kind.arrow_type) for value in snapshot_values(connection, kind)] == expected
    fragments = [None if text is None else kind.json_fragment(text) for text in logged_texts(writer, slot)]
    parsed = [json.loads(fragment or "null", parse_float=Decimal) for fragment in fragments]
    assert [same(value_of(each, kind.arrow_type), kind.arrow_type) for each in parsed] == expected


@pytest.mark.parametrize(
    ("type_name", "literal"), [(name, literal) for name, literals in UNREPRESENTABLE.items() for literal in literals]
)
def test_a_value_that_spark_lacks_is_an_error_and_a_text_on_demand(
    type_name: str, literal: str, connection: Connection, writer: Session
) -> None:
    """Both paths name table, column, value and type; with `textColumns` both give the text."""
    slot = connection.address.rpartition("/")[2]
    kind = make_table(writer, type_name, [literal], slot)
    (text,) = logged_texts(writer, slot)
    assert text is not None
    with pytest.raises(SourceError) as by_snapshot:
        snapshot_values(connection, kind)
    with pytest.raises(SourceError) as by_log:
        kind.json_fragment(text)
    for caught in (by_snapshot, by_log):
        error = caught.value
        assert error.condition == "DATABASE_VALUE_NOT_REPRESENTABLE"
        assert (str(error.fields["table"]), error.fields["column"]) == ("public.t", "v")
        assert str(error.fields["value"]) in (
            text,
            text.replace("+00", ""),
            text.strip("{}").rpartition(",")[2].strip('"'),
        )
    table = read_table(writer, TableName(schema="public", table="t"))
    as_text = column_types(table, ["v"])[1]
    assert (as_text.spark_type, snapshot_values(connection, as_text)) == ("STRING", [text])
    assert json.loads(as_text.json_fragment(text)) == text


@pytest.mark.parametrize(("name", "array"), [("citext", "ARRAY<STRING>"), ("geometry", "STRING")])
def test_types_of_extensions_in_another_schema_are_texts(
    name: str, array: str, connection: Connection, writer: Session
) -> None:
    """A type without binary output is its text; only the elements of an array of `citext` are known."""
    writer.execute(_EXTENSION.format(name=name))
    kind = make_table(writer, f"ext.{name}", ["Ab", None])
    assert (kind.spark_type, snapshot_values(connection, kind)) == ("STRING", ["Ab", None])
    writer.execute(f"ALTER TABLE t ADD COLUMN a ext.{name}[]")
    assert column_types(read_table(writer, TableName(schema="public", table="t")))[2].spark_type == array


def test_a_cast_that_a_user_defines_does_not_change_the_text(connection: Connection, writer: Session) -> None:
    """A snapshot has the text of the type's output function, as the log has."""
    writer.execute(
        "CREATE FUNCTION loud(mood) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT 'LOUD'::text $$;"
        "CREATE CAST (mood AS text) WITH FUNCTION loud(mood)"
    )
    kind = make_table(writer, "mood", ["sad"])
    assert snapshot_values(connection, kind) == ["sad"]


def test_settings_of_role_and_database_do_not_change_texts(connection: Connection, writer: Session) -> None:
    """The settings of a session win over those of the database, the role and the URI."""
    database = connection.address.rpartition("/")[2]
    kind = make_table(writer, "interval", ["1 year 02:00:00"])
    for name, value in {"IntervalStyle": "iso_8601", "DateStyle": "SQL, DMY", "TimeZone": "Asia/Kolkata"}.items():
        writer.execute(f"ALTER DATABASE {database} SET {name} = '{value}'")
    changed = Connection(name="bank", uri=f"{connection.uri}?options=-c%20IntervalStyle%3Dsql_standard")
    assert snapshot_values(changed, kind) == ["1 year 02:00:00"]
    with Session(changed) as session:
        found = {name: session.rows(f"SHOW {name}")[0][0] for name in EXACT_SETTINGS}
    found["DateStyle"], _, _ = found["DateStyle"].partition(",")  # the order of day and month is for input
    assert found == EXACT_SETTINGS


def test_many_batches_are_converted_alike(connection: Connection, writer: Session) -> None:
    """A chunked array and the slices of a batch give the values of the whole."""
    kind = make_table(writer, "numeric(10,2)[]", [])
    writer.execute("INSERT INTO t SELECT i, ARRAY[i, NULL, i / 7.0] FROM generate_series(1, 5000) AS i")
    expected = writer.rows("SELECT v FROM t ORDER BY id")
    assert snapshot_values(connection, kind) == [row[0] for row in expected]
    whole = pa.array(["{1.00,NULL}", None, "{}", "{2.00}"])
    assert kind.from_arrow(whole.slice(1, 3)).to_pylist() == [None, [], [Decimal("2.00")]]
    assert kind.from_arrow(pa.chunked_array([whole, whole[:0]])).to_pylist() == kind.from_arrow(whole).to_pylist()


def test_any_name_is_a_column(writer: Session) -> None:
    """Names with backticks, braces, quotes and spaces have the types and the expressions of their columns."""
    writer.execute('CREATE TABLE "T t" ("a`b" integer, "c {0} d" inet, "Ü""x" numeric(3,1)[])')
    table = read_table(writer, TableName(schema="public", table="T t"))
    types = {each.name: each.spark_type for each in column_types(table)}
    assert types == {"a`b": "INT", "c {0} d": "STRING", 'Ü"x': "ARRAY<DECIMAL(3,1)>"}
    assert column_types(table, ["a`b"])[0].spark_type == "STRING"
    assert '"c {0} d"' in column_types(table)[1].select_expression('"c {0} d"')
    check_text_columns(table, ["a`b"])
    with pytest.raises(UserError, match="DATABASE_TEXT_COLUMN_UNKNOWN"):
        check_text_columns(table, ["a"])


def test_the_table_of_types_has_each_type_once() -> None:
    """The documentation is made of it."""
    names = [name for mapping in MAPPINGS for name in mapping.postgres]
    assert len(names) == len(set(names))
    assert names[-1] == "any other type"
