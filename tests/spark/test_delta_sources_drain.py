"""The state of a Delta source that is read from the log without Spark equals that of Delta's own streams."""

from __future__ import annotations

import json
import pathlib
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from framework.checkpoints.offsets import read_progress
from framework.foundation.files.storage import LocalStorage
from framework.sources.delta.log import (
    CommitMark,
    last_user_metadata,
    latest_version,
    read_tip,
)
from framework.sources.delta.source import offset_is_drained

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, kw_only=True)
class Source:
    """A Delta table and a stream that reads it."""

    spark: SparkSession
    folder: pathlib.Path

    @property
    def table(self) -> str:
        """The table's path."""
        return str(self.folder / "table")

    @property
    def storage(self) -> LocalStorage:
        """A storage that reaches the table and the checkpoint."""
        return LocalStorage(str(self.folder))

    def append(self, *, rows: int = 4, files: int = 2, **options: str) -> None:
        """Commit some rows in some files."""
        frame = self.spark.range(rows).repartition(files)
        frame.write.format("delta").mode("append").options(**options).save(self.table)

    def sql(self, statement: str) -> None:
        """Run a statement on the table, which it calls `{table}`."""
        self.spark.sql(statement.format(table=f"delta.`{self.table}`"))

    def stream(self, **options: str) -> None:
        """Read the available rows and stop."""
        frame = self.spark.readStream.format("delta").options(**options).load(self.table)
        checkpoint = str(self.folder / "checkpoint")
        writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()

    def is_drained(self) -> bool:
        """Return the planner's answer."""
        progress = read_progress(self.storage, str(self.folder / "checkpoint"))
        assert progress.is_settled
        (offset,) = progress.sources
        return offset_is_drained(offset, read_tip(self.storage, self.table))


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Source:
    """A table of three versions, 0 to 2, of two files each."""
    source = Source(spark=spark, folder=tmp_path_factory.mktemp("written"))
    for _ in range(3):
        source.append()
    return source


@pytest.fixture
def source(written: Source, tmp_path: pathlib.Path) -> Source:
    """The table in a folder of the test."""
    source = Source(spark=written.spark, folder=tmp_path)
    shutil.copytree(written.table, source.table)
    return source


def test_a_stream_drains_what_was_there_and_not_what_comes(source: Source) -> None:
    """It is drained after its run, not after another commit, and again after the next run."""
    source.stream()
    answers = [source.is_drained()]
    source.append()
    answers.append(source.is_drained())
    source.stream()
    answers.append(source.is_drained())
    assert answers == [True, False, True]


def test_commits_without_data_are_passed_by_one_run(source: Source) -> None:
    """OPTIMIZE and a changed property make the source not drained, until one run has passed over them."""
    source.stream()
    answers = []
    for statement in ("OPTIMIZE {table}", "ALTER TABLE {table} SET TBLPROPERTIES ('a.b' = 'c')"):
        source.sql(statement)
        answers.append(source.is_drained())
        source.stream()
        answers.append(source.is_drained())
    assert answers == [False, True, False, True]


@pytest.mark.parametrize(
    "options", [{"startingVersion": "1"}, {"maxFilesPerTrigger": "1"}], ids=["from a version", "in small batches"]
)
def test_a_stream_drains_however_it_is_read(source: Source, options: dict[str, str]) -> None:
    """A start in the middle and batches that end inside of a version end beyond the newest one too."""
    source.stream(**options)
    assert source.is_drained()


def test_a_change_feed_drains_like_the_table(source: Source) -> None:
    """A stream of the change feed is drained after its run, and not after an update of rows."""
    source.sql("ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    source.append()
    source.stream(readChangeFeed="true", startingVersion="3")
    answers = [source.is_drained()]
    source.sql("UPDATE {table} SET id = id + 1 WHERE id = 1")
    answers.append(source.is_drained())
    assert answers == [True, False]


def test_a_table_that_was_replaced_is_not_drained(source: Source) -> None:
    """A new table at the same path has another id: the stream must start, and report the change itself."""
    source.stream()
    source.spark.range(3).writeTo(f"delta.`{source.table}`").using("delta").createOrReplace()
    offset = json.loads(read_progress(source.storage, str(source.folder / "checkpoint")).sources[0])
    tip = read_tip(source.storage, source.table)
    assert tip is not None
    far = json.dumps(offset | {"reservoirVersion": tip.version + 1})
    assert (source.is_drained(), offset_is_drained(far, tip)) == (False, False)


def test_a_log_that_was_folded_into_a_checkpoint_tells_the_same(source: Source) -> None:
    """With log checkpoints and without the old commits, version and table id are the same."""
    source.stream()
    before = read_tip(source.storage, source.table)
    source.spark._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(  # type: ignore[union-attr]
        source.spark._jsparkSession, source.table
    ).checkpoint()
    log = pathlib.Path(source.table, "_delta_log")
    for file in [*log.glob("0*.json"), *log.glob(".0*.json.crc")]:
        file.unlink()
    assert read_tip(source.storage, source.table) == before
    assert (latest_version(source.storage, source.table), source.is_drained()) == (2, True)


def test_our_mark_is_found_behind_commits_of_others(source: Source) -> None:
    """The user metadata of our newest commit is read, OPTIMIZE after it or not."""
    source.append(userMetadata='{"sluice": {"inputs": "abc"}}')
    source.sql("OPTIMIZE {table}")
    assert last_user_metadata(source.storage, source.table) == CommitMark(version=3, content={"inputs": "abc"})
