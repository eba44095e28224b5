"""Interception of table reads inside query functions while a graph is analysed or run.

`spark.read.table`, `spark.readStream.table`, `spark.table` and `spark.sql` are methods of PySpark classes, so the
classes are patched. A patched method calls the `TableReads` of the calling context. Outside of such a context it
behaves as in PySpark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Protocol

from pyspark.errors import PySparkTypeError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import lit
from pyspark.sql.readwriter import DataFrameReader
from pyspark.sql.sql_formatter import SQLStringFormatter
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import StructType

from framework.declare.interface.shaded_classes import KAFKA, unshaded
from framework.declare.session.mutations import unguarded
from framework.declare.session.patches import Patch, Patches
from framework.declare.session.query_views import view_of_query
from framework.declare.session.registered_functions import current_functions
from framework.declare.session.sql_calls import pyspark_sql, sql_handled_by
from framework.declare.sql.namespaces import Namespace, current_namespace, namespace_of_query
from framework.declare.workspace.given_reads import given_reader, staged_read
from framework.declare.workspace.isolated_writes import isolated_command, temporary_view
from framework.declare.workspace.spark_paths import spelled_options, spelled_path
from framework.declare.workspace.sql_secrets import with_secrets
from framework.declare.workspace.surroundings import found_inputs, reads_of_engine
from framework.engine.plans.distinct_streams import deduplicated
from framework.engine.plans.plans import analysed_plan, of_plan
from framework.engine.plans.relations import qualified
from framework.engine.plans.sql_relations import (
    SqlRelation,
    find_relations,
    holds_command,
    is_command,
    parse,
    replace_relations,
)
from framework.engine.sessions.session import with_parameters, with_variables
from framework.engine.streams.readers import (
    format_of_reader,
    options_of_reader,
    own_options,
    remove_options,
    set_options,
)
from framework.foundation.errors import SluiceError, UserError
from framework.foundation.locations import caller_location
from framework.graph.reading.file_calls import FileCall, parse_with_file_calls
from framework.sources.cloud_files.batch import read_batch
from framework.sources.cloud_files.columns.schemas import SchemaStore
from framework.sources.cloud_files.relation import stand_in
from framework.sources.cloud_files.source import FORMAT as CLOUD_FILES
from framework.sources.databases.formats import register_format, schema_of_format
from framework.sources.port import StreamingRelation
from framework.sources.starts import ReaderStart


class TableReads(Protocol):
    """Resolves the table names in query functions: to stand-ins during analysis, to tables during a run."""

    def read(self, spark: SparkSession, name: str, options: Mapping[str, str], *, streaming: bool) -> DataFrame:
        """Return the rows of the named dataset or table; raise UserError if the name is unknown."""
        ...

    def is_view(self, name: str) -> bool:
        """Whether a name, as written, is the name of a temporary view of the pipeline."""
        ...

    def schemas(self) -> SchemaStore:
        """The recorded columns of folders of files."""
        ...


_active: ContextVar[TableReads | None] = ContextVar("sluice_table_reads", default=None)
_runs_commands: ContextVar[bool] = ContextVar("sluice_runs_commands", default=False)

StartOf = Callable[[StreamingRelation], ReaderStart | None]
_start_of: ContextVar[StartOf | None] = ContextVar("sluice_start_of", default=None)


@contextmanager
def reading(reads: TableReads, *, runs_commands: bool = False) -> Iterator[None]:
    """Resolve the table reads in the block's own thread with `reads`.

    Args:
        reads: resolves the names.
        runs_commands: whether `spark.sql` may run commands, with names as in Spark's catalog; else they are refused.
    """
    with _PATCHES.installed(), sql_handled_by(_session_sql):
        tokens = _active.set(reads), _runs_commands.set(runs_commands)
        try:
            yield
        finally:
            _active.reset(tokens[0])
            _runs_commands.reset(tokens[1])


@contextmanager
def starting(start_of: StartOf) -> Iterator[None]:
    """Make streams that the block's own thread loads start at `start_of`, whatever options the code sets."""
    token = _start_of.set(start_of)
    try:
        yield
    finally:
        _start_of.reset(token)


