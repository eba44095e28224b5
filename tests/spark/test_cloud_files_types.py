"""`cloudFiles`: values that do not fit the type, the name or the folder of a column are kept, and no flow stops."""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from framework import pipelines as dp
from framework.foundation.errors import SluiceError
from framework.run.update.results import UpdateState
from tests.support.engine_world import EngineWorld
from tests.support.landing import Landing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def landing(spark: SparkSession, tmp_path: Path) -> Landing:
    """No folders yet."""
    return Landing(world=EngineWorld(spark, tmp_path), root=tmp_path / "landing")


def write(landing: Landing, kind: str, name: str, *queries: str) -> None:
    """Add a file for each query."""
    for query in queries:
        frame = landing.world.spark.sql(f"SELECT {query}").coalesce(1)
        frame.write.mode("append").format(kind).save(str(landing.root / name))


def test_types_that_differ_between_files_lose_no_value(landing: Landing) -> None:
    """The first analysis takes the widest type; later values are converted if that is exact, and rescued if not.

    The conversions know no format. Other types of ORC's columns are in the tests of a batch and of given schemas.
    """
    nested = {"parquet": "nested", "orc": "orc"}
    tables: dict[str, dict[str, Any]] = {"widest": {"cloudFiles.format": "parquet"}}
    tables["narrow"] = tables["widest"]
    for kind, name in nested.items():
        tables[name] = {"cloudFiles.format": kind, "cloudFiles.schemaEvolutionMode": "rescue"}
        write(landing, kind, name, "1 AS id, named_struct('a', 1) AS at, array(named_struct('b', 1)) AS many")
    write(landing, "parquet", "widest", "1 AS id, 1.5f AS x, 1 AS t", "5000000000L AS id, 0.1d AS x, 'a' AS t")
    write(landing, "parquet", "narrow", "1 AS id, 1.5f AS x, 'a' AS t")
    assert landing.run(tables) == {}
    write(
        landing, "parquet", "narrow",
        "2L AS id, 2.5d AS x, 'b' AS t", "5000000000L AS id, 0.1d AS x, 7 AS t",
        "cast(3 AS SMALLINT) AS id, 3.5f AS x, date'2025-01-31' AS t, 1 AS more",
    )  # fmt: skip
    for kind, name in nested.items():
        write(
            landing, kind, name,
            "2 AS id, named_struct('a', 2, 'z', 'new') AS at, array(named_struct('b', 2)) AS many",
            "3 AS id, named_struct('a', 7000000000L) AS at, array(named_struct('b', 3, 'c', 4)) AS many",
            "4L AS id, named_struct('a', 4L, 'z', cast(NULL AS STRING)) AS at, array(named_struct('b', 4L)) AS many",
        )  # fmt: skip
    assert landing.run(tables) == {}
    assert landing.shown("widest") == [
        ({"id": 1, "x": 1.5, "t": "1"}, {}),
        ({"id": 5_000_000_000, "x": 0.1, "t": "a"}, {}),
    ]
    assert sorted(landing.shown("narrow"), key=str) == [
        ({"id": 1, "x": 1.5, "t": "a"}, {}),
        ({"id": 2, "x": 2.5, "t": "b"}, {}),
        ({"id": 3, "x": 3.5, "t": "2025-01-31", "more": 1}, {}),
        ({"t": "7"}, {"id": "5000000000", "x": "0.1"}),
    ]
    for name in nested.values():
        assert sorted(landing.shown(name), key=str) == [
            ({"id": 1, "at": {"a": 1}, "many": [{"b": 1}]}, {}),
            ({"id": 2, "at": {"a": 2}, "many": [{"b": 2}]}, {"at": '{"a":2,"z":"new"}'}),
            ({"id": 3, "at": {"a": None}, "many": [{"b": 3}]}, {"at": '{"a":7000000000}', "many": '[{"b":3,"c":4}]'}),
            ({"id": 4, "at": {"a": 4}, "many": [{"b": 4}]}, {}),
        ], name


