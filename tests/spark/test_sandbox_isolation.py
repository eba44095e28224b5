"""What the code of a sandbox writes by SQL commands and by the names of tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from delta.tables import DeltaTable

from framework import Pipeline
from framework import pipelines as dp
from framework.foundation.errors import UserError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

spark: Any = None
"""The global of pipeline modules."""


def refused(calls: list[Callable[[], Any]]) -> list[tuple[str, Any]]:
    """Return the condition and the name in the error of each call; "ran" for one without an error."""
    found = list[tuple[str, Any]]()
    for call in calls:
        try:
            call()
            found.append(("ran", None))
        except UserError as error:
            found.append((error.condition, error.fields["name"]))
    return found


def test_commands_and_tables_by_name_stay_in_a_sandbox_or_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Commands change the sandbox's place of a path, and those that name a table run only if the test allows it."""
    real, out = f"{tmp_path}/real", f"{tmp_path}/out"
    spark.range(3).write.format("delta").save(real)
    refusals, kept = list[tuple[str, Any]](), list[int]()

    def declare() -> None:
        @dp.foreach_batch_sink(name="export")
        def export(rows: DataFrame, number: int) -> None:
            del number
            own = rows.sparkSession
            rows.createOrReplaceTempView("batch")
            own.sql(f"MERGE INTO delta.`{real}` AS t USING batch AS b ON t.id = b.id WHEN MATCHED THEN DELETE")
            own.sql(f"INSERT OVERWRITE DIRECTORY '{out}' USING json SELECT * FROM batch")
            kept.extend(row.id for row in own.sql(f"SELECT id FROM delta.`{real}`").collect())
            rows.write.mode("overwrite").saveAsTable("sandbox_isolation_open")
            refusals.extend(
                refused(
                    [
                        lambda: rows.write.saveAsTable("t"),
                        lambda: rows.write.insertInto("t"),
                        lambda: rows.writeTo("t").append(),
                        lambda: DeltaTable.forName(own, "t"),
                        lambda: own.sql("DROP TABLE IF EXISTS t"),
                        lambda: own.sql("WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a"),
                        lambda: own.sparkContext.textFile(real),
                    ]
                )
            )

        @dp.append_flow(target="export")
        def orders() -> Any:
            return spark.readStream.schema("id INT").json("data/orders")

    pipeline = Pipeline(name="isolation", modules=[declare], schema="s", spark=spark, storage=tmp_path / "storage")
    with pipeline.sandbox(tmp_path / "sandbox") as test:
        test.given("data/orders", [{"id": 2}])
        test.given(real, [{"id": 1}, {"id": 2}])
        test.given("sandbox_isolation_open", real=True)
        test.update()
    assert kept == [1]
    write, read = "TEST_WRITE_NOT_ISOLATED", "TEST_READ_NOT_ISOLATED"
    assert refusals == [*[(write, "t")] * 5, (write, "WITH a AS"), (read, real)]
    assert not Path(out).exists()
    assert spark.read.format("delta").load(real).count() == 3
    assert [row.id for row in spark.table("sandbox_isolation_open").collect()] == [2]
    spark.sql("DROP TABLE sandbox_isolation_open")
