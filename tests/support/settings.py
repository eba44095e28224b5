"""Settings of Spark sessions for tests."""

from __future__ import annotations

INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
"""A session that compiles nothing: a few rows a batch are read faster than code for them is compiled."""
