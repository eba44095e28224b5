"""The tables that the objects of an ingestion select, by name or from a source schema, with their copies."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from framework.foundation.names import QualifiedName
from framework.sources.databases.tables import TableName

if TYPE_CHECKING:
    from framework.declare.specs import IngestedObject, IngestionSpec
    from framework.sources.databases.source_session import SourceSession

SCHEMA_MISSING = "DATABASE_SCHEMA_MISSING"
"""A schema that no update has found has a wrong name; a dropped schema fails only its own tables."""


def declared_tables(source: SourceSession, spec: IngestionSpec) -> Iterator[tuple[IngestedObject, TableName]]:
    """Yield the source tables of an ingestion with their objects; a table that is declared by name may not exist.

    Raises:
        SourceError: DATABASE_SCHEMA_MISSING.
    """
    for each in spec.objects:
        yield from object_tables(source, each)


def object_tables(source: SourceSession, each: IngestedObject) -> Iterator[tuple[IngestedObject, TableName]]:
    """Yield the source tables of an object of an ingestion, with the object.

    Raises:
        SourceError: DATABASE_SCHEMA_MISSING.
    """
    if each.source_table is not None:
        yield each, TableName(schema=each.source_schema, table=each.source_table)
    else:
        yield from ((each, name) for name in source.list_tables([each.source_schema]) if takes_table(each, name))


def target_of(each: IngestedObject, name: TableName, *, catalog: str, schema: str) -> QualifiedName:
    """Return the name of a table's copy. Names of datasets are in lower case, as the query `copies.Orders` reads them.

    Args:
        each: the object of the ingestion that the table belongs to.
        name: the source table.
        catalog: the catalog of copies without one.
        schema: the schema of copies without one.
    """
    return QualifiedName(
        catalog=(each.destination_catalog or catalog).lower(),
        schema=(each.destination_schema or schema).lower(),
        table=(each.destination_table or name.table).lower(),
    )


def takes_table(each: IngestedObject, name: TableName) -> bool:
    """Whether the patterns of an object of an ingestion select a table of its schema."""
    included = not each.include or any(fnmatchcase(name.table, pattern) for pattern in each.include)
    return included and not any(fnmatchcase(name.table, pattern) for pattern in each.exclude)
