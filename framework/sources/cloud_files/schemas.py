"""The columns of files: inferred once, recorded, and extended by the columns that new files bring."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from framework.foundation.errors import OperationError, UserError
from framework.foundation.local_storage import LocalStorage
from framework.foundation.storage_port import Storage, read_stored_json
from framework.foundation.wording import one_line
from framework.sources.cloud_files.headers import header_groups
from framework.sources.cloud_files.listing import FoundFile, decoded, list_new
from framework.sources.cloud_files.manifest import manifest_reader, write_manifest
from framework.sources.cloud_files.options import SELF_TYPED, CloudFilesOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MOST_FILES = 1000
_CORRUPT = "_corrupt_record"
_PARTITION = re.compile(r"[^/=]+=[^/]*")
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
        data: columns of the files.
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
    def from_json(cls, value: dict[str, Any]) -> FileSchema:
        """Read a schema of `to_json`."""
        return cls(
            data=StructType.fromJson(value["data"]),
            partitions=StructType.fromJson(value["partitions"]),
            rescued=value["rescued"],
        )


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
        return read_stored_json(self.storage, self._path(options), FileSchema.from_json)

    def record(self, options: CloudFilesOptions, schema: FileSchema) -> None:
        """Record the columns of a source; durable when the call returns."""
        self.storage.write_text(self._path(options), json.dumps({"path": options.path, **schema.to_json()}))

    def add(self, options: CloudFilesOptions, found: StructType) -> None:
        """Add columns to the recorded ones. Flows that share them may do so at the same time."""
        with _changing:
            schema = self.read(options)
            assert schema is not None
            self.record(
                options,
                FileSchema(data=merged(schema.data, found), partitions=schema.partitions, rescued=schema.rescued),
            )

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

    def _path(self, options: CloudFilesOptions) -> str:
        key = hashlib.sha256(options.inference_key.encode()).hexdigest()[:24]
        return f"{options.schema_location or self.root}/{key}"


def schemas_of(storage: Storage) -> SchemaStore:
    """The recorded columns of a pipeline's sources."""
    return SchemaStore(storage=storage, root=storage.path("schemas"))


def resolve_schema(
    spark: SparkSession, options: CloudFilesOptions, given: StructType | None, store: SchemaStore
) -> FileSchema:
    """Return the columns of a source: given by the module, recorded before, or inferred now from its files.

    Raises:
        UserError: CLOUD_FILES_SCHEMA_UNKNOWN, CLOUD_FILES_SCHEMA_UNREADABLE, CLOUD_FILES_HINTS_INVALID.
    """
    if given is not None or options.format in FIXED_SCHEMAS:
        return _without_inference(options, given if given is not None else FIXED_SCHEMAS[options.format])
    recorded = store.read(options) or store.kept(options)
    if recorded is None:
        recorded = _inferred(spark, options)
        store.keep(options, recorded)
    data = with_hints(recorded.data, options)
    return FileSchema(data=data, partitions=_hinted_partitions(recorded, data), rescued=options.rescued)


def batch_schema(
    spark: SparkSession, options: CloudFilesOptions, given: StructType | None, files: Sequence[FoundFile]
) -> tuple[FileSchema, StructType]:
    """Return the columns of a batch of all files, and those that its files have, as far as they are needed.

    Raises:
        UserError: as of `resolve_schema`.
    """
    if given is not None or options.format in FIXED_SCHEMAS:
        schema = _without_inference(options, given if given is not None else FIXED_SCHEMAS[options.format])
        return schema, columns_of_files(spark, options, files) if options.keeps_unknown else StructType([])
    found = columns_of_files(spark, options, files)
    if not found.fields:
        raise UserError("CLOUD_FILES_SCHEMA_UNKNOWN", path=options.path)
    inferred = FileSchema(data=found, partitions=_partitions(options, files), rescued=options.rescued)
    data = with_hints(found, options)
    return FileSchema(data=data, partitions=_hinted_partitions(inferred, data), rescued=options.rescued), found


def _hinted_partitions(recorded: FileSchema, data: StructType) -> StructType:
    types = {column.name.lower(): column.dataType for column in data.fields}
    return StructType(
        [StructField(each.name, types.get(each.name.lower(), each.dataType)) for each in recorded.partitions.fields]
    )


def _without_inference(options: CloudFilesOptions, data: StructType) -> FileSchema:
    types = {column.name.lower(): column.dataType for column in data.fields}
    named = options.partition_columns or ()
    partitions = StructType([StructField(name, types.get(name.lower(), StringType())) for name in named])
    plain = StructType(
        [StructField(each.name, each.dataType, nullable=True, metadata=each.metadata) for each in data.fields]
    )
    if options.rescued:
        plain = StructType([each for each in plain.fields if each.name != options.rescued])
    return FileSchema(data=plain, partitions=partitions, rescued=options.rescued)


