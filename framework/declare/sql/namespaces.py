"""The catalog and schema that USE sets in a SQL file, for the names in later statements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SCHEMA = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    """The catalog and schema for names of fewer than three parts; None stands for the pipeline's own."""

    catalog: str | None = None
    schema: str | None = None

    def using_catalog(self, catalog: str) -> Namespace:
        """Return the namespace after USE CATALOG, which selects the schema `default`."""
        return Namespace(catalog=catalog, schema=_SCHEMA)

    def using(self, parts: Sequence[str]) -> Namespace:
        """Return the namespace after USE of a schema, or of a catalog and a schema."""
        return Namespace(catalog=parts[-2] if len(parts) > 1 else self.catalog, schema=parts[-1])

    def full(self, parts: Sequence[str]) -> list[str]:
        """Return the parts of a name, completed with the parts that USE sets; a name of `LIVE` is unchanged.

        Examples:
            >>> Namespace(schema="sales").full(["orders"]), Namespace(catalog="dev", schema="s").full(["a", "orders"])
            (['sales', 'orders'], ['dev', 'a', 'orders'])
        """
        if len(parts) > 1 and parts[0].strip("`").lower() == "live":
            return [*parts]
        found = [*parts] if len(parts) > 1 or self.schema is None else [self.schema, *parts]
        return found if len(found) != 2 or self.catalog is None else [self.catalog, *found]


OF_PIPELINE = Namespace()
"""The namespace of a file without USE."""

_current: ContextVar[Namespace | None] = ContextVar("sluice_namespace", default=None)


@contextmanager
def namespace_of_query(namespace: Namespace | None) -> Iterator[None]:
    """Resolve the names of `spark.sql` in a namespace, in the block's own thread."""
    token = _current.set(namespace)
    try:
        yield
    finally:
        _current.reset(token)


def current_namespace() -> Namespace | None:
    """Return the namespace of the running query of a SQL file; None without USE, and for Python."""
    return _current.get()


def rows(spark: SparkSession, text: str, catalog: str | None, schema: str | None) -> DataFrame:
    """Return the rows of a query that follows USE in a SQL file."""
    with namespace_of_query(Namespace(catalog=catalog, schema=schema)):
        return spark.sql(text)
