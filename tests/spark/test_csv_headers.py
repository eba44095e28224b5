"""`cloudFiles` names the columns of CSV files as `spark.read` does, and leaves out the rows that `skipRows` says."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from framework import pipelines as dp
from framework.foundation.errors import SluiceError
from framework.run.update.results import UpdateState
from framework.sources.cloud_files.columns.file_groups import columns_of_files
from framework.sources.cloud_files.files.listing import list_new
from framework.sources.cloud_files.files.local_listing import (
    NothingKnown,
)
from framework.sources.cloud_files.settings.given_options import parse_options
from tests.support.engine_world import EngineWorld
from tests.support.landing import Landing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES: dict[str, tuple[dict[str, str], bytes]] = {
    "two_characters": ({"sep": "||"}, b'"first||name"||"city"\n"a"||"Oslo"\n'),
    "control": ({"sep": "\x01"}, b"id\x01name\n1\x01Ada\n"),
    "escaped_tab": ({"sep": "\\t"}, b"id\tname\n1\tAda\n"),
    "two_lines": ({"multiLine": "true"}, b'id,"unit\nprice",note\n1,2,x\n'),
    "escaped_quote": ({}, b'"a \\"q\\"",b\n1,2\n'),
    "doubled_quote": ({"escape": '"'}, b'"a ""q""",b\n1,2\n'),
    "spaces": ({}, b"id, name \n1, Ada \n"),
    "ignored_spaces": ({"ignoreLeadingWhiteSpace": "true"}, b"id, name \n1, Ada \n"),
    "byte_order_mark": ({}, codecs.BOM_UTF8 + b'"id",name\r\n1,Ada\r\n'),
    "mark_and_comment": ({"comment": "#"}, codecs.BOM_UTF8 + b"#made by hand\n\n  \nid,name\n1,Ada\n"),
    "utf16": ({"encoding": "UTF-16", "multiLine": "true"}, "größe,ж\n1,2\n".encode("utf-16")),
    "utf16_lines": ({"encoding": "UTF-16LE", "lineSep": "\n"}, "größe,ж\n1,2\n".encode("utf-16-le")),
    "latin": ({"encoding": "ISO-8859-1"}, "größe,name\n1,å\n".encode("latin-1")),
    "own_line_end": ({"lineSep": "~"}, b"id,name~1,Ada~2,Bo"),
    "only_header": ({}, b"id,name\n"),
    "no_line_end": ({}, b"id,name\n1,Ada"),
    "repeated": ({}, b"id,id,,name,\n1,2,3,4,5\n"),
    "other_case": ({}, b"id,ID,Id\n1,2,3\n"),
    "null_name": ({"nullValue": "id"}, b"id,name\n1,Ada\n"),
    "dots_and_ticks": ({}, b"a.b,`c`,d`e,f g\n1,2,3,4\n"),
    "no_header": ({"header": "false"}, b"1,Ada\n2,Bo\n"),
    "wide": ({}, b",".join(b"c%d" % n for n in range(700)) + b"\n" + b",".join(b"%d" % n for n in range(700)) + b"\n"),
    "quote_of_two_bytes": ({"quote": "§"}, "§a,b§,c\n1,2\n".encode()),
    "no_quotes": ({"quote": ""}, b'"id,name"\n"1,Ada"\n'),
    "quote_escaping": ({"charToEscapeQuoteEscaping": "~"}, b'"a~\\"",b\n1,2\n'),
}


@pytest.fixture
def landing(spark: SparkSession, tmp_path: Path) -> Landing:
    """No folders yet."""
    return Landing(world=EngineWorld(spark, tmp_path), root=tmp_path / "landing")


def put(landing: Landing, name: str, *contents: bytes) -> None:
    """Write files as they are."""
    (landing.root / name).mkdir(parents=True, exist_ok=True)
    present = len(list((landing.root / name).iterdir()))
    for number, content in enumerate(contents, present):
        (landing.root / name / f"{number}.csv").write_bytes(content)


def test_columns_have_the_names_of_sparks_own_reader(landing: Landing) -> None:
    """Quotes, escapes, separators, encodings, comments, repeated and empty names, one file for each."""
    spark = landing.world.spark
    for name, (options, content) in FILES.items():
        put(landing, name, content)
        expected = spark.read.options(**{"header": "true", **options}).csv(str(landing.root / name)).columns
        given = {"cloudFiles.format": "csv", **options}
        parsed = parse_options(str(landing.root / name), given, has_schema=False, zone="UTC")
        files = list_new(spark, parsed, NothingKnown())
        assert columns_of_files(spark, parsed, files).fieldNames() == expected, name


