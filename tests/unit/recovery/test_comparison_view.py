"""The output of a comparison says what was compared, what differs, and whether that is certain."""

from __future__ import annotations

import json
from dataclasses import replace

from framework.recovery.comparison import (
    ColumnFinding,
    ComparedTable,
    Comparison,
    DifferenceKind,
    KeyDifference,
    Totals,
)
from framework.views.comparison import comparison_json, comparison_text, differences_table
from tests.support.fake_pipeline import EQUAL

DIFFERENT = Comparison(
    first=ComparedTable(name="accounts", rows=4, version=7),
    second=ComparedTable(name="postgres:bank/public.accounts", rows=5, position="0/1A2B"),
    keys=("id",),
    columns=("city", "balance"),
    findings=(
        ColumnFinding(name="note", first_type=None, second_type="string"),
        ColumnFinding(name="day", first_type="date", second_type="timestamp"),
    ),
    totals=Totals(only_first=1, only_second=1500, different=1, duplicate=1, columns=(("balance", 1),)),
    differences=(
        KeyDifference(kind=DifferenceKind.ONLY_FIRST, key=(7,), columns=(), first_rows=1, second_rows=0),
        KeyDifference(kind=DifferenceKind.DIFFERENT, key=(None,), columns=("balance",), first_rows=2, second_rows=1),
    ),
    uncertain="The copy is behind.",
)


def test_the_text_has_totals_columns_findings_and_doubt() -> None:
    """Each is one sentence; the number of keys that are not listed is the last one."""
    assert comparison_text(DIFFERENT).splitlines() == [
        f"1,502 keys differ, compared by id: 1 only in accounts, 1,500 only in {DIFFERENT.second.name}, 1 different.",
        "Columns with other values: balance (1).",
        "1 differing key in more than one row.",
        "Column note is only in postgres:bank/public.accounts.",
        "Column day was not compared: its types are date and timestamp.",
        "This is not certain. The copy is behind.",
        "1,500 more are not listed.",
    ]
    assert comparison_text(EQUAL) == "Equal, compared by id."
    rows = replace(EQUAL, keys=(), findings=DIFFERENT.findings[:1])
    assert comparison_text(rows).splitlines()[0] == "The common columns are equal, compared by whole rows."
    assert not rows.is_equal


def test_the_table_has_a_row_for_each_key() -> None:
    """The kind, the key, the columns, and the numbers of rows where a key has several."""
    cells = [[cell.text for cell in row] for row in differences_table(DIFFERENT).rows]
    assert cells == [["only in accounts", "id=7", "", ""], ["different", "id=null", "balance", "2 and 1"]]


def test_json_has_codes_and_keys_by_name() -> None:
    """A program can read the result without the texts."""
    found = json.loads(json.dumps(comparison_json(DIFFERENT)))
    assert (found["equal"], found["totals"]["columns"], found["uncertain"]) == (
        False, {"balance": 1}, "The copy is behind."
    )  # fmt: skip
    assert found["differences"][0] == {
        "kind": "only_first", "key": {"id": 7}, "columns": [], "first_rows": 1, "second_rows": 0
    }  # fmt: skip
