"""Rescued data: file values that do not fit the columns of a stream, as a map of strings."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

from framework.sources.cloud_files.columns.fields import case_variants, distinct_fields, new_fields
from framework.sources.cloud_files.columns.fitting import fitted, is_kept

if TYPE_CHECKING:
    from pyspark.sql import Column

    from framework.sources.cloud_files.settings.options import CloudFilesOptions

RECORD = "__sluice_record"
"""The column that holds the text of a record with a value that does not fit."""
_BAD = "_corrupt_record"
_PATH = "_file_path"
_COMPLEX = (StructType, ArrayType, MapType)
_NOT_OF_LINES = frozenset(
    {
        "mode",
        "header",
        "encoding",
        "charset",
        "maxcharspercolumn",
        "emptyvalue",
        "ignoreleadingwhitespace",
        "ignoretrailingwhitespace",
    }
)
"""Reader options that don't affect the values of one line, or that are applied to them separately."""


def rescued_data(parts: Sequence[Column]) -> Column:
    """Return the rescued data column: a JSON object with the path of the file; NULL if all data fits."""
    if not parts:
        return F.lit(None).cast("string")
    kept = F.map_concat(*(F.coalesce(part, _nothing()) for part in parts))
    path = F.create_map(F.lit(_PATH), F.col("_metadata.file_path"))
    # A file field with this name takes precedence over the path.
    whole = F.when(F.map_contains_key(kept, _PATH), kept).otherwise(F.map_concat(kept, path))
    return F.when(F.size(kept) > 0, F.to_json(whole))


def texts_of(names: Mapping[str, str]) -> Column:
    """Return columns as strings, without NULLs; `names` maps names in the query to names in the files."""
    columns = [F.col(quoted(place)).alias(name) for place, name in names.items()]
    return F.from_json(F.to_json(F.struct(*columns)), "map<string,string>")


def misfit(place: str, name: str, is_whole: Column) -> Column:
    """Return a column's text, keyed by its name in the files, if the stream's type loses a part of its value."""
    return F.when(~is_whole, texts_of({place: name}))


def as_text(kind: DataType) -> DataType:
    """Return the string type for a value; an array of strings for a repeated value."""
    return ArrayType(StringType()) if isinstance(kind, ArrayType) else StringType()


def has_more(known: DataType, found: DataType) -> bool:
    """Return whether files have nested fields that a column lacks, compared case-sensitively."""
    columns, others = (StructType([StructField("v", kind)]) for kind in (known, found))
    return bool(new_fields(columns, others) or case_variants(columns, others))


def parsed_json(text: Column, kind: DataType) -> Column:
    """Parse JSON text to a struct with the value `v`; `bad` is not NULL if a part does not fit the type."""
    schema = StructType([StructField("v", kind), StructField("bad", StringType())])
    wrapped = F.concat(F.lit('{"v":'), text, F.lit("}"))
    return F.from_json(wrapped, schema, {"columnNameOfCorruptRecord": "bad"})


def nested_value(place: str, known: DataType, more: DataType, *, any_case: bool) -> Column:
    """Return the value of a JSON text column in the type of the stream.

    Args:
        place: the column.
        known: the type of the stream.
        more: the type of the stream with all fields of the files.
        any_case: whether fields whose names differ only in case supply values for a field, too.
    """
    text = F.col(quoted(place))
    if not any_case:
        return parsed_json(text, known)["v"]
    return fitted(parsed_json(text, more)["v"].cast(distinct_fields(more)), more, known, any_case=True)


def nested_misfit(place: str, name: str, known: DataType, more: DataType, *, any_case: bool) -> Column:
    """Return a JSON text column, keyed by its name in the files, if the stream's type loses a part of it."""
    text = F.col(quoted(place))
    whole = parsed_json(text, more)
    if any_case:
        kept = is_kept(whole["v"].cast(distinct_fields(more)), more, known, any_case=True)
        is_bad = whole["bad"].isNotNull()
    else:
        parsed = parsed_json(text, known)
        kept = F.to_json(F.struct(parsed["v"])).eqNullSafe(F.to_json(F.struct(whole["v"])))
        is_bad = parsed["bad"].isNotNull()
    return F.when(text.isNotNull() & (is_bad | ~kept), F.create_map(F.lit(name), text))