def test_folders_of_any_value_and_depth_keep_their_values(landing: Landing) -> None:
    """A value that does not fit, a percent sign, a missing folder, a column of the same name, and new folders."""
    typed = {"cloudFiles.inferColumnTypes": "true"}
    tables: dict[str, dict[str, Any]] = {
        "typed": typed,
        "texts": {},
        "rescuing": {"path": "texts", "cloudFiles.schemaEvolutionMode": "rescue"},
    }
    landing.put("typed/k=1/a.json", {"id": 1, "k": 9})
    landing.put("texts/größe=1/a.json", {"id": 1})
    assert landing.run(tables) == {}
    landing.put("typed/k=x y/a.json", {"id": 2})
    landing.put("typed/a.json", {"id": 3, "k": 9})
    landing.put("typed/k=__HIVE_DEFAULT_PARTITION__/a.json", {"id": 4})
    landing.put("texts/größe=50%/a.json", {"id": 2})
    landing.put("texts/größe=100%25%/region=e%u/a.json", {"id": 3})
    assert landing.run(tables) == {}
    assert landing.shown("typed") == [
        ({"id": 1, "k": 1}, {}),
        ({"id": 2}, {"k": "x y"}),
        ({"id": 3}, {}),
        ({"id": 4}, {}),
    ]
    assert landing.shown("texts") == [
        ({"id": "1", "größe": "1"}, {}),
        ({"id": "2", "größe": "50%"}, {}),
        ({"id": "3", "größe": "100%%", "region": "e%u"}, {}),
    ]
    assert landing.shown("rescuing") == [
        ({"id": "1", "größe": "1"}, {}),
        ({"id": "2", "größe": "50%"}, {}),
        ({"id": "3", "größe": "100%%"}, {"region": "e%u"}),
    ]


def test_names_that_differ_in_case_are_read_or_rescued(landing: Landing) -> None:
    """CSV headers fit a given schema in any case; fields of JSON are rescued, at any depth."""
    csv = {"cloudFiles.format": "csv", "header": "true", "schema": "id INT, name STRING"}
    tables: dict[str, dict[str, Any]] = {
        "fields": {"cloudFiles.inferColumnTypes": "true"},
        "hinted": {"cloudFiles.schemaHints": "at STRUCT<x: INT>"},
    }
    landing.text("headers/a.csv", "ID,Name,more\n1,Ann,x\n")
    landing.put("fields/a.json", {"id": 1, "at": {"x": 1}})
    landing.put("hinted/a.json", {"id": 1, "at": {"x": 1, "y": 2}})
    assert landing.run(tables) == {}
    tables["headers"] = csv
    tables["given"] = {"path": "hinted", "schema": "id INT, at STRUCT<x: INT>", "rescuedDataColumn": "_rescued_data"}
    landing.text("headers/b.csv", "name,id,ID\nBo,2,3\n")
    landing.put("fields/b.json", {"id": 2, "at": {"X": 2}})
    tables["part"] = {"path": "hinted", "cloudFiles.schemaHints": "at.x INT, many.element.n INT"}
    landing.put("hinted/b.json", {"id": 2, "at": {"x": "no", "y": 3}, "many": [{"n": 1, "m": 2}]})
    assert landing.run(tables) == {}
    assert landing.shown("fields") == [
        ({"id": 1, "at": {"x": 1}}, {}), ({"id": 2, "at": {"x": None}}, {"at": '{"X": 2}'}),
    ]  # fmt: skip
    assert landing.rows("headers") == [{"id": 1, "name": "Ann"}, {"id": 2, "name": "Bo"}]
    assert landing.shown("hinted") == [
        ({"id": "1", "at": {"x": 1}}, {"at": '{"x": 1, "y": 2}'}),
        ({"id": "2", "at": {"x": None}, "many": '[{"n": 1, "m": 2}]'}, {"at": '{"x": "no", "y": 3}'}),
    ]
    assert landing.shown("given") == [
        ({"id": 1, "at": {"x": 1}}, {"at": '{"x": 1, "y": 2}'}),
        ({"id": 2, "at": {"x": None}}, {"at": '{"x": "no", "y": 3}', "many": '[{"n": 1, "m": 2}]'}),
    ]
    assert landing.shown("part") == [
        ({"id": "1", "at": {"x": 1, "y": "2"}}, {}),
        ({"id": "2", "at": {"x": None, "y": "3"}, "many": [{"n": 1, "m": "2"}]}, {"at": '{"x":"no","y":3}'}),
    ]
    landing.put("fields/b.json", {"id": 2, "_rescued_data": "{}"})
    with pytest.raises(SluiceError, match="CLOUD_FILES_OPTION_CONFLICT"):
        landing.run({"again": {"path": "fields"}})


