"""Kinds of keys of PostgreSQL tables, with random values that are hard to compare or to write down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

Draw = Callable[[Random], str | None]

_LETTERS = "abAB09 '\"\\;-%{}é\u00df\u0130\u4e2d\U0001f986\t\n,()"


@dataclass(frozen=True)
class KeyCase:
    """A kind of key.

    Args:
        columns: type and random value of each key column.
        constraint: of the table, over the columns k1, k2, …; empty if it has no key.
        before: statements before the table is created.
        after: statements that are run on the empty table.
        options: of CREATE TABLE, such as partitions.
        updates: whether rows may be updated; an update moves a row of a table without a key.
    """

    columns: tuple[tuple[str, Draw], ...]
    constraint: str = "PRIMARY KEY ({keys})"
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    options: str = ""
    updates: bool = True


def _text(random: Random) -> str:
    hostile = ("", " ", "'; DROP TABLE t; --", "\\", "\\'", "a" * 300, "NULL", "{}", "('a')", "%s", "-- x", "/*")
    if random.random() < 0.2:
        return random.choice(hostile)
    return "".join(random.choice(_LETTERS) for _ in range(random.randint(0, 6)))


def _integer(random: Random) -> str:
    return str(random.choice([random.randint(-50, 400), random.randint(-(2**31), 2**31 - 1)]))


def _float(random: Random) -> str:
    special = ("NaN", "Infinity", "-Infinity", "-0", "5e-324", "1.7976931348623157e308", "0.1", "0.30000000000000004")
    return (
        random.choice(special) if random.random() < 0.1 else repr(random.uniform(-1, 1) * 10 ** random.randint(-9, 9))
    )


def _real(random: Random) -> str:
    special = ("NaN", "Infinity", "-Infinity", "-0", "1e-45", "0.1", "16777217")
    return random.choice(special) if random.random() < 0.1 else repr(random.uniform(-100, 100))


def _numeric(random: Random) -> str:
    special = ("NaN", "Infinity", "0.00", "1" + "0" * 60, "1e-40")
    whole = random.randint(-(10**25), 10**25)
    return random.choice(special) if random.random() < 0.1 else f"{whole}.{random.randint(0, 10**12)}"


def _date(random: Random) -> str:
    if random.random() < 0.1:
        return random.choice(["infinity", "-infinity", "0044-03-15 BC", "12345-06-07"])
    return f"{random.randint(1, 9999):04}-{random.randint(1, 12):02}-{random.randint(1, 28):02}"


def _timestamp(random: Random) -> str:
    date = _date(random)
    if "infinity" in date:
        return date
    time = f"{random.randint(0, 23)}:{random.randint(0, 59)}:{random.randint(0, 59)}.{random.randint(0, 999_999):06}"
    return f"{date.removesuffix(' BC')} {time}{' BC' if date.endswith('BC') else ''}"


def _interval(random: Random) -> str:
    return f"{random.randint(-9, 9)} years {random.randint(0, 40)} days {random.uniform(0, 9)} s"


def _address(random: Random) -> str:
    return f"10.0.{random.randint(0, 9)}.{random.randint(0, 255)}/{random.choice([24, 32])}"


def _hex(length: int) -> Draw:
    return lambda random: f"{random.getrandbits(4 * length):0{length}x}"


def _bytes(random: Random) -> str:
    return "\\x" + random.randbytes(random.randint(0, 5)).hex()


def _of(*values: str) -> Draw:
    return lambda random: random.choice(values)


def _small(most: int) -> Draw:
    return lambda random: str(random.randint(0, most))


def _or_null(draw: Draw) -> Draw:
    return lambda random: None if random.random() < 0.3 else draw(random)


_MANY = tuple(f"v{number}" for number in range(120))
_ENUM = f"CREATE TYPE mood AS ENUM ({', '.join(repr(value) for value in reversed(_MANY))})"

_SIGNS = (("lt", "<", ">"), ("le", "<=", ">="), ("eq", "=", "="), ("ge", ">=", "<="), ("gt", ">", "<"))
_CITEXT_TYPE = """
    CREATE TYPE ext.citext (INPUT = ext.citextin, OUTPUT = ext.citextout, INTERNALLENGTH = VARIABLE,
    STORAGE = extended, CATEGORY = 'S', PREFERRED = false, COLLATABLE = true)"""
_CITEXT_FUNCTION = """
    CREATE FUNCTION ext.citext_{0}(ext.citext, ext.citext) RETURNS bool IMMUTABLE STRICT LANGUAGE sql
    AS 'SELECT lower($1::text) {1} lower($2::text)'"""
_CITEXT_OPERATOR = """
    CREATE OPERATOR ext.{1} (LEFTARG = ext.citext, RIGHTARG = ext.citext, PROCEDURE = ext.citext_{0},
    COMMUTATOR = OPERATOR(ext.{2}), RESTRICT = scalarltsel)"""
_CITEXT_COMPARE = """
    CREATE FUNCTION ext.citext_cmp(ext.citext, ext.citext) RETURNS int4 IMMUTABLE STRICT LANGUAGE sql
    AS 'SELECT bttextcmp(lower($1::text), lower($2::text))'"""
_CITEXT_CLASS = """
    CREATE OPERATOR CLASS ext.citext_ops DEFAULT FOR TYPE ext.citext USING btree AS
    OPERATOR 1 ext.< (ext.citext, ext.citext), OPERATOR 2 ext.<= (ext.citext, ext.citext),
    OPERATOR 3 ext.= (ext.citext, ext.citext), OPERATOR 4 ext.>= (ext.citext, ext.citext),
    OPERATOR 5 ext.> (ext.citext, ext.citext), FUNCTION 1 ext.citext_cmp(ext.citext, ext.citext)"""

CITEXT = (
    "CREATE SCHEMA ext",
    "CREATE TYPE ext.citext",
    "CREATE FUNCTION ext.citextin(cstring) RETURNS ext.citext AS 'textin' LANGUAGE internal IMMUTABLE STRICT",
    "CREATE FUNCTION ext.citextout(ext.citext) RETURNS cstring AS 'textout' LANGUAGE internal IMMUTABLE STRICT",
    _CITEXT_TYPE,
    "CREATE CAST (ext.citext AS text) WITHOUT FUNCTION AS IMPLICIT",
    "CREATE CAST (text AS ext.citext) WITHOUT FUNCTION AS ASSIGNMENT",
    *(_CITEXT_FUNCTION.format(*sign) for sign in _SIGNS),
    *(_CITEXT_OPERATOR.format(*sign) for sign in _SIGNS),
    _CITEXT_COMPARE,
    _CITEXT_CLASS,
)
"""citext of its extension, with functions of SQL instead of C, in a schema outside of search_path."""
_NOT_NULL = tuple(f"ALTER TABLE t ALTER k{number} SET NOT NULL" for number in (1, 2))

_THREE_PARTS = tuple(
    f"CREATE TABLE t{part} PARTITION OF t FOR VALUES WITH (MODULUS 3, REMAINDER {part})" for part in range(3)
)

KEYS: dict[str, KeyCase] = {
    "integer": KeyCase((("integer", _integer),)),
    "bigint": KeyCase((("bigint", lambda random: str(random.randint(-(2**63), 2**63 - 1))),)),
    "double": KeyCase((("double precision", _float),)),
    "real": KeyCase((("real", _real),)),
    "numeric": KeyCase((("numeric", _numeric),)),
    "numeric(9,2)": KeyCase(
        (("numeric(9,2)", lambda random: f"{random.randint(-(10**6), 10**6)}.{random.randint(0, 99)}"),)
    ),
    "text": KeyCase((("text", _text),)),
    "text-c": KeyCase((('text COLLATE "C"', _text),)),
    "text-other-index": KeyCase(
        (("text", _text),), "", after=('CREATE UNIQUE INDEX ON t (k1 COLLATE "ucs_basic")', _NOT_NULL[0])
    ),
    "text-pattern": KeyCase(
        (("text", _text),), "", after=("CREATE UNIQUE INDEX ON t (k1 text_pattern_ops)", _NOT_NULL[0])
    ),
    "citext": KeyCase((("ext.citext", _text),), before=CITEXT),
    "varchar": KeyCase((("varchar(400)", _text),)),
    "char": KeyCase((("char(6)", lambda random: _text(random)[:6]),)),
    "name": KeyCase((("name", lambda random: _text(random)[:20]),)),
    "uuid": KeyCase((("uuid", _hex(32)),)),
    "bytea": KeyCase((("bytea", _bytes),)),
    "date": KeyCase((("date", _date),)),
    "timestamp": KeyCase((("timestamp", _timestamp),)),
    "timestamptz": KeyCase((("timestamptz", _timestamp),)),
    "interval": KeyCase((("interval", _interval),)),
    "enum": KeyCase((("mood", _of(*_MANY)),), before=(_ENUM,)),
    "domain": KeyCase(
        (("code", _text),),
        before=("CREATE DOMAIN word AS text", "CREATE DOMAIN code AS word CHECK (length(VALUE) < 400)"),
    ),
    "inet": KeyCase((("inet", _address),)),
    "bits": KeyCase((("bit varying", lambda random: f"{random.getrandbits(12):b}"),)),
    "money": KeyCase((("money", lambda random: f"{random.randint(-(10**7), 10**7)}.{random.randint(10, 99)}"),)),
    "array": KeyCase((("integer[]", lambda random: f"{{{random.randint(0, 9)},NULL,{random.randint(0, 99)}}}"),)),
    "range": KeyCase((("int4range", lambda random: f"[{random.randint(0, 20)},{random.randint(21, 60)})"),)),
    "boolean-integer": KeyCase((("boolean", _of("t", "f")), ("integer", _integer))),
    "integer-text": KeyCase((("integer", _small(3)), ("text", _text))),
    "text-timestamp-integer": KeyCase(
        (('text COLLATE "C"', _text), ("timestamptz", _timestamp), ("smallint", _small(9)))
    ),
    "descending": KeyCase(
        (("integer", _small(30)), ("text", _text)),
        "",
        after=("CREATE UNIQUE INDEX ON t (k1, k2 DESC)", *_NOT_NULL),
    ),
    "nullable": KeyCase((("integer", _or_null(_integer)),), "UNIQUE (k1)"),
    "nullable-pair": KeyCase((("integer", _or_null(_small(20))), ("text", _or_null(_text))), "UNIQUE (k1, k2)"),
    "nullable-second": KeyCase((("integer NOT NULL", _small(20)), ("text", _or_null(_text))), "UNIQUE (k1, k2)"),
    "partitioned": KeyCase((("integer", _integer),), options="PARTITION BY HASH (k1)", after=_THREE_PARTS),
    "none": KeyCase((("text", _text),), "", updates=False),
    "none-partitioned": KeyCase(
        (("integer", _integer),), "", options="PARTITION BY HASH (k1)", after=_THREE_PARTS, updates=False
    ),
}


def create_table(case: KeyCase) -> list[str]:
    """The statements that create table t with key columns k1, k2, …, a unique `label` and a `payload`."""
    names = [f"k{number}" for number, _ in enumerate(case.columns, start=1)]
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in zip(names, case.columns, strict=True))
    constraint = f", {case.constraint.format(keys=', '.join(names))}" if case.constraint else ""
    table = f"CREATE TABLE t ({columns}, label integer, payload text{constraint}) {case.options}"
    return [*case.before, table, *case.after]
