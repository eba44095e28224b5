"""The settings of Spark for tests: many small queries over a few rows."""

from __future__ import annotations

SESSION: dict[str, str] = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}
"""The settings of a sandbox's session: a few rows are read faster than code for them is compiled."""

JVM: dict[str, str] = {
    **SESSION,
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=4 -XX:Tier3DelayOn=0 -XX:Tier4InvocationThreshold=20000 "
    "-XX:Tier4MinInvocationThreshold=3000 -XX:Tier4CompileThreshold=60000 -XX:Tier4BackEdgeThreshold=160000",
    "spark.ui.enabled": "false",
}
"""The settings of a JVM for a run of tests: its second compiler begins later, because few methods run often."""

MASTER = "local[2]"
"""The master of a JVM for tests."""
