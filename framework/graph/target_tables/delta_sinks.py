"""Delta sinks that name a table, as in Databricks' documentation: finds the folder that they write to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from framework.declare.registry import Registry
from framework.declare.specs import DatasetKind, DatasetSpec
from framework.foundation.errors import UserError
from framework.graph.target_tables.tables import KnownTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TABLE, _PATH = "tablename", "path"


def place_sinks(registry: Registry, tables: KnownTables, spark: SparkSession) -> None:
    """Set the folder of each Delta sink with `tableName` to the folder where the pipeline's queries find that table.

    Args:
        registry: the declarations; a sink with a folder is not changed.
        tables: the tables that exist.
        spark: the session, whose catalogs may have the table.
    """
    registry.datasets[:] = [_placed(spec, registry, tables, spark) for spec in registry.datasets]


def _placed(spec: DatasetSpec, registry: Registry, tables: KnownTables, spark: SparkSession) -> DatasetSpec:
    name = _table_of(spec)
    with suppress(UserError):  # `delta_sinks` reports an invalid name
        if name is not None:
            rest = tuple(pair for pair in spec.options if pair[0].lower() != _TABLE)
            return replace(spec, options=(*rest, (_PATH, tables.place_of(registry.name(name), spark))))
    return spec


def _table_of(spec: DatasetSpec) -> str | None:
    """Return the name of the table of a Delta sink without a folder; None for any other dataset."""
    options = {name.lower(): value for name, value in spec.options}
    return options.get(_TABLE) if _is_delta(spec) and _PATH not in options else None


def _is_delta(spec: DatasetSpec) -> bool:
    return spec.kind is DatasetKind.SINK and (spec.format or "").lower() == "delta"


def delta_sinks(registry: Registry) -> Iterator[UserError]:
    """A Delta sink has a folder, or the name of a table that is no dataset of the pipeline."""
    for spec in filter(_is_delta, registry.datasets):
        name = _table_of(spec)
        if name is None:
            if _PATH not in {key.lower() for key, _ in spec.options}:
                yield UserError("DELTA_SINK_WITHOUT_PATH", location=spec.location, dataset=spec.name)
            continue
        try:
            table = registry.name(name)
        except UserError as error:
            yield UserError(error.condition, location=spec.location, **error.fields)
            continue
        if any(other.name == table and other is not spec for other in registry.datasets):
            yield UserError("DELTA_SINK_INTO_DATASET", location=spec.location, dataset=spec.name, table=table)
