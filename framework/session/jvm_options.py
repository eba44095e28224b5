"""The command line of a local session's JVM: what spark-submit would have made of the same settings.

Starting it ourselves saves a launcher JVM and two shell scripts. The options are those of Spark
4.2 (`org.apache.spark.launcher.JavaModuleOptions`) but for the incubating vector module, which
only MLlib's linear algebra can use, which prints a warning, and which hinders the class archive.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

QUIET_LOG = Path(__file__).with_name("log4j2-quiet.properties")
_GATEWAY = "org.apache.spark.api.python.PythonGatewayServer"
_OPENED_PACKAGES = (
    "java.base/java.lang", "java.base/java.lang.invoke", "java.base/java.lang.reflect", "java.base/java.io",
    "java.base/java.net", "java.base/java.nio", "java.base/java.util", "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic", "java.base/jdk.internal.ref", "java.base/sun.nio.ch",
    "java.base/sun.nio.cs", "java.base/sun.security.action", "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)  # fmt: skip
_FIXED_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "-Dderby.connection.requireAuthentication=false",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
)

# The first compiler's code is good enough for a command that soon ends, and costs a third of the work.
_SHORT_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

# Updates of some minutes on a few cores spend 7 % less of the CPU with it than with Java's default (bench, a).
_LONG_OPTIONS = ("-XX:+UseParallelGC",)
_GARBAGE_COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")


def log_option(user_options: str, *, verbose: bool) -> tuple[str, ...]:
    """The option that silences Spark's log, unless it is wanted or the user configured one."""
    if verbose or "-Dlog4j" in user_options:
        return ()
    return (f"-Dlog4j2.configurationFile={QUIET_LOG.as_uri()}",)


def class_path(spark_home: str, jars: Sequence[str], settings: Mapping[str, str]) -> str:
    """The class path: the user's additions, Delta's jars, Spark's own."""
    return join_paths(settings.get("spark.driver.extraClassPath", ""), *jars, f"{spark_home}/jars/*")


def join_paths(*paths: str) -> str:
    """A class path of those that are not empty."""
    return ":".join(path for path in paths if path)


def gateway_command(
    program: str, classes: str, settings: Mapping[str, str], *, archive: Sequence[str], short: bool, verbose: bool
) -> list[str]:
    """The command that starts a JVM with PySpark's gateway in it.

    Args:
        program: the Java to run.
        classes: the class path.
        settings: the session's settings; memory and Java options are taken from them.
        archive: options of the class archive, see `class_archive`.
        short: compile for a quick start only.
        verbose: let Spark log.
    """
    own = settings.get("spark.driver.defaultJavaOptions", ""), settings.get("spark.driver.extraJavaOptions", "")
    return [
        program,
        "-cp",
        classes,
        f"-Xmx{settings['spark.driver.memory']}",
        *_FIXED_OPTIONS,
        *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED_PACKAGES),
        *archive,
        *_compile_options(" ".join(own), short=short),
        *log_option(" ".join(own), verbose=verbose),
        *(option for text in own for option in shlex.split(text)),
        _GATEWAY,
    ]


def _compile_options(user_options: str, *, short: bool) -> tuple[str, ...]:
    """How to compile and collect garbage; a collector that the user chose stays, as Java takes only one."""
    options = _SHORT_OPTIONS if short else _LONG_OPTIONS
    if _GARBAGE_COLLECTOR.search(user_options):
        return tuple(option for option in options if not _GARBAGE_COLLECTOR.fullmatch(option))
    return options
