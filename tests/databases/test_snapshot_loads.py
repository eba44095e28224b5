"""Snapshots into targets of AUTO CDC: the files of the chunks become the target's, with the hidden column in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from math import isnan
from pathlib import Path
from shutil import copy
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import StructType

from framework import Pipeline
from framework.cdc.delta.transaction import Transaction
from framework.cdc.model.equality import fingerprint
from framework.cdc.model.metrics import CdcMetrics
from framework.cdc.model.reserved_names import HIDDEN_COLUMN
from framework.engine.delta.new_files import NewFile
from framework.engine.delta.transaction_identifiers import Batch, RowChangedError
from framework.foundation.errors import OperationError
from framework.foundation.failpoints import arm, disarm
from framework.foundation.files.local_storage import LocalStorage
from framework.foundation.table_address import TableAddress
from framework.run.tables.appended_files import TableAppend
from framework.run.update.results import UpdateState
from framework.sources.databases.streams import staged_stream
from tests.support.copied_tables import copy_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run = Callable[..., list[tuple[Any, ...]]]
COLUMNS = "id, small, amount, price, day, flag, code, label"
MODULE = """
from pyspark.sql import functions as F
from framework import pipelines as dp

def items(**options):
    reader = spark.readStream.format("postgres_snapshot").option("connection", "bank").option("table", "items")
    reader = reader.option("connectionsFolder", spark.conf.get("bank.folder")).option("chunkBytes", "150k")
    return reader.option("maxChunksPerTrigger", 2).options(**options).load()

dp.create_streaming_table("copied")

@dp.snapshot_flow(
    target="copied", keys=["id"], sequence_by="struct(generation, position)", name="copied_snapshot_flow",
    except_column_list=["generation", "position"],
)
def copied_snapshot():
    return items().selectExpr("*", "1L AS generation", "0L AS position")
"""
CONTESTED = (
    MODULE
    + """
@dp.snapshot_flow(
    target="copied", keys=["id"], sequence_by="struct(generation, position)", name="newer_flow",
    except_column_list=["generation", "position"],
)
def newer():
    rows = items(rowFilter="id % 100 = 0", maxChunksPerTrigger=9).withColumn("label", F.lit("newer"))
    return rows.selectExpr("*", "1L AS generation", "1L AS position")
"""
)

DELETED = """
@dp.auto_cdc_flow(
    target="copied", keys=["id"], sequence_by="struct(generation, position)", name="deleted_flow",
    apply_as_deletes="true", except_column_list=["generation", "position"],
)
def deleted():
    return items(rowFilter="id % 100 = 50", maxChunksPerTrigger=9).selectExpr("*", "1L AS generation", "1L AS position")
