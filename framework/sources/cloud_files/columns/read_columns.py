"""The read schema of files, and the use of each column: a column of the stream, or rescued data only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

from framework.sources.cloud_files.columns.fields import (
    case_variants,
    distinct_fields,
    distinct_names,
    plain_type,
    with_maps,
    with_variants,
)
from framework.sources.cloud_files.columns.file_columns import Variant
from framework.sources.cloud_files.columns.fitting import fitted, is_kept, is_kept_text, is_parsed, parsed_text
from framework.sources.cloud_files.columns.rescue import (
    as_text,
    has_more,
    misfit,
    nested_misfit,
    nested_value,
    quoted,
    texts_of,
)
from framework.sources.cloud_files.columns.schemas import FileSchema
from framework.sources.cloud_files.settings.options import SELF_TYPED, CloudFilesOptions

if TYPE_CHECKING:
    from pyspark.sql import Column

_COMPLEX = (StructType, ArrayType, MapType)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadColumns:
    """Columns in read order. A *place* is the name of a column in the query.

    Args:
        options: of the source.
        columns: the read schema, with the names in the files; CSV columns are named by their places.
        places: the places of the columns; they differ in more than case.
        known: the stream column that each place supplies values for, by place.
        own: types in the files, by place, where they differ from the type in the stream.
        texts: types with all fields in the files, by place, of columns that are read as JSON text.
        unknown: the names in the files, by place, of columns that are only rescued.
        names: the names in the files, by place, where they differ from the place.
        is_exact: whether the reader must distinguish names that differ in case.
    """

    options: CloudFilesOptions
    columns: StructType
    places: Sequence[str]
    known: Mapping[str, StructField] = field(default_factory=dict)
    own: Mapping[str, DataType] = field(default_factory=dict)
    texts: Mapping[str, DataType] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    is_exact: bool = False

    def value(self, column: StructField) -> Column:
        """Return the expression of a stream column."""
        sources = self._sources(column)
        if not sources:
            return F.lit(None).cast(column.dataType).alias(column.name)
        values = [self._value(place, column.dataType) for place in sources]
        return (values[0] if len(values) == 1 else F.coalesce(*values)).alias(column.name)

    def lost(self) -> Iterator[Column]:
        """Yield the parts of the rescued data, except for records with values that do not fit."""
        for place, more in self.texts.items():
            yield nested_misfit(place, self._name(place), self.known[place].dataType, more, any_case=self._any_case)
        for place in self.own:
            yield misfit(place, self._name(place), self._is_kept(place))
        if self.unknown:
            yield texts_of(self.unknown)
        yield from self._second_values()

    def _second_values(self) -> Iterator[Column]:
        """Yield values of case variants that are rescued because the column already has a value."""
        for column in {each.name: each for each in self.known.values()}.values():
            sources = self._sources(column)
            for number, place in enumerate(sources[1:], 1):
                is_there = reduce(or_, (F.col(quoted(each)).isNotNull() for each in sources[:number]))
                yield F.when(is_there, texts_of({place: self._name(place)}))

    def _sources(self, column: StructField) -> list[str]:
        """Return the places that supply values for a column, an equal name first."""
        found = [place for place, known in self.known.items() if known.name == column.name]
        return sorted(found, key=lambda place: place != column.name)

    @property
    def _any_case(self) -> bool:
        return not self.options.is_case_sensitive

    def _name(self, place: str) -> str:
        return self.names.get(place, place)

    def _value(self, place: str, known: DataType) -> Column:
        if place in self.texts:
            return nested_value(place, known, self.texts[place], any_case=self._any_case)
        if place not in self.own:
            return F.col(quoted(place))
        if self._is_text_of_xml(place):
            return parsed_text(F.col(quoted(place)), known, self.options)
        return fitted(self._distinct(place), self.own[place], known, any_case=self._any_case)

    def _is_kept(self, place: str) -> Column:
        """Return a condition: whether `_value` keeps the whole value."""
        known = self.known[place].dataType
        if self._is_text_of_xml(place):
            return is_kept_text(F.col(quoted(place)), known, self.options)
        return is_kept(self._distinct(place), self.own[place], known, any_case=self._any_case)

    def _is_text_of_xml(self, place: str) -> bool:
        return self.options.format == "xml" and is_parsed(self.known[place].dataType)

    def _distinct(self, place: str) -> Column:
        own, distinct = self.own[place], distinct_fields(self.own[place])
        return F.col(quoted(place)) if own == distinct else F.col(quoted(place)).cast(distinct)


def read_columns(
    schema: FileSchema, options: CloudFilesOptions, data: StructType, found: StructType, variants: Sequence[Variant]
) -> ReadColumns:
    """Return the read schema of files.

    Args:
        schema: the columns of the stream.
        options: of the source.
        data: the columns that are always read: the stream's columns, or the columns of a CSV header in their places.
        found: the columns of the files, as far as they are needed.
        variants: the columns of a CSV header, among `data`, whose names differ only in case from other columns.
    """
    return _Reading(schema, options, found).columns(data, variants)


class _Reading:
    """Decides how each column is read."""

    def __init__(self, schema: FileSchema, options: CloudFilesOptions, found: StructType) -> None:
        self._schema, self._options, self._found = schema, options, found
        self._any_case = not options.is_case_sensitive
        self._is_exact = schema.rescued is not None or self._any_case
        self._replaced = {name.lower() for name in schema.partitions.fieldNames()}
        self._known: dict[str, StructField] = {}
        self._own: dict[str, DataType] = {}
        self._texts: dict[str, DataType] = {}
        self._unknown: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._read: list[StructField] = []

    def columns(self, data: StructType, variants: Sequence[Variant]) -> ReadColumns:
        """As `read_columns`."""
        is_csv = self._options.format == "csv"
        others = {each.place: each for each in variants}
        known = set(self._schema.data.fieldNames())
        extra = [] if is_csv else self._extra()
        more = [] if is_csv else self._variants()
        names = [*data.fieldNames(), *(each.name for each in extra), *(each.name for each in more)]
        places = distinct_names(names)
        for each, place in zip(data.fields, places, strict=False):
            if place in others:
                self._add_variant(place, others[place])
            elif place in known:
                self._add_known(each)
            else:
                self._add_unknown(place, each.name, each.dataType)
        for each, place in zip(extra, places[len(data.fields) :], strict=False):
            self._add_unknown(place, each.name, each.dataType)
        for variant, place in zip(more, places[len(data.fields) + len(extra) :], strict=True):
            self._add_variant(place, variant)
        return ReadColumns(
            options=self._options,
            columns=StructType(self._read),
            places=places,
            known=self._known,
            own=self._own,
            texts=self._texts,
            unknown=self._unknown if self._schema.rescued else {},
            names=self._names,
            is_exact=not is_csv and (places != names or self._has_inner_variants()),
        )

    def _extra(self) -> list[StructField]:
        """Return the file columns that the stream lacks, as strings unless the format has types."""
        if self._schema.rescued is None:
            return []
        known = {each.name.lower() for each in self._schema.columns.fields}
        fields = [each for each in self._found.fields if each.name.lower() not in known]
        return [StructField(each.name, self._type_of_text(each.dataType)) for each in fields]

    def _type_of_text(self, kind: DataType) -> DataType:
        if self._options.format in SELF_TYPED:
            return kind
        # A repeated XML element can be read as strings only as a list.
        return as_text(kind) if self._options.format == "xml" else StringType()

    def _variants(self) -> list[Variant]:
        """Return the file columns whose names differ only in case from known columns."""
        if not self._is_exact:
            return []
        known = {each.name.lower(): each.name for each in self._schema.data.fields}
        return [
            Variant(place="", name=each.name, known=known[each.name.lower()], type=each.dataType)
            for each in self._found.fields
            if known.get(each.name.lower(), each.name) != each.name and each.name.lower() not in self._replaced
        ]

    def _has_inner_variants(self) -> bool:
        """Return whether files have nested fields whose names differ only in case; JSON keeps them in its text."""
        if not self._is_exact or self._options.format == "json":
            return False
        return any("." in name for name in case_variants(self._schema.data, self._found))

    def _add_known(self, column: StructField) -> None:
        kinds = {each.name: each.dataType for each in self._found.fields}
        if not self._is_exact:
            kinds = {each.name.lower(): each.dataType for each in self._found.fields} | kinds
            kinds[column.name] = kinds.get(column.name, kinds.get(column.name.lower(), column.dataType))
        self._add(column.name, column.name, column, kinds.get(column.name, column.dataType))

    def _add_variant(self, place: str, variant: Variant) -> None:
        self._names[place] = variant.name
        if not self._any_case:
            self._add_unknown(place, variant.name, self._type_of_text(variant.type))
            return
        self._add(place, variant.name, self._schema.data[variant.known], variant.type)

    def _add(self, place: str, name: str, column: StructField, kind: DataType) -> None:
        """Add a file column that supplies values for a stream column; `kind` is its type in the files."""
        read, kind_of = column.dataType, self._options.format
        is_replaced = column.name.lower() in self._replaced
        if kind_of == "json":
            kind = with_maps(column.dataType, kind)
        if kind_of == "json" and self._is_exact and has_more(column.dataType, kind):
            self._texts[place] = with_variants(column.dataType, kind)
            read = StringType()
        elif kind_of == "xml" and self._schema.rescued and is_parsed(column.dataType) and not is_replaced:
            # If one value does not fit, Spark's XML reader drops other values of the record, or fails.
            self._own[place] = read = StringType()
        elif kind_of == "xml" and self._is_exact and _has_cases(column.dataType, kind) and not is_replaced:
            self._own[place] = read = kind
        elif (
            kind_of in SELF_TYPED
            and not is_replaced
            and plain_type(kind, keeps_void=True) != plain_type(column.dataType)
        ):
            # Spark reads every column as nullable, whatever the given schema says.
            self._own[place] = read = kind
        self._known[place] = column
        self._read.append(StructField(place if kind_of == "csv" else name, read))

    def _add_unknown(self, place: str, name: str, kind: DataType) -> None:
        self._unknown[place] = name
        if place != name:
            self._names[place] = name
        self._read.append(StructField(place if self._options.format == "csv" else name, kind))


def _has_cases(known: DataType, found: DataType) -> bool:
    columns, others = (StructType([StructField("v", kind)]) for kind in (known, found))
    return bool(case_variants(columns, others))
