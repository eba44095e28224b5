"""Files grouped by their columns, as Spark infers them from exactly these files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql.types import DataType, StringType, StructField, StructType

from framework.engine.files.hadoop_files import avro_schema
from framework.engine.jvm.java_causes import java_causes, java_stack, session_fault
from framework.engine.jvm.java_errors import Py4JError, Py4JJavaError
from framework.engine.sessions.session import hadoop_configuration
from framework.foundation.errors import SluiceError, SourceError, UserError
from framework.foundation.files.local_storage import LocalStorage
from framework.foundation.files.storage_port import Storage
from framework.foundation.wording import one_line, without_internal_names
from framework.sources.cloud_files.columns.apart import EXACT_NAMES, session_with, types_without_first
from framework.sources.cloud_files.columns.fields import merged, plain_type, widest, widest_columns
from framework.sources.cloud_files.columns.file_columns import header_columns
from framework.sources.cloud_files.columns.headers import Header, header_groups
from framework.sources.cloud_files.files.local_listing import (
    FoundFile,
)
from framework.sources.cloud_files.files.manifest import manifest_reader, write_manifest
from framework.sources.cloud_files.settings.options import SELF_TYPED, CloudFilesOptions
from framework.sources.faults import is_source_fault

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.readwriter import DataFrameReader


_GIVEN = ("avroschema", "avroschemaurl")
PASSED_OVER = ""
"""The schema of files that Spark skips."""


_MERGED_IN_ANY_CASE = SELF_TYPED | {"xml"}
"""Formats for which Spark merges columns whose names differ only in case."""
_CORRUPT = "_corrupt_record"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroup:
    """Files that can be read together.

    Args:
        columns: the columns of the files, as far as they are needed (see `CloudFilesOptions.keeps_unknown`).
        files: the files.
    """

    columns: StructType = field(default_factory=lambda: StructType([]))
    files: tuple[FoundFile, ...] = ()


def file_groups(
    spark: SparkSession, options: CloudFilesOptions, files: Sequence[FoundFile], known: StructType | None = None
) -> list[FileGroup]:
    """Group files by their columns: one group, unless a column has several types in the files.

    Spark can't infer one schema for such files, so they are halved until it can.

    Args:
        spark: the session of the query.
        options: of the source.
        files: the files.
        known: the columns of the stream, to which CSV headers are matched; None if they are not known yet.

    Raises:
        SluiceError: as of `columns_of_files`.
    """
    if options.format == "avro":
        return _avro_groups(spark, options, files)
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


def _avro_groups(spark: SparkSession, options: CloudFilesOptions, files: Sequence[FoundFile]) -> list[FileGroup]:
    """Group Avro files by their columns; files with equal column types form one group.

    Raises:
        SluiceError: as of `columns_of_files`.
    """
    try:
        parts = files_by_schema(spark, options, files)
    except Py4JError as error:
        raise _unreadable(error, options, files) from error
    passed_over = parts.pop(PASSED_OVER, [])
    groups: list[FileGroup] = []
    for part in parts.values():
        columns = columns_of_files(spark, options, part)
        place = next((place for place, group in enumerate(groups) if _agree(group.columns, columns)), None)
        if place is None:
            groups.append(FileGroup(columns=columns, files=tuple(part)))
        else:
            both = merged(groups[place].columns, columns)
            groups[place] = FileGroup(columns=both, files=(*groups[place].files, *part))
    return [*groups, FileGroup(files=tuple(passed_over))] if passed_over or not groups else groups


def _agree(first: StructType, second: StructType) -> bool:
    """Return whether files with these columns can be read together."""
    types = {each.name.lower(): each for each in first.fields}
    return all(types.get(each.name.lower(), each) == each for each in second.fields)


def all_columns(groups: Sequence[FileGroup]) -> StructType:
    """Return the columns of all groups, each with a type that holds all values."""
    found = reduce(widest_columns, (group.columns for group in groups), StructType([]))
    return StructType([StructField(each.name, plain_type(each.dataType)) for each in found.fields])


def columns_of_files(
    spark: SparkSession, options: CloudFilesOptions, files: Sequence[FoundFile], known: StructType | None = None
) -> StructType:
    """Return the columns that Spark infers from exactly these files.

    Only the driver reads the file list, so the list can be in a temporary folder of the driver's machine. Names that
    differ in case are different columns. The arguments are those of `file_groups`.

    Raises:
        SourceError: CLOUD_FILES_SCHEMA_UNREADABLE if the files are the cause; CLOUD_FILES_ENCODING_UNKNOWN.
        UserError: CLOUD_FILES_SCHEMA_UNREADABLE if an option is the cause; or a condition of the session.
    """
    full = [file for file in files if file.size > 0]
    if not full:
        return StructType([])

    def inferred(some: Sequence[FoundFile]) -> StructType:
        with TemporaryDirectory(prefix="sluice-columns-") as scratch:
            return _columns_in(spark, options, some, LocalStorage(scratch), known)

    try:
        found = inferred(full)
    except (PySparkException, Py4JError) as error:
        raise _unreadable(error, options, full, inferred) from error
    columns = [each for each in found.fields if each.name != _CORRUPT]
    # An Avro field that is always null can't be read as a string.
    keeps_void = options.format == "avro"
    return StructType([StructField(each.name, plain_type(each.dataType, keeps_void=keeps_void)) for each in columns])


def _unreadable(
    error: PySparkException | Py4JError,
    options: CloudFilesOptions,
    files: Sequence[FoundFile],
    inferred: Callable[[Sequence[FoundFile]], StructType] | None = None,
) -> SluiceError:
    unfit = _not_of_files(error, options)
    if unfit is not None:
        return unfit
    causes = java_causes(java_stack(error)) if isinstance(error, Py4JError) else ()
    words = causes[-1].words if causes else str(error)
    cause = one_line(without_internal_names(words).split("\n\nJVM stacktrace")[0].split("\n\tat ")[0])
    is_of_files = is_source_fault(error)
    first = None
    if is_of_files and inferred is not None and "CANNOT_MERGE" not in cause:
        first = _first_unreadable(files, inferred)
    kind = SourceError if is_of_files else UserError
    return kind(
        "CLOUD_FILES_SCHEMA_UNREADABLE",
        path=options.path,
        format=options.format,
        count=len(files),
        file="" if first is None else f" (the first is {first.uri})",
        cause=cause,
    )


def _first_unreadable(
    files: Sequence[FoundFile], inferred: Callable[[Sequence[FoundFile]], StructType]
) -> FoundFile | None:
    """Find the first unreadable file by halving; None if no single file is the cause."""
    rest = files
    while rest:
        half = rest[: (len(rest) + 1) // 2]
        try:
            inferred(half)
        except (PySparkException, Py4JError):
            if len(half) == 1:
                return half[0]
            rest = half
        else:
            rest = rest[len(half) :]
    return None


def _not_of_files(error: PySparkException | Py4JError, options: CloudFilesOptions) -> SluiceError | None:
    """Return the error if the encoding or the session is the cause, not the files; None otherwise."""
    fault = session_fault(error)
    if fault is not None:
        return UserError(fault.condition, subject=f"The source cloudFiles of {options.path}", **fault.fields)
    if not isinstance(error, PySparkException) or error.getCondition() != "INVALID_PARAMETER_VALUE.CHARSET":
        return None
    return SourceError("CLOUD_FILES_ENCODING_UNKNOWN", path=options.path, cause=one_line(str(error)))


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
    """Return the columns of CSV files by name; a column whose type differs between headers is a string.

    Columns that match a known column have its name; names that differ from it only in case are left out.
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


def files_by_schema(
    spark: SparkSession, options: CloudFilesOptions, files: Sequence[FoundFile]
) -> dict[str, list[FoundFile]]:
    """Group Avro files by the schemas in their headers; one group if an option gives the schema.

    Args:
        spark: the session of the query.
        options: of the source.
        files: the files.

    Raises:
        Py4JJavaError: a file is missing or is not an Avro file.
    """
    given = next((value for name, value in options.reader if name in _GIVEN), None)
    if given is not None:
        return {given: list(files)}
    conf = hadoop_configuration(spark)
    found: dict[str, list[FoundFile]] = {}
    for file in files:
        found.setdefault(_schema_of(file, conf, options), []).append(file)
    return found


def _schema_of(file: FoundFile, conf: Any, options: CloudFilesOptions) -> str:
    if file.size == 0 or (dict(options.reader).get("ignoreextension") == "false" and not file.uri.endswith(".avro")):
        return PASSED_OVER
    try:
        return avro_schema(file.uri, conf)
    except Py4JJavaError:
        if options.flag("ignoreCorruptFiles") or options.flag("ignoreMissingFiles"):
            return PASSED_OVER
        raise
