"""The columns of files: inferred once, recorded, and extended by columns of new files."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql.types import (
    BinaryType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from framework.engine.files.hadoop_files import check_reader
from framework.foundation.errors import OperationError, SourceError, UserError
from framework.foundation.files.storage_port import Storage
from framework.foundation.files.stored_format import StoredFormat
from framework.sources.cloud_files.columns.fields import merged, without_variants
from framework.sources.cloud_files.columns.file_groups import FileGroup, all_columns, file_groups
from framework.sources.cloud_files.columns.hints import (
    as_texts,
    hinted_folders,
    hinted_names,
    opened,
    widened,
    with_hints,
)
from framework.sources.cloud_files.columns.leading_zeros import columns_with_leading_zeros
from framework.sources.cloud_files.files.folders import folder_columns
from framework.sources.cloud_files.files.listing import list_new
from framework.sources.cloud_files.files.local_listing import (
    FoundFile,
    NothingKnown,
    decoded,
)
from framework.sources.cloud_files.settings.options import CloudFilesOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FORMAT = StoredFormat(1)
_MOST_FILES = 1000
_changing = threading.Lock()
_unrecorded: dict[str, FileSchema] = {}

FIXED_SCHEMAS = {
    "text": StructType([StructField("value", StringType())]),
    "binaryFile": StructType(
        [
            StructField("path", StringType()),
            StructField("modificationTime", TimestampType()),
            StructField("length", LongType()),
            StructField("content", BinaryType()),
        ]
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSchema:
    """The columns of a source.

    Args:
        data: columns of the files. Recorded columns keep nested types even where the stream has strings (`as_texts`).
        partitions: columns of the folders' names; they replace file columns of the same name.
        rescued: the column for data that does not fit; None if there is none.
        zeros: columns whose inferred type drops leading zeros; only known until the columns are recorded.
    """

    data: StructType
    partitions: StructType
    rescued: str | None
    zeros: tuple[str, ...] = ()

    @property
    def columns(self) -> StructType:
        """All columns, in the order of the stream."""
        folders = {name.lower() for name in self.partitions.fieldNames()}
        data = [column for column in self.data.fields if column.name.lower() not in folders]
        rescued = [StructField(self.rescued, StringType())] if self.rescued else []
        return StructType([*data, *self.partitions.fields, *rescued])

    def to_json(self) -> dict[str, Any]:
        """Return the schema as a JSON object."""
        return {"data": self.data.jsonValue(), "partitions": self.partitions.jsonValue(), "rescued": self.rescued}

    @classmethod
    def given(cls, options: CloudFilesOptions, data: StructType) -> FileSchema:
        """Return the columns that a module gives, or that a format always has.

        Raises:
            UserError: CLOUD_FILES_OPTION_CONFLICT.
        """
        types = {column.name.lower(): column.dataType for column in data.fields}
        named = options.partition_columns or ()
        partitions = StructType([StructField(name, types.get(name.lower(), StringType())) for name in named])
        plain = [StructField(each.name, each.dataType, nullable=True, metadata=each.metadata) for each in data.fields]
        if options.rescued:
            if not isinstance(types.get(options.rescued.lower(), StringType()), StringType):
                raise _rescued_conflict(options, "the schema", "it has the column with another type than STRING")
            plain = [each for each in plain if each.name.lower() != options.rescued.lower()]
        return cls(data=StructType(plain), partitions=partitions, rescued=options.rescued)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> FileSchema:
        """Parse the output of `to_json`."""
        return cls(
            data=StructType.fromJson(value["data"]),
            partitions=StructType.fromJson(value["partitions"]),
            rescued=value["rescued"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaStore:
    """The recorded columns of a pipeline's sources: one file for each combination of path and options.

    Flows that read the same folder with the same options share them.

    Args:
        storage: the pipeline's storage.
        root: the folder of all files.
    """

    storage: Storage
    root: str

    def read(self, options: CloudFilesOptions) -> FileSchema | None:
        """Return the recorded columns of a source; None before the first inference."""
        found = (
            _FORMAT.read(self.storage, self.path(key, options.schema_location), FileSchema.from_json)
            for key in options.inference_keys
        )
        return next((schema for schema in found if schema is not None), None)

    def record(self, options: CloudFilesOptions, schema: FileSchema) -> None:
        """Record the columns of a source; durable when the call returns."""
        self.storage.write_text(self._path(options), _FORMAT.text({"path": options.path, **schema.to_json()}))

    def add(self, options: CloudFilesOptions, groups: Sequence[FileGroup], folders: StructType) -> None:
        """Add columns of files and folders to the recorded columns, and widen types if the mode says so.

        Flows that share the columns may do so at the same time.
        """
        with _changing:
            schema = self.read(options)
            assert schema is not None
            found = without_variants(all_columns(groups))
            known = {name.lower() for name in schema.data.fieldNames()}
            new = StructType([each for each in folders.fields if each.name.lower() not in known])
            data, partitions = merged(opened(schema.data, found, options), found), merged(schema.partitions, new)
            if options.widens_types:
                data = widened(data, [group.columns for group in groups], options)
            self.record(options, FileSchema(data=data, partitions=partitions, rescued=schema.rescued))

    def keep(self, options: CloudFilesOptions, schema: FileSchema) -> None:
        """Keep inferred columns in this process: a plan must not write, and the run after it must not infer again."""
        _unrecorded[self._path(options)] = schema

    def kept(self, options: CloudFilesOptions) -> FileSchema | None:
        """Return the columns passed to `keep`; None if they are recorded, or not inferred in this process."""
        return _unrecorded.get(self._path(options))

    def settle(self, options: CloudFilesOptions) -> None:
        """Record the kept columns when a flow begins to read with them."""
        with _changing:
            schema = _unrecorded.pop(self._path(options), None)
            if schema is not None and self.read(options) is None:
                self.record(options, schema)

    def path(self, key: str, root: str | None = None) -> str:
        """Return the path of the file that records the columns of a key."""
        return f"{root or self.root}/{hashlib.sha256(key.encode()).hexdigest()[:24]}"

    def _path(self, options: CloudFilesOptions) -> str:
        return self.path(options.inference_keys[0], options.schema_location)


def schemas_of(storage: Storage) -> SchemaStore:
    """Return the recorded columns of a pipeline's sources."""
    return SchemaStore(storage=storage, root=storage.path("schemas"))


