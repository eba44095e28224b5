"""Columns of every type of MySQL and MariaDB with values for random loads, and the texts that a query has for them."""

from __future__ import annotations

import base64
import json
import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

TEXT = "CAST({0} AS CHAR)"
HEX = "HEX({0})"
DOUBLE = "CAST({0} AS DOUBLE)"


def as_is(value: str) -> object:
    """Return a text of the log unchanged."""
    return value


def as_hex(value: str) -> object:
    """Return base64 as the server's HEX writes the bytes."""
    return base64.b64decode(value).hex().upper()


def as_bit(value: str) -> object:
    """Return a boolean as the server's HEX writes the bit."""
    return "1" if value == "True" else "0"


def as_moment(digits: int) -> Callable[[str], object]:
    """Return the function for a date with a time, with so many digits after the second."""
    return lambda value: value.replace("T", " ").rstrip("Z")[: 19 + (digits + 1 if digits else 0)]


@dataclass(frozen=True, slots=True)
class TypedColumn:
    """A column of a type.

    Args:
        ddl: its type.
        values: SQL of values; `...` for random ones of `draw`.
        select: the expression of a query that shows a value.
        shown: shows a value of the log in the same way.
        draw: draws SQL of a random value.
    """

    ddl: str
    values: Sequence[str] = ()
    select: str = TEXT
    shown: Callable[[str], object] = as_is
    draw: Callable[[random.Random], str] | None = None

    def value(self, source: random.Random) -> str:
        """Draw the SQL of a value or NULL."""
        if source.random() < 0.1:
            return "NULL"
        if self.draw is not None and (not self.values or source.random() < 0.6):
            return self.draw(source)
        return source.choice(self.values)


def _integer(bits: int, ddl: str) -> list[TypedColumn]:
    low, high, most = -(1 << bits - 1), (1 << bits - 1) - 1, (1 << bits) - 1
    return [
        TypedColumn(ddl, [str(low), "-1", "0", "1", str(high)], draw=lambda r: str(r.randint(low, high))),
        TypedColumn(f"{ddl} unsigned", ["0", str(high + 1), str(most)], draw=lambda r: str(r.randint(0, most))),
    ]


def _decimal(precision: int, scale: int) -> TypedColumn:
    def draw(r: random.Random) -> str:
        digits = "".join(r.choice("0123456789") for _ in range(r.randint(1, precision))).zfill(precision)
        whole, fraction = digits[: precision - scale], digits[precision - scale :]
        return f"{r.choice(['', '-'])}{whole or 0}.{fraction or 0}"

    nines = f"{'9' * (precision - scale) or 0}.{'9' * scale or 0}"
    return TypedColumn(f"decimal({precision},{scale})", ["0", "-0", nines, f"-{nines}", "-0.5", "1"], draw=draw)


def _moment(kind: str, digits: int) -> TypedColumn:
    first = 1970 if kind == "timestamp" else 1000
    last = 2037 if kind == "timestamp" else 9999

    def draw(r: random.Random) -> str:
        date = f"{r.randint(first, last):04d}-{r.randint(1, 12):02d}-{r.randint(2, 28):02d}"
        return (
            f"'{date} {r.randint(0, 23):02d}:{r.randint(0, 59):02d}:{r.randint(0, 59):02d}.{r.randint(0, 999999):06d}'"
        )

    values = [f"'{last}-12-31 23:59:59'", f"'{first}-01-02 00:00:00.000001'"]
    suffix = " NULL" if kind == "timestamp" else ""
    return TypedColumn(f"{kind}({digits}){suffix}", values, shown=as_moment(digits), draw=draw)


def _time(digits: int) -> TypedColumn:
    def draw(r: random.Random) -> str:
        clock = f"{r.randint(0, 837)}:{r.randint(0, 59):02d}:{r.randint(0, 59):02d}.{r.randint(0, 999999):06d}"
        return f"'{r.choice(['', '-'])}{clock}'"

    values = ["'00:00:00'", "'838:59:59'", "'-838:59:59'", "'-00:00:00.01'", "'-00:00:01'", "'-01:00:00.5'"]
    return TypedColumn(f"time({digits})", values, draw=draw)