"""
APPENDED = f"{MODULE.partition('dp.create')[0]}@dp.table\ndef copied():\n    return items()\n"
BY_ROWS = APPENDED.replace("items()\n", "items(rowFilter=FILTER).where('rand() >= 0')\n")
COMPUTED = APPENDED.replace("items()\n", "items().withColumn('label', F.col('label'))\n")
FAILS_LATER = "1 / CASE WHEN id > 3000 THEN 0 ELSE 1 END = 1"


@pytest.fixture
def items(run: Run, request: pytest.FixtureRequest) -> list[tuple[Any, ...]]:
    """The rows of a table: 6000 are six chunks in three batches, as many as the parameter says."""
    rows = getattr(request, "param", 6000)
    run(
        "CREATE TABLE items (id BIGINT PRIMARY KEY, small SMALLINT, amount NUMERIC(12,2), price DOUBLE PRECISION, "
        "seen TIMESTAMPTZ, day DATE, flag BOOLEAN, code CHAR(4), blob BYTEA, label TEXT)"
    )
    run(
        "INSERT INTO items SELECT i, i %% 100, i * -1.25, CASE WHEN i %% 7 = 0 THEN NULL WHEN i %% 7 = 1 THEN 'NaN' "
        "WHEN i %% 7 = 2 THEN '-0'::float8 ELSE i / 3.0::float8 END, "
        "timestamptz '1492-10-12 10:00:00.123456+00' + i * interval '30 days', "
        "date '0001-01-01' + i, i %% 3 = 0, 'c' || i %% 10, decode(lpad(to_hex(i), 8, '0'), 'hex'), "
        "CASE WHEN i %% 5 = 0 THEN NULL ELSE repeat('é', i %% 60) END FROM generate_series(1, %s) AS i",
        rows,
    )
    run("ANALYZE items")
    return run(f"SELECT {COLUMNS.replace('price', 'price::text')} FROM items ORDER BY id")


@pytest.fixture
def pipeline(interpreting: SparkSession, folder: Path) -> Callable[[str], Pipeline]:
    """Makes a pipeline of a module."""

    def make(module: str) -> Pipeline:
        (folder / "module.py").write_text(module, "utf-8")
        return Pipeline(
            name="loads", modules=[folder / "module.py"], storage=str(folder / "storage"),
            configuration={"bank.folder": str(folder)}, spark=interpreting,
        )  # fmt: skip

    return make


def test_files_of_chunks_become_the_target(
    pipeline: Callable[[str], Pipeline], folder: Path, items: list[tuple[Any, ...]], swap: pytest.MonkeyPatch
) -> None:
    """Each batch adds its files as they are, and the hidden column is the one that AUTO CDC computes.

    Also if a commit was reported as a conflict: the log says whether it is done. Of a table with many files, which the
    last batch finds, Delta does not list all in each commit; then it is asked for those of the keys.
    """
    commit, reported = Transaction.commit, list[int]()

    def commit_and_conflict(self: Transaction, batch: Batch | None, counts: CdcMetrics) -> None:
        commit(self, batch, counts)
        if not reported:
            reported.append(counts.rows)
            raise RowChangedError

    made = pipeline(MODULE)
    made.spark.conf.set("spark.databricks.delta.allFilesInCrc.thresholdNumFiles", "2")
    with swap.context() as during:
        in_tasks(during)
        during.setattr(Transaction, "commit", commit_and_conflict)
        result = made.run()
    assert result.state is UpdateState.COMPLETED, result
    assert items == rows_of(made)
    assert len(reported) == 1
    assert len(files_added(folder)) > 4
    assert all(name.startswith("snapshot-") for name in files_added(folder))
    assert [] == left_in(folder)
    assert_is_stamped(made, folder)
    assert made.run().state is UpdateState.COMPLETED
    assert items == rows_of(made)


def test_attempts_that_die_leave_neither_rows_nor_files(
    pipeline: Callable[[str], Pipeline], folder: Path, run: Run, items: list[tuple[Any, ...]]
) -> None:
    """Before and after the commit, and before the checkpoint has the batch.

    The reader of a chunk gives up on values that are too long for a hash; then the batch is applied as events.
    """
    run("UPDATE items SET label = repeat('long', 100000) WHERE id = 6000")
    expected = [row if row[0] != 6000 else (*row[:-1], "long" * 100_000) for row in items]
    made = pipeline(MODULE)

    def die() -> None:
        raise SystemError

    for window, nth in (("staging.after_files", 2), ("cdc.after_merge", 1), ("staging.after_commit", 1)):
        arm(window, nth=nth, action=die)
        try:
            assert made.run().state is not UpdateState.COMPLETED
        finally:
            disarm()
    assert made.run().state is UpdateState.COMPLETED
    assert expected == rows_of(made)
    assert any(not name.startswith("snapshot-") for name in files_added(folder))
    assert_is_stamped(made, folder)
    assert [] == left_in(folder)


@pytest.mark.parametrize("items", [2000], indirect=True)
@pytest.mark.parametrize("module", [MODULE, APPENDED, COMPUTED])
def test_files_of_the_tasks_beside_one_that_failed_are_deleted_by_the_next_update(
    pipeline: Callable[[str], Pipeline], folder: Path, run: Run, items: list[tuple[Any, ...]], *,
    swap: pytest.MonkeyPatch, module: str,
) -> None:  # fmt: skip
    """Whether they are in the folder of the table or of the flow; also where no task reads them."""
    if module is not APPENDED:
        in_tasks(swap)
    run("UPDATE items SET amount = 'NaN' WHERE id = 1500")  # in the second of the two chunks of a batch
    made = pipeline(module)
    assert made.run().state is UpdateState.FAILED
    assert len(left_in(folder)) == 1
    run("UPDATE items SET amount = -1875 WHERE id = 1500")
    assert made.run().state is UpdateState.COMPLETED
    assert items == rows_of(made)
    assert left_in(folder) == []


def test_a_batch_that_another_attempt_committed_meanwhile_is_not_committed_again(
    pipeline: Callable[[str], Pipeline], folder: Path, items: list[tuple[Any, ...]]
) -> None:
    """An attempt that was taken for dead commits the batch while this one reads it; the rows are there once."""
    made = pipeline(APPENDED)
    arm("staging.after_files", nth=2, action=lambda: commit_copies(made, folder))
    try:
        result = made.run()
    finally:
        disarm()
    assert result.state is UpdateState.COMPLETED, result
    assert items == rows_of(made)
    assert [name for name in files_added(folder) if name.startswith("other-")]
    assert made.run().state is UpdateState.COMPLETED
    assert items == rows_of(made)
    assert [] == left_in(folder)


@pytest.mark.parametrize("items", [2000], indirect=True)
def test_a_batch_that_fails_keeps_its_error(
    pipeline: Callable[[str], Pipeline], folder: Path, items: list[tuple[Any, ...]], swap: pytest.MonkeyPatch
) -> None:
    """Also where its files can't be deleted; the next start does it."""
    delete = LocalStorage.delete_tree

    def refuse(self: LocalStorage, path: str) -> None:
        if "/snapshot-" in path:
            raise OperationError("STORAGE_NOT_WRITABLE", path=path, problem="it is read-only")
        delete(self, path)

    def die(*_: object) -> bool:
        raise SystemError(fault)

    made, fault = pipeline(APPENDED), "the fault of the batch"
    with swap.context() as during:
        during.setattr(LocalStorage, "delete_tree", refuse)
        during.setattr(TableAppend, "takes_files", die)
        result = made.run()
    (error,) = [flow.error for flow in result.flows]
    assert error is not None
    assert fault in str(error)
    assert "STORAGE_NOT_WRITABLE" not in str(error)
    assert made.run().state is UpdateState.COMPLETED
    assert items == rows_of(made)
    assert left_in(folder) == []


