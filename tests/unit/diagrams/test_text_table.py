"""Tables as text are aligned for all contents."""

from __future__ import annotations

import click

from framework.diagrams.text import table_text
from framework.views.rows import RowsView
from framework.views.table import Cell, Column, Table, Tone

EVENTS = Table.of(
    (Column(name="time", wraps=False), "message", Column(name="rows", right=True)),
    [
        ("2026-01-01 00:00:00", "Flow main.shop.load is degraded. It starts again in 4 s.", "1,204 upserted"),
        ("2026-01-01 00:00:04", "The update is RUNNING.", ""),
    ],
)


def test_numbers_are_at_the_right_and_texts_at_the_left() -> None:
    """A column of numbers and nulls is aligned at its right."""
    rows = RowsView.of(("name", "count", "share"), [("a", 5, 0.25), ("bcd", None, 1234567.8), ("e", 120, 2.0)])
    assert table_text(rows.table()).splitlines() == [
        "name  count      share",
        "────  ─────  ─────────",
        "a         5       0.25",
        "bcd    null  1234567.8",
        "e       120          2",
    ]


def test_wide_letters_keep_the_columns_aligned() -> None:
    """Letters that take two columns of a terminal count as two, combining ones as none."""
    assert table_text(Table.of(("city", "n"), [("東京", "x"), ("e\u0301t\u00e9", "y")])).splitlines() == [
        "city  n",
        "────  ─",
        "東京  x",
        "e\u0301t\u00e9   y",
    ]


def test_long_cells_are_cut_where_a_limit_is_set() -> None:
    """The limit counts the ellipsis."""
    assert table_text(Table.of(("a",), [("abcdefgh",)]), longest=5).splitlines()[2] == "abcd…"
    assert table_text(Table.of(("a",), [("abcde",)]), longest=5).splitlines()[2] == "abcde"


def test_control_characters_are_escaped_in_every_cell_and_name() -> None:
    """A text can neither break a line nor control a terminal; a limit counts the escapes."""
    assert table_text(Table.of(("a\x1b[2J", "b"), [("x\ny", "\x1b[2J")])).splitlines()[::2] == [
        "a\\x1b[2J  b",
        "x\\ny      \\x1b[2J",
    ]
    assert table_text(Table.of(("a",), [("\x1b[2J",)]), longest=5).splitlines()[2] == "\\x1b…"


def test_texts_wrap_between_words_to_the_width_of_the_terminal() -> None:
    """Columns that wrap become narrower; times and numbers keep their line."""
    assert table_text(EVENTS, width=60).splitlines() == [
        "time                 message                            rows",
        "───────────────────  ───────────────────────  ──────────────",
        "2026-01-01 00:00:00  Flow main.shop.load is   1,204 upserted",
        "                     degraded. It starts",
        "                     again in 4 s.",
        "2026-01-01 00:00:04  The update is RUNNING.",
    ]


def test_a_table_is_never_narrower_than_its_longest_words() -> None:
    """No word, number or time is divided."""
    lines = table_text(EVENTS, width=20).splitlines()
    assert max(map(len, lines)) == len("2026-01-01 00:00:00  main.shop.load  1,204 upserted")
    assert len(table_text(EVENTS).splitlines()) == 4


def test_heads_are_optional_and_lines_can_be_indented() -> None:
    """A plan has neither heads nor a rule."""
    assert table_text(Table.of(("a", "b"), [("run", "x")]), heads=False, indent=2) == "  run  x"
    assert table_text(Table.of(("id",), [])) == "id\n──"


def test_a_coloured_cell_has_the_width_of_its_text() -> None:
    """Colours do not count as letters, and are only emitted where they are wanted."""
    table = Table.of(("state", "z"), [(Cell(text="ok", tone=Tone.GOOD), "x"), ("failed", "y")])
    plain = ["state   z", "──────  ─", "ok      x", "failed  y"]
    coloured = table_text(table, colours=True)
    assert (table_text(table).splitlines(), click.unstyle(coloured).splitlines()) == (plain, plain)
    assert click.style("ok    ", fg="green") in coloured
