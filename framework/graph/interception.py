"""Interception of table reads inside query functions while a graph is analysed or run.

`spark.read.table`, `spark.readStream.table`, `spark.table` and `spark.sql` are methods of PySpark
classes, so the classes are patched. A patched method calls the `TableReads` of the calling context;
without one it has PySpark's own behaviour.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.readwriter import DataFrameReader
from pyspark.sql.sql_formatter import SQLStringFormatter
from pyspark.sql.streaming.readwriter import DataStreamReader

from framework.declare.mutations import unguarded
from framework.declare.patches import Patch, Patches
from framework.declare.sql_calls import pyspark_sql, sql_handled_by
from framework.foundation.errors import UserError
from framework.foundation.locations import caller_location
from framework.graph.relations import moved
from framework.graph.sql_relations import SqlRelation, find_relations, is_command, parse, replace_relations
from framework.sources.databases.formats import register_format


class TableReads(Protocol):
    """Resolves the table names in query functions: to stand-ins during analysis, to tables during a run."""

    def read(self, spark: SparkSession, name: str, options: Mapping[str, str], *, streaming: bool) -> DataFrame:
        """The rows of the named dataset or table; raises UserError if the name is unknown."""
        ...


_active: ContextVar[TableReads | None] = ContextVar("sluice_table_reads", default=None)
_view_numbers = count()


@contextmanager
def reading(reads: TableReads) -> Iterator[None]:
    """Resolve the table reads of the block's own thread with `reads`."""
    with _PATCHES.installed(), sql_handled_by(_session_sql):
        token = _active.set(reads)
        try:
            yield
        finally:
            _active.reset(token)


@contextmanager
def not_reading() -> Iterator[None]:
    """Use PySpark's own reads in the block's own thread, also inside the call of a query function."""
    token = _active.set(None)
    try:
        yield
    finally:
        _active.reset(token)


def _patches() -> list[Patch]:
    return [
        Patch(DataFrameReader, "table", lambda _: _read_table),
        Patch(DataStreamReader, "table", lambda _: _read_stream_table),
        Patch(SparkSession, "table", lambda _: _session_table),
        Patch(DataFrameReader, "format", _with_database_formats),
        Patch(DataStreamReader, "format", _with_database_formats),
    ]


def _with_database_formats(original: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    """Let a reader's `format` register the formats of databases when one of them is named."""

    def named(self: Any, source: str) -> Any:
        if isinstance(source, str):
            register_format(self._spark, source)
        return original(self, source)

    return named


_PATCHES = Patches(_patches)


def _original(owner: type, method: str) -> Callable[..., DataFrame]:
    """PySpark's own method."""
    found: Callable[..., DataFrame] = _PATCHES.original(owner, method)
    return found


def _options(reader: Any) -> dict[str, str]:
    """The options set on a reader so far, keys in lower case."""
    entries = reader._jreader.extraOptions().iterator()  # noqa: SLF001 - PySpark has them in the JVM only
    found = {}
    while entries.hasNext():
        entry = entries.next()
        found[entry._1().lower()] = entry._2()
    return found


def _read_table(self: DataFrameReader, tableName: str) -> DataFrame:  # noqa: N803 - PySpark's name
    reads = _active.get()
    if reads is None:
        return _original(DataFrameReader, "table")(self, tableName)
    return reads.read(self._spark, tableName, _options(self), streaming=False)


def _read_stream_table(self: DataStreamReader, tableName: str) -> DataFrame:  # noqa: N803 - PySpark's name
    reads = _active.get()
    if reads is None:
        return _original(DataStreamReader, "table")(self, tableName)
    return reads.read(self._spark, tableName, _options(self), streaming=True)


def _session_table(self: SparkSession, tableName: str) -> DataFrame:  # noqa: N803 - PySpark's name
    reads = _active.get()
    if reads is None:
        return _original(SparkSession, "table")(self, tableName)
    return reads.read(self, tableName, {}, streaming=False)


def _session_sql(self: SparkSession, sqlQuery: str, args: Any = None, **kwargs: Any) -> DataFrame:  # noqa: N803 - PySpark's name
    reads = _active.get()
    if reads is None:
        return pyspark_sql(self, sqlQuery, args, **kwargs)
    if not kwargs:
        return _query(self, _substituted(self, sqlQuery), args, reads)
    formatter = SQLStringFormatter(self)
    with unguarded():  # the formatter creates a temporary view of each DataFrame argument
        text = formatter.format(sqlQuery, **kwargs)
    try:
        return _query(self, _substituted(self, text), args, reads)
    finally:
        with unguarded():
            formatter.clear()


def _substituted(spark: SparkSession, text: str) -> str:
    """Substitute `${key}` from the session's configuration, as Spark does before it parses.

    Spark's substitution uses the thread's active session, which may be another one.
    """
    jvm: Any = spark._jvm
    sessions = jvm.org.apache.spark.sql.classic.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        return str(jvm.org.apache.spark.sql.internal.VariableSubstitution().substitute(text))
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def _query(spark: SparkSession, text: str, args: Any, reads: TableReads) -> DataFrame:
    plan = parse(spark, text)
    if is_command(spark, plan):
        raise UserError(
            "UNSUPPORTED_PIPELINE_SPARK_SQL_COMMAND",
            location=caller_location(),
            command=text.split(maxsplit=1)[0].upper(),
        )
    views: dict[SqlRelation, str] = {}
    try:
        for relation in find_relations(plan):
            if _is_no_table(relation):
                continue
            views[relation] = f"__sluice_{next(_view_numbers)}"
            # The view must be in the session that runs the text; the rows may be of another session.
            found = moved(reads.read(spark, relation.text, {}, streaming=relation.streaming), spark)
            found._jdf.createOrReplaceTempView(views[relation])  # the Python method is refused as a session mutation
        frame = pyspark_sql(spark, replace_relations(text, views), args)
    finally:
        for view in views.values():
            spark._jsparkSession.catalog().dropTempView(view)
    return frame


def _is_no_table(relation: SqlRelation) -> bool:
    """Whether a relation is a view of PySpark's formatter (a DataFrame as `{frame}`) or a path (parquet.`/x`)."""
    formatted = len(relation.parts) == 1 and relation.parts[0].startswith("_pyspark_")
    return formatted or (len(relation.parts) == 2 and "/" in relation.parts[1])
