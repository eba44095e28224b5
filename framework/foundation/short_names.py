"""Names for eyes: what all names have in common is left out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from framework.foundation.names import QualifiedName


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortNames:
    """How to print the names of one pipeline: without the catalog, or catalog and schema, they share.

    Examples:
        >>> names = [QualifiedName(catalog="main", schema="sales", table=table) for table in ("a", "b")]
        >>> short = ShortNames.of(names)
        >>> short(names[0]), short.prefix
        ('a', 'main.sales')
    """

    catalog: str | None = None
    schema: str | None = None

    @classmethod
    def of(cls, names: Iterable[QualifiedName]) -> ShortNames:
        """The shortest way to print `names` that keeps each of them apart from the others."""
        every = tuple(names)
        catalogs = {name.catalog for name in every}
        schemas = {(name.catalog, name.schema) for name in every}
        if len(catalogs) != 1:
            return cls()
        catalog = next(iter(catalogs))
        return cls(catalog=catalog, schema=next(iter(schemas))[1] if len(schemas) == 1 else None)

    @property
    def prefix(self) -> str:
        """What is left out, as text; empty when nothing is."""
        return ".".join(part for part in (self.catalog, self.schema) if part is not None)

    def __call__(self, name: QualifiedName) -> str:
        """The short form of `name`; a name of another catalog or schema keeps what tells it apart."""
        if name.catalog != self.catalog:
            return str(name)
        if name.schema != self.schema:
            return f"{name.schema}.{name.table}"
        return name.table
