"""The statements of a SQL text, in order, as calls of the Python interface."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from framework.declare.registry import add_note
from framework.declare.session.registered_functions import current_functions
from framework.declare.sql.cursor import PARAMETER, Cursor
from framework.declare.sql.datasets import dataset_calls
from framework.declare.sql.flows import change_calls, flow_calls
from framework.declare.sql.namespaces import OF_PIPELINE
from framework.declare.sql.python_functions import python_function_call
from framework.declare.sql.statements import SqlCall, SqlScope
from framework.declare.sql_tokens import UnclosedTextError, statements, tokens
from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation, caller_location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_BEFORE = (("OR", "REPLACE"), ("OR", "REFRESH"), ("TEMPORARY",), ("TEMP",))


_SETTING = re.compile(r"SET\s+(?P<key>`[^`]+`|'[^']+'|[\w.\-]+)\s*=\s*(?P<value>.+)", re.DOTALL | re.IGNORECASE)
_SHOWN = re.compile(r"SET\s+[\w.\-]+\.[\w.\-]+", re.IGNORECASE)
"""A statement that only shows a setting, such as `SET spark.source` in Databricks' examples."""

_ZONE = re.compile(r"SET\s+TIME\s+ZONE\s+(?P<value>'[^']+')", re.IGNORECASE)
_ZONE_KEY = "spark.sql.session.timeZone"
_LOOKING = frozenset(
    {"SELECT", "FROM", "VALUES", "TABLE", "WITH", "DESCRIBE", "DESC", "SHOW", "EXPLAIN", "LIST", "HELP"}
)
"""The first words of statements that only show results, unless they insert rows."""

_ADVICE = {
    "SET": "Write SET key = value, or `configuration` or `spark_conf` in the pipeline spec.",
    "INSERT": "Write CREATE FLOW … AS INSERT INTO a streaming table.",
}
_OF_SPARK, _OF_PIPELINES = "spark.", "pipelines."
_OTHER = (
    "A SQL file has only CREATE STREAMING TABLE, MATERIALIZED VIEW, TEMPORARY VIEW, FLOW and FUNCTION, and DECLARE, "
    "SET and USE."
)


class SqlScript:
    """A SQL file whose statements are read one by one.

    Args:
        file: the file.
        value_of: returns the value of a parameter of the pipeline; None if it has no value.
    """

    def __init__(self, *, file: str, value_of: Callable[[str], str | None]) -> None:
        self.file, self.value_of = file, value_of
        self.settings: dict[str, str] = {}
        self.namespace = OF_PIPELINE
        self.faults: list[UserError] = []
        self._made: dict[str, str] = {}

    def calls(self, text: str, line: int) -> Iterator[SqlCall]:
        """Yield the calls for a text; faulty statements are skipped.

        Args:
            text: statements, with a semicolon after each.
            line: the line of the file where the text begins.
        """
        counted = 0
        try:
            for statement in statements(text):
                start, end = statement[0].start, statement[-1].end
                line, counted = line + text.count("\n", counted, start), start
                try:
                    yield from self._statement(text[start:end], line)
                except UserError as error:
                    self.faults.append(error)
        except UnclosedTextError as error:
            self.faults.append(self._unclosed(text[counted:], line, error.start - counted, error.kind))

    def _statement(self, written: str, line: int) -> Iterator[SqlCall]:
        """Yield the calls for one statement.

        Raises:
            UserError: PARSE_SYNTAX_ERROR, SQLPARAMETER_UNDEFINED, DUPLICATE_EXPECTATION, or
                PIPELINE_SQL_GRAPH_ELEMENT_REGISTRATION_ERROR.
        """
        text = PARAMETER.sub(self._value, written)
        if text[:3].upper() == "SET" and self._is_setting(text):
            yield from self._set_keys(line)
            return
        try:
            cursor = Cursor(self.file, text, line, tuple(tokens(text)))
        except UnclosedTextError as error:
            raise self._unclosed(text, line, error.start, error.kind) from None
        word = _first_word(text)
        if only_shows(text):
            add_note(UserError("STATEMENT_PASSED_OVER", location=cursor.location, statement=f"{word} …"))
            return
        cursor.check_parameters()
        yield from self._calls(cursor, word, line)

    def _calls(self, cursor: Cursor, word: str, line: int) -> Iterator[SqlCall]:
        """Yield the calls for a statement, reading it to its end."""
        settings = tuple((key, value) for key, value in self.settings.items() if key.startswith(_OF_SPARK))
        scope = SqlScope(settings=settings, namespace=self.namespace)
        if cursor.accept("CREATE", "FLOW"):
            yield from flow_calls(cursor, scope)
        elif creates_function(cursor):
            yield function_call(cursor, line, scope)
        elif cursor.accept("DECLARE"):
            yield variable_call(cursor, line)
        elif cursor.accept("CREATE"):
            yield from dataset_calls(cursor, scope)
        elif cursor.accept("APPLY", "CHANGES") or cursor.accept("AUTO", "CDC"):
            yield from change_calls(cursor, line, scope.spark_conf(), scope)
        elif cursor.accept("USE", "CATALOG") or cursor.accept("SET", "CATALOG"):
            self.namespace = self.namespace.using_catalog(cursor.identifier())
        elif cursor.accept("USE"):
            any(cursor.accept(word) for word in ("SCHEMA", "DATABASE", "NAMESPACE"))
            self.namespace = self.namespace.using(cursor.parts())
        else:
            cursor.refuse(word, _ADVICE.get(word, _OTHER))
        cursor.finish()

    def _is_setting(self, text: str) -> bool:
        """Whether a statement sets a key, which is then stored, or only shows one."""
        setting, zone = _SETTING.fullmatch(text), _ZONE.fullmatch(text)
        if setting is not None:
            self.settings[setting["key"].strip("`'")] = setting["value"].strip().strip("`")
        elif zone is not None:
            self.settings[_ZONE_KEY] = zone["value"].strip("'")
        return setting is not None or zone is not None or _SHOWN.fullmatch(text) is not None

    def _set_keys(self, line: int) -> Iterator[SqlCall]:
        """Yield the calls that apply `pipelines.` keys set since the last call as settings of the pipeline."""
        for key, value in self.settings.items():
            if key.startswith(_OF_PIPELINES) and self._made.get(key) != value:
                self._made[key] = value
                yield SqlCall(function="set_configuration", line=line, positional=(key, value.strip("'\"")))

    def _value(self, match: re.Match[str]) -> str:
        """Return the value of a parameter, or its own text if it has no value."""
        found = self.settings.get(match[1])
        found = self.value_of(match[1]) if found is None else found
        return match[0] if found is None else found

    def _unclosed(self, text: str, line: int, start: int, kind: str) -> UserError:
        location = SourceLocation(file=self.file, line=line + text.count("\n", 0, start))
        return UserError("PARSE_SYNTAX_ERROR", location=location, near=f"a {kind}", expected="its end")


