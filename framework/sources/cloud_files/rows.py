"""The rows of a batch of files: a native read, with the data that does not fit beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

from framework.foundation.local_storage import LocalStorage
from framework.foundation.storage_port import Storage
from framework.sources.cloud_files.fields import merged, new_fields, plain_type
from framework.sources.cloud_files.fitting import fitted, is_kept, is_kept_text, is_parsed, parsed_text
from framework.sources.cloud_files.folders import folder_text, new_folders
from framework.sources.cloud_files.headers import header_groups
from framework.sources.cloud_files.manifest import as_stream, manifest_reader, write_manifest
from framework.sources.cloud_files.options import RECORDS_OF_TEXT, SELF_TYPED, CloudFilesOptions, local_path
from framework.sources.cloud_files.schemas import FileGroup, FileSchema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.readwriter import DataFrameReader

_RECORD = "__sluice_record"
_BAD = "_corrupt_record"
_PATH = "_file_path"
_COMPLEX = (StructType, ArrayType, MapType)


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
    """

    spark: SparkSession
    options: CloudFilesOptions
    schema: FileSchema
    storage: Storage
    folder: str
    with_metadata: bool

    def rows(self, name: str, groups: Sequence[FileGroup]) -> DataFrame:
        """Return the rows of some files as a streaming DataFrame, with the columns of the stream.

        Args:
            name: of the batch.
            groups: its files, by the columns that they have.
        """
        folder = write_manifest(self.storage, f"{self.folder}/{name}", [])
        parts: list[DataFrame] = []
        for number, group in enumerate(self._full(groups)):
            place = write_manifest(self.storage, f"{folder}/{number}", group.files)
            if self.options.format == "csv" and self.options.flag("header"):
                parts.extend(self._by_header(place, group))
            else:
                parts.append(self._read(_listed(place), self.schema.data, group))
        if not parts:
            return self._read(_listed(folder), self.schema.data, FileGroup())
        return reduce(lambda left, right: left.union(right), parts)

    def _full(self, groups: Sequence[FileGroup]) -> list[FileGroup]:
        """The groups without empty files, if these have no rows: an empty archive is an error of its codec."""
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

        CSV files with headers must have the same columns in the same order; Spark reports others.

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
            spark=spark, options=options, schema=schema, storage=LocalStorage(""), folder="", with_metadata=False
        )
        return reader._read(load, schema.data, FileGroup(columns=found))

    def drop(self, name: str) -> None:
        """Delete the list of a batch that was read."""
        self.storage.delete_tree(f"{self.folder}/{name}")

    def _by_header(self, folder: str, group: FileGroup) -> Iterator[DataFrame]:
        """The rows of CSV files by the names in their headers; Spark itself goes by the position of a column."""
        for number, (header, files) in enumerate(header_groups(self.spark, self.options, folder, group.files)):
            columns = _named(header, self.schema.data)
            place = write_manifest(self.storage, f"{folder}/{number}", files)
            yield self._read(_listed(place), columns, FileGroup(columns=columns, files=tuple(files)))

    def _read(self, load: Callable[[DataFrameReader], DataFrame], data: StructType, group: FileGroup) -> DataFrame:
        """The rows of files that have the columns `data`."""
        spec, rescued, found = self.options, self.schema.rescued, group.columns
        unknown = self._unknown(found) if rescued else []
        # The columns of a CSV header have their places among the data, also those that the stream lacks.
        extra = [each for each in unknown if each.name not in data.fieldNames()]
        # A column with fields that the stream lacks is read as its JSON text, and parsed twice.
        texts = {each.name for each in data.fields if rescued and spec.format == "json" and _has_more(each, found)}
        own = self._own_types(data, found)
        read = [
            StructField(each.name, StringType() if each.name in texts else own.get(each.name, each.dataType))
            for each in data.fields
        ]
        columns = StructType([*read, *extra])
        reader = manifest_reader(self.spark).format(spec.format).options(**dict(spec.reader))
        keeps_records = rescued is not None and spec.format in RECORDS_OF_TEXT
        if keeps_records:
            columns = StructType([*columns.fields, StructField(_RECORD, StringType())])
            reader = reader.option("columnNameOfCorruptRecord", _RECORD)
        frame = load(reader.schema(columns))
        if columns == self.schema.columns and not self.with_metadata:
            return frame
        present = {each.name for each in columns.fields}
        shown = [self._column(each, present, texts, own) for each in self.schema.columns.fields]
        if rescued:
            kinds = {each.name: each.dataType for each in data.fields}
            parts = [_nested(name, kinds[name], merged(data, found)[name].dataType) for name in sorted(texts)]
            parts += [_misfit(name, self._keeps(name, kind, kinds[name])) for name, kind in own.items()]
            parts += [_values([F.col(_quoted(each.name)) for each in unknown])] if unknown else []
            parts += [_misfits(columns, self._replaced(), spec)] if keeps_records else []
            shown[-1] = _rescued([*parts, *self._folders(group)]).alias(rescued)
        if self.with_metadata:
            shown.append(F.col("_metadata"))
        return frame.select(*shown)

    def _own_types(self, data: StructType, found: StructType) -> dict[str, DataType]:
        """The types in the files, by column, where they differ from those of the stream."""
        if self.options.format == "xml" and self.schema.rescued:
            # Spark's reader of XML drops other values of a record with one that does not fit, or fails.
            return {
                each.name: StringType() for each in data.fields
                if is_parsed(each.dataType) and each.name.lower() not in self._replaced()
            }  # fmt: skip
        if self.options.format not in SELF_TYPED:
            return {}
        types = {each.name.lower(): each.dataType for each in found.fields}
        own: dict[str, DataType] = {}
        for each in data.fields:
            kind = types.get(each.name.lower(), each.dataType)
            # Spark reads every value as one that may be NULL, whatever a given schema says.
            if each.name.lower() not in self._replaced() and plain_type(kind) != plain_type(each.dataType):
                own[each.name] = kind
        return own

    def _replaced(self) -> set[str]:
        """The columns of files that the names of folders replace, in lower case."""
        return {name.lower() for name in self.schema.partitions.fieldNames()}

    def _folders(self, group: FileGroup) -> Iterator[Column]:
        """The values of folders that do not fit their column, or have none."""
        for each in self.schema.partitions.fields:
            if not isinstance(each.dataType, StringType):
                text = folder_text(each.name)
                lost = text.isNotNull() & text.try_cast(each.dataType).isNull()
                yield F.when(lost, F.create_map(F.lit(each.name), text))
        for name in new_folders(self.options, self.schema.columns, group.files).fieldNames():
            text = folder_text(name)
            yield F.when(text.isNotNull(), F.create_map(F.lit(name), text))

    def _unknown(self, found: StructType) -> list[StructField]:
        """The columns of the files that the stream does not have."""
        known = {each.name.lower() for each in self.schema.columns.fields}
        fields = [each for each in found.fields if each.name.lower() not in known]
        if self.options.format in SELF_TYPED:
            return fields
        if self.options.format == "xml":  # an element that is there several times has one text only as a list
            return [StructField(each.name, _as_text(each.dataType)) for each in fields]
        return [StructField(each.name, StringType()) for each in fields]

    def _column(self, column: StructField, present: set[str], texts: set[str], own: Mapping[str, DataType]) -> Column:
        if column.name in self.schema.partitions.fieldNames():
            return folder_text(column.name).try_cast(column.dataType).alias(column.name)
        if column.name in own:
            return self._converted(column.name, own[column.name], column.dataType).alias(column.name)
        if column.name in texts:
            return _parsed(F.col(_quoted(column.name)), column.dataType)["v"].alias(column.name)
        if column.name in present:
            return F.col(_quoted(column.name))
        return F.lit(None).cast(column.dataType).alias(column.name)

    def _converted(self, name: str, own: DataType, known: DataType) -> Column:
        """A column of another type, in the type of the stream; NULL if that loses a part of it."""
        value = F.col(_quoted(name))
        return parsed_text(value, known, self.options) if self.options.format == "xml" else fitted(value, own, known)

    def _keeps(self, name: str, own: DataType, known: DataType) -> Column:
        """Whether `_converted` has the whole value."""
        value = F.col(_quoted(name))
        return is_kept_text(value, known, self.options) if self.options.format == "xml" else is_kept(value, own, known)


