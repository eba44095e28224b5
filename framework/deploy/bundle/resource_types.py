"""The fields of the resources that Sluice deploys, as types.

The types are from `databricks-sdk`, a dependency: its dataclasses have the names and types of the service's fields.
Fields that only bundles have (permissions, grants, lifecycle) are added here.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from typing import Any, TypedDict, get_type_hints

from framework.deploy.bundle.format import Permission


class Lifecycle(TypedDict, total=False):
    """`lifecycle` of a resource."""

    prevent_destroy: bool


class Grant(TypedDict, total=False):
    """An entry of `grants`."""

    principal: str
    privileges: list[str]


@functools.cache
def resource_types(kind: str) -> tuple[Mapping[str, Any], frozenset[str]]:
    """Return the types of a kind's fields by name, and the fields that the service requires."""
    from databricks.sdk.service.catalog import SchemasAPI, VolumesAPI
    from databricks.sdk.service.jobs import JobSettings
    from databricks.sdk.service.pipelines import PipelinesAPI

    if kind == "jobs":
        hints, required = get_type_hints(JobSettings), frozenset[str]()
    else:
        create = {"pipelines": PipelinesAPI.create, "schemas": SchemasAPI.create, "volumes": VolumesAPI.create}[kind]
        hints, required = _arguments(create)
    access: Any = list[Permission] if kind in {"jobs", "pipelines"} else list[Grant]
    name = "permissions" if kind in {"jobs", "pipelines"} else "grants"
    extra = {name: access, "lifecycle": Lifecycle}
    return hints | extra, required - {"volume_type"}


def _arguments(create: Any) -> tuple[dict[str, Any], frozenset[str]]:
    """Return the arguments of a method that creates a resource, and those without a default."""
    hints = get_type_hints(create)
    hints.pop("return", None)
    parameters = inspect.signature(create).parameters
    return hints, frozenset(name for name in hints if parameters[name].default is inspect.Parameter.empty)
