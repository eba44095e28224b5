"""`read_files(…)`, `cloud_files(…)` and `read_kafka(…)` in a SQL text: replaces each call with a name.

Spark's parser parses the arguments. The rest of the text is parsed with the name in place of the call, so `STREAM`,
aliases and joins work as they do for a table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from framework.engine.plans.plans import arguments_of, children_of, node_name
from framework.engine.plans.sql_relations import parse
from framework.foundation.errors import UserError
from framework.foundation.locations import caller_location
from framework.graph.reading.parse_faults import Replacement, part_of, written_by_user
from framework.sources.cloud_files.settings.given_options import reader_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TOKEN = re.compile(
    r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`|--[^\n]*|/\*.*?\*/|(?P<call>\b(?:(?:read|cloud)_files|read_kafka)\s*\()|[()]""",
    re.DOTALL | re.IGNORECASE,
)
_numbers = count()
_SELECT = "SELECT * FROM "


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCall:
    """The arguments of one call.

    Args:
        path: the folder; empty for Kafka.
        options: the options of a `cloudFiles` or `kafka` reader, as the user spells them.
        schema: the schema as DDL; None if there is none.
        streams: whether it is a stream even without STREAM, as `cloud_files` is.
        is_kafka: whether it reads topics.
    """

    path: str
    options: Mapping[str, str]
    schema: str | None
    streams: bool = False
    is_kafka: bool = False


def parse_with_file_calls(spark: SparkSession, text: str) -> tuple[str, Any, dict[str, FileCall]]:
    """Return the text with a name in place of each call, its parsed plan, and the calls by name.

    Line numbers do not change.

    Raises:
        UserError: CLOUD_FILES_OPTION_INVALID for an argument that is not a literal; CLOUD_FILES_OPTION_MISSING.
        ParseException: Spark's error, with positions in the given text.
    """
    calls: dict[str, FileCall] = {}
    replacements: list[Replacement] = []
    parsed, done = "", 0
    for start, end in _calls(text):
        name, call = f"__sluice_files_{next(_numbers)}", text[start:end]
        with part_of(text, start, _SELECT, call):
            calls[name] = _parsed(spark, call)
        shown = name + "\n" * call.count("\n")
        words = call.partition("(")[0].strip()
        replacements.append(Replacement(start=start, written=call, shown=shown, words=words))
        parsed, done = parsed + text[done:start] + shown, end
    parsed += text[done:]
    if not calls:
        return text, parse(spark, text), calls
    with written_by_user(text, parsed, replacements):
        return parsed, parse(spark, parsed), calls


def _calls(text: str) -> Iterator[tuple[int, int]]:
    """Yield the positions of the calls, ignoring strings, quoted names and comments."""
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
    function = parse(spark, _SELECT + call)
    while node_name(function) != "UnresolvedTableValuedFunction":
        function = children_of(function)[0]
    arguments = arguments_of(function)
    if call.lower().startswith("cloud"):
        return _cloud_files(arguments)
    found: dict[str, str] = {}
    spelled: dict[str, str] = {}
    for index, given in enumerate(arguments):
        argument, name = given, "path"
        if node_name(argument) == "NamedArgumentExpression":
            name, argument = str(argument.key()).lower(), argument.value()
            spelled[name] = str(given.key())
        elif index > 0:
            raise _invalid("read_files", argument, "an option with its name, such as format => 'json'")
        text = _literal(name, argument)
        if found.setdefault(name, text) != text:
            raise UserError(
                "CLOUD_FILES_OPTION_CONFLICT",
                location=caller_location(),
                first=f"{name} => {found[name]}",
                second=f"{name} => {text}",
                why="both name one option",
            )
    if call.lower().startswith("read_kafka"):
        named = {spelled[name]: value for name, value in found.items() if name in spelled}
        servers = {} if "bootstrapservers" not in found else {"kafka.bootstrap.servers": found["bootstrapservers"]}
        rest = {name: value for name, value in named.items() if name.lower() != "bootstrapservers"}
        return FileCall(path="", options=servers | rest, schema=None, is_kafka=True)
    path = found.pop("path", "")
    if not path:
        raise UserError("CLOUD_FILES_OPTION_MISSING", location=caller_location(), option="path")
    schema = found.pop("schema", None)
    options = reader_options({spelled[name]: value for name, value in found.items()})
    return FileCall(path=path, schema=schema, options=options)


def _cloud_files(arguments: list[Any]) -> FileCall:
    """Return the arguments of `cloud_files`: a path, a format, and a map of reader options."""
    texts = [_literal(name, each) for name, each in zip(("path", "format"), arguments[:2], strict=False)]
    if len(texts) < 2:
        raise UserError("CLOUD_FILES_OPTION_MISSING", location=caller_location(), option=("path", "format")[len(texts)])
    options = _map(arguments[2]) if len(arguments) > 2 else {}
    schema = next((options.pop(name) for name in list(options) if name.lower() == "schema"), None)
    options = {"cloudFiles.format": texts[1], **options}
    return FileCall(path=texts[0], schema=schema, options=options, streams=True)


def _map(argument: Any) -> dict[str, str]:
    parts = children_of(argument) if node_name(argument) == "UnresolvedFunction" else None
    if parts is None or argument.nameParts().mkString().lower() != "map" or len(parts) % 2:
        raise _invalid("cloud_files", argument, "a map of options, such as map('header', 'true')")
    texts = [_literal("map", part) for part in parts]
    return dict(zip(texts[::2], texts[1::2], strict=True))


def _literal(name: str, argument: Any) -> str:
    if node_name(argument) == "Concat":  # `'a' || 'b'`
        return "".join(_literal(name, part) for part in children_of(argument))
    if node_name(argument) != "Literal":
        raise _invalid(name, argument, "a literal")
    value = argument.value()
    return str(value).lower() if isinstance(value, bool) else str(value)


def _invalid(name: str, argument: Any, expected: str) -> UserError:
    return UserError(
        "CLOUD_FILES_OPTION_INVALID", location=caller_location(), option=name, value=argument.sql(), expected=expected
    )
