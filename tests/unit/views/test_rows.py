"""Rows of data as text and as JSON."""

from __future__ import annotations

from datetime import UTC, date, datetime

from framework.views.rows import RowsView, value_text
from framework.views.table import Tone


def test_values_have_one_text_everywhere() -> None:
    """Floats have six digits but no exponent that can be avoided; nested values are JSON; data has no control codes."""
    texts = {
        "1.23457": 1.234567891,
        "12345678.9": 12345678.9,
        "1e-09": 1e-9,
        "nan": float("nan"),
        "true": True,
        "2013-01-02 03:04:05": datetime(2013, 1, 2, 3, 4, 5),  # noqa: DTZ001 - TIMESTAMP_NTZ
        "2013-01-02": date(2013, 1, 2),
        '{"a": [1, null]}': {"a": [1, None]},
        '"AP8="': b"\x00\xff",
        "x\\x1b[2Jy\\nz": "x\x1b[2Jy\nz",
        "東京": "東京",
    }
    assert [value_text(value) for value in texts.values()] == list(texts)


def test_numbers_are_aligned_to_the_right_and_nulls_are_quiet() -> None:
    """A column of numbers and nulls is numeric; one with a bool or a text is not."""
    table = RowsView.of(("n", "t", "b"), [(1, "x", True), (None, None, None)]).table()
    assert [column.right for column in table.columns] == [True, False, False]
    assert [(cell.text, cell.tone) for cell in table.rows[1]] == [("null", Tone.QUIET)] * 3


def test_json_has_one_object_a_row_with_values_that_json_knows() -> None:
    """Times are ISO 8601, bytes base 64, and of two columns with one name the last one is kept."""
    rows = RowsView.of(("a", "a", "t"), [(1, float("inf"), datetime(2013, 1, 2, tzinfo=UTC))])
    assert rows.to_json() == [{"a": "inf", "t": "2013-01-02T00:00:00+00:00"}]
