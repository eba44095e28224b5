"""The Python functions that an analysed query runs on rows, as texts that change with their code and their values.

The identity of the modules that a function names is a part of its text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from py4j.java_gateway import is_instance_of
from pyspark import SparkContext

from framework.declare.session.pickled_text import pickled_text
from framework.declare.session.sent_functions import command_of
from framework.foundation.jvm_cache import java_class, scala_items
from framework.graph.queries.imported_modules import module_identity

_FUNCTION = "org.apache.spark.sql.catalyst.expressions.PythonFuncExpression"


def pickled_functions(plan: Any) -> list[bytes]:
    """Return the pickles of the Python functions in an analysed plan, in the order of the plan."""
    found = (node for part in (plan, *scala_items(plan.subqueriesAll())) for node in _nodes(part))
    return [command_of(each) for node in found for each in _functions(node)]


def function_names(plan: Any) -> tuple[str, ...]:
    """Return the names of the Python functions in an analysed plan, each once, in the order of the plan."""
    found = (node for part in (plan, *scala_items(plan.subqueriesAll())) for node in _nodes(part))
    return tuple(dict.fromkeys(str(each.name()) for node in found for each in _functions(node)))


def function_text(pickled: bytes) -> str | None:
    """Return a text of a pickle that is the same for equal functions in any process.

    None if a value, or the code of a module, is unknown.
    """
    found = pickled_text(pickled)
    if found is None:
        return None
    identities = [module_identity(top) for top in sorted({name.partition(".")[0] for name in found.modules})]
    known = [each for each in identities if each is not None]
    return "\n".join([found.text, *known]) if len(known) == len(identities) else None


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for child in scala_items(plan.children()):
        yield from _nodes(child)


def _functions(node: Any) -> Iterator[Any]:
    """Yield the function expressions of one node of a plan."""
    udf = java_class("org.apache.spark.sql.catalyst.trees.TreePattern").PYTHON_UDF()
    is_generator = node.nodeName() == "Generate"  # a table function has no pattern
    for expression in scala_items(node.expressions()):
        if is_generator or expression.containsPattern(udf):
            yield from _below(expression)


def _below(expression: Any) -> Iterator[Any]:
    gateway: Any = SparkContext._gateway
    if is_instance_of(gateway, expression, _FUNCTION):
        yield expression
    for child in scala_items(expression.children()):
        yield from _below(child)