def test_a_batch_reads_files_whose_types_differ(landing: Landing) -> None:
    """`read_files` without STREAM takes the widest type, finds new files later, and rescues what a schema lacks."""
    spark, root, kinds = landing.world.spark, landing.root, ("parquet", "orc")
    files = ("1 AS id, 1.5f AS x, 'a' AS t", "5000000000L AS id, 0.1d AS x, 7 AS t, 1 AS more")
    for kind in kinds:
        write(landing, kind, f"some {kind}", *files)

    def declare() -> None:
        for kind in kinds:

            @dp.materialized_view(name=f"widest_{kind}")
            def widest(kind: str = kind) -> DataFrame:
                return spark.sql(f"SELECT * FROM read_files('{root}/some {kind}', format => '{kind}')")

            @dp.materialized_view(name=f"given_{kind}")
            def given(kind: str = kind) -> DataFrame:
                return spark.sql(f"""
                    SELECT * FROM read_files('{root}/some {kind}', format => '{kind}', schema => 'id INT, t STRING',
                    rescuedDataColumn => '_rescued_data')
                """)

    assert landing.world.run(declare).state is UpdateState.COMPLETED
    for kind in kinds:
        assert landing.shown(f"widest_{kind}") == [
            ({"id": 1, "x": 1.5, "t": "a"}, {}),
            ({"id": 5_000_000_000, "x": 0.1, "t": "7", "more": 1}, {}),
        ], kind
        assert landing.shown(f"given_{kind}") == [
            ({"id": 1, "t": "a"}, {"x": "1.5"}),
            ({"t": "7"}, {"id": "5000000000", "x": "0.1", "more": "1"}),
        ], kind
        write(landing, kind, f"some {kind}", "3L AS id, 3.5d AS x, date'2025-01-31' AS t")
    # Whatever the format, the files are those of the listing.
    assert landing.world.run(declare, refresh=["widest_orc", "given_parquet"]).state is UpdateState.COMPLETED
    assert [row["id"] for row in landing.rows("widest_orc")] == [1, 3, 5_000_000_000]
    assert [row.get("id") for row in landing.rows("given_parquet")] == [1, 3, None]


def test_a_column_of_another_type_names_file_and_column_if_nothing_rescues_it(landing: Landing) -> None:
    """With a given schema and no rescued column the flow fails before it writes; the remedy makes it go on."""
    table: dict[str, Any] = {"cloudFiles.format": "parquet", "schema": "id INT, name STRING"}
    write(landing, "parquet", "t", "1 AS id, 'x' AS name")
    assert landing.run({"t": table}) == {}
    write(landing, "parquet", "t", "5000000000L AS id, 'y' AS name")
    result = landing.world.run(landing.declare({"t": table}))
    (error,) = [flow.error for flow in result.flows if flow.error]
    assert (error.condition, error.fields["column"], error.fields["wanted"], error.fields["found"]) == (
        "FILE_TYPE_MISMATCH", "id", "int", "INT64",
    )  # fmt: skip
    assert re.fullmatch(r"file:/.*\.parquet", str(error.fields["file"]))
    assert landing.rows("t") == [{"id": 1, "name": "x"}]
    assert landing.run({"t": {**table, "rescuedDataColumn": "_rescued_data"}}) == {}
    assert landing.shown("t") == [({"id": 1, "name": "x"}, {}), ({"name": "y"}, {"id": "5000000000"})]


