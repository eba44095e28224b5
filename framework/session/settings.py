"""The Spark settings of a session: pure functions of the request and the machine's cores."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"

# Spark 4.2.0 sends more data to a Python UDF with columnar input (any scan of Parquet) than its worker reads,
# and then both wait for ever. Spark 4.1 sent rows.
_ROWS_TO_PYTHON = {"spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false"}

# Delta 4.4's parser ignores the parameters of `spark.sql(text, args=…)` that Spark 4.2 gives to the parser. With this
# setting, Spark binds them in the analysis; they are allowed only in the place of literals and in IDENTIFIER(…).
_PARAMETERS = {"spark.sql.legacy.parameterSubstitution.constantsOnly": "true"}

# Spark caches the last 100 generated classes. A batch of AUTO CDC uses some 150 in turn, the same in each
# batch, so with 100 each is compiled again in every batch: a third of the CPU time of a small batch.
_GENERATED_CODE = {"spark.sql.codegen.cache.maxEntries": "2000"}
# Spark keeps the plans of the last 1,000 queries for its UI: half a gigabyte of heap in ten minutes of micro-batches.
_FEW_QUERIES_IN_UI = {
    "spark.sql.ui.retainedExecutions": "20",
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "500",
}
# Each sort and aggregation of a task takes at least one page. Spark's pages are 32 MB with 2 GB on two cores, so a few
# small micro-batches at a time took 600 MB. Times are the same with small pages.
_SMALL_PAGES = {"spark.buffer.pageSize": "4m"}
_LOCAL_MASTER = re.compile(r"local(?:\[(\*|\d+)(?:,\s*\d+)?\])?")
# Delta stores the file list of a small table in its last commit's checksum; AUTO CDC compacts its tables at 40 files.
# Outside of UTC, Delta compares the list after each commit with the state that it computes from the whole log: a small
# commit takes twice the CPU time and more. Only statistics of timestamps before 1883 can differ, and of the list only
# those of whole numbers are used to skip files (`may_contain`).
_FILE_LISTS = {
    "spark.databricks.delta.allFilesInCrc.thresholdNumFiles": "100",
    "spark.databricks.delta.allFilesInCrc.verificationMode.forceOnNonUTC.enabled": "false",
}

# Settings that only spark-submit supports: with one of these, spark-submit starts a local session too.
_NEEDS_SUBMIT = ("spark.jars", "spark.files", "spark.archives", "spark.submit.", "spark.driver.extraLibraryPath")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRequest:
    """The session that a command requests.

    Args:
        app_name: the name in the Spark UI.
        master: Spark's master URL.
        spark_conf: the user's settings, which override ours.
        verbose: enable Spark's log and progress bar.
        short: optimize for start-up time, because the command ends soon; None if nothing is known of its length.
        formats: formats of modules whose packages Spark gets besides.
    """

    app_name: str
    master: str
    spark_conf: Mapping[str, str]
    verbose: bool = False
    short: bool | None = False
    formats: tuple[str, ...] = ()


def local_cores(master: str, machine_cores: int) -> int | None:
    """Return the number of tasks that a local master runs in parallel; None for a cluster's master.

    Examples:
        >>> [local_cores(master, 8) for master in ("local", "local[2]", "local[*]", "local[4,2]")]
        [1, 2, 8, 4]
        >>> [local_cores(master, 8) for master in ("spark://127.0.0.1:7077", "local-cluster[2,1,1024]")]
        [None, None]
    """
    match = _LOCAL_MASTER.fullmatch(master.strip())
    if match is None:
        return None
    cores = match.group(1) or "1"
    return machine_cores if cores == "*" else int(cores)


def needs_submit(settings: Mapping[str, str]) -> bool:
    """Whether the user's settings include one that only spark-submit supports."""
    return any(key.startswith(_NEEDS_SUBMIT) for key in settings)


def delta_settings(user: Mapping[str, str]) -> dict[str, str]:
    """Return the two settings that enable Delta in Spark; the user's own extensions stay first."""
    extensions = [name.strip() for name in user.get("spark.sql.extensions", "").split(",") if name.strip()]
    if _EXTENSION not in extensions:
        extensions.append(_EXTENSION)
    return {"spark.sql.catalog.spark_catalog": _CATALOG, "spark.sql.extensions": ",".join(extensions)}


def has_delta(extensions: str) -> bool:
    """Whether a session with these `spark.sql.extensions` supports Delta."""
    return _EXTENSION in extensions


def cluster_settings(request: SessionRequest, jars: tuple[str, ...]) -> dict[str, str]:
    """Return the settings of a session on a cluster: Delta, and its jars for the executors."""
    user = dict(request.spark_conf)
    named = [jar for jar in user.get("spark.jars", "").split(",") if jar]
    return {
        "spark.app.name": request.app_name,
        "spark.master": request.master,
        "spark.ui.showConsoleProgress": str(request.verbose).lower(),
        **_ROWS_TO_PYTHON,
        **_PARAMETERS,
        **_GENERATED_CODE,
        **_FILE_LISTS,
        **user,
        **delta_settings(user),
        **({"spark.jars": ",".join([*named, *jars])} if named or jars else {}),
    }


def local_settings(request: SessionRequest, cores: int, warehouse: str) -> dict[str, str]:
    """Return the settings of a session on this machine, sized to its cores and reachable only locally.

    Delta reads the state of a table in 50 partitions by default, and Spark shuffles into 200. On one machine
    that makes each small commit slow. Here Spark shuffles into as many as there are cores, and Delta uses half as
    many: each of its tasks generates code for some 20 ms, longer than it reads a small table, and an update reads
    several tables at once. An update of three small tables takes 10 % less CPU so. A Hive metastore stores its
    tables' locations, so only a session without one gets a temporary warehouse.
    """
    user = dict(request.spark_conf)
    in_memory = user.get("spark.sql.catalogImplementation", "in-memory") == "in-memory"
    return {
        "spark.app.name": request.app_name,
        "spark.master": request.master,
        "spark.databricks.delta.snapshotPartitions": str(max(cores // 2, 1)),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": str(request.verbose).lower(),
        **_ROWS_TO_PYTHON,
        **_PARAMETERS,
        **_GENERATED_CODE,
        **_FILE_LISTS,
        **_SMALL_PAGES,
        **({} if user.get("spark.ui.enabled") == "true" else _FEW_QUERIES_IN_UI),
        **({"spark.sql.warehouse.dir": warehouse} if in_memory else {}),
        **user,
        **delta_settings(user),
    }


def comparable_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings without the application's name, which differs between sessions that are otherwise equal."""
    return {key: value for key, value in settings.items() if key != "spark.app.name"}
