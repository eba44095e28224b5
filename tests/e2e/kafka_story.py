"""The story of a flow that reads Kafka, in a process of its own: Spark's class path has the connector.

Prints one JSON object: what each chapter ended with. `test_kafka.py` says what that must be.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import SparkContext

from framework import Pipeline
from framework import pipelines as dp
from framework.plan.steps import RunFlow
from framework.views.doctor import cost_text
from tests.e2e.avro_chapter import avro_chapter
from tests.support.plain_tables import table_rows
from tests.support.settings import INTERPRETED, NO_ARCHIVE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TOPIC = "orders"
_ADMIN = "org.apache.kafka.clients.admin"


class Topic:
    """The topic, through Kafka's own clients in Spark's JVM.

    Args:
        jvm: Spark's JVM.
        broker: the broker's address.
    """

    def __init__(self, jvm: Any, broker: str) -> None:
        self._jvm = jvm
        properties = jvm.java.util.Properties()
        properties.put("bootstrap.servers", broker)
        for name in ("key", "value"):
            properties.put(f"{name}.serializer", "org.apache.kafka.common.serialization.StringSerializer")
        self._admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)
        self._producer = jvm.org.apache.kafka.clients.producer.KafkaProducer(properties)
        self._partition = jvm.org.apache.kafka.common.TopicPartition

    def create(self, partitions: int) -> None:
        """Create the topic."""
        topic = self._jvm.org.apache.kafka.clients.admin.NewTopic(TOPIC, partitions, 1)
        self._admin.createTopics([topic]).all().get()

    def add_partitions(self, total: int) -> None:
        """Add partitions."""
        new = self._jvm.org.apache.kafka.clients.admin.NewPartitions.increaseTo(total)
        self._admin.createPartitions({TOPIC: new}).all().get()

    def restore(self, values: Sequence[str]) -> None:
        """Create the topic again, with other records."""
        self.create(1)
        self.send(0, values)

    def delete(self) -> None:
        """Delete the topic."""
        self._admin.deleteTopics([TOPIC]).all().get()

    def send(self, partition: int, values: Sequence[str], day: int = 1) -> None:
        """Append records with the time of a day of January 2025."""
        long = self._jvm.java.lang.Long(round(datetime(2025, 1, day, tzinfo=UTC).timestamp() * 1000))
        for value in values:
            record = self._jvm.org.apache.kafka.clients.producer.ProducerRecord(TOPIC, partition, long, None, value)
            self._producer.send(record).get()

    def expire(self, partition: int, before: int) -> None:
        """Delete the records before an offset, as retention does."""
        # By reflection: Py4J finds the getter of the same name first.
        loader = self._jvm.java.lang.Thread.currentThread().getContextClassLoader()
        gateway = SparkContext._gateway
        assert gateway is not None
        types, values = (
            gateway.new_array(self._jvm.java.lang.Class, 1),
            gateway.new_array(self._jvm.java.lang.Object, 1),
        )
        types[0], values[0] = self._jvm.java.lang.Long.TYPE, before
        records_to_delete = loader.loadClass("org.apache.kafka.clients.admin.RecordsToDelete")
        records = records_to_delete.getMethod("beforeOffset", types).invoke(None, values)
        self._admin.deleteRecords({self._partition(TOPIC, partition): records}).all().get()


class Story:
    """The pipeline over the topic.

    Args:
        folder: an empty folder.
        broker: the broker's address.
        jars: the class path of the connector.
    """

    def __init__(self, folder: Path, broker: str, jars: str) -> None:
        self._broker = broker
        self.pipeline = Pipeline(
            name="kafka", modules=[self.declare], storage=folder / "storage", schema="shop", master="local[2]",
            spark_conf={
                "spark.driver.extraClassPath": jars, "spark.driver.extraJavaOptions": NO_ARCHIVE, **INTERPRETED
            },
            development=True,
        )  # fmt: skip
        self.seen = 0

    def declare(self) -> None:
        """One flow, whose code starts at the topic's beginning."""
        broker = self._broker

        @dp.table
        def orders() -> DataFrame:
            from pyspark.sql import SparkSession

            reader = SparkSession.active().readStream.format("kafka").option("kafka.bootstrap.servers", broker)
            reader = reader.option("subscribe", TOPIC).option("startingOffsets", "earliest")
            return reader.load().selectExpr("string(value) AS value")

    def run(self, start: str | None = None) -> dict[str, Any]:
        """One update, with a reset if a start is given: the values that it appended, or its error."""
        request: dict[str, Any] = {} if start is None else {"reset_checkpoints": {"orders": start}}
        (flow,) = self.pipeline.run(**request).flows
        if flow.error is not None:
            return {"condition": flow.error.condition, "remedy": flow.error.remedy}
        rows = self.values()
        new, self.seen = len(rows) - self.seen, len(rows)
        return {"appended": new, "rows": rows}

    def values(self) -> list[str]:
        """The rows of the table, read without Spark: a query takes as long as the rest of an update."""
        path = self.pipeline.storage.path("tables", "main", "shop", "orders")
        return sorted(row.value for row in table_rows(self.pipeline.spark, path, without="__sluice"))

    def repair(self, mend: Callable[[], None] = lambda: None) -> dict[str, Any]:
        """What doctor finds after an update that fails, and what its first way out with a command ends with.

        Args:
            mend: what a person does before.
        """
        before = self.run()
        (finding,) = self.pipeline.doctor.examine().findings
        mend()
        number = next(number for number, way in enumerate(finding.ways, 1) if way.command)
        treatment = self.pipeline.doctor.treat(finding, number)
        assert treatment.result is not None
        return {
            "condition": before["condition"],
            "found": finding.condition,
            "diagnosis": finding.diagnosis.name,
            "sqlstate": finding.sqlstate,
            "ways": [(way.way.name, way.command, cost_text(way.cost)) for way in finding.ways],
            "ended": treatment.result.state.value,
            "values": self.values(),
        }


