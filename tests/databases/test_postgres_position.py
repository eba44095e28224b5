"""The position at the source is made once, waits for what it may miss, and a gap is always named."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
import threading
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest

from framework.demo.postgres_server import PostgresServer
from framework.foundation.errors import SluiceError, SourceError, UserError
from framework.run.update.fault_classification import can_heal
from framework.sources.databases.connections import Connection
from framework.sources.databases.postgres.log.log_reader import LogReader
from framework.sources.databases.postgres.log.position import (
    PLUGIN,
    StartPosition,
    drop_position,
    ensure_position,
    settled_position,
)
from framework.sources.databases.postgres.log.position_check import StoredPosition, check_position
from framework.sources.databases.postgres.lsn import parse_lsn
from framework.sources.databases.postgres.open_transactions import open_transactions
from framework.sources.databases.postgres.session import Session
from framework.sources.databases.postgres.tables.catalog import SourceIdentity
from framework.sources.databases.source_session import Gap
from framework.sources.databases.streams.spool import Spool
from tests.support.postgres_log import (
    PUBLICATION,
    brief,
    execute,
    name,
    position,
    query,
    reader,
    rows_of,
    session,
    slot_of,
)

_TABLES = ("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)")


def _ensure(uri: str, *tables: str, wait_seconds: float = 10) -> StartPosition:
    opened = session(uri)
    try:
        return ensure_position(
            opened, slot_of(uri), PUBLICATION, [name(table) for table in tables], wait_seconds=wait_seconds
        )
    finally:
        opened.close()


def _check(uri: str, stored: StoredPosition) -> Gap | None:
    opened = session(uri)
    try:
        return check_position(opened, stored)
    finally:
        opened.close()


def _published(uri: str) -> list[str]:
    return [table for (table,) in query(uri, "SELECT tablename FROM pg_publication_tables ORDER BY 1")]


def test_a_position_is_made_once(database: str) -> None:
    """A second call finds the same slot at the same position."""
    execute(database, *_TABLES)
    first = _ensure(database, "a")
    execute(database, "INSERT INTO a VALUES (1)")
    second = _ensure(database, "a")
    assert (True, (name("a"),)) == (first.created, first.added)
    assert dataclasses.replace(first, created=False, added=()) == second
    assert _check(database, first.stored()) is None
    assert ["a"] == _published(database)


def test_two_processes_make_one_position(database: str) -> None:
    """All of them get the same slot, and one of them has made it."""
    execute(database, *_TABLES)
    made: list[StartPosition] = []
    threads = [threading.Thread(target=lambda: made.append(_ensure(database, "a", "b"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 4 == len(made)
    assert 1 == sum(each.created for each in made)
    assert 1 == len({each.lsn for each in made})


def test_a_table_that_is_added_has_its_later_changes_in_the_log(database: str, tmp_path: Path) -> None:
    """Missing tables are added to our publication; changes from then on are delivered."""
    execute(database, *_TABLES)
    first = _ensure(database, "a")
    execute(database, "INSERT INTO b VALUES (1)")
    second = _ensure(database, "a", "b")
    assert (False, (name("b"),)) == (second.created, second.added)
    execute(database, "INSERT INTO b VALUES (2)")
    log = reader(database, first, tmp_path / "spool")
    assert [("public.b", "INSERT", {"id": 2})] == brief(log.read_transactions(first.lsn))
    log.close()
    assert ["a", "b"] == _published(database)


def test_tables_that_inherit_are_published_by_themselves(database: str, tmp_path: Path) -> None:
    """A child that is not copied may have no key, and its rows may change; one that is copied joins in any order."""
    execute(database, _TABLES[0], "CREATE TABLE keyless () INHERITS (a)", "CREATE TABLE child () INHERITS (a)")
    execute(database, "ALTER TABLE child ADD PRIMARY KEY (id)", "INSERT INTO keyless VALUES (1)")
    _ensure(database, "child")
    start = _ensure(database, "a")
    assert ["a", "child"] == _published(database)
    execute(database, "UPDATE a SET id = 2", "INSERT INTO child VALUES (3)", "INSERT INTO a VALUES (4)")
    log = reader(database, start, tmp_path / "spool")
    found = brief(log.read_transactions(start.lsn))
    log.close()
    assert [("public.child", "INSERT", {"id": 3}), ("public.a", "INSERT", {"id": 4})] == found


def test_a_snapshot_waits_for_transactions_that_the_log_may_lack(database: str) -> None:
    """A transaction that wrote to a table before it was published ends before the position is ready."""
    execute(database, *_TABLES)
    _ensure(database, "a")
    writer = psycopg2.connect(database)
    writer.cursor().execute("INSERT INTO b VALUES (1)")
    with pytest.raises(SourceError) as caught:
        _ensure(database, "a", "b", wait_seconds=0.3)
    assert "DATABASE_TRANSACTIONS_OPEN" == caught.value.condition
    assert str(writer.info.backend_pid) in str(caught.value.fields["pids"])
    # The table is in the publication, but the wait is not forgotten.
    with pytest.raises(SourceError):
        _ensure(database, "a", "b", wait_seconds=0.3)
    waiting = threading.Thread(target=_ensure, args=[database, "a", "b"])
    waiting.start()
    waiting.join(0.5)
    assert waiting.is_alive()
    writer.commit()
    waiting.join(10)
    assert not waiting.is_alive()
    writer.close()


def test_the_position_of_a_snapshot_waits_for_each_transaction_that_runs(database: str) -> None:
    """Also for the newest one: none that is newer has ended. A session that only reads can wait, too."""
    execute(database, *_TABLES)
    writer = psycopg2.connect(database)
    writer.cursor().execute("INSERT INTO a VALUES (1)")
    with Session(Connection(name="test", uri=database)) as opened:
        with pytest.raises(SourceError) as caught:
            settled_position(opened, slot_of(database), wait_seconds=0.2)
        assert "DATABASE_TRANSACTIONS_OPEN" == caught.value.condition
        assert str(writer.info.backend_pid) in str(caught.value.fields["pids"])
        writer.commit()
        assert settled_position(opened, slot_of(database), wait_seconds=10) > 0
    writer.close()


def test_a_prepared_transaction_that_is_waited_for_is_named() -> None:
    """It has no process that could be ended: its name is what ends it. The update is not tried again."""
    with PostgresServer({"max_prepared_transactions": "5"}) as server:
        uri = server.uri()
        execute(uri, *_TABLES)
        execute(uri, "BEGIN; INSERT INTO a VALUES (1); PREPARE TRANSACTION 'the night''s'")
        with closing(session(uri)) as opened:
            with pytest.raises(SourceError) as caught:
                settled_position(opened, "s", wait_seconds=0.2)
            assert "DATABASE_TRANSACTIONS_OPEN.PREPARED" == caught.value.condition
            assert "'the night''s' in the database postgres" == caught.value.fields["names"]
            assert not can_heal(caught.value)
            execute(uri, "SELECT pg_sleep(1)")
            (held,) = open_transactions(opened, "s")
            assert str(held).startswith(
                "the prepared transaction 'the night''s' (in the database \"postgres\", since 20"
            )
            assert held.way_out == "ROLLBACK PREPARED 'the night''s', or COMMIT PREPARED, in its database"
            with pytest.raises(SourceError, match="ROLLBACK PREPARED 'the night''s'"):
                ensure_position(opened, "s", "p", (), wait_seconds=0.2)
            execute(uri, str(caught.value.fields["statement"]))
            assert settled_position(opened, "s", wait_seconds=10) > 0


def test_no_change_after_a_crash_is_below_the_position_of_a_snapshot(tmp_path: Path) -> None:
    """What a crash of the server takes from its log is above the position; the next changes are there, too."""
    with PostgresServer({"wal_writer_delay": "10000"}) as server:
        uri = server.uri()
        execute(uri, *_TABLES)
        first = position(uri, "a")
        with closing(psycopg2.connect(uri)) as writer, closing(session(uri)) as opened:
            writer.autocommit = True
            with writer.cursor() as cursor:
                cursor.execute("SET synchronous_commit = off; INSERT INTO b SELECT generate_series(1, 5000)")
            snapshot = settled_position(opened, slot_of(uri))
            server.stop("immediate")
        server.start()
        execute(uri, "INSERT INTO a VALUES (1)")
        with closing(reader(uri, first, tmp_path / "spool")) as log:
            changes = rows_of(log.read_transactions(first.lsn))
    assert [(row["source_table"], row["position"] >= snapshot) for row in changes] == [("public.a", True)]


def test_a_new_slot_waits_for_open_transactions_no_longer_than_allowed(database: str) -> None:
    """A transaction that was open before the slot holds it up; the fault has its process."""
    execute(database, *_TABLES)
    before = _ensure(database, "a").stored()
    execute(database, f"SELECT pg_drop_replication_slot('{slot_of(database)}')", f"DROP PUBLICATION {PUBLICATION}")
    writer = psycopg2.connect(database)
    writer.cursor().execute("INSERT INTO a VALUES (1)")
    with pytest.raises(SourceError) as caught:
        _ensure(database, "a", wait_seconds=0.5)
    assert "DATABASE_TRANSACTIONS_OPEN" == caught.value.condition
    assert [] == query(database, f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{slot_of(database)}'")
    making = threading.Thread(target=_ensure, args=[database, "a"])
    making.start()
    slot = f"SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '{slot_of(database)}'"
    while not query(database, slot):
        making.join(0.01)
        assert making.is_alive()
    # It has no position yet, so a stored one is that of a slot that is gone.
    assert "DATABASE_POSITION_LOST.SLOT_MISSING" == getattr(_check(database, before), "condition", None)
    writer.commit()
    making.join(10)
    assert not _ensure(database, "a").created
    writer.close()


def test_what_is_not_ours_is_not_taken(database: str) -> None:
    """A publication or a slot of another use is refused and left as it is."""
    execute(database, *_TABLES, f"CREATE PUBLICATION {PUBLICATION} FOR TABLE b")
    with pytest.raises(UserError) as caught:
        _ensure(database, "a")
    assert "DATABASE_PUBLICATION_NOT_OURS" == caught.value.condition
    assert ["b"] == _published(database)
    execute(database, f"DROP PUBLICATION {PUBLICATION}")
    execute(database, f"SELECT pg_create_physical_replication_slot('{slot_of(database)}')")
    with pytest.raises(UserError) as caught:
        _ensure(database, "a")
    assert "DATABASE_SLOT_NOT_OURS" == caught.value.condition


def test_a_slot_is_read_by_one_storage(database: str) -> None:
    """One that was moved, or made anew at its root, is the same; a mark that a user made has none."""
    execute(database, "CREATE TABLE t (id int PRIMARY KEY)")
    slot = slot_of(database)
    with closing(session(database)) as opened:

        def ensure(storage: str) -> None:
            ensure_position(opened, slot, "p", [name("t")], reader=storage)

        def drop(storage: str) -> None:
            drop_position(opened, slot, "p", reader=storage)

        ensure("")
        ensure("/data/a#1")
        ensure("")
        for refused in (ensure, drop):
            with pytest.raises(UserError) as caught:
                refused("/data/b#2")
            found = caught.value.condition, caught.value.fields["other"]
            assert found == ("DATABASE_SLOT_OF_OTHER_STORAGE", "/data/a")
        ensure("/moved/a#1")
        with pytest.raises(UserError):
            ensure("/data/a#2")
        ensure("/moved/a#3")
        with pytest.raises(UserError) as caught:
            ensure("/elsewhere#1")
        assert (slot,) in opened.rows("SELECT slot_name FROM pg_replication_slots")
        for statement in str(caught.value.fields["statement"]).split("; "):
            execute(database, statement)
        ensure("/elsewhere#1")
        drop("/elsewhere#1")


def test_a_slot_that_sends_prepared_transactions_is_named_and_can_be_replaced(database: str) -> None:
    """Somebody else made it; they come before their commit, which may be a rollback."""
    execute(
        database, *_TABLES, f"SELECT pg_create_logical_replication_slot('{slot_of(database)}', '{PLUGIN}', false, true)"
    )
    with pytest.raises(SourceError) as caught:
        _ensure(database, "a")
    assert "DATABASE_POSITION_LOST.TWO_PHASE" == caught.value.condition
    with closing(session(database)) as opened:
        drop_position(opened, slot_of(database), PUBLICATION)
    before = _ensure(database, "a").stored()
    execute(
        database,
        f"SELECT pg_drop_replication_slot('{slot_of(database)}')",
        f"SELECT pg_create_logical_replication_slot('{slot_of(database)}', '{PLUGIN}', false, true)",
    )
    end = dataclasses.replace(before, lsn=parse_lsn(query(database, "SELECT pg_current_wal_insert_lsn()::text")[0][0]))
    assert "DATABASE_POSITION_LOST.TWO_PHASE" == getattr(_check(database, end), "condition", None)


def test_names_may_contain_anything(database: str) -> None:
    """Publications and tables with quotes, spaces and percent signs."""
    execute(database, 'CREATE TABLE "a ""%s\' b" (id int PRIMARY KEY)')
    opened = session(database)
    odd = "pub \"'%s"
    first = ensure_position(opened, slot_of(database), odd, [name("a \"%s' b")])
    assert ["a \"%s' b"] == _published(database)
    assert check_position(opened, first.stored()) is None
    drop_position(opened, slot_of(database), odd)
    opened.close()


def test_a_missing_table_is_a_named_fault(database: str) -> None:
    """Nothing is made."""
    with pytest.raises(SourceError) as caught:
        _ensure(database, "absent")
    assert "DATABASE_TABLE_MISSING" == caught.value.condition
    assert [] == query(database, "SELECT 1 FROM pg_publication")


def test_a_slot_without_its_publication_is_a_gap(database: str) -> None:
    """A new publication would hide the changes of before; it is not made."""
    execute(database, *_TABLES)
    first = _ensure(database, "a")
    execute(database, f"DROP PUBLICATION {PUBLICATION}")
    gap = _check(database, first.stored())
    assert gap is not None
    assert "DATABASE_POSITION_LOST.PUBLICATION" == gap.condition == gap.error().condition
    with pytest.raises(SourceError) as caught:
        _ensure(database, "a")
    assert "DATABASE_POSITION_LOST.PUBLICATION" == caught.value.condition


def test_a_missing_or_advanced_slot_is_a_gap(database: str) -> None:
    """Both would lose changes without an error of the server."""
    execute(database, *_TABLES)
    first = _ensure(database, "a")
    execute(
        database,
        "INSERT INTO a VALUES (1)",
        f"SELECT pg_replication_slot_advance('{slot_of(database)}', pg_current_wal_lsn())",
    )
    assert "DATABASE_POSITION_LOST.SLOT_AHEAD" == getattr(_check(database, first.stored()), "condition", None)
    execute(database, f"SELECT pg_drop_replication_slot('{slot_of(database)}')")
    assert "DATABASE_POSITION_LOST.SLOT_MISSING" == getattr(_check(database, first.stored()), "condition", None)
    execute(database, f"SELECT pg_create_physical_replication_slot('{slot_of(database)}')")
    assert "DATABASE_POSITION_LOST.SLOT_REPLACED" == getattr(_check(database, first.stored()), "condition", None)


@pytest.mark.parametrize("field", ["system", "timeline", "database"])
def test_another_source_is_a_gap(database: str, field: str) -> None:
    """Another server, timeline or database under the same address is not read on."""
    execute(database, *_TABLES)
    first = _ensure(database, "a")
    other = 99 if field == "timeline" else "other"
    values = {name: getattr(first.identity, name) for name in ("system", "timeline", "database")}
    identity = SourceIdentity(**{**values, field: other})
    gap = _check(database, dataclasses.replace(first.stored(), identity=identity))
    assert gap is not None
    assert "DATABASE_POSITION_LOST.SOURCE" == gap.condition
    name = "system identifier" if field == "system" else field
    assert (name, other) == (gap.fields["kind"], gap.fields["before"])


def test_a_source_that_was_restored_to_an_older_state_is_a_gap(database: str) -> None:
    """The log ends before the position that was read."""
    execute(database, *_TABLES)
    first = _ensure(database, "a")
    gap = _check(database, first.stored(first.lsn + (1 << 40)))
    assert gap is not None
    assert "DATABASE_POSITION_LOST.LOG_RESET" == gap.condition


def _read_on(uri: str, stored: StoredPosition, spool: Path) -> StoredPosition:
    """The position of a checkpoint after a read that begins at another one."""
    log = LogReader(Connection(name="test", uri=uri), stored, spool=Spool(spool))
    try:
        log.acknowledge(stored.lsn)
        batch = log.read_transactions(stored.lsn)
    finally:
        log.close()
    return StoredPosition.from_json(stored.at(batch.end, batch.seen, batch.last).to_json())


def _confirmed(uri: str) -> str:
    return str(query(uri, "SELECT confirmed_flush_lsn FROM pg_replication_slots")[0][0])


def test_a_source_that_was_restored_and_has_gone_on_is_a_gap(tmp_path: Path) -> None:
    """Also when its log has passed the position; its slot keeps what it has. Before the acknowledgement there is none.

    A copy of the data folder has the identity, the timeline and the slot of its time.
    """

    def read_on(stored: StoredPosition) -> StoredPosition:
        return _read_on(server.uri(), stored, tmp_path / "spool")

    # The log of a large transaction is compared without temporary files of its size.
    with PostgresServer({"temp_file_limit": "1MB", "work_mem": "64kB"}) as server:
        data, backup = server.folder / "data", server.folder / "backup"
        execute(server.uri(), *_TABLES, "INSERT INTO b VALUES (1)")
        first = position(server.uri(), "a")
        execute(server.uri(), "INSERT INTO b VALUES (0)")
        idle = read_on(first.stored())
        assert (idle.last, idle.lsn > first.lsn) == (first.stored().last, True)
        assert read_on(idle) == idle  # nothing was read up to there, and its slot is behind it
        execute(server.uri(), "INSERT INTO a VALUES (1)")
        one = read_on(idle)
        server.stop("fast")
        subprocess.run(["cp", "-a", data, backup], check=True)
        server.start()
        execute(server.uri(), "SELECT pg_switch_wal()", "INSERT INTO a SELECT generate_series(100, 40000)")
        two = read_on(one)
        assert (two.last is not None, two.last != one.last) == (True, True)
        assert read_on(two).last == two.last  # its slot is at the position before
        execute(server.uri(), "INSERT INTO a VALUES (4)")
        three = read_on(two).last
        assert three is not None
        within_next = dataclasses.replace(two, lsn=three.position + 1)  # as at the end of a page of the log
        with closing(LogReader(Connection(name="test", uri=server.uri()), two, spool=Spool(tmp_path / "spool"))) as log:
            assert log._history_gap(within_next) is None
        server.stop()
        shutil.rmtree(data)
        backup.rename(data)
        server.start()
        before = _confirmed(server.uri())
        with pytest.raises(SourceError, match="LOG_RESET"):
            read_on(two)
        execute(
            server.uri(),
            "INSERT INTO a VALUES (3)",
            "SELECT pg_switch_wal()",
            "INSERT INTO b SELECT generate_series(2, 99999)",
        )
        for stored in (two, idle.at(two.lsn, two.seen, None)):
            with pytest.raises(SourceError, match="LOG_REPLACED"):
                read_on(stored)
        assert _confirmed(server.uri()) == before


def test_a_slot_whose_log_was_removed_is_a_gap(tmp_path: Path) -> None:
    """The reader names it too."""
    with PostgresServer({"max_slot_wal_keep_size": "1MB", "min_wal_size": "32MB", "max_wal_size": "32MB"}) as server:
        uri = server.uri()
        execute(uri, *_TABLES)
        first = position(uri, "a")
        for _ in range(4):
            execute(uri, "INSERT INTO a SELECT generate_series(1, 300000)", "TRUNCATE a", "SELECT pg_switch_wal()")
            execute(uri, "CHECKPOINT")
        gap = _check(uri, first.stored())
        assert gap is not None
        assert "DATABASE_POSITION_LOST.SLOT_INVALID" == gap.condition
        log = reader(uri, first, tmp_path / "spool")
        with pytest.raises(SourceError) as caught:
            log.read_transactions(first.lsn)
        assert "DATABASE_POSITION_LOST.SLOT_INVALID" == caught.value.condition


def test_no_slot_left_is_a_named_fault() -> None:
    """The fault has the statement."""
    with PostgresServer({"max_replication_slots": "1"}) as server:
        execute(server.uri(), *_TABLES, "SELECT pg_create_physical_replication_slot('other')")
        with pytest.raises(SourceError) as caught:
            _ensure(server.uri(), "a")
        assert "DATABASE_SLOTS_EXHAUSTED" == caught.value.condition
        assert "max_replication_slots = 2" in str(caught.value)


def test_a_position_is_dropped_as_far_as_it_exists(database: str, tmp_path: Path) -> None:
    """A slot in use is a named fault; a foreign publication stays."""
    execute(database, *_TABLES)
    first = _ensure(database, "a")
    log = reader(database, first, tmp_path / "spool")
    log.read_transactions(first.lsn)
    opened = session(database)
    with pytest.raises(SluiceError) as caught:
        drop_position(opened, slot_of(database), PUBLICATION, wait_seconds=0.2)
    assert "DATABASE_SLOT_IN_USE" == caught.value.condition
    log.close()
    for _ in range(2):
        drop_position(opened, slot_of(database), PUBLICATION)
    assert [] == query(database, "SELECT 1 FROM pg_publication")
    assert [] == query(database, f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{slot_of(database)}'")
    opened.close()
