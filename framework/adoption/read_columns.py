"""The tables and files that a pipeline's code reads, with the columns that it names. The code does not run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from framework.adoption.sql_columns import named_columns, relations
from framework.adoption.texts import UNKNOWN, Text, Texts, argument, dotted

_FORMATS = frozenset({"csv", "json", "text", "parquet", "orc"})
_OF_STRINGS = frozenset(
    {"select", "groupBy", "groupby", "orderBy", "sort", "dropDuplicates", "drop_duplicates", "dropna"}
)
_OF_SQL = frozenset({"where", "filter", "selectExpr", "expr"})
_EXPECTATIONS = frozenset({"expect", "expect_or_drop", "expect_or_fail"})
_FUNCTIONS = frozenset({"F", "f", "fn", "fns", "functions", "sf", "psf"})
"""The names that nearly all code gives `pyspark.sql.functions`."""
_OF_MANY = frozenset({"array", "coalesce", "concat", "greatest", "hash", "least", "struct", "xxhash64"})
_OF_NONE = frozenset({"lit", "expr", "udf", "window"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One read.

    Args:
        name: the name of the table, or the path.
        kind: the format of a path; empty if the code does not say it, None for a table.
        columns: the columns that the code names of it.
    """

    name: str
    kind: str | None
    columns: tuple[str, ...]


def reads_of(code: str, configuration: Mapping[str, str]) -> Iterator[Read]:
    """Yield what a module reads.

    The columns are named by the function with the read; with several reads in one function, by its joins.

    Args:
        code: its code.
        configuration: the values of the pipeline's parameters, as far as they are known.

    Raises:
        SyntaxError: it is no Python.
    """
    tree = ast.parse(code)

    def value_of(call: ast.Call, texts: Texts) -> Text | None:
        if not dotted(call.func).endswith(("conf.get", "widgets.get")):
            return None
        value = configuration.get(texts.whole(argument(call, 0, "key", "name")) or "")
        return UNKNOWN if value is None else Text(value)

    texts = Texts(tree, value_of)
    for scope in (each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)):
        yield from _of_function(scope, texts)
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call) and _last(node) == "sql"):
        for each in relations(texts.of(argument(call, 0, "sqlQuery", "query")).start):
            yield Read(name=each.name, kind=each.kind, columns=tuple(each.columns))


def _of_function(scope: ast.FunctionDef, texts: Texts) -> Iterator[Read]:
    calls = [node for node in ast.walk(scope) if isinstance(node, ast.Call)]
    found = dict(each for call in calls for each in _source(call, _format(calls, texts), texts))
    columns = list(dict.fromkeys(_columns(scope, texts) if len(found) == 1 else _joined(calls, texts)))
    for name, kind in found.items():
        yield Read(name=name, kind=kind, columns=tuple(columns))


def _source(call: ast.Call, kind: str, texts: Texts) -> Iterator[tuple[str, str | None]]:
    """Yield the table, or the path with its format, that a call of a reader reads."""
    last = _last(call)
    if last == "table" and "." in (name := texts.whole(argument(call, 0, "tableName", "name")) or ""):
        yield name.replace("`", ""), None
    elif last == "load" or (last in _FORMATS and "read" in ast.unparse(call.func)):
        path = texts.whole(argument(call, 0, "path"))
        if path is not None:
            yield path, last if last in _FORMATS else kind


def _format(calls: list[ast.Call], texts: Texts) -> str:
    """The format of files that the calls of a function name; empty if there is none."""
    found = ""
    for each in calls:
        if _last(each) == "option" and texts.whole(argument(each, 0, "key")) == "cloudFiles.format":
            return texts.whole(argument(each, 1, "value")) or ""
        if _last(each) == "format":
            found = texts.whole(argument(each, 0, "source")) or ""
    return "" if found == "cloudFiles" else found


def _joined(calls: list[ast.Call], texts: Texts) -> Iterator[str]:
    for call in calls:
        if _last(call) == "join":
            yield from _texts_in(argument(call, 1, "on"), texts)


def _columns(scope: ast.FunctionDef, texts: Texts) -> Iterator[str]:
    """Yield the columns that a function and its decorators name, but for those that the function computes itself."""
    parts: list[ast.AST] = [*scope.body, *scope.decorator_list]
    made = set[str]()
    for call in (node for part in parts for node in ast.walk(part) if isinstance(node, ast.Call)):
        if (name := _made(call, texts)) is not None:
            origins = [call.func] if _last(call) == "alias" else call.args[1:]
            made |= {name} - {column for each in origins for column in _named(each, texts)}
    yield from (column for part in parts for column in _named(part, texts) if column not in made)


def _named(node: ast.AST, texts: Texts) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Call):
            yield from _of_call(each, texts)
        elif isinstance(each, ast.Subscript) and isinstance(each.value, ast.Name) and each.value.id.islower():
            yield from _texts_in(each.slice, texts)


def _of_call(call: ast.Call, texts: Texts) -> Iterator[str]:
    last, function = _last(call), isinstance(call.func, ast.Attribute) and dotted(call.func.value) in _FUNCTIONS
    arguments = [text for each in call.args for text in _texts_in(each, texts)]
    if last in _OF_SQL:
        yield from (column for text in arguments for column in named_columns(text))
    elif last in _EXPECTATIONS:
        yield from named_columns("".join(arguments[1:]))
    elif last in {"col", "column"} or last in _OF_STRINGS or (function and last in _OF_MANY):
        yield from (text.partition(".")[0] for text in arguments if text != "*")
    elif last == "withColumnRenamed" or (function and last not in _OF_NONE and call.args):
        yield from (text for text in _texts_in(call.args[0], texts) if text != "*")


def _made(call: ast.Call, texts: Texts) -> str | None:
    """The column that a call makes."""
    place = {"withColumn": 0, "alias": 0, "withColumnRenamed": 1}.get(_last(call))
    return None if place is None else texts.whole(argument(call, place))


def _texts_in(node: ast.expr | None, texts: Texts) -> Iterator[str]:
    if isinstance(node, ast.List | ast.Tuple):
        for each in node.elts:
            yield from _texts_in(each, texts)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.Name) and (text := texts.whole(node)):
        yield text


def _last(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
