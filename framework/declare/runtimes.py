"""Settings that an older Databricks runtime has by default, as far as this Spark has them: key `runtime` of the spec.

Sources: Databricks' release notes of its runtimes, "ANSI compliance in Databricks Runtime" (on since 17.0), and Spark's
"Migration Guide: SQL", whose entries name the setting that brings each former behaviour back. As of 2026.
"""

from __future__ import annotations

import re

from framework.declare.specs import Pairs

_VERSION = re.compile(r"(\d+)\.(?:(\d+)(?:\..*)?|x.*)", re.IGNORECASE)
_FIRST = (7, 0)
_BEFORE: tuple[tuple[tuple[int, int], Pairs], ...] = (
    (
        (17, 0),  # Spark 4.0
        (
            ("spark.sql.ansi.enabled", "false"),
            ("spark.sql.legacy.timeParserPolicy", "EXCEPTION"),
            ("spark.sql.legacy.ctePrecedencePolicy", "EXCEPTION"),
            ("spark.sql.legacy.javaCharsets", "true"),
            ("spark.sql.legacy.codingErrorAction", "true"),
            ("spark.sql.legacy.bangEqualsNot", "true"),
            ("spark.sql.legacy.disableMapKeyNormalization", "true"),
        ),
    ),
)
"""Runtimes, each with the settings of all runtimes before it."""


def is_runtime(text: str) -> bool:
    """Whether a text is the version of a runtime.

    Examples:
        >>> [is_runtime(text) for text in ("15.4", "16.4.x-scala2.12", "14.3 LTS", "15", "6.4")]
        [True, True, True, False, False]
    """
    return _parsed(text) is not None


def runtime_settings(text: str) -> Pairs:
    """Return the settings of Spark that a runtime has by default, and this Spark does not.

    Examples:
        >>> dict(runtime_settings("15.4"))["spark.sql.ansi.enabled"], runtime_settings("17.3")
        ('false', ())

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
