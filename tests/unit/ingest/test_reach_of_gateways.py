"""When changes are lost that nobody reads: what the status, the doctor and the preflight say, for any database."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from framework.foundation.names import QualifiedName
from framework.ingest.gateway_status import GatewayStatus, IngestedState, SnapshotProgress, TableStatus
from framework.ingest.status import _lag_seconds
from framework.ingest.tables.preflight import _short_log
from framework.recovery.doctor.evidence.gateways import log_evidence
from framework.sources.databases.findings import Severity
from framework.sources.databases.position import Position
from framework.sources.databases.source_session import LogReach
from framework.sources.databases.tables import TableName
from framework.views.ingestion import status_head, status_json

_TABLE = TableStatus(
    source="shop.orders",
    target=QualifiedName(catalog="main", schema="shop", table="orders"),
    state=IngestedState.SNAPSHOT,
    generation=1,
    snapshot=SnapshotProgress(chunks=3, remaining_seconds=3600.0),
    lag_bytes=None,
    lag_seconds=60.0,
    error=None,
)
_SHOP = GatewayStatus(
    name="shop",
    is_paused=False,
    position_noun="",
    position_name="shop",
    log_status=None,
    reach=LogReach(kept_seconds=86400.0, lost_in_seconds=7200.0, setting="binlog_expire_logs_seconds"),
    lost_at=datetime(2026, 3, 1, 14, 30, tzinfo=UTC),
    position=Position(order=1, text="binlog.000007:4"),
    gap=None,
    way_out=None,
    refused=None,
    error=None,
    waits=(),
    tables=(_TABLE,),
)


def test_the_hour_of_loss_is_in_the_line_of_a_gateway() -> None:
    """With the setting; it says so if the estimated snapshot takes longer, and is silent without a limit."""
    lost = "unread changes are lost from 2026-03-01 14:30 UTC on (binlog_expire_logs_seconds)"
    assert status_head(_SHOP) == f"shop, staged up to binlog.000007:4, {lost}"
    slow = replace(_TABLE, snapshot=replace(_TABLE.snapshot, remaining_seconds=9000.0))
    assert status_head(replace(_SHOP, tables=(slow,))).endswith(f"{lost}, before the snapshot ends")
    assert status_head(replace(_SHOP, lost_at=None)) == "shop, staged up to binlog.000007:4"


def test_the_hour_of_loss_is_data_of_the_status() -> None:
    """For programs: the time, the setting and the room."""
    (found,) = status_json([_SHOP])
    assert {name: found[name] for name in ("kept_seconds", "room_bytes", "kept_by", "lost_at")} == {
        "kept_seconds": 86400.0,
        "room_bytes": None,
        "kept_by": "binlog_expire_logs_seconds",
        "lost_at": "2026-03-01T14:30:00+00:00",
    }
    (silent,) = status_json([replace(_SHOP, reach=None, lost_at=None)])
    assert (silent["kept_by"], silent["lost_at"]) == (None, None)


def test_the_doctor_names_the_hour_of_loss() -> None:
    """Also of a database that keeps no position; not if the changes are lost already."""
    line = "log: unread changes are lost from 2026-03-01 14:30 UTC on (binlog_expire_logs_seconds)"
    assert [*log_evidence(_SHOP)] == [line]
    assert [*log_evidence(replace(_SHOP, gap="DATABASE_POSITION_LOST.LOG_REMOVED"))] == []


def test_a_snapshot_that_takes_longer_than_the_log_is_kept_is_found() -> None:
    """By its size and a low rate; a log without a limit by age is no finding."""
    sizes = {TableName(schema="shop", table="orders"): (10**9, 72 * 10**9)}
    day = LogReach(kept_seconds=3600.0, setting="binlog_expire_logs_seconds")
    (found,) = _short_log(sizes, day)
    assert (found.condition, found.severity) == ("DATABASE_LOG_SHORTER_THAN_SNAPSHOT", Severity.WARNING)
    assert "(72.0 GB) takes about 2 h 0 min" in found.what
    assert "for 1 h 0 min (binlog_expire_logs_seconds)" in found.what
    assert [*_short_log(sizes, LogReach())] == []
    assert [*_short_log(sizes, LogReach(kept_seconds=7300.0))] == []


def test_the_lag_in_seconds_is_the_least_that_is_known() -> None:
    """By the database, or by the time of the last commit; nothing is behind at the end of the log."""
    assert _lag_seconds(LogReach(behind_seconds=0.0), 50.0) == 0.0
    assert _lag_seconds(LogReach(behind_seconds=90.0), 50.0) == 50.0
    assert _lag_seconds(LogReach(), 50.0) == 50.0
    assert _lag_seconds(None, None) is None
