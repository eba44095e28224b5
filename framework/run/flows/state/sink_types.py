"""The location of a sink, and a check that a Delta sink's column types can hold all values of the query."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from delta import DeltaTable

from framework.foundation.errors import OperationError
from framework.schema.change import schema_change
from framework.schema.lattice import TABLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from framework.declare.specs import DatasetSpec
    from framework.graph.graph import GraphDataset

_WIDENED = re.compile(r"tinyint|smallint|int|bigint|float|double|decimal\(.+\)|date|timestamp_ntz")


def check_sink_types(session: SparkSession, sink: GraphDataset, found: StructType) -> None:
    """Check that a Delta sink's table can hold all values of a query, before a row is written.

    Delta casts a stream's values to the types of its table: 10.25 becomes 10 in an integer column. The table belongs to
    the user, so it is not altered.

    Args:
        session: reads the table's columns.
        sink: a sink of any format.
        found: the columns of the query.

    Raises:
        OperationError: SINK_TYPE_TOO_NARROW.
    """
    path = {name.lower(): value for name, value in sink.spec.options}.get("path")
    if (sink.spec.format or "").lower() != "delta" or path is None or not DeltaTable.isDeltaTable(session, path):
        return
    stored = session.read.format("delta").load(path).schema
    change = schema_change(stored.jsonValue(), found.jsonValue())
    for each in (*change.widened, *change.retyped):
        narrow, wide = each.before or "", each.after or ""
        if _WIDENED.fullmatch(narrow) and _WIDENED.fullmatch(wide) and TABLE.wider(narrow, wide) != narrow:
            raise OperationError(
                "SINK_TYPE_TOO_NARROW",
                location=sink.spec.location,
                dataset=sink.name,
                path=path,
                column=each.name,
                stored=narrow,
                found=wide,
            )


def sink_place(spec: DatasetSpec) -> str:
    """Return the path, table or topic that a sink writes to; empty if it is unknown."""
    options = {name.lower(): value for name, value in spec.options}
    return next((f"{each}={options[each]}" for each in ("path", "tablename", "topic") if each in options), "")
