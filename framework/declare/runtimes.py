"""Default settings of older Databricks runtimes, as far as this Spark supports them: key `runtime` of the spec.

Sources: Databricks' release notes of its runtimes, which state the Spark version of each (13.3: 3.4; 14.3, 15.4 and
16.4: 3.5; 17.3: 4.0; 18: 4.1; none has 4.2 yet) and their own changes; "ANSI compliance in Databricks Runtime" (on
since 17.0); and Spark's migration guides of SQL and PySpark, which name the setting that restores each former
behaviour. Only settings that change rows, or which queries are valid, are listed. As of 2026.
"""

from __future__ import annotations

import re

from framework.declare.specs import Pairs

_VERSION = re.compile(r"(\d+)\.(?:(\d+)(?:\..*)?|x.*)", re.IGNORECASE)
_FIRST = (7, 0)
_BEFORE: tuple[tuple[tuple[int, int], Pairs], ...] = (
    ((15, 4), (("spark.sql.legacy.bangEqualsNot", "true"),)),  # a change of Spark 4.0 that this runtime also has
    (
        (17, 0),  # Spark 4.0
        (
            ("spark.sql.ansi.enabled", "false"),
            ("spark.sql.legacy.timeParserPolicy", "EXCEPTION"),
            ("spark.sql.legacy.ctePrecedencePolicy", "EXCEPTION"),
            ("spark.sql.legacy.javaCharsets", "true"),
            ("spark.sql.legacy.codingErrorAction", "true"),
            ("spark.sql.legacy.disableMapKeyNormalization", "true"),
            ("spark.sql.pyspark.legacy.inferMapTypeFromFirstPair.enabled", "true"),
        ),
    ),
    (
        (18, 0),  # Spark 4.1
        (
            ("spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing", "true"),
            ("spark.sql.execution.pyspark.binaryAsBytes", "false"),
            ("spark.sql.execution.pandas.convertToArrowArraySafely", "false"),
        ),
    ),
    # Spark 4.2. PySpark reads it from the first session of a process, which `sluice` starts with these settings.
    ((19, 0), (("spark.sql.execution.pythonUDF.arrow.enabled", "false"),)),
)
"""Runtimes, each with the settings of all runtimes before it."""


def is_runtime(text: str) -> bool:
    """Whether a text is the version of a supported runtime.

    Examples:
        >>> [is_runtime(text) for text in ("15.4", "16.4.x-scala2.12", "14.3 LTS", "15", "6.4")]
        [True, True, True, False, False]
    """
    return _parsed(text) is not None


def runtime_settings(text: str) -> Pairs:
    """Return the Spark settings that are defaults of a runtime, but not of this Spark.

    Examples:
        >>> ["spark.sql.ansi.enabled" in dict(runtime_settings(text)) for text in ("16.4", "17.3")]
        [True, False]

    Args:
        text: its version.
    """
    version = _parsed(text)
    assert version is not None  # the spec was checked
    return tuple(pair for limit, settings in _BEFORE if version < limit for pair in settings)


def _parsed(text: str) -> tuple[int, int] | None:
    found = _VERSION.fullmatch(text.strip().upper().removesuffix("LTS").strip())
    if found is None:
        return None
    version = int(found[1]), int(found[2] or 0)
    return version if version >= _FIRST else None
