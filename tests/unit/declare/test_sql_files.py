"""SQL files: each statement declares what a decorator of Python declares, at its own line."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from framework.declare.modules.loader import load_modules
from framework.declare.pipeline_spec import Library, PipelineSpec
from framework.declare.registry import Registry
from framework.declare.specs import DatasetSpec, FlowSpec
from framework.foundation.errors import GraphErrors, SluiceError

IMPORTS = "from framework import pipelines as dp\n"


class Conf:
    """The configuration of a pipeline."""

    values = {"raw": "/data/raw", "catalog": "prod", "least": "3"}  # noqa: RUF012 - never changed

    set_keys: ClassVar[dict[str, str]] = {}

    def set(self, key: str, value: str) -> None:
        """Keep the value of a key."""
        self.set_keys[key] = value

    def get(self, key: str, default: str | None) -> str | None:
        """The value of a key."""
        return self.values.get(key, default)


class Spark:
    """A session that says which query it was asked for."""

    conf = Conf()

    def sql(self, text: str) -> str:
        """The text."""
        return text


def load(folder: Path, files: dict[str, str], encoding: str = "utf-8") -> Registry:
    """The registry filled by files."""
    for name, text in files.items():
        (folder / name).write_text(text, encoding=encoding)
    libraries = tuple(Library(pattern=name) for name in files)
    spec = PipelineSpec(name="p", storage="s", root=str(folder), libraries=libraries)
    registry = Registry(catalog="main", schema="shop", gathers_faults=True)
    spark: Any = Spark()
    load_modules(spec, (), registry, spark)
    assert registry.faults == []
    return registry


def faults(folder: Path, text: str, name: str = "a.sql") -> list[tuple[str, int, str]]:
    """Condition, line and first line of each fault of a file."""
    try:
        registry = load(folder, {name: text})
    except GraphErrors as error:
        return [_told(each) for each in error.errors]
    return [_told(each) for each in registry.faults]


def _told(error: SluiceError) -> tuple[str, int, str]:
    assert error.location is not None
    return error.condition, error.location.line, error.render().splitlines()[0].partition("] ")[2]


def declared(registry: Registry) -> tuple[list[DatasetSpec], list[FlowSpec], dict[str, object]]:
    """The datasets and flows without their places, and what each query asks for."""
    datasets = [
        dataclasses.replace(
            each, location=None,
            expectations=tuple(dataclasses.replace(one, location=None) for one in each.expectations),
        )
        for each in registry.datasets
    ]  # fmt: skip
    flows = [dataclasses.replace(each, location=None) for each in registry.flows]
    return datasets, flows, {str(name): query() for name, query in registry.queries.items()}


PAIRS = yaml.safe_load(Path(__file__).with_name("sql_files.yml").read_text("utf-8"))


@pytest.mark.parametrize("case", PAIRS)
def test_a_statement_declares_what_python_declares(case: str, tmp_path: Path) -> None:
    """Datasets, expectations and flows are equal, and their queries ask for the same text."""
    pair = PAIRS[case]
    assert declared(load(tmp_path, {"a.sql": pair["sql"]})) == declared(
        load(tmp_path, {"a.py": IMPORTS + pair["python"]})
    )


def test_keys_of_columns_without_types_are_information(tmp_path: Path) -> None:
    """The columns are those of the query; a view has no keys."""
    text = """CREATE MATERIALIZED VIEW v (
  id COMMENT 'x', n, CONSTRAINT k PRIMARY KEY (id), FOREIGN KEY (n) REFERENCES o (n)
) AS SELECT 1, 2;
CREATE STREAMING TABLE s (PRIMARY KEY (id) RELY) AS SELECT * FROM STREAM x;
CREATE TEMPORARY VIEW w (id, PRIMARY KEY (id)) AS SELECT 1
"""
    registry = load(tmp_path, {"a.sql": text})
    assert [(each.name.table, each.schema, each.keys) for each in registry.datasets] == [
        ("v", None, ("CONSTRAINT k PRIMARY KEY (id)", "FOREIGN KEY (n) REFERENCES o (n)")),
        ("s", None, ("PRIMARY KEY (id) RELY",)),
        ("w", None, ()),
    ]


def test_a_view_that_others_read_is_stored_with_a_note(tmp_path: Path) -> None:
    """There is no catalog to have its query; columns may have other names, and no types."""
    text = "USE gold;\nCREATE OR REPLACE VIEW v (id) AS\nSELECT 1"
    (note,) = load(tmp_path, {"a.sql": text}).notes
    assert (note.condition, note.location and note.location.line, note.fields) == (
        "VIEW_STORED_AS_TABLE", 2, {"view": "gold.v"},
    )  # fmt: skip
    refused = "Syntax error in a SQL file at"
    views = "CREATE VIEW v (id INT) AS SELECT 1;\nCREATE VIEW AS SELECT 1;\nCREATE VIEW v SELECT 1"
    assert faults(tmp_path, views) == [
        ("PARSE_SYNTAX_ERROR", 1, f"{refused} `AS`: expected columns without types in a view."),
        ("PARSE_SYNTAX_ERROR", 2, f"{refused} `AS`: expected a name."),
        ("PARSE_SYNTAX_ERROR", 3, f"{refused} `SELECT`: expected AS."),
    ]


def test_declarations_have_the_lines_of_their_statements(tmp_path: Path) -> None:
    """Expectations of a view too; a flow has that of its AS, and a query function that of its query."""
    text = """-- first