def _bytes(most: int) -> Callable[[random.Random], str]:
    return lambda r: f"x'{r.randbytes(r.randint(0, most)).hex()}'"


def _text(letters: str, most: int) -> Callable[[random.Random], str]:
    def draw(r: random.Random) -> str:
        text = "".join(r.choice(letters) for _ in range(r.randint(0, most)))
        return f"CONVERT(x'{text.encode().hex()}' USING utf8mb4)"

    return draw


def _float(r: random.Random) -> str:
    return repr(struct.unpack("<f", struct.pack("<f", r.choice([r.uniform(-1e6, 1e6), r.uniform(-1, 1) * 1e-30])))[0])


def _double(r: random.Random) -> str:
    return repr(r.uniform(-1, 1) * 10.0 ** r.randint(-300, 300))


_LETTERS = "abcXYZ 09'\"\\\n\t\x01éßñ"
_WIDE = _LETTERS + "日本語😀𝄞\u2028"

COLUMNS: tuple[TypedColumn, ...] = (
    *_integer(8, "tinyint"),
    *_integer(16, "smallint"),
    *_integer(24, "mediumint"),
    *_integer(32, "int"),
    *_integer(64, "bigint"),
    TypedColumn("year", ["0", "1901", "2155", "1999"], "CAST({0} + 0 AS CHAR)"),
    TypedColumn("int(5) zerofill", ["1", "4294967295"], "CAST({0} + 0 AS CHAR)"),
    TypedColumn("float", ["0", "-0.0", "16777216", "0.1", "3.4e38", "-1e-38"], DOUBLE, float, _float),
    TypedColumn(
        "double", ["0", "1e-308", "1.7976931348623157e308", "0.1", "1e15", "123456789012345678"], "{0}", float, _double
    ),
    *(
        _decimal(*each)
        for each in ((1, 0), (5, 5), (9, 0), (10, 2), (18, 9), (19, 9), (20, 0), (30, 28), (38, 10), (65, 30))
    ),
    TypedColumn("bit(1)", ["0", "1"], HEX, as_bit),
    TypedColumn("bit(9)", ["0", "257", "511"], "LPAD(HEX({0}), 4, '0')", as_hex),
    TypedColumn("bit(64)", ["0", "1", "18446744073709551615"], "LPAD(HEX({0}), 16, '0')", as_hex),
    TypedColumn("date", ["'1000-01-01'", "'9999-12-31'", "'2024-02-29'", "'0001-01-01'"]),
    *(_moment("datetime", digits) for digits in range(7)),
    *(_moment("timestamp", digits) for digits in range(7)),
    *(_time(digits) for digits in range(7)),
    TypedColumn("char(20) character set utf8mb4", ["''", "'a  '", "'  a'"], draw=_text(_WIDE, 20)),
    TypedColumn("char(100) character set utf8mb4", ["''"], draw=_text(_WIDE, 100)),
    TypedColumn("varchar(60) character set utf8mb4", ["''", "'a  '"], draw=_text(_WIDE, 60)),
    TypedColumn("varchar(1000) character set utf8mb4", ["''"], draw=_text(_WIDE, 300)),
    TypedColumn("varchar(50) character set latin1", ["''", "'€ƒ'", "x'818d8f909da0ff'"], draw=_text(_LETTERS, 50)),
    TypedColumn("varchar(50) character set utf8mb3", ["'日本'"], draw=_text(_LETTERS, 50)),
    TypedColumn("varchar(50) character set ucs2", ["'日本'"], draw=_text(_LETTERS, 50)),
    TypedColumn("varchar(50) character set utf16", ["'日本😀'"], draw=_text(_WIDE, 50)),
    TypedColumn("varchar(50) character set utf32", ["'日本😀'"], draw=_text(_WIDE, 50)),
    TypedColumn("varchar(50) character set ascii", ["''", "'abc'"]),
    TypedColumn("varchar(50) character set cp1251", ["'Привет'", "x'98'"]),
    TypedColumn("varchar(50) character set greek", ["'Αθήνα'"]),
    TypedColumn("varchar(50) character set sjis", ["'日本語'", "'ｱ\\\\'", "x'815f'"]),
    TypedColumn("varchar(50) character set gbk", ["'中文'", "'€'"]),
    TypedColumn("varchar(50) character set big5", ["'中文'"]),
    TypedColumn("varchar(50) character set euckr", ["'한국어'"]),
    TypedColumn("tinytext character set utf8mb4", ["''"], draw=_text(_WIDE, 30)),
    TypedColumn("text character set utf8mb4", ["''", "REPEAT('x', 5000)"], draw=_text(_WIDE, 100)),
    TypedColumn("mediumtext character set latin1", ["''", "REPEAT('é', 70000)"], draw=_text(_LETTERS, 100)),
    TypedColumn("longtext character set utf8mb4", ["''", "REPEAT('😀', 70000)"], draw=_text(_WIDE, 100)),
    TypedColumn("binary(5)", ["x''", "x'00'", "x'0100000000'", "x'ffffffffff'"], HEX, as_hex, _bytes(5)),
    TypedColumn("binary(255)", ["x''", "x'20'"], HEX, as_hex, _bytes(255)),
    TypedColumn("varbinary(9)", ["x''", "x'00'", "x'0000'"], HEX, as_hex, _bytes(9)),
    TypedColumn("varbinary(900)", ["x''"], HEX, as_hex, _bytes(300)),
    TypedColumn("tinyblob", ["x''"], HEX, as_hex, _bytes(200)),
    TypedColumn("blob", ["x''"], HEX, as_hex, _bytes(300)),
    TypedColumn("mediumblob", ["REPEAT(x'00', 70000)"], HEX, as_hex, _bytes(300)),
    TypedColumn("longblob", ["REPEAT(x'ff', 100000)"], HEX, as_hex, _bytes(300)),
    TypedColumn("enum('a','b''x','ü','c,d') character set utf8mb4", ["'a'", "'ü'", "3", "4", "'unknown'"]),
    TypedColumn("enum('é','à') character set latin1", ["'é'", "2"]),
    TypedColumn(f"enum({','.join(repr(f'v{i}') for i in range(300))})", ["'v0'", "'v299'", "256"]),
    TypedColumn("set('x','y','ü') character set utf8mb4", ["''", "'x'", "'x,ü'", "7"]),
    TypedColumn(f"set({','.join(repr(f's{i}') for i in range(64))})", ["''", "'s63'", "'s0,s31,s32'"]),
    TypedColumn(
        "geometry", ["ST_GeomFromText('POINT(1 2)')", "ST_GeomFromText('POLYGON((0 0,0 1,1 1,0 0))')"], HEX, as_hex
    ),
    TypedColumn("point", ["ST_GeomFromText('POINT(-1.5 1e10)')"], HEX, as_hex),
)