def main(folder: Path, broker: str, jars: str) -> dict[str, Any]:
    """Run all chapters and return how each ended."""
    story = Story(folder, broker, jars)
    topic = Topic(story.pipeline.spark._jvm, broker)
    told: dict[str, Any] = {}
    topic.create(2)
    topic.send(0, ["a0", "a1", "a2"], day=1)
    topic.send(1, ["b0", "b1"], day=1)
    told["first run"] = story.run()
    topic.send(0, ["a3"], day=5)
    told["latest"] = story.run("latest")
    topic.send(1, ["b2"], day=5)
    told["after latest"] = story.run()
    told["timestamp"] = story.run("timestamp=2025-01-03T00:00:00Z")
    told["offsets"] = story.run('offsets={"orders":{"0":3,"1":1}}')
    topic.add_partitions(3)
    topic.send(2, ["c0"], day=6)
    told["partition added"] = story.run()
    topic.send(0, ["a4", "a5"], day=7)
    topic.expire(0, before=6)
    told["expired"] = story.run()
    told["recovered"] = story.run("earliest")
    topic.send(0, ["a6", "a7"], day=8)
    topic.expire(0, before=8)
    topic.send(1, ["b3"], day=8)
    told["unread records expired"] = story.repair()
    topic.add_partitions(4)
    topic.send(3, ["d0", "d1"], day=9)
    topic.expire(3, before=1)
    told["records of a new partition expired"] = story.repair()
    steps = story.pipeline.plan(reset_checkpoints={"orders": "latest"}).steps
    told["reason"] = [step.reason for step in steps if isinstance(step, RunFlow)]
    topic.delete()
    told["topic deleted"] = story.repair(lambda: topic.restore(["e0"]))
    told["avro"] = avro_chapter(story.pipeline.spark, folder / "avro")
    story.pipeline.close()
    return told


if __name__ == "__main__":
    results = sys.stdout
    sys.stdout = sys.stderr
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])), file=results)
