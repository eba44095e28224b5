"""The format and options of PySpark's readers, which PySpark keeps only in the JVM and can't remove."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from framework.engine.jvm.java import java_class

if TYPE_CHECKING:
    from pyspark.sql import DataFrameReader, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader


def format_of_reader(reader: DataFrameReader | DataStreamReader) -> str:
    """Return the name of the format that a reader reads, in lower case."""
    java: Any = reader._jreader
    return str(java.source()).lower()


def options_of_reader(reader: DataFrameReader | DataStreamReader) -> dict[str, str]:
    """Return the options set on a reader so far, as the user spells them."""
    entries = own_options(reader).originalMap().iterator()
    found = {}
    while entries.hasNext():
        entry = entries.next()
        found[entry._1()] = entry._2()
    return found


def schema_of_reader(reader: DataFrameReader | DataStreamReader) -> StructType | None:
    """Return the schema set on a reader; None if there is none."""
    found = reader._jreader.userSpecifiedSchema()
    return None if found.isEmpty() else StructType.fromJson(json.loads(found.get().json()))


def own_options(reader: DataFrameReader | DataStreamReader) -> Any:
    """Return the options set on a reader so far, for `set_options`."""
    java: Any = reader._jreader
    return java.extraOptions()


def set_options(reader: DataFrameReader | DataStreamReader, options: Any) -> None:
    """Replace all options of a reader by the result of `own_options`."""
    getattr(reader._jreader, "extraOptions_$eq")(options)


def remove_options(reader: DataFrameReader | DataStreamReader, names: Iterable[str]) -> None:
    """Remove options of a reader by case-insensitive names."""
    options = own_options(reader)
    for name in names:
        options = options.removed(name)
    set_options(reader, options)


def table_of_reader(reader: DataFrameReader | DataStreamReader, name: str) -> DataFrame:
    """Return the rows of a table, even where the reader's method `table` is intercepted."""
    return DataFrame(reader._jreader.table(name), reader._spark)


def csv_of_lines(reader: DataFrameReader, lines: DataFrame) -> DataFrame:
    """Parse the CSV lines in the only column of a frame."""
    encoder = java_class("org.apache.spark.sql.Encoders").STRING()
    return DataFrame(reader._jreader.csv(getattr(lines._jdf, "as")(encoder)), reader._spark)


def stream_without_rows(spark: SparkSession, kind: str, schema: StructType, path: str, **options: str) -> DataFrame:
    """Return the stream of a reader, even where user code may not create one."""
    reader = spark._jsparkSession.readStream().format(kind)
    for name, value in options.items():
        reader = reader.option(name, value)
    struct = java_class("org.apache.spark.sql.types.DataType").fromJson(schema.json())
    return DataFrame(reader.schema(struct).load(path), spark)