def only_shows(text: str) -> bool:
    """Whether a statement only shows rows, such as SELECT, and declares nothing.

    Raises:
        UnclosedTextError: a text or a comment has no end.
    """
    return _first_word(text) in _LOOKING and not any(token.is_word("INSERT") for token in tokens(text))


def _first_word(text: str) -> str:
    return next((token.text.upper() for token in tokens(text) if not token.is_symbol("(")), "")


def creates_function(cursor: Cursor) -> bool:
    """Read `CREATE … FUNCTION` if it is next; return whether it was."""
    ahead = cursor.copy()
    if not ahead.accept("CREATE"):
        return False
    any(ahead.accept(*words) for words in _BEFORE[:2])
    any(ahead.accept(*words) for words in _BEFORE[2:])
    if not ahead.accept("FUNCTION"):
        return False
    ahead.accept("IF", "NOT", "EXISTS")
    cursor.go_to(ahead)
    return True


def function_call(cursor: Cursor, line: int, scope: SqlScope) -> SqlCall:
    """Return the call for a statement, from its function's name on.

    Args:
        cursor: the tokens from the name on.
        line: the line of the statement.
        scope: the settings of earlier statements.

    Raises:
        UserError: PARSE_SYNTAX_ERROR, PIPELINE_SQL_GRAPH_ELEMENT_REGISTRATION_ERROR.
    """
    name = ".".join(scope.namespace.full(cursor.parts()))
    if not cursor.is_at_symbol("("):
        cursor.fail("`(`")
    rest = cursor.copy()
    while not rest.at_end():
        if rest.is_at("LANGUAGE", "PYTHON"):
            return python_function_call(name, cursor, line)
        rest.skip()
    return SqlCall(function="create_function", line=line, positional=(name, cursor.until()), on_session=True)


def create_function(spark: SparkSession, name: str, definition: str) -> None:
    """Create a function that queries find by its name, with or without schema and catalog.

    Args:
        spark: the session of the pipeline.
        name: its name, with the parts that the statement and USE set.
        definition: the text after its name.

    Raises:
        UserError: FUNCTION_NAME_BUILT_IN, FUNCTION_REGISTERED_TWICE.
    """
    functions = current_functions()
    assert functions is not None  # only the code of a running pipeline gets here
    functions.create(spark, name, definition, caller_location())


def variable_call(cursor: Cursor, line: int) -> SqlCall:
    """Return the call for a statement, from after its DECLARE.

    Args:
        cursor: the tokens after DECLARE.
        line: the line of the statement.

    Raises:
        UserError: PARSE_SYNTAX_ERROR.
    """
    cursor.accept("OR", "REPLACE")
    cursor.accept("VARIABLE") or cursor.accept("VAR")
    name = cursor.parts()[-1]
    return SqlCall(function="declare_variable", line=line, positional=(name, cursor.until()), on_session=True)


def declare_variable(spark: SparkSession, name: str, definition: str) -> None:
    """Declare a variable of the pipeline.

    Args:
        spark: the session of the pipeline.
        name: its name.
        definition: its type and its value.

    Raises:
        UserError: VARIABLE_DECLARED_TWICE.
    """
    functions = current_functions()
    assert functions is not None  # only the code of a running pipeline gets here
    functions.declare(spark, name, definition, caller_location())
