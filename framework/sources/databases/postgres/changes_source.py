"""Reader of `postgres_changes`: the changes of PostgreSQL tables, from the log, as a stream without end.

One replication slot serves all tables of a flow. The offset in the flow's checkpoint is the end of a transaction, and
the slot is advanced only to an offset whose micro-batch is committed, so the log between two offsets can be read again.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from framework.foundation.errors import SourceError
from framework.foundation.processes import start_of_process
from framework.sources.databases.options import Options
from framework.sources.databases.postgres.catalog import partitions_without_key, read_identity, read_tables
from framework.sources.databases.postgres.changes import RowKey
from framework.sources.databases.postgres.log_reader import LogReader
from framework.sources.databases.postgres.membership import read_membership, refuse_filtered
from framework.sources.databases.postgres.position import ensure_position
from framework.sources.databases.postgres.position_check import StoredPosition, check_position, other_slot_gap
from framework.sources.databases.postgres.reading import ReadLimit as LogLimit
from framework.sources.databases.postgres.seen_partitions import PartitionWatch, horizons_of
from framework.sources.databases.postgres.session import Session
from framework.sources.databases.postgres.spool import Spool, SpooledBatch, SpooledFile

if TYPE_CHECKING:
    from pyarrow import RecordBatch

    from framework.sources.databases.connections import Connection
    from framework.sources.databases.tables import TableName

OPTIONS = (
    "connection", "connectionsFolder", "slot", "publication", "tables", "textColumns", "maxRowsPerTrigger",
    "maxBytesPerTrigger", "generation", "spoolFolder",
    "advanceTo", "unreadableRows", "relations", "partitions", "emptyPartitions", "partitionsSince", "notAfter",
    "historyTables", "keys", "reader",
)  # fmt: skip
_ROWS_PER_TRIGGER = 1_000_000
_BYTES_PER_TRIGGER = 256 << 20
# A position without changes is stored only this far behind, so that an idle database costs no micro-batch.
_IDLE_LOG_BYTES = 16 << 20
# Spark writes the parts of a file side by side, each into a file of the target.
_PART_ROWS = 100_000
_MOST_PARTS = 4
_SPOOLS = "sluice-changes-"


@dataclass(frozen=True)
class ChangesRequest:
    """What the options of a stream of changes ask for."""

    connection: Connection
    slot: str
    publication: str
    tables: tuple[TableName, ...]
    text_columns: dict[TableName, tuple[str, ...]]
    limit: LogLimit
    generation: int
    spool_folder: str | None
    advance_to: int
    keeps_unreadable: bool
    relations: tuple[tuple[int, TableName], ...]
    partitions: tuple[tuple[int, TableName], ...]
    horizons: dict[int, int]
    empty: tuple[tuple[int, TableName], ...]
    not_after: int
    histories: tuple[TableName, ...]
    keys: dict[TableName, tuple[str, ...]]
    slot_reader: str

    @classmethod
    def of(cls, options: Options) -> ChangesRequest:
        """Read the options.

        Raises:
            UserError: DATABASE_OPTION_MISSING, DATABASE_OPTION_INVALID, or an error of the connection.
        """
        slot, relations = options.text("slot"), options.relations("relations")
        return cls(
            connection=options.connection(),
            slot=slot,
            publication=options.text("publication", slot),
            tables=options.tables("tables"),
            text_columns=options.columns_of_tables("textColumns"),
            limit=LogLimit(
                rows=options.number("maxRowsPerTrigger", _ROWS_PER_TRIGGER),
                bytes=options.size("maxBytesPerTrigger", _BYTES_PER_TRIGGER),
            ),
            generation=options.number("generation", 0, least=0),
            spool_folder=options.optional("spoolFolder"),
            advance_to=options.number("advanceTo", 0, least=0),
            keeps_unreadable=options.choice("unreadableRows", ("fail", "keep")) == "keep",
            relations=relations,
            partitions=options.relations("partitions"),
            empty=options.relations("emptyPartitions"),
            horizons=horizons_of(relations, options.relations("partitionsSince")),
            not_after=options.number("notAfter", 0, least=0),
            histories=options.tables("historyTables") if options.optional("historyTables") else (),
            keys=options.columns_of_tables("keys"),
            slot_reader=options.text("reader", ""),
        )

    @property
    def known_partitions(self) -> set[int]:
        """The oids of the partitions that had rows when they were compared."""
        return {oid for oid, _ in self.partitions} - {oid for oid, _ in self.empty}


class SpooledPartition(InputPartition):
    """Row groups of a file of changes for one task."""

    def __init__(self, path: str, groups: range) -> None:
        super().__init__((path, groups))
        self.path = path
        self.groups = groups

    @classmethod
    def of(cls, file: SpooledFile) -> Iterator[SpooledPartition]:
        """Yield the parts of a file that are read side by side."""
        parts = max(1, min(file.rows // _PART_ROWS, file.groups, _MOST_PARTS))
        bounds = [file.groups * part // parts for part in range(parts + 1)]
        for first, end in pairwise(bounds):
            yield cls(str(file.path), range(first, end))


class ChangesStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the log into files on the driver; tasks pass the files on.

    The slot is read by one connection that stays open between micro-batches. It is opened by the first call, because
    Spark also constructs readers that only read files.

    Args:
        request: what to read.
    """

    def __init__(self, request: ChangesRequest) -> None:
        self._request = request
        self._log: LogReader | None = None
        self._folder: Path | None = None
        self._batch: SpooledBatch | None = None
        self._ends_when_caught_up = False
        self._is_at_end = False

    def prepareForTriggerAvailableNow(self) -> None:
        """Read up to what is committed at the first read that catches up with the log."""
        self._ends_when_caught_up = True

    def getDefaultReadLimit(self) -> ReadLimit:
        """As many rows in a micro-batch as the options say; a transaction is never cut."""
        return ReadMaxRows(self._request.limit.rows)

    def initialOffset(self) -> dict[str, Any]:
        """The position of the slot, which is created if there is none; a snapshot may begin afterwards."""
        request = self._request
        with Session(request.connection, read_only=False) as session:
            if request.not_after:
                self._require_log(session, request.not_after)
            found = ensure_position(
                session, request.slot, request.publication, request.tables, reader=request.slot_reader
            )
        return _as_dict(found.stored())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next transactions; `start` itself if there are none."""
        stored = StoredPosition.from_json(json.dumps(start))
        if self._is_at_end:
            self._release(stored.lsn)
            return start
        log = self._reader(stored)
        # Spark has committed the micro-batch that ends at `start`.
        log.acknowledge(stored.lsn)
        batch = log.read_transactions(stored.lsn, None if isinstance(limit, ReadAllAvailable) else self._request.limit)
        self._is_at_end = self._ends_when_caught_up and batch.caught_up
        is_awaited = stored.lsn < self._request.advance_to
        if batch.rows == 0 and (
            batch.end == stored.lsn or (not is_awaited and batch.end - stored.lsn < _IDLE_LOG_BYTES)
        ):
            if self._is_at_end:
                self._release(stored.lsn)
            return start
        self._batch = batch
        seen = stored.seen.then(batch.seen).since(self._request.horizons)
        return _as_dict(stored.at(batch.end, seen, batch.last))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The files of the changes between two offsets; after a restart they are read from the log again."""
        begin, finish = (StoredPosition.from_json(json.dumps(offset)) for offset in (start, end))
        if begin.lsn == finish.lsn:
            return ()
        batch = self._batch
        if batch is None or (batch.start, batch.end) != (begin.lsn, finish.lsn):
            batch = self._reader(begin).read_range(begin.lsn, finish.lsn)
        return [part for file in batch.files for part in SpooledPartition.of(file)]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """The changes of a file."""
        assert isinstance(partition, SpooledPartition)
        with pq.ParquetFile(partition.path) as file:
            yield from file.iter_batches(row_groups=list(partition.groups))

    def commit(self, end: dict[str, Any]) -> None:
        """Let the server remove its log up to a committed offset."""
        stored = StoredPosition.from_json(json.dumps(end))
        # The next read acknowledges it otherwise; the micro-batch is committed either way.
        with suppress(SourceError):
            self._reader(stored).acknowledge(stored.lsn)

    def stop(self) -> None:
        """Close the connections, and remove the files."""
        if self._log is not None:
            self._log.release()
            self._log.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _require_log(self, session: Session, lsn: int) -> None:
        """Refuse a slot that is gone, or was made after a snapshot had begun: changes since then would be missing."""
        request = self._request
        gap = check_position(
            session,
            StoredPosition(
                slot=request.slot, publication=request.publication, lsn=lsn, identity=read_identity(session)
            ),
        )
        if gap is not None:
            raise gap.error()

    def _release(self, committed: int) -> None:
        """Let go of the slot: whoever drops it after the update is not refused."""
        if self._log is not None:
            # Spark has committed this offset. Without the stream, the server would decode its log again to get there.
            with suppress(SourceError):
                self._log.acknowledge(committed)
            self._log.release()

    def _reader(self, stored: StoredPosition) -> LogReader:
        if self._log is None:
            request = self._request
            gap = other_slot_gap(stored, request.slot, request.publication)
            if gap is not None:
                raise gap.error()
            self._folder = spool_folder(request.spool_folder)
            with Session(request.connection) as session:
                if not request.keeps_unreadable:  # else each reader of a table refuses its own
                    members = read_membership(session, request.slot, request.publication)
                    refuse_filtered(members, request.publication, request.tables)
                keys = _keys_of(session, request)
            self._log = LogReader(
                request.connection,
                stored,
                spool=Spool(self._folder),
                text_columns=request.text_columns,
                keys=keys,
                keeps_unreadable=request.keeps_unreadable,
                histories=request.histories,
                generation=request.generation,
                tables=request.relations,
                partitions=request.partitions,
                watch=PartitionWatch(request.horizons, request.known_partitions),
            )
        self._log.expect(stored)
        return self._log


