"""Functions that modules register with `spark.udf.register`, which SQL texts then call by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from framework import Pipeline
from framework.foundation.errors import GraphErrors
from framework.plan.steps import SkipStep
from tests.support.plain_tables import table_rows

HEAD = "from framework import pipelines as dp\nfrom pyspark.sql import functions as F\n"
FUNCTIONS = """
import helper

FACTOR = 10

def times(x):
    return x * FACTOR

times_of_column = spark.udf.register("times", times, "bigint")
spark.udf.register("from_helper", helper.plus, "bigint")
spark.udf.register("a.dot", F.udf(lambda x: x - 1, "bigint"))
for factor in (2, 3):
    spark.udf.register(f"by_{factor}", lambda x: x * factor, "bigint")

LARGE = "x" * (2 << 20)
spark.udf.register("large", lambda x: x + len(LARGE), "bigint")

class Repeated:
    def eval(self, n: int):
        for _ in range(n):
            yield n,

spark.udtf.register("repeated", F.udtf(Repeated, returnType="n int"))

@dp.materialized_view
def seed():
    return spark.range(4).select("id", times_of_column("id").alias("tens"))
"""
QUERIES = """
@dp.table
@dp.expect_or_drop("not the first", "TIMES(id) > 0")
def events():
    return spark.readStream.table("seed").selectExpr("id", "times(id) AS tens")

dp.create_streaming_table("latest")
dp.create_auto_cdc_flow(
    target="latest", source="events", keys=["id"], sequence_by="times(id)", apply_as_deletes="from_helper(id) = 7"
)

@dp.materialized_view
def by_sql():
    return spark.sql("SELECT from_helper(id) AS a, `a.dot`(id) AS b, by_2(id) AS c, by_3(id) AS d FROM seed")

@dp.materialized_view
def by_column():
    spark.udf.register("within", lambda x: x + 100, "bigint")
    return spark.table("seed").select(F.expr("within(id)").alias("a"), F.call_function("times", "id").alias("b"))

@dp.materialized_view
def by_large():
    return spark.sql("SELECT large(id) AS a FROM seed WHERE id < 2")

@dp.materialized_view
def of_table():
    return spark.sql("SELECT id, n FROM seed, LATERAL repeated(CAST(id AS INT))")

@dp.materialized_view
def without():
    return spark.range(1)
