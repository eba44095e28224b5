"""Launching the JVM of a session: directly on this machine, or by spark-submit."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pyspark

from framework.foundation.clock import SystemClock
from framework.session.class_archive import archive_path, build_options, excludes_archive, use_options
from framework.session.connectors import connector_jars
from framework.session.jars import brings_delta, delta_jars
from framework.session.java import Java, find_java
from framework.session.jvm_options import (
    OPTION_VARIABLES,
    TEMPORARY,
    class_path,
    gateway_command,
    join_paths,
    log_option,
    temporary_option,
)
from framework.session.jvm_process import Jvm, defer_optimizing_compiler, start_local_jvm, start_submitted_jvm
from framework.session.local_files import local_file_settings
from framework.session.settings import SessionRequest, cluster_settings, local_cores, local_settings

# Writing an archive took 10 seconds on a quiet machine; on a busy one it may take minutes.
_DUMP_SECONDS = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A JVM that is ready for its session.

    Args:
        jvm: the process and its gateway.
        settings: the settings of the session.
        temporary: the private folder of its managed tables and temporary files, deleted when the session ends.
        archive: the path of the class archive for such a session; None if it can't use one.
        short: whether it is for a command that ends soon.
    """

    jvm: Jvm
    settings: Mapping[str, str]
    temporary: tempfile.TemporaryDirectory[str]
    archive: Path | None = None
    short: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectLaunch:
    """What a launch on this machine needs, before anything is started.

    Args:
        java: the Java.
        class_path: Delta's jars, Spark's, and the user's.
        settings: the settings of the session.
    """

    java: Java
    class_path: str
    settings: dict[str, str]


def prepare_launch(request: SessionRequest, warehouse: str = "") -> DirectLaunch:
    """Find what a launch on this machine needs.

    Raises:
        UserError: JAVA_NOT_FOUND, JAVA_TOO_OLD.
        OperationError: DELTA_JARS_NOT_RESOLVED, CACHE_NOT_WRITABLE.
    """
    java = find_java()
    spark_home = _bundled_spark()
    settings = local_settings(request, machine_cores(request.master) or 1, warehouse)
    classes = class_path(spark_home, _jars(java, spark_home, request.spark_conf, request.formats), settings)
    return DirectLaunch(java=java, class_path=classes, settings=settings)


def launch_directly(request: SessionRequest, *, archive_to_build: Path | None = None) -> Launch:
    """Launch a JVM on this machine without spark-submit.

    Args:
        request: a session with a local master.
        archive_to_build: the path of a class archive to write when the JVM ends, in place of using one.

    Raises:
        UserError: JAVA_NOT_FOUND, JAVA_TOO_OLD.
        OperationError: DELTA_JARS_NOT_RESOLVED, CACHE_NOT_WRITABLE, SPARK_NOT_STARTED.
    """
    spark_home, temporary = _bundled_spark(), _temporary_folder()
    prepared = prepare_launch(request, f"{temporary.name}/warehouse")
    settings, classes = prepared.settings, prepared.class_path
    archive = None if excludes_archive(settings) else archive_path(prepared.java, classes)
    command = gateway_command(
        prepared.java.program,
        classes,
        settings,
        archive=_archive_options(archive, archive_to_build),
        short=bool(request.short),
        verbose=request.verbose,
        temporary=_for_java(temporary),
    )
    jvm = start_local_jvm(command, spark_home, SystemClock(), verbose=request.verbose)
    if request.short is None:
        defer_optimizing_compiler(jvm.process.pid)
    if archive_to_build is not None:
        jvm = replace(jvm, patience_seconds=_DUMP_SECONDS)
    settings |= local_file_settings(jvm.gateway, settings)
    archive = None if archive_to_build else archive
    return Launch(jvm=jvm, settings=settings, temporary=temporary, archive=archive, short=bool(request.short))


def launch_by_submit(request: SessionRequest) -> Launch:
    """Launch a JVM by spark-submit: for a cluster, or on this machine with settings that only spark-submit supports.

    Raises:
        UserError: JAVA_NOT_FOUND, JAVA_TOO_OLD.
        OperationError: DELTA_JARS_NOT_RESOLVED, CACHE_NOT_WRITABLE, SPARK_NOT_STARTED.
    """
    spark_home = os.environ.get("SPARK_HOME") or _bundled_spark()
    cores = machine_cores(request.master)
    java = find_java(by_submit=True)
    jars = _jars(java, spark_home, request.spark_conf, request.formats)
    temporary = _temporary_folder()
    if cores is None:
        settings = cluster_settings(request, jars)
    else:
        settings = local_settings(request, cores, f"{temporary.name}/warehouse")
        settings["spark.driver.extraClassPath"] = join_paths(settings.get("spark.driver.extraClassPath", ""), *jars)
    options = settings.get("spark.driver.extraJavaOptions", "")
    ours = (*log_option(options, verbose=request.verbose), *temporary_option(options, _for_java(temporary)))
    options = " ".join([*map(shlex.quote, ours), options]).strip()
    if options:
        settings["spark.driver.extraJavaOptions"] = options
    jvm = start_submitted_jvm(settings, java, verbose=request.verbose)
    return Launch(jvm=jvm, settings=settings, temporary=temporary)


def machine_cores(master: str) -> int | None:
    """Return the number of cores that a local master uses; None for a cluster's master."""
    return local_cores(master, os.cpu_count() or 1)


def usual_archive() -> Path:
    """Return the class archive's path for a local session without user settings."""
    java = find_java()
    spark_home = _bundled_spark()
    return archive_path(java, class_path(spark_home, _jars(java, spark_home, {}), {}))


def _archive_options(archive: Path | None, archive_to_build: Path | None) -> tuple[str, ...]:
    """Return the JVM options that write or use an archive; () if the user's settings exclude it."""
    if archive is None:
        return ()
    return use_options(archive) if archive_to_build is None else build_options(archive_to_build)


def _jars(java: Java, spark_home: str, user: Mapping[str, str], formats: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the jars of formats, and Delta's jars unless they are on the class path already."""
    delta = () if brings_delta(user, spark_home) else delta_jars(java, spark_home, user)
    return (*delta, *connector_jars(formats, java, spark_home, user))


def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """Return a folder that only this user can open, whatever the umask is."""
    return tempfile.TemporaryDirectory(prefix="sluice-spark-", ignore_cleanup_errors=True)


def _for_java(temporary: tempfile.TemporaryDirectory[str]) -> str:
    """Return the folder of Java's temporary files; "" if a variable of the user's names one."""
    is_named = any(TEMPORARY in os.environ.get(name, "") for name in OPTION_VARIABLES)
    return "" if is_named else temporary.name


def _bundled_spark() -> str:
    """Return the folder of PySpark's bundled Spark."""
    return str(Path(pyspark.__file__).parent)
