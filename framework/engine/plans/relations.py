"""Relations of a query, and DataFrames made from relations: empty, named, or moved to another session.

PySpark has no public call for an empty streaming DataFrame or for a DataFrame in a cloned
session; the JVM's own constructors create both without a job.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import is_instance_of
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from framework.engine.jvm.java import java_class, scala_items, scala_object, scala_seq, text_map
from framework.engine.plans.plans import analysed_plan, leaves_of, of_plan
from framework.foundation.names import QualifiedName

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_CATALYST = "org.apache.spark.sql.catalyst"
_FILES = "org.apache.spark.sql.execution.datasources.HadoopFsRelation"
_DELTA_FILES = "org.apache.spark.sql.delta.files.TahoeFileIndex"
_CHANGE_FEED = "org.apache.spark.sql.delta.commands.cdc.CDCReader$DeltaCDFRelation"

_PARTS_OF_SOURCE = range(2, 10)
"""The parameters of Spark's `DataSource` other than its session."""
_OTHERS_OF_RELATION = range(2, 5)
"""The parameters of a `StreamingRelation` other than its source."""


def batch_paths(frame: DataFrame) -> tuple[str, ...]:
    """Return the folders and files that a query reads as batches, whether by path or by name, subqueries included.

    A Delta table is one path, its folder. Streaming sources (see `framework.sources`) and sources without files, such
    as JDBC, are not included.
    """
    return tuple(dict.fromkeys(path for leaf in plan_leaves(frame) for path in _paths(leaf)))


def catalog_names(frame: DataFrame) -> Iterator[tuple[str, str]]:
    """Yield the folder and the name of each table that a query reads by its name in Spark's catalog."""
    for leaf in plan_leaves(frame):
        if file_relation(leaf) is not None and leaf.catalogTable().isDefined():
            name = str(leaf.catalogTable().get().identifier().unquotedString())
            yield from ((path, name) for path in _paths(leaf))


def plan_leaves(frame: DataFrame) -> Iterator[Any]:
    """Yield the leaves of the analysed plan of a DataFrame, subqueries included."""
    plan = analysed_plan(frame)
    for part in (plan, *scala_items(plan.subqueriesAll())):
        yield from scala_items(part.collectLeaves())


def file_relation(leaf: Any) -> Any | None:
    """Return the files that a leaf of an analysed plan reads; None if it reads no files."""
    if leaf.nodeName() != "LogicalRelation":
        return None
    gateway: Any = SparkContext._gateway
    relation = leaf.relation()
    return relation.location() if is_instance_of(gateway, relation, _FILES) else None


def delta_table_of(files: Any) -> tuple[str, int, str] | None:
    """Return id, version and folder of the Delta table that a leaf reads; None if the files are not of a table."""
    gateway: Any = SparkContext._gateway
    if not is_instance_of(gateway, files, _DELTA_FILES):
        return None
    return str(files.metadata().id()), int(files.version()), str(files.deltaLog().dataPath().toString())


def input_files(files: Any) -> list[str]:
    """Return the URIs of the files that a leaf reads, sorted."""
    return sorted(files.inputFiles())


def format_of(leaf: Any) -> str:
    """Return the columns and options with which a leaf reads files, as JSON."""
    relation = leaf.relation()
    mapper = java_class("org.apache.spark.sql.delta.util.JsonUtils").mapper()
    options = json.loads(mapper.writeValueAsString(relation.options()))
    return json.dumps([sorted(options.items()), relation.dataSchema().json(), relation.partitionSchema().json()])


def scanned_files(frame: DataFrame) -> int:
    """Return the number of files of a DataFrame that only reads files; a file that is read twice counts twice."""
    return int(analysed_plan(frame).relation().location().allFiles().size())


def _paths(leaf: Any) -> Iterator[str]:
    files = file_relation(leaf)
    if files is not None:
        yield from (str(path.toString()) for path in scala_items(files.rootPaths()))
    elif leaf.nodeName() == "LogicalRelation":
        gateway: Any = SparkContext._gateway
        relation = leaf.relation()
        if is_instance_of(gateway, relation, _CHANGE_FEED):
            yield str(relation.snapshotWithSchemaMode().snapshot().deltaLog().dataPath().toString())


def stand_in(spark: SparkSession, schema: StructType, *, streaming: bool) -> DataFrame:
    """Return an empty DataFrame with a schema, streaming or batch."""
    return of_plan(spark, empty_relation(schema, streaming=streaming))


def empty_relation(schema: StructType, *, streaming: bool) -> Any:
    """Return the plan of an empty relation with a schema."""
    struct = java_class("org.apache.spark.sql.types.DataType").fromJson(schema.json())
    attributes = scala_object(f"{_CATALYST}.types.DataTypeUtils").toAttributes(struct)
    nil, none = scala_object("scala.collection.immutable.Nil"), java_class("scala.Option").empty()
    return java_class(f"{_CATALYST}.plans.logical.LocalRelation")(attributes, nil, streaming, none)


