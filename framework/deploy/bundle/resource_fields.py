"""Fields of a bundle's resources that its other resources refer to."""

from __future__ import annotations

import re
from typing import Any

from framework.deploy.bundle.bundle import Bundle

_REFERENCE = re.compile(r"\$\{resources\.([^.{}]+\.[^.{}]+)\.([^.{}]+)\}")
_DEPTH = 8
"""How often a field may itself refer to another one: more would be a cycle."""


def with_declared_fields(value: Any, bundle: Bundle) -> Any:
    """Return a value whose references to fields that the bundle declares, such as a schema's name, are resolved.

    Fields that only a workspace has, such as ids, stay references.

    Args:
        value: a setting of a resource: a text, a list, a mapping, or any other value.
        bundle: the resolved target of the bundle.
    """
    if isinstance(value, dict):
        return {key: with_declared_fields(each, bundle) for key, each in value.items()}
    if isinstance(value, list):
        return [with_declared_fields(each, bundle) for each in value]
    if not isinstance(value, str):
        return value
    fields = {each.key: each.spec.as_dict() for each in bundle.resources} if _REFERENCE.search(value) else {}
    for _ in range(_DEPTH):
        text = _REFERENCE.sub(lambda found: _field(fields, found), value)
        if text == value:
            break
        value = text
    return value


def _field(fields: dict[str, dict[str, Any]], found: re.Match[str]) -> str:
    """The value of a field as a text; the reference itself if the bundle has no such field, or no text there."""
    value = fields.get(found[1], {}).get(found[2])
    return value if isinstance(value, str) else found[0]
