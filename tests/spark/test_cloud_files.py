"""`cloudFiles`: each file is read exactly once, natively, with the columns that its files have."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from framework import pipelines as dp
from framework.foundation.errors import SluiceError
from framework.foundation.failpoints import arm, disarm
from framework.run.update.results import UpdateState
from tests.support.engine_world import EngineWorld
from tests.support.landing import Landing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def _stop() -> None:
    raise RuntimeError


@pytest.fixture
def landing(spark: SparkSession, tmp_path: Path) -> Landing:
    """No folders yet."""
    return Landing(world=EngineWorld(spark, tmp_path), root=tmp_path / "landing")


def fill(landing: Landing) -> dict[str, dict[str, Any]]:
    """Write files of all kinds, and return the tables that read them."""
    spark = landing.world.spark
    landing.put("plain/a b%20=ü,ж.json", {"id": 1, "at": {"x": 1}})
    landing.put("plain/deep/er/b.json", {"id": 2})
    landing.text("plain/empty.json", "")
    landing.put("plain/_hidden.json", {"id": 99})
    landing.put("typed/date=2025-01-02/k=a%2Fb c/x.json", {"id": 1, "n": 1.5, "at": {"x": 1}, "tags": ["a"]})
    landing.put("typed/date=2025-01-03/k=d/y.json", {"id": 2})
    landing.put("timed/old.json", {"id": 1}, at=1_700_000_000)
    landing.put("timed/mid.json", {"id": 2}, at=1_700_000_500)
    landing.put("timed/new.json", {"id": 3}, at=1_700_001_000)
    landing.put("existing/there.json", {"id": 1})
    for number in range(5):
        landing.put(f"limited/{number}.json", {"id": number}, at=1_700_000_000 + number)
        landing.text(f"sized/{number}.txt", f"{number}" * 99, at=1_700_000_000 + number)
    landing.text("csv/a.csv", "id,name\n1,Ann\n", at=1_700_000_000)
    landing.text("csv/b.csv", 'name,id,more\n"Bo, b",2,x\n', at=1_700_000_100)
    landing.text("xml/a.xml", "<all><row><id>1</id></row><row><id>2</id></row></all>")
    landing.text("given/a.json", '{"id": 1, "extra": 2}\nnot json\n{"id": "x"}\n')
    (landing.root / "packed").mkdir()
    (landing.root / "packed" / "a.json.gz").write_bytes(gzip.compress(b'{"id": 1}\n'))
    spark.range(3).coalesce(1).write.parquet(str(landing.root / "parquet"))
    spark.range(3).coalesce(1).write.orc(str(landing.root / "orc"))
    return {
        "plain": {"columns": ["*", "_metadata.file_name", "_metadata.file_size"]},
        "typed": {"cloudFiles.inferColumnTypes": "true", "cloudFiles.schemaHints": "at.y DATE, n DECIMAL(5,2)"},
        "timed": {"modifiedAfter": "2023-11-14T22:13:20+00:00", "modifiedBefore": "2023-11-14 22:30:01 UTC"},
        "existing": {"cloudFiles.includeExistingFiles": "false"},
        "limited": {"cloudFiles.maxFilesPerTrigger": 2, "schema": "id INT", "pathGlobFilter": "[^3].{json,txt}"},
        "sized": {"cloudFiles.format": "text", "cloudFiles.maxBytesPerTrigger": "200b"},
        "csv": {"cloudFiles.format": "csv"},
        "headless": {"path": "csv/a.csv", "cloudFiles.format": "csv", "header": "false"},
        "xml": {"cloudFiles.format": "xml", "rowTag": "row", "cloudFiles.inferColumnTypes": "true"},
        "given": {"schema": "id INT", "rescuedDataColumn": "rest"},
        "bare": {"path": "given", "schema": "id INT"},
        "packed": {"path": "pack*"},
        "parquet": {"cloudFiles.format": "parquet", "columns": ["*", "_metadata.row_index"]},
        "orc": {"cloudFiles.format": "orc"},
        "binary": {"path": "packed", "cloudFiles.format": "binaryFile", "columns": ["length"]},
    }


def test_each_format_and_option_selects_and_parses_as_documented(landing: Landing) -> None:
    """All in one update: names, empty files, types, hints, partitions, times, globs, limits, metadata and formats.

    CSV files have headers, as in Lakeflow.
    """
    tables = fill(landing)
    assert landing.run(tables) == {}
    path = f"file:{landing.root}/given/a.json"
    shown: dict[str, Any] = {name: landing.rows(name) for name in tables if name not in {"given", "typed"}}
    shown["typed"] = [{key: str(value) for key, value in row.items()} for row in landing.rows("typed")]
    shown["given"] = [{**row, "rest": json.loads(row.get("rest", "{}"))} for row in landing.rows("given")]
    shown["versions"] = (landing.world.versions("limited"), landing.world.versions("sized"))
    assert shown == {
        "plain": [
            {"id": "1", "at": '{"x": 1}', "file_name": "a%20b%2520=ü,ж.json", "file_size": 26},
            {"id": "2", "file_name": "b.json", "file_size": 10},
        ],
        "typed": [
            {"id": "1", "n": "1.50", "at": "{'x': 1, 'y': None}", "tags": "['a']", "date": "2025-01-02", "k": "a/b c"},
            {"id": "2", "date": "2025-01-03", "k": "d"},
        ],
        "timed": [{"id": "2"}, {"id": "3"}],
        "existing": [],
        "limited": [{"id": 0}, {"id": 1}, {"id": 2}, {"id": 4}],
        "sized": [{"value": f"{number}" * 99} for number in range(5)],
        "versions": (3, 4),
        "csv": [{"id": "1", "name": "Ann"}, {"id": "2", "name": "Bo, b", "more": "x"}],
        "headless": [{"_c0": "1", "_c1": "Ann"}, {"_c0": "id", "_c1": "name"}],
        "xml": [{"id": 1}, {"id": 2}],
        "given": [
            {"id": 1, "rest": {"extra": "2", "_file_path": path}},
            {"rest": {"_corrupt_record": "not json", "_file_path": path}},
            {"rest": {"id": "x", "_file_path": path}},
        ],
        "bare": [{"id": 1}, {}, {}],
        "packed": [{"id": "1"}],
        "binary": [{"length": len(gzip.compress(b'{"id": 1}\n'))}],
        "parquet": [{"id": number, "row_index": number} for number in range(3)],
        "orc": [{"id": number} for number in range(3)],
    }
    landing.put("existing/next.json", {"id": 2})
    landing.text("limited/3.json", '{"id": 3}')
    landing.put("limited/5.json", {"id": 5})
    landing.put("timed/old.json", {"id": 9}, at=1_700_000_600)
    assert landing.run(tables) == {}
    assert [landing.rows(name) for name in ("existing", "timed")] == [
        [{"id": "2"}],
        [{"id": "2"}, {"id": "3"}, {"id": "9"}],
    ]
    assert [row["id"] for row in landing.rows("limited")] == [0, 1, 2, 4, 5]


def ordered(values: Any) -> Any:
    """Lists of rows in the order of their text."""
    if isinstance(values, dict):
        return {name: ordered(value) for name, value in values.items()}
    return sorted(values, key=lambda row: json.dumps(row, sort_keys=True)) if isinstance(values, list) else values


def test_new_columns_are_added_rescued_refused_or_left_out(landing: Landing) -> None:
    """What each mode does with a new column, a nested one, another type, and a name in another case."""
    typed = {"cloudFiles.inferColumnTypes": "true"}
    modes = ("addNewColumns", "rescue", "failOnNewColumns", "none")
    tables: dict[str, dict[str, Any]] = {
        mode.lower(): {**typed, "path": "in", "cloudFiles.schemaEvolutionMode": mode} for mode in modes
    }
    tables["parquet"] = {"cloudFiles.format": "parquet"}
    tables["overwritten"] = {"cloudFiles.allowOverwrites": "true"}
    landing.put("in/a.json", {"id": 1, "at": {"x": 1}})
    landing.put("overwritten/a.json", {"id": 1})
    landing.world.spark.sql("SELECT 1 AS id").coalesce(1).write.parquet(str(landing.root / "parquet"))
    assert landing.run(tables) == {}
    landing.put("in/b.json", {"id": 2, "at": {"x": 2, "y": "new"}, "city": "Rome"})
    landing.put("in/c.json", {"id": "three", "at": {"x": 3}})
    landing.put("overwritten/a.json", {"id": 1, "more": 1})
    more = landing.world.spark.sql("SELECT 2 AS id, 'x' AS name")
    more.coalesce(1).write.mode("append").parquet(str(landing.root / "parquet"))
    assert landing.run(tables) == {"failonnewcolumns": "UNKNOWN_FIELD_REFUSED"}
    shown: dict[str, Any] = {
        name: [{k: v for k, v in row.items() if k != "_rescued_data"} for row in landing.rows(name)] for name in tables
    }
    shown["rescued"] = {name: landing.rescued(name) for name in ("addnewcolumns", "rescue")}
    assert ordered(shown) == ordered(
        {
            "addnewcolumns": [
                {"at": {"x": 3, "y": None}},
                {"id": 1, "at": {"x": 1, "y": None}},
                {"id": 2, "at": {"x": 2, "y": "new"}, "city": "Rome"},
            ],
            "rescue": [{"id": 2, "at": {"x": 2}}, {"at": {"x": 3}}, {"id": 1, "at": {"x": 1}}],
            "none": [{"at": {"x": 3}}, {"id": 1, "at": {"x": 1}}, {"id": 2, "at": {"x": 2}}],
            "failonnewcolumns": [{"id": 1, "at": {"x": 1}}],
            "parquet": [{"id": 1}, {"id": 2, "name": "x"}],
            "overwritten": [{"id": "1"}, {"id": "1", "more": "1"}],
            "rescued": {
                "addnewcolumns": [{"id": "three"}, {}, {}],
                "rescue": [{"at": '{"x": 2, "y": "new"}', "city": "Rome"}, {"id": "three"}, {}],
            },
        }
    )


def fill_badly(landing: Landing) -> dict[str, dict[str, Any]]:
    """Write files that are hard to read, and return the tables that read them."""
    for number, name in enumerate(("a b", "100%", "%20", "x=1", "ü ж", "a+b&c;d,e#f?", "[x]{y}*", "a\\b", "a\nb")):
        landing.put(f"na mes%=ü/{name}.json", {"id": number})
    for name in ("empty.json", "empty.json.gz"):
        landing.text(f"empties/{name}", "")
    landing.put("empties/full.json", {"id": 1})
    landing.text("emptyparquet/empty.parquet", "")
    landing.world.spark.range(1).coalesce(1).write.mode("append").parquet(str(landing.root / "emptyparquet"))
    landing.text("encoded/bom.json", '\ufeff{"id": 1, "name": "ü"}\n')
    landing.put("encoded/utf8.json", {"id": 2, "name": "ж"})
    (landing.root / "encoded" / "latin1.json").write_bytes('{"id": 3, "name": "ü"}\n{"id": 4}\n'.encode("latin-1"))
    (landing.root / "encoded" / "utf16.json").write_bytes('{"id": 5}\n'.encode("utf-16"))
    landing.text("latin/a.csv", "")
    (landing.root / "latin" / "b.csv").write_bytes("id,name\n1,ü\n".encode("latin-1"))
    for number, at in enumerate((-86_400, 0, 1_700_000_000, 4_000_000_000)):
        landing.put(f"skewed/{number}.json", {"id": number}, at=at)
    for name in ("cased", "packed", "vanished"):
        landing.put(f"{name}/0.json", {"id": 0})
    given = {"schema": "id INT"}
    return {
        "names": {"path": "na mes%=ü", **given},
        "empties": given,
        "emptyparquet": {"cloudFiles.format": "parquet"},
        "encoded": {"schema": "id INT, name STRING", "rescuedDataColumn": "_rescued_data"},
        "latin": {"cloudFiles.format": "csv", "header": "true", "encoding": "ISO-8859-1"},
        "skewed": given,
        "cased": {"ignoreMissingFiles": "true"},
        "packed": given,
        "vanished": given,
    }


def ids(landing: Landing, *tables: str) -> list[list[Any]]:
    """The values of `id` in some tables."""
    return [sorted((row.get("id") for row in landing.rows(table)), key=str) for table in tables]


def test_bad_folders_and_files_are_named_and_nothing_is_lost(landing: Landing) -> None:
    """Folders, names, encodings, times and archives of all kinds; after the repair every row is there once."""
    landing.root.mkdir()
    unread = {"gone": {}, "rows": {"path": "."}}
    assert landing.run(unread) == {"gone": "CLOUD_FILES_FOLDER_MISSING", "rows": "CLOUD_FILES_SCHEMA_UNKNOWN"}
    for tables, condition in (
        ({"rows": {"path": ".", "cloudFiles.formatt": "x"}}, "CLOUD_FILES_OPTION_UNKNOWN"),
        ({"rows": {"path": ".", "cloudFiles.maxFileAge": "1d"}}, "CLOUD_FILES_OPTION_UNSUPPORTED"),
        ({"rows": {"path": ".", "skpRows": "1"}}, r"no option `skpRows`\. Did you mean `skipRows`"),
    ):
        with pytest.raises(SluiceError, match=condition):
            landing.run(tables)
    bad = fill_badly(landing)
    assert landing.run(bad) == {}
    assert ids(landing, "names", "empties", "emptyparquet", "skewed") == [[*range(9)], [1], [0], [0, 1, 2, 3]]
    # A record that is not UTF-8 is rescued as a whole, and UTF-16 leaves half a line break.
    encoded = {row["id"]: row.get("name") for row in landing.rows("encoded") if "id" in row}
    assert encoded == {1: "ü", 2: "ж", 4: None, 5: None}
    rescued = [row for row in landing.rescued("encoded") if row]
    assert rescued == [{"_corrupt_record": "\x00"}, {"id": "3", "name": "\ufffd"}]
    assert landing.rows("latin") == [{"id": "1", "name": "ü"}]
    landing.put("skewed/old.json", {"id": 4}, at=-86_400)
    landing.put("cased/b.json", {"ID": 2})
    (landing.root / "vanished").rename(landing.root / "aside")
    whole = gzip.compress(b"".join(f'{{"id": {number}}}\n'.encode() for number in range(1, 9999)))
    (landing.root / "packed" / "1.json.gz").write_bytes(whole[: len(whole) // 2])
    assert landing.run(bad) == {
        "vanished": "CLOUD_FILES_FOLDER_MISSING",
        "packed": "FLOW_FAILED",
    }
    assert landing.shown("cased") == [({}, {"ID": "2"}), ({"id": "0"}, {})]
    (landing.root / "aside").rename(landing.root / "vanished")
    landing.put("vanished/1.json", {"id": 1})
    (landing.root / "packed/1.json.gz").unlink()
    assert landing.run(bad) == {"packed": "CLOUD_FILES_FILE_MISSING"}
    (landing.root / "packed" / "1.json.gz").write_bytes(whole)
    assert landing.run(bad) == {}
    assert ids(landing, "vanished", "skewed") == [[0, 1], [0, 1, 2, 3, 4]]
    assert sorted(ids(landing, "packed")[0]) == [*range(9999)]


def test_a_file_that_is_replaced_between_its_listing_and_its_batch_is_read_as_a_whole(landing: Landing) -> None:
    """The rows are those of the new content, once."""
    landing.put("replaced/0.json", {"id": 0})
    tables = {"replaced": {"schema": "id INT"}}
    new = [{"id": number} for number in range(100, 200)]

    def replace() -> None:
        landing.put("replaced/0.json", *new)

    arm("cloud_files.after_files", action=replace)
    try:
        assert landing.run(tables) == {}
    finally:
        disarm()
    assert ids(landing, "replaced") == [[row["id"] for row in new]]


def test_files_are_cleaned_after_their_commit_and_the_retention(landing: Landing) -> None:
    """Moved or deleted once, also after a fault; what changed or was passed over stays; a plan names what is gone."""
    archive = landing.root / "archive"
    move = {
        "schema": "id INT",
        "cloudFiles.cleanSource": "MOVE",
        "cloudFiles.cleanSource.moveDestination": str(archive),
    }
    tables: dict[str, dict[str, Any]] = {
        "moved": {**move, "cloudFiles.cleanSource.retentionDuration": "0 seconds"},
        "later": move,
        "deleted": {
            "schema": "id INT", "cloudFiles.cleanSource": "DELETE", "cloudFiles.includeExistingFiles": "false",
        },
    }  # fmt: skip
    landing.put("moved/a/b c.json", {"id": 1})
    landing.put("moved/x.json", {"id": 2}, at=1_700_000_000)
    landing.put("archive/x.json", {"id": 0})
    landing.put("later/x.json", {"id": 1})
    landing.put("deleted/passed over.json", {"id": 1})
    assert landing.run(tables) == {}
    landing.put("deleted/new.json", {"id": 2})
    landing.put("deleted/changed.json", {"id": 3})
    arm("cloud_files.before_clean_mark", action=_stop)
    try:
        landing.run(tables)
    finally:
        disarm()
    assert landing.run(tables) == {}
    landing.run(tables)
    landing.put("deleted/changed.json", {"id": 3, "more": 4})
    (mark,) = (path for path in landing.world.root.rglob("cleaning") if "deleted" in str(path))
    state = json.loads(mark.read_text("utf-8"))
    state["marks"] = [[last, at - 31 * 86_400] for last, at in state["marks"]]
    mark.write_text(json.dumps(state), "utf-8")
    assert landing.run(tables) == {}
    assert sorted(str(path.relative_to(landing.root)) for path in landing.root.rglob("*.json*")) == [
        "archive/a/b c.json",
        "archive/x.json",
        "archive/x.json.1700000000000",
        "deleted/changed.json",
        "deleted/passed over.json",
        "later/x.json",
    ]
    assert ids(landing, "moved", "later", "deleted") == [[1, 2], [1], [2, 3]]
    plan = landing.world.pipeline(landing.declare(tables)).plan(full_refresh=["moved"])
    gone = f"2 files of {landing.root}/moved were moved to {archive} by cleanSource: their rows can't be read again"
    assert [step.reason for step in plan.steps if gone in step.reason] != []
    assert landing.run(tables, full_refresh=["moved"]) == {}
    assert landing.rows("moved") == []


def test_read_files_in_sql_is_the_same_source(landing: Landing) -> None:
    """A stream reads each file once and follows columns; a batch reads all files; text in quotes is no call."""
    spark, root = landing.world.spark, landing.root
    landing.put("sql in/a (1).json", {"id": 1, "at": {"x": 1}}, at=1_700_000_000)
    landing.text("csv/a.csv", "id;name\n1;x\n")

    def declare() -> None:
        @dp.table
        def streamed() -> DataFrame:
            return spark.sql(f"""
                SELECT f.*, 'read_files(' AS text -- read_files('gone')
                FROM STREAM read_files('{root}/sql in', format => 'json', maxFilesPerTrigger => 1) AS f
            """)

        @dp.table
        def in_words_of_dlt() -> DataFrame:
            return spark.sql(f"""
                SELECT c.id, c.city
                FROM CLOUD_FILES("{root}/sql in", 'json', map('cloudFiles.schemaHints', 'city STRING')) AS c
            """)

        @dp.materialized_view
        def counted() -> DataFrame:
            return spark.sql(f"""
                SELECT count(*) AS files, sum(id) AS ids, (
                    SELECT max(name) FROM read_files('{root}/csv', format => 'csv', sep => ';')
                ) AS name
                FROM read_files('{root}/sql in', format => 'json', schema => 'id INT', modifiedAfter => '2023-11-15')
            """)

    def shown(table: str) -> list[dict[str, Any]]:
        return [{name: value for name, value in row.items() if name != "text"} for row in landing.rows(table)]

    assert landing.world.run(declare).state is UpdateState.COMPLETED
    landing.put("sql in/b.json", {"id": 2, "city": "Rome"})
    assert landing.world.run(declare).state is UpdateState.COMPLETED
    assert shown("streamed") == [{"id": 1, "at": {"x": 1}}, {"id": 2, "city": "Rome"}]
    assert {row["text"] for row in landing.rows("streamed")} == {"read_files("}
    assert landing.rows("in_words_of_dlt") == [{"id": "1"}, {"id": "2", "city": "Rome"}]
    assert shown("counted") == [{"files": 1, "ids": 2, "name": "x"}]
    for call, condition in (
        ("read_files(format => 'json')", "CLOUD_FILES_OPTION_MISSING"),
        ("read_files('/in', 'json')", "CLOUD_FILES_OPTION_INVALID"),
        ("read_files('/in', format => 'json', format => 'csv')", "CLOUD_FILES_OPTION_CONFLICT"),
        (
            "read_files('/in', format => 'json', schema => 'id INT', schemaHints => 'id INT')",
            "CLOUD_FILES_OPTION_CONFLICT",
        ),
        ("read_files('/in', format => concat('js', 'on'))", "CLOUD_FILES_OPTION_INVALID"),
        ("read_files('/in', format => 'json', allowOverwrites => true)", "CLOUD_FILES_OPTION_UNSUPPORTED"),
        ("cloud_files('/in')", "CLOUD_FILES_OPTION_MISSING"),
        ("cloud_files('/in', 'json', 'header')", "CLOUD_FILES_OPTION_INVALID"),
        ("cloud_files('/in', 'json', map('header', id))", "CLOUD_FILES_OPTION_INVALID"),
    ):

        def declare_wrong(call: str = call) -> None:
            @dp.materialized_view
            def wrong() -> DataFrame:
                return spark.sql(f"SELECT * FROM {call}")

        with pytest.raises(SluiceError, match=condition):
            landing.world.run(declare_wrong)


def test_a_hadoop_file_system_is_listed_read_and_cleaned(landing: Landing) -> None:
    """Hadoop's `viewfs:` over a local folder: names, depth, a glob, new files only, and files that are moved."""
    spark = landing.world.spark
    landing.root.mkdir()
    mount = "fs.viewfs.mounttable.landing.link./data"
    spark.conf.set(mount, landing.root.as_uri())
    to = {"cloudFiles.cleanSource.moveDestination": "viewfs://landing/data/old"}
    clean = {"cloudFiles.cleanSource": "MOVE", "cloudFiles.cleanSource.retentionDuration": "0 seconds", **to}

    def declare() -> None:
        for name, path, options in (("read", "in", {}), ("globbed", "{in,none}/d*", {}), ("moved", "other", clean)):

            @dp.table(name=name)
            def rows(path: str = path, options: Mapping[str, str] = options) -> DataFrame:
                reader = spark.readStream.format("cloudFiles").option("cloudFiles.format", "json").options(**options)
                return reader.load(f"viewfs://landing/data/{path}").drop("_rescued_data")

    try:
        landing.put("in/a b%=ü,ж.json", {"id": 1})
        landing.put("in/deep/er/b.json", {"id": 2})
        landing.put("in/_hidden.json", {"id": 99})
        landing.put("other/a/b c.json", {"id": 1})
        assert landing.world.run(declare).state is UpdateState.COMPLETED
        landing.put("in/deep/c.json", {"id": 3, "city": "Rome"})
        assert landing.world.run(declare).state is UpdateState.COMPLETED
        assert landing.world.run(declare).state is UpdateState.COMPLETED
    finally:
        spark.conf.unset(mount)
    assert landing.rows("read") == [{"id": "1"}, {"id": "2"}, {"id": "3", "city": "Rome"}]
    assert landing.rows("globbed") == [{"id": "2"}, {"id": "3", "city": "Rome"}]
    assert landing.rows("moved") == [{"id": "1"}]
    assert not (landing.root / "other" / "a" / "b c.json").exists()
    assert (landing.root / "old" / "a" / "b c.json").read_text("utf-8") == '{"id": 1}\n'
