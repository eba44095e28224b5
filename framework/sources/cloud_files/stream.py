"""The streaming source of `cloudFiles`: finds files, numbers them, and reads each batch natively.

Its offset is the number of the last file of a batch in the checkpoint's own list of files. A file is in the list, on
disk, before an offset refers to it, and the list only grows; so a batch that Spark runs again after a crash has the
same files. New columns are detected before an offset is returned, so a batch that Spark has planned fits the schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from framework.checkpoints.offsets import read_progress
from framework.engine.sessions.frozen_time import clock_of
from framework.foundation.conditions.cloud_files import WIDER_TYPES
from framework.foundation.errors import OperationError
from framework.foundation.failpoints import failpoint
from framework.foundation.files.storage_port import Storage
from framework.schema.change import schema_change
from framework.sources.cloud_files.columns.fields import case_variants, merged
from framework.sources.cloud_files.columns.file_groups import FileGroup, all_columns, file_groups
from framework.sources.cloud_files.columns.hints import as_texts, fields_to_add, widened
from framework.sources.cloud_files.columns.schemas import FileSchema, SchemaStore, new_columns_error
from framework.sources.cloud_files.files.cleaning import Cleaner
from framework.sources.cloud_files.files.file_log import FileLog
from framework.sources.cloud_files.files.folder_times import keep_times
from framework.sources.cloud_files.files.folders import new_folders
from framework.sources.cloud_files.files.listing import list_new
from framework.sources.cloud_files.files.local_listing import (
    FoundFile,
    NothingKnown,
    decoded,
    present_files,
)
from framework.sources.cloud_files.files.offsets import log_folder, offset_number, offset_text
from framework.sources.cloud_files.rows import BatchReader
from framework.sources.cloud_files.settings.options import CloudFilesOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MANY = 10_000
"""Below this number of known files, a listing is as fast as a lookup of the folders' times."""
_LISTING_SECONDS = 1.0
"""Seconds between listings in a continuous query without a trigger interval, which polls permanently."""


