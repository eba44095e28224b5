"""Text tables."""

from __future__ import annotations

import pytest

from framework.foundation.errors import UserError
from framework.sandbox.values.text_tables import TextCell, parse_text_table


def cells(text: str) -> tuple[tuple[str, ...], list[tuple[str | None, ...]]]:
    """The columns and the rows of a text table."""
    columns, rows = parse_text_table(text)
    return columns, [row.cells for row in rows]


def test_a_text_table_has_one_row_a_line() -> None:
    """Comments and blank lines are skipped; a blank cell and NULL are NULL."""
    text = """
        id | customer | amount
        # the first ones
        1  | Ada      | 120
           | Grace    | 500        # no id | dropped

        3  | NULL     |
    """
    expected = [("1", "Ada", "120"), (None, "Grace", "500"), ("3", None, None)]
    assert (("id", "customer", "amount"), expected) == cells(text)


def test_a_text_in_quotes_is_kept_as_it_is() -> None:
    """It may have separators, comments, quotes and the word NULL, and it is a text in every column."""
    _, rows = cells("""a | b
        'x | y # z' | "it's"   # a comment
        'it''s "x"' | C#
        'NULL'      | ''
        ' 1 '       | 1
    """)
    expected = [("x | y # z", "it's"), ('it\'s "x"', "C#"), ("NULL", ""), (" 1 ", "1")]
    assert expected == rows
    assert [(str, str), (str, TextCell), (str, str), (str, TextCell)] == [tuple(map(type, row)) for row in rows]


def test_only_a_line_break_ends_a_line() -> None:
    """Other separators of Unicode are signs of a text."""
    _, rows = cells("a | b\nx\u2028y | \u0085z\x0cz")
    assert [("x\u2028y", "z\x0cz")] == rows


@pytest.mark.parametrize(
    "text",
    [
        "+---+-----+\n| id| name|\n+---+-----+\n|  1|  Ada|\n|   | NULL|\n+---+-----+",
        "| id | name |\n|----|:-----|\n| 1 | Ada | # the first\n| | NULL |",
    ],
)
def test_what_spark_shows_and_markdown_are_text_tables(text: str) -> None:
    """Lines may begin and end with the separator if the header does, and lines of dashes are skipped."""
    assert (("id", "name"), [("1", "Ada"), (None, None)]) == cells(text)


def test_a_header_without_rows_is_an_empty_table() -> None:
    """The columns are known, and there is no row."""
    assert (("id", "name"), []) == cells("id | name")


@pytest.mark.parametrize(
    ("text", "place", "cause"),
    [
        (" \n# nothing", "Line 1", "it has no header."),
        ("a |\n1 | 2", "Line 1", "a column has no name."),
        ("a | b\n\n1", "Line 3", "it has 1 cell, the header has 2."),
        ("a\n1 | 2", "Line 2", "it has 2 cells, the header has 1."),
        ("a\n'b", "Line 2", "the quotes of 'b do not end with the cell."),
        ("a\n'b' c", "Line 2", "the quotes of 'b' c do not end with the cell."),
    ],
)
def test_a_text_that_is_no_table_is_an_error_with_its_line(text: str, place: str, cause: str) -> None:
    """Line and cause are in the error."""
    with pytest.raises(UserError) as caught:
        parse_text_table(text)
    assert ("TEST_ROW_TEXT_INVALID", place, cause) == (caught.value.condition, *caught.value.fields.values())
