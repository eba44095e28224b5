"""Rows that tests give and expect."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql.types import Row

from framework.foundation.errors import UserError
from framework.sandbox.rows import Rows
from framework.sandbox.values.misfits import Misfit
from tests.support.spark_types import schema

PEOPLE = schema("id: int, name: string, since: date")
ADA = (1, "Ada", date(2026, 1, 31))


@dataclass
class Person:
    """A row as a dataclass."""

    id: int
    name: str
    since: date


@pytest.mark.parametrize(
    "value",
    [
        [ADA],
        [list(ADA)],
        iter([ADA]),
        [{"id": 1, "name": "Ada", "since": "2026-01-31"}],
        [{"NAME": "Ada", "Id": 1, "since": ADA[2]}],
        [Row(since=ADA[2], name="Ada", id=1)],
        [Person(*ADA)],
        "id | name | since\n1 | Ada | 2026-01-31",
        pd.DataFrame({"name": ["Ada"], "id": [1], "since": [pd.Timestamp("2026-01-31")]}),
        Rows.of([ADA]),
    ],
)
def test_rows_in_any_spelling_are_the_same_rows(value: object) -> None:
    """Tuples are by position, all others by name, whatever its case."""
    assert [ADA] == Rows.of(value).typed(PEOPLE)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rows.csv", 'id,name,since\n1,"Ada",2026-01-31\n,,\n'),
        ("rows.tsv", "id\tname\tsince\n1\tAda\t2026-01-31\n\t\t\n"),
        ("rows.json", '[{"id": 1, "name": "Ada", "since": "2026-01-31"}, {}]'),
        ("rows.jsonl", '{"id": 1, "name": "Ada", "since": "2026-01-31"}\n\n{"id": null}\n'),
    ],
)
def test_rows_of_files_are_rows(tmp_path: Path, name: str, text: str) -> None:
    """CSV has a header, and blank cells are NULL; JSON has objects, in an array or one a line."""
    path = tmp_path / name
    path.write_text(text, "utf-8")
    assert [ADA, (None, None, None)] == Rows.of(path).typed(PEOPLE)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rows.csv", 'id,name\r\n1,x\u2028y\r\n2,"x\r\ny"\r\n'),
        ("rows.jsonl", '{"id": 1, "name": "x\u2028y"}\n{"id": 2, "name": "x\\r\\ny"}'),
    ],
)
def test_rows_of_files_keep_the_line_breaks_of_texts(tmp_path: Path, name: str, text: str) -> None:
    """Only a line break outside of quotes ends a row; other separators of Unicode are signs of a text."""
    path = tmp_path / name
    path.write_bytes(text.encode())
    assert [(1, "x\u2028y"), (2, "x\r\ny")] == Rows.of(path).typed(schema("id: int, name: string"))


def test_a_missing_column_is_null() -> None:
    """In dicts, text tables and mixed rows, which then have the named columns by position."""
    rows = Rows.of([{"name": "Ada"}, {"id": 2}], columns=["id"])
    assert [(None, "Ada", None), (2, None, None)] == rows.typed(PEOPLE)
    assert [(3, None, None)] == Rows.of("id\n3").typed(PEOPLE)
    assert [(4, None, None), (None, "Grace", None)] == Rows.of([(4,), {"name": "Grace"}], columns=["id"]).typed(PEOPLE)


def test_a_plain_value_is_a_row_with_one_column() -> None:
    """As are lines of a text file."""
    assert [("a",), (None,)] == Rows.of(["a", None]).typed(schema("line: string"))


def test_missing_values_of_pandas_are_null() -> None:
    """Whole numbers that pandas has as floats because of them are whole numbers."""
    frame = pd.DataFrame({"id": [1, None], "name": [None, "x"], "since": [pd.NaT, pd.Timestamp("2026-01-31")]})
    assert [(1, None, None), (None, "x", ADA[2])] == Rows.of(frame).typed(PEOPLE)


@pytest.mark.parametrize(
    ("value", "condition", "fields"),
    [
        ({"id": 1}, "TEST_ROW_NOT_A_ROW", {"value": "{'id': 1}"}),
        (7, "TEST_ROW_NOT_A_ROW", {"value": "7"}),
        (
            [ADA, (1, "x")],
            "TEST_ROW_LENGTH",
            {"place": "Row 2", "count": "2 values", "columns": "are 3 columns: id, name, since"},
        ),
        (
            [{"id": 1}, {"nmae": "x"}],
            "TEST_ROW_COLUMN_UNKNOWN",
            {"place": "Row 2", "column": "nmae", "columns": "id, name, since", "hint": " Did you mean `name`?"},
        ),
        (
            "id | name\n1 | a\nx | b",
            "TEST_ROW_VALUE",
            {
                "place": "Row 2 (line 3)",
                "column": "id",
                "value": "'x'",
                "type": "int",
                "cause": "it is not a whole number.",
            },
        ),
        ([{"ID": 1}, {"id": 2}], "TEST_ROW_COLUMN_TWICE", {"column": "id", "first": "ID", "second": "id"}),
        ("id | id\n1 | 2", "TEST_ROW_COLUMN_TWICE", {"column": "id", "first": "id", "second": "id"}),
        (Path("nowhere.csv"), "TEST_ROW_FILE_NOT_FOUND", {"path": Path("nowhere.csv")}),
        (
            Path("rows.xlsx"),
            "TEST_ROW_FILE_INVALID",
            {"path": Path("rows.xlsx"), "cause": "its name ends with '.xlsx'."},
        ),
    ],
)
def test_rows_that_do_not_fit_are_errors_with_row_and_column(value: object, condition: str, fields: Any) -> None:
    """A mistake in a test is an error, never another row."""
    with pytest.raises(UserError) as caught:
        Rows.of(value).typed(PEOPLE)
    assert (condition, fields) == (caught.value.condition, caught.value.fields)


@pytest.mark.parametrize(
    ("name", "text", "cause"),
    [
        ("a.csv", "", "it has no header."),
        ("a.csv", "a,b\n1\n", "line 2 has 1 cell, the header has 2."),
        ("a.json", "[1]", "it does not have objects only."),
        ("a.jsonl", '{"a": 1}\n{"a"\n', "line 2 is no JSON object."),
    ],
)
def test_a_file_without_rows_is_an_error(tmp_path: Path, name: str, text: str, cause: str) -> None:
    """The cause has the line."""
    (tmp_path / name).write_text(text, "utf-8")
    with pytest.raises(UserError) as caught:
        Rows.of(tmp_path / name)
    assert ("TEST_ROW_FILE_INVALID", cause) == (caught.value.condition, caught.value.fields["cause"])


def test_a_misfit_can_be_kept_for_a_comparison() -> None:
    """It stands in the place of the value, and equals nothing."""
    ((number, name, _),) = Rows.of([("1", 2, None)]).typed(PEOPLE, keep_misfits=True)
    assert ["1", 2] == [each.value for each in (number, name) if isinstance(each, Misfit)]
    assert number != number.__class__(value="1", cause=number.cause)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ("1 2 NULL", "bigint"),
        ("1 2.5", "double"),
        ("1e3", "double"),
        ("NaN", "double"),
        ("9223372036854775808", "string"),
        ("007 1", "string"),
        ("true FALSE", "boolean"),
        ("true 1", "string"),
        ("2026-01-31", "date"),
        ("2026-02-30", "string"),
        ("2026-01-31T12:00:00Z 2026-01-31", "timestamp"),
        ("2026-01-31 1", "string"),
        ("[1,2.5] [] NULL", "array<double>"),
        ('{"a":{"b":true}} {"c":"x"}', "struct<a:struct<b:boolean>,c:string>"),
        ('{"a":1} [1]', "string"),
        ("{a}", "string"),
        ("NULL NULL", "string"),
        ("'1' 2", "string"),
    ],
)
def test_the_type_of_a_column_of_texts_is_inferred_from_all_cells(cells: str, expected: str) -> None:
    """The narrowest type that has all of them, or STRING."""
    rows = Rows.of("c\n" + "\n".join(cells.split()))
    assert expected == rows.inferred()["c"].dataType.simpleString()
    if expected != "string":
        assert len(cells.split()) == len(rows.typed(rows.inferred()))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, None], "bigint"),
        ([1, 2.5], "double"),
        ([2**63], "decimal(19,0)"),
        ([Decimal("1.50"), 3], "decimal(21,2)"),
        ([Decimal("0.001"), Decimal(100)], "decimal(6,3)"),
        ([True], "boolean"),
        (["1", "x"], "string"),
        ([b"x"], "binary"),
        ([date(2026, 1, 31), datetime(2026, 1, 31, 12, tzinfo=UTC)], "timestamp"),
        ([timedelta(1)], "interval day to second"),
        ([{"a": 1}, {"b": [{"c": None}]}], "struct<a:bigint,b:array<struct<c:string>>>"),
        ([[1], [2.5], []], "array<double>"),
        ([[]], "array<string>"),
        ([None], "string"),
    ],
)
def test_the_type_of_a_column_of_python_values_is_inferred_from_all_values(values: Any, expected: str) -> None:
    """Structs have the fields of all values."""
    rows = Rows.of([{"c": value} for value in values])
    assert expected == rows.inferred()["c"].dataType.simpleString()
    assert len(values) == len(rows.typed(rows.inferred()))


def test_python_values_without_a_common_type_are_an_error() -> None:
    """The error names the field and the types."""
    with pytest.raises(UserError) as caught:
        Rows.of([{"c": {"a": 1}}, {"c": {"a": "x"}}]).inferred()
    assert {"column": "c.a", "first": "bigint", "second": "string"} == caught.value.fields


def test_rows_by_position_have_no_types_without_a_schema() -> None:
    """Their columns have no names."""
    with pytest.raises(UserError) as caught:
        Rows.of([(1, 2)]).inferred()
    assert ("TEST_ROW_LENGTH", "2 values") == (caught.value.condition, caught.value.fields["count"])
    assert ["a", "b"] == Rows.of([(1, 2)], columns=["a", "b"]).inferred().fieldNames()
    assert [] == Rows.of([]).inferred().fieldNames()