def test_values_are_those_of_sparks_own_reader(landing: Landing) -> None:
    """As the names, in the tables of an update; the property test has more."""
    spark = landing.world.spark
    names = ("two_characters", "control", "two_lines", "escaped_quote", "spaces", "other_case", "utf16_lines")
    for name in names:
        put(landing, name, FILES[name][1])

    def declare() -> None:
        for name in names:

            @dp.table(name=name, table_properties={"delta.columnMapping.mode": "name"})
            def rows(name: str = name) -> DataFrame:
                reader = spark.readStream.format("cloudFiles").option("cloudFiles.format", "csv")
                return reader.options(**FILES[name][0]).load(str(landing.root / name)).drop("_rescued_data")

    assert landing.world.run(declare).state is UpdateState.COMPLETED
    for name in names:
        expected = spark.read.options(**{"header": "true", **FILES[name][0]}).csv(str(landing.root / name))
        found = spark.read.format("delta").load(landing.world.path(name))
        assert (found.columns, found.collect()) == (expected.columns, expected.collect()), name


def test_a_given_schema_gets_the_values_of_its_names(landing: Landing) -> None:
    """Files with the columns in other orders; spaces around a name are passed over, and values have theirs."""
    quoted: dict[str, Any] = {"cloudFiles.format": "csv", "header": "true", "sep": "||"}
    plain = {"cloudFiles.format": "csv", "header": "true"}
    tables: dict[str, dict[str, Any]] = {
        "quoted": {**quoted, "schema": "city STRING, `first||name` STRING"},
        "lines": {**plain, "multiLine": "true", "schema": "`unit\nprice` INT, id INT"},
        "spaces": {**plain, "schema": "id INT, name STRING"},
        "wrong": {**plain, "schema": "a STRING, b STRING", "rescuedDataColumn": "_rescued_data"},
    }
    put(
        landing,
        "quoted",
        b'"first||name"||"city"\n"a"||"Oslo"\n',
        b"city||'first||name'||\"first||name\"\nRome||x||y||b\n",
    )
    put(landing, "lines", b'id,"unit\nprice"\n1,2\n', b'"unit\nprice",more,id\n3,x,4\n')
    put(landing, "spaces", b"id, name \n1, Ada \n", b" name ,name,id\nno,Bo,2\n")
    put(landing, "wrong", b"x,b\n1,2\n")

    def declare() -> None:
        landing.declare({name: table for name, table in tables.items() if name != "lines"})()

        @dp.table(name="lines", table_properties={"delta.columnMapping.mode": "name"})
        def rows() -> DataFrame:
            options = dict(tables["lines"])
            reader = landing.world.spark.readStream.format("cloudFiles").schema(options.pop("schema"))
            return reader.options(**options).load(str(landing.root / "lines"))

    assert landing.world.run(declare).state is UpdateState.COMPLETED
    assert landing.rows("quoted") == [{"city": "Oslo", "first||name": "a"}, {"city": "Rome", "first||name": "b"}]
    frame = landing.world.spark.read.format("delta").load(landing.world.path("lines"))
    assert sorted(map(tuple, frame.collect())) == [(2, 1), (3, 4)]
    assert landing.rows("spaces") == [{"id": 1, "name": " Ada "}, {"id": 2, "name": "Bo"}]
    assert landing.shown("wrong") == [({"b": "2"}, {"x": "1"})]


