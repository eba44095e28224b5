"""Settings of Spark sessions for tests."""

from __future__ import annotations

INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
"""A session that compiles nothing: a few rows a batch are read faster than code for them is compiled."""

SELDOM_COMPILED = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=4 -XX:Tier3DelayOn=0 -XX:Tier4InvocationThreshold=20000 "
    "-XX:Tier4MinInvocationThreshold=3000 -XX:Tier4CompileThreshold=60000 -XX:Tier4BackEdgeThreshold=160000"
}
"""A JVM that calls its optimizing compiler later: thousands of small queries take a tenth less CPU. It overrides
SHORT_LIVED."""

MANY_JOBS = {"spark.ui.retainedJobs": "1000"}
"""Tests that count the jobs of their session do so in a JVM of several workers, which forgets the oldest of all."""

COMPILED = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.adaptive.enabled": "true",
}
"""Spark's defaults in place of INTERPRETED."""

SHORT_LIVED = "-XX:TieredStopAtLevel=1"
"""The option of a JVM that lives for a minute: its second compiler costs more than the first one's code.

SELDOM_COMPILED pays only after some 60 s of CPU time (see tests/README.md)."""

NO_ARCHIVE = "-Xverify:none"
"""The option of a JVM that reads its classes without our class archive: to verify them is a seventh of its first ten
seconds."""
