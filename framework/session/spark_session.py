"""Starts and stops the Spark session.

A session that is already active (in a notebook, on Databricks) is used unchanged. On this machine
the JVM is started directly, with Delta's jars from the cache and a class archive. For a cluster,
or with settings that only spark-submit supports, spark-submit starts it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import partial

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from framework.engine.files.hadoop_configuration import lighten_hadoop_configuration
from framework.engine.jvm.accumulators import tame_accumulators
from framework.engine.jvm.gateway import forget_gateway, started_session, uses_gateway
from framework.engine.jvm.java import has_class
from framework.engine.jvm.java_errors import Py4JError
from framework.engine.jvm.pyspark_test_tools import defer_test_tools
from framework.foundation.clock import SystemClock
from framework.foundation.errors import OperationError, UserError
from framework.session.class_archive import build_in_background, class_path_jars
from framework.session.cold_start import ColdStart, record_cold_start
from framework.session.jars import delta_coordinate
from framework.session.jvm_process import last_words
from framework.session.keeper_client.client import attach, detach, is_attached
from framework.session.keeper_client.identity import SessionIdentity
from framework.session.launching import Launch, launch_by_submit, launch_directly, machine_cores, prepare_launch
from framework.session.settings import SessionRequest, comparable_settings, delta_settings, has_delta, needs_submit

DEFAULT_MASTER = "local[*]"

# With one of these variables, files and folders configure Spark, and only spark-submit reads them.
_SUBMIT_VARIABLES = ("PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME")

# The launch of the session that this process started; at most one, because Spark has one context per process.
_ours: list[Launch] = []


def start_session(
    *,
    app_name: str,
    master: str,
    spark_conf: Mapping[str, str],
    verbose: bool = False,
    short: bool | None = False,
    cold: bool = False,
    formats: tuple[str, ...] = (),
) -> SparkSession:
    """Return a session with Delta: the active one of this process, else a new one.

    A new one is in the JVM of this folder's session server (`sluice session start`) if it would be the same.

    Args:
        app_name: the name in the Spark UI.
        master: Spark's master URL.
        spark_conf: the user's settings; they override ours.
        verbose: enable Spark's log and progress bar on standard error.
        short: optimize for start-up time, because the command ends soon; None if nothing is known of its length.
        cold: start a JVM in any case.
        formats: formats whose packages a new session gets.

    Raises:
        UserError: JAVA_NOT_FOUND, JAVA_TOO_OLD, SESSION_WITHOUT_DELTA.
        OperationError: DELTA_JARS_NOT_RESOLVED, CACHE_NOT_WRITABLE, SPARK_NOT_STARTED, SPARK_SETTINGS_REFUSED.
    """
    active = active_session()
    if active is not None:
        return active
    defer_test_tools()
    tame_accumulators()
    request = SessionRequest(
        app_name=app_name, master=master, spark_conf=dict(spark_conf), verbose=verbose, short=short, formats=formats
    )
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return _session_of_spark_submit(request)
    local = machine_cores(master) is not None
    if "spark.pyspark.python" in spark_conf:  # PySpark leaves this setting to `spark-submit`, which need not run
        os.environ["PYSPARK_PYTHON"] = spark_conf["spark.pyspark.python"]
    elif local:
        # Python workers must run in the environment of this process, even if it is not activated.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    by_files = any(os.environ.get(name) for name in _SUBMIT_VARIABLES)
    direct = local and not by_files and not needs_submit(spark_conf)
    found = attach(partial(identity_of, request)) if direct and not cold and not verbose else None
    if isinstance(found, SparkSession):
        return found
    clock = SystemClock()
    began = clock.monotonic()
    spark = open_session(launch_directly(request) if direct else launch_by_submit(request))
    refusal = None if found is None else found.reason
    record_cold_start(ColdStart(seconds=clock.monotonic() - began, refusal=refusal))
    return spark


def identity_of(request: SessionRequest, salt: str) -> SessionIdentity:
    """Return the identity of the session that this process would start."""
    launch = prepare_launch(request)
    settings = comparable_settings(launch.settings)
    jars = tuple(class_path_jars(launch.class_path))
    return SessionIdentity.of_this_process(java=str(launch.java), jars=jars, settings=settings, salt=salt)


def open_session(launch: Launch) -> SparkSession:
    """Create the session in a launched JVM; `stop_session` ends both.

    Raises:
        OperationError: SPARK_SETTINGS_REFUSED, with Spark's message.
    """
    try:
        spark = _build(launch.settings)
    except (Py4JError, PySparkException, OSError) as problem:
        words = _first_line(problem) if launch.jvm.alive else last_words(launch.jvm.said)
        _end(launch)
        master = launch.settings["spark.master"]
        raise OperationError("SPARK_SETTINGS_REFUSED", master=master, problem=words) from problem
    if not launch.short and machine_cores(launch.settings["spark.master"]) is not None:
        lighten_hadoop_configuration(spark)
    _ours.append(launch)
    return spark


def stop_session(spark: SparkSession) -> None:
    """Stop a session that `start_session` started, with its JVM; a session that was already active stays.

    After the JVM has ended, a class archive may be built in the background for the next start. A session in the JVM of
    a session server is given back to the server.
    """
    if is_attached(spark):
        detach()
        return
    if not _ours or not uses_gateway(spark, _ours[0].jvm.gateway):
        return
    launch = _ours.pop()
    with suppress(Py4JError, OSError):
        spark.stop()
    _end(launch)
    if launch.archive is not None:
        build_in_background(launch.archive, SystemClock())


def _end(launch: Launch) -> None:
    launch.jvm.end()
    forget_gateway()
    launch.temporary.cleanup()


def _build(settings: Mapping[str, str]) -> SparkSession:
    builder = SparkSession.Builder()
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def active_session() -> SparkSession | None:
    """Return the active session of this process, or None.

    Raises:
        UserError: SESSION_WITHOUT_DELTA.
    """
    active = started_session()
    if active is None:
        return None
    on_databricks = "DATABRICKS_RUNTIME_VERSION" in os.environ
    if not on_databricks and not has_delta(active.conf.get("spark.sql.extensions", "") or ""):
        raise UserError("SESSION_WITHOUT_DELTA", coordinate=delta_coordinate())
    return active


def _session_of_spark_submit(request: SessionRequest) -> SparkSession:
    """Return a session in the JVM of the spark-submit that started this process; spark-submit sets its master.

    Raises:
        UserError: SESSION_WITHOUT_DELTA if it was started without Delta's jars.
    """
    spark = _build({"spark.app.name": request.app_name, **request.spark_conf, **delta_settings(request.spark_conf)})
    if not has_class("io.delta.tables.DeltaTable"):
        spark.stop()
        raise UserError("SESSION_WITHOUT_DELTA", coordinate=delta_coordinate())
    return spark


def _first_line(problem: BaseException) -> str:
    """Return the first line of the JVM's exception, without its stack."""
    java = getattr(problem, "java_exception", None)
    text = str(java.getMessage() or java.toString()) if java is not None else str(problem)
    return (text.strip() or type(problem).__name__).splitlines()[0]
