"""The command line of a local session's JVM, equivalent to spark-submit's for the same settings.

A direct start saves a launcher JVM and two shell scripts. The options come from Spark
4.2 (`org.apache.spark.launcher.JavaModuleOptions`) without the incubating vector module: only
MLlib's linear algebra uses it, it prints a warning, and it impairs the class archive.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

OPTION_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
QUIET_LOG = Path(__file__).with_name("log4j2-quiet.properties")
TEMPORARY = "java.io.tmpdir"
_GATEWAY = "org.apache.spark.api.python.PythonGatewayServer"
_OPENED_PACKAGES = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
_FIXED_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    # Java collects the whole heap when the classes reach 21 MB, and again as they grow. An update has 30 to 45 MB.
    "-XX:MetaspaceSize=128m",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "-Dderby.connection.requireAuthentication=false",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
)

# For a short command the code of the first compiler tier suffices, and costs a third of the work.
_SHORT_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

# Updates of some minutes on a few cores use 7 % less CPU with it than with Java's default (bench, a).
_LONG_OPTIONS = ("-XX:+UseParallelGC",)
_GARBAGE_COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")


def log_option(user_options: str, *, verbose: bool) -> tuple[str, ...]:
    """Return the option that silences Spark's log; () if `verbose`, or if the user configured the log."""
    if verbose or "-Dlog4j" in user_options:
        return ()
    return (f"-Dlog4j2.configurationFile={QUIET_LOG.as_uri()}",)


def temporary_option(user_options: str, folder: str) -> tuple[str, ...]:
    """Return the option of a private folder for Java's temporary files; () if the user names a folder, or for none.

    Spark's local folders are in it by default, with rows of shuffles and spilled rows; it creates them with the umask.
    Libraries unpack native code there.
    """
    return () if TEMPORARY in user_options or not folder else (f"-D{TEMPORARY}={folder}",)


def class_path(spark_home: str, jars: Sequence[str], settings: Mapping[str, str]) -> str:
    """Return the class path: the user's additions, Delta's jars, Spark's own jars."""
    return join_paths(settings.get("spark.driver.extraClassPath", ""), *jars, f"{spark_home}/jars/*")


def join_paths(*paths: str) -> str:
    """Join the paths that are not empty into a class path."""
    return ":".join(path for path in paths if path)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayCommand:
    """The command that starts a JVM with PySpark's gateway.

    Args:
        options: the program, and our own options.
        users: the user's options, which may have passwords: not for arguments, which all users of the machine see.
        main: the class that Java runs.
    """

    options: tuple[str, ...]
    users: tuple[str, ...] = ()
    main: str = _GATEWAY

    @property
    def program(self) -> str:
        """The Java to run."""
        return self.options[0]


def user_options(settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return the options of Java in the user's settings."""
    own = settings.get("spark.driver.defaultJavaOptions", ""), settings.get("spark.driver.extraJavaOptions", "")
    return tuple(option for text in own for option in shlex.split(text))


def gateway_command(
    program: str,
    classes: str,
    settings: Mapping[str, str],
    *,
    archive: Sequence[str],
    short: bool,
    verbose: bool,
    temporary: str = "",
) -> GatewayCommand:
    """Return the command that starts a JVM with PySpark's gateway.

    Args:
        program: the Java to run.
        classes: the class path.
        settings: the session's settings, with memory and Java options.
        archive: options of the class archive, see `class_archive`.
        short: compile for a quick start only.
        verbose: enable Spark's log.
        temporary: a private folder for Java's temporary files; "" for the system's.
    """
    users = user_options(settings)
    text = " ".join(users)
    options = (
        program,
        "-cp",
        classes,
        f"-Xmx{settings['spark.driver.memory']}",
        *_FIXED_OPTIONS,
        *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED_PACKAGES),
        *archive,
        *_compile_options(text, short=short),
        *log_option(text, verbose=verbose),
        *_page_size(settings),
        *temporary_option(text, temporary),
    )
    return GatewayCommand(options=options, users=users)


def _page_size(settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return the size of memory pages as a property of the JVM; () if the session does not set it.

    The driver builds the hash table of a broadcast join with the configuration of the JVM's properties, not with the
    session's: without this, a table of ten rows takes a page of 64 MB, until the garbage collector finds it unused.
    """
    size = settings.get("spark.buffer.pageSize")
    return (f"-Dspark.buffer.pageSize={size}",) if size else ()


def _compile_options(user_options: str, *, short: bool) -> tuple[str, ...]:
    """Return the compiler and garbage collector options; a collector of the user wins, as Java accepts only one."""
    options = _SHORT_OPTIONS if short else _LONG_OPTIONS
    if _GARBAGE_COLLECTOR.search(user_options):
        return tuple(option for option in options if not _GARBAGE_COLLECTOR.fullmatch(option))
    return options
