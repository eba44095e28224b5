"""The SQL functions that pipeline code registers with `spark.udf.register` and `spark.udtf.register`.

They are temporary functions of the pipeline's session. The sessions of its flows are clones of that session, so all
queries, expectations and AUTO CDC expressions of the pipeline can use them, and no other pipeline can.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from framework.declare.registry import active_registry
from framework.declare.session.sql_calls import pyspark_sql
from framework.declare.sql_tokens import Token, TokenKind, tokens
from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation, caller_location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A function that is copied to two files of a pipeline has equal definitions.
_OF_FILE = re.compile(r"'__(?:name|module)__':'(?:\w+\.)*sluice_module_\w+'|'__file__':'[^']*'")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Definition:
    """The computation of a registered function, and the line that registered it first."""

    text: str
    location: SourceLocation | None


class RegisteredFunctions:
    """The functions that one pipeline registers; each name has one definition.

    Query functions are called again whenever their flows run. If a name changed its meaning in between, the rows of
    queries would change although their code does not.

    Args:
        spark: the session of the pipeline.
    """

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._definitions: dict[str, _Definition] = {}
        self._lock = threading.Lock()
        self._qualified: set[tuple[str, ...]] = set()
        self._variables: dict[str, _Definition] = {}

    def register(self, original: Callable[..., Any], registration: Any, *args: Any, **kwargs: Any) -> Any:
        """Call PySpark's method `register` after checking the function.

        Args:
            original: the method of PySpark.
            registration: its object, `spark.udf` or `spark.udtf` of the pipeline's session.
            *args: arguments of the method.
            **kwargs: arguments of the method.

        Returns:
            The result of the method: the function, for use on columns.

        Raises:
            UserError: FUNCTION_NAME_BUILT_IN, FUNCTION_REGISTERED_TWICE.
        """
        from framework.engine.plans.functions import CheckedRegistrations

        return original(type(registration)(CheckedRegistrations(self.spark, self._check)), *args, **kwargs)

    def create(self, spark: SparkSession, name: str, definition: str, location: SourceLocation | None) -> None:
        """Create a SQL function as a temporary function; queries may write its catalog and schema before its name.

        Args:
            spark: the session of the pipeline.
            name: its name as written.
            definition: its parameters, its return type and its body.
            location: the statement.

        Raises:
            UserError: FUNCTION_NAME_BUILT_IN, FUNCTION_REGISTERED_TWICE.
        """
        full = active_registry().name(name)
        self._keep(full.table, _Definition(text=definition, location=location))
        quoted = full.table.replace("`", "``")
        pyspark_sql(spark, f"CREATE OR REPLACE TEMPORARY FUNCTION `{quoted}`{definition}")
        self._qualified.add((full.catalog.lower(), full.schema.lower(), full.table.lower()))

    def create_python(self, spark: SparkSession, name: str, function: Callable[..., Any], returns: str | None) -> None:
        """Create a Python function under the name of a SQL function.

        Args:
            spark: the session of the pipeline.
            name: its name as written.
            function: the function.
            returns: its return type; None for a function that has it itself.

        Raises:
            UserError: FUNCTION_NAME_BUILT_IN, FUNCTION_REGISTERED_TWICE.
        """
        full = active_registry().name(name)
        spark.udf.register(full.table, function, returns)
        self._qualified.add((full.catalog.lower(), full.schema.lower(), full.table.lower()))

    def declare(self, spark: SparkSession, name: str, definition: str, location: SourceLocation | None) -> None:
        """Declare a variable, which has the same value in all queries of the pipeline.

        Args:
            spark: the session of the pipeline.
            name: its name as written.
            definition: its type and its value.
            location: the statement.

        Raises:
            UserError: VARIABLE_DECLARED_TWICE.
        """
        new = _Definition(text=definition, location=location)
        kept = self._variables.setdefault(name.strip("`").lower(), new)
        if kept.text != new.text:
            raise UserError("VARIABLE_DECLARED_TWICE", location=location, name=name, other=kept.location)
        pyspark_sql(spark, f"DECLARE OR REPLACE VARIABLE {name} {definition}")

    def has(self, name: str) -> bool:
        """Whether the pipeline registers a function of this name, ignoring case."""
        return name.lower() in self._definitions

    def with_own_names(self, text: str) -> str:
        """Return a query without the catalogs and schemas of SQL functions; all other text keeps its position."""
        if not self._qualified:
            return text
        found, parts = [*tokens(text)], list[Token]()
        for token in found:
            is_name = token.kind in {TokenKind.WORD, TokenKind.QUOTED}
            if (is_name and (not parts or parts[-1].is_symbol("."))) or (
                token.is_symbol(".") and parts and not parts[-1].is_symbol(".")
            ):
                parts.append(token)
            else:
                names = tuple(each.text.strip("`").lower() for each in parts[::2])
                if (
                    token.is_symbol("(")
                    and len(names) > 1
                    and any(names == each[-len(names) :] for each in self._qualified)
                ):
                    begin, end = parts[0].start, parts[-1].start
                    text = text[:begin] + " " * (end - begin) + text[end:]
                parts = [token] if is_name else []
        return text

    def _check(self, name: str, function: Any) -> None:
        """Check a JVM function, and store its definition.

        Raises:
            UserError: FUNCTION_NAME_BUILT_IN, FUNCTION_REGISTERED_TWICE.
        """
        self._keep(name, _Definition(text=_definition_text(function), location=caller_location()))

    def _keep(self, name: str, new: _Definition) -> None:
        location = new.location
        if _is_built_in(name):
            raise UserError("FUNCTION_NAME_BUILT_IN", location=location, name=name)
        with self._lock:
            kept = self._definitions.setdefault(name.lower(), new)
        if kept.text != new.text:
            raise UserError("FUNCTION_REGISTERED_TWICE", location=location, name=name, other=kept.location)


_accepting: ContextVar[RegisteredFunctions | None] = ContextVar("sluice_registered_functions", default=None)


@contextmanager
def accepting(functions: RegisteredFunctions) -> Iterator[None]:
    """Allow code in the block's own thread to register functions, although a guard refuses session changes."""
    token = _accepting.set(functions)
    try:
        yield
    finally:
        _accepting.reset(token)


def current_functions() -> RegisteredFunctions | None:
    """Return the functions of the pipeline whose code runs in this thread; None without one."""
    return _accepting.get()


def functions_of(registration: Any) -> RegisteredFunctions | None:
    """Return the functions of the running pipeline; None if the registration belongs to another session."""
    functions = _accepting.get()
    return functions if functions is not None and registration.sparkSession is functions.spark else None


def _is_built_in(name: str) -> bool:
    from framework.engine.plans.functions import is_built_in_function

    return is_built_in_function(name)


def _definition_text(function: Any) -> str:
    """Return a text of a JVM function that is the same for equal functions within one load of the modules."""
    from framework.declare.session.pickled_text import pickled_text
    from framework.engine.plans.functions import signature_of
    from framework.engine.plans.sent_functions import command_of

    pickled = command_of(function)
    found = pickled_text(pickled)
    text = repr(pickled) if found is None else _OF_FILE.sub("", found.text)
    return f"{signature_of(function)} {text}"
