"""DataFrames from Catalyst plans: stand-ins without rows, aliases, and plans moved to another session.

PySpark has no public call for an empty streaming DataFrame or for a DataFrame in a cloned
session; the JVM's own constructors create both without a job.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from py4j.java_gateway import is_instance_of
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from framework.foundation.files.storage import open_storage
from framework.foundation.jvm_cache import java_class, keep_classes_of_pyspark, scala_items, scala_object, scala_seq
from framework.foundation.names import QualifiedName
from framework.graph.reading.schemas import with_change_feed
from framework.sources.delta.read_commits import commit_identity
from framework.sources.plans import of_plan

_CATALYST = "org.apache.spark.sql.catalyst"
_FILES = "org.apache.spark.sql.execution.datasources.HadoopFsRelation"
_DELTA_FILES = "org.apache.spark.sql.delta.files.TahoeFileIndex"
_CHANGE_FEED = "org.apache.spark.sql.delta.commands.cdc.CDCReader$DeltaCDFRelation"


def analysed_plan(frame: DataFrame) -> Any:
    """The analysed Catalyst plan of a DataFrame."""
    return frame._jdf.queryExecution().analyzed()


def batch_paths(frame: DataFrame) -> tuple[str, ...]:
    """The folders and files that a query reads as batches, whether by path or by name, subqueries included.

    A Delta table is one path, its folder. Streaming sources are not included (see `framework.sources`), and neither
    are sources without files, such as JDBC.
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
    """The files that a leaf of an analysed plan reads; None if it reads no files."""
    if leaf.nodeName() != "LogicalRelation":
        return None
    gateway: Any = SparkContext._gateway
    relation = leaf.relation()
    return relation.location() if is_instance_of(gateway, relation, _FILES) else None


def delta_version(files: Any) -> str | None:
    """The id, the version and its commit of the Delta table whose files a leaf reads; None for files of no table."""
    gateway: Any = SparkContext._gateway
    if not is_instance_of(gateway, files, _DELTA_FILES):
        return None
    version, path = int(files.version()), str(files.deltaLog().dataPath().toString())
    # A folder that is put back from a backup, and written on to, has the same versions with other commits.
    commit = commit_identity(open_storage(path, SparkSession.getActiveSession()), path, version)
    return f"{files.metadata().id()} {version} {commit}"


def scanned_files(frame: DataFrame) -> int:
    """The number of files of a DataFrame that only reads files; one that is read twice counts twice."""
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
    """A DataFrame with that schema and no rows, streaming or batch."""
    return of_plan(spark, _empty_relation(schema, streaming=streaming))


def _empty_relation(schema: StructType, *, streaming: bool) -> Any:
    struct = java_class("org.apache.spark.sql.types.DataType").fromJson(schema.json())
    attributes = scala_object(f"{_CATALYST}.types.DataTypeUtils").toAttributes(struct)
    nil, none = scala_object("scala.collection.immutable.Nil"), java_class("scala.Option").empty()
    return java_class(f"{_CATALYST}.plans.logical.LocalRelation")(attributes, nil, streaming, none)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StandIns:
    """Stand-ins of datasets; each read gets its own instance, so that a dataset can be joined with itself.

    As with a table of a catalog, the columns of two reads have different expression identifiers.
    """

    spark: SparkSession
    _relations: dict[tuple[QualifiedName, bool, bool], Any] = field(default_factory=dict)
    _without_columns: list[DataFrame] = field(default_factory=list)

    def read(self, name: QualifiedName, schema: str | None, *, change_feed: bool, streaming: bool) -> DataFrame:
        """A DataFrame without rows for one read of a dataset with that schema, as JSON."""
        key = (name, change_feed, streaming)
        if key not in self._relations:
            struct = StructType.fromJson(json.loads(schema or "{}"))
            struct = with_change_feed(struct) if change_feed else struct
            self._relations[key] = _empty_relation(struct, streaming=streaming)
        return of_plan(self.spark, _aliased(self._relations[key].newInstance(), name.catalog, name.schema, name.table))

    def without_columns(self) -> DataFrame:
        """The frame of a flow whose query is not analysed."""
        if not self._without_columns:
            self._without_columns.append(stand_in(self.spark, StructType(), streaming=False))
        return self._without_columns[0]


def opaque_rows(spark: SparkSession, schema: StructType) -> DataFrame:
    """A batch with that schema and no rows, which Spark's optimizer does not know to be empty."""
    struct = java_class("org.apache.spark.sql.types.DataType").fromJson(schema.json())
    return DataFrame(spark._jsparkSession.createDataFrame(spark.sparkContext._jsc.emptyRDD(), struct), spark)


def named(frame: DataFrame, name: QualifiedName) -> DataFrame:
    """The same rows, with columns that can be qualified by the table's name, as for a table of a catalog."""
    return of_plan(frame.sparkSession, _aliased(analysed_plan(frame), name.catalog, name.schema, name.table))


def qualified(frame: DataFrame, parts: Sequence[str]) -> Any:
    """The analysed plan of a table, whose columns can be qualified by its name as it is written in SQL."""
    plan = analysed_plan(frame)
    has_name = plan.nodeName() == "SubqueryAlias" and plan.identifier().name().lower() == parts[-1].lower()
    return plan if has_name and parts[0].lower() != "live" else _aliased(plan, *parts)


def _aliased(plan: Any, *name: str) -> Any:
    alias = java_class(f"{_CATALYST}.AliasIdentifier")(name[-1], scala_seq(name[:-1]))
    return java_class(f"{_CATALYST}.plans.logical.SubqueryAlias")(alias, plan)


def moved(frame: DataFrame, spark: SparkSession) -> DataFrame:
    """The same query in another session, so that each flow has its own settings."""
    return of_plan(spark, analysed_plan(frame))


def cloned(spark: SparkSession) -> SparkSession:
    """A session with the same settings and functions; changes to it do not affect the original."""
    keep_classes_of_pyspark()
    return SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
