"""Tables of text stay aligned for any contents."""

from __future__ import annotations

import click

from framework.diagrams.text_table import Coloured, text_table


def plain(text: str) -> list[str]:
    """The lines of a table without colours."""
    return click.unstyle(text).splitlines()


def test_numbers_stand_to_the_right_and_texts_to_the_left() -> None:
    """A column of numbers and nulls is aligned at its right."""
    table = text_table(("name", "count", "share"), [("a", 5, 0.25), ("bcd", None, 1234567.8), ("e", 120, 2.0)])
    assert plain(table) == [
        "name  count        share",
        "────  ─────  ───────────",
        "a         5         0.25",
        "bcd    null  1.23457e+06",
        "e       120            2",
    ]


def test_wide_letters_keep_the_columns_aligned() -> None:
    """Wide letters count as two columns, combining ones as none."""
    assert plain(text_table(("city", "n"), [("東京", "x"), ("e\u0301t\u00e9", "y")])) == [
        "city  n",
        "────  ─",
        "東京  x",
        "e\u0301t\u00e9   y",
    ]


def test_data_can_not_steer_the_terminal() -> None:
    """Line ends and escape sequences in data are displayed as escapes."""
    assert plain(text_table(("a",), [("x\x1b[2Jy\nz",)]))[2] == "x\\x1b[2Jy\\nz"


def test_long_cells_are_cut_where_a_limit_is_set() -> None:
    """The limit counts the ellipsis."""
    assert plain(text_table(("a",), [("abcdefgh",)], widest=5))[2] == "abcd…"
    assert plain(text_table(("a",), [("abcde",)], widest=5))[2] == "abcde"


def test_a_coloured_cell_has_the_width_of_its_text() -> None:
    """Colours do not count as letters."""
    rows = [(Coloured(text="ok", colour="green"), "x"), (Coloured(text="failed"), "y")]
    assert plain(text_table(("state", "z"), rows)) == ["state   z", "──────  ─", "ok      x", "failed  y"]
    assert click.style("ok    ", fg="green") in text_table(("state", "z"), rows)
