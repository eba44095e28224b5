"""Secret values in settings, hidden behind a short digest: what is told or kept of them shows only a change."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from framework.deploy.bundle import FrozenSpec

_SECRET = re.compile(r"secret|password|passwd|token|credential|access.?key|private.?key|api.?key|jaas", re.IGNORECASE)
_HARMLESS = re.compile(r"\{\{secrets/[^{}]*\}\}|hidden:[0-9a-f]{8}|\$\{resources\.[^{}]*\}")
_NAMED_VALUES = ("default", "value")


def hide_secrets(value: Any) -> Any:
    """Settings whose secret values are hidden: those whose name says so, and of parameters with such a name.

    A reference to a secret of the workspace stays, for it is none; hiding twice is hiding once.

    Examples:
        >>> hide_secrets({"db.password": "hunter2", "other": 1, "api_key": "{{secrets/s/k}}"})
        {'db.password': 'hidden:4ddbb67b', 'other': 1, 'api_key': '{{secrets/s/k}}'}
    """
    if isinstance(value, Mapping):
        named = bool(_SECRET.search(str(value.get("name", ""))))
        return {
            key: _hidden(each) if _SECRET.search(key) or (named and key in _NAMED_VALUES) else hide_secrets(each)
            for key, each in value.items()
        }
    return [hide_secrets(each) for each in value] if isinstance(value, list) else value


def hidden_spec(spec: FrozenSpec) -> FrozenSpec:
    """Settings as they may be kept."""
    return FrozenSpec.of(hide_secrets(spec.as_dict())) if _SECRET.search(spec.text) else spec


def _hidden(value: Any) -> Any:
    """A digest of a text or a number; what holds other settings is looked into."""
    if isinstance(value, Mapping | list):
        return hide_secrets(value)
    if value is None or isinstance(value, bool) or (isinstance(value, str) and _HARMLESS.fullmatch(value)):
        return value
    return f"hidden:{hashlib.sha256(json.dumps(value).encode('utf-8')).hexdigest()[:8]}"
