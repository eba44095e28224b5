"""How long a server keeps its log, and how much of it is after a position."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from framework.sources.databases.connections import Connection
from framework.sources.databases.mysql.log.places import LogPlace
from framework.sources.databases.mysql.position import safe_position
from framework.sources.databases.mysql.retention import read_log_reach, retention_seconds
from framework.sources.databases.mysql.session import Session
from framework.sources.databases.mysql.stored_position import LastTransaction, StoredPosition
from framework.sources.databases.source_session import LogReach
from tests.support.mysql_servers import MysqlServer


@pytest.mark.parametrize(
    ("variables", "seconds"),
    [
        ({"binlog_expire_logs_seconds": "7200"}, 7200),
        ({"binlog_expire_logs_seconds": "0", "expire_logs_days": "2"}, 172_800),
        ({"expire_logs_days": "0.5"}, 43_200),
        ({"binlog_expire_logs_seconds": "0"}, 0),
        ({"binlog_expire_logs_seconds": "7200", "binlog_expire_logs_auto_purge": "OFF"}, 0),
        ({}, 0),
    ],
)
def test_the_retention_is_that_of_the_servers_settings(variables: dict[str, str], seconds: int) -> None:
    """Seconds before days; 0 keeps the log for ever."""
    assert retention_seconds(variables) == seconds


def test_the_log_after_a_position_is_in_bytes_over_several_files(mysql_server: MysqlServer) -> None:
    """Not in the numbers of positions, which have the file in their high bits; an epoch changes nothing."""
    with Session(Connection(name="bank", uri=mysql_server.uri())) as session:
        stored = safe_position(session)
        assert (read_log_reach(session, stored).behind_bytes, read_log_reach(session, stored).behind_seconds) == (
            0,
            0.0,
        )
        mysql_server.query("CREATE DATABASE reach")
        mysql_server.query("FLUSH BINARY LOGS")
        mysql_server.query("DROP DATABASE reach")
        behind = read_log_reach(session, replace(stored, place=replace(stored.place, epoch=3))).behind_bytes
        assert behind is not None
        assert 200 < behind < 5000
        gone = replace(stored, place=LogPlace("binlog.009999", 4))
        assert read_log_reach(session, gone).behind_bytes is None
        assert read_log_reach(session, replace(stored, source="another")).behind_bytes is None


def test_changes_are_lost_after_the_retention_since_the_last_one_that_was_read(mysql_server: MysqlServer) -> None:
    """A file of the log is removed when nothing was written to it for so long; at the end nothing is lost before."""
    with Session(Connection(name="bank", uri=mysql_server.uri()), read_only=False) as session:
        stored = safe_position(session)
        kept = retention_seconds(session.variables(("binlog_expire_logs_seconds", "expire_logs_days")))
        session.execute("SET GLOBAL binlog_expire_logs_seconds = 7200")
        try:
            assert read_log_reach(session, stored) == LogReach(
                behind_bytes=0,
                behind_seconds=0.0,
                kept_seconds=7200.0,
                lost_in_seconds=7200.0,
                setting="binlog_expire_logs_seconds",
            )
            mysql_server.query("CREATE DATABASE reach2")
            mysql_server.query("DROP DATABASE reach2")
            last = LastTransaction(
                place=stored.place, gtid="", commit_microseconds=round((time.time() - 3600) * 1_000_000)
            )
            found = read_log_reach(session, replace(stored, last=last))
            assert found.behind_seconds == pytest.approx(3600, abs=30)
            assert found.lost_in_seconds == pytest.approx(3600, abs=30)
        finally:
            session.execute(f"SET GLOBAL binlog_expire_logs_seconds = {kept}")
        assert read_log_reach(session, None).behind_bytes is None


class _Sized(Session):
    """A session at MariaDB 11.4 with a limit of 10,000 bytes, of which 6000 are from the begin of the file on."""

    def __init__(self) -> None:
        """Open nothing."""

    def variables(self, names: object) -> dict[str, str]:
        """Return the limit and the identity."""
        del names
        return {"max_binlog_total_size": "10000", "server_uuid": "a", "binlog_expire_logs_seconds": "0"}

    def rows(self, query: str, *_: object, **__: object) -> list[tuple[object, ...]]:
        """Return two files, and the time."""
        return [(1000.0,)] if "UNIX" in query else [("log.000001", 4000, "No"), ("log.000002", 2000, "No")]


def test_a_limit_of_size_leaves_room_and_a_time_by_the_rate_so_far() -> None:
    """The oldest file goes first: from its begin on, everything counts."""
    last = LastTransaction(place=LogPlace("log.000001", 4), gtid="", commit_microseconds=900_000_000)
    stored = StoredPosition(place=LogPlace("log.000001", 1000), source="a", last=last)
    assert read_log_reach(_Sized(), stored) == LogReach(
        behind_bytes=5000, behind_seconds=100.0, room_bytes=4000, lost_in_seconds=80.0, setting="max_binlog_total_size"
    )
