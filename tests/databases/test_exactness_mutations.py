"""The five mistakes that make a copy of a database wrong without an error, and the test that finds each.

Each mutation changes the product, and the test named with it must fail. Without the mutation, each passes.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg2
import pyarrow.parquet as pq
import pytest

from framework.demo.postgres_server import PostgresServer
from framework.foundation.errors import SourceError
from framework.sources.databases import chunks
from framework.sources.databases.chunks import Bound, Chunk
from framework.sources.databases.options import Options
from framework.sources.databases.postgres.chunks import snapshot_source
from framework.sources.databases.postgres.chunks.snapshot_source import SnapshotRequest
from framework.sources.databases.postgres.log.changes_source import ChangesRequest
from framework.sources.databases.postgres.log.pgoutput import OMITTED
from framework.sources.databases.postgres.log.reread import OmittedValues
from framework.sources.databases.streams.changes_stream import ChangesStreamReader
from framework.sources.databases.streams.snapshot_stream import SnapshotStreamReader
from tests.databases.test_postgres_reread import test_rows_that_move_between_chunks_keep_their_large_values
from tests.databases.test_snapshot_reader import test_rows_beyond_the_last_bound_are_in_the_last_chunk
from tests.support.postgres_log import execute, query, set_server, slot_of

Rows = dict[int, tuple[Any, ...]]
Mutation = Callable[[pytest.MonkeyPatch], None]
Catcher = Callable[[str, Path], None]


class Copy:
    """A copy of the table `t (id, n)`, made by the readers of both sources as a stream calls them.

    Args:
        uri: the database.
        folder: has the file of connections.
    """

    def __init__(self, uri: str, folder: Path) -> None:
        (folder / "connections.yml").write_text(f"bank: {uri}\n", "utf-8")
        common = {"connection": "bank", "connectionsFolder": str(folder), "slot": slot_of(uri)}
        self._snapshot_options = {**common, "table": "public.t", "chunkBytes": "8k", "maxChunksPerTrigger": "1"}
        self._changes_options = {**common, "tables": "public.t"}
        self._events: list[tuple[tuple[int, int, int], str, Rows]] = []

    def snapshot(self) -> Iterator[int]:
        """Read the chunks, one for each step."""
        request = SnapshotRequest.of(Options("postgres_snapshot", self._snapshot_options))
        reader = SnapshotStreamReader(request, ("id", "n"))
        start = reader.initialOffset()
        while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
            for partition in reader.partitions(start, end):
                rows = {row["id"]: (row["n"],) for batch in reader.read(partition) for row in batch.to_pylist()}
                self._events.append(((0, 0, 0), "INSERT", rows))
                yield len(rows)
            start = end

    def changes(self) -> ChangesStreamReader:
        """A reader of the log, as a process has it that started now."""
        return ChangesStreamReader(ChangesRequest.of(Options("postgres_changes", self._changes_options)))

    def apply(self, reader: ChangesStreamReader, start: dict[str, Any], end: dict[str, Any]) -> None:
        """Add the changes between two offsets."""
        for partition in reader.partitions(start, end):
            for row in pq.read_table(partition.path).to_pylist():  # type: ignore[attr-defined]
                payload = json.loads(row["payload"])
                order = (1, row["position"], row["ordinal"])
                self._events.append((order, row["operation"], {payload["id"]: (payload.get("n"),)}))

    def rows(self) -> Rows:
        """The rows of the copy: the newest event of each key."""
        state: Rows = {}
        for _, operation, rows in sorted(self._events, key=lambda event: event[0]):
            for key, row in rows.items():
                state.pop(key, None)
                if operation != "DELETE":
                    state[key] = row
        return state


def _source(uri: str) -> Rows:
    return {key: (n,) for key, n in query(uri, "SELECT id, n FROM t")}


def _create(uri: str) -> None:
    execute(
        uri,
        "CREATE TABLE t (id int PRIMARY KEY, n int)",
        "INSERT INTO t SELECT i, 0 FROM generate_series(1, 1000) i",
        "ANALYZE t",
    )


def test_a_kill_before_the_batch_is_durable_loses_nothing(database: str, tmp_path: Path) -> None:
    """The planned range is in the checkpoint, its rows are nowhere yet: a new process reads them again."""
    _create(database)
    copy = Copy(database, tmp_path)
    list(copy.snapshot())
    first = copy.changes()
    start = first.initialOffset()
    execute(database, "UPDATE t SET n = 1 WHERE id <= 10", "DELETE FROM t WHERE id = 11")
    planned = first.latestOffset(start, first.getDefaultReadLimit())
    first.stop()
    second = copy.changes()
    try:
        copy.apply(second, start, planned)
    finally:
        second.stop()
    assert _source(database) == copy.rows()


def test_a_change_after_the_first_chunk_is_in_the_log(database: str, tmp_path: Path) -> None:
    """The slot exists before the first chunk is read, although the stream of changes starts later."""
    _create(database)
    copy = Copy(database, tmp_path)
    remaining = copy.snapshot()
    next(remaining)
    execute(database, "UPDATE t SET n = 1 WHERE id <= 10", "DELETE FROM t WHERE id = 11")
    list(remaining)
    reader = copy.changes()
    start = reader.initialOffset()
    copy.apply(reader, start, reader.latestOffset(start, reader.getDefaultReadLimit()))
    reader.stop()
    assert _source(database) == copy.rows()


def test_a_snapshot_row_is_older_than_every_change(database: str, tmp_path: Path) -> None:
    """The log has a commit that the chunk, read later, does not see: the change still counts.

    A commit that waits for a standby is in the log, but not visible.
    """
    del database  # of the shared server, whose settings stay as they are
    with PostgresServer() as server:
        uri = server.uri()
        _create(uri)
        copy = Copy(uri, tmp_path)
        reader = copy.changes()
        start = reader.initialOffset()
        set_server(uri, "synchronous_standby_names", "nobody")
        writing = threading.Thread(target=_execute_unless_lost, args=(uri, "UPDATE t SET n = 1 WHERE id = 5"))
        writing.start()
        while not query(uri, "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"):
            writing.join(0.01)
            assert writing.is_alive()
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        copy.apply(reader, start, end)
        execute(uri, "ALTER SYSTEM RESET synchronous_standby_names")
        list(copy.snapshot())
        execute(uri, "SELECT pg_reload_conf()")
        writing.join(20)
        reader.stop()
        assert {5: (1,)} == {key: row for key, row in copy.rows().items() if row != (0,)}


def _execute_unless_lost(uri: str, statement: str) -> None:
    try:
        execute(uri, statement)
    except psycopg2.OperationalError:
        return


def acknowledge_early(patch: pytest.MonkeyPatch) -> None:
    """The slot advances when a range is planned, before its rows are durable."""
    latest = ChangesStreamReader.latestOffset

    def mutated(self: ChangesStreamReader, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        end = latest(self, start, limit)
        self.commit(end)
        return end

    patch.setattr(ChangesStreamReader, "latestOffset", mutated)


def skip_the_reread(patch: pytest.MonkeyPatch) -> None:
    """A value that the log calls unchanged becomes NULL."""

    def mutated(_self: OmittedValues, pending: list[Any]) -> list[Any]:
        return [[None if value is OMITTED else value for value in row.values] for row in pending]

    patch.setattr(OmittedValues, "complete", mutated)


def snapshot_before_slot(patch: pytest.MonkeyPatch) -> None:
    """The first chunk is read without a slot."""
    patch.setattr(snapshot_source, "ensure_position", lambda *_, **__: SimpleNamespace(lsn=0))


def compare_by_lsn(patch: pytest.MonkeyPatch) -> None:
    """A row of a snapshot has the position of the log at which its chunk was read."""
    snapshot = Copy.snapshot

    def mutated(self: Copy) -> Iterator[int]:
        for count in snapshot(self):
            (_, operation, rows) = self._events.pop()
            self._events.append(((1, 2**63, 0), operation, rows))
            yield count

    patch.setattr(Copy, "snapshot", mutated)


def drop_the_open_last_chunk(patch: pytest.MonkeyPatch) -> None:
    """The last chunk ends at the greatest key that the plan saw."""
    made = chunks._chunks

    def mutated(*arguments: Any, **named: Any) -> tuple[Chunk, ...]:
        found = made(*arguments, **named)
        return tuple(replace(each, upper=Bound(values=("500",))) if each.upper is None else each for each in found)

    patch.setattr(chunks, "_chunks", mutated)


def _without_folder(test: Callable[[str], None]) -> Catcher:
    return lambda database, _: test(database)


MUTATIONS: tuple[tuple[Mutation, Catcher], ...] = (
    (acknowledge_early, test_a_kill_before_the_batch_is_durable_loses_nothing),
    (skip_the_reread, test_rows_that_move_between_chunks_keep_their_large_values),
    (snapshot_before_slot, test_a_change_after_the_first_chunk_is_in_the_log),
    (compare_by_lsn, test_a_snapshot_row_is_older_than_every_change),
    (drop_the_open_last_chunk, _without_folder(test_rows_beyond_the_last_bound_are_in_the_last_chunk)),
)


@pytest.mark.parametrize(("mutate", "catch"), MUTATIONS, ids=[mutate.__name__ for mutate, _ in MUTATIONS])
def test_a_mutation_fails_its_test(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mutate: Mutation, catch: Catcher
) -> None:
    """With the mutation, the test fails: rows differ, or the log that is needed again is gone."""
    mutate(monkeypatch)
    with pytest.raises((AssertionError, SourceError)) as caught:
        catch(database, tmp_path)
    assert not isinstance(caught.value, SourceError) or "DATABASE_POSITION_LOST.SLOT_AHEAD" == caught.value.condition