def _keys_of(session: Session, request: ChangesRequest) -> dict[TableName, RowKey]:
    """Return what identifies the rows of tables: the given keys, which are required, or those of the catalog.

    A table that was dropped since has none: it must not stop the changes of the other tables.
    """
    found = read_tables(session, [name for name in request.tables if name not in request.keys])
    keys = {name: RowKey(columns=table.key) for name, table in found.items() if not isinstance(table, SourceError)}
    lacking = partitions_without_key(session, request.keys)
    for name, columns in request.keys.items():
        is_logged = not lacking[name] if name in lacking else None
        keys[name] = RowKey(columns=columns, is_required=True, is_logged=is_logged)
    return keys


def spool_folder(parent: str | None) -> Path:
    """Return a new folder of this process; those of processes that have ended are removed."""
    folder = Path(parent or tempfile.gettempdir())
    folder.mkdir(parents=True, exist_ok=True)
    if parent is None:
        for left in folder.glob(f"{_SPOOLS}*"):
            pid, _, started = left.name.removeprefix(_SPOOLS).partition("-")
            if pid.isdigit() and start_of_process(int(pid)) != started.partition("-")[0]:
                shutil.rmtree(left, ignore_errors=True)
    own = os.getpid()
    return Path(tempfile.mkdtemp(prefix=f"{_SPOOLS}{own}-{start_of_process(own)}-", dir=folder))


def _as_dict(position: StoredPosition) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(position.to_json())
    return found
