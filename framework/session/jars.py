"""Delta's jars: resolved once by Spark's own resolver, then kept in the user's cache.

PySpark ships all dependencies of Delta, so everything but Delta's own jars and the jars of Unity
Catalog's client is excluded: 13 MB in place of 87, and no second version of a library on the
class path. Later starts use the cached jars and never start the resolver.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from framework.foundation.errors import OperationError
from framework.foundation.files.private_files import PRIVATE_UMASK, exposure, make_private_folder
from framework.foundation.resource_faults import resource_condition
from framework.session.java import Java, JavaSource
from framework.session.private_arguments import properties_file

_SCALA = "2.13"
_CERTIFICATES = Path("/etc/ssl/certs/java/cacerts")
_JAVA_OPTIONS = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
_TIMEOUT_SECONDS = 900
_LAST_LINES = 3
# The groups that PySpark ships; the resolver accepts a star as a wildcard.
_SHIPPED_WITH_SPARK = (
    "org.apache.*",
    "com.fasterxml.*",
    "com.github.luben",
    "com.google.*",
    "commons-*",
    "io.airlift",
    "jakarta.*",
    "javax.*",
    "org.antlr",
    "org.locationtech.*",
    "org.openapitools",
    "org.roaringbitmap",
    "org.slf4j",
    "org.xerial.*",
)
# User settings that configure access to repositories.
_RESOLVER_SETTINGS = ("spark.jars.repositories", "spark.jars.ivySettings")


def cache_folder() -> Path:
    """Return `sluice` below XDG_CACHE_HOME, else below `~/.cache`; the folder may not exist yet."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base else Path.home() / ".cache") / "sluice"


def delta_coordinate() -> str:
    """Return the Maven coordinate of the Delta version of the installed `delta-spark` and `pyspark`.

    Examples:
        >>> delta_coordinate()
        'io.delta:delta-spark_4.2_2.13:4.4.0'
    """
    spark = ".".join(version("pyspark").split(".")[:2])
    return f"io.delta:delta-spark_{spark}_{_SCALA}:{version('delta-spark')}"


def brings_delta(settings: Mapping[str, str], spark_home: str) -> bool:
    """Whether Delta is already on the class path, by the user's settings or among Spark's own jars."""
    named = ("spark.jars.packages", "spark.jars", "spark.driver.extraClassPath")
    if any("delta-spark" in settings.get(key, "") for key in named):
        return True
    return any(Path(spark_home, "jars").glob("delta-spark*.jar"))


def delta_jars(java: Java, spark_home: str, settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return the sorted paths of Delta's jars; see `resolved_jars`.

    Args:
        java: the Java that runs the resolver.
        spark_home: the folder of Spark.
        settings: the user's Spark settings, which may name repositories.

    Raises:
        OperationError: DELTA_JARS_NOT_RESOLVED (offline, most often), CACHE_NOT_WRITABLE, or CACHE_NOT_TRUSTED.
    """
    return resolved_jars(delta_coordinate(), java, spark_home, settings, excluded=_SHIPPED_WITH_SPARK)


def resolved_jars(
    coordinate: str, java: Java, spark_home: str, settings: Mapping[str, str], *, excluded: Sequence[str]
) -> tuple[str, ...]:
    """Return the sorted paths of a Maven package's jars; the first call on a machine resolves them.

    Two processes may resolve at once: each uses its own folder, and the first to finish renames
    its folder to the final name.

    Args:
        coordinate: the package.
        java: the Java that runs the resolver.
        spark_home: the folder of Spark.
        settings: the user's Spark settings, which may name repositories.
        excluded: the groups of dependencies that are left out.

    Raises:
        OperationError: DELTA_JARS_NOT_RESOLVED (offline, most often), CACHE_NOT_WRITABLE, or CACHE_NOT_TRUSTED.
    """
    folder = cache_folder() / "jars" / coordinate.replace(":", "_")
    check_cache(folder)
    if not folder.is_dir():
        properties = {"spark.jars.packages": coordinate}
        if excluded:
            properties["spark.jars.excludes"] = ",".join(f"{group}:*" for group in excluded)
        properties |= {key: settings[key] for key in _RESOLVER_SETTINGS if key in settings}
        _resolve_into(folder, java, spark_home, properties)
    jars = sorted(folder.glob("*.jar"))
    for jar in jars:
        check_cache(jar)
    return tuple(map(str, jars))


def check_cache(path: Path) -> None:
    """Check that no other user could have changed the code in a file or folder of the cache.

    Raises:
        OperationError: CACHE_NOT_TRUSTED.
    """
    problem = exposure(cache_folder(), path)
    if problem is not None:
        raise OperationError("CACHE_NOT_TRUSTED", path=cache_folder(), problem=problem)


def _resolve_into(folder: Path, java: Java, spark_home: str, properties: Mapping[str, str]) -> None:
    try:
        make_private_folder(folder.parent)
        scratch = Path(tempfile.mkdtemp(prefix=".resolving-", dir=folder.parent))
    except OSError as problem:
        raise OperationError("CACHE_NOT_WRITABLE", path=str(folder.parent), problem=str(problem)) from problem
    try:
        said = _run_resolver(scratch, java, spark_home, properties)
        resolved, coordinate = scratch / "jars", properties["spark.jars.packages"]
        package = coordinate.split(":")[1].partition("_")[0]
        if not any(resolved.glob(f"*{package}*.jar")):
            full = resource_condition(said)
            if full is not None:
                raise OperationError(full, place=f"The cache {folder.parent}", problem=said)
            raise OperationError("DELTA_JARS_NOT_RESOLVED", coordinate=coordinate, problem=said)
        _publish(resolved, folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _publish(resolved: Path, folder: Path) -> None:
    """Rename the finished folder to its final name, unless another process was first."""
    try:
        resolved.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise


def _run_resolver(scratch: Path, java: Java, spark_home: str, properties: Mapping[str, str]) -> str:
    """Run Spark's resolver into `scratch`, and return the cause in its output.

    `pyspark-shell` with an empty standard input ends at once: spark-submit resolves the packages,
    starts its gateway, finds the input closed and exits.
    """
    command = [java.program, *_trust(java), "-cp", f"{spark_home}/jars/*", "org.apache.spark.deploy.SparkSubmit"]
    # The address of a repository may have a password.
    command += [*properties_file(scratch, properties), "--conf", f"spark.jars.ivy={scratch}"]
    environment = {
        **os.environ,
        "SPARK_HOME": spark_home,
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(scratch / "connection"),
    }
    try:
        done = subprocess.run(  # noqa: S603 - Spark's own resolver
            [*command, "pyspark-shell"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environment,
            timeout=_TIMEOUT_SECONDS,
            check=False,
            umask=PRIVATE_UMASK,
        )
    except subprocess.TimeoutExpired:
        return f"no response within {_TIMEOUT_SECONDS} seconds"
    return _cause(done.stdout)


def _trust(java: Java) -> list[str]:
    """Return the option that makes the packaged Java trust this machine's certificates, where Debian keeps them."""
    is_set = any("javax.net.ssl.trustStore" in os.environ.get(name, "") for name in _JAVA_OPTIONS)
    if java.source is not JavaSource.PACKAGE or is_set or not _CERTIFICATES.is_file():
        return []
    return [f"-Djavax.net.ssl.trustStore={_CERTIFICATES}"]


def _cause(output: str) -> str:
    """Return the line with the exception, or the last few lines."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    named = [line for line in lines if "Exception" in line or "UNRESOLVED" in line]
    return named[-1] if named else " / ".join(lines[-_LAST_LINES:])
