"""Checks resources against the models that Databricks publishes as `databricks-bundles`, where that is installed.

Nothing of a workspace is asked. The package is no dependency of ours: its licence ties its use to Databricks' services.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator, Sequence

from framework.deploy.bundle import Resource
from framework.deploy.findings import Finding, warning

_MODELS = {"pipelines": "Pipeline", "jobs": "Job", "schemas": "Schema", "volumes": "Volume"}


def models_are_installed() -> bool:
    """Whether there is anything to check against."""
    return importlib.util.find_spec("databricks") is not None and (
        importlib.util.find_spec("databricks.bundles") is not None
    )


def check_models(resources: Sequence[Resource]) -> Iterator[Finding]:
    """A warning for each resource that its model refuses; none where the models are not installed."""
    if not models_are_installed():
        return
    for resource in resources:
        model = getattr(importlib.import_module(f"databricks.bundles.{resource.kind}"), _MODELS[resource.kind])
        try:
            model.from_dict(resource.spec.as_dict())
        except (ValueError, TypeError) as error:
            yield warning("BUNDLE_MODEL", resource.location, key=resource.key, cause=str(error).rstrip("."))