CREATE STREAMING TABLE s
AS
SELECT 1; CREATE STREAMING TABLE t;

CREATE MATERIALIZED VIEW v (
  CONSTRAINT a EXPECT (x > 0),

  CONSTRAINT b EXPECT (UNIQUE (y, `z z`)) ON VIOLATION DROP ROW)
AS /* here */
  SELECT 1
"""
    registry = load(tmp_path, {"a.sql": text})
    lines = {each.name.table: each.location and each.location.line for each in registry.datasets}
    assert lines == {"s": 3, "t": 5, "v": 7}
    assert [each.location and each.location.line for each in registry.flows] == [4, 7]
    assert [each.location and each.location.line for each in registry.datasets[2].expectations] == [8, 10]
    assert [each.unique for each in registry.datasets[2].expectations] == [None, ("y", "`z z`")]
    assert {each.location and each.location.file for each in registry.datasets} == {str(tmp_path / "a.sql")}


def test_faulty_statements_are_all_told_with_their_lines(tmp_path: Path) -> None:
    """What is expected, or what to write in its place."""
    text = """CREATE STREAMNG TABLE a;
DROP
  TABLE a;
CREATE MATERIALIZED VIEW w;
CREATE FLOW x AS AUTO CDC INTO g FROM stream(e)
  KEYS (id);
CREATE MATERIALIZED VIEW ${nothing}.w AS SELECT 1;
CREATE MATERIALIZED VIEW x
  LOCATION '${nothing}/a' AS SELECT 1;
CREATE MATERIALIZED VIEW x AS SELECT ${nothing};
CREATE MATERIALIZED VIEW x AS SELECT 1 -- ${none}
  FROM `x${nothing}`; CREATE MATERIALIZED VIEW x AS SELECT '${nothing}';
CREATE MATERIALIZED VIEW x COMMENT 'a'
  COMMENT 'b' AS SELECT 1;
