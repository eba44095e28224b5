"""What the code of a module declares and needs, read from its syntax tree; nothing of it runs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from framework.adoption.needs import Need, NeedKind
from framework.adoption.paths import prefixes
from framework.adoption.sql_reader import relations, sql_needs
from framework.adoption.texts import UNKNOWN, Text, Texts, argument, dotted
from framework.foundation.locations import SourceLocation

_INTERFACES = frozenset({"dlt", "pyspark.pipelines", "framework.pipelines", "databricks.pipelines"})
_DATASETS = frozenset({"table", "view", "materialized_view", "temporary_view", "create_table", "create_view"})
_TARGETS = frozenset({"create_streaming_table", "create_target_table", "create_streaming_live_table", "create_sink"})
_FLOWS = frozenset({"append_flow", "apply_changes", "apply_changes_from_snapshot"})
_CDC_FLOWS = frozenset({"create_auto_cdc_flow", "create_auto_cdc_from_snapshot_flow"})
_SQL_FLOWS = frozenset({"auto_cdc_flow"})
_DECLARING = _DATASETS | _TARGETS | _FLOWS | _CDC_FLOWS
_VIEWS = frozenset({"view", "temporary_view", "create_view"})
_CUSTOMARY = frozenset({"dlt", "dp"})
"""The names that nearly all code gives the interface of pipelines."""
_READERS = frozenset({"read", "read_stream"})
_WIDGETS = frozenset({"text", "dropdown", "combobox", "multiselect"})
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_TEXTS = (ast.Constant, ast.JoinedStr, ast.BinOp)
_OF_ENGINE = re.compile(r"spark\.|pipelines\.(?!parameters\.)")
"""What settings begin with that the engine has; the user's own may begin with `pipelines.parameters.`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeReading:
    """What was read in a module.

    Args:
        declares: whether it declares datasets or flows.
        datasets: the names of the datasets that it declares, as written; names that are computed are left out.
        reads: the datasets with the names of tables, as written, that their functions and flows read.
        needs: what it needs, in the order of its lines; a dataset of the pipeline itself may be among the tables.
        imports: the modules that it imports, each with its line, and names that may be modules of a package; relative
            imports are left out.
        not_imported: where it declares something with `dlt` or `dp` and has no such name; None if it does not.
        is_factory: whether all that it declares is in functions and classes that only other modules call.
        is_views_only: whether all that it declares are temporary views, which nothing is stored of.
        searched: the folders that it adds to `sys.path`, as it names them.
    """

    declares: bool
    datasets: frozenset[str]
    reads: frozenset[tuple[str, str]]
    needs: tuple[Need, ...]
    imports: tuple[tuple[str, SourceLocation], ...]
    not_imported: SourceLocation | None = None
    is_factory: bool = False
    is_views_only: bool = False
    searched: tuple[str, ...] = ()


def read_code(path: Path, code: str, configuration: Mapping[str, str]) -> CodeReading:
    """Read a module.

    Args:
        path: its file, for locations.
        code: its code.
        configuration: the values of the pipeline's parameters, as far as they are known.

    Raises:
        SyntaxError: it is no Python.
    """
    tree = ast.parse(code, filename=str(path))
    return _Reader(path, tree, configuration).reading()


