"""The session of pipelines: its settings, the settings it keeps, and how it ends."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

from framework.engine.jvm.baseline import Baseline
from framework.engine.jvm.java import java_class, private_field, text_map
from framework.engine.sessions.session import cloned
from framework.foundation.clock import SystemClock
from framework.plan.steps import AvailableNow
from framework.run.flows.stop_signal import StopSignal
from framework.run.flows.streaming_query import StreamTarget, run_stream
from framework.session.jvm_options import gateway_command
from framework.session.jvm_process import _pyspark_of_workers
from framework.session.spark_session import start_session
from tests.support.forked_sources import SOURCES, TASKS
from tests.support.plain_tables import append_rows

_LIFE = """
import sys
from framework.session.spark_session import start_session, stop_session

def life(master, conf):
    spark = start_session(app_name="life", master=master, spark_conf=conf, short=True)
    process = spark.sparkContext._gateway.proc
    spark.sparkContext.setJobDescription("noise")
    spark.sql("SELECT 1").hint("no_such_hint").collect()
    python = spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("sys").executable).first()
    rows = spark.read.format("delta").load(sys.argv[1]).count() if conf else None
    stop_session(spark)
    return rows, python == sys.executable, process.poll() is not None

print(life("local[2]", {}))
print(life("local[2]", {"spark.files": __file__}))
"""


def environment() -> dict[str, str]:
    """Return environment variables for a Python process that can import the framework."""
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}


def test_a_session_that_is_active_is_used_and_not_ended(spark: SparkSession) -> None:
    """A notebook's session is used for any requested master, and `stop_session` does not stop it."""
    derived = spark.newSession()
    found = start_session(app_name="another", master="local[7]", spark_conf={"spark.ui.enabled": "true"})
    assert found.sparkContext is spark.sparkContext
    assert found.sparkContext.master == "local[2]"
    assert derived.range(3).count() == 3


def test_a_session_server_begins_while_another_call_to_java_runs(spark: SparkSession) -> None:
    """Python releases objects that it has collected at any moment; the server looks for calls that still run."""
    held = java_class("java.util.concurrent.Semaphore")(0)
    call = threading.Thread(target=held.acquire)
    call.start()
    try:
        while not held.hasQueuedThreads():
            assert call.is_alive()
            time.sleep(0.01)
        Baseline(spark, SystemClock())
    finally:
        held.release()
        call.join()


def test_spark_hands_no_events_to_the_listener_of_a_query_that_has_ended(spark: SparkSession, tmp_path: Path) -> None:
    """Spark keeps one for each session that ran a query, and each job would call them all."""
    session = cloned(spark)
    source = session.readStream.format("text").load(str(tmp_path))
    buses: Any = session.sparkContext._jsc.sc().listenerBus()
    seen: list[bool] = []

    def is_registered() -> bool:
        return bool(buses.listeners().contains(private_field(session.streams._jsqm, "listenerBus")))

    run_stream(
        lambda _: source,
        StreamTarget(batch_function=lambda _, __: None),
        name="ends",
        checkpoint=str(tmp_path / "checkpoint"),
        trigger=AvailableNow(),
        stop=StopSignal(),
        on_progress=lambda _: None,
        on_start=lambda _: seen.append(is_registered()),
    )
    assert (seen, is_registered()) == ([True], False)


def test_a_local_session_is_sized_quiet_and_private(spark: SparkSession) -> None:
    """Two cores make two partitions, and one of a table's state; there is no UI; all addresses are loopback."""
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert spark.conf.get("spark.databricks.delta.snapshotPartitions") == "1"
    assert spark.sparkContext.uiWebUrl is None
    assert spark.conf.get("spark.driver.host") == "127.0.0.1"


def test_tasks_get_hadoops_configuration_without_yarn_and_the_names_of_files(spark: SparkSession) -> None:
    """Each value arrives; each name of a file would be compressed on its own, for each query."""
    hadoop: Any = spark._jsparkSession.sessionState().newHadoopConf()
    assert (hadoop.get("yarn.acl.enable"), hadoop.get("mapreduce.map.sort.spill.percent")) == (None, "0.80")
    assert hadoop.getPropertySources("mapreduce.map.sort.spill.percent") is None
    serialize = java_class("org.apache.commons.lang3.SerializationUtils")
    sent = serialize.serialize(java_class("org.apache.spark.util.SerializableConfiguration")(hadoop))
    arrived = serialize.deserialize(sent).value()
    assert text_map(arrived.getValByRegex(".")) == text_map(hadoop.getValByRegex("."))


def test_managed_tables_stay_out_of_the_working_folder(spark: SparkSession) -> None:
    """No `spark-warehouse` appears in the working folder."""
    warehouse = Path(str(spark.conf.get("spark.sql.warehouse.dir")).removeprefix("file:"))
    assert not warehouse.is_relative_to(Path.cwd())


def test_sparks_own_defaults_are_left_alone(spark: SparkSession) -> None:
    """Settings that affect results are Spark's own: ANSI arithmetic, time zone handling, store assignment."""
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"
    assert spark.conf.get("spark.sql.storeAssignmentPolicy") == "ANSI"