def test_a_new_column_of_a_type_that_needs_a_feature_of_delta_is_added(landing: Landing) -> None:
    """A table without times of no zone gets one later, beside its column and inside of it."""
    tables: dict[str, dict[str, Any]] = {"t": {"cloudFiles.format": "parquet"}}
    write(landing, "parquet", "t", "1 AS id, named_struct('x', 1) AS at")
    assert landing.run(tables) == {}
    noon = "timestamp_ntz'2025-01-31 12:00:00'"
    write(landing, "parquet", "t", f"2 AS id, named_struct('x', 2, 't', {noon}) AS at, {noon} AS t")
    assert landing.run(tables) == {}
    at = datetime.fromisoformat("2025-01-31T12:00")
    assert landing.shown("t") == [
        ({"at": {"x": 1, "t": None}, "id": 1}, {}),
        ({"at": {"x": 2, "t": at}, "id": 2, "t": at}, {}),
    ]


def test_a_new_column_of_a_csv_header_is_rescued_wherever_it_stands(landing: Landing) -> None:
    """Before, between and after the known columns, with a value that does not fit; with a given schema too."""
    csv = {"cloudFiles.format": "csv", "header": "true"}
    inferred = {**csv, "cloudFiles.inferColumnTypes": "true", "cloudFiles.schemaEvolutionMode": "rescue"}
    tables: dict[str, dict[str, Any]] = {"t": inferred}
    landing.text("t/1.csv", "id,name\n1,Ann\n")
    assert landing.run(tables) == {}
    tables["given"] = {**csv, "path": "t", "schema": "id INT, name STRING", "rescuedDataColumn": "_rescued_data"}
    landing.text("t/2.csv", "more,id,other,name,last\nx,2,y,Bo,z\nx,no,,Cy,\n")
    assert landing.run(tables) == {}
    for table in tables:
        assert landing.shown(table) == [
            ({"id": 1, "name": "Ann"}, {}),
            ({"id": 2, "name": "Bo"}, {"more": "x", "other": "y", "last": "z"}),
            ({"name": "Cy"}, {"id": "no", "more": "x"}),
        ], table


def test_a_new_column_with_the_name_of_a_type_needs_no_feature_of_delta(landing: Landing) -> None:
    """With the feature, programs that lack it could not read the table any more."""
    landing.put("t/1.json", {"id": 1})
    assert landing.run({"t": {}}) == {}
    landing.put("t/2.json", {"id": 2, "variant": "red", "timestamp_ntz": "no time"})
    assert landing.run({"t": {}}) == {}
    assert [row.get("variant") for row in landing.rows("t")] == [None, "red"]
    detail = landing.world.spark.sql(f"DESCRIBE DETAIL delta.`{landing.world.path('t')}`").first()
    assert detail is not None
    assert not {"variantType", "timestampNtz"} & set(detail["tableFeatures"])


def test_dates_of_texts_have_the_day_of_a_time_and_a_format_rescues_it(landing: Landing) -> None:
    """As in Spark: a DATE takes the day of a text with a time, unless `dateFormat` says how a date is written."""
    csv = {"cloudFiles.format": "csv", "header": "true", "cloudFiles.schemaHints": "d DATE"}
    json, strict = {"cloudFiles.schemaHints": "d DATE"}, {"dateFormat": "yyyy-MM-dd"}
    tables: dict[str, dict[str, Any]] = {
        "csv": csv, "strict_csv": {**csv, **strict, "path": "csv"},
        "json": json, "strict_json": {**json, **strict, "path": "json"},
    }  # fmt: skip
    landing.text("csv/1.csv", "id,d\n1,2025-01-31\n2,2025-01-31T12:00:00\n")
    landing.put("json/1.json", {"id": 1, "d": "2025-01-31"}, {"id": 2, "d": "2025-01-31T12:00:00"})
    assert landing.run(tables) == {}
    day = date(2025, 1, 31)
    for kind in ("csv", "json"):
        assert landing.shown(kind) == [({"id": "1", "d": day}, {}), ({"id": "2", "d": day}, {})]
        rescued = ({"id": "2"}, {"d": "2025-01-31T12:00:00"})
        assert landing.shown(f"strict_{kind}") == [({"id": "1", "d": day}, {}), rescued]