def _listed(folder: str) -> Callable[[DataFrameReader], DataFrame]:
    """Load the files of a list as a batch of a stream."""
    return lambda reader: as_stream(reader.load(folder))


def _named(header: Sequence[str], data: StructType) -> StructType:
    """The columns of a CSV file with the types of the stream; one without a column is a string.

    A name in another case is that of a column, unless the file has the column's own name too.
    """
    known = {each.name: each for each in data.fields}
    others = {name.lower(): known[name] for name in known if name not in header}
    columns = [known.get(each) or others.pop(each.lower(), StructField(each, StringType())) for each in header]
    return StructType(columns)


def _rescued(parts: Sequence[Column]) -> Column:
    """The column of data that does not fit: a JSON object with the path of the file; NULL if all data fits."""
    if not parts:
        return F.lit(None).cast("string")
    kept = F.map_concat(*(F.coalesce(part, _nothing()) for part in parts))
    path = F.create_map(F.lit(_PATH), F.col("_metadata.file_path"))
    # A field of the files with this name has the place of the path.
    whole = F.when(F.map_contains_key(kept, _PATH), kept).otherwise(F.map_concat(kept, path))
    return F.when(F.size(kept) > 0, F.to_json(whole))


def _values(columns: Sequence[Column]) -> Column:
    """The texts of columns by their names, without NULL."""
    return F.from_json(F.to_json(F.struct(*columns)), "map<string,string>")


