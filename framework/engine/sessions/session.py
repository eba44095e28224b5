"""The JVM's session: settings, SQL and the catalog, without the PySpark methods that are guarded in user code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from framework.engine.jvm.java import java_class, keep_classes_of_pyspark, scala_map, scala_object, scala_seq
from framework.engine.sessions.execution import active_session

S = TypeVar("S", bound=SparkSession)


def cloned(spark: SparkSession) -> SparkSession:
    """Return a session with the same settings and functions; changes to it do not affect the original."""
    return cloned_as(SparkSession, spark)


def cloned_as(kind: type[S], spark: SparkSession) -> S:
    """Return a session of a subclass of PySpark's, with the same settings and functions as another session."""
    keep_classes_of_pyspark()
    return kind(spark.sparkContext, spark._jsparkSession.cloneSession())


def set_setting(spark: SparkSession, key: str, value: str) -> None:
    """Set a setting of a session, even where user code may not do so."""
    spark._jsparkSession.conf().set(key, value)


def unset_setting(spark: SparkSession, key: str) -> None:
    """Remove a setting of a session, even where user code may not do so."""
    spark._jsparkSession.conf().unset(key)


def setting(spark: SparkSession, key: str) -> str | None:
    """Return a setting of a session, or its default; None if it has neither."""
    found = spark._jsparkSession.conf().getOption(key)
    return str(found.get()) if found.isDefined() else None


def settings_text(spark: SparkSession) -> str:
    """Return all settings of a session as the text of a Java map, by one call."""
    return str(spark._jsparkSession.conf().getAllAsJava().toString())


def setting_lines(spark: SparkSession) -> list[str]:
    """Return all settings of a session as `key=value`, one line each, whatever the value contains."""
    properties, text = java_class("java.util.Properties")(), java_class("java.io.StringWriter")()
    properties.putAll(spark._jsparkSession.conf().getAllAsJava())
    properties.store(text, None)
    return str(text.toString()).splitlines()


def run_statement(spark: SparkSession, statement: str) -> None:
    """Run an SQL statement, even where user code may not do so."""
    spark._jsparkSession.sql(statement)


def statement_rows(spark: SparkSession, statement: str) -> list[Any]:
    """Return the rows of an SQL statement as JVM rows."""
    return list(spark._jsparkSession.sql(statement).collectAsList())


def statement_frame(spark: SparkSession, statement: str) -> DataFrame:
    """Return the rows of an SQL statement, even where user code may not run it."""
    return DataFrame(spark._jsparkSession.sql(statement), spark)


def no_rows(spark: SparkSession) -> DataFrame:
    """Return a DataFrame without columns and rows."""
    return DataFrame(spark._jsparkSession.emptyDataFrame(), spark)


def table_exists(spark: SparkSession, name: str) -> bool:
    """Return whether a catalog of the session has a table or view, even where user code may not look it up."""
    return bool(spark._jsparkSession.catalog().tableExists(name))


def has_temporary_view(spark: SparkSession, name: str) -> bool:
    """Return whether a session has a temporary view with a name."""
    return bool(spark._jsparkSession.sessionState().catalog().getTempView(name).isDefined())


def is_temporary_view(spark: SparkSession, text: str) -> bool:
    """Return whether a text, as code writes the name of a table or a path, is the name of a temporary view."""
    return "/" not in text and has_temporary_view(spark, text.strip("`"))


def session_catalog_entry(spark: SparkSession, schema: str, table: str) -> tuple[str, str] | None:
    """Return kind and location of an entry in the session catalog, without reading the table; None if missing.

    Args:
        spark: the session.
        schema: the schema of the table.
        table: its name.

    Returns:
        The name of Spark's table type, such as EXTERNAL, and the location; empty if it has none.
    """
    state: Any = spark._jsparkSession.sessionState()
    identifier = state.sqlParser().parseTableIdentifier(f"`{schema}`.`{table}`")
    if not state.catalog().tableExists(identifier):
        return None
    found = state.catalog().getTableMetadata(identifier)
    location = found.storage().locationUri()
    kind = str(found.tableType().name())
    if not location.isDefined():
        return kind, ""
    return kind, str(java_class("org.apache.hadoop.fs.Path")(location.get()).toString())


def with_variables(spark: SparkSession, text: str) -> str:
    """Substitute `${key}` in SQL text from the session's configuration, as Spark does before parsing.

    Spark's substitution uses the thread's active session, which may be a different one.
    """
    with active_session(spark):
        return str(java_class("org.apache.spark.sql.internal.VariableSubstitution")().substitute(text))


def with_parameters(spark: SparkSession, text: str, columns: Mapping[str, Any] | list[Any]) -> str:
    """Replace the parameters of SQL text by literals: `:name` for a mapping, `?` for a list of columns.

    Spark's own `sql` leaves them to the parser, and Delta's parser ignores them.
    """
    session = spark._jsparkSession
    names = list(columns) if isinstance(columns, Mapping) else [str(index) for index in range(len(columns))]
    values = columns.values() if isinstance(columns, Mapping) else columns
    expressions = {name: session.expression(value._jc) for name, value in zip(names, values, strict=True)}
    literals = session.resolveAndValidateParameters(scala_map(expressions))
    handler = scala_object("org.apache.spark.sql.catalyst.parser.ParameterHandler")
    if isinstance(columns, Mapping):
        return str(handler.substituteNamedParameters(text, literals)._1())
    return str(handler.substitutePositionalParameters(text, scala_seq(literals.apply(name) for name in names))._1())


def hadoop_configuration(spark: SparkSession) -> Any:
    """Return the Hadoop configuration of a session, a copy with its settings."""
    return spark._jsparkSession.sessionState().newHadoopConf()


def is_zone_set_back(zone: str) -> bool:
    """Return whether a time zone, as Spark reads its name, has set clocks back since 1970 or will do so."""
    rules = java_class("org.apache.spark.sql.catalyst.util.DateTimeUtils").getZoneId(zone).getRules()
    if not rules.getTransitionRules().isEmpty():  # of each year
        return True
    return any(change.isOverlap() and change.toEpochSecond() > 0 for change in rules.getTransitions())


def has_session() -> bool:
    """Return whether this process has started Spark."""
    return SparkContext._active_spark_context is not None


def has_stopped() -> bool:
    """Return whether Spark of this process was shut down: that causes any later failure, such as of a commit."""
    java: Any = getattr(SparkContext._active_spark_context, "_jsc", None)
    return java is not None and bool(java.sc().isStopped())
