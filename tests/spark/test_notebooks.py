"""Notebooks: the session that cells see, and the output of cells."""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from pyspark.errors import ArithmeticException, utils
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from traitlets.config import Config

from framework import Pipeline
from framework.engine.jvm.java import java_class

Cell = Callable[[str], tuple[Any, str]]


@pytest.fixture
def cell(
    interpreting: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], tuple[Any, str]]]:
    """Runs a cell in a separate shell: returns the value of its last line, and its output."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    monkeypatch.chdir(tmp_path)
    settings = Config()
    settings.HistoryManager.enabled = False
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance(config=settings, colors="nocolor")

    def run(code: str) -> tuple[Any, str]:
        with capture_output(display=False) as printed:
            ran = shell.run_cell(code, store_history=True)
        return ran.result, printed.stdout + printed.stderr

    shell.user_ns["session"] = interpreting
    run("from framework import Pipeline, pipelines as dp")
    yield run
    InteractiveShell.clear_instance()
    vars(builtins).pop("display", None)  # which the shell has put there


def test_functions_of_a_notebook_see_the_pipelines_session(cell: Cell) -> None:
    """`spark` is a global of these functions and of those they call; a `spark` of the notebook does not change."""
    cell("""\
def numbers(limit):
    return spark.range(int(limit))

def declare():
    @dp.materialized_view
    def made():
        return numbers(spark.conf.get("made.rows"))

    @dp.materialized_view
    def active():
        from pyspark.sql import SparkSession
        return SparkSession.active().range(int(SparkSession.active().conf.get("made.rows")))

def pipeline(name, rows):
    return Pipeline(name=name, modules=[declare], configuration={"made.rows": str(rows)}, spark=session)
""")
    assert cell("spark")[1].endswith("NameError: name 'spark' is not defined\n")
    _, failed = cell("""\
from concurrent.futures import ThreadPoolExecutor
pipelines = [pipeline("two", 2), pipeline("three", 3)]
with ThreadPoolExecutor(2) as pool:
    states = [result.state.value for result in pool.map(Pipeline.run, pipelines)]
""")
    assert cell("states")[0] == ["COMPLETED", "COMPLETED"], failed
    counts, printed = cell("[(each.table('made').count(), each.table('active').count()) for each in pipelines]")
    assert counts == [(2, 2), (3, 3)], printed
    assert cell("spark")[1].endswith("NameError: name 'spark' is not defined\n")
    assert cell("spark = 'mine'\npipelines[0].validate()\nspark")[0] == "mine"


def test_a_function_that_changed_in_its_cell_is_computed_again(cell: Cell) -> None:
    """A view over a Python function of a notebook has the rows of the current function, whatever its plan says."""
    rows = []
    for factor in (2, 100):
        cell(f"def times(number):\n    return number * {factor}")
        rows.append(
            cell("""\
def declare():
    @dp.materialized_view
    def view():
        from pyspark.sql.functions import udf
        return spark.range(3).select(udf(times, "bigint")("id").alias("x"))
pipeline = Pipeline(name="changing", modules=[declare], spark=session)
pipeline.run()
sorted(row.x for row in pipeline.table("view").collect())
""")[0]
        )
    assert rows == [[0, 2, 4], [0, 100, 200]]


def test_the_error_of_a_value_names_the_cell_of_its_expression(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the cell that runs the update, which PySpark names in Jupyter."""
    jupyter = ModuleType("ipykernel")
    jupyter.__file__ = "/nowhere/ipykernel/__init__.py"
    monkeypatch.setitem(sys.modules, "ipykernel", jupyter)
    cell("""\
from pyspark.sql import functions as F

def declare():
    @dp.materialized_view
    def halves():
        return spark.range(1).select(
            F.lit("a").alias("name"),
            (F.lit(6) / F.col("id")).alias("half"),
        )
""")
    cell("pipeline = Pipeline(name='halves', modules=[declare], spark=session, development=True)")
    location, printed = cell("str(pipeline.run().flows[0].error.location)")
    assert location == "Cell In[2], line 8", printed
    _, printed = cell("session.range(1).select(F.lit(6) / F.col('id')).collect()")
    assert "line 1 in cell [" in printed  # PySpark's own words stay outside of pipelines


def test_the_first_column_of_a_process_may_be_built_without_an_active_session(
    interpreting: SparkSession, swap: pytest.MonkeyPatch
) -> None:
    """As in a thread of the user's own; the errors of later columns name their lines all the same."""
    swap.setattr(utils, "_enable_debugging_cache", None)
    sessions = java_class("org.apache.spark.sql.classic.SparkSession")
    with ThreadPoolExecutor(1) as thread:
        # Its thread of Java may be one that another thread of Python had.
        thread.submit(lambda: (sessions.clearActiveSession(), F.lit(1) + 1)).result()
    halves = interpreting.range(1).select(F.lit(6) / F.col("id"))
    with pytest.raises(ArithmeticException) as caught:
        halves.collect()
    assert Path(__file__).name in caught.value.getQueryContext()[0].callSite()