_DOCUMENTS: tuple[str, ...] = (
    "'null'",
    "'true'",
    "'[]'",
    "'{}'",
    "'0'",
    "'-1'",
    "'65535'",
    "'-32769'",
    "'4294967296'",
    "'18446744073709551615'",
    "'1.0'",
    "'1e100'",
    "'1e-7'",
    "'0.1'",
    "'123456789012345678901234567890'",
    "'1.5e15'",
    "'1e16'",
    "'-0.0'",
    "'1e20'",
    "'1e14'",
    "'0.0001'",
    "'0.00001'",
    "'1.7976931348623157e308'",
    "'5e-324'",
    "'123456.789e3'",
    "'100000000000000000000'",
    '\'"\\\\u00e9\\\\n\\\\t\\\\"\\\\\\\\ 😀\\\\u0001/"\'',
    '\'{"b": 1, "a": [1, {"c": null}], "": "x", "long key with spaces": false}\'',
    "JSON_OBJECT('d', CAST('2024-01-02' AS DATE), 't', CAST('-12:13:14.5' AS TIME(6)))",
    "JSON_OBJECT('m', CAST('2024-01-02 03:04:05.6' AS DATETIME(6)))",
    "JSON_ARRAY(CAST(1.50 AS DECIMAL(10,2)), CAST(-0.001 AS DECIMAL(65,30)), x'00ff')",
    "JSON_ARRAY(CAST(1 AS UNSIGNED), b'101', 1.5e0)",
    "JSON_ARRAY(CAST('838:59:59' AS TIME), CAST('0000-00-00' AS DATE), TIMESTAMP'2024-01-02 03:04:05')",
    "CONCAT('[', REPEAT('\"0123456789\",', 9000), '1]')",
    "CONCAT('{', REPEAT('', 0), '\"k\": \"', REPEAT('é', 200), '\"}')",
    "CONCAT(REPEAT('[', 90), REPEAT(']', 90))",
)


