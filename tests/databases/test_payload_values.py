"""Values of every type, as Spark reads them from the payload of a change: the same as from a snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from framework.ingest.tables.payloads import payload_options
from framework.sources.databases.postgres.session import Session
from framework.sources.databases.postgres.values.types import ColumnType
from tests.databases.test_postgres_types import CASES, connection, make_table, same, snapshot_values, writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from framework.sources.databases.connections import Connection

__all__ = ["connection", "writer"]
_TEXTS = "SELECT CASE WHEN v IS DISTINCT FROM NULL THEN pg_catalog.format('%%s', v) END FROM t ORDER BY id"


def parsed(spark: SparkSession, payloads: list[str], schema: str, columns: tuple[str, ...]) -> Any:
    """Return the columns that Spark makes of payloads."""
    from pyspark.sql import functions as F

    rows = spark.createDataFrame(list(enumerate(payloads)), "n INT, payload STRING")
    row = F.from_json("payload", schema, payload_options(columns)).alias("row")
    return rows.select("n", row).orderBy("n").select("row.*").toArrow()


def test_spark_reads_each_value_of_a_change_as_the_snapshot_has_it(
    interpreting: SparkSession, connection: Connection, writer: Session
) -> None:
    """Exact to the last digit and microsecond."""
    kinds: list[ColumnType] = []
    payloads: list[str] = []
    expected: list[tuple[int, str]] = []
    for number, case in enumerate(CASES):
        if case.type == "xml":
            continue
        kind = make_table(writer, case.type, list(case.values))
        texts = [text for (text,) in writer.rows(_TEXTS.replace("%%", "%"))]
        payloads += [f'{{"c{len(kinds)}":{kind.json_fragment(text)}}}' for text in texts]
        expected += [(len(kinds), same(value, kind.arrow_type)) for value in snapshot_values(connection, kind)]
        kinds.append(kind)
        writer.execute("DROP PUBLICATION p_t; DROP TABLE t")
        assert number < len(CASES)
    columns = tuple(f"c{number}" for number in range(len(kinds)))
    schema = ", ".join(f"{name} {kind.spark_type}" for name, kind in zip(columns, kinds, strict=True))
    found = parsed(interpreting, payloads, schema, columns)
    values = [
        same(found.column(f"c{column}")[row].as_py(), kinds[column].arrow_type)
        for row, (column, _) in enumerate(expected)
    ]
    assert [value for _, value in expected] == values


def test_no_name_and_no_length_of_a_text_is_lost(interpreting: SparkSession) -> None:
    """Spark has a name for corrupt records, which is null then, and a limit of 20 million characters."""
    found = parsed(interpreting, ['{"id":1,"_corrupt_record":"kept"}'], "id INT, _corrupt_record STRING",
                   ("id", "_corrupt_record"))  # fmt: skip
    assert found.to_pylist() == [{"id": 1, "_corrupt_record": "kept"}]
    long = parsed(interpreting, [f'{{"a":"{"x" * 20_000_001}"}}'], "a STRING", ("a",))
    assert len(long.column("a")[0].as_py()) == 20_000_001
