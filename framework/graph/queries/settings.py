"""The use of a flow's Spark settings in the session that all modules share.

A query is analysed and run with the same settings, so that an update runs what `validate` accepts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from framework.engine.sessions.session import set_setting, setting, setting_lines, unset_setting
from framework.foundation.errors import UserError
from framework.graph.queries.calls import SPARK_ERRORS, first_words

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ZONE = "spark.sql.session.timeZone"
"""The setting of the time zone."""

# Settings that affect performance only, and a folder of the process.
_HARMLESS = (
    "spark.sql.adaptive.",
    "spark.sql.codegen.",
    "spark.sql.shuffle.partitions=",
    "spark.sql.streaming.",
    "spark.sql.ui.",
    "spark.sql.warehouse.dir=",
)


def set_option(spark: SparkSession, key: str, value: str) -> None:
    """Set an option of a session, even where user code must not set options.

    Raises:
        UserError: SPARK_SETTING_INVALID.
    """
    try:
        set_setting(spark, key, value)
    except SPARK_ERRORS as error:
        raise UserError("SPARK_SETTING_INVALID", key=key, value=value, cause=first_words(error)) from error


def result_settings(spark: SparkSession) -> list[str]:
    """Return the SQL settings of a session that may change the rows of a query, sorted.

    They are equal in two processes with equal settings, whatever the number of cores.
    """
    found = [line for line in setting_lines(spark) if line.startswith("spark.sql.") and not line.startswith(_HARMLESS)]
    # The time zone may come from the machine, and is then not among the settings.
    return sorted({*found, f"{ZONE}={setting(spark, ZONE)}"})


class SessionSettings:
    """The settings of the flow whose query is being built, in a session that several flows share.

    Args:
        spark: the session; only one thread at a time may build queries in it.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._before: dict[str, str | None] = {}
        self.present: Mapping[str, str] = {}
        self._of_results: dict[tuple[tuple[str, str], ...], list[str]] = {}

    def of_results(self, session: SparkSession) -> list[str]:
        """Return the present settings that may change rows; the session is read once for each set of flow settings."""
        if session is not self._spark:  # a query may use another session
            return result_settings(session)
        present = tuple(sorted(self.present.items()))
        if present not in self._of_results:
            self._of_results[present] = result_settings(session)
        return self._of_results[present]

    @contextmanager
    def applied(self, settings: Mapping[str, str]) -> Iterator[None]:
        """Use these settings for the block instead of those of the surrounding block.

        Raises:
            UserError: SPARK_SETTING_INVALID.
        """
        surrounding = self.present
        try:
            self._change(settings)
            yield
        finally:
            self._change(surrounding)

    def _change(self, settings: Mapping[str, str]) -> None:
        if settings == self.present:
            return
        # All previous values are read before the first key is set, because an invalid value ends the loop.
        for key in settings.keys() - self._before.keys():
            self._before[key] = setting(self._spark, key)
        former, self.present = self.present, settings
        for key in former.keys() - settings.keys():
            value = self._before[key]
            unset_setting(self._spark, key) if value is None else set_setting(self._spark, key, value)
        for key, value in settings.items():
            if former.get(key) != value:
                set_option(self._spark, key, value)
