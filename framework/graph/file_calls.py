"""`read_files(…)` in a SQL text: each call is replaced by a name, and its arguments become options of `cloudFiles`.

Spark's parser reads the arguments. The rest of the text is parsed with the name in the place of the call, so `STREAM`,
aliases and joins work as with a table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from framework.foundation.errors import UserError
from framework.foundation.locations import caller_location
from framework.graph.sql_relations import parse
from framework.sources.cloud_files.options import reader_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TOKEN = re.compile(
    r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`|--[^\n]*|/\*.*?\*/|(?P<call>\bread_files\s*\()|[()]""",
    re.DOTALL | re.IGNORECASE,
)
_numbers = count()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCall:
    """The arguments of one call.

    Args:
        path: the folder.
        options: the options of a reader of `cloudFiles`, keys in lower case.
        schema: the schema as DDL; None if there is none.
    """

    path: str
    options: Mapping[str, str]
    schema: str | None


def replace_file_calls(spark: SparkSession, text: str) -> tuple[str, dict[str, FileCall]]:
    """Return the text with a name in the place of each call of `read_files`, and the calls by their names.

    Raises:
        UserError: CLOUD_FILES_OPTION_INVALID for an argument that is no literal; CLOUD_FILES_OPTION_MISSING.
    """
    calls: dict[str, FileCall] = {}
    for start, end in reversed(list(_calls(text))):  # from the end, so that positions stay
        name = f"__sluice_files_{next(_numbers)}"
        calls[name] = _parsed(spark, text[start:end])
        text = text[:start] + name + text[end:]
    return text, calls


def _calls(text: str) -> Iterator[tuple[int, int]]:
    """The positions of the calls; those in strings, quoted names and comments are none."""
    start, depth = None, 0
    for match in _TOKEN.finditer(text):
        if start is None:
            if match["call"]:
                start, depth = match.start(), 1
        elif match["call"] or match[0] == "(":
            depth += 1
        elif match[0] == ")":
            depth -= 1
            if depth == 0:
                yield start, match.end()
                start = None


def _parsed(spark: SparkSession, call: str) -> FileCall:
    function = parse(spark, f"SELECT * FROM {call}")
    while function.nodeName() != "UnresolvedTableValuedFunction":
        function = function.children().head()
    arguments = function.functionArgs()
    found: dict[str, str] = {}
    for index in range(arguments.size()):
        argument, name = arguments.apply(index), "path"
        if argument.nodeName() == "NamedArgumentExpression":
            name, argument = str(argument.key()).lower(), argument.value()
        elif index > 0:
            raise _invalid("read_files", argument, "an option with its name, such as format => 'json'")
        if argument.nodeName() != "Literal":
            raise _invalid(name, argument, "a literal")
        value = argument.value()
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if found.setdefault(name, text) != text:
            raise UserError(
                "CLOUD_FILES_OPTION_CONFLICT", location=caller_location(), first=f"{name} => {found[name]}",
                second=f"{name} => {text}", why="both name one option",
            )  # fmt: skip
    path = found.pop("path", "")
    if not path:
        raise UserError("CLOUD_FILES_OPTION_MISSING", location=caller_location(), option="path")
    return FileCall(path=path, schema=found.pop("schema", None), options=reader_options(found))


def _invalid(name: str, argument: Any, expected: str) -> UserError:
    return UserError(
        "CLOUD_FILES_OPTION_INVALID", location=caller_location(), option=name, value=argument.sql(), expected=expected
    )