def _misfit(name: str, is_whole: Column) -> Column:
    """The text of a column of another type, if the stream's type loses a part of it."""
    return F.when(~is_whole, _values([F.col(_quoted(name))]))


def _as_text(kind: DataType) -> DataType:
    return ArrayType(StringType()) if isinstance(kind, ArrayType) else StringType()


def _has_more(column: StructField, found: StructType) -> bool:
    """Whether files have fields inside of a column that the column lacks."""
    same = [each for each in found.fields if each.name == column.name]
    return bool(new_fields(StructType([column]), StructType(same)))


def _parsed(text: Column, kind: DataType) -> Column:
    """A value of JSON text as `v`; `bad` is not NULL if a part of it does not fit the type."""
    schema = StructType([StructField("v", kind), StructField("bad", StringType())])
    wrapped = F.concat(F.lit('{"v":'), text, F.lit("}"))
    return F.from_json(wrapped, schema, {"columnNameOfCorruptRecord": "bad"})


def _nested(name: str, known: DataType, more: DataType) -> Column:
    """The text of a column as a map, if the column's type loses a part of it."""
    text = F.col(_quoted(name))
    parsed = _parsed(text, known)
    same = F.to_json(F.struct(parsed["v"])).eqNullSafe(F.to_json(F.struct(_parsed(text, more)["v"])))
    return F.when(text.isNotNull() & (parsed["bad"].isNotNull() | ~same), F.create_map(F.lit(name), text))


def _false() -> Column:
    return F.lit(False)  # noqa: FBT003 - a value, not a choice


def _nothing() -> Column:
    return F.from_json(F.lit("{}"), "map<string,string>")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _misfits(columns: StructType, replaced: set[str], options: CloudFilesOptions) -> Column:
    """The values of a record that have no place in their columns; the record itself if it can't be parsed.

    Folders have the values of the columns that are replaced.

    Spark keeps the text of a record only if one of its values has another type than its column, so that the expression
    costs nothing for all others.
    """
    record = F.col(_RECORD)
    bad = F.create_map(F.lit(_BAD), record)
    if options.format == "xml":  # all but nested values is converted later
        return F.when(record.isNull(), _nothing()).otherwise(bad)
    fields = [each for each in columns.fields if each.name != _RECORD]
    if options.format == "json":
        raw = F.from_json(record, "map<string,string>")
    else:
        raw = _csv_values(record, fields, options)
    kept = F.create_map(
        *(item for each in fields for item in (F.lit(each.name), _is_kept(each, raw, replaced))), F.lit(_BAD), _false()
    )
    lost = F.map_filter(raw, lambda key, value: value.isNotNull() & ~F.coalesce(kept[key], _false()))
    return F.when(record.isNull(), _nothing()).otherwise(F.coalesce(lost, bad))


def _is_kept(column: StructField, raw: Column, replaced: set[str]) -> Column:
    """Whether the column has the whole value; a value inside of it may be lost although it is not NULL."""
    if column.name.lower() in replaced:
        return ~_false()
    if isinstance(column.dataType, _COMPLEX):
        return _parsed(raw[column.name], column.dataType)["bad"].isNull()
    return F.col(_quoted(column.name)).isNotNull()


def _csv_values(record: Column, fields: Sequence[StructField], options: CloudFilesOptions) -> Column:
    """The values of a line by column; the whole line if it has more values than columns."""
    texts = [*(each.name for each in fields), "__more"]
    names = ("sep", "delimiter", "quote", "escape", "comment", "nullvalue", "emptyvalue")
    given = {name: value for name, value in options.reader if name in names}
    values = F.from_csv(record, ", ".join(f"{_quoted(name)} STRING" for name in texts), given)
    pairs = F.create_map(*(item for each in fields for item in (F.lit(each.name), values[each.name])))
    return F.when(values["__more"].isNull(), pairs)
