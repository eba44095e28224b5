"""`${resources.KIND.NAME.FIELD}` in settings: an edge between resources, given its value when ids are known."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from framework.deploy.bundle import FrozenSpec

_REFERENCE = re.compile(r"\$\{resources\.(?P<key>\w+\.[\w-]+)\.(?P<field>\w+)\}")


def resolve(value: Any, ids: Mapping[str, str], specs: Mapping[str, FrozenSpec]) -> Any:
    """Settings with each reference replaced that has a value; one that is the whole text keeps its type."""
    if isinstance(value, dict):
        return {key: resolve(each, ids, specs) for key, each in value.items()}
    if isinstance(value, list):
        return [resolve(each, ids, specs) for each in value]
    if not isinstance(value, str):
        return value
    whole = _REFERENCE.fullmatch(value)
    if whole is not None:
        found = _value(whole, ids, specs)
        return value if found is None else found
    return _REFERENCE.sub(lambda match: _text(match, _value(match, ids, specs)), value)


def unresolved(value: Any) -> str | None:
    """The first reference in settings that has no value yet."""
    match = _REFERENCE.search(FrozenSpec.of({"value": value}).text)
    return None if match is None else match[0]


def _value(match: re.Match[str], ids: Mapping[str, str], specs: Mapping[str, FrozenSpec]) -> Any:
    key, field = match["key"], match["field"]
    if field == "id":
        found = ids.get(key)
        return int(found) if found is not None and key.startswith("jobs.") else found
    spec = specs.get(key)
    return None if spec is None else spec.as_dict().get(field)


def _text(match: re.Match[str], found: Any) -> str:
    return match[0] if found is None else str(found)
