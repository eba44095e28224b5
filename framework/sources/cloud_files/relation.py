"""`spark.readStream.format("cloudFiles")`: a stand-in for query analysis, replaced by a source when a flow runs.

A query is analysed with a relation of Spark's file source that reads nothing, and has the columns of the stream and
Sluice's options. When the flow starts and its checkpoint is known, `bound` replaces the relation by a source.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from framework.engine.plans.plans import analysed_plan, of_plan, output_of, replaced_leaves
from framework.engine.plans.relations import option_of_stream
from framework.engine.streams.readers import stream_without_rows
from framework.engine.streams.stream_source import SparkSource, relation_of
from framework.foundation.files.storage_port import Storage
from framework.sources.cloud_files.columns.schemas import FileSchema, SchemaStore, resolve_schema
from framework.sources.cloud_files.settings.given_options import parse_options
from framework.sources.cloud_files.settings.options import CloudFilesOptions
from framework.sources.cloud_files.source import MARK
from framework.sources.cloud_files.stream import CloudFilesStream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def stand_in(
    spark: SparkSession,
    path: str | None,
    given: Mapping[str, str],
    schema: StructType | None,
    schemas: SchemaStore,
) -> DataFrame:
    """Return the streaming DataFrame of a source in a query function.

    Args:
        spark: the session of the query.
        path: the argument of `load`.
        given: the options of the reader, as the user spells them.
        schema: the schema of the reader; None if there is none.
        schemas: the recorded columns.

    Raises:
        UserError: an option is wrong, or the columns are not known (see `parse_options`, `resolve_schema`).
    """
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    options = parse_options(path, given, has_schema=schema is not None, zone=zone)
    lower = {name.lower(): value for name, value in given.items()}
    columns = resolve_schema(spark, options, schema, schemas)
    mark = json.dumps(
        {
            "path": options.path,
            "options": lower,
            "has_schema": schema is not None,
            "schema": columns.to_json(),
            "schemas": schemas.root,
            "zone": zone,
            **({"without_effect": options.without_effect} if options.without_effect else {}),
        }
    )
    # `_metadata` of Parquet has one more field than `_metadata` of other formats.
    kind = "parquet" if options.format == "parquet" else "json"
    # A glob without matches: Spark neither lists the folder nor raises an error for an empty one.
    return stream_without_rows(spark, kind, columns.columns, "/dev/null/[s]luice", **{MARK: mark})


def mark_of(leaf: Any) -> dict[str, Any] | None:
    """Return the content of Sluice's option in a streaming relation; None for any other leaf."""
    found = option_of_stream(leaf, MARK)
    return None if found is None else json.loads(found)


def options_of(mark: Mapping[str, Any]) -> CloudFilesOptions:
    """Return the options of a source from its mark."""
    return parse_options(mark["path"], mark["options"], has_schema=mark["has_schema"], zone=mark["zone"])


def bound(frame: DataFrame, storage: Storage, checkpoint: str, faults: list[BaseException]) -> DataFrame:
    """Return the query with its `cloudFiles` bound to a checkpoint; the same DataFrame if it has none.

    Args:
        frame: a streaming query, in the session that will run it.
        storage: keeps the checkpoint and the recorded columns.
        checkpoint: the `checkpointLocation` of the query.
        faults: gets the exception that a source raised while the query runs.
    """
    spark = frame.sparkSession
    # Spark reads equal relations (a view that a query reads twice) by one source, and so does Sluice.
    sources: list[tuple[Any, SparkSource]] = []

    def read_by_source(leaf: Any) -> Any:
        mark = mark_of(leaf)
        if mark is None:
            return None
        source = next((source for other, source in sources if other.equals(leaf)), None)
        if source is None:
            stream = _stream(spark, mark, leaf, storage=storage, checkpoint=checkpoint, number=len(sources))
            source = SparkSource(stream, f"cloudFiles[{mark['path']}]", faults)
            sources.append((leaf, source))
        return relation_of(spark, source, leaf.output())

    new = replaced_leaves(analysed_plan(frame), read_by_source)
    return frame if not sources else of_plan(spark, new)


def _stream(
    spark: SparkSession, mark: Mapping[str, Any], leaf: Any, *, storage: Storage, checkpoint: str, number: int
) -> CloudFilesStream:
    schema, options = FileSchema.from_json(mark["schema"]), options_of(mark)
    schemas = SchemaStore(storage=storage, root=mark["schemas"])
    schemas.settle(options)
    return CloudFilesStream(
        spark,
        options,
        schema,
        schemas=schemas,
        storage=storage,
        checkpoint=checkpoint,
        number=number,
        with_metadata=len(output_of(leaf)) > len(schema.columns.fields),
    )
