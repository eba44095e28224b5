"""Periodic events about the tables of gateways, like those of Lakeflow Connect's gateways.

Each table and phase gets one `flow_progress` per interval, with the rows and bytes since the last one, even if they are
zero. An incomplete snapshot also gets an `operation_progress` with its percentage. The number of events depends only on
the interval and the number of tables. Row counts come from the update's own events, so no Spark job runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Event as Signal
from threading import Lock, Thread

from framework.declare.specs import IngestedGateway, IngestedTable
from framework.foundation.errors import SluiceError
from framework.foundation.files.storage_port import Storage
from framework.foundation.names import QualifiedName
from framework.ingest.gateway_status import SnapshotProgress
from framework.ingest.progress import Sizes, snapshot_progress, source_sizes
from framework.record import drafts
from framework.record.events import Event, EventType
from framework.record.log import EventLog
from framework.sources.databases.tables import TableName
from framework.sources.delta.log import commit_files, latest_version, read_commit

SNAPSHOT_OPERATION = "CDC_SNAPSHOT"
_INTERVAL = "interval_seconds"


@contextmanager
def ingestion_reports(
    gateways: Sequence[IngestedGateway],
    storage: Storage,
    log: EventLog,
    interval_seconds: int,
    path_of: Callable[[QualifiedName], str],
) -> Iterator[None]:
    """Report the progress of gateways while the block runs, and once more at its end.

    Args:
        gateways: the gateways that have a table of changes; without any, nothing is started.
        storage: the pipeline's storage.
        log: the event log of the update.
        interval_seconds: the time between two reports.
        path_of: returns the folder of a table.
    """
    if not gateways:
        yield
        return
    reports = _Reports(gateways, storage, log, interval_seconds, path_of)
    log.subscribe(reports.count)
    stop = Signal()
    thread = Thread(target=reports.run, args=(stop,), name="sluice-ingestion-reports", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        with suppress(SluiceError):  # a failed report must not fail the update
            reports.report(is_last=True)


class _Reports:
    """The reports of one update."""

    def __init__(
        self,
        gateways: Sequence[IngestedGateway],
        storage: Storage,
        log: EventLog,
        interval_seconds: int,
        path_of: Callable[[QualifiedName], str],
    ) -> None:
        self._gateways = tuple(gateways)
        self._paths = {each.name: path_of(each.changes) for each in gateways}
        self._versions = {name: latest_version(storage, path) for name, path in self._paths.items()}
        self._storage = storage
        self._log = log
        self._interval_seconds = interval_seconds
        self._lock = Lock()
        self._rows: Counter[str] = Counter()
        self._reported: dict[QualifiedName, SnapshotProgress] = {
            each.snapshot_flow: snapshot_progress(each, storage, None) for each in self._tables()
        }

    def run(self, stop: Signal) -> None:
        """Report in each interval until the signal is set."""
        while not stop.wait(self._interval_seconds):
            with suppress(SluiceError):  # such as a temporarily unreadable storage: the next report has the rows
                self.report()

    def count(self, event: Event) -> None:
        """Add the rows of a committed micro-batch; an observer of the log."""
        details = event.details.get(EventType.FLOW_PROGRESS.value) or {}
        metrics = details.get("metrics") or {}
        if details.get("status") == "RUNNING" and event.origin.flow_name and _INTERVAL not in metrics:
            rows = metrics.get("num_output_rows", 0) + metrics.get("num_deleted_rows", 0)
            with self._lock:
                self._rows[event.origin.flow_name] += rows

    def report(self, *, is_last: bool = False) -> None:
        """Write the events of all tables; at the end of an update, only of those changed since the last report."""
        with self._lock:
            rows, self._rows = self._rows, Counter()
        for gateway in self._gateways:
            sizes: Sizes = {}
            if not is_last or any(rows[str(each.snapshot_flow)] for each in gateway.tables):
                with suppress(SluiceError):  # without the sizes, percentage and bytes are omitted
                    sizes = source_sizes(gateway)
            staged = self._staged_bytes(gateway.name)
            for table in gateway.tables:
                self._report_snapshot(table, rows, sizes, is_last=is_last)
                changed = rows[str(table.cdc_flow)]
                if changed or staged[table.source] or not is_last:
                    self._flow_event(table, table.cdc_flow, changed, staged[table.source])

    def _staged_bytes(self, gateway: str) -> Counter[str]:
        """Return the bytes of changes staged since the last report, by source table."""
        path, seen = self._paths[gateway], self._versions[gateway]
        files = {number: file for number, file in commit_files(self._storage, path).items() if number > (seen or 0)}
        sizes: Counter[str] = Counter()
        for file in files.values():
            for added in (action["add"] for action in read_commit(self._storage, file) if "add" in action):
                sizes[(added.get("partitionValues") or {}).get("source_table") or ""] += added.get("size", 0)
        self._versions[gateway] = max(files, default=seen)
        return sizes

    def _report_snapshot(self, table: IngestedTable, rows: Counter[str], sizes: Sizes, *, is_last: bool) -> None:
        flow = table.snapshot_flow
        size = sizes.get(TableName(schema=table.source_schema, table=table.source_table))
        now = snapshot_progress(table, self._storage, size[0] if size else None)
        before = self._reported.get(flow, SnapshotProgress())
        self._reported[flow] = now
        moved = bool(rows[str(flow)]) or (before.checkpoint, before.chunks) != (now.checkpoint, now.chunks)
        was_open = not before.completed or before.checkpoint != now.checkpoint
        if is_last and not moved:
            return
        self._flow_event(table, flow, rows[str(flow)], _bytes_since(before, now, size))
        if was_open and now.checkpoint is not None:
            remaining = now.remaining_seconds
            self._log.record(
                drafts.operation_progress(
                    operation=SNAPSHOT_OPERATION,
                    status="COMPLETED" if now.completed else "IN_PROGRESS",
                    dataset=str(table.target),
                    flow=str(flow),
                    progress_percent=100.0 if now.completed else now.percent,
                    estimated_completion_ms=None if remaining is None else round(remaining * 1000),
                )
            )

    def _flow_event(self, table: IngestedTable, flow: QualifiedName, rows: int, size: int | None) -> None:
        metrics: dict[str, int | float] = {"num_output_rows": rows, _INTERVAL: self._interval_seconds}
        if size is not None:
            metrics["num_output_bytes"] = size
        self._log.record(
            drafts.flow_progress(flow=str(flow), dataset=str(table.target), status="RUNNING", metrics=metrics)
        )

    def _tables(self) -> Iterator[IngestedTable]:
        return (table for gateway in self._gateways for table in gateway.tables)


def _bytes_since(before: SnapshotProgress, now: SnapshotProgress, size: tuple[int, int] | None) -> int | None:
    """Return the bytes on the source's disk of the rows since the last report; None if the row size is unknown."""
    if size is None or size[0] <= 0:
        return None
    since = now.rows - (before.rows if before.checkpoint == now.checkpoint else 0)
    return round(size[1] * max(since, 0) / size[0])
