"""Values of Spark's settings that only Databricks' runtime knows."""

from __future__ import annotations

from framework.declare.specs import Pairs

_AUTOMATIC = frozenset({("spark.sql.shuffle.partitions", "auto")})


def spark_settings(settings: Pairs) -> Pairs:
    """Leave out settings by which Databricks' runtime chooses a value itself: so does Spark without the setting."""
    return tuple((key, value) for key, value in settings if (key, str(value).lower()) not in _AUTOMATIC)
