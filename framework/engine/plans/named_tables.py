"""The names of tables, views and schemas in an SQL statement of any kind, as Spark's parser finds them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from framework.engine.plans.sql_relations import parse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TABLE = re.compile(r"'Unresolved(?:Relation|Identifier|Table|TableOrView|View) \[([^\]]*)\]")
_SCHEMA = re.compile(r"'UnresolvedNamespace \[([^\]]*)\]")


def named_tables(spark: SparkSession, statement: str) -> tuple[frozenset[tuple[str, ...]], frozenset[tuple[str, ...]]]:
    """Return the parts of all names of tables and views, and of all names of schemas, that a statement contains.

    Aliases and common table expressions are among them if they have the form of a table's name. Exceptions of Spark's
    parser are not caught.
    """
    tree = parse(spark, statement).treeString()
    return _parts(_TABLE.findall(tree)), _parts(_SCHEMA.findall(tree))


def _parts(found: list[str]) -> frozenset[tuple[str, ...]]:
    return frozenset(tuple(part.strip() for part in names.split(",")) for names in found)
