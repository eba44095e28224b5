"""Chunks whose connection, right, lock or time ends: named, and nothing stays open on the server."""

from __future__ import annotations

import threading

import psycopg2
import pytest

from framework.demo.postgres_server import PostgresServer
from framework.foundation.errors import SourceError
from framework.sources.databases.chunks import (
    Chunk,
    ChunkKind,
)
from framework.sources.databases.postgres.chunks.chunk_sql import ReadLimits
from tests.support.database_snapshots import World, make_table


def test_a_lost_connection_is_named(database: str) -> None:
    """Also in the middle of a COPY, so that the caller knows that another attempt may succeed."""
    world = World(database)
    make_table(world, 300_000)
    offset, (chunk,) = world.plan_all(chunk_bytes=10**9)
    batches = world.reader(offset, batch_bytes=50_000).batches(chunk)
    next(batches)
    world.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    with pytest.raises(SourceError) as caught:
        list(batches)
    assert "DATABASE_UNREACHABLE" == caught.value.condition


def test_a_user_without_rights_is_named(database: str, server: PostgresServer) -> None:
    """With the statement that grants them."""
    world = World(database)
    make_table(world)
    offset, (chunk, *_) = world.plan_all()
    reader_uri = server.uri(database.rsplit("/", 1)[1], user="reader")
    world.run("DO $$ BEGIN CREATE ROLE reader LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
    other = World(reader_uri)
    with pytest.raises(SourceError, match="GRANT SELECT") as caught:
        other.read(offset, chunk)
    assert "DATABASE_PERMISSION" == caught.value.condition


def test_a_locked_table_is_not_waited_for_without_end(database: str) -> None:
    """Reader and planner give up after the lock timeout."""
    world = World(database)
    make_table(world)
    offset, (chunk, *_) = world.plan_all()
    reader = world.reader(offset, limits=ReadLimits(lock_seconds=1))
    opened = psycopg2.connect(database)
    with opened.cursor() as cursor:
        cursor.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(SourceError) as caught:
            list(reader.batches(chunk))
    opened.close()
    assert "DATABASE_BUSY" == caught.value.condition


def test_a_chunk_that_takes_too_long_ends(database: str) -> None:
    """So a waiting ALTER TABLE on the source gets its turn; a chunk without bounds has no limit."""
    world = World(database)
    make_table(world, 5)
    offset, (chunk,) = world.plan_all()
    reader = world.reader(offset, limits=ReadLimits(statement_seconds=1), row_filter="pg_sleep(0.4) IS NOT NULL")
    with pytest.raises(SourceError, match="at most 1 s") as caught:
        list(reader.batches(chunk))
    assert "SNAPSHOT_CHUNK_TIMEOUT" == caught.value.condition
    whole = Chunk(number=1, kind=ChunkKind.WHOLE)
    assert 5 == sum(batch.num_rows for batch in reader.batches(whole))


def test_an_abandoned_chunk_holds_no_lock(database: str) -> None:
    """An iterator that is closed in the middle of a COPY leaves nothing open on the server."""
    world = World(database)
    make_table(world, 20_000)
    offset, (chunk,) = world.plan_all(chunk_bytes=10**9)
    batches = world.reader(offset, batch_bytes=50_000).batches(chunk)
    assert next(batches).num_rows < 20_000
    batches.close()  # type: ignore[attr-defined]  # a generator
    altered = threading.Thread(
        target=world.run, args=("SET lock_timeout = '5s'", "ALTER TABLE t ADD more integer"), daemon=True
    )
    altered.start()
    altered.join(10)
    assert not altered.is_alive()
    assert [] == world.rows(
        "SELECT query FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
        "AND state <> 'idle' AND backend_type = 'client backend'"
    )
