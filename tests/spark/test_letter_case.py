"""`cloudFiles`: fields whose names differ from those of columns in case only, in all formats and at any depth."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from framework import pipelines as dp
from framework.run.update.results import UpdateState
from tests.support.engine_world import EngineWorld
from tests.support.landing import Landing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TYPED = ("parquet", "orc")
Shown = tuple[dict[str, Any], dict[str, Any]]
"""A row, and its rescued data."""

FIRST: Shown = ({"id": 1, "value": 1, "at": {"x": 1}}, {})
RESCUED: list[Shown] = [
    FIRST,
    ({"id": 2, "at": {"x": None}}, {"Value": "2", "at": '{"X":2}'}),
    ({"id": 3, "value": 3, "at": {"x": 3}}, {"VALUE": "33", "at": '{"x":3,"X":33}'}),
]
"""The rows of all formats with `readerCaseSensitive`: a record that has both keeps the exact one."""
READ: list[Shown] = [
    FIRST,
    ({"id": 2, "value": 2, "at": {"x": 2}}, {}),
    ({"id": 3, "value": 3, "at": {"x": 3}}, {"VALUE": "33", "at": '{"x":3,"X":33}'}),
]
"""The same without."""


@pytest.fixture
def landing(spark: SparkSession, tmp_path: Path) -> Landing:
    """No folders yet."""
    return Landing(world=EngineWorld(spark, tmp_path), root=tmp_path / "landing")


@contextmanager
def exact_names(spark: SparkSession) -> Iterator[None]:
    """A frame may have columns that differ in case only."""
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        yield
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def write(landing: Landing, kind: str, query: str) -> None:
    """Add a file to the folder of a format."""
    with exact_names(landing.world.spark):
        frame = landing.world.spark.sql(f"SELECT {query}").coalesce(1)
        frame.write.mode("append").format(kind).save(str(landing.root / kind))


def first_files(landing: Landing) -> None:
    """A file of each format with the names that become those of the columns."""
    landing.put("json/1.json", {"id": 1, "value": 1, "at": {"x": 1}})
    landing.text("xml/1.xml", "<all><r><id>1</id><value>1</value><at><x>1</x></at></r></all>")
    landing.text("csv/1.csv", "id,value\n1,1\n")
    for kind in TYPED:
        write(landing, kind, "1 AS id, 1 AS value, named_struct('x', 1) AS at")


def second_files(landing: Landing) -> None:
    """Files with one name in another case, and with both."""
    landing.put("json/2.json", {"id": 2, "Value": 2, "at": {"X": 2}})
    landing.put("json/3.json", {"id": 3, "value": 3, "VALUE": 33, "at": {"x": 3, "X": 33}})
    two = "<r><id>2</id><Value>2</Value><at><X>2</X></at></r>"
    landing.text(
        "xml/2.xml", f"<all>{two}<r><id>3</id><VALUE>33</VALUE><value>3</value>{'<at><x>3</x><X>33</X></at>'}</r></all>"
    )
    landing.text("csv/2.csv", "id,Value\n2,2\n")
    landing.text("csv/3.csv", "VALUE,id,value\n33,3,3\n")
    for kind in TYPED:
        write(landing, kind, "2 AS id, 2 AS Value, named_struct('X', 2) AS at")
        write(landing, kind, "3 AS id, 3 AS value, 33 AS VALUE, named_struct('x', 3, 'X', 33) AS at")


def plain(shown: list[Shown]) -> list[Shown]:
    """The rows in the order of their keys; formats write the text of a nested value with and without spaces."""
    rows = []
    for row, rest in sorted(shown, key=lambda pair: pair[0]["id"]):
        text = rest.get("at", "").replace(" ", "").replace('{"X":33,"x":3}', '{"x":3,"X":33}')
        rows.append((row, {**rest, "at": text} if text else rest))
    return rows


def test_fields_in_another_case_are_rescued_or_read_in_all_formats(landing: Landing) -> None:
    """By `readerCaseSensitive`; the mode of evolution makes no difference, because they are no new columns."""
    tables: dict[str, dict[str, Any]] = {}
    kinds = ("json", "xml", "csv", *TYPED)
    options = {"cloudFiles.inferColumnTypes": "true", "rescuedDataColumn": "_rescued_data", "rowTag": "r"}
    for exact in ("true", "false"):
        for kind in kinds:
            given = {**options, "cloudFiles.format": kind, "readerCaseSensitive": exact}
            if kind != "xml":
                del given["rowTag"]
            tables[f"{kind}_{exact}"] = {**given, "path": kind, "cloudFiles.schemaEvolutionMode": "rescue"}
    for mode in ("addNewColumns", "addNewColumnsWithTypeWidening", "failOnNewColumns", "none"):
        given = {**tables["json_true"], "cloudFiles.schemaEvolutionMode": mode}
        tables[f"mode_{mode}".lower()] = given
    del tables["mode_none"]["readerCaseSensitive"]
    first_files(landing)
    assert landing.run(tables) == {}
    second_files(landing)
    assert landing.run(tables) == {}
    for name in tables:
        expected = READ if name.endswith("false") else RESCUED
        if name.startswith("csv"):  # it has no nested values
            expected = [
                ({k: v for k, v in row.items() if k != "at"}, {k: v for k, v in rest.items() if k != "at"})
                for row, rest in expected
            ]
        assert plain(landing.shown(name)) == expected, name


def test_values_in_another_case_that_do_not_fit_are_rescued_under_their_name(landing: Landing) -> None:
    """Of numbers, of nested values, and of fields inside of arrays and maps, whether the case counts or not."""
    typed = {"cloudFiles.inferColumnTypes": "true", "cloudFiles.schemaHints": "m MAP<STRING, STRUCT<z: INT>>"}
    tables = {"exact": {**typed, "path": "in"}, "any": {**typed, "path": "in", "readerCaseSensitive": "false"}}
    landing.put("in/1.json", {"id": 1, "n": 1, "many": [{"y": 1}], "m": {"a": {"z": 1}}})
    assert landing.run(tables) == {}
    landing.put("in/2.json", {"id": 2, "N": "no", "Many": [{"y": 2}], "M": {"b": {"Z": 2}}})
    landing.put("in/3.json", {"id": 3, "n": 3, "many": [{"Y": 3}], "m": {"a": {"z": 3, "Z": 4}}})
    assert landing.run(tables) == {}
    exact = {row["id"]: (row, rest) for row, rest in landing.shown("exact")}
    assert exact[2] == ({"id": 2}, {"N": "no", "Many": '[{"y": 2}]', "M": '{"b": {"Z": 2}}'})
    three = {"many": '[{"Y": 3}]', "m": '{"a": {"z": 3, "Z": 4}}'}
    assert exact[3] == ({"id": 3, "n": 3, "many": [{"y": None}], "m": {"a": {"z": 3}}}, three)
    read = {row["id"]: (row, rest) for row, rest in landing.shown("any")}
    assert read[2] == ({"id": 2, "many": [{"y": 2}], "m": {"b": {"z": 2}}}, {"N": "no"})
    assert read[3] == ({"id": 3, "n": 3, "many": [{"y": 3}], "m": {"a": {"z": 3}}}, {"m": three["m"]})


def test_the_first_files_may_have_a_name_in_several_cases(landing: Landing) -> None:
    """One of them becomes the column, the one of a hint if there is one, and the others are rescued."""
    tables: dict[str, dict[str, Any]] = {
        "rows": {"cloudFiles.inferColumnTypes": "true"},
        "hinted": {"cloudFiles.schemaHints": "id BIGINT"},
        "texts": {"path": "rows", "readerCaseSensitive": "false"},
    }
    for name in ("rows", "hinted"):
        landing.put(f"{name}/1.json", {"id": 1, "ID": 2, "at": {"x": 1, "X": 2}})
    assert landing.run(tables) == {}
    assert landing.shown("rows") == [({"ID": 2, "at": {"X": 2}}, {"id": "1", "at": '{"x": 1, "X": 2}'})]
    assert landing.shown("hinted") == [({"id": 1, "at": '{"x": 1, "X": 2}'}, {"ID": "2"})]
    assert landing.shown("texts") == [({"ID": "2", "at": '{"x": 1, "X": 2}'}, {"id": "1"})]
    landing.put("rows/2.json", {"id": 3, "new": 1, "NEW": 2})
    assert landing.run(tables) == {}
    assert landing.shown("texts")[1:] == [({"ID": "3", "NEW": "2"}, {"new": "1"})]
    assert ({"NEW": 2}, {"id": "3", "new": "1"}) in landing.shown("rows")


def test_a_field_that_nothing_would_rescue_stops_the_flow(landing: Landing) -> None:
    """With a given schema, no rescued column and `failOnNewColumns`; without the mode it is passed over as in Spark."""
    given = {"path": "rows", "schema": "id INT, value INT"}
    strict = {**given, "cloudFiles.schemaEvolutionMode": "failOnNewColumns"}
    tables: dict[str, dict[str, Any]] = {
        "strict": strict, "any": {**strict, "readerCaseSensitive": "false"}, "lax": given,
        "lax_any": {**given, "readerCaseSensitive": "false"},
    }  # fmt: skip
    landing.put("rows/1.json", {"id": 1, "Value": 1})
    landing.put("both/1.json", {"id": 1, "ID": 2})
    tables["both"] = {**strict, "path": "both"}
    assert landing.run(tables) == dict.fromkeys(("strict", "both"), "UNKNOWN_FIELD_CASE")
    assert landing.rows("any") == landing.rows("lax_any") == [{"id": 1, "value": 1}]
    assert landing.rows("lax") == [{"id": 1}]


def test_a_batch_rescues_fields_in_another_case_and_finds_new_files(landing: Landing) -> None:
    """`read_files` without STREAM; the next update sees a file that has come since."""
    spark, root = landing.world.spark, landing.root
    first_files(landing)
    second_files(landing)

    def declare() -> None:
        for kind in ("json", "parquet", "xml"):

            @dp.materialized_view(name=kind)
            def view(kind: str = kind) -> DataFrame:
                more = ", rowTag => 'r'" if kind == "xml" else ""
                return spark.sql(f"""
                    SELECT * FROM read_files('{root}/{kind}', format => '{kind}', rescuedDataColumn => '_rescued_data',
                    schema => 'id INT, value INT, at STRUCT<x: INT>'{more})
                """)

    assert landing.world.run(declare).state is UpdateState.COMPLETED
    for kind in ("json", "parquet", "xml"):
        assert plain(landing.shown(kind)) == RESCUED, kind
    landing.put("json/4.json", {"id": 4, "vaLue": 4})
    assert landing.world.run(declare).state is UpdateState.COMPLETED
    assert plain(landing.shown("json")) == [*RESCUED, ({"id": 4}, {"vaLue": "4"})]
