"""Tables that the pipeline does not declare, in a sandbox: Delta tables with the rows that a test has given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from framework.declare.inputs import SourceRead
from framework.declare.registry import Registry
from framework.engine.plans.relations import named
from framework.foundation.locations import caller_location
from framework.graph.reading.interception import not_reading
from framework.graph.target_tables.tables import ExternalTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DELTA = "delta"


def given_table(
    registry: Registry, spark: SparkSession, name: str, options: Mapping[str, str], *, streaming: bool
) -> ExternalTable | None:
    """Return the given rows of a table; None outside of a sandbox, and if the real table is read.

    Args:
        registry: the declarations, with the given inputs.
        spark: the session of the query.
        name: the name as written in the code, or a path such as delta.`/x`.
        options: the options of the reader.
        streaming: whether the rows are streamed.

    Raises:
        UserError: TEST_INPUT_NOT_GIVEN, TEST_INPUT_AMBIGUOUS.
    """
    if registry.inputs is None:
        return None
    kind, path = _DELTA, ""
    if "/" in name:
        kind, _, quoted = name.partition(".")
        path = quoted.strip("`").replace("``", "`")
        staged = registry.inputs.staged(
            spark,
            SourceRead(
                format=kind.lower(), path=path, options=options, schema=None, streaming=streaming,
                location=caller_location(),
            ),
        )  # fmt: skip
        folder = None if staged is None else staged.path
    else:
        folder = registry.inputs.table(spark, registry.name(name))
    if folder is None:
        return None
    reader = (spark.readStream if streaming else spark.read).format(kind).options(**options)
    with not_reading():
        frame = reader.load(folder)
    return ExternalTable(frame=frame if path else named(frame, registry.name(name)), path=folder)
