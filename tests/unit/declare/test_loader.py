"""Loading: the executed files and their order, their allowed imports, and the errors of their faults."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from framework import pipelines as dp
from framework.declare.modules.loader import load_modules
from framework.declare.pipeline_spec import Library, PipelineSpec
from framework.declare.registry import Registry
from framework.foundation.errors import GraphErrors, SluiceError, UserError

SPARK: Any = "the session"
TABLE = "from framework import pipelines as dp\n\n@dp.table\ndef {name}():\n    return {rows}\n"


class Project:
    """A folder of files, loaded as a pipeline."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()

    def write(self, files: Mapping[str, str]) -> Project:
        """Write the files."""
        for name, text in files.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text, encoding="utf-8")
        return self

    def load(self, *patterns: str, modules: tuple[Any, ...] = ()) -> Registry:
        """The registry filled by the libraries."""
        return self.load_with_version(*patterns, modules=modules)[0]

    def load_with_version(self, *patterns: str, modules: tuple[Any, ...] = ()) -> tuple[Registry, str | None]:
        """The registry, and the hash of the source."""
        libraries = tuple(Library(pattern=pattern) for pattern in patterns or ("transformations/**",))
        spec = PipelineSpec(name="p", storage="s", root=str(self.root), libraries=libraries)
        registry = Registry(catalog="main", schema="shop", gathers_faults=True)
        return registry, load_modules(spec, modules, registry, SPARK)

    def faults(self, *patterns: str) -> list[tuple[str, str, int]]:
        """Condition, file and line of each fault."""
        with pytest.raises(GraphErrors) as caught:
            self.load(*patterns)
        return [self._place(error) for error in caught.value.errors]

    def _place(self, error: SluiceError) -> tuple[str, str, int]:
        assert error.location is not None
        return error.condition, str(Path(error.location.file).relative_to(self.root)), error.location.line


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """An empty folder."""
    return Project(tmp_path)


def tables(registry: Registry) -> list[str]:
    """The names that were declared, in order."""
    return [dataset.name.table for dataset in registry.datasets]


def result(registry: Registry, table: str) -> object:
    """Return the result of a query function."""
    query: Callable[[], Any] = registry.queries[registry.name(table)]
    return query()


def test_files_run_in_order_of_libraries_then_paths_each_once(project: Project) -> None:
    """Hidden folders, caches and files that are no source are left out of a pattern."""
    names = ("transformations/b.py", "transformations/a.py", "transformations/deep/c.py", "extra.py")
    project.write({name: TABLE.format(name=Path(name).stem, rows=1) for name in names})
    project.write({"transformations/.hidden/x.py": "1/0", "transformations/__pycache__/y.py": "1/0"})
    project.write({"transformations/notes.md": "# Notes"})
    registry = project.load("extra.py", "transformations/**", "transformations/a.py")
    assert tables(registry) == ["extra", "a", "b", "c"]


def test_spark_is_a_global_of_files_and_of_what_they_import(project: Project) -> None:
    """As on Databricks."""
    project.write({"shared.py": "def session():\n    return spark\n"})
    project.write({"transformations/a.py": "from shared import session\n" + TABLE.format(name="t", rows="session()")})
    assert result(project.load(), "t") == SPARK


def test_a_file_that_a_neighbour_imports_declares_once(project: Project) -> None:
    """Whether it is imported before or after its own turn."""
    project.write(
        {
            "transformations/a.py": "import b\nfrom transformations import c\n" + TABLE.format(name="a", rows="b.X"),
            "transformations/b.py": "X = 7\n" + TABLE.format(name="b", rows=1),
            "transformations/c.py": "import b\n" + TABLE.format(name="c", rows="b.X"),
        }
    )
    registry = project.load()
    assert sorted(tables(registry)) == ["a", "b", "c"]
    assert (result(registry, "a"), result(registry, "c")) == (7, 7)


