"""The declarations in a SQL statement, as frozen values: the equivalent calls of the Python interface."""

from __future__ import annotations

from dataclasses import dataclass

from framework.declare.specs import Pairs, ViolationAction
from framework.declare.sql.namespaces import OF_PIPELINE, Namespace

Argument = str | bool | list[str] | dict[str, str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlQuery:
    """The query of a dataset or a flow.

    Args:
        text: its text.
        line: the line of the file where it begins.
        labels: the names and comments of its columns; () to keep the query's own.
        namespace: the catalog and schema for its names.
    """

    text: str
    line: int
    labels: tuple[tuple[str, str | None], ...] = ()
    namespace: Namespace = OF_PIPELINE


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlExpectation:
    """A `CONSTRAINT … EXPECT` of a dataset."""

    name: str
    condition: str
    action: ViolationAction
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlCall:
    """A call of a function that declares a dataset or a flow.

    Args:
        function: its name in `framework.pipelines`.
        line: the line of the file where the statement begins.
        arguments: its arguments by name, without those that are equal to the default.
        positional: its positional arguments.
        expectations: the expectations of the dataset, each with its own line.
        query: the query that the function decorates; None if it decorates nothing.
        on_session: whether the session is the first argument.
    """

    function: str
    line: int
    arguments: tuple[tuple[str, Argument], ...] = ()
    positional: tuple[str, ...] = ()
    expectations: tuple[SqlExpectation, ...] = ()
    query: SqlQuery | None = None
    on_session: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlScope:
    """The settings of earlier statements in a file, for a statement.

    Args:
        settings: Spark settings for its flows.
        namespace: the catalog and schema for its names.
    """

    settings: Pairs = ()
    namespace: Namespace = OF_PIPELINE

    def spark_conf(self) -> dict[str, Argument]:
        """The `spark_conf` argument of a declaration; empty without settings."""
        return {"spark_conf": dict(self.settings)} if self.settings else {}