def test_an_error_prints_its_paragraph_with_the_cell_and_its_line(cell: Cell) -> None:
    """There is no traceback of Python or the JVM; all faults appear at once; the traceback is available on request."""
    cell("""\
def declare():
    @dp.materialized_view
    def reads_nothing():
        return spark.read.table("nowhere")

    @dp.materialized_view
    def divides():
        return 1 / 0
""")
    _, printed = cell("Pipeline(name='bad', modules=[declare], spark=session).validate()")
    assert printed == (
        "[PIPELINE_GRAPH_INVALID] The pipeline has 2 error(s). Nothing was written.\n\n"
        "[TABLE_OR_VIEW_NOT_FOUND] The table or dataset nowhere cannot be found.\n"
        '  at Cell In[2], line 4\n     return spark.read.table("nowhere")\n'
        "  -> Correct the name, declare the dataset, or create the table. For a table of another catalog, "
        "add its name to `tables` in sluice.local.yml, with a `path`.\n\n"
        "[FLOW_QUERY_FAILED] The query of main.default.divides cannot be analyzed: "
        "ZeroDivisionError: division by zero\n"
        "  at Cell In[2], line 8\n     return 1 / 0\n"
        "  -> Correct the query.\n"
    )
    _, printed = cell("import sys, traceback\ntraceback.print_exception(sys.last_value)")
    assert "ZeroDivisionError" in printed
    cell("def declare():\n    @dp.materialized_view\n    def made():\n        return spark.range(1)")
    _, printed = cell("pipeline = Pipeline(name='good', modules=[declare], spark=session)\npipeline.table('mad')")
    assert printed == (
        "[DATASET_NOT_FOUND] This pipeline has no dataset main.default.mad. Did you mean main.default.made?\n"
        "  at Cell In[6], line 2\n     pipeline.table('mad')\n"
        "  -> Correct the name. `sluice graph` lists the datasets.\n"
    )
    _, printed = cell("pipeline.sql('SELECT nosuch FROM event_log')")
    assert printed.startswith("[QUERY_INVALID] Spark cannot analyze the query: [UNRESOLVED_COLUMN")
    assert "\n  at Cell In[7], line 1\n     pipeline.sql(" in printed
    assert printed.endswith("\n  -> Correct the query. `sluice validate` lists the datasets.\n")
    assert len(printed.splitlines()) <= 5


def test_a_cell_shows_rows_pictures_and_states(cell: Cell) -> None:
    """A preview displays escaped, truncated rows; validate displays the graph, a run adds states; repr is text."""
    cell("""\
def declare():
    @dp.materialized_view
    def odd():
        return spark.sql('''SELECT 1 AS id, CAST(NULL AS STRING) AS nothing, 'null' AS word, '<script>' AS html,
            repeat('x', 500) AS long, x'00ff' AS bytes, named_struct('a', array(1)) AS nested, 'a\\nb' AS lines''')

    @dp.materialized_view
    def many():
        return spark.range(60).selectExpr("id", *[f"id AS c{n}" for n in range(60)])

    @dp.materialized_view
    def broken():
        return spark.sql("SELECT raise_error('no') AS x")

pipeline = Pipeline(name="shown", modules=[declare], spark=session, development=True)
""")
    shown = {text: cell(text)[0] for text in ("pipeline.validate()", "pipeline.plan()", "pipeline.run()")}
    html = {text: value._repr_html_() for text, value in shown.items()}
    assert [found.count("<svg") for found in html.values()] == [1, 0, 1]
    assert sorted(re.findall(r'class="badge (\w+)"', html["pipeline.run()"])) == ["bad", "good", "good"]
    assert cell("pipeline")[0]._repr_html_().count("<svg") == 1
    assert repr(cell("pipeline")[0]) == "Pipeline(name='shown', storage='.sluice/shown')"

    odd = cell("pipeline.preview('odd')")[0]
    cells = re.findall(r"<td(?: class=\"(.*?)\")?>(.*?)</td>", odd._repr_html_())
    assert cells[:4] == [("number", "1"), ("quiet", "null"), ("", "null"), ("", "&lt;script&gt;")]
    assert [len(cells[4][1]), *(text for _, text in cells[5:])] == [
        80, "&quot;AP8=&quot;", "{&quot;a&quot;: [1]}", "a\\nb"
    ]  # fmt: skip
    assert repr(odd).splitlines()[-1] == "1 row · 8 columns"
    assert [tuple(row)[:3] for row in odd.collect()] == [(1, None, "null")]
    assert odd.toPandas().shape == (1, 8)

    many = cell("pipeline.preview('many', limit=55)")[0]
    assert many._repr_html_().count("<td") == 50 * 50
    ending = "the first 55 rows · 61 columns · 5 rows and 11 columns not shown"
    assert (repr(many).splitlines()[-1], ending in many._repr_html_()) == (ending, True)


def test_a_pipeline_needs_no_storage_and_no_session_of_its_own(cell: Cell, tmp_path: Path) -> None:
    """It finds the session that is active, and keeps its tables below the notebook's folder."""
    cell("def declare():\n    @dp.materialized_view\n    def made():\n        return spark.range(1)")
    pipeline = cell("pipeline = Pipeline(name='plain', modules=[declare])\npipeline.run()\npipeline")[0]
    assert isinstance(pipeline, Pipeline)
    assert (tmp_path / ".sluice/plain/tables/main/default/made").is_dir()
    assert cell("pipeline.close()\nsession.range(1).count()")[0] == 1
