"""Which Spark settings a session gets: pure, from what was asked for and what the machine has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"

# Spark 4.2.0 sends a Python UDF whose input comes in columns (any scan of Parquet) more than its worker reads,
# and then both wait for ever. Rows are what 4.1 sent.
_ROWS_TO_PYTHON = {"spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false"}

# Spark keeps the last 100 pieces of generated code. A batch of AUTO CDC uses some 150 in turn, the same in each
# batch, so with 100 every piece would be compiled anew every time: a third of the CPU that a small batch costs.
_GENERATED_CODE = {"spark.sql.codegen.cache.maxEntries": "2000"}
_LOCAL_MASTER = re.compile(r"local(?:\[(\*|\d+)(?:,\s*\d+)?\])?")
# Delta lists a table's files beside its last commit while they are few; AUTO CDC compacts its tables at 40.
_FILE_LISTS = {"spark.databricks.delta.allFilesInCrc.thresholdNumFiles": "100"}

# What only spark-submit can prepare: with one of these a local session takes the longer way too.
_NEEDS_SUBMIT = ("spark.jars", "spark.files", "spark.archives", "spark.submit.", "spark.driver.extraLibraryPath")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRequest:
    """The session that a command wants.

    Args:
        app_name: as Spark's own pages show it.
        master: Spark's master URL.
        spark_conf: the user's settings, which win over ours.
        verbose: let Spark log and show its progress.
        short: the command soon ends; start-up counts more than speed later on.
    """

    app_name: str
    master: str
    spark_conf: Mapping[str, str]
    verbose: bool = False
    short: bool = False


def local_cores(master: str, machine_cores: int) -> int | None:
    """How many tasks a local master runs side by side; None when the master is a cluster.

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
    """Whether the user's settings hold something that only spark-submit prepares."""
    return any(key.startswith(_NEEDS_SUBMIT) for key in settings)


def delta_settings(user: Mapping[str, str]) -> dict[str, str]:
    """The two settings that make Spark's tables Delta's; the user's own extensions stay in front."""
    extensions = [name.strip() for name in user.get("spark.sql.extensions", "").split(",") if name.strip()]
    if _EXTENSION not in extensions:
        extensions.append(_EXTENSION)
    return {"spark.sql.catalog.spark_catalog": _CATALOG, "spark.sql.extensions": ",".join(extensions)}


def has_delta(extensions: str) -> bool:
    """Whether a session with these `spark.sql.extensions` knows Delta."""
    return _EXTENSION in extensions


def cluster_settings(request: SessionRequest, jars: tuple[str, ...]) -> dict[str, str]:
    """The settings of a session on a cluster: Delta, its jars for the executors, and nothing of one machine's."""
    user = dict(request.spark_conf)
    named = [jar for jar in user.get("spark.jars", "").split(",") if jar]
    return {
        "spark.app.name": request.app_name,
        "spark.master": request.master,
        "spark.ui.showConsoleProgress": str(request.verbose).lower(),
        **_ROWS_TO_PYTHON,
        **_GENERATED_CODE,
        **_FILE_LISTS,
        **user,
        **delta_settings(user),
        **({"spark.jars": ",".join([*named, *jars])} if named or jars else {}),
    }


def local_settings(request: SessionRequest, cores: int, warehouse: str) -> dict[str, str]:
    """The settings of a session on this machine, sized to its cores and reachable from nowhere else.

    Delta reads the state of a table in 50 partitions by default, and Spark shuffles into 200: on
    one machine that makes each small commit slow, so both are the number of cores. A Hive
    metastore keeps its tables' places, so only a session without one gets a warehouse of its own.
    """
    user = dict(request.spark_conf)
    in_memory = user.get("spark.sql.catalogImplementation", "in-memory") == "in-memory"
    return {
        "spark.app.name": request.app_name,
        "spark.master": request.master,
        "spark.databricks.delta.snapshotPartitions": str(cores),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": str(request.verbose).lower(),
        **_ROWS_TO_PYTHON,
        **_GENERATED_CODE,
        **_FILE_LISTS,
        **({"spark.sql.warehouse.dir": warehouse} if in_memory else {}),
        **user,
        **delta_settings(user),
    }