def test_orc_has_null_for_a_value_beyond_a_given_type_unless_it_is_rescued(landing: Landing) -> None:
    """ORC's reader converts it without a word; with rescued data, the value is kept beside its row."""
    tables: dict[str, dict[str, Any]] = {
        "bare": {"cloudFiles.format": "orc", "schema": "id INT"},
        "kept": {"cloudFiles.format": "orc", "schema": "id INT", "path": "bare", "rescuedDataColumn": "_rescued_data"},
    }
    write(landing, "orc", "bare", "1L AS id", "5000000000L AS id")
    assert landing.run(tables) == {}
    assert landing.rows("bare") == [{"id": 1}, {}]
    assert landing.shown("kept") == [({}, {"id": "5000000000"}), ({"id": 1}, {})]


def test_xml_rescues_each_value_that_does_not_fit_and_keeps_the_others(landing: Landing) -> None:
    """Elements, attributes, dates by their format, unknown elements also if repeated, and records with more faults."""
    typed = {"cloudFiles.format": "xml", "rowTag": "r", "cloudFiles.inferColumnTypes": "true"}
    hints = {"cloudFiles.schemaHints": "d DATE, p DECIMAL(5,2), b BOOLEAN", "dateFormat": "dd.MM.yyyy"}
    given = {"cloudFiles.format": "xml", "rowTag": "r", "path": "typed", "schema": "_k INT, id INT, n INT"}
    tables: dict[str, dict[str, Any]] = {"typed": {**typed, **hints, "cloudFiles.schemaEvolutionMode": "rescue"}}
    first = "<all><r k='1'><id>1</id><n>1</n><d>31.01.2025</d><p>1.5</p><b>true</b><s><x>1</x></s></r></all>"
    for name in ("typed", "bare"):
        landing.text(f"{name}/1.xml", first)
    assert landing.run(tables) == {}
    tables["given"] = {**given, "rescuedDataColumn": "_rescued_data"}
    tables["bare"] = {**given, "path": "bare"}
    landing.text("bare/2.xml", "<all><r k='2'><id>2</id><n>2</n><more>m</more></r></all>")
    records = (
        "<r k='two'><id>2</id><n>2</n><d>01.02.2025</d></r>",
        "<r k='3'><id>three &amp; &lt;</id><n>3</n><d>2025-02-01</d><p>1000</p><b>maybe</b></r>",
        "<r k='4'><id></id><n>4</n><more>m</more><many>a</many><many>b</many></r>",
        "<r k='5'><id>5</id><s><x>five</x></s><n>5</n></r>",
    )
    landing.text("typed/2.xml", f"<all>{''.join(records)}</all>")
    assert landing.run(tables) == {}
    one = {"_k": 1, "id": 1, "n": 1, "d": date(2025, 1, 31), "p": Decimal("1.50"), "b": True, "s": {"x": 1}}
    found = {row.get("_k", 2): (row, rest) for row, rest in landing.shown("typed")}
    assert found[1] == (one, {})
    assert found[2] == ({"id": 2, "n": 2, "d": date(2025, 2, 1)}, {"_k": "two"})
    rest = {"id": "three & <", "d": "2025-02-01", "p": "1000", "b": "maybe"}
    assert found[3] == ({"_k": 3, "n": 3}, rest)
    assert found[4] == ({"_k": 4, "n": 4}, {"more": "m", "many": '["a","b"]'})
    row, rest = found[5]
    assert (row["_k"], row["id"]) == (5, 5)
    assert "<x>five</x>" in rest["_corrupt_record"]
    rescued = {row.get("_k", 2): rest for row, rest in landing.shown("given")}
    assert rescued[2] == {"_k": "two", "d": "01.02.2025"}
    assert rescued[1] == {"d": "31.01.2025", "p": "1.5", "b": "true", "s": "<x>1</x>"}
    assert rescued[5] == {"s": "<x>five</x>"}
    assert landing.rows("bare") == [{"_k": 1, "id": 1, "n": 1}, {"_k": 2, "id": 2, "n": 2}]
