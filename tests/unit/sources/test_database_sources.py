"""Names of database sources in manifests, plans and diagrams."""

from __future__ import annotations

from pathlib import Path

from framework.checkpoints.generations import GenerationStore
from framework.foundation.local_storage import LocalStorage
from framework.foundation.names import QualifiedName
from framework.sources.kinds import recognized
from framework.sources.port import StreamingRelation

FLOW = QualifiedName(catalog="main", schema="shop", table="bank_changes")


def changes(tables: str, slot: str = "s") -> str:
    """Return the name of a stream of changes."""
    options = {"connection": "bank", "slot": slot, "tables": tables}
    return str(recognized(StreamingRelation(format="postgres_changes", options=options)))


def test_changes_have_the_name_of_their_slot(tmp_path: Path) -> None:
    """A table that joins adds no name to the manifest, and names that an earlier release wrote are no other places."""
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
