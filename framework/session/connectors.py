"""Spark's own packages for formats that PySpark does not ship: added if a module of the pipeline names the format."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path

from framework.foundation.errors import OperationError
from framework.session.cold_start import record_connector
from framework.session.jars import resolved_jars
from framework.session.java import Java

_SCALA = "2.13"
_FORMATS = {
    "kafka": (
        "spark-sql-kafka-0-10",
        re.compile(r"""(?<![\w.])["']kafka\\?["']|\bread_kafka\s*\(""", re.IGNORECASE),
    ),
    "avro": ("spark-avro", re.compile(r"""(?<![\w.])["']avro\\?["']|\b(?:from|to)_avro\b""", re.IGNORECASE)),
}
"""The package of each format, and how modules name the format."""

_SHIPPED = (
    "at.yawk.lz4",
    "com.google.*",
    "org.apache.avro",
    "org.apache.hadoop",
    "org.scala-lang.*",
    "org.slf4j",
    "org.tukaani",
    "org.xerial.*",
)
"""Groups of the packages' dependencies that PySpark ships."""

_SETTINGS = ("spark.jars.packages", "spark.jars", "spark.driver.extraClassPath")


def formats_in(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the formats with a package of their own that the code of modules names.

    Examples:
        >>> formats_in(['spark.readStream.format("kafka")', "FROM STREAM read_files('/in', format => 'avro')"])
        ('avro', 'kafka')
        >>> formats_in(["# a table of kafka's topics"])
        ()
    """
    return tuple(sorted({name for text in texts for name, (_, named) in _FORMATS.items() if named.search(text)}))


def connector_jars(formats: Iterable[str], java: Java, spark_home: str, settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return the paths of the packages' jars; the first call on a machine resolves them.

    A package that the session has already is left out. One that can't be resolved is, too: the format may be named in
    a text only, and a reader of it fails with what to add.

    Args:
        formats: the result of `formats_in`.
        java: the Java that runs the resolver.
        spark_home: the folder of Spark.
        settings: the user's Spark settings.
    """
    found: list[str] = []
    for name in formats:
        package = _FORMATS[name][0]
        is_named = any(package in settings.get(key, "") for key in _SETTINGS)
        if is_named or any(Path(spark_home, "jars").glob(f"{package}*.jar")):
            continue
        coordinate = f"org.apache.spark:{package}_{_SCALA}:{version('pyspark')}"
        try:
            found += resolved_jars(coordinate, java, spark_home, settings, excluded=_SHIPPED)
        except OperationError as error:
            if error.condition != "DELTA_JARS_NOT_RESOLVED":
                raise
            record_connector(name, f"{coordinate} can't be downloaded ({error.fields['problem']}). {_BY_HAND}")
        else:
            record_connector(name, f"Spark has {coordinate} besides, because a module names `{name}`.")
    return tuple(found)


_BY_HAND = "Without it, readers of the format fail: put its jars on this machine, and set `spark.jars` in `spark_conf`."
