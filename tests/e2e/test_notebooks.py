"""Notebooks in a real kernel: cells that declare, updates that are displayed while they run, errors at their cells."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.notebook_kernel import CellOutput, run_notebook
from tests.support.sources import ROOT

PAGE = re.findall(r"```python\n(.*?)```", (ROOT / "docs/notebooks.md").read_text("utf-8"), re.DOTALL)

ORDERS = """\
%%sluice orders

from pyspark.sql import functions as F

@dp.table
@dp.expect_or_drop("has an id", "id IS NOT NULL")
def orders():
    return spark.readStream.schema("id INT, customer STRING, amount DOUBLE").json("data")
"""
REVENUE = """\
%%sql
CREATE MATERIALIZED VIEW revenue AS SELECT customer, {what} AS amount FROM orders GROUP BY customer;
"""
CELLS = {
    "load": "%load_ext framework",
    "orders": ORDERS,
    "revenue": REVENUE.format(what="sum(amount)"),
    "graph": "pipeline",
    "first": "result = pipeline.run()",
    "query": "%%sql\nSELECT customer, amount FROM revenue ORDER BY customer",
    "again": REVENUE.format(what="max(amount)"),
    "explained": 'pipeline.explain("revenue")',
    "second": "pipeline.run()",
    "rows": "_sqldf.count(), [row.amount for row in pipeline.table('revenue').orderBy('customer').collect()]",
    "unknown": '%%sluice lost\n\n@dp.table\ndef lost():\n    return spark.read.table("nowhere")',
    "invalid": "pipeline.validate()",
    "syntax": "%%sluice lost\n@dp.table\ndef lost():\n    x = 1 +",
    "divides": """\
%%sluice lost
from pyspark.sql.functions import udf

@udf("double")
def inverse(x):
    return 1 / x

@dp.table
def lost():
    return spark.range(2).select(inverse("id").alias("y"))
""",
    "failed": "pipeline.run(refresh=['lost']).flows[-1].error",
    "removed": "%sluice --remove lost",
    "misspelled": "%sluice --remove lots",
    "widgets": 'dbutils.widgets.text("day", "2026-01-01")\ndbutils.widgets.get("day")',
    "days": """\
%%sluice days
day = dbutils.widgets.get("day")

@dp.materialized_view
def days():
    return spark.sql(f"SELECT DATE'{day}' AS day")
""",
    "shown": "display(spark.range(3))\ndisplayHTML('<b>bold</b>')",
    "started": "update = pipeline.start(continuous=False)\nupdate",
    "waited": "update.wait()\nimport time; time.sleep(1.2)\nupdate",
    "exit": 'dbutils.notebook.exit("done")',
    "outside": "@dp.table\ndef outside(): return 1",
    "faulty": "%%sluice\ndp.create_streaming_table()",
    "still": "sorted(str(each.name) for each in pipeline.validate().datasets)",
    "cleared": "%sluice --remove days\n%sluice --name page --param day=2026-02-01",
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CellOutput]:
    """The outputs of all cells, which one kernel has run."""
    folder = tmp_path_factory.mktemp("notebook")
    (folder / "data").mkdir()
    rows: list[dict[str, object]] = [
        {"id": 1, "customer": "Ada", "amount": 120},
        {"id": 2, "customer": "Grace", "amount": 40},
        {"amount": 9},
    ]
    (folder / "data" / "1.json").write_text("\n".join(map(json.dumps, [*rows, {"id": 3, **rows[1]}])))
    cells = {**CELLS, **{f"page {number}": cell for number, cell in enumerate(PAGE, 1)}}
    return dict(zip(cells, run_notebook([*cells.values()], folder), strict=True))


def test_cells_declare_tables_in_python_and_sql(ran: dict[str, CellOutput]) -> None:
    """A cell displays what it declares; a cell that declares the same datasets again replaces it."""
    assert "orders: declares table orders" == ran["orders"].text
    assert "Cell In[3]: declares materialized view revenue" == ran["revenue"].text
    assert "Cell In[7]: declares materialized view revenue; replaces Cell In[3]" == ran["again"].text
    assert "days: declares materialized view days" == ran["days"].text
    for name in ("orders", "revenue"):
        assert '<text class="title"' in ran["graph"].html
        assert name in ran["graph"].html


def test_an_update_displays_its_states_while_it_runs_and_its_result_once(ran: dict[str, CellOutput]) -> None:
    """The graph has a badge for each running table; at the end the result takes its place, also if it is assigned."""
    states = ran["first"].states
    assert any('class="badge running"' in state for state in states[:-1])
    assert 'class="badge running"' not in states[-1]
    assert 2 == states[-1].count('class="badge good"')
    assert 1 == ran["first"].text.count("COMPLETED in ")
    assert "1 failed, 1 dropped" in ran["first"].text
    assert 1 == ran["second"].text.count("COMPLETED in ")


def test_only_what_changed_runs(ran: dict[str, CellOutput]) -> None:
    """The changed view is computed again; the table, whose inputs have not changed, is not."""
    assert "revenue, materialized view reads orders\n  refresh view  revenue  its inputs or its code changed" == (
        ran["explained"].text
    )
    flows = [line.split() for line in ran["second"].text.splitlines()[4:]]
    assert [["orders", "IDLE"], ["revenue", "COMPLETED"]] == [line[:2] for line in flows]
    assert "(2, [120.0, 40.0])" == ran["rows"].text


def test_a_query_shows_rows(ran: dict[str, CellOutput]) -> None:
    """`%%sql` with a query displays the rows of the pipeline's tables."""
    assert ["customer  amount", "Ada          120", "Grace         80"] == [
        line.rstrip() for line in ran["query"].text.splitlines() if "─" not in line
    ][:3]
    assert "<table>" in ran["query"].html


