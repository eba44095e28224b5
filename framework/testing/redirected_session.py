"""The session of Databricks' test API: a SparkSession whose tables by name are those of one test.

SQL statements, readers, writers and `spark.catalog` are redirected. Reads and writes by path are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import Catalog, DataFrame, DataFrameReader, DataFrameWriter, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.sql_formatter import SQLStringFormatter
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

from framework.declare.session.patches import Patch, Patches
from framework.engine.sessions.session import cloned_as, set_setting
from framework.record.log import EVENTS_FOLDER
from framework.sandbox.sandbox import Sandbox
from framework.testing.redirected_tables import RedirectedTables


class RedirectedSession(SparkSession):
    """A session of the pipeline's JVM for the code of one test."""

    sandbox: Sandbox
    tables: RedirectedTables

    def event_log(self) -> str:
        """Return the name of the table with the events of all updates so far."""
        return self.tables.events(self.sandbox.pipeline.storage.path(EVENTS_FOLDER))

    def sql(self, sqlQuery: str, args: Any = None, **kwargs: Any) -> DataFrame:  # noqa: N803 - PySpark's name
        """Run a statement over the tables of the test."""
        formatter = SQLStringFormatter(self)
        text = formatter.format(sqlQuery, **kwargs) if kwargs else sqlQuery
        try:
            return super().sql(self.tables.statement(text), args)
        finally:
            if kwargs:
                formatter.clear()

    def table(self, tableName: str) -> DataFrame:  # noqa: N803 - PySpark's name
        """Return the rows of a table of the test."""
        return super().table(self.tables.named(tableName))

    @property
    def read(self) -> DataFrameReader:
        """A reader of the tables of the test."""
        return _Reader(self)

    @property
    def readStream(self) -> DataStreamReader:  # noqa: N802 - PySpark's name
        """A reader of streams of the tables of the test."""
        return _StreamReader(self)

    @property
    def catalog(self) -> Catalog:
        """The catalog with the tables of the test."""
        return _Catalog(self)


class _Reader(DataFrameReader):
    def table(self, tableName: str) -> DataFrame:  # noqa: N803 - PySpark's name
        return super().table(_named(self, tableName))


class _StreamReader(DataStreamReader):
    def table(self, tableName: str) -> DataFrame:  # noqa: N803 - PySpark's name
        return super().table(_named(self, tableName))


_BY_TABLE = frozenset({
    "cacheTable", "createTable", "dropTable", "dropView", "getCreateTableString", "getTable", "getTableProperties",
    "isCached", "listColumns", "refreshTable", "tableExists", "truncateTable", "uncacheTable",
})  # fmt: skip
_BY_SCHEMA = frozenset({"databaseExists", "getDatabase", "listTables", "listViews", "setCurrentDatabase"})


class _Catalog(Catalog):
    def __init__(self, session: RedirectedSession) -> None:
        super().__init__(session)
        self._tables = session.tables

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name in _BY_TABLE:
            return partial(_called, found, self._tables.named)
        if name in _BY_SCHEMA:
            return partial(_called, found, lambda text: self._tables.database(tuple(text.split("."))))
        return found


def _called(method: Callable[..., Any], redirected: Callable[[str], str], *names: Any, **more: Any) -> Any:
    """Call a method of the catalog; its first argument is a name."""
    if names and isinstance(names[0], str):
        return method(redirected(names[0]), *names[1:], **more)
    key = next((key for key in ("tableName", "viewName", "dbName") if isinstance(more.get(key), str)), None)
    return method(**(more if key is None else more | {key: redirected(more[key])}))


def _named(owner: Any, name: str) -> str:
    """Return the name of a table for a reader, a writer or a DataFrame; unchanged if its session is not a test's."""
    session = owner.sparkSession if isinstance(owner, DataFrame) else owner._spark  # noqa: SLF001 - as PySpark's own writers do
    return session.tables.named(name) if isinstance(session, RedirectedSession) else name


def _by_first_name(original: Callable[..., Any]) -> Callable[..., Any]:
    """Redirect the first argument of a method, a table's name."""

    def redirected(self: Any, name: str, *more: Any, **options: Any) -> Any:
        return original(self, _named(self, name), *more, **options)

    return redirected


_WRITERS = Patches(
    lambda: (
        Patch(DataFrameWriter, "saveAsTable", _by_first_name),
        Patch(DataFrameWriter, "insertInto", _by_first_name),
        Patch(DataStreamWriter, "toTable", _by_first_name),
        Patch(ClassicDataFrame, "writeTo", _by_first_name),
        Patch(ClassicDataFrame, "mergeInto", _by_first_name),
    )
)


@contextmanager
def redirected_session(sandbox: Sandbox, folder: Path) -> Iterator[RedirectedSession]:
    """Yield a session for a test of a pipeline; its tables leave the catalog at the end of the block.

    Args:
        sandbox: the sandbox of the pipeline.
        folder: the folder for the tables of the test.
    """
    spec = sandbox.pipeline.spec
    session = cloned_as(RedirectedSession, sandbox.pipeline.spark)
    for key, value in {"spark.sql.sources.default": "delta", **dict(spec.configuration)}.items():
        set_setting(session, key, value)
    session.sandbox = sandbox
    session.tables = RedirectedTables(
        session, folder, catalog=spec.catalog, schema=spec.schema, output_of=sandbox.pipeline.store.record
    )
    with _WRITERS.installed():
        try:
            yield session
        finally:
            session.tables.drop()