def fresh_columns(relation: Any) -> Any:
    """Return a relation with new expression ids for its columns, as for a separate read of the table."""
    return relation.newInstance()


def opaque_rows(spark: SparkSession, schema: StructType) -> DataFrame:
    """Return an empty batch with a schema that Spark's optimizer can't recognize as empty."""
    struct = java_class("org.apache.spark.sql.types.DataType").fromJson(schema.json())
    return DataFrame(spark._jsparkSession.createDataFrame(spark.sparkContext._jsc.emptyRDD(), struct), spark)


def named(frame: DataFrame, name: QualifiedName) -> DataFrame:
    """Return the same rows, with columns that can be qualified by the table's name, as for a catalog table."""
    return of_plan(frame.sparkSession, aliased(analysed_plan(frame), name.catalog, name.schema, name.table))


def qualified(frame: DataFrame, parts: Sequence[str]) -> Any:
    """Return the analysed plan of a table, with columns that can be qualified by its name as written in SQL."""
    plan = analysed_plan(frame)
    has_name = plan.nodeName() == "SubqueryAlias" and plan.identifier().name().lower() == parts[-1].lower()
    return plan if has_name and parts[0].lower() != "live" else aliased(plan, *parts)


def aliased(plan: Any, *name: str) -> Any:
    """Return a plan whose columns can be qualified by the parts of a name."""
    alias = java_class(f"{_CATALYST}.AliasIdentifier")(name[-1], scala_seq(name[:-1]))
    return java_class(f"{_CATALYST}.plans.logical.SubqueryAlias")(alias, plan)


def moved(frame: DataFrame, spark: SparkSession) -> DataFrame:
    """Return the same query in another session, so that each flow has its own settings."""
    return of_plan(spark, analysed_plan(frame))


def executed_rows(frame: DataFrame, spark: SparkSession, *, streams: bool) -> DataFrame:
    """Return the rows of a frame that another session plans, optionally as the batch of a stream."""
    struct = java_class("org.apache.spark.sql.types.DataType").fromJson(frame.schema.json())
    rows = frame._jdf.queryExecution().toRdd()
    return DataFrame(spark._jsparkSession.internalCreateDataFrame(rows, struct, streams), spark)


def as_stream(frame: DataFrame) -> DataFrame:
    """Return a native read as the batch of a stream: the same relation, marked as streaming."""
    relation = scala_object("org.apache.spark.sql.execution.datasources.LogicalRelation")
    leaf = analysed_plan(frame)
    return of_plan(frame.sparkSession, relation.apply(leaf.relation(), True))  # noqa: FBT003 - `isStreaming`


def range_as_stream(frame: DataFrame) -> DataFrame:
    """Return the rows of `spark.range` as the batch of a stream."""
    leaf, is_streaming = analysed_plan(frame), True
    numbers = java_class(f"{_CATALYST}.plans.logical.Range")
    of_stream = numbers(leaf.start(), leaf.end(), leaf.step(), leaf.numSlices(), leaf.output(), is_streaming)
    return of_plan(frame.sparkSession, of_stream)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamingSourceOfPlan:
    """A streaming source in a plan, as its reader defined it.

    Args:
        name: the name of the format.
        options: its options, with keys in lower case.
        is_data_source_v1: whether the options are the reader's; else they are the format's, and include the path.
    """

    name: str
    options: Mapping[str, str]
    is_data_source_v1: bool


def streaming_sources(frame: DataFrame) -> Iterator[StreamingSourceOfPlan]:
    """Yield the streaming sources of a query in plan order, without those in subqueries."""
    for leaf in leaves_of(frame):
        name = leaf.nodeName()
        if name == "StreamingRelation":
            source = leaf.dataSource()
            options = java_class("scala.jdk.javaapi.CollectionConverters").asJava(source.options())
            yield _streaming(str(source.className()), options, is_data_source_v1=True)
        elif name.startswith("StreamingRelation"):
            yield _streaming(str(leaf.sourceName()), leaf.extraOptions().asCaseSensitiveMap(), is_data_source_v1=False)


def _streaming(name: str, options: Any, *, is_data_source_v1: bool) -> StreamingSourceOfPlan:
    found = {key.lower(): value for key, value in text_map(options).items()}
    return StreamingSourceOfPlan(name=name.lower(), options=found, is_data_source_v1=is_data_source_v1)


def option_of_stream(leaf: Any, name: str) -> str | None:
    """Return an option of a Data Source V1 stream; None for any other leaf, or if the option is not set."""
    if leaf.nodeName() != "StreamingRelation":
        return None
    found = leaf.dataSource().options().get(name)
    return str(found.get()) if found.isDefined() else None


def of_own_session(leaf: Any, spark: SparkSession) -> Any:
    """Return the leaf of a stream with its source moved to a session, whose settings then apply."""
    source = leaf.dataSource()
    parts = [getattr(source, f"copy$default${number}")() for number in _PARTS_OF_SOURCE]
    others = [getattr(leaf, f"copy$default${number}")() for number in _OTHERS_OF_RELATION]
    return leaf.copy(source.copy(spark._jsparkSession, *parts), *others)