"""


def pipeline(folder: Path, spark: SparkSession, name: str = "functions", **files: str) -> Pipeline:
    """A pipeline of modules with these texts; `helper` is only imported."""
    folder.mkdir(exist_ok=True)
    for file, text in files.items():
        (folder / f"{file}.py").write_text(text, encoding="utf-8")
    modules = sorted(each for each in folder.glob("*.py") if each.stem != "helper")
    return Pipeline(name=name, modules=modules, storage=folder / "storage", spark=spark, development=True)


def rows(made: Pipeline, spark: SparkSession, table: str) -> list[tuple[object, ...]]:
    """The stored rows of a table, sorted."""
    path = made.storage.path("tables", "main", "default", table)
    return sorted(map(tuple, table_rows(spark, path, without="__sluice")), key=repr)


def skipped(made: Pipeline) -> set[str]:
    """The tables whose flows the next update would skip."""
    return {step.dataset.table for step in made.plan().steps if isinstance(step, SkipStep)}


def test_registered_functions_are_found_wherever_a_text_calls_them(spark: SparkSession, tmp_path: Path) -> None:
    """In SQL, expressions, expectations and AUTO CDC, from any module; a changed one computes its views anew."""
    files = {"a": HEAD + FUNCTIONS, "b": HEAD + QUERIES, "helper": "def plus(x):\n    return x + 5\n"}
    first = pipeline(tmp_path, spark, **files)
    first.run()
    assert rows(first, spark, "seed") == [(0, 0), (1, 10), (2, 20), (3, 30)]
    assert rows(first, spark, "events") == [(1, 10), (2, 20), (3, 30)]
    assert rows(first, spark, "latest") == [(1, 10), (3, 30)]
    assert rows(first, spark, "by_sql") == [(5, -1, 0, 0), (6, 0, 2, 3), (7, 1, 4, 6), (8, 2, 6, 9)]
    assert rows(first, spark, "by_column") == [(100, 0), (101, 10), (102, 20), (103, 30)]
    assert rows(first, spark, "by_large") == [(2 << 20,), ((2 << 20) + 1,)]
    assert rows(first, spark, "of_table") == [(1, 1), (2, 2), (2, 2), (3, 3), (3, 3), (3, 3)]
    assert [tuple(row) for row in first.sql("SELECT times(id) FROM without").collect()] == [(0,)]
    # A table function is not deterministic for Spark.
    by_functions = {"by_sql", "by_column", "by_large"}
    assert skipped(pipeline(tmp_path, spark)) == {"seed", "events", "latest", "without"} | by_functions

    changed = pipeline(tmp_path, spark, helper="def plus(x):\n    return x + 6\n")
    changed.run(refresh=["by_sql"])
    assert rows(changed, spark, "by_sql") == [(6, -1, 0, 0), (7, 0, 2, 3), (8, 1, 4, 6), (9, 2, 6, 9)]


def test_a_name_belongs_to_one_pipeline_and_to_its_present_code(spark: SparkSession, tmp_path: Path) -> None:
    """Two pipelines of one process have functions of one name; one that is not registered any more is unknown."""
    view = HEAD + "@dp.materialized_view\ndef v():\n    return spark.range(2).selectExpr('mine(id) AS a')\n"
    texts = [f"{view}spark.udf.register('mine', lambda x: x + {number}, 'bigint')\n" for number in (1, 2)]
    made = [pipeline(tmp_path / name, spark, name, a=text) for name, text in zip(("one", "two"), texts, strict=True)]
    for each in made:
        each.validate()
    for each in made:
        each.run()
    assert [rows(each, spark, "v") for each in made] == [[(1,), (2,)], [(2,), (3,)]]
    with pytest.raises(AnalysisException, match="UNRESOLVED_ROUTINE"):
        spark.sql("SELECT mine(1)")

    (tmp_path / "one" / "a.py").write_text(view, encoding="utf-8")
    with pytest.raises(GraphErrors) as caught:  # loads the modules again
        made[0].left_tables()
    (error,) = caught.value.errors
    assert error.condition == "FLOW_QUERY_FAILED"
    assert "`spark.udf.register`" in error.render()


def test_a_name_has_one_definition(spark: SparkSession, tmp_path: Path) -> None:
    """The same one may be registered again, in another file or a query function; another one is refused, with the line.

    So are names of Spark's own functions, functions in Java, and another session's.
    """
    function = "def {name}(x):\n    return x + {number}\nspark.udf.register('{name}', {name}, 'bigint')\n"
    same = function.format(name="same", number=1)
    made = pipeline(
        tmp_path, spark, a=HEAD + same, b=HEAD + "\n\n" + same, c=HEAD + function.format(name="other", number=1),
        d=HEAD + "spark.udf.register('OTHER', lambda x: x, 'bigint')\n",
        e=HEAD + "spark.udf.register('Upper', str)\n", f=HEAD + "spark.udf.register('range', str)\n",
        g=HEAD + "spark.newSession().udf.register('elsewhere', str)\n",
        h=HEAD + "spark.udf.registerJavaFunction('java', 'a.B')\n",
        i=HEAD + "for n in (1, 2):\n"
        "    @dp.materialized_view(name=f'v{n}')\n"
        "    def v(n=n):\n"
        "        spark.udf.register('same', lambda x: x + 1, 'int')\n"
        "        return spark.range(1)\n",
        # Spark broadcasts a function of more than a megabyte, each time under another number.
        j=HEAD + "TEXT = 'x' * (2 << 20)\ndef large(x):\n    return x + len(TEXT)\n"
        "for _ in range(2):\n    spark.udf.register('large', large, 'bigint')\n",
        k=HEAD + "TEXT = 'y' * (2 << 20)\nspark.udf.register('large', lambda x: len(TEXT), 'bigint')\n",
    )  # fmt: skip
    with pytest.raises(GraphErrors) as caught:
        made.validate()
    found = {
        (Path(error.location.file).stem, error.location.line, error.condition.rpartition(".")[2])
        for error in caught.value.errors
        if error.location is not None
    }
    assert found == {
        ("d", 3, "FUNCTION_REGISTERED_TWICE"), ("e", 3, "FUNCTION_NAME_BUILT_IN"), ("f", 3, "FUNCTION_NAME_BUILT_IN"),
        ("g", 3, "REGISTER_UDF"), ("h", 3, "REGISTER_JAVA_UDF"), ("i", 6, "FUNCTION_REGISTERED_TWICE"),
        ("k", 4, "FUNCTION_REGISTERED_TWICE"),
    }  # fmt: skip
