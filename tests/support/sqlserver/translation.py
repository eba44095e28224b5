"""T-SQL as SQL of SQLite: by sqlglot's tree, so that what it can't parse fails."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import sqlglot
from sqlglot import exp

# sqlglot 30.30 doesn't know these two forms of T-SQL; they are taken out before the rest is parsed.
_CHANGES = re.compile(r"CHANGETABLE\(CHANGES \[(\w+)\]\.\[(\w+)\], (\d+)\) AS ct")
SNAPSHOT_STATEMENTS = frozenset(
    {"SET TRANSACTION ISOLATION LEVEL SNAPSHOT", "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"}
)


def parsed(statement: str) -> Any:
    """Return the tree of a statement; it fails if the statement is not T-SQL, or more than one."""
    found = sqlglot.parse(statement, read="tsql", error_level=sqlglot.ErrorLevel.RAISE)
    assert len(found) == 1, statement
    tree = found[0]
    assert tree is not None, statement
    assert not isinstance(tree, exp.Command), f"sqlglot does not know {statement}"
    return tree


@lru_cache(maxsize=5000)
def to_sqlite(statement: str) -> str:
    """Return a query of T-SQL as one of SQLite."""
    plain = _CHANGES.sub(
        r"(SELECT k.*, CASE WHEN k.is_gone = 1 THEN 'D' WHEN k.made > \3 THEN 'I' ELSE 'U' END AS SYS_CHANGE_OPERATION "
        r"FROM [\1].[tracked_\2] AS k WHERE k.SYS_CHANGE_VERSION > \3) AS ct",
        statement,
    )
    tree = parsed(plain)
    for node in reversed(list(tree.walk())):
        found = _translated(node)
        if found is not node:
            node.replace(found)
    return str(tree.sql("sqlite"))


def _translated(node: Any) -> Any:
    kept = _KEPT.get(type(node))
    return node if kept is None else kept(node)


def _convert(node: Any) -> Any:
    name = exp.Literal.string(node.this.sql("tsql").lower())
    return _call("tsql_convert", name, node.expression, node.args.get("style") or exp.Null())


def _table(node: exp.Table) -> exp.Table:
    node.set("hints", None)
    if node.args.get("catalog") is not None:  # msdb.dbo.t
        node.set("db", node.args["catalog"])
        node.set("catalog", None)
    return node


def _call(name: str, *arguments: Any) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=[each.copy() for each in arguments])


def _unit(node: Any) -> exp.Expression:
    return exp.Literal.string(str(node.args["unit"].this).lower())


_KEPT = {
    exp.Convert: _convert,
    exp.DateDiff: lambda node: _call("tsql_datediff", _unit(node), node.expression, node.this),
    exp.DateAdd: lambda node: _call("tsql_dateadd", _unit(node), node.expression, node.this),
    exp.CurrentTimestamp: lambda _: _call("SYSDATETIME"),
    exp.National: lambda node: exp.Literal.string(str(node.this)),
    exp.Collate: lambda node: node.this,
    exp.TimeStrToTime: lambda node: node.this,
    exp.Table: _table,
}
"""What a node of T-SQL becomes."""
