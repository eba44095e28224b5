"""Permissions of pipelines, jobs and folders."""

from __future__ import annotations

import copy
from typing import Any

from framework.testing.workspace.exchange import Request


class ObjectPermissions:
    """Access control lists by kind and id of the object."""

    def __init__(self) -> None:
        self.lists: dict[tuple[str, str], list[dict[str, Any]]] = {}

    def read(self, request: Request) -> dict[str, Any]:
        """Return the list of an object."""
        kind, name = request.parameters["kind"], request.parameters["name"]
        entries = [
            {
                **{key: value for key, value in entry.items() if key != "permission_level"},
                "all_permissions": [{"permission_level": entry["permission_level"], "inherited": False}],
            }
            for entry in self.lists.get((kind, name), [])
        ]
        return {"object_id": f"/{kind}/{name}", "object_type": kind, "access_control_list": entries}

    def replace(self, request: Request) -> dict[str, Any]:
        """Replace the list of an object."""
        entries = copy.deepcopy(list(request.body.get("access_control_list", [])))
        self.lists[request.parameters["kind"], request.parameters["name"]] = entries
        return self.read(request)
