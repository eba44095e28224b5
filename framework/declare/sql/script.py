"""The statements of a SQL text, in their order, as calls of Python's interface."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from framework.declare.sql.cursor import PARAMETER, Cursor
from framework.declare.sql.datasets import dataset_calls
from framework.declare.sql.flows import change_calls, flow_calls
from framework.declare.sql.namespaces import OF_PIPELINE
from framework.declare.sql.statements import SqlCall, SqlScope
from framework.declare.sql.tokens import UnclosedTextError, statements, tokens
from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation

_SETTING = re.compile(r"SET\s+(?P<key>`[^`]+`|'[^']+'|[\w.\-]+)\s*=\s*(?P<value>.+)", re.DOTALL | re.IGNORECASE)
_SHOWN = re.compile(r"SET\s+[\w.\-]+\.[\w.\-]+", re.IGNORECASE)
"""A statement that only shows a setting, such as `SET spark.source` in Databricks' examples."""

_ADVICE = {
    "SET": "Write SET key = value, or `configuration` or `spark_conf` in the pipeline spec.",
    "SELECT": "Declare a dataset with the query.",
    "INSERT": "Write CREATE FLOW … AS INSERT INTO a streaming table.",
}
_OF_SPARK = "spark."
_OTHER = "A SQL file has only CREATE STREAMING TABLE, MATERIALIZED VIEW, TEMPORARY VIEW and FLOW, SET and USE."


class SqlScript:
    """A SQL file whose statements are read one by one.

    Args:
        file: the file.
        value_of: returns the value of a parameter of the pipeline; None if it has none.
    """

    def __init__(self, *, file: str, value_of: Callable[[str], str | None]) -> None:
        self.file, self.value_of = file, value_of
        self.settings: dict[str, str] = {}
        self.namespace = OF_PIPELINE
        self.faults: list[UserError] = []

    def calls(self, text: str, line: int) -> Iterator[SqlCall]:
        """Yield the calls for a text; faulty statements are left out.

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
        setting = _SETTING.fullmatch(text)
        if setting is not None:
            self.settings[setting["key"].strip("`'")] = setting["value"].strip().strip("`")
            return
        if _SHOWN.fullmatch(text):
            return
        try:
            cursor = Cursor(self.file, text, line, tuple(tokens(text)))
        except UnclosedTextError as error:
            raise self._unclosed(text, line, error.start, error.kind) from None
        cursor.check_parameters()
        settings = tuple((key, value) for key, value in self.settings.items() if key.startswith(_OF_SPARK))
        scope = SqlScope(settings=settings, namespace=self.namespace)
        if cursor.accept("CREATE", "FLOW"):
            yield from flow_calls(cursor, scope)
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
            word = text.split(maxsplit=1)[0].upper()
            cursor.refuse(word, _ADVICE.get(word, _OTHER))
        cursor.finish()

    def _value(self, match: re.Match[str]) -> str:
        """Return the value of a parameter; itself if it has none."""
        found = self.settings.get(match[1])
        found = self.value_of(match[1]) if found is None else found
        return match[0] if found is None else found

    def _unclosed(self, text: str, line: int, start: int, kind: str) -> UserError:
        location = SourceLocation(file=self.file, line=line + text.count("\n", 0, start))
        return UserError("PARSE_SYNTAX_ERROR", location=location, near=f"a {kind}", expected="its end")
