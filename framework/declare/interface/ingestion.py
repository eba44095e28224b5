"""Ingestion of database tables: `ingest_database`, in the words of Lakeflow Connect."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from framework.declare.interface.auto_cdc_arguments import flag_column
from framework.declare.interface.call import Call, declaration
from framework.declare.registry import active_registry
from framework.declare.specs import AutoFullRefreshPolicy, IngestedObject, IngestionSpec, TableConfiguration
from framework.foundation.nearest import nearest_name

SCD_TYPES = {"SCD_TYPE_1": 1, "SCD_TYPE_2": 2}
REFUSED_SCD_TYPES = ("APPEND_ONLY",)
"""Words of Lakeflow Connect without an exact equivalent here, each with its own condition."""
COLUMN_LISTS = ("primary_keys", "include_columns", "exclude_columns")
CONFIGURATION = ("scd_type", *COLUMN_LISTS, "sequence_by", "row_filter", "auto_full_refresh_policy")
"""The words of a table_configuration; a test checks that they equal the words of a bundle's ingestion spec."""
LOCAL_CONFIGURATION = ("text_columns", "soft_deletes")
"""Words of a table_configuration that only this call supports."""
_SCHEMA = ("source_schema", "destination_catalog", "destination_schema", "include", "exclude", "table_configuration")
_TABLE = (
    "source_schema",
    "source_table",
    "destination_catalog",
    "destination_schema",
    "destination_table",
    "table_configuration",
)
# The name is a part of names at the source, which have at most 63 of these characters.
_NAME = re.compile(r"[a-z][a-z0-9_]{0,55}")


@declaration
def ingest_database(
    name: str,
    connection: str,
    objects: Sequence[Mapping[str, Any]],
    *,
    table_configuration: Mapping[str, Any] | None = None,
    options: Mapping[str, str] | None = None,
) -> None:
    """Declare copies of database tables that follow their source, each with a snapshot flow and a change flow.

    The tables of a schema are listed when an update starts, so new tables are included without a change of the code.

    Args:
        name: name of the gateway, in lower-case letters, digits and underscores. The objects that it keeps at the
            source are named `sluice_<name>`; the table `<name>_changes` has the changes of all tables. The flows of a
            copy are `<copy>_snapshot_flow` and `<copy>_cdc_flow`.
        connection: name of the connection, see `docs/databases.md`.
        objects: a list of `{"table": {…}}` with source_schema, source_table, destination_catalog,
            destination_schema, destination_table, and of `{"schema": {…}}` with source_schema, destination_catalog,
            destination_schema, and lists of patterns include and exclude; each may have a table_configuration.
        table_configuration: for all tables: scd_type (SCD_TYPE_1 or SCD_TYPE_2), primary_keys, include_columns,
            exclude_columns, row_filter (a condition in Spark SQL), text_columns, soft_deletes (True or the name of a
            column that is true in deleted rows, which are then kept), auto_full_refresh_policy (a dict of enabled and
            min_interval_hours; default: 24). With this policy, an update reads a table again if its columns changed at
            the source in a way that a copy can't follow, at most once in that many hours.
        options: options of the sources `database_snapshot` and `database_changes`.

    Raises:
        UserError: INVALID_ARGUMENT.* for an invalid argument; INGESTION_SEQUENCE_BY, INGESTION_APPEND_ONLY,
            INGESTION_SOFT_DELETES_OF_HISTORY.
    """
    call = Call.of("ingest_database")
    common = _configuration(call, "table_configuration", table_configuration, TableConfiguration())
    spec = IngestionSpec(
        name=_name(call, name),
        connection=call.text("connection", connection),
        objects=_objects(call, objects, common),
        options=call.pairs("options", options),
        location=call.location,
    )
    active_registry().ingestions.append(spec)


def _name(call: Call, value: object) -> str:
    name = call.text("name", value)
    if _NAME.fullmatch(name) is None:
        call.wrong_value("name", name, "at most 56 lower-case letters, digits and underscores, beginning with a letter")
    return name


def _objects(call: Call, value: object, common: TableConfiguration) -> tuple[IngestedObject, ...]:
    if not isinstance(value, list | tuple) or not value:
        call.wrong_type("objects", value, "a list of tables and schemas that is not empty")
    found = []
    for index, entry in enumerate(value):
        argument = f"objects[{index}]"
        if not isinstance(entry, Mapping) or len(entry) != 1 or next(iter(entry)) not in ("table", "schema"):
            call.wrong_value(argument, entry, '{"table": {…}} or {"schema": {…}}')
        kind, fields = next(iter(entry.items()))
        found.append(_object(call, f"{argument}.{kind}", fields, common, is_table=kind == "table"))
    return tuple(found)


