"""Tables that are copied twice: the names of their copies in states, and the form of their staged changes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from framework.declare.copy_definition import CopyDefinition
from framework.declare.specs import IngestedGateway, IngestedTable, TableConfiguration
from framework.foundation.errors import OperationError
from framework.foundation.files.storage import LocalStorage
from framework.foundation.names import QualifiedName
from framework.ingest.copy_state import new_copy
from framework.ingest.declared import refreshed, staged_for_copies
from framework.ingest.state import GatewayState, GatewayStore
from framework.ingest.tables.relations import log_relations
from framework.ingest.tables.repeated_tables import alike_tables, copy_names
from framework.sources.databases.tables import TableName
from tests.unit.ingest.test_drift import BEFORE
from tests.unit.ingest.test_operations import BANK

ORDERS = TableName(schema="public", table="orders")
ROWS, HISTORY = TableConfiguration(), TableConfiguration(scd_type=2)


def target(name: str) -> QualifiedName:
    """The name of a copy."""
    return QualifiedName(catalog="main", schema="shop", table=name)


def names(*copies: tuple[str, TableConfiguration], **recorded: str) -> Mapping[str, str]:
    """Return the names of copies of a table in states."""
    known = {target(name): key for name, key in recorded.items()}
    found = copy_names([(ORDERS, target(name), each) for name, each in copies], lambda _: known)
    return {each.table: name for (_, each), name in found.items()}


def test_a_copy_keeps_its_name_in_states() -> None:
    """The first new copy has that of the source; order, joins, renames and removals change no name of another copy."""
    own = "main.shop.b"
    assert names(("a", ROWS)) == {"a": ""}
    assert names(("a", ROWS), ("b", HISTORY)) == {"a": "", "b": own}
    assert names(("b", HISTORY), ("a", ROWS), a="") == {"b": own, "a": ""}
    assert names(("b", HISTORY), ("a", ROWS), a="", b=own) == {"b": own, "a": ""}
    assert names(("b", HISTORY), a="", b=own) == {"b": own}
    assert names(("c", ROWS), a="") == {"c": ""}  # another name of the copy
    assert names(("c", ROWS), ("b", HISTORY), a="", b=own) == {"c": "", "b": own}
    # A fault leaves what is recorded, and gives no name that a corrected declaration would not.
    assert names(("a", ROWS), ("b", ROWS)) == {"a": "", "b": ""}
    assert names(("a", ROWS), ("b", ROWS), a="", b=own) == {"a": "", "b": own}


def test_two_copies_differ_in_their_type_and_name_only() -> None:
    """Two of one type, two of one name, three copies, and other text columns are faults."""
    texts = replace(ROWS, text_columns=("at",))
    for copies, is_alike in (
        ([("a", ROWS), ("b", HISTORY)], False),
        ([("a", ROWS)], False),
        ([("a", ROWS), ("b", ROWS)], True),
        ([("a", ROWS), ("a", HISTORY)], True),
        ([("a", ROWS), ("b", HISTORY), ("c", HISTORY)], True),
        ([("a", texts), ("b", HISTORY)], True),
    ):
        found = alike_tables([(ORDERS, target(name), each) for name, each in copies])
        assert found == (frozenset({ORDERS}) if is_alike else frozenset()), copies


def pair(history: CopyDefinition) -> IngestedGateway:
    """The gateway with the rows and a history of the first table."""
    rows = replace(BANK.tables[0], definition=BEFORE, identity="7")
    other = IngestedTable(
        source_schema=rows.source_schema, source_table=rows.source_table, target=target("history"),
        snapshot_flow=target("s"), cdc_flow=target("c"), keys=rows.keys, identity="7", definition=history,
        copy_name="main.shop.history",
    )  # fmt: skip
    return replace(BANK, tables=(rows, other))


def staged(state: GatewayState) -> dict[str, str]:
    """Return the options of the log about how changes are staged."""
    options = log_relations(state, ())
    return {name: options[name] for name in ("textColumns", "historyTables")}


def test_changes_are_staged_in_a_form_that_both_copies_follow() -> None:
    """A history joins as a missed table; where one copy begins with other text columns, the other one is missed."""
    alone = replace(pair(BEFORE), tables=pair(BEFORE).tables[:1])
    state = refreshed(None, alone)
    assert staged(state)["historyTables"] == ""
    history = replace(BEFORE, scd_type=2)
    both = refreshed(state, pair(history))
    assert [each.is_missed for each in both.tables] == [False, True]
    assert [each.is_missed for each in refreshed(None, pair(history)).tables] == [False, False]
    assert staged(both)["historyTables"] == '"public"."orders"'
    texts = replace(history, selection="[[], [], ['b']]")
    rows = both.with_copy(new_copy(both.tables[0].table.target, BEFORE))
    begun = staged_for_copies(rows.with_copy(new_copy(target("history"), texts)))
    assert [each.is_missed for each in begun.tables] == [True, True]
    assert staged(begun) == {"textColumns": '"public"."orders"."b"', "historyTables": '"public"."orders"'}


def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    """With second copies, soft deletes, and what the dialect recorded; another format is refused by its version."""
    storage = LocalStorage(str(tmp_path))
    history = replace(BEFORE, scd_type=2, soft_deletes="gone")
    state = refreshed(None, pair(history)).with_copy(new_copy(target("history"), history))
    known = tuple(replace(each, continuity='{"of": "the dialect"}', named_continuity="more") for each in state.tables)
    store = GatewayStore(storage)
    store.write(replace(state, tables=known))
    read = store.read("bank")
    assert read is not None
    assert [each.table.key for each in read.tables] == ["public.orders", "main.shop.history"]
    assert [each.definition.soft_deletes for each in read.copies] == ["gone"]
    assert [(each.continuity, each.named_continuity) for each in read.tables] == [('{"of": "the dialect"}', "more")] * 2
    path = storage.path("ingest", "bank", "gateway.json")
    value = json.loads(storage.read_text(path) or "")
    storage.write_text(path, json.dumps({**value, "version": 99}))
    with pytest.raises(OperationError, match=r"version.* 99"):
        store.read("bank")