def skipping() -> Iterator[tuple[str, dict[str, Any], tuple[bytes, ...], list[dict[str, Any]]]]:
    """Names, options, files and rows; a file of fewer lines has no rows."""
    ada, typed = [{"id": "1", "name": "Ada"}], {"cloudFiles.inferColumnTypes": "true"}
    export = b"Account: 17\n# by hand\n\n\nid,name\n1,Ada\n"
    yield "lines", {"skipRows": "2"}, (b"Account: 17\nExported, at, 9\nid,name\n1,Ada\n", b"x\ny\n", b"x"), ada
    yield "counted", {"skipRows": "3", "comment": "#"}, (export,), ada
    yield "typed", {"skipRows": "3", "comment": "#", **typed}, (export,), [{"id": 1, "name": "Ada"}]
    yield "swapped", {"skipRows": "1"}, (b"x\nid,name\n1,Ada\n", b"a,b,c,d\nname,id\nBo,2\n"), [
        *ada, {"id": "2", "name": "Bo"},
    ]  # fmt: skip
    yield "bare", {"skipRows": "1", "header": "false"}, (b"x\n1,Ada\n",), [{"_c0": "1", "_c1": "Ada"}]
    yield (
        "given",
        {"skipRows": "1", "header": "true", "schema": "name STRING, id INT"},
        (b'"x\nid,name\n1,Ada\n',),
        [{"id": 1, "name": "Ada"}],
    )
    yield (
        "given_bare",
        {"skipRows": "1", "schema": "id INT, name STRING"},
        (b"x,y\n1,Ada\n",),
        [{"id": 1, "name": "Ada"}],
    )
    records = b'Account: 17\n"two"\n\nid,"na\nme"\n1,"A\nda"\n'
    yield (
        "records",
        {"skipRows": "3", "multiLine": "true", "schema": "id INT", "header": "true"},
        (records,),
        [{"id": 1}],
    )
    yield "none", {"skipRows": "0"}, (b"id,name\n1,Ada\n",), ada


def test_skipped_rows_are_no_rows_of_the_table(landing: Landing) -> None:
    """Lines before the header, also blank ones and comments, in each file; types are those of the rows after them."""
    cases = {name: (options, files, rows) for name, options, files, rows in skipping()}
    tables = {name: {"cloudFiles.format": "csv", **options} for name, (options, _, _) in cases.items()}
    for name, (_, files, _) in cases.items():
        put(landing, name, *files)
    tables["lines_again"] = {**tables["lines"], "path": "lines", "cloudFiles.maxFilesPerTrigger": "1"}
    assert landing.run(tables) == {}
    for name, (_, _, rows) in cases.items():
        found = landing.rows(name) if "schema" in tables[name] else [row for row, _ in landing.shown(name)]
        assert found == rows, name
    assert landing.shown("lines_again") == [({"id": "1", "name": "Ada"}, {})]
    put(landing, "lines", b"x\ny\nid,more\n2,z\n")
    assert landing.run(tables) == {}
    assert landing.shown("lines") == [({"id": "1", "name": "Ada"}, {}), ({"id": "2", "more": "z"}, {})]


def test_rows_are_skipped_in_sql_too(landing: Landing) -> None:
    """`STREAM read_files` reads the same; a batch, which reads by position, refuses the option."""
    spark, folder = landing.world.spark, landing.root / "in"
    put(landing, "in", b"Account\nid,name\n1,Ada\n")

    def declare() -> None:
        @dp.table(name="rows")
        def rows() -> DataFrame:
            return spark.sql(f"SELECT * FROM STREAM read_files('{folder}', format => 'csv', skipRows => 1)")

    assert landing.world.run(declare).state is UpdateState.COMPLETED
    assert landing.shown("rows") == [({"id": 1, "name": "Ada"}, {})]

    def batch() -> None:
        @dp.materialized_view(name="view")
        def view() -> DataFrame:
            return spark.sql(f"SELECT * FROM read_files('{folder}', format => 'csv', skipRows => 1)")

    with pytest.raises(SluiceError, match="`skipRows` of cloudFiles can't be `1`"):
        landing.world.run(batch)


def test_a_header_that_spark_cannot_parse_names_its_file(landing: Landing) -> None:
    """More columns than `maxColumns`, and skipped lines that end within a record."""
    csv = {"cloudFiles.format": "csv"}
    put(landing, "wide", b"a,b\n1,2\n", b"a,b,c\n1,2,3\n")
    with pytest.raises(SluiceError, match=r"CLOUD_FILES_HEADER_UNREADABLE.*wide/1\.csv"):
        landing.run({"wide": {**csv, "maxColumns": "2"}})
    put(landing, "cut", b'"x\nid\ny",name\n1,Ada\n')
    with pytest.raises(SluiceError, match=r"CLOUD_FILES_SKIPPED_ROWS.*first 1 lines.*cut/0\.csv"):
        landing.run({"cut": {**csv, "skipRows": "1", "multiLine": "true"}})