CREATE MATERIALIZED VIEW y (a INT, ) AS SELECT 1;
CREATE MATERIALIZED VIEW y (a INT, b) AS SELECT 1;
CREATE MATERIALIZED VIEW y (a INT AS SELECT 1;
CREATE TEMPORARY VIEW y (a INT) AS SELECT 1;
CREATE MATERIALIZED VIEW y (CONSTRAINT a EXPECT (x), CONSTRAINT a EXPECT (y)) AS SELECT 1;
CREATE STREAMING TABLE z (a) CLUSTER BY ();
CREATE TEMPORARY VIEW y PARTITIONED BY (a) AS SELECT 1;
CREATE STREAMING TABLE y (a) FLOW AUTO CDC FROM x KEYS (a) SEQUENCE BY a;
CREATE MATERIALIZED VIEW AS SELECT 1;
CREATE MATERIALIZED VIEW z AS SELECT 'abc
"""
    syntax, refused, parameter = (
        "PARSE_SYNTAX_ERROR",
        "PIPELINE_SQL_GRAPH_ELEMENT_REGISTRATION_ERROR",
        "SQL_PARAMETER_UNDEFINED",
    )
    begin = "Syntax error in a SQL file at"
    end = "the end of the statement"
    assert faults(tmp_path, text) == [
        (syntax, 1, f"{begin} `STREAMNG`: expected STREAMING TABLE, MATERIALIZED VIEW, TEMPORARY VIEW or FLOW."),
        (refused, 2, "A SQL file of a pipeline can't have DROP."),
        (syntax, 4, f"{begin} {end}: expected AS."),
        (syntax, 6, f"{begin} {end}: expected SEQUENCE BY."),
        (parameter, 7, "The parameter `${nothing}` has no value."),
        (parameter, 9, "The parameter `${nothing}` has no value."),
        (parameter, 10, "The parameter `${nothing}` has no value."),
        (parameter, 12, "The parameter `${nothing}` has no value."),
        (parameter, 12, "The parameter `${nothing}` has no value."),
        (syntax, 14, f"{begin} `COMMENT`: expected each clause once."),
        (syntax, 15, f"{begin} {end}: expected an item before each comma."),
        (syntax, 16, f"{begin} {end}: expected either a type for each column, or for none."),
        (syntax, 17, f"{begin} {end}: expected `)`."),
        (syntax, 18, f"{begin} `AS`: expected columns without types in a view."),
        ("DUPLICATE_EXPECTATION", 19, "The dataset has two expectations named a; the other one is at line 19."),
        (syntax, 20, f"{begin} `)`: expected a list."),
        (syntax, 21, f"{begin} `PARTITIONED`: expected a clause of the dataset, or AS and a query."),
        (syntax, 22, f"{begin} `AUTO`: expected AS, because the columns have no types."),
        (syntax, 23, f"{begin} `AS`: expected a name."),
        (syntax, 24, f"{begin} a string: expected its end."),
    ]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE OR REPLACE VIEW v SCHEDULE EVERY 1 HOUR AS SELECT 1",
        "CREATE TABLE t (id INT)",
        "CREATE FUNCTION f(a INT DEFAULT 1) RETURNS INT LANGUAGE PYTHON AS $$ return 1 $$",
        "CREATE STREAMING TABLE t SCHEDULE EVERY 1 HOUR",
        "CREATE STREAMING TABLE t (id INT, CONSTRAINT c CHECK (id > 0))",
        "CREATE STREAMING TABLE t FLOW REPLACE WHERE a BY NAME SELECT 1",
        "CREATE FLOW f AS AUTO CDC INTO t FROM s KEYS (id) SEQUENCE BY a STORED AS BITEMPORAL",
        "CREATE FLOW f AS AUTO CDC INTO t FROM s KEYS (id) SEQUENCE BY a SYSTEM SEQUENCE BY b",
        "CREATE FLOW f AS INSERT INTO t BY NAME REPLACE USING (id) SEQUENCE BY a SELECT 1",
        "CREATE FLOW f AS AUTO CDC INTO t FROM SNAPSHOT (SELECT 1) WITH VERSION (SELECT 2) KEYS (id)",
        "INSERT INTO t SELECT 1",
        "SET TIME ZONE LOCAL",
        "WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x",
        "DROP TABLE t",
    ],
)
def test_what_a_pipeline_can_not_have_is_refused(statement: str, tmp_path: Path) -> None:
    """The statements of Databricks that declare nothing that Sluice knows; no one is passed over."""
    assert [fault[:2] for fault in faults(tmp_path, f"\n{statement}")] == [
        ("PIPELINE_SQL_GRAPH_ELEMENT_REGISTRATION_ERROR", 2)
    ]


def test_a_file_in_another_encoding_is_refused(tmp_path: Path) -> None:
    """Its texts would be other ones; a mark at the beginning of UTF-8 is none of them."""
    text = "-- first\nCREATE TEMPORARY VIEW a AS SELECT 'é'"
    assert declared(load(tmp_path, {"a.sql": text}, "utf-8-sig"))[2] == {"main.shop.a": "SELECT 'é'"}
    for encoding, line in {"latin-1": 2, "utf-16": 1}.items():
        with pytest.raises(GraphErrors) as raised:
            load(tmp_path, {"a.sql": text}, encoding)
        assert [_told(each)[:2] for each in raised.value.errors] == [("SQL_FILE_NOT_UTF8", line)]


def test_a_view_may_have_more_expectations_than_python_nests_calls(tmp_path: Path) -> None:
    """Python's parser accepts no more than 200 open parentheses."""
    constraints = ",\n".join(f"CONSTRAINT c{number} EXPECT (x > {number})" for number in range(250))
    text = f"CREATE MATERIALIZED VIEW v (\n{constraints}) AS SELECT 1"
    expectations = load(tmp_path, {"a.sql": text}).datasets[0].expectations
    assert [(each.name, each.location and each.location.line) for each in expectations] == [
        (f"c{number}", number + 2) for number in range(250)
    ]


def notebook(*cells: str) -> str:
    """A SQL notebook of Jupyter's format, with one line of code on each line of the file."""
    listed = [{"cell_type": "code", "metadata": {}, "source": text.splitlines(keepends=True)} for text in cells]
    kernel = {"application/vnd.databricks.v1+notebook": {"language": "sql"}}
    return json.dumps({"cells": listed, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}, indent=1)


def test_sql_notebooks_are_sql_files(tmp_path: Path) -> None:
    """The last statement of a cell needs no semicolon; text is left out; a cell of another language is an error."""
    cells = ["CREATE TEMPORARY VIEW a AS\nSELECT 1", "%md\nSome; text'", "%sql\nCREATE TEMPORARY VIEW b AS SELECT 2\n"]
    exported = (
        "-- Databricks notebook source\n-- MAGIC %md\n-- MAGIC Some text's\n\n-- COMMAND ----------\n\n"
        f"{cells[0]}\n\n-- COMMAND ----------\n\nCREATE TEMPORARY VIEW b AS SELECT 2\n"
    )
    jupyter = notebook(*cells)
    queries = {"main.shop.a": "SELECT 1", "main.shop.b": "SELECT 2"}
    places = {
        "a.ipynb": [
            number for number, line in enumerate(jupyter.splitlines(), 1) if "CREATE" in line
        ],
        "a.sql": [7, 12],
    }  # fmt: skip
    windows = exported.replace("\n", "\r\n")
    for name, text in (("a.ipynb", jupyter), ("a.sql", exported), ("a.sql", windows)):
        registry = load(tmp_path, {name: text})
        assert {each: str(query).replace("\r", "") for each, query in declared(registry)[2].items()} == queries
        assert [each.location and each.location.line for each in registry.datasets] == places[name]
    other = exported + "\n-- COMMAND ----------\n\n-- MAGIC %scala\n-- MAGIC x = 1\n"
    assert [fault[:2] for fault in faults(tmp_path, other)] == [("NOTEBOOK_CELL_UNSUPPORTED", 16)]
    line = next(n for n, text in enumerate(notebook("%r\nx = 1").splitlines(), 1) if "%r" in text)
    assert [fault[:2] for fault in faults(tmp_path, notebook("%r\nx = 1"), "b.ipynb")] == [
        ("NOTEBOOK_CELL_UNSUPPORTED", line)
    ]


def test_statements_that_only_look_are_passed_over_and_keys_of_the_pipeline_are_set(tmp_path: Path) -> None:
    """A parameter of such a statement needs no value; a key that a file sets is one of the configuration."""
    text = """SET pipelines.trigger.interval = '5 seconds';
SELECT ${none}; (SELECT 1);
CREATE TEMPORARY VIEW v AS SELECT 1;
DESCRIBE EXTENDED v; SHOW TABLES; EXPLAIN SELECT 1; WITH a AS (SELECT 1) TABLE a;
SET pipelines.maxParallelFlows = 3
"""
    registry = load(tmp_path, {"a.sql": text})
    assert [each.name.table for each in registry.datasets] == ["v"]
    notes = [(each.location and each.location.line, each.fields["statement"]) for each in registry.notes]
    assert notes == [
        (2, "SELECT …"), (2, "SELECT …"), (4, "DESCRIBE …"), (4, "SHOW …"), (4, "EXPLAIN …"), (4, "WITH …"),
    ]  # fmt: skip
    assert Conf.set_keys == {"pipelines.trigger.interval": "5 seconds", "pipelines.maxParallelFlows": "3"}
