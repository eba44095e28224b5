"""The fast path for database snapshots: tasks write chunks into Parquet files, and Spark reads the files.

The stream has one row per chunk. A micro-batch evaluates these rows once, which writes the files, either in tasks or,
for few rows, in this process. Then the flow's query is computed over the files and committed. A flow that returns the
snapshot unchanged commits the files themselves.

The durable effects of a batch in order, and why a crash after each is safe:

1. Spark records the offsets of the batch. The next start reads the same ranges of the table again.
2. Tasks write files. No commit refers to them; the batch runs again and writes new files.
3. The target's commit, with the batch's transaction identifier. The batch runs again and is skipped. Appends are
   skipped before a chunk is read. AUTO CDC reads the chunks again, finds the identifier, and commits nothing. The
   version that a commit builds on is also checked for the identifier, because another attempt may have committed
   during the read.
4. The files are deleted, unless they belong to the table. A crash is handled as after 3.
5. Spark records the batch as committed.

The next start deletes leftover files of earlier attempts, even if the flow no longer stages files. Files in a table's
folder are deleted only after the table has a batch's identifier, and only while no later batch is planned. Until then,
an abandoned attempt that still runs could commit the files; afterwards its commit is a conflict, or skipped. An attempt
that saw the batch committed plans the next batch before it writes a file for it. Files of a skipped batch are deleted
only after a look into the table's log, because a commit reported as a conflict may have succeeded. Files of a failed
batch are deleted at once, unless they were handed to a commit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from framework.cdc.model.metrics import CdcMetrics
from framework.checkpoints.offsets import read_progress
from framework.engine.delta.new_files import NewFile, takes_files
from framework.engine.delta.table_version import TableVersion, can_open
from framework.engine.plans.relations import opaque_rows, scanned_files
from framework.engine.plans.row_queries import RowQuery
from framework.engine.streams.stream_source import stream_of
from framework.foundation.errors import OperationError
from framework.foundation.table_address import TableAddress
from framework.run.flows.expectations import counted
from framework.run.flows.flow_run import FlowRun
from framework.run.flows.metrics import observing
from framework.run.flows.quality_counts import QualityCounts
from framework.run.flows.reads import FlowQuery
from framework.run.flows.streaming_query import Progress
from framework.run.flows.streams.staged_leftovers import StagedLeftovers
from framework.run.tables.appended_files import TableAppend, can_append
from framework.sources.staging.batch_files import BatchFiles
from framework.sources.staging.place import Staging
from framework.sources.staging.stream import has_files, staged_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from framework.cdc.writer import AutoCdcWriter
    from framework.foundation.added_columns import AddedColumn
    from framework.sources.staging.stream import StagedStream

# A missing or damaged file is an error, regardless of the session's settings.
_EXACTLY_THESE = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false", "mergeSchema": "false"}
_PATTERN = re.compile(r"([\\{}\[\]*?])")


class StagedSnapshot:
    """One run of a flow that reads a snapshot through staged files.

    Args:
        run: the flow's run.
        query: the flow's query, with its expectations.
        rows: the same query, applied row by row.
        session: the session of the query.
        in_table: whether the files are written to the target's folder, so that they can become files of the table.
        added: the column that turns their rows into rows of an AUTO CDC target.
    """

    def __init__(
        self,
        run: FlowRun,
        query: FlowQuery,
        rows: RowQuery,
        session: SparkSession,
        *,
        in_table: bool,
        added: AddedColumn | None = None,
    ) -> None:
        self._run = run
        self._query = query
        self._rows = rows
        self._in_table = in_table
        self._table = run.table
        self._leftovers = StagedLeftovers(run, session, query)
        self._source: StagedStream | None = None
        self._rows_of_batches: dict[int, int] = {}
        self._staging = Staging(
            folder=run.path if in_table else f"{self._leftovers.folder}/{uuid4().hex}",
            prefix=self._leftovers.prefix,
            columns=tuple((each.name, each.dataType.simpleString()) for each in rows.schema.fields),
            added=added,
        )
        self._batch_files = BatchFiles(self._staging, run.storage, in_table=in_table)

    @classmethod
    def of(cls, run: FlowRun, query: FlowQuery, session: SparkSession) -> Self | None:
        """Return the run if the flow's source can be staged in files; None if Spark must read the source itself."""
        rows = RowQuery.of(query.frame)
        if rows is None or not has_files(rows.format) or not run.dataset.is_table:
            return None
        in_table, added = False, None
        if run.dataset.cdc is None:
            if not can_append(session, TableAddress(path=run.path), query.frame):
                return None
            in_table = rows.returns_source and _takes_files(run, session)
        elif not any(query.expectations.values()):
            added = run.writer_of(run.dataset.cdc).added_column(rows.over(opaque_rows(session, rows.schema)))
            in_table = added is not None and _takes_files(run, session)
        found = cls(run, query, rows, session, in_table=in_table, added=added if in_table else None)
        return found if found._staging.is_writable() else None

    def begin(self, session: SparkSession, faults: list[BaseException]) -> DataFrame:
        """Delete staged files of earlier attempts outside the table, and return the stream of chunk files.

        Args:
            session: the session of the query.
            faults: receives the exception that the source raises while the query runs.

        Raises:
            UserError: a snapshot option is invalid.
            OperationError: CHECKPOINT_FILE_DAMAGED.
        """
        self._leftovers.begin()
        progress = read_progress(self._run.storage, self._run.checkpoint)
        if progress.is_settled and len(progress.sources) != 1:
            # Spark would report another fault: a checkpoint with another number of sources.
            path = f"{self._run.checkpoint}/offsets/{progress.last_commit_batch}"
            raise OperationError(
                "CHECKPOINT_FILE_DAMAGED",
                flow=self._run.step.flow,
                problem=f"{path} is empty, cut off or not an offset of its source.",
                ways="Run `sluice doctor`, which names the ways out and their costs.",
            )
        self._source = staged_stream(self._rows.format, session, self._rows.options, self._staging, progress)
        return stream_of(session, self._source, f"{self._rows.format}[{self._rows.options.get('table', '')}]", faults)

    def end(self) -> None:
        """End the source's work in the database for batches that will not come."""
        if self._source is not None:
            self._source.end()

    def append(self, chunks: DataFrame, number: int, on_quality: Callable[[QualityCounts], None]) -> None:
        """Append a micro-batch to the target in one commit, unless the target already has it.

        Args:
            chunks: the micro-batch of the stream of `begin`.
            number: the number of the micro-batch.
            on_quality: receives the counts of the expectations.
        """
        session = chunks.sparkSession
        query_id = str(read_progress(self._run.storage, self._run.checkpoint).query_id)
        if not TableAppend.begin(session, self._table, query_id, number).has_applied():
            with self._files(chunks, number) as files:
                # The table may have changed while the chunks were read, and another attempt may have committed them.
                transaction = TableAppend.begin(session, self._table, query_id, number)
                if transaction.has_applied():
                    self._leave_to_cleaning(files)
                elif self._in_table and transaction.takes_files(self._rows.schema):
                    self._batch_files.hand_over(_names(files))
                    transaction.append_files(files)
                    self._batch_files.take(_names(files))
                else:
                    transaction.append_rows(self._frame(session, files, on_quality))
        self._leftovers.clean(number, self._batch_files.taken)

    def apply(
        self,
        chunks: DataFrame,
        number: int,
        writer: AutoCdcWriter,
        on_quality: Callable[[QualityCounts], None],
    ) -> CdcMetrics:
        """Apply a micro-batch by AUTO CDC.

        Args:
            chunks: the micro-batch of the stream of `begin`.
            number: the number of the micro-batch.
            writer: the flow's AUTO CDC writer.
            on_quality: receives the counts of the expectations.
        """
        session = chunks.sparkSession
        with self._files(chunks, number) as files:
            self._batch_files.hand_over(_names(files))
            metrics = writer.load_files(session, files, number) if self._in_table else None
            if metrics is None:
                metrics = writer.apply(self._frame(session, files, on_quality), number)
                if metrics.skipped:
                    self._leave_to_cleaning(files)
                else:
                    # Only now is it certain that the target lacks the batch: the commit of the files was a real
                    # conflict.
                    self._batch_files.take_back(_names(files))
                    if files and self._source is not None:  # the target has rows that are in the next batches, too
                        self._source.stop_adding()
            else:
                self._batch_files.take(_names(files))
        if metrics.rows or metrics.skipped:  # else nothing was committed, and another attempt may commit it
            self._leftovers.clean(number, self._batch_files.taken)
        return metrics

    def with_rows(self, progress: Progress) -> Progress:
        """Return the progress of a batch with its row count instead of its chunk count."""
        rows = self._rows_of_batches.pop(progress["batchId"], 0)
        sources = [{**source, "numInputRows": rows} for source in progress["sources"]]
        return {**progress, "numInputRows": rows, "sources": sources}

    @contextmanager
    def _files(self, chunks: DataFrame, number: int) -> Iterator[list[NewFile]]:
        """Write the files of a micro-batch, and after the commit delete those that don't belong to the table."""
        assert self._source is not None  # `begin` has made the stream of `chunks`
        files = [_file(row) for row in self._source.write_files(chunks)]
        self._rows_of_batches[number] = sum(file.rows for file in files)
        with self._batch_files.during(_names(files)):
            yield files

    def _leave_to_cleaning(self, files: list[NewFile]) -> None:
        """Let the cleanup decide by the log whether files belong to the table, which already has their batch."""
        if self._in_table:
            self._batch_files.hand_over(_names(files))
            self._leftovers.renew()

    def _frame(
        self, session: SparkSession, files: list[NewFile], on_quality: Callable[[QualityCounts], None]
    ) -> DataFrame:
        """Return the query's rows over files, with its expectations counted and applied."""
        frame = self._rows.over(self._scan(session, self._batch_files.paths(_names(files))))
        if any(self._query.expectations.values()):
            # A separate pass, because no query of a batch reads each row exactly once.
            with observing(session) as observed:
                frame.write.format("noop").mode("overwrite").save()
            on_quality(counted(observed, self._query.expectations))
        return frame

    def _scan(self, session: SparkSession, paths: list[str]) -> DataFrame:
        """Return the rows of some files."""
        if not paths:
            return session.createDataFrame([], self._rows.schema)
        reader = session.read.schema(self._rows.schema).options(**_EXACTLY_THESE)
        if _PATTERN.search(paths[0]) and ":" in paths[0]:
            # Hadoop can't match a pattern in a path with a colon. Without patterns, Spark reads each of n files n
            # times.
            reader = reader.option("__globPaths__", "false")
            frames = [reader.parquet(path) for path in paths]
        else:
            frames = [reader.parquet(*(_PATTERN.sub(r"\\\1", path) for path in paths))]
        assert sum(map(scanned_files, frames)) == len(paths), paths
        return reduce(lambda left, right: left.unionAll(right), frames)


def _names(files: Sequence[NewFile]) -> list[str]:
    return [file.name for file in files]


def _file(row: Mapping[str, Any]) -> NewFile:
    return NewFile(
        name=row["name"],
        rows=row["rows"],
        bytes=row["bytes"],
        statistics=row["stats"],
        is_stamped=row["is_stamped"],
        has_distinct_keys=row["has_distinct_keys"],
    )


def _takes_files(run: FlowRun, session: SparkSession) -> bool:
    spec, table = run.dataset.spec, TableAddress(path=run.path)
    is_clustered = bool(spec.cluster_by) or spec.cluster_by_auto
    return not is_clustered and can_open(table) and takes_files(TableVersion(session, table))
