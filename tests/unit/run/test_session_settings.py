"""The settings of a session: sized to one machine, or leaving a cluster alone."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from threading import Barrier, Event, Thread
from typing import Any

import pytest

from framework.session.jvm_options import gateway_command
from framework.session.jvm_process import defer_optimizing_compiler
from framework.session.settings import SessionRequest, cluster_settings, local_settings, needs_submit

_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"


def request(master: str, **conf: str) -> SessionRequest:
    """A session with the user's settings, dots written as double underscores."""
    settings = {key.replace("__", "."): value for key, value in conf.items()}
    return SessionRequest(app_name="app", master=master, spark_conf=settings)


def test_a_local_session_is_sized_to_its_cores_and_stays_on_the_machine() -> None:
    """Two cores: two partitions everywhere, loopback only, no UI, tables in a separate folder."""
    assert local_settings(request("local[2]"), 2, "/tmp/warehouse") == {  # noqa: S108 - a name, nothing is written
        "spark.app.name": "app",
        "spark.master": "local[2]",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
        "spark.sql.legacy.parameterSubstitution.constantsOnly": "true",
        "spark.sql.codegen.cache.maxEntries": "2000",
        "spark.databricks.delta.allFilesInCrc.thresholdNumFiles": "100",
        "spark.databricks.delta.allFilesInCrc.verificationMode.forceOnNonUTC.enabled": "false",
        "spark.buffer.pageSize": "4m",
        "spark.sql.ui.retainedExecutions": "20",
        "spark.ui.retainedJobs": "50",
        "spark.ui.retainedStages": "50",
        "spark.ui.retainedTasks": "500",
        "spark.sql.warehouse.dir": "/tmp/warehouse",  # noqa: S108 - a name, nothing is written
        "spark.sql.catalog.spark_catalog": _CATALOG,
        "spark.sql.extensions": _EXTENSION,
    }


def test_only_a_session_with_a_ui_keeps_the_plans_of_many_queries() -> None:
    """Spark keeps 1,000 queries for its UI, half a gigabyte; a setting of the user wins."""
    few = "spark.sql.ui.retainedExecutions"
    assert few not in local_settings(request("local[2]", **{"spark.ui.enabled": "true"}), 2, "")
    assert local_settings(request("local[2]", **{few: "7"}), 2, "")[few] == "7"


def test_a_cluster_gets_deltas_jars_and_nothing_of_one_machine() -> None:
    """Executors fetch the jars from the driver; partitions, memory and addresses are the cluster's."""
    assert cluster_settings(request("spark://host:7077"), ("/jars/a.jar", "/jars/b.jar")) == {
        "spark.app.name": "app",
        "spark.master": "spark://host:7077",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
        "spark.sql.legacy.parameterSubstitution.constantsOnly": "true",
        "spark.sql.codegen.cache.maxEntries": "2000",
        "spark.databricks.delta.allFilesInCrc.thresholdNumFiles": "100",
        "spark.databricks.delta.allFilesInCrc.verificationMode.forceOnNonUTC.enabled": "false",
        "spark.sql.catalog.spark_catalog": _CATALOG,
        "spark.sql.extensions": _EXTENSION,
        "spark.jars": "/jars/a.jar,/jars/b.jar",
    }


def test_the_users_settings_win_and_their_extensions_and_jars_stay() -> None:
    """Settings of the spec win; Delta is added to the user's extensions and jars."""
    user = request("spark://host:7077", spark__sql__extensions="my.Extension", spark__jars="/my.jar")
    settings = cluster_settings(user, ("/jars/a.jar",))
    assert settings["spark.sql.extensions"] == f"my.Extension,{_EXTENSION}"
    assert settings["spark.jars"] == "/my.jar,/jars/a.jar"
    local = local_settings(request("local[2]", spark__driver__memory="6g", spark__ui__enabled="true"), 2, "w")
    assert (local["spark.driver.memory"], local["spark.ui.enabled"]) == ("6g", "true")


def test_a_hive_metastore_keeps_its_warehouse() -> None:
    """Table paths in a metastore outlive a session, so they are not in a temporary folder."""
    settings = local_settings(request("local[2]", spark__sql__catalogImplementation="hive"), 2, "w")
    assert "spark.sql.warehouse.dir" not in settings


