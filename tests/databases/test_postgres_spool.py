"""The spool writes batches of any size in bounded memory, and shows whole ones only."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from framework.sources.databases.postgres.log.pgoutput import Begin, Relation
from framework.sources.databases.streams import changes_stream
from framework.sources.databases.streams.change_rows import ChangeBuffer, ChangeKind
from framework.sources.databases.streams.changes_stream import ChangesStreamReader, SpooledPartition
from framework.sources.databases.streams.spool import SCHEMA, Spool, SpooledFile, SpoolLimits, SpoolWriter
from tests.support.full_disk import full_disk
from tests.support.postgres_log import execute, name, position, reader, rows_of

_RELATION = Relation(1, name("t"), "d", ())
_KINDS = [ChangeKind(_RELATION, operation) for operation in ("INSERT", "UPDATE", "DELETE", "TRUNCATE")]
_TIME = 1_700_000_000_123_456


def _writer(spool: Spool, buffer: ChangeBuffer) -> SpoolWriter:
    return SpoolWriter(spool, generation=3, buffer=buffer, kinds=_KINDS, complete=lambda _: 0)


def _fill(writer: SpoolWriter, buffer: ChangeBuffer, sizes: list[int]) -> None:
    for n, size in enumerate(sizes):
        writer.begin(Begin(100 + n, _TIME + n, 1))
        for ordinal in range(size):
            buffer.kinds.append(ordinal % 4)
            buffer.payloads.append(None if ordinal % 4 == 3 else f'{{"id":{ordinal}}}')
            writer.relieve(most_pending=1)
        writer.commit()


def test_rows_have_their_position_and_ordinal_across_row_groups(tmp_path: Path) -> None:
    """A transaction over several row groups and files goes on with its ordinals."""
    spool, buffer = Spool(tmp_path / "spool", SpoolLimits(group_rows=4, file_rows=9)), ChangeBuffer()
    writer = _writer(spool, buffer)
    sizes = [3, 0, 25, 1]
    _fill(writer, buffer, sizes)
    batch = writer.seal(50, 200, caught_up=True)
    rows = rows_of(batch)
    assert [(100 + n, ordinal) for n, size in enumerate(sizes) for ordinal in range(size)] == [
        (row["position"], row["ordinal"]) for row in rows
    ]
    assert {
        "source_table": "public.t",
        "operation": "DELETE",
        "generation": 3,
        "position": 100,
        "ordinal": 2,
        "commit_time": datetime.fromtimestamp(_TIME // 10**6, UTC).replace(microsecond=_TIME % 10**6),
        "schema_version": _RELATION.schema_version,
        "payload": '{"id":2}',
    } == rows[2]
    assert (29, 3, {"public.t": 29}) == (batch.rows, batch.transactions, batch.rows_by_table)
    assert 29 == sum(file.rows for file in batch.files)
    assert 1 < len(batch.files)
    assert all(SCHEMA.equals(pq.read_schema(file.path)) for file in batch.files)
    assert (_RELATION,) == batch.relations


@pytest.mark.parametrize(("rows", "parts"), [(1, 1), (199_999, 1), (200_000, 2), (900_000, 4)])
def test_a_large_file_is_read_in_parts_that_have_each_row_once(tmp_path: Path, rows: int, parts: int) -> None:
    """The parts are row groups in the order of the file; a group is never cut, and no part is empty."""
    file = tmp_path / "part-00000.parquet"
    numbers = pa.table({"number": range(rows)})
    pq.write_table(numbers, file, row_group_size=20_000)
    groups = pq.ParquetFile(file).num_row_groups
    found = list(SpooledPartition.of(SpooledFile(path=file, rows=rows, groups=groups, bytes=file.stat().st_size)))
    reader = ChangesStreamReader.__new__(ChangesStreamReader)  # a task has no request
    read = [pa.Table.from_batches(reader.read(part)) for part in found]
    assert len(read) == parts
    assert all(part.num_rows for part in read)
    assert pa.concat_tables(read).equals(numbers)
    one_group = SpooledFile(path=file, rows=rows, groups=1, bytes=1)
    assert [part.groups for part in SpooledPartition.of(one_group)] == [range(1)]


def test_a_batch_without_rows_has_no_files(tmp_path: Path) -> None:
    """Its positions are all there is."""
    spool, buffer = Spool(tmp_path / "spool"), ChangeBuffer()
    batch = _writer(spool, buffer).seal(1, 2, caught_up=True)
    assert ((), 0, 0) == (batch.files, batch.rows, batch.transactions)
    assert [] == list(spool.folder.iterdir())


def test_half_a_batch_is_never_shown(tmp_path: Path) -> None:
    """An unfinished batch has no name of a batch, and the next process removes it."""
    folder = tmp_path / "spool"
    spool, buffer = Spool(folder, SpoolLimits(group_rows=2)), ChangeBuffer()
    writer = _writer(spool, buffer)
    _fill(writer, buffer, [5])
    assert ["unfinished"] == [path.name.partition("-")[0] for path in folder.iterdir()]
    spool.remove_until(10**9)
    assert 1 == len(list(folder.iterdir()))
    Spool(folder)
    assert [] == list(folder.iterdir())


def test_a_discarded_batch_leaves_nothing(tmp_path: Path) -> None:
    """The rows are read from the log again."""
    spool, buffer = Spool(tmp_path / "spool", SpoolLimits(group_rows=2)), ChangeBuffer()
    writer = _writer(spool, buffer)
    _fill(writer, buffer, [5])
    writer.discard()
    assert [] == list(spool.folder.iterdir())


def test_files_are_removed_up_to_the_acknowledged_position(tmp_path: Path) -> None:
    """Later batches stay."""
    spool, buffer = Spool(tmp_path / "spool"), ChangeBuffer()
    batches = []
    for start, end in ((1, 20), (20, 300), (300, 4000)):
        writer = _writer(spool, buffer)
        _fill(writer, buffer, [2])
        batches.append(writer.seal(start, end, caught_up=False))
    spool.remove_until(300)
    assert [False, False, True] == [batch.files[0].path.exists() for batch in batches]
    assert batches[2].files[0].bytes == batches[2].files[0].path.stat().st_size


# The peak is that of the process's own memory: `ru_maxrss` starts with the memory of the process that forked it.
_CHILD = """
import json, re, sys
from pathlib import Path
from tests.support.postgres_log import position, reader
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text()).group(1))
uri, folder = sys.argv[1], Path(sys.argv[2])
start = position(uri, "t")
log = reader(uri, start, folder)
first = log.read_transactions(start.lsn)
before = peak()
print("ready", flush=True)
sys.stdin.readline()
batch = log.read_transactions(first.end)
after = peak()
log.close()
print(json.dumps([batch.rows, after - before, after, [str(file.path) for file in batch.files]]))
"""


def test_a_large_transaction_needs_bounded_memory(database: str, tmp_path: Path) -> None:
    """A transaction of half a million rows, 100 MB, takes 100 MB more than an empty read, and 400 MB in all."""
    execute(database, "CREATE TABLE t (id int PRIMARY KEY, a text, b text, c int)")
    child = subprocess.Popen(
        [sys.executable, "-c", _CHILD, database, str(tmp_path / "spool")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    values = "SELECT i, repeat('a', 80), repeat('b', 80), i FROM generate_series(1, 500000) AS i"
    execute(database, f"INSERT INTO t {values}")
    output, _ = child.communicate("go\n", timeout=120)
    rows, more, kilobytes, files = json.loads(output)
    assert 500_000 == rows
    assert more < 100 * 1024
    assert kilobytes < 400 * 1024
    table = pa.concat_tables([pq.read_table(path, columns=["ordinal"]) for path in files])
    assert list(range(500_000)) == table["ordinal"].to_pylist()


def test_a_full_disk_ends_a_read_which_gives_the_same_rows_again(database: str, tmp_path: Path) -> None:
    """Nothing is acknowledged and no part of the batch is left; with space again it is whole."""
    execute(database, "CREATE TABLE t (id int PRIMARY KEY, a text)")
    start = position(database, "t")
    execute(database, "INSERT INTO t SELECT i, md5(i::text) FROM generate_series(1, 20000) AS i")
    log = reader(database, start, tmp_path / "spool")
    with full_disk(10_000), pytest.raises(OSError, match="too large"):
        log.read_transactions(start.lsn)
    assert [] == list((tmp_path / "spool").iterdir())
    (file,) = log.read_transactions(start.lsn).files
    log.close()
    assert list(range(20_000)) == pq.read_table(file.path, columns=["ordinal"])["ordinal"].to_pylist()


@pytest.mark.parametrize("mask", [0o000, 0o022])
def test_other_users_can_not_read_a_spool(swap: pytest.MonkeyPatch, mask: int) -> None:
    """Whatever the umask: as `nobody`, if the test may become another user, and by the modes of the folders."""
    shared = Path(tempfile.mkdtemp())  # pytest's own folders are private
    shared.chmod(0o755)
    swap.setattr(tempfile, "tempdir", str(shared))
    before = os.umask(mask)
    try:
        left = changes_stream.spool_folder(None)
        (left / "0-1").mkdir()
        spool, made, buffer = Spool(left), Spool(shared / "made"), ChangeBuffer()
        batches = []
        for each in (spool, made):
            writer = _writer(each, buffer)
            _fill(writer, buffer, [3])
            batches.append(writer.seal(50, 200, caught_up=True))
    finally:
        os.umask(before)
    assert [path.name for path in left.iterdir()] == ["0000000000000032-00000000000000c8"]
    assert {0o700} == {stat.S_IMODE(each.folder.stat().st_mode) for each in (spool, made)}
    for batch in batches:
        path = batch.files[0].path
        assert path.is_file()
        if os.getuid() == 0:
            asked = [sys.executable, "-c", f"import os; os.setuid(65534); print(os.path.exists({str(path)!r}))"]
            assert subprocess.run(asked, capture_output=True, check=True, text=True).stdout == "False\n"
    shutil.rmtree(shared)