def _inferred(spark: SparkSession, options: CloudFilesOptions) -> FileSchema:
    files = [file for file in list_new(spark, options, frozenset()) if file.size > 0]
    if not files:
        raise UserError("CLOUD_FILES_SCHEMA_UNKNOWN", path=options.path)
    newest = files[-_MOST_FILES:]
    data = columns_of_files(spark, options, newest)
    if not data.fields:
        raise UserError("CLOUD_FILES_SCHEMA_UNKNOWN", path=options.path)
    return FileSchema(data=data, partitions=_partitions(options, newest), rescued=options.rescued)


def columns_of_files(spark: SparkSession, options: CloudFilesOptions, files: Sequence[FoundFile]) -> StructType:
    """Return the columns that some files have, by a native inference over exactly these files.

    The driver alone reads the list of the files, so that a temporary folder of its machine can have it.

    Raises:
        UserError: CLOUD_FILES_SCHEMA_UNREADABLE, CLOUD_FILES_FORMAT_MISSING.
    """
    full = [file for file in files if file.size > 0]
    if not full:
        return StructType([])
    try:
        with TemporaryDirectory(prefix="sluice-columns-") as scratch:
            found = _columns_in(spark, options, full, LocalStorage(scratch))
    except (PySparkException, Py4JError) as error:
        if options.format == "avro" and "AVRO" in str(error).upper() and "AVRO_NOT_LOADED" in _condition(error):
            raise UserError("CLOUD_FILES_FORMAT_MISSING", format="Avro", version=spark.version) from error
        cause = one_line(str(error).split("\n\nJVM stacktrace")[0].split("\n\tat ")[0])
        raise UserError(
            "CLOUD_FILES_SCHEMA_UNREADABLE", path=options.path, format=options.format, count=len(full), cause=cause
        ) from error
    return StructType([StructField(each.name, _plain(each.dataType)) for each in found.fields if each.name != _CORRUPT])


def _condition(error: Exception) -> str:
    found = error.getCondition() if isinstance(error, PySparkException) else None
    return "AVRO_NOT_LOADED" if found is not None and "AVRO" in str(found + str(error)).upper() else ""


def _columns_in(
    spark: SparkSession, options: CloudFilesOptions, files: Sequence[FoundFile], storage: Storage
) -> StructType:
    folder = write_manifest(storage, storage.path("files"), files)
    if options.format == "csv":
        return _csv_columns(spark, options, files, storage, folder)
    return _read_columns(spark, options, folder)


def _read_columns(spark: SparkSession, options: CloudFilesOptions, folder: str) -> StructType:
    reader = manifest_reader(spark).format(options.format).options(**dict(options.reader))
    if options.format in SELF_TYPED:
        return reader.option("mergeSchema", "true").load(folder).schema
    if options.infers_types:
        return reader.option("inferSchema", "true").load(folder).schema
    found = reader.option("primitivesAsString", "true").option("inferSchema", "false").load(folder).schema
    return StructType([StructField(each.name, StringType()) for each in found.fields])


def _csv_columns(
    spark: SparkSession, options: CloudFilesOptions, files: Sequence[FoundFile], storage: Storage, folder: str
) -> StructType:
    """The columns of CSV files by name; a column that has several types in files of different headers is a string."""
    found: dict[str, DataType] = {}
    for header, group in header_groups(spark, options, folder, files):
        types: dict[str, DataType] = dict.fromkeys(header, StringType())
        if options.infers_types:
            reader = manifest_reader(spark).format("csv").options(**dict(options.reader)).option("inferSchema", "true")
            inferred = reader.load(write_manifest(storage, f"{folder}/group", group)).schema
            types = dict(zip(header, (each.dataType for each in inferred.fields), strict=False))
        for name, kind in types.items():
            found[name] = kind if found.get(name, kind) == kind else StringType()
    return StructType([StructField(name, kind) for name, kind in found.items()])


