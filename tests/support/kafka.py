"""A Kafka broker on loopback, from Maven's jars: one process in KRaft mode.

The jars of the broker and of Spark's connector are resolved once by Spark's own resolver and then kept in the user's
cache, as Delta's are. Later runs need no network.
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path

import pyspark

from framework.session.jars import resolved_jars
from framework.session.java import Java, find_java
from tests.support.settings import NO_ARCHIVE

BROKER = "org.apache.kafka:kafka_2.13:3.9.1"
AVRO = f"org.apache.spark:spark-avro_2.13:{version('pyspark')}"
CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version('pyspark')}"
# PySpark ships these dependencies of the connector.
_SHIPPED = ("at.yawk.lz4", "com.google.*", "org.apache.hadoop", "org.scala-lang.*", "org.slf4j", "org.xerial.*")
_SPARK = Path(pyspark.__file__).parent
_DEADLINE_SECONDS, _POLL_SECONDS = 120.0, 0.1
_CLUSTER = "c2x1aWNlLXRlc3RzLTAwMQ"
_CONFIGURATION = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={folder}/logs
num.partitions=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
log.retention.ms=-1
"""


def connector_jars() -> str:
    """Return the class path of Spark's Kafka connector, and of its reader of Avro files."""
    return ":".join((*_jars(CONNECTOR, _SHIPPED), *_jars(AVRO, ("org.tukaani",))))


@contextmanager
def running_broker(folder: Path) -> Iterator[str]:
    """Run a broker with its data in an empty folder, and return its address; it ends with the block."""
    java, jars = find_java(), _jars(BROKER, ())
    port, controller = _free_ports(2)
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    file = folder / "server.properties"
    file.write_text(_CONFIGURATION.format(port=port, controller=controller, folder=folder), "utf-8")
    # What Kafka's own tool for it writes: that takes a JVM.
    (folder / "logs" / "meta.properties").write_text(f"version=1\ncluster.id={_CLUSTER}\nnode.id=1\n", "utf-8")
    command = _command(java, jars)
    with (folder / "broker.log").open("w") as log:
        broker = subprocess.Popen([*command, "kafka.Kafka", str(file)], stdout=log, stderr=log, cwd=folder)
        try:
            _await(port, broker, folder / "broker.log")
            yield f"127.0.0.1:{port}"
        finally:
            broker.terminate()
            with suppress(subprocess.TimeoutExpired):
                broker.wait(timeout=10)
            broker.kill()
            broker.wait()


def _command(java: Java, jars: tuple[str, ...]) -> list[str]:
    # Spark's resolver leaves out the Scala library, which Spark brings.
    jars += tuple(map(str, (_SPARK / "jars").glob("scala-library*.jar")))
    return [java.program, "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", NO_ARCHIVE, "-cp", ":".join(jars)]


def _jars(coordinate: str, shipped: tuple[str, ...]) -> tuple[str, ...]:
    return resolved_jars(coordinate, find_java(), str(_SPARK), {}, excluded=shipped)


def _free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _await(port: int, broker: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _DEADLINE_SECONDS
    while time.monotonic() < deadline and broker.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(_POLL_SECONDS)
    raise AssertionError(log.read_text("utf-8", errors="replace")[-4_000:])