@pytest.mark.parametrize("is_ahead", [True, False])
def test_files_that_another_attempt_may_commit_are_not_deleted(
    pipeline: Callable[[str], Pipeline], folder: Path, items: list[tuple[Any, ...]], *, is_ahead: bool
) -> None:
    """It has planned the batch after one that is committed, or this one committed nothing; later they are deleted."""
    made = pipeline(MODULE if is_ahead else MODULE.replace("items().", "items(rowFilter='id > 3000')."))
    prefix = f"snapshot-{sha256(b'loads:main.default.copied_snapshot_flow').hexdigest()[:12]}"
    file, was_there = table_folder(folder) / f"{prefix}-attempt.parquet", list[bool]()

    def stage() -> None:
        file.write_bytes(b"rows")
        if is_ahead:
            (offsets,) = (folder / "storage" / "checkpoints").rglob("offsets")
            (offsets / "1").write_text((offsets / "0").read_text("utf-8"), "utf-8")
        arm("staging.after_files", action=lambda: was_there.append(file.exists()))

    arm("staging.after_commit" if is_ahead else "staging.after_files", action=stage)
    try:
        result = made.run()
        if is_ahead:  # each sees the plan of the other
            assert result.state is not UpdateState.COMPLETED
            result = made.run()
        else:
            assert [3000] == [flow.rows_written for flow in result.flows]
    finally:
        disarm()
    assert result.state is UpdateState.COMPLETED, result
    assert was_there == [True]
    assert rows_of(made) == items[0 if is_ahead else 3000 :]
    assert all(name.startswith(prefix) for name in files_added(folder))
    assert left_in(folder) == []


def test_rows_that_the_target_has_are_compared(
    pipeline: Callable[[str], Pipeline], folder: Path, items: list[tuple[Any, ...]]
) -> None:
    """A batch with keys that may be in the target is applied as events; the newest of a key counts."""
    made = pipeline(CONTESTED)
    result = made.run()
    assert result.state is UpdateState.COMPLETED, result
    expected = [(*row[:-1], "newer") if row[0] % 100 == 0 else row for row in items]
    assert expected == rows_of(made)
    assert_is_stamped(made, folder)
    assert [] == left_in(folder)


@pytest.mark.parametrize("items", [2000], indirect=True)
def test_a_row_that_is_deleted_before_its_chunk_stays_deleted(
    pipeline: Callable[[str], Pipeline], items: list[tuple[Any, ...]]
) -> None:
    """The target has no row of the key, but a tombstone that is newer than the file of the chunk."""
    assert pipeline(MODULE.partition("@dp.snapshot_flow")[0] + DELETED).run().state is UpdateState.COMPLETED
    made = pipeline(MODULE + DELETED)
    assert made.run().state is UpdateState.COMPLETED
    assert [row for row in items if row[0] % 100 != 50] == rows_of(made)