def _plain(kind: DataType) -> DataType:
    """A type that a table can have: `void` of values that were always null is a string."""
    if isinstance(kind, NullType):
        return StringType()
    if isinstance(kind, ArrayType):
        return ArrayType(_plain(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(_plain(kind.keyType), _plain(kind.valueType))
    if isinstance(kind, StructType):
        return StructType([StructField(each.name, _plain(each.dataType)) for each in kind.fields])
    return kind


def merged(known: StructType, found: StructType) -> StructType:
    """The known columns and fields, then those that only `found` has; types of known ones stay."""
    columns = {each.name: each for each in known.fields}
    lower = {name.lower() for name in columns}
    for each in found.fields:
        before = columns.get(each.name)
        if before is not None:
            columns[each.name] = StructField(each.name, _merged_types(before.dataType, each.dataType))
        elif each.name.lower() not in lower:
            columns[each.name] = each
            lower.add(each.name.lower())
    return StructType(list(columns.values()))


def _merged_types(known: DataType, found: DataType) -> DataType:
    if isinstance(known, StructType) and isinstance(found, StructType):
        return merged(known, found)
    if isinstance(known, ArrayType) and isinstance(found, ArrayType):
        return ArrayType(_merged_types(known.elementType, found.elementType))
    if isinstance(known, MapType) and isinstance(found, MapType):
        return MapType(known.keyType, _merged_types(known.valueType, found.valueType))
    return known


def new_fields(known: StructType, found: StructType, prefix: str = "") -> list[str]:
    """The full names of the columns and fields that only `found` has; names that differ in case are not new."""
    columns = {each.name.lower(): each.dataType for each in known.fields}
    names: list[str] = []
    for each in found.fields:
        before = columns.get(each.name.lower())
        if before is None:
            names.append(f"{prefix}{each.name}")
        else:
            names.extend(_new_below(before, each.dataType, f"{prefix}{each.name}."))
    return names


def case_variants(known: StructType, found: StructType) -> list[str]:
    """The columns of files whose names differ from a known column, or from each other, in case only."""
    names = {each.name.lower(): each.name for each in reversed([*known.fields, *found.fields])}
    return [each.name for each in found.fields if names[each.name.lower()] != each.name]


def _new_below(known: DataType, found: DataType, prefix: str) -> list[str]:
    if isinstance(known, StructType) and isinstance(found, StructType):
        return new_fields(known, found, prefix)
    if isinstance(known, ArrayType) and isinstance(found, ArrayType):
        return _new_below(known.elementType, found.elementType, f"{prefix}element.")
    if isinstance(known, MapType) and isinstance(found, MapType):
        return _new_below(known.valueType, found.valueType, f"{prefix}value.")
    return []


def with_hints(data: StructType, options: CloudFilesOptions) -> StructType:
    """The columns with the types that `schemaHints` gives; a hint for a column that is not there adds it.

    Raises:
        UserError: CLOUD_FILES_HINTS_INVALID.
    """
    for name, kind in parse_hints(options.hints):
        data = _hinted(data, name, kind)
    return data


def _hinted(data: StructType, path: tuple[str, ...], kind: DataType) -> StructType:
    name, rest = path[0], path[1:]
    fields, is_known = [], False
    for each in data.fields:
        if each.name.lower() == name.lower():
            is_known = True
            inner = each.dataType if isinstance(each.dataType, StructType) else StructType([])
            fields.append(StructField(each.name, _hinted(inner, rest, kind) if rest else kind))
        else:
            fields.append(each)
    if not is_known:
        fields.append(StructField(name, _hinted(StructType([]), rest, kind) if rest else kind))
    return StructType(fields)


def parse_hints(hints: str) -> list[tuple[tuple[str, ...], DataType]]:
    """Parse `id BIGINT, address.zip STRING` into paths with types.

    Raises:
        UserError: CLOUD_FILES_HINTS_INVALID.
    """
    parts, depth, current = [], 0, ""
    for character in hints:
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += character
    found: list[tuple[tuple[str, ...], DataType]] = []
    for part in (each.strip() for each in [*parts, current]):
        if not part:
            continue
        match = re.fullmatch(r"((?:`[^`]+`|[^\s`.]+)(?:\.(?:`[^`]+`|[^\s`.]+))*)\s+(.+)", part, re.DOTALL)
        if match is None:
            raise UserError("CLOUD_FILES_HINTS_INVALID", hints=hints, cause=f"`{part}` is no column with a type.")
        try:
            kind = DataType.fromDDL(match[2])
        except PySparkException as error:
            cause = one_line(str(error).split("\n")[0])
            raise UserError("CLOUD_FILES_HINTS_INVALID", hints=hints, cause=cause) from error
        path = tuple(name.strip("`") for name in re.findall(r"`[^`]+`|[^.`]+", match[1]))
        found.append((path, kind))
    return found


def _partitions(options: CloudFilesOptions, files: Sequence[FoundFile]) -> StructType:
    """The columns of the folders' names, in their order; typed if types are inferred."""
    values: dict[str, list[str]] = {}
    for file in files:
        below = decoded(file.uri).rpartition("/")[0].split("/")
        for part in below:
            if _PARTITION.fullmatch(part):
                name, _, value = part.partition("=")
                values.setdefault(unquote(name), []).append(unquote(value))
    root = {part.partition("=")[0] for part in options.path.split("/") if "=" in part}
    names = options.partition_columns
    if names is None:
        names = tuple(name for name in values if name not in root)
    infers = options.infers_types
    return StructType([StructField(name, _type_of(values.get(name, [])) if infers else StringType()) for name in names])


def _type_of(texts: Sequence[str]) -> DataType:
    given = [text for text in texts if text != "__HIVE_DEFAULT_PARTITION__"]
    if given and all(re.fullmatch(r"-?\d{1,18}", text) for text in given):
        return LongType()
    if given and all(re.fullmatch(r"\d{4}-(?:0\d|1[0-2])-(?:[0-2]\d|3[01])", text) for text in given):
        return DateType()
    return StringType()


def new_columns_error(options: CloudFilesOptions, names: Sequence[str], files: Sequence[FoundFile]) -> OperationError:
    """The error of a flow that meets columns which its schema lacks."""
    columns = ", ".join(names)
    if options.mode.value == "addNewColumns":
        return OperationError("UNKNOWN_FIELD", path=options.path, columns=columns)
    return OperationError("UNKNOWN_FIELD_REFUSED", path=options.path, columns=columns, file=decoded(files[0].uri))
