"""Conditions of pipelines on Databricks."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

CONDITIONS: dict[str, Condition] = {
    "NATIVE_MODULE_MISSING": Condition(
        "This module runs on Databricks outside of a pipeline: neither {modules} can be imported.",
        "Add the module to a pipeline (`sluice bundle deploy`), or run it with `Pipeline(modules=[…])`.",
    ),
    "NATIVE_FUNCTION_MISSING": Condition(
        "{function}() is not available in {modules} on this Databricks runtime.",
        "Use a newer runtime or channel for the pipeline, or remove the call from modules that run on Databricks.",
    ),
    "NATIVE_ARGUMENT_MISSING": Condition(
        "{function}(): argument `{argument}` is not available on Databricks.",
        "Remove `{argument}` from modules that run on Databricks, or use a runtime that supports it.",
    ),
    "NATIVE_FUNCTION_OURS": Condition(
        "{function}() is an extension of Sluice, which {module} does not provide on Databricks.",
        "Import it with `from framework import pipelines as dp`, which maps it to native calls on Databricks.",
    ),
    "NATIVE_FUNCTION_LOCAL": Condition(
        "{function}() is not available on Databricks.",
        "Deploy the gateway and the ingestion pipeline with a bundle, see docs/bundles.md.",
    ),
    "NATIVE_IMPORT_MISSING": Condition(
        "{name} is a part of Sluice that is not available on Databricks.",
        "Import only `framework.pipelines` in modules of a pipeline, and put shared code next to the modules.",
    ),
    "NATIVE_WHEEL_MISSING": Condition(
        "A module of {pipeline} imports `framework`, which the environment of the pipeline does not install.",
        "Add the Sluice wheel to `environment: dependencies:` of the pipeline, or import `pyspark.pipelines`.",
    ),
    "NATIVE_DECORATOR_ORDER": Condition(
        "@{expectation} is above @{decorator}, but on Databricks @{decorator} returns nothing that can be decorated.",
        "Move @{expectation} below @{decorator}.",
    ),
}