def _document(r: random.Random) -> str:
    def draw(depth: int) -> object:
        choice = r.randint(0, 7 if depth < 3 else 5)
        if choice == 6:
            return [draw(depth + 1) for _ in range(r.randint(0, 5))]
        if choice == 7:
            return {f"k{r.randint(0, 99)}" * r.randint(1, 3): draw(depth + 1) for _ in range(r.randint(0, 5))}
        simple = (
            None,
            True,
            r.randint(-(1 << 63), (1 << 64) - 1),
            r.uniform(-1, 1) * 10.0 ** r.randint(-25, 25),
            'é\n"x',
            r.randint(-99, 99),
        )
        return simple[choice]

    return f"CONVERT(x'{json.dumps(draw(0), ensure_ascii=False).encode().hex()}' USING utf8mb4)"


MYSQL: tuple[TypedColumn, ...] = (
    TypedColumn("json", _DOCUMENTS, draw=_document),
    TypedColumn("vector(3)", ["TO_VECTOR('[1,2,3]')", "TO_VECTOR('[-1.5,0,1e10]')"], HEX, as_hex),
    TypedColumn("point srid 4326", ["ST_GeomFromText('POINT(1 2)', 4326)"], HEX, as_hex),
)
MARIADB: tuple[TypedColumn, ...] = (
    TypedColumn("json", ["'{\"a\":  1}'", "'[]'", "'null'"]),
    TypedColumn(
        "uuid",
        [
            "'123e4567-e89b-12d3-a456-426655440000'",
            "'6ccd780c-baba-1026-9564-5b8c656024db'",
            "'ffffffff-ffff-ffff-ffff-ffffffffffff'",
            "'00000000-0000-0000-0000-000000000000'",
            "'123e4567-e89b-72d3-a456-426655440000'",
            "'123e4567-e89b-42d3-c456-426655440000'",
        ],
    ),
    TypedColumn(
        "inet6",
        [
            "'::'",
            "'::1'",
            "'::ffff:1.2.3.4'",
            "'2001:db8::ff00:42:8329'",
            "'::1.2.3.4'",
            "'1:0:0:2::'",
            "'fe80::1:0:0:1'",
            "'1:2:3:4:5:6:7:8'",
            "'::1:0'",
            "'::0.1.2.3'",
            "'1:0:2:0:3:0:4:0'",
            "'::ffff:0:0'",
        ],
    ),
    TypedColumn("inet4", ["'0.0.0.0'", "'1.2.3.4'", "'255.255.255.255'", "'10.0.0.0'"]),
    TypedColumn(
        "varchar(500) compressed character set utf8mb4", ["''", "REPEAT('é', 200)", "'short'"], draw=_text(_WIDE, 100)
    ),
    TypedColumn("blob compressed", ["x''", "REPEAT(x'00ff', 500)"], HEX, as_hex, _bytes(300)),
    TypedColumn("longtext compressed character set latin1", ["REPEAT('é', 70000)"], draw=_text(_LETTERS, 100)),
)
