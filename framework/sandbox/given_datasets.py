"""The datasets whose rows a test gives: the types of their columns, and the datasets that only feed them."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from framework.cdc.model.reserved_names import HIDDEN_COLUMN
from framework.declare.registry import Registry
from framework.declare.specs import DatasetSpec
from framework.engine.plans.relations import stand_in
from framework.foundation.errors import SluiceError, UserError
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph
from framework.graph.queries.calls import SPARK_ERRORS, call_query
from framework.graph.reading.interception import reading
from framework.graph.target_tables.declared_schema import parse_schema
from framework.sources.cloud_files.columns.schemas import SchemaStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Resolve = Callable[[QualifiedName], DataflowGraph]


def column_types(spec: DatasetSpec, spark: SparkSession, resolve: Resolve) -> StructType | None:
    """Return the columns of a dataset: as declared, or as its own flows define them; None if they are unknown.

    Args:
        spec: the dataset.
        spark: the session.
        resolve: resolves the dataset with its own flows.
    """
    with suppress(SluiceError, *SPARK_ERRORS):
        declared = parse_schema(spec, stand_in(spark, StructType(), streaming=False))
        if declared is not None:
            return declared
        dataset = resolve(spec.name).dataset(spec.name)
        if dataset is not None and dataset.schema is not None:
            columns = StructType.fromJson(json.loads(dataset.schema))
            return StructType([each for each in columns.fields if each.name != HIDDEN_COLUMN])
    return None


def only_feeding(given: Collection[QualifiedName], registry: Registry, spark: SparkSession) -> frozenset[QualifiedName]:
    """Return the datasets that given ones would read, directly or not.

    They are not updated unless another dataset reads them. A query is called until it needs a column, so a read after
    that is not found.

    Args:
        given: the datasets whose rows are given.
        registry: the declarations, with the flows of given datasets.
        spark: the session.
    """
    found: set[QualifiedName] = set()
    waiting = [*given]
    while waiting:
        reads = _ReadNames(registry=registry, spark=spark).of(waiting.pop())
        waiting += [name for name in reads if name not in found and name not in given]
        found.update(reads)
    return frozenset(found.difference(given))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _ReadNames:
    """The names that the flows into a dataset read; it takes the reads of a query in place of tables."""

    registry: Registry
    spark: SparkSession
    names: list[str] = field(default_factory=list)

    def of(self, dataset: QualifiedName) -> list[QualifiedName]:
        """Return the datasets that the flows into a dataset read."""
        for flow in self.registry.flows:
            if flow.target != dataset:
                continue
            self.names.extend([flow.source] if flow.source is not None else [])
            query = self.registry.queries.get(flow.name)
            if query is not None:
                with suppress(SluiceError, *SPARK_ERRORS), reading(self):
                    call_query(query, flow.name, flow.location)
        known = {spec.name for spec in self.registry.datasets}
        return [name for name in map(self._full, dict.fromkeys(self.names)) if name in known and name != dataset]

    def _full(self, name: str) -> QualifiedName | None:
        with suppress(UserError):
            return self.registry.name(name)
        return None

    def read(self, spark: SparkSession, name: str, options: Mapping[str, str], *, streaming: bool) -> DataFrame:
        """Note a name, and return a table without columns."""
        del options
        self.names.append(name)
        return stand_in(spark, StructType(), streaming=streaming)

    def is_view(self, name: str) -> bool:
        """Whether a name is a temporary view, which makes no difference here."""
        del name
        return False

    def schemas(self) -> SchemaStore:
        """Folders of files are not looked at."""
        raise UserError("TEST_INPUT_INVALID", source="a folder", cause="its columns are not looked at")
