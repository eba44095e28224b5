"""Each kind of streaming source passes the conformance suite, and its own tests."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from framework.foundation.files.storage import LocalStorage
from framework.sources.cloud_files.columns.schemas import schemas_of
from framework.sources.cloud_files.relation import stand_in
from framework.sources.kinds import flow_gaps
from framework.sources.port import Gap, Lag
from framework.sources.stored_lag import flow_lag
from framework.testing.source_conformance import SourceConformance, SourceReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, kw_only=True)
class DeltaContent:
    """A Delta table; each `append` commits ten rows in one file."""

    spark: SparkSession
    path: str
    kind: str = "delta"

    @property
    def starts(self) -> Mapping[str, str]:
        """The last version, and the time of its commit."""
        last = max(Path(self.path, "_delta_log").glob("*.json"))
        time = datetime.fromtimestamp(last.stat().st_mtime, UTC).isoformat(timespec="milliseconds")
        return {"startingVersion": str(int(last.stem)), "startingTimestamp": time}

    def append(self) -> None:
        """Commit ten rows."""
        self.spark.range(10).coalesce(1).write.format("delta").mode("append").save(self.path)

    def frame(self, options: Mapping[str, str]) -> DataFrame:
        """The table as a stream."""
        return self.spark.readStream.format("delta").options(**options).load(self.path)


@dataclass(frozen=True, kw_only=True)
class FileContent:
    """A folder of JSON files; each `append` adds one file."""

    spark: SparkSession
    folder: Path
    kind: str = "files"
    starts: Mapping[str, str] = field(default_factory=dict)

    def append(self) -> None:
        """Add a file of two rows."""
        self.folder.mkdir(exist_ok=True)
        number = len(list(self.folder.iterdir()))
        (self.folder / f"{number:03d}.json").write_text('{"id": 1}\n{"id": 2}\n', "utf-8")

    def frame(self, options: Mapping[str, str]) -> DataFrame:
        """The folder as a stream."""
        return self.spark.readStream.schema("id LONG").options(**options).json(str(self.folder))


@dataclass(frozen=True, kw_only=True)
class CloudFilesContent:
    """A folder of JSON files for `cloudFiles`; each `append` adds one file."""

    spark: SparkSession
    folder: Path
    storage: LocalStorage
    kind: str = "cloud_files"

    @property
    def starts(self) -> Mapping[str, str]:
        """The time just before the last file."""
        last = max(self.folder.iterdir()).stat().st_mtime
        return {"modifiedAfter": datetime.fromtimestamp(last - 0.5, UTC).isoformat()}

    def append(self) -> None:
        """Add a file of two rows, a second after the last one."""
        self.folder.mkdir(exist_ok=True)
        number = len(list(self.folder.iterdir()))
        path = self.folder / f"{number:03d}.json"
        path.write_text('{"id": 1}\n{"id": 2}\n', "utf-8")
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))

    def frame(self, options: Mapping[str, str]) -> DataFrame:
        """The folder as a stream."""
        given = {"cloudfiles.format": "json", **{name.lower(): value for name, value in options.items()}}
        schema = StructType([StructField("id", LongType())])
        return stand_in(self.spark, str(self.folder), given, schema, schemas_of(self.storage))


@dataclass(frozen=True, kw_only=True)
class RateContent:
    """Spark's rate source by micro-batch, which is of unknown kind."""

    spark: SparkSession
    kind: str = "opaque"
    starts: Mapping[str, str] = field(default_factory=dict)

    def append(self) -> None:
        """Do nothing: the source creates rows itself."""

    def frame(self, options: Mapping[str, str]) -> DataFrame:
        """Two rows for each micro-batch."""
        return self.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 2).options(**options).load()


class TestDelta(SourceConformance):
    """The suite for Delta tables."""

    @pytest.fixture
    def content(self, spark: SparkSession, tmp_path: Path) -> DeltaContent:
        """A table of one version."""
        content = DeltaContent(spark=spark, path=str(tmp_path / "table"))
        content.append()
        return content


class TestFiles(SourceConformance):
    """The suite for folders of files."""

    @pytest.fixture
    def content(self, spark: SparkSession, tmp_path: Path) -> FileContent:
        """A folder that is filled later."""
        return FileContent(spark=spark, folder=tmp_path / "folder")


class TestCloudFiles(SourceConformance):
    """The suite for folders that `cloudFiles` reads."""

    @pytest.fixture
    def content(self, spark: SparkSession, tmp_path: Path) -> CloudFilesContent:
        """A folder that is filled later."""
        return CloudFilesContent(spark=spark, folder=tmp_path / "folder", storage=LocalStorage(str(tmp_path)))


class TestOpaque(SourceConformance):
    """The suite for sources of unknown kind."""

    @pytest.fixture
    def content(self, spark: SparkSession) -> RateContent:
        """A source that always has more."""
        return RateContent(spark=spark)


def test_the_lag_behind_a_delta_table_counts_rows_and_bytes_of_unread_commits(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Two commits of ten rows each, their bytes, and the age of the older one."""
    content = DeltaContent(spark=spark, path=str(tmp_path / "table"))
    content.append()
    reader = SourceReader(content=content, folder=tmp_path)
    reader.drain()
    content.append()
    content.append()
    files = sorted(Path(content.path).glob("*.parquet"), key=lambda file: file.stat().st_mtime)[1:]
    lag = flow_lag(reader.storage, reader.checkpoint, reader.sources, now=4_000_000_000.0)
    assert lag == Lag(records=20, bytes=sum(file.stat().st_size for file in files), seconds=lag.seconds)
    assert lag.seconds is not None
    assert lag.seconds > 1_000_000_000


def test_a_gap_names_what_a_delta_stream_would_fail_with(spark: SparkSession, tmp_path: Path) -> None:
    """A log that was cleaned beyond the position, and a table that was replaced by another."""
    content = DeltaContent(spark=spark, path=str(tmp_path / "table"))
    content.append()
    reader = SourceReader(content=content, folder=tmp_path)
    reader.drain()
    content.append()
    content.append()
    sources = reader.sources
    log = Path(content.path, "_delta_log")
    (log / f"{1:020d}.json").unlink()
    cleaned = flow_gaps(reader.storage, reader.checkpoint, sources)
    spark.sql(f"CREATE OR REPLACE TABLE delta.`{tmp_path}/other` (id LONG) USING DELTA")
    Path(content.path).rename(tmp_path / "away")
    Path(tmp_path, "other").rename(content.path)
    replaced = flow_gaps(reader.storage, reader.checkpoint, sources)
    assert [cleaned, replaced] == [
        (
            Gap(
                condition="DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE",
                location=content.path,
                problem="The Delta log starts at version 0, but the checkpoint needs version 1.",
            ),
        ),
        (
            Gap(
                condition="DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE",
                location=content.path,
                problem="The table was replaced after the last run of the flow.",
            ),
        ),
    ]