def test_a_checkpoint_goes_on_in_files_or_rows(
    pipeline: Callable[[str], Pipeline], items: list[tuple[Any, ...]]
) -> None:
    """A flow whose query changes to one that can have its source in files, or can't, goes on where it was."""
    by_rows = f"FILTER = '{FAILS_LATER}'\n{BY_ROWS}"
    assert pipeline(by_rows).run().state is not UpdateState.COMPLETED
    begun = len(rows_of(pipeline(by_rows)))
    assert 0 < begun < len(items)

    def die() -> None:
        raise SystemError

    arm("staging.after_files", nth=2, action=die)
    try:
        assert pipeline(APPENDED).run().state is not UpdateState.COMPLETED
    finally:
        disarm()
    assert begun < len(rows_of(pipeline(APPENDED))) < len(items)
    made = pipeline(f"FILTER = 'true'\n{BY_ROWS}")
    assert made.run().state is UpdateState.COMPLETED
    assert items == rows_of(made)


def in_tasks(swap: pytest.MonkeyPatch) -> None:
    """Have all chunks read in tasks, also those of few rows."""
    swap.setattr(staged_stream, "_FEW_ROWS", -1)


def commit_copies(pipeline: Pipeline, folder: Path) -> None:
    """Commit the files of the last batch under other names, as another attempt at this batch."""
    checkpoint = next((folder / "storage" / "checkpoints").rglob("metadata")).parent
    number = max(int(path.name) for path in (checkpoint / "offsets").iterdir() if path.name.isdecimal())
    known, copies = set(files_added(folder)), list[NewFile]()
    for path in table_folder(folder).glob("snapshot-*.parquet"):
        if path.name not in known:
            copied = Path(copy(path, path.with_name(f"other-{path.name}")))
            rows = pq.ParquetFile(copied).metadata.num_rows
            statistics = json.dumps({"numRecords": rows})
            copies.append(NewFile(name=copied.name, rows=rows, bytes=copied.stat().st_size, statistics=statistics))
    query_id = json.loads((checkpoint / "metadata").read_text("utf-8"))["id"]
    address = TableAddress(path=str(table_folder(folder)))
    TableAppend.begin(pipeline.spark, address, query_id, number).append_files(copies)


def rows_of(pipeline: Pipeline) -> list[tuple[Any, ...]]:
    """The rows of the target, with prices as texts: NaN equals nothing, and zero has a sign."""
    found = sorted(copy_rows(pipeline, "copied", "default"), key=lambda row: row.id)
    values = ([row[name] for name in COLUMNS.split(", ")] for row in found)
    return [tuple(_text(value) if isinstance(value, float) else value for value in row) for row in values]


def _text(price: float) -> str:
    if isnan(price):
        return "NaN"
    return repr(price).removesuffix(".0")


def assert_is_stamped(pipeline: Pipeline, folder: Path) -> None:
    """Each row's hidden column has its sequence and the fingerprint of its values, as Spark computes it."""
    stored = pipeline.spark.read.format("delta").load(str(table_folder(folder)))
    values = [field for field in stored.schema.fields if field.name not in {"id", HIDDEN_COLUMN}]
    assert isinstance(stored.schema[HIDDEN_COLUMN].dataType, StructType)
    content = stored[HIDDEN_COLUMN]["content"]
    unlike = content.isNull() | (content != fingerprint(values))
    sequence = stored[HIDDEN_COLUMN]["sequence"]
    position = stored.label == "newer"
    wrong = (sequence["part1"] != 1) | (sequence["part2"] != position.cast("bigint"))
    assert 0 == stored.where(unlike | sequence.isNull() | (position.isNotNull() & wrong)).count()


def table_folder(folder: Path) -> Path:
    """The folder of the target."""
    return folder / "storage" / "tables" / "main" / "default" / "copied"


def files_added(folder: Path) -> list[str]:
    """The names of all files that were ever added to the target."""
    commits = sorted((table_folder(folder) / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for commit in commits for line in commit.read_text("utf-8").splitlines()]
    return [action["add"]["path"] for action in actions if "add" in action]


def left_in(folder: Path) -> list[Path]:
    """Files of chunks that the target does not have."""
    known = set(files_added(folder))
    in_table = [path for path in table_folder(folder).glob("snapshot-*") if path.name not in known]
    return [*in_table, *(folder / "storage" / "staged").rglob("*.parquet")]
