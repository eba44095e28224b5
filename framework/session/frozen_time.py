"""Frozen time: sessions in whose queries `current_timestamp()` is the time of a sandbox's clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework.engine.jvm.java_definitions import gateway_of
from framework.engine.sessions.frozen_time import CLASSES, SOURCE, add_time_rule, has_time_rule
from framework.session.java_classes import JavaClasses

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JAVA = JavaClasses(names=CLASSES, source=SOURCE)


def allow_frozen_time(spark: SparkSession) -> None:
    """Let the time of later clones of a session be frozen; sessions whose time is not frozen run as before."""
    if has_time_rule(spark):
        return
    _JAVA.define_once(gateway_of(spark))
    add_time_rule(spark)
