"""All types of PostgreSQL that a key may have: each with an expression of 40 distinct values, by `i` from 1 to 40."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

ROWS = 40
"""Distinct values of each type; of booleans there are two."""

_LABELS = ", ".join(f"'v{number}'" for number in reversed(range(ROWS)))
SCHEMA = (
    "CREATE SCHEMA app",
    f"CREATE TYPE app.mood AS ENUM ({_LABELS})",
    "CREATE TYPE pair AS (a int, b text)",
    "CREATE DOMAIN app.feeling AS app.mood",
    "CREATE TYPE app.inner AS (a app.feeling, b numeric(9,2))",
    "CREATE TYPE floats AS RANGE (subtype = float8)",
    'CREATE COLLATION app."Odd %s" FROM "C"',
)
"""The types that the keys need."""
NONDETERMINISTIC = (
    "CREATE COLLATION app.any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
)
"""A collation of servers with ICU, in which texts that differ are equal."""

_MOOD = "(enum_range(NULL::app.mood))[i]"
_HASH = "md5(i::text)"
_DAY = "'2020-01-01'::{0} + i * interval '1 day 1.000001 s'"
_SPECIAL = "CASE i WHEN 1 THEN 'NaN' WHEN 2 THEN '-0' WHEN 3 THEN 'Infinity' WHEN 4 THEN '-Infinity' ELSE {0} END"
_ENDLESS = "CASE i WHEN 1 THEN 'infinity' WHEN 2 THEN '-infinity' ELSE ({0})::text END"
KEY_TYPES: dict[str, str] = {
    "smallint": "i - 50",
    "integer": "i * 7919 % 1009 - 500",
    "bigint": "i * 7919 % 1009 * -1000000000000",
    "numeric": _SPECIAL.format("(i / 7.0)::text"),
    "numeric(20,5)": "i / 7.0 - 5",
    "real": _SPECIAL.format("(i / 7.0)::text"),
    "double precision": _SPECIAL.format("(i / 7.0)::text"),
    "text": f"CASE i WHEN 1 THEN '' WHEN 2 THEN 'a''\\\"%' WHEN 3 THEN 'Ä ' ELSE {_HASH} END",
    'text COLLATE "C"': _HASH,
    'varchar COLLATE app."Odd %s"': _HASH,
    'name COLLATE "POSIX"': "'N' || i",
    'char(8) COLLATE "C"': "'a' || i",
    "bpchar": "'a' || i",
    "char(8)": "'é' || i",
    '"char"': 'chr(i + 20)::"char"',
    "varchar": "'Ä' || i",
    "varchar(20)": "'é' || i",
    "name": "'N' || i",
    "uuid": _HASH,
    "date": "'0044-03-15'::date + i",
    "timestamp": _DAY.format("timestamp"),
    "timestamp(2)": _DAY.format("timestamp"),
    "timestamptz": _DAY.format("timestamptz"),
    "time": "time '00:00' + i * interval '61.5 s'",
    "timetz": "(time '00:00' + i * interval '61.5 s')::text || '+0' || i % 5",
    "interval": "i * interval '1 mon 2 days 3.5 s'",
    "boolean": "i % 2 = 1",
    "bytea": "decode(md5(i::text), 'hex')",
    "inet": "'10.0.0.' || i || '/24'",
    "cidr": "'10.' || i || '.0.0/16'",
    "macaddr": "'08:00:2b:01:02:' || lpad(to_hex(i), 2, '0')",
    "macaddr8": "'08:00:2b:01:02:03:04:' || lpad(to_hex(i), 2, '0')",
    "bit(8)": "i::bit(8)::text",
    "varbit": "i::bit(9)::text || '1'",
    "money": "(i * 1.25 - 20)::numeric::money::text",
    "oid": "i",
    "regclass": "CASE i WHEN 2 THEN 'public.pair' WHEN 3 THEN 'app.inner' ELSE i::oid::regclass END",
    "regtype": "CASE i WHEN 2 THEN 'public.pair' WHEN 3 THEN 'app.mood' ELSE i::oid::regtype END",
    "pg_lsn": "'0/' || to_hex(i)",
    "xid8": "i::text",
    "tid": "'(0,' || i || ')'",
    "oidvector": "i || ' 2'",
    "tsvector": f"{_HASH} || ' b'",
    "tsquery": f"'b & ' || {_HASH}",
    "jsonb": "jsonb_build_object('a', i, 'b', 'x')::text",
    "integer[]": "CASE i WHEN 1 THEN '{}' ELSE ARRAY[i % 7, i, NULL]::text END",
    "text[]": f"ARRAY[{_HASH}, 'b,\"', NULL]::text",
    "uuid[]": f"ARRAY[{_HASH}::uuid]::text",
    "numeric(9,2)[]": "ARRAY[i / 7.0]::numeric(9,2)[]::text",
    "pair[]": "ARRAY[ROW(i, 'b,' || i)::pair]::text",
    "app.mood[]": f"ARRAY[{_MOOD}, 'v1'::app.mood]::text",
    "app.feeling[]": f"ARRAY[{_MOOD}, 'v1'::app.mood]::text",
    "int4range": "int4range(i, i + 5)::text",
    "numrange": "numrange(i, i + 0.5)::text",
    "daterange": "daterange('2020-01-01'::date + i, NULL)::text",
    "tsrange": "tsrange('2020-01-01'::timestamp + i * interval '1 s', NULL)::text",
    "tstzrange": "tstzrange('2020-01-01'::timestamptz + i * interval '1 s', NULL)::text",
    "floats": "floats(i, i + 0.5)::text",
    "int4multirange": "int4multirange(int4range(i, i + 5), int4range(i + 10, i + 11))::text",
    "pair": "ROW(i, 'b,' || i)::pair::text",
    "app.inner": f"ROW({_MOOD}, i)::app.inner::text",
    "app.mood": f"{_MOOD}::text",
    "app.feeling": f"{_MOOD}::text",
}
"""By type, with the collation of the column."""
OF_ANY_CASE: dict[str, str] = {
    f"{kind} COLLATE app.any_case": f"{before}{_HASH}{after}"
    for kind, before, after in (("text", "", ""), ("varchar(40)", "", ""), ("text[]", "ARRAY[", "]::text"))
}
"""Types of a collation of `NONDETERMINISTIC`."""
ENDLESS: dict[str, str] = {
    "date": _ENDLESS.format("'2020-01-01'::date + i"),
    "timestamp": _ENDLESS.format(_DAY.format("timestamp")),
    "timestamptz": _ENDLESS.format(_DAY.format("timestamptz")),
}
"""Values that only a copy as text can hold."""


@dataclass(frozen=True)
class KeyType:
    """A type of a key column.

    Args:
        name: the type, as a column of a table has it.
        value: the expression of its values, of the type.
    """

    name: str
    value: str


def with_domains(types: Mapping[str, str], create: Callable[[str], object]) -> Iterator[KeyType]:
    """Yield each type bare and as a domain over a domain, whose domains are created."""
    for number, (kind, value) in enumerate(types.items()):
        bare, _, collation = kind.partition(" COLLATE ")
        yield KeyType(kind, f"({value})::{bare}")
        domain = f"domain_{number}_{len(types)}"
        create(f"CREATE DOMAIN {domain}_base AS {bare}{f' COLLATE {collation}' if collation else ''}")
        create(f"CREATE DOMAIN app.{domain} AS {domain}_base")
        yield KeyType(f"app.{domain}", f"({value})::{bare}")
