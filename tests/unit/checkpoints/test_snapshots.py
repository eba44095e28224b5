"""A flow's snapshots are claimed before they are written and marked when they are in."""

from __future__ import annotations

from framework.checkpoints.snapshots import SnapshotMark, SnapshotProgress, SnapshotStore
from framework.foundation.files.storage import Storage


def test_a_claimed_version_keeps_its_number_until_it_is_applied(storage: Storage) -> None:
    """A repeated version has the same transaction number; any other version, and any after it, has another."""
    store = SnapshotStore(storage, storage.path("checkpoints", "d", "f", "1"))
    assert store.read() == SnapshotProgress()
    assert store.read().next_ordinal("v1") == 1
    first = SnapshotMark(ordinal=1, version="v1")
    store.claim(first)
    assert store.read() == SnapshotProgress(claimed=first)
    assert [store.read().next_ordinal(version) for version in ("v1", "v2")] == [1, 2]
    store.apply(first)
    assert store.read() == SnapshotProgress(applied=first, claimed=first)
    assert [store.read().next_ordinal(version) for version in ("v1", "v2")] == [2, 2]
    second = SnapshotMark(ordinal=2, version="v2", source="s")
    store.claim(second)
    assert store.read() == SnapshotProgress(applied=first, claimed=second)
