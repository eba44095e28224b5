"""Values of Spark settings that exist only in Databricks' runtime."""

from __future__ import annotations

from framework.declare.specs import Pairs

_AUTOMATIC = frozenset({("spark.sql.shuffle.partitions", "auto")})


def spark_settings(settings: Pairs) -> Pairs:
    """Leave out `auto` settings, with which Databricks' runtime chooses the value; Spark uses its default."""
    return tuple((key, value) for key, value in settings if (key, str(value).lower()) not in _AUTOMATIC)
