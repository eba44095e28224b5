"""References `${resources.KIND.NAME.FIELD}` in settings: dependencies that are resolved once ids are known.

A resolved value is converted to the type of its field.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from framework.deploy.bundle.checks.field_checks import FieldChecks
from framework.deploy.bundle.checks.format import resource_types
from framework.deploy.bundle.documents.bundle import FrozenSpec
from framework.deploy.bundle.documents.nodes import as_node
from framework.foundation.locations import SourceLocation

_REFERENCE = re.compile(r"\$\{resources\.(?P<path>[^{}]*)\}")
_PART = re.compile(r"\[(?P<index>\d+)\]|(?P<name>[^.\[]+)")
MISSING: Any = object()
_NO_LOCATION = SourceLocation(file="", line=1)
"""The value of a field that a resource does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """One reference to a field of a resource.

    Args:
        text: the reference as written.
        key: key of the resource, `pipelines.flights`.
        path: path of the field, with the indexes of list items; empty without a field.
        is_whole: whether the reference is the whole text of the setting.
    """

    text: str
    key: str
    path: tuple[str | int, ...]
    is_whole: bool = True

    @property
    def field(self) -> str:
        """The path as text."""
        return ".".join(map(str, self.path))


def references_in(value: Any) -> Iterator[Reference]:
    """Return the references in settings, in their order."""
    if isinstance(value, Mapping):
        for each in value.values():
            yield from references_in(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from references_in(each)
    elif isinstance(value, str):
        yield from (_parsed(match) for match in _REFERENCE.finditer(value))


def resolve(value: Any, ids: Mapping[str, str], specs: Mapping[str, FrozenSpec]) -> Any:
    """Replace each reference that has a value; the value of a whole-text reference keeps its type.

    Args:
        value: the settings.
        ids: ids of the resources that have one.
        specs: settings of all resources, without cyclic references.
    """
    if isinstance(value, dict):
        return {key: resolve(each, ids, specs) for key, each in value.items()}
    if isinstance(value, list):
        return [resolve(each, ids, specs) for each in value]
    if not isinstance(value, str):
        return value
    whole = _REFERENCE.fullmatch(value)
    if whole is not None:
        found = _value(_parsed(whole), ids, specs)
        return value if found is MISSING else found
    return _REFERENCE.sub(lambda match: _text(match, _value(_parsed(match), ids, specs)), value)


def unresolved(value: Any) -> str | None:
    """Return the first unresolved reference in settings; None if there is none."""
    return next((reference.text for reference in references_in(value)), None)


def field_value(key: str, spec: Mapping[str, Any], path: tuple[str | int, ...]) -> Any:
    """Return the value of a field of a resource; MISSING if it is absent from its settings or null."""
    if key.startswith("volumes.") and path == ("volume_path",):
        return f"/Volumes/{spec.get('catalog_name')}/{spec.get('schema_name')}/{spec.get('name')}"
    found: Any = spec if path else MISSING
    for part in path:
        if isinstance(part, int):
            found = found[part] if isinstance(found, list) and part < len(found) else MISSING
        else:
            found = found.get(part, MISSING) if isinstance(found, Mapping) else MISSING
    return MISSING if found is None else found


def _parsed(match: re.Match[str]) -> Reference:
    parts = [int(part["index"]) if part["index"] else part["name"] for part in _PART.finditer(match["path"])]
    return Reference(
        text=match[0],
        key=".".join(map(str, parts[:2])),
        path=tuple(parts[2:]),
        is_whole=match[0] == match.string,
    )


def _value(reference: Reference, ids: Mapping[str, str], specs: Mapping[str, FrozenSpec]) -> Any:
    key = reference.key
    if reference.path == ("id",):
        found = ids.get(key, MISSING)
        return int(found) if found is not MISSING and key.startswith("jobs.") else found
    spec = specs.get(key)
    if spec is None:
        return MISSING
    return resolve(field_value(key, spec.as_dict(), reference.path), ids, specs)


def _text(match: re.Match[str], found: Any) -> str:
    if found is MISSING:
        return match[0]
    return str(found).lower() if isinstance(found, bool) else str(found)


def resolve_settings(
    kind: str, spec: dict[str, Any], ids: Mapping[str, str], specs: Mapping[str, FrozenSpec]
) -> dict[str, Any]:
    """Return settings with each reference replaced that has a value, and that value in the type of its field.

    Args:
        kind: of the resource.
        spec: its settings.
        ids: of the resources that have one.
        specs: of all resources; no two refer to each other in a circle.

    Examples:
        >>> specs = {"jobs.a": FrozenSpec.of({"max_concurrent_runs": 3})}
        >>> resolve_settings("jobs", {"tags": {"runs": "${resources.jobs.a.max_concurrent_runs}"}}, {}, specs)
        {'tags': {'runs': '3'}}
    """
    resolved: dict[str, Any] = resolve(spec, ids, specs)
    if resolved == spec:
        return resolved
    hints, _ = resource_types(kind)
    converted = FieldChecks(_ignore).struct(as_node(resolved, _NO_LOCATION), hints, frozenset(), kind)
    plain: dict[str, Any] = converted.plain()
    return plain


def _ignore(_: str, __: SourceLocation, **___: object) -> None:
    """A value that does not fit stays as it is, and the service refuses it."""
