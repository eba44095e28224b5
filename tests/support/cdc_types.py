"""The types that a Delta table stores, each with values in ascending order: data for tests of AUTO CDC.

Values are SQL expressions, for Python cannot hold all of them: strings that are not UTF-8, years before 1 and
after 9999. Each value lists its spellings: expressions that Spark and AUTO CDC must treat as equal. `text_of`
is an exact text of any value, which tests compare; the product has no part in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructType, VariantType


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeCase:
    """A type and some of its values.

    Args:
        name: of the type, unique.
        ddl: the type.
        values: distinct values in ascending order (in any order if the type has none), each with its spellings.
        is_key: a key may have the type.
    """

    name: str
    ddl: str
    values: tuple[tuple[str, ...], ...]
    is_key: bool = True

    def typed(self, spelling: str) -> str:
        """The SQL expression of a value in the case's type."""
        return f"CAST({spelling} AS {self.ddl})"


def _case(name: str, ddl: str, *values: str | tuple[str, ...], is_key: bool = True) -> TypeCase:
    spelled = tuple((value,) if isinstance(value, str) else value for value in values)
    return TypeCase(name=name, ddl=ddl, values=spelled, is_key=is_key)


def _value(name: str, ddl: str, *values: str | tuple[str, ...]) -> TypeCase:
    return _case(name, ddl, *values, is_key=False)


_LATE = "TIMESTAMP'2024-02-29 12:00:00.000002'"
_LATER = "TIMESTAMP'2024-02-29 12:00:00.000003'"
_ZERO = ("0.0D", "-0.0D", "-1.0D * 0")
_NAN = ("DOUBLE('NaN')", "DOUBLE('Infinity') - DOUBLE('Infinity')")

FLAT = (
    _case("boolean", "boolean", "false", "true"),
    _case("tinyint", "tinyint", "-128", "0", "127"),
    _case("smallint", "smallint", "-32768", "-1", "32767"),
    _case("int", "int", "-2147483648", "7", "2147483647"),
    _case("bigint", "bigint", "-9223372036854775808", "9007199254740992", "9007199254740993", "9223372036854775807"),
    _case("float", "float", "'-Infinity'", "-1.0", ("0.0F", "-0.0F"), "1.4E-45F", "0.1F", "'Infinity'", "'NaN'"),
    _case("double", "double", "'-Infinity'", "-1.0D", _ZERO, "4.9E-324D", "0.1D", "'Infinity'", _NAN),
    _case("decimal(1,0)", "decimal(1,0)", "-9", "0", "9"),
    _case("decimal(18,18)", "decimal(18,18)", "-0.999999999999999999BD", "0", "0.000000000000000001BD"),
    _case("decimal(38,0)", "decimal(38,0)", f"-{'9' * 38}BD", "0", f"{'9' * 37}8BD", f"{'9' * 38}BD"),
    _case("decimal(38,18)", "decimal(38,18)", "1.000000000000000001BD", ("1.1BD", "1.10BD"), "99999999999999999999BD"),
    _case("decimal(38,38)", "decimal(38,38)", f"0.{'0' * 37}1BD", f"0.{'9' * 38}BD"),
    _case("string", "string", "''", "' '", "'A'", "'a'", "'a '", "'\u00e9'", "'\U0001f600'"),
    _case("string not UTF-8", "string", "'a'", "X'61ff'", "'\ufffd'", "X'fe'", "X'ff'"),
    _case("binary", "binary", "X''", "X'00'", "X'0000'", "X'61'", "X'ff'", "X'ff00'"),
    _case("date", "date", "DATE'1000-01-01'", "DATE'1582-10-04'", "DATE'1970-01-01'", "DATE'9999-12-31'"),
    _case("far date", "date", "DATE'-0044-03-15'", "DATE'0001-01-01'", "DATE'9999-12-31'", "DATE'+10000-01-01'"),
    _case("timestamp", "timestamp", "TIMESTAMP'1000-01-01 00:00:00.000001Z'", _LATE, _LATER),
    _case(
        "far timestamp",
        "timestamp",
        "TIMESTAMP'-0044-03-15 00:00:00.000001Z'",
        "TIMESTAMP'0001-01-01 00:00:00.000001Z'",
        "TIMESTAMP'+10000-01-01 00:00:00.000001Z'",
    ),
    _case(
        "timestamp_ntz",
        "timestamp_ntz",
        "TIMESTAMP_NTZ'1582-10-04 00:00:00.000001'",
        "TIMESTAMP_NTZ'1969-12-31 23:59:59.999999'",
        "TIMESTAMP_NTZ'1970-01-01 00:00:00'",
    ),
    _case(
        "far timestamp_ntz",
        "timestamp_ntz",
        "TIMESTAMP_NTZ'-0044-03-15 00:00:00.000001'",
        "TIMESTAMP_NTZ'0001-01-01 00:00:00.000001'",
        "TIMESTAMP_NTZ'+10000-01-01 00:00:00.000001'",
    ),
)  # fmt: skip

