"""Schemas, volumes and grants of Unity Catalog."""

from __future__ import annotations

import copy
from typing import Any

from framework.testing.workspace.exchange import Request, ServiceFault, missing


class UnityCatalog:
    """Schemas and volumes by full name, in lower case as in the service, and grants by securable."""

    def __init__(self) -> None:
        self.schemas: dict[str, dict[str, Any]] = {}
        self.volumes: dict[str, dict[str, Any]] = {}
        self.grants: dict[tuple[str, str], dict[str, set[str]]] = {}

    def create_schema(self, request: Request) -> dict[str, Any]:
        """Create a schema."""
        name = f"{request.body['catalog_name']}.{request.body['name']}".lower()
        return _create(self.schemas, "Schema", name, request)

    def create_volume(self, request: Request) -> dict[str, Any]:
        """Create a volume; its schema must exist."""
        body = request.body
        schema = f"{body['catalog_name']}.{body['schema_name']}".lower()
        if schema not in self.schemas:
            raise missing("Schema", schema)
        return _create(self.volumes, "Volume", f"{schema}.{body['name']}".lower(), request)

    def read_schema(self, request: Request) -> dict[str, Any]:
        """Return a schema."""
        return copy.deepcopy(_find(self.schemas, "Schema", request))

    def read_volume(self, request: Request) -> dict[str, Any]:
        """Return a volume."""
        return copy.deepcopy(_find(self.volumes, "Volume", request))

    def change_schema(self, request: Request) -> dict[str, Any]:
        """Change a schema's comment, owner or properties."""
        return _change(_find(self.schemas, "Schema", request), request)

    def change_volume(self, request: Request) -> dict[str, Any]:
        """Change a volume's comment or owner."""
        return _change(_find(self.volumes, "Volume", request), request)

    def delete_schema(self, request: Request) -> dict[str, Any]:
        """Delete a schema; with `force` also its volumes."""
        name = _find(self.schemas, "Schema", request)["full_name"]
        inner = [volume for volume in self.volumes if volume.startswith(f"{name}.")]
        if inner and request.query.get("force") != "true":
            raise ServiceFault(400, "INVALID_STATE", f"Schema {name} is not empty.")
        for volume in inner:
            del self.volumes[volume]
        del self.schemas[name]
        return {}

    def delete_volume(self, request: Request) -> dict[str, Any]:
        """Delete a volume."""
        del self.volumes[_find(self.volumes, "Volume", request)["full_name"]]
        return {}

    def read_grants(self, request: Request) -> dict[str, Any]:
        """Return the grants on a securable."""
        held = self.grants.get(_securable(request), {})
        return {
            "privilege_assignments": [
                {"principal": principal, "privileges": sorted(privileges)}
                for principal, privileges in sorted(held.items())
                if privileges
            ]
        }

    def change_grants(self, request: Request) -> dict[str, Any]:
        """Add and remove privileges of principals."""
        held = self.grants.setdefault(_securable(request), {})
        for change in request.body.get("changes", []):
            privileges = held.setdefault(change["principal"], set())
            privileges |= set(change.get("add", []))
            privileges -= set(change.get("remove", []))
        return self.read_grants(request)


def _securable(request: Request) -> tuple[str, str]:
    return request.parameters["kind"].lower(), request.parameters["name"].lower()


def _create(held: dict[str, dict[str, Any]], kind: str, name: str, request: Request) -> dict[str, Any]:
    if name in held:
        raise ServiceFault(409, f"{kind.upper()}_ALREADY_EXISTS", f"{kind} '{name}' already exists.")
    lowered = {
        key: str(request.body[key]).lower() for key in ("name", "catalog_name", "schema_name") if key in request.body
    }
    held[name] = {**copy.deepcopy(dict(request.body)), **lowered, "full_name": name, "owner": request.user}
    return copy.deepcopy(held[name])


def _find(held: dict[str, dict[str, Any]], kind: str, request: Request) -> dict[str, Any]:
    found = held.get(request.parameters["name"].lower())
    if found is None:
        raise missing(kind, request.parameters["name"])
    return found


def _change(entry: dict[str, Any], request: Request) -> dict[str, Any]:
    entry.update(copy.deepcopy(dict(request.body)))
    return copy.deepcopy(entry)
