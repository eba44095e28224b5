"""Stand-ins of datasets: DataFrames with the columns of a dataset and no rows."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from framework.engine.plans.plans import of_plan
from framework.engine.plans.relations import aliased, empty_relation, fresh_columns, stand_in
from framework.foundation.names import QualifiedName
from framework.graph.reading.schemas import with_change_feed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StandIns:
    """Stand-ins of datasets; each read gets its own instance, so a dataset can be joined with itself.

    As for a catalog table, the columns of two reads have different expression identifiers.
    """

    spark: SparkSession
    _relations: dict[tuple[QualifiedName, bool, bool], Any] = field(default_factory=dict)
    _without_columns: list[DataFrame] = field(default_factory=list)

    def read(self, name: QualifiedName, schema: str | None, *, change_feed: bool, streaming: bool) -> DataFrame:
        """Return a DataFrame without rows for one read of a dataset with a schema, given as JSON."""
        key = (name, change_feed, streaming)
        if key not in self._relations:
            struct = StructType.fromJson(json.loads(schema or "{}"))
            struct = with_change_feed(struct) if change_feed else struct
            self._relations[key] = empty_relation(struct, streaming=streaming)
        return of_plan(self.spark, aliased(fresh_columns(self._relations[key]), name.catalog, name.schema, name.table))

    def without_columns(self) -> DataFrame:
        """Return the frame of a flow whose query is not analysed."""
        if not self._without_columns:
            self._without_columns.append(stand_in(self.spark, StructType(), streaming=False))
        return self._without_columns[0]