def test_an_error_shows_its_cell_and_the_line(ran: dict[str, CellOutput]) -> None:
    """Errors of loading, of the graph, of Python functions on rows; no file of the kernel, no stack of Java."""
    assert "" == ran["unknown"].error  # another cell may declare the table
    assert "[TABLE_OR_VIEW_NOT_FOUND] The table or dataset nowhere cannot be found.\n  at Cell In[11], line 5\n" in (
        ran["invalid"].error
    )
    assert '\n     return spark.read.table("nowhere")\n' in ran["invalid"].error
    assert "[MODULE_FAILED] lost raised SyntaxError: invalid syntax\n  at Cell In[13], line 4\n     x = 1 +\n" in (
        ran["syntax"].error
    )
    assert "ZeroDivisionError: division by zero.\n  at Cell In[14], line 6\n     return 1 / x\n" in ran["failed"].text
    assert "[INVALID_ARGUMENT.CALL]" in ran["faulty"].error
    assert "[GRAPH_ELEMENT_DEFINED_OUTSIDE_OF_DECLARATIVE_PIPELINE]" in ran["outside"].error
    assert "the names are: orders, Cell In[7]" in ran["misspelled"].error
    for output in ran.values():
        assert "ipykernel" not in output.text + output.error
        assert "\tat org.apache" not in output.text + output.error
        assert "Traceback" not in output.error


def test_a_cell_that_failed_changes_nothing(ran: dict[str, CellOutput]) -> None:
    """The pipeline has the cells that ran to their end."""
    names = ["days", "orders", "revenue"]
    assert str([f"main.default.{name}" for name in names]) == ran["still"].text


def test_widgets_rows_and_exit_are_those_of_databricks(ran: dict[str, CellOutput]) -> None:
    """A widget of a plain cell is known in cells that declare; `display` shows rows, `exit` ends the cell."""
    assert "'2026-01-01'" == ran["widgets"].text
    assert "3 rows · 1 column" in ran["shown"].text
    assert "<b>bold</b>" in ran["shown"].html
    assert "Notebook exited: done" == ran["exit"].error


def test_an_update_in_the_background_is_displayed_until_it_ends(ran: dict[str, CellOutput]) -> None:
    """The display of its cell changes while other cells run."""
    assert "sluice-graph" in ran["started"].html
    assert "COMPLETED" in ran["waited"].states[-1]
    assert "<td" in ran["waited"].states[-1]


def test_the_cells_of_the_page_do_what_the_page_says(ran: dict[str, CellOutput]) -> None:
    """A dataset is run on given rows; after a change of its cell it runs alone; the test passes."""
    page = [ran[f"page {number}"] for number in range(1, len(PAGE) + 1)]
    assert [""] * len(page) == [output.error for output in page]
    assert any('class="badge running"' in state for state in page[5].states)
    assert ">data/orders<" in page[5].states[-1]  # the given input has its name in the code
    assert ["Ada", "Grace"] == [line.split()[0] for line in page[6].text.splitlines()[2:4]]
    assert "2 rows · 2 columns" in page[6].text
    assert "refresh view  revenue  its definition changed; adds orders bigint" in page[8].text
    flows = [line.split()[:2] for line in page[9].text.splitlines()[4:]]
    assert [["orders", "IDLE"], ["revenue", "COMPLETED"]] == flows
    assert "1 failed, 1 dropped" in page[10].text


def test_the_notebook_of_the_page_has_its_cells() -> None:
    """docs/notebooks.ipynb can be opened in place of reading the page."""
    notebook = json.loads((ROOT / "docs/notebooks.ipynb").read_text("utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell.strip("\n") for cell in PAGE] == ["".join(cell["source"]) for cell in code]
    assert [["test"]] == [cell["metadata"]["tags"] for cell in code if "tags" in cell["metadata"]]


def test_cells_with_the_tag_are_tests_for_pytest(tmp_path: Path) -> None:
    """Each runs with a sandbox of its own, without a kernel; one that fails names its line in the file."""
    page = (ROOT / "docs/notebooks.ipynb").read_text("utf-8")
    (tmp_path / "page.ipynb").write_text(page, encoding="utf-8")
    (tmp_path / "wrong.ipynb").write_text(page.replace("150.0, 2)", "151.0, 2)"), encoding="utf-8")
    (tmp_path / "left.ipynb").write_text("{", encoding="utf-8")  # not asked for
    command = [sys.executable, "-m", "framework", "test", "-v", "page.ipynb", "wrong.ipynb"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    name = "Revenue is per customer, and orders without an id do not count"
    printed = ran.stdout + ran.stderr
    assert f"page.ipynb::{name} PASSED" in printed, printed
    assert f"wrong.ipynb::{name} FAILED" in printed
    line = next(n for n, text in enumerate(page.splitlines(), 1) if "sandbox.expect(" in text)
    assert f"{tmp_path / 'wrong.ipynb'}:{line}\n" in printed
    assert "151" in printed
    assert "1 failed, 1 passed" in printed
    assert 1 == ran.returncode


def test_displays_have_no_scripts_and_load_nothing(ran: dict[str, CellOutput]) -> None:
    """All HTML is self-contained."""
    for output in ran.values():
        for html in (output.html, *output.states):
            assert "<script" not in html
            assert "src=" not in html
            assert "url(http" not in html
