"""Preflight of ingestions: finds what is missing in their databases before any update reads or writes there.

It also finds passwords in `connections.yml` that others can read, or that Git would commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from framework.declare.specs import IngestionSpec, TableConfiguration
from framework.foundation.errors import SluiceError, UserError
from framework.foundation.wording import bytes_text, seconds_text
from framework.ingest.connections import named_connection
from framework.ingest.names import log_name
from framework.ingest.preflight_result import Preflight
from framework.ingest.tables.copied_columns import refuse_cased
from framework.ingest.tables.expansion import connections_folder
from framework.ingest.tables.objects import declared_tables
from framework.sources.databases.dialects import dialect_of
from framework.sources.databases.exposure import check_exposure
from framework.sources.databases.findings import PreflightFinding, Severity

if TYPE_CHECKING:
    from framework.ingest.progress import Sizes
    from framework.sources.databases.dialect import Dialect
    from framework.sources.databases.source_session import LogReach, SourceSession
    from framework.sources.databases.tables import TableName


_BYTES_PER_SECOND = 10_000_000
"""The rate at which tables are read, for the estimate before anything is read: slower than measured on two cores."""


def check_ingestions(ingestions: Sequence[IngestionSpec], folder: Path) -> tuple[Preflight, ...]:
    """Check each ingestion at its database; nothing is changed.

    Args:
        ingestions: the declared ingestions.
        folder: the folder of the spec, with `connections.yml`.
    """
    results, checked = [], set()
    for spec in ingestions:
        found, connections = _check(spec, folder), connections_folder(spec, folder)
        if connections not in checked:  # several ingestions may share a file
            found = replace(found, findings=(*found.findings, *_exposures(connections)))
        checked.add(connections)
        results.append(found)
    return tuple(results)


def _exposures(folder: Path) -> tuple[PreflightFinding, ...]:
    """Return the warnings about a folder's `connections.yml`; none if it is invalid, which fails the connection."""
    try:
        return check_exposure(folder)
    except UserError:
        return ()


def _check(spec: IngestionSpec, folder: Path) -> Preflight:
    log, folder = log_name(spec), connections_folder(spec, folder)
    names: tuple[TableName, ...] = ()
    try:
        dialect = dialect_of(connection := named_connection(spec.connection, str(folder)))
        with dialect.open(connection) as source:
            declared = {name: each.configuration for each, name in declared_tables(source, spec)}
            names = tuple(declared)
            findings = (
                *source.check(names, log),
                *_cased_columns(dialect, source, declared),
                *_short_log(source.read_sizes(names), source.log_reach(None, log)),
            )
    except SluiceError as error:  # an unknown schema, a server that does not answer
        findings = (_finding(error),)
    return Preflight(gateway=spec.name, tables=names, findings=findings)


def _short_log(sizes: Sizes, reach: LogReach) -> Iterator[PreflightFinding]:
    """Yield a finding if the log is kept for less time than reading all tables is estimated to take."""
    size = sum(each for _, each in sizes.values())
    seconds = size / _BYTES_PER_SECOND
    if reach.kept_seconds is not None and seconds > reach.kept_seconds:
        yield PreflightFinding.of(
            "DATABASE_LOG_SHORTER_THAN_SNAPSHOT",
            Severity.WARNING,
            size=bytes_text(size),
            estimate=seconds_text(seconds),
            rate=bytes_text(_BYTES_PER_SECOND),
            kept=seconds_text(reach.kept_seconds),
            setting=reach.setting,
        )


def _cased_columns(
    dialect: Dialect, source: SourceSession, tables: Mapping[TableName, TableConfiguration]
) -> Iterator[PreflightFinding]:
    """Yield a finding for each table that an update would refuse because its columns differ in letter case only."""
    for name, table in source.read_tables(tuple(tables)).items():
        if isinstance(table, SluiceError):  # `check` reports it as a finding
            continue
        configuration = tables[name]
        names = [column.name for column in table.columns]
        copied = {*(configuration.primary_keys or table.key), *(configuration.include_columns or names)}
        copied -= {*configuration.exclude_columns}
        try:
            refuse_cased(dialect, name, [each for each in names if configuration.row_filter or each in copied])
        except UserError as error:
            yield _finding(error, name)


def _finding(error: SluiceError, table: TableName | None = None) -> PreflightFinding:
    return PreflightFinding(
        condition=error.condition, severity=Severity.ERROR, what=error.what, remedy=error.remedy, table=table
    )
