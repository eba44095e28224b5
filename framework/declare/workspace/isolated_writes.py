"""SQL commands of a sandbox's code, and its calls that name tables: they stay in the sandbox, or are refused.

A command with a path, such as delta.`/x`, uses the sandbox's place for the path. A test lets others through by name.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from framework.declare.session.patches import Patch
from framework.declare.sql_tokens import Token, TokenKind, string_value, tokens
from framework.declare.workspace.given_reads import staged_read, written_path
from framework.declare.workspace.surroundings import found_inputs
from framework.foundation.errors import UserError
from framework.foundation.locations import caller_location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FORMATS = frozenset({"avro", "binaryfile", "csv", "delta", "json", "orc", "parquet", "text", "xml"})
"""The formats whose files a command names by a path."""
_PART = r"(?:`(?:``|[^`])*`|\w+)"
_NAME = rf"(?P<name>{_PART}(?: \. {_PART})*)"
_TEMP = "(?:GLOBAL )?TEMP(?:ORARY)?"


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)


_OF_SESSION = _pattern(
    r"(?:SET|RESET|USE|SHOW|DESCRIBE|DESC|EXPLAIN|DECLARE|REFRESH|UNCACHE|CLEAR)\b"
    rf"|CREATE (?:OR REPLACE )?{_TEMP} FUNCTION |DROP {_TEMP} |CREATE (?:OR REPLACE )?{_TEMP} VIEW {_NAME} AS "
)
"""Commands that change only the session, or only read."""
_CREATES = _pattern(
    rf"(?:CREATE (?:OR REPLACE )?|REPLACE )(?:EXTERNAL )?(?:TABLE|VIEW|SCHEMA|DATABASE) (?:IF NOT EXISTS )?{_NAME}"
)
_CHANGES = _pattern(
    r"(?:INSERT (?:INTO|OVERWRITE) (?:TABLE )?|MERGE (?:WITH SCHEMA EVOLUTION )?INTO |DELETE FROM |UPDATE |VACUUM "
    r"|OPTIMIZE |(?:TRUNCATE|RESTORE|ALTER) TABLE |RESTORE |DROP (?:TABLE|VIEW|SCHEMA|DATABASE) (?:IF EXISTS )?)"
    rf"{_NAME}"
)
_DIRECTORY = _pattern(r"INSERT OVERWRITE (?:LOCAL )?DIRECTORY (?P<path>'|\")")
_VIEW = _pattern(rf"CREATE (?:OR REPLACE )?TEMP(?:ORARY)? VIEW (?P<view>{_PART}) AS ")


def temporary_view(text: str) -> tuple[str, str] | None:
    """Return the name and the query of a command that creates a temporary view; None for any other command."""
    found = _VIEW.match(_spaced(text))
    if found is None:
        return None
    place = len([*tokens(found[0])])
    return found["view"].strip("`"), text[[*tokens(text)][place].start :]


def isolated_command(spark: SparkSession, text: str) -> str:
    """Return a command as it runs: in a sandbox with the sandbox's places for its paths.

    Args:
        spark: the session of the command.
        text: the command, whose syntax Spark has checked.

    Raises:
        UserError: TEST_WRITE_NOT_ISOLATED, unless the test lets it through; TEST_INPUT_NOT_GIVEN of a path.
    """
    if found_inputs() is None:
        return text
    spaced = _spaced(text)
    creates, found = _CREATES.match(spaced), _CREATES.match(spaced) or _CHANGES.match(spaced)
    directory = _DIRECTORY.match(spaced)
    if _OF_SESSION.match(spaced) is None and directory is None:
        name = None if found is None else found["name"].replace(" . ", ".").replace("`", "")
        words = " ".join(spaced.split(" ")[:3])
        is_elsewhere = creates is not None and any(each.is_word("LOCATION") for each in tokens(text))
        if name is None or not _is_path(*name.partition(".")) or is_elsewhere:
            _check(f"The SQL command `{words} …`", name or words)
    return _with_places(spark, text, creates=creates is not None, to_directory=directory is not None)


def _check(call: str, name: str, condition: str = "TEST_WRITE_NOT_ISOLATED") -> None:
    """Refuse a call in a sandbox unless the test lets through the table or path that it names."""
    inputs = found_inputs()
    if inputs is not None and not inputs.lets_through(name):
        raise UserError(condition, location=caller_location(), call=call, name=name)


def isolated_write_patches() -> list[Patch]:
    """Return the patches by which calls that name tables, and RDDs of files, are refused in a sandbox."""
    from pyspark.core.context import SparkContext
    from pyspark.core.rdd import RDD
    from pyspark.sql.catalog import Catalog
    from pyspark.sql.merge import MergeIntoWriter
    from pyspark.sql.readwriter import DataFrameWriter, DataFrameWriterV2
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    # By name: modules that run on Databricks, which has a Delta of its own, import this one.
    delta = importlib.import_module("delta.tables")
    writes: list[tuple[type, str]] = [
        (DataFrameWriter, "saveAsTable insertInto"),
        (DataStreamWriter, "toTable"),
        (Catalog, "createTable createExternalTable dropTable truncateTable"),
        (delta.DeltaTableBuilder, "tableName"),
        (RDD, "saveAsTextFile saveAsPickleFile saveAsSequenceFile saveAsHadoopFile saveAsNewAPIHadoopFile"),
    ]
    reads = "textFile wholeTextFiles binaryFiles binaryRecords sequenceFile pickleFile newAPIHadoopFile hadoopFile"
    found = [Patch(owner, name, _let_through(name, 0)) for owner, names in writes for name in names.split()]
    found += [Patch(SparkContext, name, _read_let_through) for name in reads.split()]
    found += [
        Patch(DataFrameWriterV2, "__init__", _let_through("writeTo", 1)),
        Patch(MergeIntoWriter, "__init__", _let_through("mergeInto", 1)),
        Patch(delta.DeltaTable, "forName", _named_table),
        Patch(delta.DeltaTableBuilder, "location", _with_place),
    ]
    return [each for each in found if each.name in each.owner.__dict__]


def _let_through(name: str, place: int) -> Callable[[Any], Any]:
    """Return a patch that refuses a method, whose argument at a place names a table, unless a test lets it through."""

    def patch(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            table = str([*args, *kwargs.values()][place])
            _check(f"`{name}` of {table}", table)
            return original(self, *args, **kwargs)

        return call

    return patch


def _read_let_through(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def read(self: Any, *args: Any, **kwargs: Any) -> Any:
        path = str([*args, *kwargs.values()][0])
        _check(f"`{original.__name__}` of {path}", path, "TEST_READ_NOT_ISOLATED")
        return original(self, *args, **kwargs)

    return read


def _named_table(original: Any) -> Any:
    @functools.wraps(original.__func__)
    def for_name(cls: Any, spark: SparkSession, name: str) -> Any:
        _check(f"`DeltaTable.forName` of {name}", name)
        return original.__func__(cls, spark, name)

    return classmethod(for_name)


def _with_place(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def location(self: Any, path: str) -> Any:
        return original(self, written_path(path))

    return location


def _spaced(text: str) -> str:
    """Return a text with one space between its tokens, and none after it; strings are their opening quote."""
    return " ".join(each.text[0] if each.kind is TokenKind.STRING else each.text for each in tokens(text))


def _is_path(kind: str, dot: str, name: str) -> bool:
    """Whether a name such as delta.`/x` is a path."""
    return dot == "." and kind.lower() in _FORMATS and "/" in name


def _with_places(spark: SparkSession, text: str, *, creates: bool, to_directory: bool) -> str:
    """Return a command with the sandbox's place for each path; a first path that it creates is one of a write."""
    parts, end = list[str](), 0
    for token, kind, path in _paths(text, to_directory=to_directory):
        if kind is None or creates:
            place, creates = written_path(path), False
        else:
            staged = staged_read(spark, kind, path, {}, streaming=False)
            place = path if staged is None else staged.path
        quote = "`" if kind is not None else "'"
        parts += [text[end : token.start], quote, place, quote]
        end = token.end
    return "".join([*parts, text[end:]])


def _paths(text: str, *, to_directory: bool) -> Iterator[tuple[Token, str | None, str]]:
    """Yield the token, the format and the text of each path, such as delta.`/x`; without a format for a directory."""
    found = [*tokens(text)]
    for place, token in enumerate(found):
        if token.kind is TokenKind.QUOTED and place > 1:
            kind, dot, name = (each.text.strip("`") for each in found[place - 2 : place + 1])
            if _is_path(kind, dot, name):
                yield token, kind, name
        elif to_directory and token.kind is TokenKind.STRING:
            yield token, None, string_value(token)
            to_directory = False
