"""The columns of files: inferred once, recorded, and extended by the columns that new files bring."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql.types import (
    BinaryType,
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from framework.foundation.errors import OperationError, SluiceError, SourceError, UserError
from framework.foundation.java_causes import session_fault
from framework.foundation.local_storage import LocalStorage
from framework.foundation.storage_port import Storage, read_stored_json
from framework.foundation.wording import one_line, without_internal_names
from framework.sources.cloud_files.apart import EXACT_NAMES, session_with, types_without_first
from framework.sources.cloud_files.fields import merged, plain_type, widest, widest_columns, without_variants
from framework.sources.cloud_files.file_columns import header_columns
from framework.sources.cloud_files.folders import folder_columns
from framework.sources.cloud_files.headers import Header, header_groups
from framework.sources.cloud_files.hints import as_texts, hinted_names, opened, with_hints
from framework.sources.cloud_files.listing import FoundFile, NothingKnown, decoded, list_new
from framework.sources.cloud_files.manifest import manifest_reader, write_manifest
from framework.sources.cloud_files.options import SELF_TYPED, CloudFilesOptions
from framework.sources.cloud_files.widening import widened
from framework.sources.faults import is_source_fault

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.readwriter import DataFrameReader

_MOST_FILES = 1000
_MERGED_IN_ANY_CASE = SELF_TYPED | {"xml"}
"""Formats of which Spark takes columns for one if their names differ in case only."""
_CORRUPT = "_corrupt_record"
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
        data: columns of the files; recorded ones have nested types also where the stream has texts (`as_texts`).
        partitions: columns of the folders' names; they replace those of the files with the same name.
        rescued: the column for data that does not fit; None if there is none.
    """

    data: StructType
    partitions: StructType
    rescued: str | None

    @property
    def columns(self) -> StructType:
        """All columns, in the order of the stream."""
        folders = {name.lower() for name in self.partitions.fieldNames()}
        data = [column for column in self.data.fields if column.name.lower() not in folders]
        rescued = [StructField(self.rescued, StringType())] if self.rescued else []
        return StructType([*data, *self.partitions.fields, *rescued])

    def to_json(self) -> dict[str, Any]:
        """The schema as a JSON object."""
        return {"data": self.data.jsonValue(), "partitions": self.partitions.jsonValue(), "rescued": self.rescued}

    @classmethod
    def given(cls, options: CloudFilesOptions, data: StructType) -> FileSchema:
        """The columns that a module gives, or that a format has always.

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
        """Read a schema of `to_json`."""
        return cls(
            data=StructType.fromJson(value["data"]),
            partitions=StructType.fromJson(value["partitions"]),
            rescued=value["rescued"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroup:
    """Files that can be read together.

    Args:
        columns: the columns that they have, as far as they are needed (see `CloudFilesOptions.keeps_unknown`).
        files: the files.
    """

    columns: StructType = field(default_factory=lambda: StructType([]))
    files: tuple[FoundFile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaStore:
    """The recorded columns of the sources of a pipeline: one file for each path with its options.

    Flows that read the same folder with the same options share them.

    Args:
        storage: the pipeline's storage.
        root: the folder of all files.
    """

    storage: Storage
    root: str

    def read(self, options: CloudFilesOptions) -> FileSchema | None:
        """The recorded columns of a source; None before the first inference."""
        found = (
            read_stored_json(self.storage, self.path(key, options.schema_location), FileSchema.from_json)
            for key in options.inference_keys
        )
        return next((schema for schema in found if schema is not None), None)

    def record(self, options: CloudFilesOptions, schema: FileSchema) -> None:
        """Record the columns of a source; durable when the call returns."""
        self.storage.write_text(self._path(options), json.dumps({"path": options.path, **schema.to_json()}))

    def add(self, options: CloudFilesOptions, groups: Sequence[FileGroup], folders: StructType) -> None:
        """Add columns of files and folders to the recorded ones, and widen their types if the mode says so.

        Flows that share them may do so at the same time.
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
        """The columns that `keep` got; None if they are recorded, or not inferred in this process."""
        return _unrecorded.get(self._path(options))

    def settle(self, options: CloudFilesOptions) -> None:
        """Record the kept columns: a flow begins to read with them."""
        with _changing:
            schema = _unrecorded.pop(self._path(options), None)
            if schema is not None and self.read(options) is None:
                self.record(options, schema)

    def path(self, key: str, root: str | None = None) -> str:
        """The file of the columns with a key."""
        return f"{root or self.root}/{hashlib.sha256(key.encode()).hexdigest()[:24]}"

    def _path(self, options: CloudFilesOptions) -> str:
        return self.path(options.inference_keys[0], options.schema_location)


def schemas_of(storage: Storage) -> SchemaStore:
    """The recorded columns of a pipeline's sources."""
    return SchemaStore(storage=storage, root=storage.path("schemas"))