def _object(call: Call, argument: str, value: object, common: TableConfiguration, *, is_table: bool) -> IngestedObject:
    fields = _fields(call, argument, value, _TABLE if is_table else _SCHEMA)
    catalog, database = (
        call.optional_text(f"{argument}.{name}", fields.get(name))
        for name in ("destination_catalog", "destination_schema")
    )
    configuration = _configuration(call, f"{argument}.table_configuration", fields.get("table_configuration"), common)
    schema = call.text(f"{argument}.source_schema", fields.get("source_schema"))
    if is_table:
        return IngestedObject(
            source_schema=schema,
            source_table=call.text(f"{argument}.source_table", fields.get("source_table")),
            destination_table=call.optional_text(f"{argument}.destination_table", fields.get("destination_table")),
            configuration=configuration,
            destination_catalog=catalog,
            destination_schema=database,
        )
    return IngestedObject(
        source_schema=schema,
        include=_texts(call, f"{argument}.include", fields.get("include")),
        exclude=_texts(call, f"{argument}.exclude", fields.get("exclude")),
        configuration=configuration,
        destination_catalog=catalog,
        destination_schema=database,
    )


def _configuration(call: Call, argument: str, value: object, common: TableConfiguration) -> TableConfiguration:
    """Return the configuration of a table: its own settings, and the common ones for the rest."""
    if value is None:
        return common
    fields = _fields(call, argument, value, (*CONFIGURATION, *LOCAL_CONFIGURATION))
    if fields.get("sequence_by") is not None:
        raise call.fault("INGESTION_SEQUENCE_BY", argument=argument)
    lists = (*COLUMN_LISTS, "text_columns")
    own = {name: _texts(call, f"{argument}.{name}", fields[name]) for name in lists if fields.get(name) is not None}
    call.exclusive(**{f"{argument}.{name}": own.get(name) or None for name in ("include_columns", "exclude_columns")})
    if own.get("include_columns") or own.get("exclude_columns"):
        common = replace(common, include_columns=(), exclude_columns=())
    scd_type = _scd_type(call, f"{argument}.scd_type", fields.get("scd_type"), common.scd_type)
    return replace(
        common,
        scd_type=scd_type,
        soft_deletes=_soft_deletes(call, f"{argument}.soft_deletes", fields, common, scd_type),
        row_filter=call.optional_text(f"{argument}.row_filter", fields.get("row_filter")) or common.row_filter,
        auto_full_refresh_policy=_policy(call, f"{argument}.auto_full_refresh_policy", fields, common),
        **own,
    )


def _scd_type(call: Call, argument: str, value: object, common: int) -> int:
    if value in REFUSED_SCD_TYPES:
        raise call.fault("INGESTION_APPEND_ONLY", argument=argument)
    if value is not None and value not in SCD_TYPES:
        call.wrong_value(argument, value, " or ".join(SCD_TYPES))
    return common if value is None else SCD_TYPES[str(value)]


def _soft_deletes(
    call: Call, argument: str, configuration: Mapping[str, Any], common: TableConfiguration, scd_type: int
) -> str | None:
    """Return the column that flags deleted rows; tables with a history keep deleted rows without such a column."""
    own = flag_column(call, argument, configuration.get("soft_deletes"))
    if scd_type == 1:
        return common.soft_deletes if configuration.get("soft_deletes") is None else own
    if own is not None:
        raise call.fault("INGESTION_SOFT_DELETES_OF_HISTORY", argument=argument)
    return None


def _policy(
    call: Call, argument: str, configuration: Mapping[str, Any], common: TableConfiguration
) -> AutoFullRefreshPolicy:
    value = configuration.get("auto_full_refresh_policy")
    if value is None:
        return common.auto_full_refresh_policy
    fields = _fields(call, argument, value, ("enabled", "min_interval_hours"))
    enabled, hours = fields.get("enabled"), fields.get("min_interval_hours", 24)
    if not isinstance(enabled, bool):
        call.wrong_type(f"{argument}.enabled", enabled, "a bool")
    if isinstance(hours, bool) or not isinstance(hours, int):
        call.wrong_type(f"{argument}.min_interval_hours", hours, "an int")
    if hours < 0:
        call.wrong_value(f"{argument}.min_interval_hours", hours, "a number of hours from 0")
    return AutoFullRefreshPolicy(enabled=enabled, min_interval_hours=hours)


def _texts(call: Call, argument: str, value: object) -> tuple[str, ...]:
    """Return a list of names as the database has them; unlike other texts, they may begin or end with spaces."""
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        call.wrong_type(argument, value, "a list of str")
    for index, text in enumerate(value):
        call.text(f"{argument}[{index}]", text)
    call.refuse_repeats(argument, tuple(value))
    return tuple(value)


def _fields(call: Call, argument: str, value: object, known: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        call.wrong_type(argument, value, "a dict")
    for name in value:
        if name not in known:
            near = nearest_name(str(name), known)
            advice = f"Did you mean `{near}`?" if near else f"Valid are: {', '.join(known)}."
            raise call.fault("INVALID_ARGUMENT.UNKNOWN", argument=f"{argument}.{name}", advice=advice)
    return dict(value)