def _false() -> Column:
    return F.lit(False)  # noqa: FBT003 - a value, not a choice


def _nothing() -> Column:
    return F.from_json(F.lit("{}"), "map<string,string>")


def quoted(name: str) -> str:
    """Quote a name for `col`, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def misfits(
    columns: StructType, names: Mapping[str, str], replaced: Collection[str], options: CloudFilesOptions
) -> Column:
    """Return the values of a record that do not fit their columns; the record itself if it can't be parsed.

    Args:
        columns: the columns as they are read.
        names: their names in the files, where these differ.
        replaced: the columns whose values come from folder names, in lower case.
        options: the format and its options.

    Spark keeps the text of a record only if one of its values does not fit its column's type, so the expression costs
    nothing for other records.
    """
    record = F.col(RECORD)
    bad = F.create_map(F.lit(_BAD), record)
    if options.format == "xml":  # all values except nested ones are converted later
        return F.when(record.isNull(), _nothing()).otherwise(bad)
    fields = [each for each in columns.fields if each.name != RECORD]
    if options.format == "json":
        raw = F.from_json(record, "map<string,string>")
    else:
        raw = _csv_values(record, [names.get(each.name, each.name) for each in fields], options)
    kept = F.create_map(
        *(
            item
            for each in fields
            for name in [names.get(each.name, each.name)]
            for item in (F.lit(name), _is_kept(each, raw[name], replaced))
        ),
        F.lit(_BAD),
        _false(),
    )
    lost = F.map_filter(raw, lambda key, value: value.isNotNull() & ~F.coalesce(kept[key], _false()))
    return F.when(record.isNull(), _nothing()).otherwise(F.coalesce(lost, bad))


def _is_kept(column: StructField, text: Column, replaced: Collection[str]) -> Column:
    """Return whether the column keeps the whole value; a nested value may be lost although the column is not NULL."""
    if column.name.lower() in replaced:
        return ~_false()
    if isinstance(column.dataType, _COMPLEX):
        return parsed_json(text, column.dataType)["bad"].isNull()
    return F.col(quoted(column.name)).isNotNull()


def _csv_values(record: Column, names: Sequence[str], options: CloudFilesOptions) -> Column:
    """Return the values of a line by column; NULL if the line has more values than columns."""
    given = {name: value for name, value in options.reader if name not in _NOT_OF_LINES}
    separator = given.get("sep", given.get("delimiter", ",")).replace("\\t", "\t")
    values = F.from_csv(record, ", ".join(f"c{number} STRING" for number in range(len(names) + 1)), given)
    # A name may occur twice, in the same or another case.
    places = {name: f"c{number}" for number, name in reversed(list(enumerate(names)))}
    pairs = F.create_map(
        *(item for name, place in places.items() for item in (F.lit(name), _without_spaces(values[place], options)))
    )
    separators = F.length(record) - F.length(F.replace(record, F.lit(separator)))
    # The parser fails if there are too many.
    most = int(given.get("maxcolumns", "20480")) * len(separator)
    return F.when((separators < most) & values[f"c{len(names)}"].isNull(), pairs)


def _without_spaces(text: Column, options: CloudFilesOptions) -> Column:
    """Trim the spaces that the reader ignores; Spark's function for a single line fails with those options."""
    blank = "[\\x00-\\x20]+"
    patterns = {"ignoreLeadingWhiteSpace": f"^{blank}", "ignoreTrailingWhiteSpace": f"{blank}$"}
    for name, pattern in patterns.items():
        if options.flag(name):
            text = F.regexp_replace(text, pattern, "")
    # The function reads an empty value at the end of a line as a quoted value.
    return F.nullif(F.nullif(text, F.lit("")), F.lit(dict(options.reader).get("nullvalue", "")))
