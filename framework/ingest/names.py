"""Names of the objects that an ingestion creates: at the source, and in the pipeline."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from framework.foundation.names import QualifiedName
from framework.sources.databases.source_session import LogName

if TYPE_CHECKING:
    from framework.declare.registry import Registry
    from framework.declare.specs import IngestionSpec

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")


def log_name(spec: IngestionSpec) -> LogName:
    """Return the names of an ingestion at its source: the options `slot` and `publication`, or `sluice_<name>`."""
    options = dict(spec.options)
    position = options.get("slot") or f"sluice_{spec.name}"
    return LogName(position=position, tables=options.get("publication") or position)


def changes_name(spec: IngestionSpec, registry: Registry) -> QualifiedName:
    """Return the name of the table with the changes of all tables."""
    return registry.name(f"{spec.name}_changes")


def snapshot_flow_name(target: QualifiedName) -> QualifiedName:
    """Return the name of the flow that reads the rows of a table into a copy."""
    return _flow_name(target, "snapshot_flow")


def change_flow_name(target: QualifiedName) -> QualifiedName:
    """Return the name of the flow that applies the changes of a table to a copy."""
    return _flow_name(target, "cdc_flow")


def file_name(name: str) -> str:
    """Return a name that is safe on every file system and unique for each name."""
    text = _UNSAFE.sub(lambda match: f"~{match.group().encode('utf-8').hex()}", name)
    return f"~2e{text[1:]}" if text.startswith(".") else text


def name_json(name: QualifiedName) -> list[str]:
    """Return a name as JSON."""
    return [name.catalog, name.schema, name.table]


def name_of_json(parts: Sequence[str]) -> QualifiedName:
    """Return the name from its JSON."""
    catalog, schema, table = parts
    return QualifiedName(catalog=catalog, schema=schema, table=table)


def _flow_name(target: QualifiedName, suffix: str) -> QualifiedName:
    return QualifiedName(catalog=target.catalog, schema=target.schema, table=f"{target.table}_{suffix}")