def test_packages_go_through_spark_submit() -> None:
    """Only settings that spark-submit must prepare select spark-submit."""
    assert needs_submit({"spark.jars.packages": "a:b:1"}) is True
    assert needs_submit({"spark.sql.ansi.enabled": "false"}) is False


def test_the_jvm_gets_the_users_memory_and_options_last() -> None:
    """User options come last, so they win; a log configuration of the user replaces ours."""
    settings = {"spark.driver.memory": "3g", "spark.driver.extraJavaOptions": "-Dlog4j2.level=info -Da='b c'"}
    command = gateway_command("java", "x.jar", settings, archive=("-Xshare:auto",), short=False, verbose=False)
    assert command.options[:4] == ("java", "-cp", "x.jar", "-Xmx3g")
    assert command.users == ("-Dlog4j2.level=info", "-Da=b c")
    assert command.main == "org.apache.spark.api.python.PythonGatewayServer"
    assert [option for option in command.options if "log4j2.configurationFile" in option] == []


def test_a_short_command_compiles_for_a_quick_start_only() -> None:
    """`short` stops at the first compiler; a long update never does."""
    settings = {"spark.driver.memory": "2g"}
    short = gateway_command("java", "x.jar", settings, archive=(), short=True, verbose=False).options
    long = gateway_command("java", "x.jar", settings, archive=(), short=False, verbose=False).options
    assert sorted(set(short) - set(long)) == ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    assert set(long) - set(short) == {"-XX:+UseParallelGC"}


@pytest.mark.skipif(sys.platform != "linux", reason="priorities of threads are Linux's")
def test_the_optimizing_compiler_of_a_first_update_gives_way_to_its_work(tmp_path: Path) -> None:
    """Only its threads; a process that has ended is no error."""
    ready, done = Barrier(3), Event()

    def wait() -> None:
        ready.wait()
        done.wait()

    threads = [Thread(target=wait) for _ in range(2)]
    for thread, name in zip(threads, ("C1 CompilerThre", "C2 CompilerThre"), strict=True):
        thread.start()
        folder = tmp_path / "7" / "task" / str(thread.native_id)
        folder.mkdir(parents=True)
        (folder / "comm").write_text(f"{name}\n", "ascii")
    ready.wait()
    before = os.getpriority(os.PRIO_PROCESS, 0)
    try:
        defer_optimizing_compiler(7, tmp_path)
        defer_optimizing_compiler(8, tmp_path)
        first, second = (os.getpriority(os.PRIO_PROCESS, thread.native_id or 0) for thread in threads)
    finally:
        done.set()
    assert (first, second, os.getpriority(os.PRIO_PROCESS, 0)) == (before, min(before + 5, 19), before)


def test_temporary_files_are_in_a_private_folder_unless_the_user_names_one() -> None:
    """Spark's local folders have rows, and libraries unpack code."""
    options = {"spark.driver.memory": "2g"}
    more: dict[str, Any] = {"archive": (), "short": False, "verbose": False}
    private = gateway_command("java", "x.jar", options, temporary="/private", **more)
    assert [option for option in private.options if "tmpdir" in option] == ["-Djava.io.tmpdir=/private"]
    options["spark.driver.extraJavaOptions"] = "-Djava.io.tmpdir=/large"
    named = gateway_command("java", "x.jar", options, temporary="/private", **more)
    assert [option for option in named.options if "tmpdir" in option] == []


def test_a_garbage_collector_of_the_users_stays() -> None:
    """Java accepts one collector only, so the user's replaces ours."""
    settings = {"spark.driver.memory": "2g", "spark.driver.extraJavaOptions": "-XX:+UseZGC"}
    for short in (True, False):
        command = gateway_command("java", "x.jar", settings, archive=(), short=short, verbose=False)
        assert [option for option in (*command.options, *command.users) if option.endswith("GC")] == ["-XX:+UseZGC"]


def test_verbose_leaves_sparks_log_as_it_is() -> None:
    """Only a quiet session gets our log configuration."""
    settings = {"spark.driver.memory": "2g"}
    quiet = gateway_command("java", "x.jar", settings, archive=(), short=False, verbose=False)
    loud = gateway_command("java", "x.jar", settings, archive=(), short=False, verbose=True)
    more = [option.partition("=")[0] for option in quiet.options if option not in loud.options]
    assert more == ["-Dlog4j2.configurationFile"]
