"""Declarations of a module as lines of text, to compare with the module."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from framework.declare.registry import Registry
from framework.foundation.locations import SourceLocation
from framework.foundation.names import QualifiedName


def render_registry(registry: Registry) -> str:
    """Return the lines of every dataset, flow, hook and function, without fields that have their default."""
    lines: list[str] = []
    for kind, specs in (("dataset", registry.datasets), ("flow", registry.flows), ("hook", registry.hooks)):
        for spec in specs:
            lines += [f"{kind} {spec.name}", *(f"  {line}" for line in _fields(spec))]
    functions = {
        "query": registry.queries,
        "snapshots": registry.snapshot_functions,
        "batches": registry.batch_functions,
        "hook": registry.hook_functions,
    }
    for kind, found in functions.items():
        lines += [f"function {kind} {name} = {function.__name__}" for name, function in found.items()]  # type: ignore[attr-defined]
    return "\n".join(lines)


def _fields(spec: Any) -> Iterator[str]:
    for field in dataclasses.fields(spec):
        value = getattr(spec, field.name)
        if field.name == "name" or (value == field.default and field.default is not dataclasses.MISSING):
            continue
        if dataclasses.is_dataclass(value) and not isinstance(value, QualifiedName | SourceLocation):
            yield f"{field.name}:"
            yield from (f"  {line}" for line in _fields(value))
        elif field.name == "expectations":
            for each in value:
                yield f"expectation {each.name!r} {each.action}: {each.condition} (line {each.location.line})"
        elif isinstance(value, SourceLocation):
            yield f"line: {value.line}"
        else:
            yield f"{field.name}: {value if isinstance(value, QualifiedName) else repr(value)}"