NESTED = (
    _case("struct", "struct<x: int, y: string>", "struct(NULL, 'a')", "struct(1, NULL)", "struct(1, 'a')"),
    _case("struct of double", "struct<x: double>", "struct(NULL)", ("struct(0.0D)", "struct(-0.0D)"), "struct(1)"),
    _case(
        "struct of time",
        "struct<x: struct<y: timestamp>>",
        f"struct(struct({_LATE}))",
        f"struct(struct({_LATER}))",
    ),
    _case(
        "array", "array<int>", "array()", "array(NULL)", "array(NULL, 1)", "array(1)", "array(1, NULL)", "array(1, 2)"
    ),
    _value("array of arrays", "array<array<int>>", "array(array(), array(1, 2))", "array(array(1), array(2))",
           "array(array(1, 2))"),
    _value("array of double", "array<double>", ("array(0.0D)", "array(-0.0D)"), "array(0.1D)", "array('NaN')"),
    _value("array of structs", "array<struct<x: int, y: string>>", "array(struct(1, NULL))", "array(struct(1, 'a'))",
           "array(struct(1, 'a'), NULL)", "array(struct(1, 'a'), struct(NULL, NULL))"),
)  # fmt: skip

MAPS = (
    _value("map", "map<string, int>", "map()", ("map('a', 1, 'b', 2)", "map('b', 2, 'a', 1)"), "map('a', 2, 'b', 1)",
           "map('a', NULL)", "map('a', 1)", "map('1', 1)"),
    _value("map of timestamp", "map<string, timestamp>", f"map('a', {_LATE})", f"map('a', {_LATER})"),
    _value("map by timestamp", "map<timestamp, int>", f"map({_LATE}, 1)", f"map({_LATER}, 1)"),
    _value("map of timestamp_ntz", "map<string, timestamp_ntz>", "map('a', TIMESTAMP_NTZ'1970-01-01 00:00:00.000001')",
           "map('a', TIMESTAMP_NTZ'1970-01-01 00:00:00.000002')"),
    _value("map by binary", "map<binary, int>", "map(X'00', 1)", "map(X'ff', 1)",
           ("map(X'00', 1, X'ff', 2)", "map(X'ff', 2, X'00', 1)")),
    _value("map of binary", "map<string, binary>", "map('a', X'61ff')", "map('a', X'61fe')", "map('a', NULL)"),
    _value("map by double", "map<double, double>", ("map(0.0D, 1)", "map(-0.0D, 1)"), "map('NaN', 'NaN')",
           "map('NaN', 0)", "map(1, 0)"),
    _value("map by string not UTF-8", "map<string, string>", "map(CAST(X'ff' AS STRING), 'a')",
           "map(CAST(X'fe' AS STRING), 'a')", "map('\ufffd', 'a')", "map('a', CAST(X'ff' AS STRING))"),
    _value("map by decimal", "map<decimal(38,18), decimal(38,18)>", "map(1, 1.000000000000000001BD)",
           "map(1, 1.000000000000000002BD)", "map(1.000000000000000001BD, 1)"),
    _value("map by struct", "map<struct<x: int, y: date>, array<int>>", "map(struct(1, DATE'-0044-03-15'), array(1))",
           "map(struct(1, NULL), array(1))", "map(struct(1, NULL), array(1, NULL))"),
    _value("map of maps", "map<int, map<int, timestamp>>",
           (f"map(1, map(1, {_LATE}, 2, NULL), 2, map())", f"map(2, map(), 1, map(2, NULL, 1, {_LATE}))"),
           f"map(1, map(1, {_LATER}, 2, NULL), 2, map())", f"map(1, map(), 2, map(1, {_LATE}, 2, NULL))"),
    _value("array of maps", "array<map<string, timestamp>>", f"array(map('a', {_LATE}), NULL)",
           f"array(map('a', {_LATER}), NULL)", f"array(NULL, map('a', {_LATE}))"),
    _value("struct of map", "struct<x: int, m: map<string, timestamp>>", f"struct(1, map('a', {_LATE}))",
           f"struct(1, map('a', {_LATER}))", "struct(1, NULL)", f"struct(NULL, map('a', {_LATE}))"),
)  # fmt: skip

_MIXED = "(DATE'2024-01-01')::VARIANT"
_TEXT = "('2024-01-01')::VARIANT"

