"""Inserts that are read by column make the rows that they make one by one."""

from __future__ import annotations

from struct import pack
from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.foundation.errors import InternalError, SourceError
from framework.sources.databases.postgres.log.changes import ChangeEncoder, Fragment
from framework.sources.databases.postgres.log.pgoutput import Relation, RelationColumn, read_columns
from framework.sources.databases.postgres.values.json_values import date_fragment, number_fragment, text_fragment
from framework.sources.databases.streams.change_rows import ChangeBuffer
from framework.sources.databases.tables import TableName

OID = 4711
TABLE = TableName(schema="public", table="t")
COLUMNS = (
    RelationColumn("id", 20, -1, is_key=True),
    RelationColumn('100% "of" it', 25, -1, is_key=False),
    RelationColumn("day", 1082, -1, is_key=False),
)

Values = tuple[str | bytes | None, ...]


def fragments(table: TableName, column: RelationColumn) -> Fragment:
    """The encoder of a number, a text or a date."""

    def fail(text: str) -> NoReturn:
        raise SourceError("DATABASE_VALUE_NOT_REPRESENTABLE", table=table, column="day", type="date", value=text)

    return {20: number_fragment, 25: text_fragment, 1082: date_fragment}[column.type_oid](fail)


def message(values: Values) -> bytes:
    """An Insert without the header of CopyData."""
    row = b"".join(
        b"n" if value is None else b"t" + pack(">I", len(octets)) + octets
        for value in values
        for octets in [value.encode() if isinstance(value, str) else value or b""]
    )
    return b"I" + pack(">I", OID) + b"N" + pack(">H", len(values)) + row


def rows_of(messages: list[bytes], *, one_by_one: bool) -> tuple[list[str], list[str | None]]:
    """Operations and payloads."""
    buffer = ChangeBuffer()
    encoder = ChangeEncoder(fragments, {}, buffer, keeps_unreadable=True)
    encoder.relate(Relation(OID, TABLE, "d", COLUMNS))
    if one_by_one:
        for each in messages:
            encoder.insert(each, 1)
    else:
        encoder.inserts(messages, 1)
    return [encoder.kinds[kind].operation for kind in buffer.kinds], buffer.payloads


IDS = st.integers(-(2**63), 2**63 - 1).map(str)
TEXTS = st.none() | st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=300)
DAYS = st.none() | st.dates().map(str)


@given(st.lists(st.tuples(IDS, TEXTS, DAYS), min_size=16, max_size=40))
def test_many_inserts_make_the_rows_of_each_alone(rows: list[Values]) -> None:
    """Any texts, with NULLs in any place."""
    messages = [message(row) for row in rows]
    alone = rows_of(messages, one_by_one=True)
    assert alone == rows_of(messages, one_by_one=False)
    assert alone[0] == ["INSERT"] * len(rows)


@pytest.mark.parametrize("bad", [("7", b"\xff", None), ("7", "x", "infinity")])
def test_a_row_that_cannot_be_read_is_unreadable_alone(bad: Values) -> None:
    """The rows before and after it are kept."""
    rows: list[Values] = [(str(number), "text", None) for number in range(30)]
    rows[7] = bad
    operations, payloads = rows_of([message(row) for row in rows], one_by_one=False)
    assert [number for number, operation in enumerate(operations) if operation != "INSERT"] == [7]
    assert operations[7] == "UNREADABLE"
    assert payloads[8] == r'{"id":8,"100% \"of\" it":"text","day":null}'


def test_rows_of_another_shape_are_an_error() -> None:
    """A message that goes on after its row is not cut off silently."""
    messages = [message(("1", "a", None))] * 20 + [message(("1", "a", None)) + b"x"]
    with pytest.raises(InternalError, match="POSTGRES_LOG_MESSAGE_UNKNOWN"):
        read_columns(messages, 6)