def resolve_schema(
    spark: SparkSession, options: CloudFilesOptions, given: StructType | None, store: SchemaStore
) -> FileSchema:
    """Return the columns of a source: given by the module, recorded before, or inferred now from its files.

    Raises:
        SourceError: CLOUD_FILES_SCHEMA_UNKNOWN, CLOUD_FILES_SCHEMA_UNREADABLE.
        UserError: CLOUD_FILES_HINTS_INVALID.
    """
    if given is not None or options.format in FIXED_SCHEMAS:
        return FileSchema.given(options, given if given is not None else FIXED_SCHEMAS[options.format])
    recorded = store.read(options) or store.kept(options)
    if recorded is None:
        recorded = _inferred(spark, options)
        store.keep(options, recorded)
    return _resolved(options, recorded)


def batch_schema(
    spark: SparkSession, options: CloudFilesOptions, given: StructType | None, files: Sequence[FoundFile]
) -> tuple[FileSchema, list[FileGroup]]:
    """Return the columns of a batch of all files, and the files by the columns that they have, as far as needed.

    Raises:
        SluiceError: as of `resolve_schema`.
    """
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
        schema = _resolved(options, inferred)
    return schema, [replace(group, columns=as_texts(group.columns, options, schema.data)) for group in groups]


def _resolved(options: CloudFilesOptions, inferred: FileSchema) -> FileSchema:
    data = with_hints(as_texts(inferred.data, options), options)
    taken = {name.lower() for name in (*data.fieldNames(), *inferred.partitions.fieldNames())}
    if options.rescued and options.rescued.lower() in taken:
        raise _rescued_conflict(options, f"the files in {options.path}", "they have a column of this name")
    return FileSchema(data=data, partitions=_hinted_partitions(inferred, data), rescued=options.rescued)


def _rescued_conflict(options: CloudFilesOptions, second: str, why: str) -> UserError:
    return UserError(
        "CLOUD_FILES_OPTION_CONFLICT", first=f"rescuedDataColumn = {options.rescued}", second=second,
        why=f"{why}; the option can name another one",
    )  # fmt: skip


def _hinted_partitions(recorded: FileSchema, data: StructType) -> StructType:
    types = {column.name.lower(): column.dataType for column in data.fields}
    return StructType(
        [StructField(each.name, types.get(each.name.lower(), each.dataType)) for each in recorded.partitions.fields]
    )


def _inferred(spark: SparkSession, options: CloudFilesOptions) -> FileSchema:
    files = [file for file in list_new(spark, options, NothingKnown()) if file.size > 0]
    if not files:
        raise SourceError("CLOUD_FILES_SCHEMA_UNKNOWN", path=options.path)
    newest = files[-_MOST_FILES:]
    data = without_variants(all_columns(file_groups(spark, options, newest)), hinted_names(options))
    if not data.fields:
        raise SourceError("CLOUD_FILES_SCHEMA_UNKNOWN", path=options.path)
    return FileSchema(data=data, partitions=folder_columns(options, newest), rescued=options.rescued)


def file_groups(
    spark: SparkSession, options: CloudFilesOptions, files: Sequence[FoundFile], known: StructType | None = None
) -> list[FileGroup]:
    """Return files by the columns that they have: one group, unless a column has several types in the files.

    Spark has no schema for such files together; they are halved until it has one.

    Args:
        spark: the session of the query.
        options: of the source.
        files: the files.
        known: the columns of the stream, to which those of CSV headers belong; None if they are not known yet.

    Raises:
        SluiceError: as of `columns_of_files`.
    """
    try:
        return [FileGroup(columns=columns_of_files(spark, options, files, known), files=tuple(files))]
    except SluiceError as error:
        if options.format not in SELF_TYPED or len(files) < 2 or "CANNOT_MERGE" not in str(error.fields.get("cause")):
            raise
    half = len(files) // 2
    groups: dict[str, FileGroup] = {}
    for part in (files[:half], files[half:]):
        for group in file_groups(spark, options, part, known):
            same = groups.get(group.columns.json())
            joined = group.files if same is None else (*same.files, *group.files)
            groups[group.columns.json()] = FileGroup(columns=group.columns, files=joined)
    return list(groups.values())


def all_columns(groups: Sequence[FileGroup]) -> StructType:
    """The columns of all groups, with types that have all values."""
    return reduce(widest_columns, (group.columns for group in groups), StructType([]))


