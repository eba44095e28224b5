"""Partitions that come and go while the chunks of their table are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.foundation.errors import SourceError
from framework.sources.databases.chunks import SnapshotOffset, chunks_between
from framework.sources.databases.formats import snapshot_request
from framework.sources.databases.postgres.tables.continuity import Continuity
from framework.sources.databases.streams.snapshot_stream import ChunkPartition, SnapshotStreamReader
from tests.support.database_snapshots import World

_CREATE = """
    CREATE TABLE t (id INT PRIMARY KEY, label INT) PARTITION BY RANGE (id);
    CREATE TABLE p1 PARTITION OF t FOR VALUES FROM (0) TO (100) PARTITION BY RANGE (id);
    CREATE TABLE p1a PARTITION OF p1 FOR VALUES FROM (0) TO (50);
    CREATE TABLE p1b PARTITION OF p1 FOR VALUES FROM (50) TO (100);
    CREATE TABLE p2 PARTITION OF t FOR VALUES FROM (100) TO (200);
    INSERT INTO t SELECT i, i FROM generate_series(0, 199) i
"""
_DETACH, _ATTACH = "ALTER TABLE t DETACH PARTITION p1", "ALTER TABLE t ATTACH PARTITION p1 FOR VALUES FROM (0) TO (100)"
_OUTER = (
    "CREATE TABLE p4 (id INT PRIMARY KEY, label INT) PARTITION BY RANGE (id)",
    "CREATE TABLE p4a PARTITION OF p4 FOR VALUES FROM (300) TO (350)",
)
_ATTACH_OUTER = "ALTER TABLE t ATTACH PARTITION p4 FOR VALUES FROM (300) TO (400)"
_NEW = "CREATE TABLE p3 (id INT PRIMARY KEY, label INT)"
_ATTACH_NEW = "ALTER TABLE t ATTACH PARTITION p3 FOR VALUES FROM (200) TO (300)"
GONE = "partition with the oid [0-9]+ was detached or dropped"
ATTACHED = "public.{} was attached to it with its rows"
LOST: dict[str, tuple[str, tuple[str, ...]]] = {
    "updated": (GONE, (_DETACH, "UPDATE p1 SET label = 0", _ATTACH)),
    "filled again": (GONE, (_DETACH, "TRUNCATE p1; INSERT INTO p1 VALUES (7, 7)", _ATTACH)),
    "updated in an inner partition": (
        GONE,
        (
            "ALTER TABLE p1 DETACH PARTITION p1b",
            "DELETE FROM p1b",
            "ALTER TABLE p1 ATTACH PARTITION p1b FOR VALUES FROM (50) TO (100)",
        ),
    ),
    "dropped": (GONE, ("DROP TABLE p2",)),
    "attached with rows": (ATTACHED.format("p3"), (_NEW, "INSERT INTO p3 VALUES (250, 1)", _ATTACH_NEW)),
    "attached in its transaction": (
        ATTACHED.format("p3"), (f"{_NEW}; INSERT INTO p3 VALUES (250, 1); {_ATTACH_NEW}",)
    ),
    "attached with a partition": (ATTACHED.format("p4a"), (*_OUTER, "INSERT INTO p4 VALUES (300, 1)", _ATTACH_OUTER)),
}  # fmt: skip
NO_LOSS: dict[str, tuple[str, ...]] = {
    "new": ("CREATE TABLE p3 PARTITION OF t FOR VALUES FROM (200) TO (300)", "INSERT INTO t VALUES (250, 250)"),
    "attached without rows": (_NEW, _ATTACH_NEW, "INSERT INTO t VALUES (250, 250)"),
    "attached with an empty partition": (*_OUTER, _ATTACH_OUTER, "INSERT INTO t VALUES (300, 300)"),
    "rewritten": ("VACUUM FULL p2", "ALTER TABLE p1b RENAME TO other"),
    "granted, and new": ("GRANT SELECT (label) ON t TO public", "CREATE TABLE p3 PARTITION OF t DEFAULT"),
}


@pytest.mark.parametrize("name", LOST)
def test_a_snapshot_ends_if_rows_come_or_go_with_a_partition(database: str, name: str) -> None:
    """The log does not have them: a later chunk would be of other rows than an earlier one, for good.

    By the chunk, the plan of the next one, and the plan of an earlier process; a new plan goes on.
    """
    world = World(database)
    world.run(_CREATE)
    first = world.plan(None, 2)
    earlier, later = chunks_between(None, first)
    assert world.read(first, earlier)
    reason, statements = LOST[name]
    world.run(*statements)
    with pytest.raises(SourceError, match=reason) as reading:
        world.read(first, later)
    with pytest.raises(SourceError, match=reason) as planning:
        world.plan(first)
    with world.walker() as walker, pytest.raises(SourceError, match=reason) as confirming:
        walker.confirm(first)
    conditions = {caught.value.condition for caught in (reading, planning, confirming)}
    assert conditions == {"SNAPSHOT_PLAN_INVALID"}
    offset, chunks = world.plan_all()
    labels = [label for chunk in chunks for label in world.read(offset, chunk)]
    assert sorted(labels) == sorted(label for (label,) in world.rows("SELECT label FROM t"))


@pytest.mark.parametrize("name", NO_LOSS)
def test_a_snapshot_goes_on_with_partitions_that_bring_no_rows(database: str, folder: Path, name: str) -> None:
    """Partitions that are made, attached empty, or rewritten: the log has all of their changes."""
    world = World(database)
    world.run(_CREATE)
    options = {"connection": "bank", "table": "t", "connectionsFolder": str(folder), "chunkBytes": "1k"}
    reader = SnapshotStreamReader(snapshot_request({**options, "maxChunksPerTrigger": "1"}), ("id", "label"))
    with world.walker(least_rows=40) as walker:
        first = walker.plan(None, most_chunks=2)
    earlier, later = chunks_between(None, first)
    labels = world.read(first, earlier)
    world.run(*NO_LOSS[name])
    labels += world.read(first, later)
    last = world.plan(first, least_rows=40)
    world.run("INSERT INTO t VALUES (199, 199) ON CONFLICT DO NOTHING")
    labels += [label for chunk in chunks_between(first, last) for label in world.read(last, chunk)]
    assert sorted(labels) == sorted(label for (label,) in world.rows("SELECT label FROM t"))
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    (part,) = reader.partitions(reader.initialOffset(), end)
    assert isinstance(part, ChunkPartition)
    assert {*links_of(part.plan)} == {*links_of(last)}


def links_of(offset: SnapshotOffset) -> tuple[str, ...]:
    """Return the partitions that a plan was made with."""
    return Continuity.of(offset.basis.continuity).links


def test_a_partition_is_a_new_one_until_the_next_plan(database: str) -> None:
    """Rows that it gets later, and rows of a partition that is attached after it, are distinguished."""
    world = World(database)
    world.run(_CREATE)
    first = world.plan(None, 2)
    world.run(NO_LOSS["new"][0])
    second = world.plan(first, 2)
    assert len(links_of(second)) == len(links_of(first)) + 1
    world.run("ALTER TABLE t DETACH PARTITION p3")
    (chunk, _) = chunks_between(first, second)
    with pytest.raises(SourceError, match=GONE):
        world.read(second, chunk)


def test_a_role_without_rights_on_the_partitions_reads_their_table(database: str) -> None:
    """A new partition is compared through its table."""
    world = World(database)
    world.run(_CREATE)
    role = f"reader_{database.rpartition('/')[2].partition('?')[0]}"
    world.run(f"CREATE ROLE {role} LOGIN; GRANT SELECT ON t TO {role}")
    other = World(database.replace("postgres@", f"{role}@", 1))
    try:
        first = other.plan(None, 2)
        (chunk, _) = chunks_between(None, first)
        world.run(*NO_LOSS["new"])
        before = other.read(first, chunk)
        world.run("CREATE TABLE p5 (id INT PRIMARY KEY, label INT)", "INSERT INTO p5 VALUES (500, 5)")
        world.run("ALTER TABLE t ATTACH PARTITION p5 FOR VALUES FROM (500) TO (600)")
        with pytest.raises(SourceError, match=ATTACHED.format("p5")):
            other.read(first, chunk)
    finally:
        world.run(f"DROP OWNED BY {role}; DROP ROLE {role}")
    assert before == sorted(before)
    assert before[0] == 0
