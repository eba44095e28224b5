"""Catalyst plans of DataFrames, and DataFrames of plans; PySpark has no public call for either."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from py4j.java_gateway import is_instance_of
from pyspark import SparkContext
from pyspark.sql import DataFrame

from framework.engine.jvm.java import built_once, java_class, method, scala_items, scala_object, scala_seq
from framework.engine.jvm.java_errors import Py4JJavaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

_CATALYST = "org.apache.spark.sql.catalyst"


def java_frame(frame: DataFrame) -> Any:
    """Return the JVM object of a DataFrame, for a class that extends `pyspark.sql.classic.dataframe.DataFrame`."""
    return frame._jdf


def analysed_plan(frame: DataFrame) -> Any:
    """Return the analysed Catalyst plan of a DataFrame."""
    return frame._jdf.queryExecution().analyzed()


def optimized_plan(frame: DataFrame) -> Any:
    """Return the optimized Catalyst plan of a DataFrame."""
    return frame._jdf.queryExecution().optimizedPlan()


def leaves_of(frame: DataFrame) -> list[Any]:
    """Return the leaves of a DataFrame's analysed plan, without those of subqueries."""
    return scala_items(analysed_plan(frame).collectLeaves())


def of_plan(spark: SparkSession, plan: Any) -> DataFrame:
    """Return a DataFrame of `spark` from a Catalyst plan; it is analysed at once and not run."""
    dataset = scala_object("org.apache.spark.sql.classic.Dataset")
    return DataFrame(dataset.ofRows(spark._jsparkSession, plan), spark)


def replaced_leaves(plan: Any, replace: Callable[[Any], Any]) -> Any:
    """Replace each leaf of a plan by `replace(leaf)`; None keeps the leaf. Subqueries are unchanged.

    A leaf's replacement must have the same output attributes.
    """
    children = plan.children()
    count = children.size()
    if count == 0:
        return replace(plan) or plan
    old = [children.apply(index) for index in range(count)]
    new = [replaced_leaves(child, replace) for child in old]
    if all(before is after for before, after in zip(old, new, strict=True)):
        return plan
    return plan.withNewChildren(scala_seq(new))


def node_name(node: Any) -> str:
    """Return the name of a node of a plan."""
    return str(node.nodeName())


def node_names(plan: Any) -> Iterator[str]:
    """Yield the names of all nodes of a plan, without those of subqueries."""
    return (node_name(node) for node in nodes_of(plan))


def children_of(node: Any) -> list[Any]:
    """Return the children of a node of a plan or an expression."""
    return scala_items(node.children())


def arguments_of(function: Any) -> list[Any]:
    """Return the arguments of a table function of a parsed plan."""
    return scala_items(function.functionArgs())


def selects_from_leaf(plan: Any) -> bool:
    """Return whether a plan is a projection of a leaf."""
    return node_name(plan) == "Project" and bool(plan.children().head().children().isEmpty())


def selected_columns(plan: Any) -> list[Any]:
    """Return the expressions of a projection."""
    return scala_items(plan.projectList())


def parts_of_plan(plan: Any) -> tuple[list[Any], list[Any]]:
    """Return the expressions and the children of the top node of a plan."""
    return scala_items(plan.expressions()), scala_items(plan.children())


def output_of(plan: Any) -> list[Any]:
    """Return the columns of a plan."""
    return scala_items(plan.output())


def refers_to_columns(plan: Any) -> bool:
    """Return whether the first expression of the top node of a plan refers to a column."""
    return not plan.expressions().head().references().isEmpty()


def is_streaming(node: Any) -> bool:
    """Return whether a node of a plan has the rows of a stream."""
    return bool(node.isStreaming())


def tree_text(plan: Any, *, most_fields: int) -> str:
    """Return the text of a plan as `explain` displays it."""
    return str(plan.treeString(True, False, most_fields, False, False))  # noqa: FBT003 - a Java call


def is_repeatable(plan: Any) -> bool:
    """Return whether a plan's rows depend only on its inputs: it has no random values and no current time."""
    return bool(plan.deterministic()) and not has_pattern(plan, "CURRENT_LIKE")


def runs_python_function(plan: Any) -> bool:
    """Return whether an expression of a plan is a function in Python."""
    return has_pattern(plan, "PYTHON_UDF")


def has_pattern(node: Any, name: str) -> bool:
    """Return whether a plan or an expression has a node with a Catalyst tree pattern."""
    return bool(node.containsPattern(tree_pattern(name)))


@built_once
def tree_pattern(name: str) -> Any:
    """Return the tree pattern with a name, by which Catalyst marks the nodes of plans and expressions."""
    return getattr(java_class("org.apache.spark.sql.catalyst.trees.TreePattern"), name)()


def with_subqueries(plan: Any) -> tuple[Any, ...]:
    """Return a plan and the plans of all of its subqueries."""
    return (plan, *scala_items(plan.subqueriesAll()))


def expression_texts(plan: Any) -> str | None:
    """Return the SQL of the expressions of a plan and its subqueries; None if Spark can't render one of them."""
    of_node = method(f"{_CATALYST}.plans.QueryPlan", "expressions", "scala.collection.immutable.Seq")
    to_sql = method(f"{_CATALYST}.expressions.Expression", "sql", "java.lang.String")
    try:
        return "\n".join(str(each.flatMap(of_node).map(to_sql).mkString("\n")) for each in with_subqueries(plan))
    except Py4JJavaError:
        return None


def local_rows_text(leaf: Any) -> str:
    """Return the rows of a local relation as SQL; empty without rows."""
    return "" if leaf.data().isEmpty() else str(leaf.toSQL("t"))


def python_functions(plan: Any) -> Iterator[Any]:
    """Yield the expressions of a plan and its subqueries that are functions in Python, in the order of the plan."""
    for part in with_subqueries(plan):
        for node in nodes_of(part):
            yield from _functions(node)


def nodes_of(plan: Any) -> Iterator[Any]:
    """Yield the nodes of a plan from the top, without those of subqueries."""
    yield plan
    for child in scala_items(plan.children()):
        yield from nodes_of(child)


def _functions(node: Any) -> Iterator[Any]:
    udf = tree_pattern("PYTHON_UDF")
    is_generator = node.nodeName() == "Generate"  # a table function has no pattern
    for expression in scala_items(node.expressions()):
        if is_generator or expression.containsPattern(udf):
            yield from _functions_below(expression)


def _functions_below(expression: Any) -> Iterator[Any]:
    gateway: Any = SparkContext._gateway
    if is_instance_of(gateway, expression, f"{_CATALYST}.expressions.PythonFuncExpression"):
        yield expression
    for child in scala_items(expression.children()):
        yield from _functions_below(child)
