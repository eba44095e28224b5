"""Keys of all types that Delta stores, as data: a name, a type, and five values as SQL literals."""

from __future__ import annotations

KEYS_PER_TYPE = 5

LATIN = "CAST(X'{0}' AS STRING)"

KEY_TYPES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("k_boolean", "BOOLEAN", ("true", "false", "true", "false", "true")),
    ("k_tinyint", "TINYINT", ("CAST(-128 AS TINYINT)", "CAST(127 AS TINYINT)", "0Y", "1Y", "2Y")),
    ("k_smallint", "SMALLINT", ("CAST(-32768 AS SMALLINT)", "CAST(32767 AS SMALLINT)", "0S", "1S", "2S")),
    ("k_int", "INT", ("CAST(-2147483648 AS INT)", "2147483647", "0", "1", "2")),
    ("k_bigint", "BIGINT", ("CAST('-9223372036854775808' AS BIGINT)", "9223372036854775807L", "0L", "1L", "2L")),
    ("k_decimal", "DECIMAL(38,10)", (
        "CAST('9999999999999999999999999999.9999999999' AS DECIMAL(38,10))",
        "CAST('-9999999999999999999999999999.9999999999' AS DECIMAL(38,10))",
        "CAST('0.0000000001' AS DECIMAL(38,10))", "CAST('-0.5' AS DECIMAL(38,10))", "CAST('7' AS DECIMAL(38,10))",
    )),
    ("k_wide", "DECIMAL(38,0)", tuple(
        f"CAST('{text}' AS DECIMAL(38,0))" for text in ("9" * 38, "-" + "9" * 38, "0", "1" + "0" * 37, "7")
    )),
    ("k_fraction", "DECIMAL(5,5)", tuple(
        f"CAST('{text}' AS DECIMAL(5,5))" for text in ("0.99999", "-0.99999", "0", "0.00001", "0.5")
    )),
    ("k_float", "FLOAT", ("float('NaN')", "float('-0.0')", "float('Infinity')", "float('-Infinity')", "1.4E-45F")),
    ("k_double", "DOUBLE", ("double('-0.0')", "double('NaN')", "4.9E-324D", "double('Infinity')", "-1.5D")),
    ("k_date", "DATE", (
        "DATE'0001-01-01'", "DATE'+10000-01-01'", "DATE'-0044-03-15'", "DATE'1582-10-10'", "DATE'+294247-01-10'",
    )),
    ("k_timestamp", "TIMESTAMP", (
        "TIMESTAMP'0001-01-01 00:00:00.000001'", "TIMESTAMP'+10000-01-01 00:00:00.123456'",
        "TIMESTAMP'-0044-03-15 12:00:00.000001'", "TIMESTAMP'1582-10-10 10:00:00'", "timestamp_micros(1)",
    )),
    ("k_ntz", "TIMESTAMP_NTZ", (
        "TIMESTAMP_NTZ'0001-01-01 00:00:00.000001'", "TIMESTAMP_NTZ'+10000-01-01 00:00:00.123456'",
        "TIMESTAMP_NTZ'-0044-03-15 12:00:00.000001'", "TIMESTAMP_NTZ'1582-10-10 10:00:00'",
        "TIMESTAMP_NTZ'2026-03-29 02:30:00'",
    )),
    ("k_string", "STRING", (
        LATIN.format("636166E9"), LATIN.format("FF"), "''", LATIN.format("61" * 40 + "F1" + "62" * 40),
        "repeat('日本', 20)",
    )),
    ("k_text", "STRING", (
        LATIN.format("7F7FC3"), "concat(repeat('z', 31), char(127), 'é')", "repeat('\U0001f600', 33)",
        LATIN.format("00"), LATIN.format("63C3A963"),
    )),
    ("k_varchar", "VARCHAR(9)", ("'a '", "'a'", "''", "'é'", "'zz'")),
    ("k_binary", "BINARY", ("X''", "X'00'", "X'FF00E9'", "X'61'", "X'6100'")),
    ("k_struct", "STRUCT<d: DATE, s: STRING, n: DOUBLE>", (
        f"named_struct('d', DATE'0001-01-01', 's', {LATIN.format('E9')}, 'n', double('NaN'))",
        "named_struct('d', DATE'+10000-01-01', 's', '', 'n', double('-0.0'))",
        "named_struct('d', CAST(NULL AS DATE), 's', CAST(NULL AS STRING), 'n', CAST(NULL AS DOUBLE))",
        "named_struct('d', DATE'-0044-03-15', 's', 'é', 'n', 1D)",
        "named_struct('d', DATE'1582-10-10', 's', 'x', 'n', 2D)",
    )),
    ("k_array", "ARRAY<STRING>", (
        f"array({LATIN.format('E9')})", "CAST(array() AS ARRAY<STRING>)", "array(CAST(NULL AS STRING))",
        "array('', '')", "array('é')",
    )),
    ("k_days", "ARRAY<DATE>", (
        "array(DATE'0001-01-01')", "array(DATE'+10000-01-01')", "array(CAST(NULL AS DATE))",
        "array(DATE'1582-10-10')", "CAST(array() AS ARRAY<DATE>)",
    )),
)  # fmt: skip
"""Each n-th value of all types together is a key of a table that has one key column of each type."""


def key_columns(number: int) -> str:
    """The columns of the key with a number, as SQL."""
    return ", ".join(f"CAST({values[number]} AS {data_type}) AS {name}" for name, data_type, values in KEY_TYPES)