class _Reader:
    """Reads the tree of one module."""

    def __init__(self, path: Path, tree: ast.Module, configuration: Mapping[str, str]) -> None:
        self._path, self._tree, self._configuration = path, tree, configuration
        self._interfaces = {name for name, module in _aliases(tree) if module in _INTERFACES}
        self._direct = {name: module for name, module in _aliases(tree) if module.rpartition(".")[0] in _INTERFACES}
        self._texts = Texts(tree, self._value)
        self._documents = {id(each) for each in (*_documentation(tree), *_added_folders(tree))}

    def reading(self) -> CodeReading:
        datasets = {name for node in ast.walk(self._tree) for name in self._declared(node)}
        needs = [need for node in _in_order(self._tree) for need in self._needs(node)]
        imports = [
            (name, SourceLocation(file=str(self._path), line=node.lineno))
            for node in ast.walk(self._tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in _imported(node)
        ]
        declares = any(self._uses(node) for node in ast.walk(self._tree))
        return CodeReading(
            declares=declares,
            datasets=frozenset(datasets),
            reads=frozenset(read for node in ast.walk(self._tree) for read in self._reads(node)),
            needs=tuple(needs),
            imports=tuple(imports),
            not_imported=self._not_imported(),
            is_factory=declares and not self._declares_at_load(),
            is_views_only=self._is_views_only(),
            searched=tuple(folder for node in ast.walk(self._tree) for folder in self._searched(node)),
        )

    def _is_views_only(self) -> bool:
        called = {self._function(node.func) for node in ast.walk(self._tree) if isinstance(node, ast.Call)}
        definitions = [node for node in ast.walk(self._tree) if isinstance(node, ast.FunctionDef)]
        decorators = {self._function(each) for node in definitions for each in node.decorator_list}
        declaring = (called | decorators) & _DECLARING
        return bool(declaring) and declaring <= _VIEWS

    def _searched(self, node: ast.AST) -> Iterator[str]:
        """Yield the folder that a call adds to `sys.path`, if it is known as a whole."""
        folder = self._texts.whole(_added_folder(node))
        yield from [folder] if folder else []

    def _declares_at_load(self) -> bool:
        """Whether code outside of functions declares something, or calls a function or a class of the module."""
        own = {node.name for node in self._tree.body if isinstance(node, _DEFINITIONS)}
        return any(
            (self._uses(node) and not isinstance(node, ast.ImportFrom))
            or (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in own)
            for node in _at_load(self._tree)
        )

    def _not_imported(self) -> SourceLocation | None:
        """The first declaration by an interface that the module has no name for; None if another file may give it."""
        names = {name for name, _ in _aliases(self._tree)} | {*_bound(self._tree)}
        if "*" in names:
            return None
        lines = [
            node.lineno
            for node in ast.walk(self._tree)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
            if node.attr in _DECLARING and node.value.id in _CUSTOMARY - names
        ]
        return SourceLocation(file=str(self._path), line=min(lines)) if lines else None

    def _declared(self, node: ast.AST) -> Iterator[str]:
        """Yield the name of the dataset that a function or a call declares."""
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                call = decorator if isinstance(decorator, ast.Call) else None
                if self._function(decorator if call is None else call.func) in _DATASETS:
                    written = call and argument(call, 0, "name")
                    name = node.name if written is None else self._texts.whole(written)
                    yield from [] if name is None else [name]
        elif isinstance(node, ast.Call) and self._function(node.func) in _DATASETS | _TARGETS:
            name = self._texts.whole(argument(node, 0, "name"))
            yield from [] if name is None else [name]

    def _reads(self, node: ast.AST) -> Iterator[tuple[str, str]]:
        """Yield the dataset of a function, of a decorated lambda or of a flow, with each table that it reads."""
        if isinstance(node, ast.FunctionDef):
            names = [*self._declared(node), *(name for each in node.decorator_list for name in self._target(each))]
        elif isinstance(node, ast.Call):
            names = [*self._target(node), *self._target(node.func), *self._declared(node.func)]
        else:
            return
        tables = {self._relation(each) for each in ast.walk(node)} | {*self._queried(node)} if names else set()
        yield from ((name, table) for name in names for table in tables if table)

    def _target(self, node: ast.AST) -> Iterator[str]:
        """Yield the target of a flow."""
        if isinstance(node, ast.Call) and self._function(node.func) in _FLOWS | _CDC_FLOWS | _SQL_FLOWS:
            name = self._texts.whole(argument(node, 0, "target"))
            yield from [] if name is None else [name]

    def _queried(self, node: ast.AST) -> Iterator[str]:
        """Yield the tables of the queries below a node."""
        for call in ast.walk(node):
            if isinstance(call, ast.Call) and dotted(call.func).rpartition(".")[2] == "sql":
                yield from relations(self._texts.of(argument(call, 0, "sqlQuery", "query")).start)

    def _uses(self, node: ast.AST) -> bool:
        """Whether a node is a decorator or a call of the interface of pipelines, or imports all of it."""
        if isinstance(node, ast.FunctionDef):
            return any(self._function(each) for each in node.decorator_list)
        if isinstance(node, ast.ImportFrom):
            return node.module in _INTERFACES and any(each.name == "*" for each in node.names)
        return isinstance(node, ast.Call) and self._function(node.func) is not None

    def _function(self, node: ast.expr) -> str | None:
        """The name of a function of the interface of pipelines; None for any other function."""
        module, _, name = dotted(node).rpartition(".")
        if module in self._interfaces:
            return name
        return self._direct[name].rpartition(".")[2] if not module and name in self._direct else None

    def _needs(self, node: ast.AST) -> Iterator[Need]:
        if isinstance(node, ast.Call):
            yield from self._of_call(node)
        if isinstance(node, ast.expr) and _is_text(node) and id(node) not in self._documents:
            text = self._texts.of(node)
            for prefix in prefixes(text):
                yield self._need(NeedKind.PATH, prefix, node)

    def _of_call(self, call: ast.Call) -> Iterator[Need]:
        name, last = dotted(call.func), call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if name.endswith(("dbutils.secrets.get", "dbutils.secrets.getBytes")):
            parts = self._texts.whole(argument(call, 0, "scope")), self._texts.whole(argument(call, 1, "key"))
            if parts[0] and parts[1]:
                yield self._need(NeedKind.SECRET, "/".join(map(str, parts)), call)
        elif name.endswith("spark.conf.get") or "dbutils.widgets." in name or name == "getArgument":
            yield from self._of_parameter(call, last)
        elif last == "sql" or name == "sql":
            yield from self._of_sql(call, self._texts.of(argument(call, 0, "sqlQuery", "query")))
        else:
            yield from self._of_table(call)

    def _of_parameter(self, call: ast.Call, function: str) -> Iterator[Need]:
        key = self._texts.whole(argument(call, 0, "key", "name"))
        if not key or _OF_ENGINE.match(key):
            return
        default = self._texts.whole(argument(call, 1, "default", "defaultValue"))
        if function in {"get", "getArgument"} or function in _WIDGETS or isinstance(call.func, ast.Name):
            yield self._need(NeedKind.PARAMETER, key, call, default)

    def _of_sql(self, call: ast.Call, text: Text) -> Iterator[Need]:
        """Yield what a query names; of one that is not known as a whole, all but its last name."""
        known = text.start if text.is_whole else text.start.rpartition(" ")[0]
        for kind, name, place in sql_needs(known):
            yield self._need(kind, name, call, line=known.count("\n", 0, place))

    def _of_table(self, call: ast.Call) -> Iterator[Need]:
        table = self._relation(call)
        if table and "." in table and not table.upper().startswith("LIVE."):
            yield self._need(NeedKind.TABLE, table, call)

    def _relation(self, node: ast.AST) -> str:
        """The name of the table that a call reads; empty for any other node, and for a name that is computed."""
        if not isinstance(node, ast.Call):
            return ""
        function, table = self._function(node.func), None
        if function in _READERS or (
            function is None and isinstance(node.func, ast.Attribute) and node.func.attr == "table"
        ):
            table = self._texts.whole(argument(node, 0, "tableName", "name"))
        elif function in {"apply_changes", "create_auto_cdc_flow"}:
            table = self._texts.whole(argument(node, 1, "source"))
        return (table or "").replace("`", "")

    def _value(self, call: ast.Call, texts: Texts) -> Text | None:
        """The text of a call that reads a parameter; None for any other call."""
        name = dotted(call.func)
        if not (
            name.endswith(("spark.conf.get", "dbutils.widgets.get", ".widgets.getArgument")) or name == "getArgument"
        ):
            return None
        key = texts.whole(argument(call, 0, "key", "name"))
        value = self._configuration.get(key or "")
        return UNKNOWN if value is None else Text(value)

    def _need(self, kind: NeedKind, name: str, node: ast.expr, default: str | None = None, line: int = 0) -> Need:
        location = SourceLocation(file=str(self._path), line=node.lineno + line)
        return Need(kind=kind, name=name, location=location, default=default)


def _in_order(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the nodes in the order of the code; a text that is a part of another one is left out."""
    nodes: list[ast.AST] = [tree]
    while nodes:
        node = nodes.pop()
        yield node
        children = [*ast.iter_child_nodes(node)]
        if isinstance(node, ast.JoinedStr | ast.BinOp):
            children = [each for each in children if not isinstance(each, _TEXTS)]
        if _is_format(node):
            children = children[1:]
        nodes.extend(reversed(children))


def _at_load(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the nodes that run while the module is loaded: no bodies of functions and classes."""
    nodes: list[ast.AST] = [*tree.body]
    while nodes:
        node = nodes.pop()
        yield node
        nodes.extend(node.decorator_list if isinstance(node, _DEFINITIONS) else ast.iter_child_nodes(node))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, _TEXTS) or _is_format(node)


def _is_format(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format"


def _aliases(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the names that imports define, each with the full name of what it is."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                yield (each.asname, each.name) if each.asname else (each.name, each.name)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for each in node.names:
                yield each.asname or each.name, f"{node.module}.{each.name}"


def _bound(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a module assigns, and the parameters of its functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (each.name for each in node.names)
    elif node.module and not node.level:
        yield node.module
        yield from (f"{node.module}.{each.name}" for each in node.names if each.name != "*")


def _added_folder(node: ast.AST) -> ast.expr | None:
    """The folder that a call adds to `sys.path`; None for any other node."""
    if isinstance(node, ast.Call) and node.args and dotted(node.func) in {"sys.path.append", "sys.path.insert"}:
        return node.args[-1]
    return None


def _added_folders(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield the folders that a module adds to `sys.path`: modules are found by their ends, so they need no entry."""
    yield from filter(None, map(_added_folder, ast.walk(tree)))


def _documentation(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield the texts that stand alone: docstrings, and comments written as texts."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value