def resolve_schema(
    spark: SparkSession, options: CloudFilesOptions, given: StructType | None, store: SchemaStore
) -> FileSchema:
    """Return the columns of a source: given by the module, recorded before, or inferred now from its files.

    Raises:
        SourceError: CLOUD_FILES_SCHEMA_UNKNOWN, CLOUD_FILES_SCHEMA_UNREADABLE.
        UserError: CLOUD_FILES_FORMAT_MISSING, CLOUD_FILES_HINTS_INVALID, CLOUD_FILES_HINTS_CONFLICT.
    """
    _check_format(spark, options)
    if given is not None or options.format in FIXED_SCHEMAS:
        return FileSchema.given(options, given if given is not None else FIXED_SCHEMAS[options.format])
    recorded = store.read(options)
    found = recorded or store.kept(options)
    if found is None:
        found = _inferred(spark, options)
        store.keep(options, found)
    return _resolved(options, found, is_new=recorded is None)


def batch_schema(
    spark: SparkSession, options: CloudFilesOptions, given: StructType | None, files: Sequence[FoundFile]
) -> tuple[FileSchema, list[FileGroup]]:
    """Return the columns of a batch of all files, and the files grouped by their columns as far as needed.

    Raises:
        SluiceError: as of `resolve_schema`.
    """
    _check_format(spark, options)
    is_known = given is not None or options.format in FIXED_SCHEMAS
    groups = [FileGroup(files=tuple(files))]
    if options.keeps_unknown or not is_known:
        groups = file_groups(spark, options, files, given)
    if is_known:
        schema = FileSchema.given(options, given if given is not None else FIXED_SCHEMAS[options.format])
    else:
        found = without_variants(all_columns(groups), hinted_names(options))
        if not found.fields:
            raise SourceError("CLOUD_FILES_SCHEMA_UNKNOWN", path=options.path)
        inferred = FileSchema(data=found, partitions=folder_columns(options, files), rescued=options.rescued)
        schema = _resolved(options, inferred, is_new=True)
    return schema, [replace(group, columns=as_texts(group.columns, options, schema.data)) for group in groups]


def _check_format(spark: SparkSession, options: CloudFilesOptions) -> None:
    """Check that the session has the reader of a format that a separate package provides."""
    if options.format != "avro":
        return
    try:
        check_reader(spark, options.format)
    except PySparkException as error:
        raise UserError("CLOUD_FILES_FORMAT_MISSING", format="Avro", version=spark.version) from error


def _resolved(options: CloudFilesOptions, inferred: FileSchema, *, is_new: bool) -> FileSchema:
    data = with_hints(as_texts(inferred.data, options), options, is_new=is_new)
    taken = {name.lower() for name in (*data.fieldNames(), *inferred.partitions.fieldNames())}
    if options.rescued and options.rescued.lower() in taken:
        if options.rescued.lower() in {name.lower() for name in hinted_names(options)}:
            raise _rescued_conflict(options, "cloudFiles.schemaHints", "the column has the data that does not fit")
        raise _rescued_conflict(options, f"the files in {options.path}", "they have a column of this name")
    return FileSchema(data=data, partitions=hinted_folders(inferred.partitions, data, options), rescued=options.rescued)


def _rescued_conflict(options: CloudFilesOptions, second: str, why: str) -> UserError:
    return UserError(
        "CLOUD_FILES_OPTION_CONFLICT",
        first=f"rescuedDataColumn = {options.rescued}",
        second=second,
        why=f"{why}; the option can name another one",
    )


def _inferred(spark: SparkSession, options: CloudFilesOptions) -> FileSchema:
    files = [file for file in list_new(spark, options, NothingKnown()) if file.size > 0]
    if not files:
        raise SourceError("CLOUD_FILES_SCHEMA_UNKNOWN", path=options.path)
    newest = files[-_MOST_FILES:]
    data = without_variants(all_columns(file_groups(spark, options, newest)), hinted_names(options))
    if not data.fields:
        raise SourceError("CLOUD_FILES_SCHEMA_UNKNOWN", path=options.path)
    folders = folder_columns(options, newest)
    zeros = columns_with_leading_zeros(spark, options, newest, data, folders)
    return FileSchema(data=data, partitions=folders, rescued=options.rescued, zeros=zeros)


def new_columns_error(options: CloudFilesOptions, names: Sequence[str], files: Sequence[FoundFile]) -> OperationError:
    """Return the error for files with columns that the flow's schema lacks."""
    columns = ", ".join(names)
    if options.adds_columns:
        return OperationError("UNKNOWN_FIELD", path=options.path, columns=columns)
    return OperationError("UNKNOWN_FIELD_REFUSED", path=options.path, columns=columns, file=decoded(files[0].uri))