@contextmanager
def not_reading() -> Iterator[None]:
    """Use PySpark's own reads in the block's own thread, even inside the call of a query function."""
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
        Patch(DataStreamReader, "schema", _with_schema_noted),
        Patch(DataStreamReader, "load", _with_own_sources),
    ]


def _with_database_formats(original: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    """Make a reader's `format` register the database formats when one of them is named."""

    def named(self: Any, source: str) -> Any:
        if isinstance(source, str):
            register_format(self._spark, source)
            self._sluice_format = source.lower()
        return original(self, source)

    return named


def _with_schema_noted(original: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Record the schema of a streaming reader, because PySpark has no public way to read it."""

    def noted(self: Any, schema: Any) -> Any:
        found = original(self, schema)
        self._sluice_schema = StructType.fromDDL(schema) if isinstance(schema, str) else schema
        return found

    return noted


def _with_own_sources(original: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
    """Make a stream reader's `load` start where a reset says, and read `cloudFiles`, within a query function."""

    def load(
        self: Any,
        path: str | None = None,
        format: str | None = None,
        schema: Any = None,
        **options: Any,
    ) -> DataFrame:
        reads, start_of = _active.get(), _start_of.get()
        if reads is None and start_of is None and found_inputs() is None:
            return original(self, spelled_path(path), format, schema, **options)
        if format is not None:
            self.format(format)
        if schema is not None:
            self.schema(schema)
        self.options(**options)
        given_rows = given_reader(self, [path], streaming=True)
        self, path = (self, spelled_path(path)) if given_rows is None else (given_rows[0], str(given_rows[1]))
        format_name, given = getattr(self, "_sluice_format", None), getattr(self, "_sluice_schema", None)
        if format_name == KAFKA:
            self.options(**dict(unshaded(tuple(options_of_reader(self).items()))))
        with _started(self, path, start_of):
            if reads is None or format_name != CLOUD_FILES:
                if given is None:
                    _set_database_schema(self, path, format_name)
                return original(self, path)
            try:
                with unguarded(), reads_of_engine():  # schema inference runs jobs, which query functions must not
                    return stand_in(self._spark, path, options_of_reader(self), given, reads.schemas())
            except SluiceError as error:
                raise error.at(caller_location()) from error

    return load


def _set_database_schema(reader: Any, path: str | None, format_name: str | None) -> None:
    """Set the schema of a database reader; otherwise Spark would start a Python process to get it."""
    options = _options(reader) | ({} if path is None else {"path": path})
    try:
        schema = schema_of_format(format_name, options)
    except SluiceError as error:
        raise error.at(caller_location()) from error
    if schema is not None:
        reader.schema(schema)


@contextmanager
def _started(reader: Any, path: str | None, start_of: StartOf | None) -> Iterator[None]:
    """Apply a start to a reader's source for the block, if there is one; it replaces options that contradict it.

    The reader's own options are restored afterwards, because the code may use the reader again.
    """
    own = own_options(reader)
    start = None if start_of is None else start_of(_relation(reader, path))
    if start is not None:
        _replace_options(reader, start)
    try:
        yield
    finally:
        if start is not None:
            set_options(reader, own)


def _relation(reader: Any, path: str | None) -> StreamingRelation:
    """Return the source that a reader is about to load."""
    options = _options(reader)
    return StreamingRelation(format=format_of_reader(reader), path=path or options.get("path"), options=options)


def _replace_options(reader: Any, start: ReaderStart) -> None:
    """Set the options of a start on a reader, replacing options that contradict it."""
    remove_options(reader, start.removed | set(start.options))
    reader.options(**start.options)


_PATCHES = Patches(_patches)


def _original(owner: type, method: str) -> Callable[..., DataFrame]:
    """Return PySpark's original method."""
    found: Callable[..., DataFrame] = _PATCHES.original(owner, method)
    return found


def _options(reader: Any) -> dict[str, str]:
    """Return the options set on a reader so far, with keys in lower case."""
    return {name.lower(): value for name, value in options_of_reader(reader).items()}


def _rows_of(
    reads: TableReads, spark: SparkSession, name: str, options: Mapping[str, str], *, streaming: bool
) -> DataFrame:
    with reads_of_engine():  # the folder of a table is no path of the code
        return reads.read(spark, name, options, streaming=streaming)


def _read_table(self: DataFrameReader, tableName: str) -> DataFrame:  # noqa: N803 - PySpark's name
    reads = _active.get()
    if reads is None:
        return _original(DataFrameReader, "table")(self, tableName)
    if (view := view_of_query(tableName)) is not None:
        return view
    return _rows_of(reads, self._spark, tableName, _options(self), streaming=False)


def _read_stream_table(self: DataStreamReader, tableName: str) -> DataFrame:  # noqa: N803 - PySpark's name
    reads = _active.get()
    if reads is None:
        return _original(DataStreamReader, "table")(self, tableName)
    return _rows_of(reads, self._spark, tableName, _options(self), streaming=True)


def _session_table(self: SparkSession, tableName: str) -> DataFrame:  # noqa: N803 - PySpark's name
    reads = _active.get()
    if reads is None:
        return _original(SparkSession, "table")(self, tableName)
    if (view := view_of_query(tableName)) is not None:
        return view
    return _rows_of(reads, self, tableName, {}, streaming=False)


def _session_sql(self: SparkSession, sqlQuery: str, args: Any = None, **kwargs: Any) -> DataFrame:  # noqa: N803 - PySpark's name
    reads = _active.get()
    if reads is None:
        return pyspark_sql(self, sqlQuery, args, **kwargs)
    if not kwargs:
        return _query(self, with_variables(self, sqlQuery), args, reads)
    formatter = SQLStringFormatter(self)
    with unguarded():  # the formatter creates a temporary view for each DataFrame argument
        text = formatter.format(sqlQuery, **kwargs)
    try:
        return _query(self, with_variables(self, text), args, reads)
    finally:
        with unguarded():
            formatter.clear()


def _query(spark: SparkSession, text: str, args: Any, reads: TableReads) -> DataFrame:
    if args:
        text = with_parameters(spark, text, _columns(args))
    functions = current_functions()
    text = with_secrets(text if functions is None else functions.with_own_names(text))
    text, plan, calls = parse_with_file_calls(spark, text)
    if is_command(plan) or (found_inputs() is not None and holds_command(plan)):
        if _runs_commands.get():
            return _command(spark, text, reads)
        raise UserError(
            "UNSUPPORTED_PIPELINE_SPARK_SQL_COMMAND",
            location=caller_location(),
            command=text.split(maxsplit=1)[0].upper(),
        )
    found: dict[SqlRelation, Any] = {}
    namespace = current_namespace()
    for relation in find_relations(plan):
        if _is_no_table(relation):
            path = relation.parts[-1]
            if (spelled := _path_of_relation(spark, relation)) != path:
                found[relation] = parse(spark, f"TABLE {replace(relation, parts=(relation.parts[0], spelled)).text}")
            continue
        call = calls.get(relation.parts[0])
        if call is not None:
            streaming = relation.streaming or call.streams
            found[relation] = analysed_plan(_read_files(spark, call, reads, streaming=streaming))
            continue
        view = view_of_query(relation.text) if len(relation.parts) == 1 else None
        if view is not None and (view.isStreaming or not relation.streaming):
            found[relation] = qualified(view, relation.parts)
            continue
        name = relation.text if namespace is None else _in_namespace(namespace, relation, reads)
        with namespace_of_query(None):  # a view's query has its own namespace
            read = _rows_of(reads, spark, name, dict(relation.options), streaming=relation.streaming)
        found[relation] = qualified(read, relation.parts)
    rows = of_plan(spark, replace_relations(plan, found)) if found else pyspark_sql(spark, text)
    return deduplicated(rows, text)


def _command(spark: SparkSession, text: str, reads: TableReads) -> DataFrame:
    """Run a command; in a sandbox, a temporary view reads given rows, and what leaves the sandbox is refused."""
    view = None if found_inputs() is None else temporary_view(text)
    if view is None:
        return pyspark_sql(spark, isolated_command(spark, text))
    _query(spark, view[1], None, reads).createOrReplaceTempView(view[0])
    return spark.range(0).drop("id")  # the command's result: no rows, no columns


def _path_of_relation(spark: SparkSession, relation: SqlRelation) -> str:
    """Return the path where Spark reads a relation such as parquet.`/x`."""
    path = relation.parts[-1]
    if len(relation.parts) == 1:
        return path
    staged = staged_read(spark, relation.parts[0], path, dict(relation.options), streaming=relation.streaming)
    return str(spelled_path(path)) if staged is None else staged.path


def _in_namespace(namespace: Namespace, relation: SqlRelation, reads: TableReads) -> str:
    """Return the name of a table that a query reads after USE; a temporary view has no catalog and no schema."""
    if len(relation.parts) == 1 and reads.is_view(relation.text):
        return relation.text
    return replace(relation, parts=tuple(namespace.full(relation.parts))).text


def _columns(args: Any) -> dict[str, Column] | list[Column]:
    """Return the arguments of `spark.sql` as columns; PySpark raises its own error for a wrong type."""
    if isinstance(args, dict):
        return {name: lit(value) for name, value in args.items()}
    if isinstance(args, list):
        return [lit(value) for value in args]
    raise PySparkTypeError(
        errorClass="INVALID_TYPE", messageParameters={"arg_name": "args", "arg_type": type(args).__name__}
    )


def _read_files(spark: SparkSession, call: FileCall, reads: TableReads, *, streaming: bool) -> DataFrame:
    """Return the rows of a call; a stream is the same source as with a `cloudFiles` or `kafka` reader."""
    if call.is_kafka:  # readers here are patched as in query functions: starts and class names are applied
        reader = spark.readStream if streaming else spark.read
        return reader.format("kafka").options(**call.options).load()
    schema = None if call.schema is None else StructType.fromDDL(call.schema)
    assert schema is None or isinstance(schema, StructType)
    staged = staged_read(spark, CLOUD_FILES, call.path, call.options, schema=schema, streaming=streaming)
    if staged is None:
        call = replace(call, path=spelled_path(call.path), options=spelled_options(call.options.items()))
    else:
        kept = {key: value for key, value in call.options.items() if key.lower() not in staged.removed}
        call, schema = replace(call, path=staged.path, options={**kept, **staged.options}), staged.schema or schema
    options, start_of = call.options, _start_of.get()
    if streaming and start_of is not None:
        start = start_of(StreamingRelation(format=CLOUD_FILES, path=call.path, options=options))
        options = options if start is None else start.applied(options)
    try:
        with unguarded(), reads_of_engine():  # schema inference runs jobs, which query functions must not
            if streaming:
                return stand_in(spark, call.path, options, schema, reads.schemas())
            return read_batch(spark, call.path, options, schema)
    except SluiceError as error:
        raise error.at(caller_location()) from error


def _is_no_table(relation: SqlRelation) -> bool:
    """Whether a relation is a DataFrame in PySpark's formatter (`{frame}`) or a path (parquet.`/x`)."""
    formatted = len(relation.parts) == 1 and relation.parts[0].startswith("_pyspark_")
    return formatted or (len(relation.parts) == 2 and "/" in relation.parts[1])