def test_a_small_broadcast_takes_little_memory(spark: SparkSession) -> None:
    """The hash table of ten rows takes less than 8 MB: its pages are those of the session, not of 64 MB."""
    jvm: Any = spark._jvm
    manager = jvm.org.apache.spark.SparkEnv.get().memoryManager()
    grown = []
    for _ in range(5):  # other workers use the memory of the same JVM
        before = manager.storageMemoryUsed()
        small = spark.range(10).hint("broadcast")
        assert spark.range(1000).join(small, "id").count() == 10
        grown.append(manager.storageMemoryUsed() - before)
    assert min(grown) < 8 * 2**20


def test_the_jvm_has_the_options_that_spark_asks_for(spark: SparkSession) -> None:
    """Our command line has the options of Spark's own launcher, except the incubating vector module."""
    jvm: Any = spark._jvm
    wanted = set(jvm.org.apache.spark.launcher.JavaModuleOptions.defaultModuleOptionArray())
    command = gateway_command("java", "", {"spark.driver.memory": "1g"}, archive=(), short=False, verbose=False)
    given = set(command.options)
    assert wanted - given == {"--add-modules=jdk.incubator.vector"}


def test_python_workers_import_the_installed_pyspark(spark: SparkSession, swap: pytest.MonkeyPatch) -> None:
    """Each worker would compile the modules of Spark's own archive of PySpark again."""
    swap.setattr(spark.sparkContext, "pythonExec", sys.executable)  # no fork of a process that has imported it
    imported = spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("pyspark").__file__).first()
    assert pyspark.__file__ == imported


def test_the_process_of_a_source_is_a_fork_that_ends_with_the_process_of_the_call(spark: SparkSession) -> None:
    """It has the environment of the call, and is killed with it, as is that of tasks with all of its forks.

    For all other modules, the program is Python.
    """
    program = spark.sparkContext.pythonExec
    called = subprocess.run([program, "-c", "import sys; print(sys.executable)"], capture_output=True, check=True)
    assert called.stdout.decode().strip() == sys.executable
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        port = str(server.getsockname()[1])
        environment = {**os.environ, "PYTHON_WORKER_FACTORY_PORT": port, "PYTHON_WORKER_FACTORY_SECRET": "of the call"}
        with subprocess.Popen([program, "-m", SOURCES], env=environment) as source:
            connection, _ = server.accept()
            connection.settimeout(60)
            with connection, connection.makefile("rb") as received:
                assert received.read(4 + len("of the call"))[4:] == b"of the call"
                source.kill()
                assert received.read() == b""
    of_tasks = [program, "-m", TASKS, "pyspark.worker"]
    with subprocess.Popen(of_tasks, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as tasks:
        assert tasks.stdout is not None
        address = ("127.0.0.1", int.from_bytes(tasks.stdout.read(4), "big"))
        with socket.create_connection(address, timeout=60) as task, task.makefile("rb") as received:
            assert Path(f"/proc/{int.from_bytes(received.read(4), 'big')}").exists()
            task.sendall(len("of the call").to_bytes(4, "big") + b"of the call")
            assert received.read(4 + len("ok"))[4:] == b"ok"
            tasks.kill()
            assert received.read() == b""
            assert tasks.stdout.read() == b""


@pytest.mark.parametrize("python", [None, "/usr/bin/python3"])
def test_workers_of_another_python_get_the_pyspark_of_spark(
    monkeypatch: pytest.MonkeyPatch, python: str | None
) -> None:
    """Another interpreter may have no PySpark, and so may one whose PySpark is not where it installs packages."""
    home = str(Path(pyspark.__file__).parent)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert _pyspark_of_workers(home) == {}
    assert _pyspark_of_workers("/opt/spark") == {"SPARK_HOME": "/opt/spark"}
    if python is None:
        monkeypatch.delenv("PYSPARK_PYTHON")
    else:
        monkeypatch.setenv("PYSPARK_PYTHON", python)
    assert _pyspark_of_workers(home) == {"SPARK_HOME": home}


def test_a_session_lives_quietly_and_ends_for_good(spark: SparkSession, tmp_path: Path) -> None:
    """Stdout contains only results, stderr is empty, workers run this Python, and no JVM is left.

    Both ways to start are tested in one process, so a second session follows a first. All other tests read and write
    tables in a session that is started in the first way.
    """
    append_rows(spark, str(tmp_path / "table"), [(1,), (2,), (3,)], "id INT")
    script = tmp_path / "life.py"
    script.write_text(_LIFE, "utf-8")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "table")],
        capture_output=True, text=True, cwd=tmp_path, timeout=600, check=False,
        env=environment(),
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("(None, True, True)\n(3, True, True)\n", "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["life.py", "table"]


def test_settings_that_spark_refuses_are_told_in_one_line() -> None:
    """A JVM that can't start and a context that can't be made end with the condition and Spark's own words."""
    script = (
        "from framework.session.spark_session import start_session\n"
        "from framework.foundation.errors import SluiceError\n"
        "for conf in ({'spark.driver.memory': '1x'}, {'spark.executor.heartbeatInterval': 'often'}):\n"
        "    try:\n"
        "        start_session(app_name='a', master='local[1]', spark_conf=conf, short=True)\n"
        "    except SluiceError as error:\n"
        "        print(error.condition, len(error.what.splitlines()), error.fields)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=False,
        env=environment(),
    )  # fmt: skip
    first, second = done.stdout.splitlines()
    assert (first.split()[:2], "Invalid maximum heap size" in first) == (["SPARK_NOT_STARTED", "1"], True)
    assert (second.split()[:2], "often" in second) == (["SPARK_SETTINGS_REFUSED", "1"], True)
    assert done.stderr == ""
