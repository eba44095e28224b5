"""Short spec of a database ingestion: source, gateway, tables, schedules, targets; faults have locations.

The names come from Lakeflow Connect where it has one. Omitted fields have their defaults here, so that every name is
defined in a template.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from framework.deploy.bundle.documents.nodes import Node
from framework.deploy.ingestion.spec_fields import SpecFields
from framework.foundation.errors import UserError
from framework.foundation.nearest import nearest_hint

SCD_TYPES = ("SCD_TYPE_1", "SCD_TYPE_2", "APPEND_ONLY")
_DAY = 86_400
_YEAR_HOURS = 366 * 24
# The bounds that gateways accept for the interval of progress events, and the service's default.
_PROGRESS_SECONDS = (30, 3600)
_PROGRESS_DEFAULT = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The source database: its Unity Catalog connection and its name."""

    connection: str
    database: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """Settings of the gateway; `cluster` has fields of its cluster by the service's names."""

    progress_event_frequency_seconds: int
    cluster: Mapping[str, Any]
    tags: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A source table and the settings of its ingestion."""

    name: str
    schema: str
    primary_keys: tuple[str, ...]
    scd_type: str
    sequence_by: tuple[str, ...]
    include_columns: tuple[str, ...]
    exclude_columns: tuple[str, ...]
    row_filter: str | None
    auto_full_refresh_policy: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Schedule that refreshes some of the tables, as a separate job."""

    name: str
    cron: str
    timezone: str
    tables: tuple[str, ...]
    retries: int
    retry_delay_seconds: int
    timeout_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A target of the bundle that contains only this ingestion.

    Args:
        suffix: suffix of the names of its pipelines and jobs.
        tables: the tables that it ingests.
    """

    name: str
    suffix: str
    mode: str | None
    root_path: str
    catalog: str
    schema: str
    staging_schema: str
    tables: tuple[str, ...]
    paused: bool
    prevent_destroy: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestionSpec:
    """A whole spec; `template` is the name of its template."""

    name: str
    template: str
    source: Source
    gateway: Gateway
    tables: tuple[Table, ...]
    schedules: tuple[Schedule, ...]
    notify_on_failure: tuple[str, ...]
    targets: tuple[Target, ...]

    def values(self) -> dict[str, Any]:
        """Return the values for a template, as plain values."""
        return asdict(self)


def read_ingestion_spec(tree: Node, name: str) -> IngestionSpec:
    """Read the spec of a file; `name` is the file's name, from which the names of resources are derived.

    Raises:
        UserError: the first fault, with file, line and column.
    """
    if re.fullmatch(r"[a-z]\w*", name, re.ASCII) is None:
        expected = "lowercase letters, digits and underscores, because resource names are derived from it"
        raise UserError("BUNDLE_FIELD_RANGE", location=tree.location, field="file name", value=name, expected=expected)
    fields = SpecFields(tree, "the spec")
    source = fields.below("source")
    tables = _tables(fields)
    known = tuple(table.name for table in tables)
    spec = IngestionSpec(
        name=name,
        template=fields.text("template"),
        source=Source(
            connection=source.text("connection"),
            database=source.text("database"),
            kind=source.choice("kind", ("sqlserver", "postgresql", "mysql"), default="sqlserver"),
        ),
        gateway=_gateway(fields.below("gateway", optional=True)),
        tables=tables,
        schedules=tuple(_schedule(key, node, known) for key, node in fields.entries("schedules")),
        notify_on_failure=fields.texts("notify_on_failure"),
        targets=tuple(_target(key, node, known, name) for key, node in fields.entries("targets")),
    )
    source.refuse_others()
    fields.refuse_others()
    return spec


def _gateway(fields: SpecFields) -> Gateway:
    low, high = _PROGRESS_SECONDS
    gateway = Gateway(
        progress_event_frequency_seconds=fields.number(
            "progress_event_frequency_seconds", low, high, default=_PROGRESS_DEFAULT
        ),
        cluster=fields.mapping("cluster"),
        tags=fields.mapping("tags"),
    )
    fields.refuse_others()
    return gateway


def _tables(fields: SpecFields) -> tuple[Table, ...]:
    found: dict[str, Table] = {}
    for key, node in fields.entries("tables"):
        table = _table(key, node)
        if table.name in found:
            raise UserError("BUNDLE_SPEC_TABLE_TWICE", location=node.location, name=table.name)
        found[table.name] = table
    return tuple(found.values())


def _table(key: str, node: Node) -> Table:
    """Read a table with the key `schema.table`, or `table` in the schema dbo."""
    fields = SpecFields(node, f"table {key}")
    schema, _, name = key.rpartition(".")
    table = Table(
        name=name,
        schema=schema or "dbo",
        primary_keys=fields.texts("primary_keys"),
        scd_type=fields.choice("scd_type", SCD_TYPES, default="SCD_TYPE_1"),
        sequence_by=fields.texts("sequence_by"),
        include_columns=fields.texts("include_columns"),
        exclude_columns=fields.texts("exclude_columns"),
        row_filter=fields.text("row_filter", default="") or None,
        auto_full_refresh_policy=_policy(fields.below("auto_full_refresh_policy", optional=True)),
    )
    fields.refuse_others()
    if table.include_columns and table.exclude_columns:
        location = node.value["exclude_columns"].location
        raise UserError("BUNDLE_SPEC_COLUMNS", location=location, table=key)
    return table


def _policy(fields: SpecFields) -> dict[str, Any]:
    """Read when a table is read again by itself; empty if the spec does not say it."""
    enabled = fields.flag("enabled", default=False)
    hours = fields.number("min_interval_hours", 0, _YEAR_HOURS, default=24)
    fields.refuse_others()
    return {"enabled": True, "min_interval_hours": hours} if enabled else {}


def _schedule(key: str, node: Node, known: tuple[str, ...]) -> Schedule:
    fields = SpecFields(node, f"schedule {key}")
    schedule = Schedule(
        name=key,
        cron=fields.text("cron"),
        timezone=fields.text("timezone", default="UTC"),
        tables=_known_tables(fields, known),
        retries=fields.number("retries", 0, 100, default=2),
        retry_delay_seconds=fields.number("retry_delay_seconds", 0, _DAY, default=300),
        timeout_seconds=fields.number("timeout_seconds", 0, 30 * _DAY, default=0),
    )
    fields.refuse_others()
    return schedule


def _target(key: str, node: Node, known: tuple[str, ...], name: str) -> Target:
    fields = SpecFields(node, f"target {key}")
    schema = fields.text("schema")
    target = Target(
        name=key,
        suffix=fields.text("suffix", default=""),
        mode="production" if fields.choice("mode", ("production", "none"), default="none") == "production" else None,
        root_path=fields.text("root_path", default=f"/Workspace/Shared/.bundle/${{bundle.name}}/{key}"),
        catalog=fields.text("catalog"),
        schema=schema,
        staging_schema=fields.text("staging_schema", default=f"{name}_staging"),
        tables=_known_tables(fields, known),
        paused=fields.flag("paused", default=False),
        prevent_destroy=fields.flag("prevent_destroy", default=True),
    )
    fields.refuse_others()
    return target


def _known_tables(fields: SpecFields, known: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the listed tables, without schema; all tables if the list is empty."""
    named = fields.text_nodes("tables")
    for node in named:
        if node.value not in known:
            hint = nearest_hint(str(node.value), known)
            raise UserError("BUNDLE_SPEC_TABLE_UNKNOWN", location=node.location, name=node.value, hint=hint)
    return tuple(str(node.value) for node in named) or known