VARIANTS = (
    _value("variant", "variant", "parse_json('null')", "parse_json('1')", "parse_json('\"1\"')", "parse_json('1.5')",
           "parse_json('[1, null]')", "parse_json('[null, 1]')", "parse_json('{}')", "parse_json('{\"a\": null}')",
           ("parse_json('{\"a\": 1, \"b\": {\"y\": [1, {\"q\": 1, \"p\": 2}], \"x\": 2}}')",
            "parse_json('{\"b\": {\"x\": 2, \"y\": [1, {\"p\": 2, \"q\": 1}]}, \"a\": 1}')"),
           "parse_json('{\"a\": 1, \"b\": {\"y\": [1, {\"q\": 2, \"p\": 1}], \"x\": 2}}')"),
    _value("variant of other types", "variant", f"({_LATE})::VARIANT", f"({_LATER})::VARIANT", _MIXED, _TEXT,
           "(X'61ff')::VARIANT", "(X'61fe')::VARIANT", "DOUBLE('NaN')::VARIANT", "('NaN')::VARIANT",
           f"CAST(array({_MIXED}, {_TEXT}) AS VARIANT)", f"CAST(array({_TEXT}, {_MIXED}) AS VARIANT)"),
    _value("map of variant", "map<string, variant>", "map('a', parse_json('{\"x\": 1}'))",
           "map('a', parse_json('{\"x\": 2}'))", "map('a', NULL)", "map('a', parse_json('null'))"),
    _value("struct of variant", "struct<v: variant>", "struct(parse_json('1'))", "struct(parse_json('2'))"),
    _value("array of variant", "array<variant>", "array(parse_json('1'), NULL)", "array(NULL, parse_json('1'))",
           "array(parse_json('{\"a\": 1}'))"),
)  # fmt: skip

CASES = (*FLAT, *NESTED, *MAPS, *VARIANTS)
"""All types that a column may have."""

ORDERED = (*FLAT, *NESTED)
"""All types whose values Spark orders."""

KEY_CASES = tuple(case for case in CASES if case.is_key)
"""All types that a key may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelling:
    """A way to write a value.

    Args:
        number: among the spellings of all cases.
        value: the case and the number of the value in it.
        sql: the typed expression.
    """

    number: int
    value: tuple[str, int]
    sql: str


@cache
def spellings() -> tuple[Spelling, ...]:
    """The spellings of the values of all cases."""
    told = [
        ((case.name, number), case.typed(sql))
        for case in CASES
        for number, value in enumerate(case.values)
        for sql in value
    ]
    return tuple(Spelling(number=number, value=value, sql=sql) for number, (value, sql) in enumerate(told))


def spellings_of(case: TypeCase) -> list[Spelling]:
    """The spellings of the values of one case, in order of its values."""
    return [spelling for spelling in spellings() if spelling.value[0] == case.name]


def spelled(number: str, chosen: Iterable[Spelling], data_type: str) -> str:
    """Return the SQL of the value in the spelling with the SQL `number`; NULL if it is not a chosen one."""
    branches = " ".join(f"WHEN {each.number} THEN {each.sql}" for each in chosen)
    return f"CASE {number} {branches} ELSE CAST(NULL AS {data_type}) END"


def text_of(value: str, data_type: DataType) -> str:
    """The SQL of an exact text of a value: different values have different texts, and NULL has one too."""
    if isinstance(data_type, StructType):
        fields = [text_of(f"{value}.`{field.name}`", field.dataType) for field in data_type.fields]
        # The text of a field is never null.
        return f"CASE WHEN {value} IS NULL THEN 'NULL' ELSE concat('(', concat_ws(',', {', '.join(fields)}), ')') END"
    if isinstance(data_type, ArrayType):
        made = f"concat('[', array_join(transform({value}, e -> {text_of('e', data_type.elementType)}), ','), ']')"
    elif isinstance(data_type, MapType):
        entry = f"concat({text_of('e.key', data_type.keyType)}, ':', {text_of('e.value', data_type.valueType)})"
        made = f"concat('{{', array_join(array_sort(transform(map_entries({value}), e -> {entry})), ','), '}}')"
    elif isinstance(data_type, VariantType):
        first = f"schema_of_variant(try_variant_get({value}, '$[0]', 'variant'))"
        made = f"concat_ws(' ', to_json({value}), schema_of_variant({value}), {first})"
        return f"CASE WHEN {value} IS NULL THEN 'NULL' ELSE {made} END"
    elif isinstance(data_type, StringType | BinaryType):
        made = f"hex({value})"
    else:
        made = f"CAST({value} AS STRING)"
    return f"coalesce({made}, 'NULL')"
