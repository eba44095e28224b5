"""Names of database sources in manifests, plans and diagrams."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.checkpoints.generations import GenerationStore
from framework.foundation.errors import SourceError, UserError
from framework.foundation.files.local_storage import LocalStorage
from framework.foundation.names import QualifiedName
from framework.sources.databases.connections import Connection
from framework.sources.databases.mysql.log.places import LogPlace
from framework.sources.databases.mysql.stored_position import StoredPosition as MysqlPosition
from framework.sources.databases.position import Position, position_of
from framework.sources.databases.schemes import find_dialect
from framework.sources.databases.source import ChangesSource
from framework.sources.kinds import recognized
from framework.sources.port import StreamingRelation
from tests.support.sources import sources

FLOW = QualifiedName(catalog="main", schema="shop", table="bank_changes")


def changes(tables: str, slot: str = "s") -> str:
    """Return the name of a stream of changes."""
    options = {"connection": "bank", "slot": slot, "tables": tables}
    return str(recognized(StreamingRelation(format="postgres_changes", options=options)))


def test_changes_have_the_name_of_their_slot(tmp_path: Path) -> None:
    """A table that joins adds no name to the manifest, and names of single tables are no other places."""
    assert changes("public.a") == changes("public.a,public.b") == "bank: s (database_changes)"
    store = GenerationStore(LocalStorage(str(tmp_path)))
    store.begin(FLOW, FLOW, reason="first run")
    earlier = ("bank: public.a (database_changes)", "bank: public.b (database_changes)")
    present = (changes("public.a,public.c", "s1"), changes("public.b", "s2"))
    store.started(FLOW, FLOW, 1, "id", sources=earlier)
    assert store.manifest(FLOW, FLOW).generations[0].misplaced(present) is None
    for _ in range(2):
        store.started(FLOW, FLOW, 1, "id", sources=present)
    assert store.manifest(FLOW, FLOW).generations[0].sources == tuple(zip(earlier, present, strict=True))


@pytest.mark.parametrize("name", ["postgres_changes", "database_changes"])
def test_both_names_of_a_format_are_one_source(name: str) -> None:
    """A flow keeps its checkpoint when its code takes the other name."""
    options = {"connection": "bank", "slot": "s", "tables": "public.a"}
    assert str(recognized(StreamingRelation(format=name, options=options))) == changes("public.a")


@pytest.mark.parametrize(
    ("offset", "position"),
    [
        (
            '{"version": 1, "slot": "s", "publication": "p", "order": 42, "text": "0/2A", "source": {}}',
            Position(order=42, text="0/2A"),
        ),
        ('{"order": 7, "text": "binlog.000007:4", "log": "x"}', Position(order=7, text="binlog.000007:4", log="x")),
        ('{"order": 7, "text": "7"}', Position(order=7, text="7")),
        ('{"order": "x"}', None),
        ("[]", None),
        ("no JSON", None),
    ],
)
def test_an_offset_has_a_position_whatever_dialect_wrote_it(offset: str, position: Position | None) -> None:
    """Whatever else the dialect keeps in it; a damaged one is named."""
    if position is None:
        with pytest.raises(SourceError, match="DATABASE_POSITION_INVALID"):
            position_of(offset)
        return
    assert position_of(offset) == position
    assert ChangesSource().owns(offset)


def test_a_copy_from_mysql_has_a_position() -> None:
    """So that it can be rewound, and `reconcile` knows what is on its way."""
    stored = MysqlPosition(place=LogPlace("log.000001", 1000), source="a")
    assert position_of(stored.to_json()) == stored.position
    assert ChangesSource().owns(stored.to_json())


def test_a_scheme_has_a_dialect_by_a_line_or_by_an_entry_point() -> None:
    """Another one is refused by its name; nothing is imported for the answer."""
    assert find_dialect("ledger") is not None
    assert find_dialect("mysql") is not None
    assert find_dialect("oracle") is None
    with pytest.raises(UserError, match="oracle is not supported yet"):
        Connection(name="shop", uri="oracle://db/shop")


def test_no_module_imports_a_dialect() -> None:
    """The registry has their places as texts, so that the wall has no gap."""
    folder = "framework/sources/databases/postgres/"
    found = [
        each.path
        for each in sources("framework")
        if not each.path.startswith(folder) and "databases.postgres" in each.text
    ]
    assert found == ["framework/sources/databases/schemes.py"]