def test_two_pipelines_have_their_own_modules_of_one_name(tmp_path: Path) -> None:
    """This holds for an import inside the query function too; no module stays behind."""
    source = "import helper\n" + TABLE.format(name="t", rows="(helper.X, __import__('later').X)")
    before, path_before, finders = dict(sys.modules), list(sys.path), list(sys.meta_path)
    registries = []
    for number in (1, 2):
        project = Project(tmp_path / str(number))
        project.write({"helper.py": f"X = {number}", "later.py": f"X = {number}0", "transformations/a.py": source})
        registries.append(project.load())
    assert [result(registry, "t") for registry in registries] == [(1, 10), (2, 20)]
    assert [result(registry, "t") for registry in reversed(registries)] == [(2, 20), (1, 10)]
    assert {"helper", "later"} & sys.modules.keys() == set()
    assert [name for name in sys.modules.keys() - before if name.startswith("sluice_module")] == []
    assert (sys.path, sys.meta_path) == (path_before, finders)


def test_a_neighbour_wins_over_a_loaded_module_of_its_name_and_gives_it_back(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Modules that were imported elsewhere do not change."""
    other = type(sys)("helper")
    monkeypatch.setitem(sys.modules, "helper", other)
    project.write(
        {"helper.py": "X = 1", "transformations/a.py": "import helper\n" + TABLE.format(name="t", rows="helper.X")}
    )
    assert result(project.load(), "t") == 1
    assert sys.modules["helper"] is other


def test_another_thread_may_import_a_module_while_a_function_of_the_pipeline_begins(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name in `sys.modules` that imports another one when it is looked at takes the thread's place."""

    class Name(str):
        __slots__ = ()

        def partition(self, sep: str) -> tuple[str, str, str]:
            monkeypatch.setitem(sys.modules, f"imported_{len(sys.modules)}", sys)
            return super().partition(sep)

    monkeypatch.setitem(sys.modules, Name("imported"), sys)
    project.write({"transformations/a.py": TABLE.format(name="a", rows="1")})
    assert tables(project.load()) == ["a"]


def test_the_standard_library_is_never_shadowed(project: Project) -> None:
    """A file with the name of a standard module is an ordinary pipeline file."""
    project.write({"transformations/json.py": TABLE.format(name="t", rows="__import__('json').loads('1')")})
    assert result(project.load(), "t") == 1


def test_a_changed_file_is_run_as_it_is_now(project: Project) -> None:
    """Code is neither cached nor written into the user's folder; the hash of the source changes with the file."""
    project.write(
        {"helper.py": "X = 1", "transformations/a.py": "import helper\n" + TABLE.format(name="t", rows="helper.X")}
    )
    first, version = project.load_with_version()
    project.write({"helper.py": "X = 2"})
    second, changed = project.load_with_version()
    assert (result(first, "t"), result(second, "t")) == (1, 2)
    assert version != changed
    assert project.load_with_version()[1] == changed
    assert list(project.root.rglob("*.pyc")) == []


def test_functions_modules_and_paths_given_in_python_are_loaded_too(project: Project) -> None:
    """After the libraries, in their order."""
    project.write({"transformations/a.py": TABLE.format(name="a", rows=1), "b.py": TABLE.format(name="b", rows=1)})
    project.write({"c.py": TABLE.format(name="c", rows=1)})
    module = type(sys)("c")
    module.__file__ = str(project.root / "c.py")

    def declare() -> None:
        dp.create_streaming_table("d")

    registry = project.load(modules=("b.py", module, declare))
    assert tables(registry) == ["a", "b", "c", "d"]


def test_every_module_that_fails_is_told_with_file_and_line(project: Project) -> None:
    """The fault of a neighbouring module is reported once, at its own line."""
    project.write(
        {
            "transformations/a.py": "x = 1\nimport broken\n",
            "transformations/b.py": "import broken\n",
            "transformations/broken.py": "\n\nraise ValueError('no such day')\n",
            "transformations/c.py": "def f(:\n    pass\n",
            "transformations/d.py": "from framework import pipelines as dp\n\ndp.create_streaming_table(3)\n",
            "transformations/e.py": "import sys\nsys.exit(4)\n",
            "transformations/f.sql": "CREATE TEMPORARY VIEW f AS SELECT 1;\nDROP TABLE f",
            "transformations/g.py": TABLE.format(name="fine", rows=1),
            "transformations/h.py": "from dlt import expect\n\n@expect('a', 'x')\ndef f():\n    pass\n",
        }
    )
    assert project.faults() == [
        ("MODULE_FAILED", "transformations/broken.py", 3),
        ("MODULE_FAILED", "transformations/c.py", 1),
        ("INVALID_ARGUMENT.TYPE", "transformations/d.py", 3),
        ("MODULE_FAILED", "transformations/e.py", 2),
        ("PIPELINE_SQL_GRAPH_ELEMENT_REGISTRATION_ERROR", "transformations/f.sql", 2),
        ("EXPECTATION_WITHOUT_DATASET", "transformations/h.py", 3),
    ]


def test_the_text_of_a_failed_module_names_its_error(project: Project) -> None:
    """The user reads Python's message."""
    project.write({"transformations/a.py": "1/0\n"})
    with pytest.raises(GraphErrors) as caught:
        project.load()
    assert caught.value.errors[0].fields["cause"] == "ZeroDivisionError: division by zero"


@pytest.mark.parametrize(
    ("patterns", "condition"),
    [
        (("missing.py",), "MODULE_NOT_FOUND"),
        (("transformations",), "PIPELINE_SPEC_INVALID_GLOB_PATTERN"),
        (("empty/**",), "PIPELINE_WITHOUT_SOURCES"),
    ],
)
def test_libraries_that_lead_nowhere_are_refused(project: Project, patterns: tuple[str, ...], condition: str) -> None:
    """Before any module runs."""
    project.write({"transformations/a.py": "1/0"})
    with pytest.raises(UserError) as caught:
        project.load(*patterns)
    assert caught.value.condition == condition


def test_libraries_may_lie_above_the_spec(project: Project) -> None:
    """As bundles write them: `../src/**`."""
    project.write({"src/a.py": TABLE.format(name="a", rows=1), "resources/pipeline.yml": ""})
    inner = Project(project.root / "resources")
    assert tables(inner.load("../src/**")) == ["a"]
    assert tables(inner.load(str(project.root / "src" / "*.py"))) == ["a"]


def test_what_is_no_module_is_refused(project: Project) -> None:
    """A number can't be loaded."""
    project.write({"transformations/a.py": ""})
    with pytest.raises(UserError) as caught:
        project.load(modules=(3,))
    assert caught.value.condition == "MODULE_NOT_LOADABLE"


def test_a_function_of_a_notebook_sees_spark_and_has_no_known_source(project: Project) -> None:
    """`spark` exists only while the function and its queries run; code without a file has no source hash."""
    project.write({"transformations/a.py": ""})
    code = """
def helper():
    return spark

def declare():
    seen.append(spark)

    @dp.table
    def made():
        return helper()
"""
    seen: list[Any] = []
    notebook: dict[str, Any] = {"dp": dp, "seen": seen}
    exec(compile(code, "<cell>", "exec"), notebook)  # noqa: S102 - a cell
    registry, version = project.load_with_version(modules=(notebook["declare"],))
    (query,) = registry.queries.values()
    assert version is None
    assert [each.upper() for each in (*seen, query())] == [SPARK.upper(), SPARK.upper()]
    assert "spark" not in notebook


CELL = "\n# COMMAND ----------\n"
FIRST = "# Databricks notebook source\n# MAGIC %md\n# MAGIC %sql is text here\n"


def test_cells_of_a_notebook_that_can_not_be_run_are_refused_with_their_lines(project: Project) -> None:
    """They are comments for Python, which would pass over their datasets; text stays text, and comments in a module."""
    sql = "# MAGIC %sql\n# MAGIC CREATE TABLE v AS SELECT 1\n"
    python = "# DBTITLE 1,Python\n# MAGIC %python\n# MAGIC %hidden\n"
    cells = [FIRST, sql, python, "# MAGIC %scala\n", "# MAGIC %run ./x $a\n", TABLE.format(name="a", rows=1)]
    byte_order_mark = "\ufeff"  # some editors write it
    project.write({"transformations/a.py": CELL.join(cells), "shared.py": byte_order_mark + FIRST + CELL + sql})
    project.write(
        {"transformations/b.py": "import shared\n", "transformations/c.py": sql + TABLE.format(name="c", rows=1)}
    )
    project.write({"transformations/d.py": FIRST + CELL + TABLE.format(name="d", rows=1)})
    unsupported, view = "NOTEBOOK_CELL_UNSUPPORTED", "PIPELINE_SQL_GRAPH_ELEMENT_REGISTRATION_ERROR"
    assert project.faults() == [
        (view, "shared.py", 7), (view, "transformations/a.py", 7),
        *((unsupported, "transformations/a.py", line) for line in (12, 15, 18)),
    ]  # fmt: skip
    assert tables(project.load("transformations/c.py", "transformations/d.py")) == ["c", "d"]


def test_each_cell_of_a_notebook_is_run_on_its_own_lines(project: Project) -> None:
    """SQL in a notebook of Python and Python in one of SQL; a notebook that is run shares its names with this one."""
    own = "from framework import pipelines as dp\nlimit = 7\n"
    sql = "# MAGIC %sql\n# MAGIC -- text\n# MAGIC CREATE OR REPLACE LIVE TABLE b\n# MAGIC AS SELECT 1;\n"
    runs = "# MAGIC %run ./parts/tables $env=dev $day = '1 #2'  # text"
    a = CELL.join([FIRST, own, runs, sql, "result = made\n"])
    run = "# Databricks notebook source\n@dp.table\ndef a():\n    return limit\nmade = spark\n"
    run += "from framework.declare.workspace.surroundings import arguments\nlimit = (limit, arguments())\n"
    c = (
        "-- Databricks notebook source\nCREATE TEMPORARY VIEW c AS SELECT 1\n"
        "-- COMMAND ----------\n-- MAGIC %python\n-- MAGIC from dlt import table\n-- MAGIC @table\n"
        "-- MAGIC def d():\n-- MAGIC     return spark\n-- COMMAND ----------\n-- MAGIC %run ./e\n"
    )
    project.write({"transformations/a.py": a, "parts/tables.py": run, "transformations/c.sql": c})
    project.write({"transformations/parts/tables.py": run, "transformations/e.ipynb": notebook("%sql\nUSE SCHEMA s;")})
    registry, version = project.load_with_version("transformations/a.py", "transformations/c.sql")
    places = {each.name.table: each.location for each in registry.datasets}
    assert {name: (Path(place.file).name, place.line) for name, place in places.items() if place is not None} == {
        "a": ("tables.py", 2), "b": ("a.py", 14), "c": ("c.sql", 2), "d": ("c.sql", 6),
    }  # fmt: skip
    rows: Any = next(iter(registry.queries.values()))()
    assert rows == (7, {"env": "dev", "day": "1 #2"})
    project.write({"transformations/parts/tables.py": run + "# changed\n"})
    assert project.load_with_version("transformations/a.py", "transformations/c.sql")[1] != version


def test_cells_that_only_look_are_passed_over_with_a_note(project: Project) -> None:
    """Their datasets have no rows yet; installed packages are named, and a file of requirements is read."""
    pip = "# MAGIC %pip install pytest>=1 \\\n# MAGIC   --quiet -r needs.txt\n# MAGIC %pip list"
    cells = [
        f"# Databricks notebook source\n{pip}",
        "# MAGIC %sh\n# MAGIC ls", "display(spark.read.table('a'))\n", "# MAGIC %sql\n# MAGIC SELECT 1; SHOW TABLES",
        "nothing.at.all.display()\n" + TABLE.format(name="a", rows=1), "(\n    displayHTML(1)\n)\n",
    ]  # fmt: skip
    project.write({"transformations/a.py": CELL.join(cells), "transformations/needs.txt": "# x\nPyYAML==1 # y\n"})
    registry = project.load()
    assert tables(registry) == ["a"]
    notes = [(each.condition, each.location and each.location.line) for each in registry.notes]
    there, passed, looks = "NOTEBOOK_PACKAGES_THERE", "NOTEBOOK_CELL_PASSED_OVER", "STATEMENT_PASSED_OVER"
    assert sorted(notes) == sorted(
        [(passed, 6), (there, 2), (there, 4), *((looks, line) for line in (9, 13, 13, 15, 23))]
    )
    found = next(each for each in registry.notes if each.condition == there)
    names = [part.split()[0] for part in str(found.fields["installed"]).split(", ")]
    assert names == ["pytest", "PyYAML"]


def test_a_notebook_with_cells_that_are_modules_declares_in_them(project: Project) -> None:
    """Its other cells supply definitions and do nothing else; cells tagged `test` are left out."""
    cells = (
        "%load_ext framework\nlimit = 3",
        "%sluice --name shop\npipeline.run()",
        "%%sluice first\n@dp.table\ndef replaced():\n    return 1",
        "\n%%sluice first\n\n@dp.table\ndef a():\n    return limit",
        "%%sql\nCREATE MATERIALIZED VIEW b AS SELECT 1 AS x;",
        "%%sql\nSELECT * FROM a",
        "sandbox = pipeline.sandbox()\ndef rows():\n    return 1",
        "raise AssertionError",
    )
    text = json.loads(notebook(*cells))
    text["cells"][-1]["metadata"] = {"tags": ["test"]}
    file = json.dumps(text, indent=1)
    exported = "# Databricks notebook source\n" + "\n\n# COMMAND ----------\n\n".join(
        cell if "%" not in cell else "\n".join(f"# MAGIC {line}" for line in cell.strip().split("\n"))
        for cell in (*cells[2:5], "pipeline.run()", "limit = 3")
    )
    project.write({"transformations/a.ipynb": file, "exported/b.py": exported})
    registry = project.load()
    assert [("main.shop.a", 4), ("main.shop.b", 2)] == [
        (str(each.name), line_in(file, each.location)) for each in registry.datasets
    ]
    declared: Any = registry.queries[registry.name("a")]
    assert declared() == 3
    assert ["a", "b"] == [each.name.table for each in project.load("exported/**").datasets]


def line_in(text: str, location: Any) -> int:
    """The line of a location in its cell of a notebook's file."""
    lines = text.split("\n")[: location.line]
    return len(lines) - 1 - max(number for number, line in enumerate(lines) if line.strip() == '"source": [')


def test_packages_that_are_missing_are_one_error_of_their_notebook(project: Project) -> None:
    """With the line to add, of packages, wheels and repositories; each other is passed over."""
    text = "# Databricks notebook source\n# MAGIC %pip install pytest nobodys[x]==1 /Volumes/nobodys_own-1-py3.whl\n"
    more = "%pip install git+https://git.example/a.git#egg=not-there\n!pip install -q nobodys[x]==1\nx = 1\n"
    project.write({"transformations/a.py": text, "transformations/b.ipynb": notebook(more)})
    with pytest.raises(GraphErrors) as caught:
        project.load()
    assert [(each.condition, each.fields["packages"]) for each in caught.value.errors] == [
        ("NOTEBOOK_PACKAGES_MISSING", "'nobodys[x]==1' /Volumes/nobodys_own-1-py3.whl"),
        ("NOTEBOOK_PACKAGES_MISSING", "'git+https://git.example/a.git#egg=not-there' 'nobodys[x]==1'"),
    ]


def notebook(*cells: str, indent: int | None = 1, language: str = "python") -> str:
    """The file of a notebook of code cells, each with an output; a cell that begins with `#` is text."""
    listed = [
        {"cell_type": "markdown", "metadata": {}, "source": text.splitlines(keepends=True)}
        if text.startswith("#")
        else {
            "cell_type": "code", "execution_count": 1, "metadata": {},
            "outputs": [{"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}],
            "source": text.splitlines(keepends=True),
        }
        for text in cells
    ]  # fmt: skip
    kernel = {"kernelspec": {"language": language, "name": "x"}}
    return json.dumps({"cells": listed, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}, indent=indent) + "\n"


def line_of(text: str, code: str) -> int:
    """The last line of a file that has a line of code; the outputs of a cell stand before its code."""
    return max(number for number, line in enumerate(text.splitlines(), 1) if json.dumps(code)[1:-1] in line)


def test_the_cells_of_a_notebook_are_one_module(project: Project) -> None:
    """Text is left out, `%python` too; a query function knows what later cells define, and its lines are the file's."""
    first = "from framework import pipelines as dp\n\n\n@dp.table\ndef a():\n    return rows('é')\n"
    second = "\n%python\ndef rows(text):\n    return [text, spark]\n"
    text = notebook("# A title\n", "%md\nSome *text*\n", first, first.replace("def a", "def b"), "", second)
    project.write({"transformations/cells.ipynb": text, "transformations/.ipynb_checkpoints/cells.ipynb": text})
    registry = project.load()
    assert tables(registry) == ["a", "b"]
    found: list[Any] = [query() for query in registry.queries.values()]
    assert found == [["é", SPARK]] * 2
    lines = [each.location.line for each in registry.datasets if each.location is not None]
    assert lines == [line_of(text, f"def {name}():") - 1 for name in "ab"]


def test_an_error_in_a_notebook_has_the_line_of_the_file(project: Project) -> None:
    """So have the cells that are no Python, and lines that are commands of the notebook; other layouts count code."""
    cells = ["import sys\n", "text = '''\n%sql is text\n'''\n", "# text", "ok = 1\n\n1/0\n"]
    others = [
        "%sql\nDROP TABLE x\n",
        "import sys\n%matplotlib inline\nif sys:\n  !ls\n  %cd x\n",
        "%%capture\nls\n",
        "%pip install nobodys\n",
        "\n%python\n%env\n",
    ]
    files = {
        "a.ipynb": notebook(*cells), "b.ipynb": notebook(*cells, indent=None), "c.ipynb": notebook(*others),
        "d.ipynb": notebook("x = (\n", "y = 1\n"), "e.ipynb": notebook("x = 1", language="scala"), "f.ipynb": "{",
        "g.ipynb": json.dumps({"worksheets": [], "nbformat": 3}),
    }  # fmt: skip
    project.write({f"transformations/{name}": text for name, text in files.items()})
    places = {
        "a": [line_of(files["a.ipynb"], "1/0")], "b": [7], "d": [line_of(files["d.ipynb"], "x = (")], "e": [1],
        "c": [line_of(files["c.ipynb"], each) for each in ("DROP TABLE x", "%cd x", "%%capture", "%pip", "%env")],
        "f": [1], "g": [1],
    }  # fmt: skip
    conditions = dict.fromkeys("abd", ("MODULE_FAILED",)) | dict.fromkeys("efg", ("NOTEBOOK_UNREADABLE",))
    of_cells = (
        "PIPELINE_SQL_GRAPH_ELEMENT_REGISTRATION_ERROR", *["NOTEBOOK_CELL_UNSUPPORTED"] * 2,
        "NOTEBOOK_PACKAGES_MISSING", "NOTEBOOK_CELL_UNSUPPORTED",
    )  # fmt: skip
    assert project.faults() == [
        (condition, f"transformations/{name}.ipynb", line)
        for name in "abcdefg"
        for condition, line in zip(conditions.get(name, of_cells), places[name], strict=False)
    ]


def test_a_relative_file_may_be_beside_the_file_that_is_loaded(tmp_path: Path) -> None:
    """The folder of a file is its working folder on Databricks, also for modules that it calls; others come first."""
    read = "def read(name):\n    with open(name) as file:\n        return file.read()\n"
    table = "from files import read\nfrom framework import pipelines as dp\n\n@dp.table(name=read({}))\ndef a(): ...\n"
    made = Project(tmp_path)
    made.write(
        {
            "files.py": read, "both.txt": "root", "steps/conf/own.txt": "own", "steps/both.txt": "beside",
            "steps/a.py": table.format("'./conf/own.txt'"), "steps/b.py": table.format("'both.txt'"),
        }
    )  # fmt: skip
    spec = PipelineSpec(name="p", storage="s", root=str(tmp_path), libraries=(Library(pattern="steps/*.py"),))
    registry = Registry(catalog="main", schema="shop", gathers_faults=True)
    load_modules(spec, (), registry, SPARK)
    assert sorted(tables(registry)) == ["own", "root"]


def test_modules_import_from_root_path_and_relatively_in_their_package(tmp_path: Path) -> None:
    """As on Databricks; the package of a file begins above the outermost folder that is one."""
    files = {
        "src/app/settings.py": "LIMIT = 3\n",
        "src/app/steps/a.py": "from settings import LIMIT\n" + TABLE.format(name="a", rows="LIMIT"),
        "lib/tool/__init__.py": "", "lib/tool/sizes.py": "SIZE = 4\n", "lib/tool/steps/__init__.py": "",
        "lib/tool/steps/b.py": "from ..sizes import SIZE\nfrom . import c\n" + TABLE.format(name="b", rows="SIZE"),
        "lib/tool/steps/c.py": TABLE.format(name="c", rows=1),
    }  # fmt: skip
    made = Project(tmp_path)
    made.write(files)
    libraries = (Library(pattern="src/app/steps/**"), Library(pattern="lib/tool/steps/b.py"))
    spec = PipelineSpec(name="p", storage="s", root=str(tmp_path), libraries=libraries, root_path="src/app")
    registry = Registry(catalog="main", schema="shop", gathers_faults=True)
    load_modules(spec, (), registry, SPARK)
    assert sorted(tables(registry)) == ["a", "b", "c"]
    assert "settings" not in sys.modules
    assert not any(name.startswith("tool") for name in sys.modules)


MAIN = """{first}
import {dlt} as dp

dp.table(name="{name}")(lambda: 1)
if __name__ == "__main__":
    dp.table(name="{name}_main")(lambda: 1)
    import other
"""


@pytest.mark.parametrize(
    ("first", "dlt", "names"),
    [
        ("", "dlt", ["named", "named_main", "imported"]),
        ("# Databricks notebook source", "framework.pipelines", ["named", "named_main", "imported"]),
        ("", "framework.pipelines", ["named"]),
    ],
)
def test_files_for_databricks_are_the_main_module_and_their_imports_are_not(
    project: Project, first: str, dlt: str, names: list[str]
) -> None:
    """A module of Sluice's own has the block for itself as a script."""
    files = {path: MAIN.format(first=first, dlt=dlt, name=name) for path, name in _NAMED}
    registry = project.write(files).load()
    assert [dataset.name.table for dataset in registry.datasets] == names


_NAMED = (("transformations/a.py", "named"), ("other.py", "imported"))