def columns_of_files(
    spark: SparkSession, options: CloudFilesOptions, files: Sequence[FoundFile], known: StructType | None = None
) -> StructType:
    """Return the columns that some files have, by a native inference over exactly these files.

    The driver alone reads the list of the files, so that a temporary folder of its machine can have it. Names that
    differ in case are those of different columns; arguments as of `file_groups`.

    Raises:
        SourceError: CLOUD_FILES_SCHEMA_UNREADABLE, if the files are the cause, or CLOUD_FILES_ENCODING_UNKNOWN.
        UserError: the first, if an option is; CLOUD_FILES_FORMAT_MISSING, or a condition of the session.
    """
    full = [file for file in files if file.size > 0]
    if not full:
        return StructType([])
    try:
        with TemporaryDirectory(prefix="sluice-columns-") as scratch:
            found = _columns_in(spark, options, full, LocalStorage(scratch), known)
    except (PySparkException, Py4JError) as error:
        if options.format == "avro" and "AVRO" in str(error).upper() and "AVRO_NOT_LOADED" in _condition(error):
            raise UserError("CLOUD_FILES_FORMAT_MISSING", format="Avro", version=spark.version) from error
        unfit = _not_of_files(error, options)
        if unfit is not None:
            raise unfit from error
        cause = one_line(without_internal_names(str(error)).split("\n\nJVM stacktrace")[0].split("\n\tat ")[0])
        kind = SourceError if is_source_fault(error) else UserError
        raise kind(
            "CLOUD_FILES_SCHEMA_UNREADABLE", path=options.path, format=options.format, count=len(full), cause=cause
        ) from error
    return StructType(
        [StructField(each.name, plain_type(each.dataType)) for each in found.fields if each.name != _CORRUPT]
    )


def _not_of_files(error: PySparkException | Py4JError, options: CloudFilesOptions) -> SluiceError | None:
    """Return the error of an encoding, or of the session, that no repair of the files mends; None for any other."""
    fault = session_fault(error)
    if fault is not None:
        return UserError(fault.condition, subject=f"The source cloudFiles of {options.path}", **fault.fields)
    if not isinstance(error, PySparkException) or error.getCondition() != "INVALID_PARAMETER_VALUE.CHARSET":
        return None
    return SourceError("CLOUD_FILES_ENCODING_UNKNOWN", path=options.path, cause=one_line(str(error)))


def _condition(error: Exception) -> str:
    found = error.getCondition() if isinstance(error, PySparkException) else None
    return "AVRO_NOT_LOADED" if found is not None and "AVRO" in str(found + str(error)).upper() else ""


def _columns_in(
    spark: SparkSession,
    options: CloudFilesOptions,
    files: Sequence[FoundFile],
    storage: Storage,
    known: StructType | None,
) -> StructType:
    folder = write_manifest(storage, storage.path("files"), files)
    if options.format == "csv":
        return _csv_columns(spark, options, files, storage, known)
    if options.format in _MERGED_IN_ANY_CASE:
        return _read_columns(session_with(spark, EXACT_NAMES), options, folder)
    try:
        return _read_columns(spark, options, folder)
    except PySparkException as error:
        if error.getCondition() != "COLUMN_ALREADY_EXISTS":
            raise
    return _read_columns(session_with(spark, EXACT_NAMES), options, folder)


def _read_columns(spark: SparkSession, options: CloudFilesOptions, folder: str) -> StructType:
    reader = manifest_reader(spark).format(options.format).options(**dict(options.reader))
    if options.format in SELF_TYPED:
        return reader.option("mergeSchema", "true").load(folder).schema
    if options.infers_types:
        return reader.option("inferSchema", "true").load(folder).schema
    return reader.option("primitivesAsString", "true").option("inferSchema", "false").load(folder).schema


def _csv_columns(
    spark: SparkSession,
    options: CloudFilesOptions,
    files: Sequence[FoundFile],
    storage: Storage,
    known: StructType | None,
) -> StructType:
    """The columns of CSV files by name; a column that has several types in files of different headers is a string.

    Those that belong to known columns have their names; those that differ from them in case only are left out.
    """
    any_case = not options.is_case_sensitive or options.rescued is None
    found: dict[str, DataType] = {}
    for header, group in header_groups(spark, options, files):
        columns, variants = header_columns(header, known or StructType([]), any_case=any_case)
        types: dict[str, DataType] = dict.fromkeys(columns.fieldNames(), StringType())
        if options.infers_types:
            inferred = _csv_types(spark, options, header, write_manifest(storage, storage.path("group"), group))
            types = dict(zip(columns.fieldNames(), (each.dataType for each in inferred.fields), strict=False))
        for name in (each.place for each in variants):
            types.pop(name, None)
        for name, kind in types.items():
            found[name] = widest(found.get(name, kind), kind)
    return StructType([StructField(name, kind) for name, kind in found.items()])


def _csv_types(spark: SparkSession, options: CloudFilesOptions, header: Header, folder: str) -> StructType:
    given = dict(options.reader)
    if not header.skipped:
        reader = manifest_reader(spark).format("csv").options(**given)
        return reader.option("inferSchema", "true").load(folder).schema
    texts = StructType([StructField(f"c{place}", StringType()) for place in range(len(header.names))])

    def load(reader: DataFrameReader) -> DataFrame:
        return reader.format("csv").options(**given).option("header", "false").load(folder)

    return types_without_first(spark, texts, header.skipped, load, given)


def new_columns_error(options: CloudFilesOptions, names: Sequence[str], files: Sequence[FoundFile]) -> OperationError:
    """The error of a flow that meets columns which its schema lacks."""
    columns = ", ".join(names)
    if options.adds_columns:
        return OperationError("UNKNOWN_FIELD", path=options.path, columns=columns)
    return OperationError("UNKNOWN_FIELD_REFUSED", path=options.path, columns=columns, file=decoded(files[0].uri))
