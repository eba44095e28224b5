"""How far a position is behind the log, and when the changes after it are lost: PostgreSQL and SQL Server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from framework.demo.postgres_server import PostgresServer
from framework.sources.databases.connections import Connection
from framework.sources.databases.dialects import open_source
from framework.sources.databases.options import Options
from framework.sources.databases.postgres.log.slot_status import read_log_reach
from framework.sources.databases.postgres.session import Session
from framework.sources.databases.source_session import LogName, LogReach
from tests.support.sqlserver.engine import StandIn, StandInCopy

LOG = LogName(position="copy", tables="copy")
_DAY = 86400.0


def _reach(engine: StandIn, copy: StandInCopy | None) -> LogReach:
    with open_source(Options("test", engine.options).connection()) as source:
        return source.log_reach(None if copy is None else json.dumps(copy.offset), LOG)


def _copy(folder: Path, parameters: str = "") -> StandInCopy:
    engine = StandIn(folder, parameters)
    engine.execute("CREATE TABLE items (id int NOT NULL PRIMARY KEY, n int)", "INSERT INTO items VALUES (1, 1)")
    if parameters:
        engine.database.track("items")
    copy = StandInCopy(engine, ("items",))
    copy.begin()
    return copy


def test_captured_changes_are_lost_when_the_clean_up_job_passes_the_position(tmp_path: Path) -> None:
    """Three days after the commit at the position, by the time of the server; bytes are unknown behind the end."""
    copy = _copy(tmp_path)
    engine = copy.engine
    engine.execute("INSERT INTO items VALUES (2, 2)")
    copy.follow()
    setting = "sp_cdc_change_job @retention"
    assert _reach(engine, copy) == LogReach(
        behind_bytes=0, behind_seconds=0.0, kept_seconds=3 * _DAY, lost_in_seconds=3 * _DAY, setting=setting
    )
    engine.database.wait(60)
    engine.execute("INSERT INTO items VALUES (3, 3)")
    engine.database.wait(60)
    assert _reach(engine, copy) == LogReach(
        behind_seconds=7200.0, kept_seconds=3 * _DAY, lost_in_seconds=3 * _DAY - 7200, setting=setting
    )
    assert _reach(engine, None) == LogReach(kept_seconds=3 * _DAY, setting=setting)


def test_the_retention_of_azure_is_read_from_its_own_table(tmp_path: Path) -> None:
    """It has no msdb; without a right to either, the retention is unknown, not endless."""
    copy = _copy(tmp_path)
    database = copy.engine.database
    database.raw.execute("DROP TABLE msdb.cdc_jobs")
    assert _reach(copy.engine, copy).kept_seconds is None
    database.raw.execute("INSERT INTO cdc.cdc_jobs VALUES ('cleanup', 1440)")
    assert _reach(copy.engine, copy).kept_seconds == _DAY


def test_tracked_changes_are_lost_after_the_retention_of_the_database(tmp_path: Path) -> None:
    """In its unit; without a clean-up they are kept for ever, and the time of a version behind the end is unknown."""
    copy = _copy(tmp_path, "?changes=tracking")
    engine = copy.engine
    assert _reach(engine, copy) == LogReach(
        behind_bytes=0, behind_seconds=0.0, kept_seconds=2 * _DAY, lost_in_seconds=2 * _DAY, setting="CHANGE_RETENTION"
    )
    engine.execute("INSERT INTO items VALUES (2, 2)")
    assert _reach(engine, copy) == LogReach(kept_seconds=2 * _DAY, setting="CHANGE_RETENTION")
    engine.database.raw.execute("UPDATE sys.change_tracking_databases SET is_auto_cleanup_on = 0")
    copy.follow()
    assert _reach(engine, copy) == LogReach(behind_bytes=0, behind_seconds=0.0)


@pytest.fixture
def limit(server: PostgresServer) -> object:
    """Lets a slot keep 64 MB only."""
    with Session(Connection(name="admin", uri=server.uri()), read_only=False) as admin:
        admin.execute("ALTER SYSTEM SET max_slot_wal_keep_size = '64MB'")
        admin.execute("SELECT pg_reload_conf()")
    yield
    with Session(Connection(name="admin", uri=server.uri()), read_only=False) as admin:
        admin.execute("ALTER SYSTEM RESET max_slot_wal_keep_size")
        admin.execute("SELECT pg_reload_conf()")


def test_a_slot_without_a_limit_loses_nothing(database: str) -> None:
    """The log after a position is in bytes; the slot keeps all of it."""
    with Session(Connection(name="bank", uri=database), read_only=False) as session:
        session.execute("SELECT pg_create_logical_replication_slot('reach_a', 'pgoutput')")
        try:
            lsn = session.rows("SELECT (pg_current_wal_lsn() - '0/0')::bigint")[0][0]
            assert read_log_reach(session, "reach_a", int(lsn) + (1 << 40)) == LogReach(
                behind_bytes=0, behind_seconds=0.0
            )
            session.execute("SELECT pg_logical_emit_message(true, 'x', repeat('y', 5000))")
            found = read_log_reach(session, "reach_a", int(lsn))
            assert (5000 <= (found.behind_bytes or 0) < 1 << 24, found.lost_in_seconds) == (True, None)
        finally:
            session.execute("SELECT pg_drop_replication_slot('reach_a')")


@pytest.mark.usefixtures("limit")
def test_a_slot_with_a_limit_names_the_room_and_the_time(database: str) -> None:
    """The time is estimated by the average rate at which the server writes its log."""
    with Session(Connection(name="bank", uri=database), read_only=False) as session:
        session.execute("SELECT pg_create_logical_replication_slot('reach_b', 'pgoutput')")
        try:
            found = read_log_reach(session, "reach_b", None)
        finally:
            session.execute("SELECT pg_drop_replication_slot('reach_b')")
    assert 0 < (found.room_bytes or 0) <= 128 << 20
    assert (found.lost_in_seconds or 0) > 0
    assert (found.setting, found.behind_bytes) == ("max_slot_wal_keep_size", None)