class CloudFilesStream:
    """One source of one query, from its start to its end.

    Args:
        spark: the session of the query.
        options: the options of the source.
        schema: the columns of the stream.
        schemas: records new columns.
        storage: keeps the checkpoint.
        checkpoint: the checkpoint of the query.
        number: of the source in the query.
        with_metadata: whether the stream has Spark's column `_metadata`.
    """

    def __init__(
        self,
        spark: SparkSession,
        options: CloudFilesOptions,
        schema: FileSchema,
        *,
        schemas: SchemaStore,
        storage: Storage,
        checkpoint: str,
        number: int,
        with_metadata: bool,
    ) -> None:
        self._spark = spark
        self._options = options
        self._schemas = schemas
        self._storage = storage
        self._checkpoint = checkpoint
        self._source = number
        self._folder = log_folder(checkpoint, number)
        self._log = FileLog(storage, f"{self._folder}/files")
        self._data = schema
        self._clock = clock_of(spark)
        self._cleaner = Cleaner(
            spark=spark, options=options, storage=storage, checkpoint=checkpoint, number=number, clock=self._clock
        )
        self._listed_at: float | None = None
        self._is_triggered = False
        self._is_indexed = False
        self._found: dict[int, list[FileGroup]] = {}
        self._settled: int | None = None
        self._reader = BatchReader(
            spark=spark,
            options=options,
            schema=schema,
            storage=storage,
            folder=f"{self._folder}/batches",
            with_metadata=with_metadata,
        )
        self.schema = schema.columns
        progress = read_progress(storage, checkpoint)
        if progress.is_settled:
            self._settled = progress.last_commit_batch

    def prepare(self) -> None:
        """List the folder once: this update reads the files that are present now."""
        self._is_triggered = True
        self._discover()

    def next_offset(self, start: str | None) -> str | None:
        """Return the end offset of the next batch, within the limits on files and bytes."""
        self._settled = None
        log = self._log.load()
        if not self._is_triggered and self._is_read(start):
            self._discover()
        if log.is_new:
            return start
        after = self._number(start)
        files = self._limited(log.between(after, min(after + self._options.max_files, log.last)))
        if not files:
            return start
        self._follow_columns(files, after + len(files))
        return offset_text(after + len(files), self._source)

    def batch(self, start: str | None, end: str) -> DataFrame:
        """Return the rows of the files after `start` up to and including `end`."""
        last = offset_number(end)
        assert last is not None, end
        if self._settled is not None:
            # Spark asks a restarted source for its last committed batch, whose rows it does not use.
            self._settled = None
            return self._reader.rows("none", ())
        files = self._present(self._log.load().between(self._number(start), last))
        return self._reader.rows(str(last), self._regrouped(self._groups(files, last), files))

    def commit(self, end: str) -> None:
        """Delete the list of a committed batch, and clean its files."""
        last = offset_number(end) or 0
        self._found.pop(last, None)
        self._reader.drop(str(last))
        self._cleaner.clean(self._log.load())

    def _present(self, files: Sequence[FoundFile]) -> list[FoundFile]:
        """Return the files in their present state; the earlier content of overwritten files is lost.

        Raises:
            OperationError: CLOUD_FILES_FILE_MISSING.
        """
        present, missing = present_files(files, overwrites=self._options.allow_overwrites)
        if missing and not self._options.flag("ignoreMissingFiles"):
            raise OperationError("CLOUD_FILES_FILE_MISSING", count=len(missing), file=decoded(missing[0]))
        return present

    def _discover(self) -> None:
        now = self._clock.monotonic()
        if not self._is_triggered and self._listed_at is not None and now < self._listed_at + _LISTING_SECONDS:
            return
        self._listed_at = now
        log = self._log.load()
        self._cleaner.clean(log)
        if log.is_new:
            passed_over = () if self._options.include_existing else list_new(self._spark, self._options, NothingKnown())
            log.begin(passed_over)
            failpoint("cloud_files.after_start")
            if passed_over:
                return
        if not self._is_indexed:
            log.index()
            self._is_indexed = True
        times: dict[str, int] = {}
        log.append(list_new(self._spark, self._options, log, times))
        if log.last >= _MANY:
            keep_times(self._storage, self._folder, times)

    def _is_read(self, start: str | None) -> bool:
        return self._log.is_new or self._number(start) >= self._log.last

    def _number(self, offset: str | None) -> int:
        found = offset_number(offset) if offset is not None else None
        return self._log.first_unread - 1 if found is None else found

    def _limited(self, files: Sequence[FoundFile]) -> list[FoundFile]:
        """Return the first files within the limits; at least one, however large."""
        chosen: list[FoundFile] = []
        total = 0
        for file in files:
            total += file.size
            if chosen and self._options.max_bytes is not None and total > self._options.max_bytes:
                break
            chosen.append(file)
        return chosen

    def _follow_columns(self, files: Sequence[FoundFile], last: int) -> None:
        """Detect new columns and wider types in the files of the next batch, and record them.

        Raises:
            OperationError: UNKNOWN_FIELD, WIDER_FIELD if they were recorded; UNKNOWN_FIELD_REFUSED, UNKNOWN_FIELD_CASE.
        """
        if last in self._found:
            return
        groups = self._groups(files, last)
        found = as_texts(all_columns(groups), self._options, self._data.data)
        folders = new_folders(self._options, self._data.columns, files)
        known = merged(self._data.data, self._data.partitions)
        variants = case_variants(known, found)
        if variants and self._options.loses_variants:
            raise OperationError("UNKNOWN_FIELD_CASE", path=self._options.path, columns=", ".join(variants))
        names = [*fields_to_add(known, found, self._options), *folders.fieldNames()]
        wider = self._wider(groups) if self._options.widens_types else []
        if not (names or wider) or not self._options.follows_columns:
            return
        if self._options.adds_columns:
            self._schemas.add(self._options, groups, folders)
            failpoint("cloud_files.after_columns")
        if not names:
            raise OperationError(WIDER_TYPES, path=self._options.path, columns=", ".join(wider))
        raise new_columns_error(self._options, names, self._holders(files, known))

    def _wider(self, groups: Sequence[FileGroup]) -> list[str]:
        """Return the columns whose types are too narrow for values of the files, or of the folders' names."""
        folders = {name.lower() for name in self._data.partitions.fieldNames()}
        data = StructType([each for each in self._data.data.fields if each.name.lower() not in folders])
        found = [as_texts(group.columns, self._options, self._data.data) for group in groups]
        change = schema_change(data.jsonValue(), widened(data, found, self._options).jsonValue())
        return [f"{each.name} {each.after} (was {each.before})" for each in change.widened]

    def _holders(self, files: Sequence[FoundFile], known: StructType) -> Sequence[FoundFile]:
        """Find the first file with the new columns by halving, for the error message."""
        if self._options.adds_columns:
            return files[:1]
        while len(files) > 1:
            half = files[: len(files) // 2]
            found = as_texts(all_columns(self._infer(half)), self._options, self._data.data)
            folders = new_folders(self._options, self._data.columns, half)
            is_here = folders.fields or fields_to_add(known, found, self._options)
            files = half if is_here else files[len(files) // 2 :]
        return files

    def _groups(self, files: Sequence[FoundFile], last: int) -> list[FileGroup]:
        """Group the files of a batch by columns, inferred once; one group without columns if none are needed."""
        if not (self._options.follows_columns or self._options.keeps_unknown or self._options.needs_names):
            return [FileGroup(files=tuple(files))]
        if last not in self._found:
            self._found = {last: self._infer(files)}
        return self._found[last]

    def _infer(self, files: Sequence[FoundFile]) -> list[FileGroup]:
        return file_groups(self._spark, self._options, self._present(files), self._data.data)

    def _regrouped(self, groups: Sequence[FileGroup], files: Sequence[FoundFile]) -> list[FileGroup]:
        """Return the groups with columns as the stream represents them, and files in their present state."""
        places = {file.uri: number for number, group in enumerate(groups) for file in group.files}
        parts: list[list[FoundFile]] = [[] for _ in groups]
        for file in files:
            parts[places.get(file.uri, 0)].append(file)
        columns = [as_texts(group.columns, self._options, self._data.data) for group in groups]
        return [FileGroup(columns=each, files=tuple(part)) for each, part in zip(columns, parts, strict=True)]
