"""Files of chunks: their rows, their statistics, and what is left of a chunk that fails."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem

from framework.foundation.errors import SourceError
from tests.support.database_snapshots import World, make_table
from tests.support.full_disk import full_disk


def test_batches_have_the_size_that_was_asked_for(database: str) -> None:
    """Memory is bounded by the batch, not by the chunk."""
    world = World(database)
    make_table(world, 20_000)
    offset, (chunk,) = world.plan_all(chunk_bytes=10**9)
    sizes = [batch.nbytes for batch in world.reader(offset, batch_bytes=100_000).batches(chunk)]
    assert len(sizes) > 15
    assert max(sizes) < 200_000


def test_a_file_has_the_rows_of_its_chunk_and_their_statistics(database: str, tmp_path: Path) -> None:
    """With the statistics that Delta keeps: bounds of what has an order, counts of NULLs, all digits of decimals."""
    world = World(database)
    columns = (
        "id integer PRIMARY KEY, n numeric(38,10), s text, f double precision, g double precision, d date, "
        "ts timestamp, tz timestamptz, b boolean, a integer[], y bytea, z text"
    )
    world.run(
        f"CREATE TABLE t ({columns})",
        "INSERT INTO t VALUES (1, 1234567890123456789012345678.0000000001, repeat('b', 40), 1.5, 'NaN', '1999-12-31', "
        r"'2020-01-01 00:00:00.0015', '2020-01-01 00:00:00.0015+00', true, '{1,2,NULL}', '\x00', NULL), "
        "(2, -5, 'a\"é', -0.25, 2, '0001-01-01', '2020-01-01', '2020-01-01 01:00+02', NULL, NULL, NULL, NULL)",
    )
    offset, (chunk,) = world.plan_all()
    reader = world.reader(offset)
    staged = reader.write_parquet(chunk, str(tmp_path), LocalFileSystem())
    assert staged.path is not None
    expected = {
        "numRecords": 2,
        "minValues": {
            "id": 1, "n": Decimal("-5.0000000000"), "s": 'a"é', "f": Decimal("-0.25"), "d": "0001-01-01",
            "ts": "2020-01-01T00:00:00.000", "tz": "2019-12-31T23:00:00.000Z",
        },
        "maxValues": {
            "id": 2, "n": Decimal("1234567890123456789012345678.0000000001"), "s": "b" * 32 + "\U0010ffff",
            "f": Decimal("1.5"), "d": "1999-12-31", "ts": "2020-01-01T00:00:00.002",
            "tz": "2020-01-01T00:00:00.002Z",
        },
        "nullCount": {
            "id": 0, "n": 0, "s": 0, "f": 0, "g": 0, "d": 0, "ts": 0, "tz": 0, "b": 1, "a": 1, "y": 1, "z": 2,
        },
    }  # fmt: skip
    assert expected == json.loads(staged.stats, parse_float=Decimal)
    read = pa.Table.from_batches(reader.batches(chunk))
    assert read.drop_columns("g") == pq.read_table(staged.path).drop_columns("g")  # NaN equals nothing
    assert (2, Path(staged.path).stat().st_size) == (staged.rows, staged.bytes)


def test_a_chunk_that_is_read_twice_gives_two_files(database: str, tmp_path: Path) -> None:
    """No attempt changes a file that another one has written and that may be committed."""
    world = World(database)
    make_table(world, 5)
    offset, (chunk,) = world.plan_all(generation=3)
    first, second = (world.reader(offset).write_parquet(chunk, str(tmp_path), LocalFileSystem()) for _ in range(2))
    assert first.path != second.path
    assert first.stats == second.stats
    assert all("snapshot-0003-00000001-" in str(staged.path) for staged in (first, second))


def test_a_chunk_without_rows_has_no_file(database: str, tmp_path: Path) -> None:
    """Nothing is written."""
    world = World(database)
    make_table(world, 0)
    offset, (chunk,) = world.plan_all()
    staged = world.reader(offset).write_parquet(chunk, str(tmp_path), LocalFileSystem())
    assert (None, 0, 0, {"numRecords": 0}) == (staged.path, staged.rows, staged.bytes, json.loads(staged.stats))
    assert [] == list(tmp_path.iterdir())


def test_a_chunk_that_fails_leaves_no_file(database: str, tmp_path: Path) -> None:
    """A value that the type can't hold, or a filter that fails, ends the file that was begun."""
    world = World(database)
    make_table(world, 800_000)
    offset, (chunk,) = world.plan_all(chunk_bytes=10**9)
    reader = world.reader(offset, row_filter="1 / (label - 799999) IS NOT NULL")
    with pytest.raises(SourceError):
        reader.write_parquet(chunk, str(tmp_path), LocalFileSystem())
    assert [] == list(tmp_path.iterdir())


def test_a_full_disk_ends_a_chunk_which_is_read_again(database: str, tmp_path: Path) -> None:
    """No part of a file is left, and with space again the chunk has all of its rows."""
    world = World(database)
    make_table(world, 50_000)
    offset, (chunk,) = world.plan_all(chunk_bytes=10**9)
    reader = world.reader(offset)
    with full_disk(10_000), pytest.raises(OSError, match="too large"):
        reader.write_parquet(chunk, str(tmp_path), LocalFileSystem())
    assert [] == list(tmp_path.iterdir())
    assert 50_000 == reader.write_parquet(chunk, str(tmp_path), LocalFileSystem()).rows
