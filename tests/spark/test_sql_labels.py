"""Names and comments that a SQL file gives to the columns of a query."""

from __future__ import annotations

from pyspark.sql import SparkSession

from framework.declare.sql.labels import labelled


def test_a_comment_keeps_the_watermark_and_a_name_may_have_a_dot(spark: SparkSession) -> None:
    """Spark has the watermark of a column in its metadata; without it, a grouping by a window was refused."""
    stream = spark.readStream.format("rate").load().withWatermark("timestamp", "1 minute")
    named = labelled(stream, (("event.time", "when"), ("value", None)))
    assert [(field.name, field.metadata) for field in named.schema] == [
        ("event.time", {"spark.watermarkDelayMs": 60_000, "comment": "when"}),
        ("value", {}),
    ]
