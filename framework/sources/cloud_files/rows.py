"""The rows of a batch of files: a native read, plus the rescued data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from framework.engine.plans.relations import as_stream
from framework.foundation.files.local_storage import LocalStorage
from framework.foundation.files.storage_port import Storage
from framework.sources.cloud_files.columns.apart import read_exactly, read_without_first
from framework.sources.cloud_files.columns.file_columns import Variant, header_columns
from framework.sources.cloud_files.columns.file_groups import FileGroup
from framework.sources.cloud_files.columns.headers import header_groups
from framework.sources.cloud_files.columns.read_columns import ReadColumns, read_columns
from framework.sources.cloud_files.columns.rescue import RECORD, misfits, rescued_data
from framework.sources.cloud_files.columns.schemas import FileSchema
from framework.sources.cloud_files.files.folders import folder_text, new_folders
from framework.sources.cloud_files.files.manifest import manifest_reader, write_manifest
from framework.sources.cloud_files.settings.options import ASKS_IN_TASKS, RECORDS_OF_TEXT, CloudFilesOptions, local_path

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.readwriter import DataFrameReader


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReader:
    """Reads batches of one source.

    Args:
        spark: the session of the flow.
        options: the options of the source.
        schema: the columns of the stream.
        storage: keeps the list of the files of a batch while it is read.
        folder: the folder of the lists.
        with_metadata: whether the stream has Spark's column `_metadata`.
        streams: whether the rows belong to a stream.
    """

    spark: SparkSession
    options: CloudFilesOptions
    schema: FileSchema
    storage: Storage
    folder: str
    with_metadata: bool
    streams: bool = True

    def rows(self, name: str, groups: Sequence[FileGroup]) -> DataFrame:
        """Return the rows of some files as a streaming DataFrame, with the columns of the stream.

        Args:
            name: of the batch.
            groups: its files, by the columns that they have.
        """
        folder = write_manifest(self.storage, f"{self.folder}/{name}", [])
        has_lines = self.options.flag("header") or self.options.skip_rows > 0
        parts: list[DataFrame] = []
        for number, group in enumerate(self._full(groups)):
            place = write_manifest(self.storage, f"{folder}/{number}", group.files)
            if self.options.format == "csv" and has_lines:
                parts.extend(self._by_header(place, group))
            else:
                parts.append(self._read(_listed(place), self.schema.data, group))
        if not parts:
            return self._read(_listed(folder), self.schema.data, FileGroup())
        return reduce(lambda left, right: left.union(right), parts)

    def _full(self, groups: Sequence[FileGroup]) -> list[FileGroup]:
        """Drop empty files if the format has no rows for them: a codec fails on an empty archive."""
        if self.options.format == "binaryFile" or self.options.flag("wholetext"):
            return [group for group in groups if group.files]
        full = (replace(group, files=tuple(file for file in group.files if file.size > 0)) for group in groups)
        return [group for group in full if group.files]

    @classmethod
    def of_folder(
        cls,
        spark: SparkSession,
        options: CloudFilesOptions,
        schema: FileSchema,
        found: StructType,
        selected: Column | None,
    ) -> DataFrame:
        """Return the rows of all files of a folder as a batch.

        CSV files with headers must have the same columns in the same order; otherwise Spark raises an error.

        Args:
            spark: the session of the query.
            options: the path and how to read it.
            schema: the columns.
            found: the columns of the files, as far as they are needed.
            selected: a condition on the files; None for all.
        """

        def load(reader: DataFrameReader) -> DataFrame:
            if options.glob:
                reader = reader.option("pathGlobFilter", options.glob)
            frame = reader.option("enforceSchema", "false").load(local_path(options.path) or options.path)
            return frame if selected is None else frame.where(selected)

        reader = cls(
            spark=spark,
            options=options,
            schema=schema,
            storage=LocalStorage(""),
            folder="",
            with_metadata=False,
            streams=False,
        )
        return reader._read(load, schema.data, FileGroup(columns=found))

    def drop(self, name: str) -> None:
        """Delete the file list of a batch that was read."""
        self.storage.delete_tree(f"{self.folder}/{name}")

    def _by_header(self, folder: str, group: FileGroup) -> Iterator[DataFrame]:
        """Yield the rows of CSV files with columns matched by header; Spark itself matches them by position."""
        any_case = not self.options.is_case_sensitive or self.schema.rescued is None
        for number, (header, files) in enumerate(header_groups(self.spark, self.options, group.files)):
            columns, variants = header_columns(header, self.schema.data, any_case=any_case)
            if not self.options.flag("header"):
                columns, variants = self.schema.data, []
            place = write_manifest(self.storage, f"{folder}/{number}", files)
            yield self._read(_listed(place), columns, FileGroup(files=tuple(files)), variants, header.skipped)

    def _read(
        self,
        load: Callable[[DataFrameReader], DataFrame],
        data: StructType,
        group: FileGroup,
        variants: Sequence[Variant] = (),
        skipped: int = 0,
    ) -> DataFrame:
        """Return the rows of files with the columns `data`; CSV files always have exactly these."""
        spec, rescued = self.options, self.schema.rescued
        read = read_columns(self.schema, spec, data, group.columns, variants)
        keeps_records = rescued is not None and spec.format in RECORDS_OF_TEXT
        record = [StructField(RECORD, StringType())] if keeps_records else []
        columns = StructType([*read.columns.fields, *record])
        places = [*read.places, *(each.name for each in record)]
        options = dict(spec.reader) | ({"columnNameOfCorruptRecord": RECORD} if keeps_records else {})

        def loaded(reader: DataFrameReader) -> DataFrame:
            return load(reader.format(spec.format).options(**options))

        if skipped:
            options["header"] = "false"
            frame = read_without_first(self.spark, columns, skipped, loaded, streams=self.streams)
        elif read.is_exact:
            at_once = spec.format in ASKS_IN_TASKS
            frame = read_exactly(self.spark, columns, places, loaded, streams=self.streams, at_once=at_once)
        else:
            frame = loaded(manifest_reader(self.spark).schema(columns))
            frame = as_stream(frame) if self.streams else frame
            if columns == self.schema.columns and not self.with_metadata:
                return frame
        shown = [self._column(each, read) for each in self.schema.columns.fields]
        if rescued:
            placed = [StructField(place, each.dataType) for place, each in zip(places, columns.fields, strict=True)]
            parts = [*read.lost()]
            parts += [misfits(StructType(placed), read.names, self._replaced(), spec)] if keeps_records else []
            shown[-1] = rescued_data([*parts, *self._folders(group)]).alias(rescued)
        if self.with_metadata:
            shown.append(F.col("_metadata"))
        return frame.select(*shown)

    def _replaced(self) -> set[str]:
        """Return the file columns that are replaced by folder columns, in lower case."""
        return {name.lower() for name in self.schema.partitions.fieldNames()}

    def _folders(self, group: FileGroup) -> Iterator[Column]:
        """Yield the folder values that do not fit their column, or have no column."""
        for each in self.schema.partitions.fields:
            if not isinstance(each.dataType, StringType):
                text = folder_text(each.name)
                lost = text.isNotNull() & text.try_cast(each.dataType).isNull()
                yield F.when(lost, F.create_map(F.lit(each.name), text))
        for name in new_folders(self.options, self.schema.columns, group.files).fieldNames():
            text = folder_text(name)
            yield F.when(text.isNotNull(), F.create_map(F.lit(name), text))

    def _column(self, column: StructField, read: ReadColumns) -> Column:
        if column.name in self.schema.partitions.fieldNames():
            return folder_text(column.name).try_cast(column.dataType).alias(column.name)
        return read.value(column)


def _listed(folder: str) -> Callable[[DataFrameReader], DataFrame]:
    """Load the files of a list."""
    return lambda reader: reader.load(folder)
