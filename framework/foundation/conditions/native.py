"""Conditions of pipelines on Databricks."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

CONDITIONS: dict[str, Condition] = {
    "NATIVE_MODULE_MISSING": Condition(
        "This is Databricks, and neither {modules} can be imported: the module is not run by a pipeline.",
        "Make it source code of a pipeline (`sluice bundle deploy`), or run it with `Pipeline(modules=[…])`.",
    ),
    "NATIVE_FUNCTION_MISSING": Condition(
        "{function}() has no native form: {modules} does not know it.",
        "Use a newer runtime or channel of the pipeline, or leave the call out where Databricks is to run it.",
    ),
    "NATIVE_ARGUMENT_MISSING": Condition(
        "{function}(): argument `{argument}` has no native form.",
        "Leave `{argument}` out where Databricks is to run the module, or use a runtime that knows it.",
    ),
    "NATIVE_FUNCTION_OURS": Condition(
        "{function}() is Sluice's own, and {module} does not have it on Databricks.",
        "Import it with `from framework import pipelines as dp`: on Databricks that makes it of native calls.",
    ),
    "NATIVE_IMPORT_MISSING": Condition(
        "{name} is a part of Sluice that Databricks does not run.",
        "Import nothing but `framework.pipelines` in a pipeline's modules; what else they need belongs beside them.",
    ),
    "NATIVE_WHEEL_MISSING": Condition(
        "A module of {pipeline} imports `framework`, and nothing brings it to Databricks.",
        "Name Sluice's wheel under `environment: dependencies:` of the pipeline, or import `pyspark.pipelines`.",
    ),
    "NATIVE_DECORATOR_ORDER": Condition(
        "@{expectation} stands above @{decorator}, and the native @{decorator} gives nothing back to go on with.",
        "Move @{expectation} below @{decorator}.",
    ),
}
